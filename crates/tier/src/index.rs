//! Which records there are: one ordered map, by object and first page.
//!
//! ```text
//!   (object, first page) ──> segment, offset, bytes, hits
//!   a page is looked for among the records of its block, the nearest before it first
//! ```
//!
//! Records that one process writes do not overlap, but those of two may; any that has the page is
//! right.
//!
//! *Invariant:* an entry takes at most 128 bytes of memory, which a test measures.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::object::ObjectId;
use crate::record::{BLOCK_PAGES, PAGE, Record};

/// The index of a cache.
#[derive(Debug, Default)]
pub(crate) struct Index {
    records: BTreeMap<(ObjectId, u64), Entry>,
    kept_bytes: u64,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) segment: u64,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) hits: u16,
}

impl Entry {
    pub(crate) fn record(&self, object: ObjectId, first_page: u64) -> Record {
        Record { object, first_page, bytes: self.bytes, offset: self.offset }
    }
}

impl Index {
    /// Adds a record. A longer or later one takes the place of another at the same page. Returns
    /// whether it is in the index, and what it replaced.
    pub(crate) fn insert(&mut self, segment: u64, record: &Record) -> (bool, Option<Entry>) {
        let entry = Entry { segment, offset: record.offset, bytes: record.bytes, hits: 0 };
        let old = self.records.get(&(record.object, record.first_page)).copied();
        if old.is_some_and(|old| (old.bytes, old.segment) > (entry.bytes, entry.segment)) {
            return (false, None);
        }
        self.records.insert((record.object, record.first_page), entry);
        self.kept_bytes += u64::from(record.bytes);
        self.kept_bytes -= old.map_or(0, |old| u64::from(old.bytes));
        (true, old)
    }

    /// Removes a record, if it lies there. Returns its entry.
    pub(crate) fn remove(&mut self, segment: u64, record: &Record) -> Option<Entry> {
        let key = (record.object, record.first_page);
        let entry = *self.records.get(&key)?;
        if (entry.segment, entry.offset) != (segment, record.offset) {
            return None;
        }
        self.records.remove(&key);
        self.kept_bytes -= u64::from(entry.bytes);
        Some(entry)
    }

    /// Removes all records of some segments, and looks at every one for it. Returns their pages.
    pub(crate) fn remove_segments(&mut self, segments: &BTreeSet<u64>) -> Vec<(ObjectId, Range<u64>)> {
        let (kept_bytes, mut left) = (&mut self.kept_bytes, Vec::new());
        self.records.retain(|&(object, first), entry| {
            let stays = !segments.contains(&entry.segment);
            if !stays {
                *kept_bytes -= u64::from(entry.bytes);
                left.push(entry.record(object, first).piece());
            }
            stays
        });
        left
    }

    /// A record that has the first `need` bytes of a page.
    pub(crate) fn find(&mut self, object: ObjectId, page: u64, need: usize) -> Option<(u64, &mut Entry)> {
        let begin = page / BLOCK_PAGES * BLOCK_PAGES;
        let mut before = self.records.range_mut((object, begin)..=(object, page)).rev();
        before.find_map(|(&(_, first), entry)| {
            let end = (page - first) * PAGE as u64 + need as u64;
            (end <= u64::from(entry.bytes)).then_some((first, entry))
        })
    }

    /// The pages of an object, merged, at most `most` ranges.
    pub(crate) fn kept(&self, object: ObjectId, most: usize) -> Vec<Range<u64>> {
        let mut merged: Vec<Range<u64>> = Vec::new();
        for (&(_, first), entry) in self.records.range((object, 0)..=(object, u64::MAX)) {
            let end = first + u64::from(entry.bytes).div_ceil(PAGE as u64);
            if let Some(last) = merged.last_mut().filter(|last| last.end >= first) {
                last.end = last.end.max(end);
                continue;
            }
            if merged.len() == most {
                break;
            }
            merged.push(first..end);
        }
        merged
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of content.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }
}

/// Memory of an entry, in bytes. A node of the map holds 11 entries of 48 bytes, and at least six
/// of them are used: 88 bytes, and a fifth more for the nodes above. Lower: the index grows past
/// its bound. Higher: less is kept than could be. Source: `tests/memory.rs`.
pub(crate) const ENTRY_BYTES: u64 = 112;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(first_page: u64, bytes: u32, offset: u32) -> Record {
        Record { object: ObjectId([1; 16]), first_page, bytes, offset }
    }

    #[test]
    fn a_page_is_found_in_the_record_that_has_all_of_it() {
        let (mut index, object) = (Index::default(), ObjectId([1; 16]));
        index.insert(1, &record(0, 3 * 4096 + 10, 4096));
        index.insert(1, &record(5, 4096, 50_000));
        index.insert(2, &record(3, 4096, 4096));
        let mut at = |page, need| index.find(object, page, need).map(|(first, entry)| (first, entry.segment));
        assert_eq!((at(2, 4096), at(3, 4096), at(4, 1), at(5, 4096)), (Some((0, 1)), Some((3, 2)), None, Some((5, 1))));
        assert_eq!(index.kept(object, 10), [0..4, 5..6]);
        assert_eq!(index.kept(object, 1).first(), Some(&(0..4)));
        index.remove_segments(&BTreeSet::from([1]));
        assert_eq!(index.kept(object, 10).first(), Some(&(3..4)));
        assert_eq!((index.kept_bytes(), index.len()), (4096, 1));
        assert!(index.remove(2, &record(3, 4096, 4097)).is_none());
        assert!(index.remove(2, &record(3, 4096, 4096)).is_some());
    }

    #[test]
    fn the_longer_record_stays() {
        let mut index = Index::default();
        assert!(index.insert(2, &record(0, 8192, 4096)).0);
        assert!(!index.insert(3, &record(0, 4096, 4096)).0);
        assert!(index.insert(3, &record(0, 8192, 4096)).0);
        assert_eq!((index.kept_bytes(), index.len()), (8192, 1));
    }
}
