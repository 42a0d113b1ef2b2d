//! Pages of listings that are asked for again, and have not come yet.
//!
//! ```text
//!   begin ── pages of one listing: | 0 | 1 | 2 |
//!   has ──── an entry in one of them is awaited
//!   end ──── by the listing that asked, and by no other
//! ```
//!
//! A listing may be replaced while a page of it is on its way, and the same page of its successor
//! be asked for by then: names wait for that one until it has come itself.
//!
//! The file does not know what is done with them (`again`). Source: docs/decisions/0128, 0130.

use std::collections::BTreeMap;

use foreread_policy::DirId;

/// Pages on their way.
#[derive(Debug, Default)]
pub(crate) struct Renewing {
    /// The directory and the entry after the last one of each page, to the first one and the
    /// number of the listing.
    pages: BTreeMap<(DirId, u32), (u32, u64)>,
}

impl Renewing {
    /// The listing `number` of `dir` asks for the entries `[from, to)`.
    pub(crate) fn begin(&mut self, dir: DirId, number: u64, from: u32, to: u32) {
        self.pages.insert((dir, to), (from, number));
    }

    /// What that listing has asked for from the entry `from` on has come, or will not.
    pub(crate) fn end(&mut self, dir: DirId, number: u64, from: u32) {
        self.pages.retain(|&(of, _), asked| of != dir || *asked != (from, number));
    }

    /// Whether the page with this entry is on its way.
    pub(crate) fn has(&self, dir: DirId, place: u32) -> bool {
        let next = self.pages.range((dir, place + 1)..).next();
        next.is_some_and(|(&(of, _), &(from, _))| of == dir && from <= place)
    }

    /// Nothing is on its way any more.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_listing_that_was_replaced_does_not_end_that_of_its_successor() {
        let mut renewing = Renewing::default();
        let [dir, other] = [7, 8].map(DirId);
        renewing.begin(dir, 1, 0, 1_000);
        renewing.begin(dir, 1, 1_000, 2_000);
        renewing.begin(other, 3, 0, 1_000);
        renewing.begin(dir, 2, 0, 1_000);
        renewing.end(dir, 1, 0);
        assert!(renewing.has(dir, 0) && renewing.has(dir, 999), "that of its successor");
        renewing.end(dir, 2, 0);
        assert!(!renewing.has(dir, 999) && renewing.has(dir, 1_000) && renewing.has(other, 999));
        assert!(!renewing.has(dir, 2_000));
        renewing.clear();
        assert!(!renewing.has(other, 0));
    }
}
