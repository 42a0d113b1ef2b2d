//! Which pages of a file the tier has: a local copy of what was read once.
//!
//! ```text
//!   pages    |....####....########......|      # the tier has them
//!   hole         |-----------|                 a request ends where its source does:
//!                |tier|stor.|tier|
//! ```
//!
//! A request has one source. What the tier has costs no place at the storage, no share of its
//! time, and says nothing of the link; so it must not be mixed with what has to be fetched.
//!
//! *Invariant:* ranges are not empty, and no two of them touch.
//!
//! The file does not decide what the tier keeps (`tier`). What the driver said may be out of date:
//! then it reads from the storage, and says so. Source: docs/decisions/0075.

use alloc::collections::BTreeMap;

use crate::units::{Extent, Source};

/// Pages of one file that the tier has.
#[derive(Debug, Clone, Default)]
pub struct Cached {
    /// The start of each range, and its end.
    ranges: BTreeMap<u64, u64>,
}

impl Cached {
    /// The tier has `extent` now. Forgotten if that would be one range too many.
    pub fn insert(&mut self, extent: Extent) {
        let Extent { mut start, mut end } = extent;
        if extent.is_empty() {
            return;
        }
        while let Some((&from, &until)) = self.ranges.range(..=end).next_back().filter(|&(_, &until)| until >= start) {
            self.ranges.remove(&from);
            (start, end) = (start.min(from), end.max(until));
        }
        if self.ranges.len() < RANGES_MAX {
            self.ranges.insert(start, end);
        }
    }

    /// The tier does not have `extent` any more.
    pub fn remove(&mut self, extent: Extent) {
        if extent.is_empty() {
            return;
        }
        while let Some((&from, &until)) =
            self.ranges.range(..extent.end).next_back().filter(|&(_, &until)| until > extent.start)
        {
            self.ranges.remove(&from);
            if from < extent.start {
                self.ranges.insert(from, extent.start);
            }
            if until > extent.end {
                self.ranges.insert(extent.end, until);
            }
        }
    }

    /// What the tier has, in order.
    pub fn ranges(&self) -> impl Iterator<Item = Extent> {
        self.ranges.iter().map(|(&start, &end)| Extent::new(start, end))
    }

    /// The pages at the start of `extent` that have the same source, and that.
    pub(crate) fn first_part(&self, extent: Extent) -> (Extent, Source) {
        let before = self.ranges.range(..=extent.start).next_back();
        if let Some((_, &until)) = before.filter(|&(_, &until)| until > extent.start) {
            return (Extent::new(extent.start, until.min(extent.end)), Source::Tier);
        }
        let next = self.ranges.range(extent.start..extent.end).next();
        (Extent::new(extent.start, next.map_or(extent.end, |(&from, _)| from)), Source::Storage)
    }

    /// Whether the tier has some of `extent`.
    pub(crate) fn overlaps(&self, extent: Extent) -> bool {
        self.first_part(extent) != (extent, Source::Storage)
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.len() as u64 * RANGE_BYTES
    }
}

/// Ranges that are known of a file at most: 2 MiB of memory. Lower: of a file of which random
/// pages are cached, more are fetched again. Higher: more memory for one file. Source: a guess,
/// not measured.
const RANGES_MAX: usize = 1 << 16;

/// Memory that a range takes, in bytes. Lower: more is held than is charged. Higher: fewer pages
/// stay. Source: derived: two numbers in a tree whose nodes are two thirds full.
const RANGE_BYTES: u64 = 32;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_pages(changes in prop::collection::vec((any::<bool>(), 0..64_u64, 0..16_u64), 0..40)) {
            let (mut cached, mut pages) = (Cached::default(), BTreeSet::new());
            for (is_new, start, count) in changes {
                let extent = Extent::new(start, start + count);
                if is_new {
                    cached.insert(extent);
                    pages.extend(start..start + count);
                } else {
                    cached.remove(extent);
                    pages.retain(|page| !extent.contains(*page));
                }
                let starts = (0..80).filter(|page| pages.contains(page) && !pages.contains(&page.wrapping_sub(1)));
                prop_assert_eq!(cached.bytes(), starts.count() as u64 * RANGE_BYTES);
                let (mut from, mut seen) = (0, Vec::new());
                while from < 80 {
                    let (part, source) = cached.first_part(Extent::new(from, 80));
                    prop_assert!(part.start == from && part.end > from);
                    seen.extend((part.start..part.end).filter(|_| source == Source::Tier));
                    from = part.end;
                }
                prop_assert_eq!(seen, pages.iter().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_part_ends_where_its_source_does() {
        let mut cached = Cached::default();
        cached.insert(Extent::new(10, 20));
        let part = |start, end| cached.first_part(Extent::new(start, end));
        assert_eq!(part(0, 30), (Extent::new(0, 10), Source::Storage));
        assert_eq!(part(10, 30), (Extent::new(10, 20), Source::Tier));
        assert_eq!(part(12, 15), (Extent::new(12, 15), Source::Tier));
        assert_eq!(part(20, 30), (Extent::new(20, 30), Source::Storage));
        assert!(cached.overlaps(Extent::new(0, 11)) && !cached.overlaps(Extent::new(20, 30)));
    }

    #[test]
    fn a_file_has_no_more_ranges_than_may_be() {
        let mut cached = Cached::default();
        (0..RANGES_MAX as u64 + 100).for_each(|at| cached.insert(Extent::new(2 * at, 2 * at + 1)));
        assert_eq!(cached.bytes(), RANGES_MAX as u64 * RANGE_BYTES);
        cached.insert(Extent::new(1, 2));
        assert_eq!(cached.bytes(), (RANGES_MAX as u64 - 1) * RANGE_BYTES, "it joins two");
    }
}
