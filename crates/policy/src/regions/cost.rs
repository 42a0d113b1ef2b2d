//! What a read from the spill file costs: a part for each request and a part for each page, from how long requests took.
//!
//! ```text
//!   ns  |                          o   requests of many pages: their mean
//!       |              . - ' '
//!       |  o - ' '                     requests of one or two: theirs
//!       |  ^ request      slope: page
//!       +------------------------------ pages
//! ```
//!
//! Only requests that were alone are counted: what waits for others says nothing of its own cost.

use crate::units::Nanos;

/// A mean of the last few.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    pages_q8: u64,
    ns: u64,
    count: u32,
}

impl Mean {
    fn add(&mut self, pages: u64, ns: u64) {
        self.count = (self.count + 1).min(MEAN_OF);
        let of = u64::from(self.count);
        self.pages_q8 = (self.pages_q8 * (of - 1) + (pages << 8)) / of;
        self.ns = (self.ns * (of - 1) + ns) / of;
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct SwapCost {
    small: Mean,
    large: Mean,
}

impl SwapCost {
    /// A request of so many pages, alone, took `took`.
    pub(crate) fn took(&mut self, pages: u64, took: Nanos) {
        // An hour is no cost of a read, and sums must not overflow.
        let ns = took.0.min(3_600_000_000_000);
        if pages <= SMALL {
            self.small.add(pages, ns);
        } else if pages >= LARGE {
            self.large.add(pages, ns);
        }
    }

    /// How many pages take as long as the request itself: so many more at most double its cost. `None` before both are known.
    pub(crate) fn pages_of_request(&self) -> Option<u64> {
        if self.small.count < KNOWN || self.large.count < KNOWN {
            return None;
        }
        let pages_q8 = self.large.pages_q8 - self.small.pages_q8;
        let slope_q8 = self.large.ns.saturating_sub(self.small.ns) << 8;
        let page_ns = (slope_q8 / pages_q8).max(1);
        let request_ns = self.small.ns.saturating_sub((page_ns * self.small.pages_q8) >> 8);
        Some(request_ns / page_ns)
    }
}

/// Requests of a mean.
const MEAN_OF: u32 = 64;

/// Requests after which a mean is known.
const KNOWN: u32 = 4;

/// Pages of a small request at most, and of a large one at least.
const SMALL: u64 = 2;
const LARGE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_and_page_are_told_apart() {
        let mut cost = SwapCost::default();
        let took = |pages: u64| Nanos(100_000 + pages * 5_000);
        for pages in [1, 2, 1, 1, 2, 64, 128] {
            cost.took(pages, took(pages));
        }
        assert_eq!(cost.pages_of_request(), None, "two large ones are too few");
        for pages in [32, 256, 64] {
            cost.took(pages, took(pages));
        }
        let found = cost.pages_of_request().unwrap();
        assert!((18..=21).contains(&found), "{found}, where twenty pages take as long as a request");
    }

    #[test]
    fn pages_that_cost_nothing_are_no_division_by_zero() {
        let mut cost = SwapCost::default();
        for pages in [1, 1, 1, 1, 16, 16, 16, 16] {
            cost.took(pages, Nanos(50_000));
        }
        assert!(cost.pages_of_request().unwrap() > 10_000);
        cost.took(1, Nanos(u64::MAX));
        assert!(cost.pages_of_request().is_some());
    }
}
