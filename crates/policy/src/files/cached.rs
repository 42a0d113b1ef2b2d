//! Which pages of a file the tier has: a local copy of what was read once.
//!
//! ```text
//!   pages    |####....#..........######....|      # the tier has them
//!   hole       |-------------------|         a request ends where its source does; short runs
//!              |t|   storage  |tier|         between pages of the storage are fetched with them
//! ```
//!
//! A request has one source. What the tier has costs no place at the storage, no share of its
//! time, and says nothing of the link; so it must not be mixed with what has to be fetched. But a
//! request is dearer than a short run.
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
        let ends = |&(&from, &until): &(&u64, &u64)| until - from >= THROUGH_PAGES || until >= extent.end;
        let next = self.ranges.range(extent.start..extent.end).find(ends);
        (Extent::new(extent.start, next.map_or(extent.end, |(&from, _)| from)), Source::Storage)
    }

    /// Whether the tier has some of `extent`.
    pub(crate) fn overlaps(&self, extent: Extent) -> bool {
        self.ranges.range(..extent.end).next_back().is_some_and(|(_, &until)| until > extent.start)
    }

    /// Whether the tier has all of `extent`.
    pub(crate) fn covers(&self, extent: Extent) -> bool {
        self.first_part(extent) == (extent, Source::Tier)
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.len() as u64 * RANGE_BYTES
    }
}

/// The longest run of the tier's pages, in pages, that is fetched again with those around it, less
/// one: 128 KiB. Lower: a file of which every other page is cached takes a request for each of the
/// others. Higher: more is fetched that is there already. Source: derived: what a link of 700 MB/s
/// carries while a request is made (`queue::link`), as for the gaps of a progression.
const THROUGH_PAGES: u64 = 32;

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
                    let is_cached = |page: u64| pages.contains(&page);
                    prop_assert_eq!(source == Source::Tier, is_cached(part.start));
                    prop_assert_eq!(source == Source::Tier, is_cached(part.end - 1));
                    prop_assert_eq!(cached.covers(part), source == Source::Tier);
                    prop_assert_eq!(cached.overlaps(part), (part.start..part.end).any(is_cached));
                    seen.extend((part.start..part.end).filter(|&page| source == Source::Tier || is_cached(page)));
                    from = part.end;
                }
                prop_assert_eq!(seen, pages.iter().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_part_ends_where_its_source_does() {
        let mut cached = Cached::default();
        cached.insert(Extent::new(10, 50));
        let part = |start, end| cached.first_part(Extent::new(start, end));
        assert_eq!(part(0, 60), (Extent::new(0, 10), Source::Storage));
        assert_eq!(part(10, 60), (Extent::new(10, 50), Source::Tier));
        assert_eq!(part(12, 15), (Extent::new(12, 15), Source::Tier));
        assert_eq!(part(50, 60), (Extent::new(50, 60), Source::Storage));
        assert!(cached.overlaps(Extent::new(0, 11)) && !cached.overlaps(Extent::new(50, 60)));
    }

    #[test]
    fn a_short_run_between_others_is_fetched_with_them() {
        let mut cached = Cached::default();
        (0..4).for_each(|nth| cached.insert(Extent::new(10 + 40 * nth, 10 + 40 * nth + 31)));
        cached.insert(Extent::new(200, 232));
        let part = |start, end| cached.first_part(Extent::new(start, end));
        assert_eq!(part(0, 300), (Extent::new(0, 200), Source::Storage));
        assert_eq!(part(0, 100), (Extent::new(0, 90), Source::Storage), "it does not end in one");
        assert_eq!(part(10, 300), (Extent::new(10, 41), Source::Tier));
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
