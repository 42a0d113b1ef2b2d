//! A window of pages around the fault, in memory and not on the device: per-VMA swap readahead
//! (Linux since 2017).
//!
//! ```text
//!   the fault is one page after the last place:    [F . . . . . . .]
//!   one page before it:                            [. . . . . . . F]
//!   anywhere else:                                 [. . . F . . . .]
//! ```
//!
//! The window is as long as a cluster of the last detector of hits would be: two more than the
//! hits since the last window, at most `2^page-cluster` pages, at least half of the window before.
//! Without hits it is two pages next to the last place, and one elsewhere. The last place is the
//! last page of the mapping that a fault asked for, even if it was in memory. A window ends at the
//! ends of the mapping, and of the page table of the fault.
//!
//! The threads of one mapping share hits and place. On a disk Linux does not use this rule, but
//! the one of `hits.rs` in its last form.
//!
//! Origin: the description of *mm, swap: VMA based swap readahead* (2017), and what later changes
//! say of it.

use super::hits::{HITS_FIRST, size};
use super::{Cluster, Rule};

/// A window in memory that follows its hits.
#[derive(Debug)]
pub(crate) struct Vma {
    /// Pages of the mapping.
    pages: u64,
    cap: u64,
    hits: u64,
    /// The last place of a fault; `None` before the first.
    last_page: Option<u64>,
    last_size: u64,
}

impl Vma {
    /// Windows of at most `cap` pages in a mapping of `pages`.
    pub(crate) fn new(pages: u64, cap: u64) -> Self {
        Self { pages, cap, hits: HITS_FIRST, last_page: None, last_size: 0 }
    }
}

impl Rule for Vma {
    fn cluster(&mut self, page: u64, _: u64) -> Cluster {
        let hits = std::mem::take(&mut self.hits);
        let last = self.last_page.replace(page);
        let forward = last.is_some_and(|last| last + 1 == page);
        let backward = last.is_some_and(|last| page + 1 == last);
        let size = size(hits, forward || backward, self.cap).max(self.last_size / 2);
        self.last_size = size;
        let before = match (forward, backward) {
            (true, _) => 0,
            (_, true) => size - 1,
            _ => (size - 1) / 2,
        };
        let table = page / TABLE_PAGES * TABLE_PAGES;
        let from = page.saturating_sub(before).max(table);
        let until = (page + size - before).min(table + TABLE_PAGES).min(self.pages);
        Cluster::Pages(from..until)
    }

    fn found(&mut self, page: u64, hit: bool) {
        self.last_page = Some(page);
        self.hits = (self.hits + u64::from(hit)).min(HITS_MAX);
    }
}

/// Pages of a page table.
const TABLE_PAGES: u64 = 512;

/// Hits are counted so far. Origin: the bits of a page's offset that the count has in Linux.
const HITS_MAX: u64 = 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn window(rule: &mut Vma, page: u64) -> (u64, u64) {
        match rule.cluster(page, 0) {
            Cluster::Pages(pages) => (pages.start, pages.end),
            Cluster::Slots(size) => panic!("{size} slots"),
        }
    }

    fn found(rule: &mut Vma, pages: std::ops::Range<u64>) {
        pages.for_each(|page| rule.found(page, true));
    }

    #[test]
    fn windows_follow_a_reader_in_either_direction() {
        let mut rule = Vma::new(1_000, 8);
        assert_eq!(window(&mut rule, 100), (97, 105), "around the first fault");
        found(&mut rule, 101..105);
        assert_eq!(window(&mut rule, 105), (105, 113));
        found(&mut rule, 106..113);
        assert_eq!(window(&mut rule, 113), (113, 121));
        let mut rule = Vma::new(1_000, 8);
        window(&mut rule, 300);
        (297..300).rev().for_each(|page| rule.found(page, true));
        assert_eq!(window(&mut rule, 296), (289, 297));
    }

    #[test]
    fn without_hits_a_window_shrinks_by_half() {
        let mut rule = Vma::new(1_000, 8);
        let windows: Vec<_> = [100, 200, 300, 400, 450].map(|page| window(&mut rule, page)).to_vec();
        assert_eq!(windows, [(97, 105), (199, 203), (300, 302), (400, 401), (450, 451)]);
        assert_eq!(window(&mut rule, 451), (451, 453), "next to the last place");
        assert_eq!(window(&mut rule, 450), (449, 451));
    }

    #[test]
    fn a_page_that_is_in_memory_is_the_last_place_too() {
        let mut rule = Vma::new(1_000, 8);
        for page in 0..4 {
            rule.cluster(page * 100, 0);
        }
        rule.found(499, false);
        assert_eq!(window(&mut rule, 500), (500, 502));
    }

    #[test]
    fn a_window_ends_with_the_mapping_and_the_page_table() {
        let mut rule = Vma::new(1_000, 8);
        assert_eq!(window(&mut rule, 999), (996, 1_000));
        let mut rule = Vma::new(1_000, 8);
        assert_eq!(window(&mut rule, 512), (512, 517));
        found(&mut rule, 513..517);
        assert_eq!(window(&mut rule, 510), (507, 512));
        let mut rule = Vma::new(1_000, 8);
        assert_eq!(window(&mut rule, 1), (0, 6));
    }
}
