//! Cost: what a read from the spill file takes, as a part for the request and a part for each
//! page.
//!
//! ```text
//!   ns  |                          o   requests of 16 pages and more: their mean
//!       |              . - ' '
//!       |  o - ' '                     requests of one or two pages: their mean
//!       |  ^ request      slope: page
//!       +------------------------------ pages
//! ```
//!
//! Only requests that were alone at the spill file are counted: one that waits for others tells
//! nothing about its own cost. Requests of 3 to 15 pages are not counted.
//!
//! *Invariant:* nothing is known before both means have four requests.
//!
//! This file does not decide how many pages are read; `readahead` does. Source:
//! docs/decisions/0032, point 7.

use crate::units::Nanos;

/// The mean size and time of the last requests of a kind.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    /// Pages, in 256ths.
    pages_q8: u64,
    ns: u64,
    count: u32,
}

impl Mean {
    fn add(&mut self, pages: u64, ns: u64) {
        self.count = (self.count + 1).min(MEAN_REQUESTS);
        let of = u64::from(self.count);
        self.pages_q8 = (self.pages_q8 * (of - 1) + (pages << 8)) / of;
        self.ns = (self.ns * (of - 1) + ns) / of;
    }
}

/// The means of small and of large requests.
#[derive(Debug, Default)]
pub(crate) struct ReadCost {
    small: Mean,
    large: Mean,
}

impl ReadCost {
    /// A request for `pages` pages, alone at the spill file, took `took`.
    pub(crate) fn took(&mut self, pages: u64, took: Nanos) {
        // At most an hour, so that sums do not overflow.
        let ns = took.0.min(3_600_000_000_000);
        if pages <= SMALL_PAGES_MAX {
            self.small.add(pages, ns);
        } else if pages >= LARGE_PAGES_MIN {
            self.large.add(pages, ns);
        }
    }

    /// The number of pages that take as long as the request itself: so many more pages at most
    /// double the cost. `None` before both means are known.
    pub(crate) fn pages_of_request(&self) -> Option<u64> {
        if self.small.count < KNOWN_REQUESTS || self.large.count < KNOWN_REQUESTS {
            return None;
        }
        let pages_q8 = self.large.pages_q8 - self.small.pages_q8;
        let slope_q8 = self.large.ns.saturating_sub(self.small.ns) << 8;
        let page_ns = (slope_q8 / pages_q8).max(1);
        let request_ns = self.small.ns.saturating_sub((page_ns * self.small.pages_q8) >> 8);
        Some(request_ns / page_ns)
    }
}

/// Requests that a mean is taken over. Lower: single slow requests show. Higher: a change of the
/// storage is followed later. Source: a guess, not measured.
const MEAN_REQUESTS: u32 = 64;

/// Requests after which a mean is known. Lower: the first few requests decide the size of
/// clusters. Higher: clusters stay at the size of the kernel for longer. Source: a guess, not
/// measured.
const KNOWN_REQUESTS: u32 = 4;

/// Pages of a small request, at most. Lower: requests for two pages do not count. Higher: pages
/// add to the mean that stands for the request, and the slope has a shorter base. Source: a guess,
/// not measured.
const SMALL_PAGES_MAX: u64 = 2;

/// Pages of a large request, at least. Lower: the slope has a shorter base. Higher: regions with
/// small clusters never have a large request. Source: a guess, not measured.
const LARGE_PAGES_MIN: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_request_and_of_a_page_are_told_apart() {
        let mut cost = ReadCost::default();
        let took = |pages: u64| Nanos(100_000 + pages * 5_000);
        for pages in [1, 2, 1, 1, 2, 64, 128] {
            cost.took(pages, took(pages));
        }
        assert_eq!(cost.pages_of_request(), None, "two large requests are too few");
        for pages in [32, 256, 64] {
            cost.took(pages, took(pages));
        }
        let found = cost.pages_of_request().unwrap();
        assert!((18..=21).contains(&found), "{found} pages, where 20 take as long as a request");
    }

    #[test]
    fn pages_that_cost_nothing_do_not_divide_by_zero() {
        let mut cost = ReadCost::default();
        for pages in [1, 1, 1, 1, 16, 16, 16, 16] {
            cost.took(pages, Nanos(50_000));
        }
        assert!(cost.pages_of_request().unwrap() > 10_000);
        cost.took(1, Nanos(u64::MAX));
        assert!(cost.pages_of_request().is_some());
    }
}
