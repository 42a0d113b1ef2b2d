//! Which pages of a region are whose: blocks, and free extents between them.
//!
//! ```text
//!   take: the lowest free extent that is long enough     give: joined with its free neighbours
//! ```
//!
//! The lowest places are used first, because what a region keeps of each page is charged for pages
//! that were ever used.

use std::collections::BTreeMap;

use foreread_policy::Extent;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Extents {
    /// Lengths by first pages.
    blocks: BTreeMap<u64, u64>,
    free: BTreeMap<u64, u64>,
    used: u64,
}

impl Extents {
    /// `pages` pages, all free.
    pub(super) fn new(pages: u64) -> Self {
        Self { blocks: BTreeMap::new(), free: BTreeMap::from([(0, pages)]), used: 0 }
    }

    /// How many blocks there are.
    pub(super) fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Pages of all blocks.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The pages of the block that begins at `start`.
    pub(super) fn len_of(&self, start: u64) -> Option<u64> {
        self.blocks.get(&start).copied()
    }

    /// A new block of so many pages.
    pub(super) fn take(&mut self, pages: u64) -> Option<Extent> {
        let start = self.free.iter().find(|(_, free)| **free >= pages).map(|(start, _)| *start)?;
        self.cut_free(start, pages);
        self.blocks.insert(start, pages);
        self.used += pages;
        Some(Extent::new(start, start + pages))
    }

    /// The block that begins at `start` is free.
    pub(super) fn give(&mut self, start: u64) {
        if let Some(pages) = self.blocks.remove(&start) {
            self.used -= pages;
            self.add_free(start, pages);
        }
    }

    /// Gives a block another length, where it lies. Whether there was room for that.
    pub(super) fn resize(&mut self, start: u64, wanted: u64) -> bool {
        let Some(pages) = self.len_of(start) else { return false };
        if wanted < pages {
            self.add_free(start + wanted, pages - wanted);
        } else if wanted > pages {
            let behind = start + pages;
            if self.free.get(&behind).is_none_or(|free| *free < wanted - pages) {
                return false;
            }
            self.cut_free(behind, wanted - pages);
        }
        self.blocks.insert(start, wanted);
        self.used = self.used - pages + wanted;
        true
    }

    /// The first `pages` of the free extent at `start` are not free any more.
    fn cut_free(&mut self, start: u64, pages: u64) {
        if let Some(free) = self.free.remove(&start)
            && free > pages
        {
            self.free.insert(start + pages, free - pages);
        }
    }

    fn add_free(&mut self, mut start: u64, mut pages: u64) {
        if let Some((before, free)) = self.free.range(..start).next_back().map(|(at, free)| (*at, *free))
            && before + free == start
        {
            self.free.remove(&before);
            (start, pages) = (before, free + pages);
        }
        if let Some(behind) = self.free.remove(&(start + pages)) {
            pages += behind;
        }
        self.free.insert(start, pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_place_is_taken_and_neighbours_are_joined() {
        let mut extents = Extents::new(100);
        let starts: Vec<_> = (0..4).map(|_| extents.take(25).map(|block| block.start)).collect();
        assert_eq!(starts, [Some(0), Some(25), Some(50), Some(75)]);
        assert_eq!(extents.take(1), None);
        extents.give(25);
        extents.give(75);
        assert_eq!((extents.take(26), extents.count(), extents.used()), (None, 2, 50));
        extents.give(50);
        assert_eq!(extents.take(75), Some(Extent::new(25, 100)));
        extents.give(0);
        extents.give(25);
        assert_eq!(extents.take(100), Some(Extent::new(0, 100)));
    }

    #[test]
    fn a_block_grows_into_what_is_free_behind_it() {
        let mut extents = Extents::new(100);
        extents.take(10);
        let next = extents.take(10).expect("a place");
        assert!(!extents.resize(0, 11) && extents.resize(next.start, 30) && extents.resize(0, 5));
        assert!(!extents.resize(0, 11) && extents.resize(0, 10) && !extents.resize(next.start, 91));
        assert_eq!((extents.used(), extents.len_of(0), extents.len_of(10)), (40, Some(10), Some(30)));
        extents.give(10);
        assert!(extents.resize(0, 100) && !extents.resize(50, 1));
    }
}
