//! Which records there are: by object, and by first page.
//!
//! ```text
//!   object ──> first page ──> segment, offset, bytes, hits: 12 bytes
//!                │              one: beside the object; few: a list; many: a map
//!                └ a page is looked for in its block, the nearest record before it first
//! ```
//!
//! Records that one process writes do not overlap, but those of two may; any that has the page is
//! right.
//!
//! *Invariant:* a record takes at most 128 bytes of memory, 48 if its object has others, which a
//! test measures. A segment whose number has more than 32 bits is not in the index.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::object::ObjectId;
use crate::record::{BLOCK_PAGES, PAGE, Record};

/// The index of a cache.
#[derive(Debug, Default)]
pub(crate) struct Index {
    objects: BTreeMap<ObjectId, Records>,
    records: usize,
    kept_bytes: u64,
}

/// The records of one object by their first pages: never none.
#[derive(Debug)]
enum Records {
    /// Of a small file.
    One(u64, Entry),
    /// In order.
    Few(Vec<(u64, Entry)>),
    Many(BTreeMap<u64, Entry>),
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    segment: u32,
    offset: u32,
    /// In the lower bits; how often it was read in the others.
    bytes: u32,
}

impl Entry {
    fn new(segment: u32, record: &Record) -> Self {
        Self { segment, offset: record.offset, bytes: record.bytes }
    }

    pub(crate) fn segment(self) -> u64 {
        self.segment.into()
    }

    fn bytes(self) -> u32 {
        self.bytes & BYTES_MAX
    }

    /// How often it was read.
    pub(crate) fn hits(self) -> u32 {
        self.bytes >> BYTES_BITS
    }

    /// Counts a read.
    pub(crate) fn hit(&mut self) {
        self.bytes = self.bytes.saturating_add(1 << BYTES_BITS) & !BYTES_MAX | self.bytes();
    }

    pub(crate) fn record(self, object: ObjectId, first_page: u64) -> Record {
        Record { object, first_page, bytes: self.bytes(), offset: self.offset }
    }
}

impl Records {
    fn get(&self, first: u64) -> Option<&Entry> {
        match self {
            Self::One(page, entry) => (*page == first).then_some(entry),
            Self::Few(few) => few.binary_search_by_key(&first, |&(page, _)| page).ok().map(|at| &few[at].1),
            Self::Many(many) => many.get(&first),
        }
    }

    /// Adds an entry, or replaces that of the same page.
    fn insert(&mut self, first: u64, entry: Entry) {
        match self {
            Self::One(page, one) if *page == first => *one = entry,
            Self::One(page, one) => {
                let mut few = Vec::with_capacity(2);
                few.extend([(*page, *one), (first, entry)]);
                few.sort_unstable_by_key(|&(page, _)| page);
                *self = Self::Few(few);
            }
            Self::Few(few) => match few.binary_search_by_key(&first, |&(page, _)| page) {
                Ok(at) => few[at].1 = entry,
                Err(_) if few.len() == FEW_MAX => {
                    let many = few.drain(..).chain([(first, entry)]).collect();
                    *self = Self::Many(many);
                }
                Err(at) => few.insert(at, (first, entry)),
            },
            Self::Many(many) => _ = many.insert(first, entry),
        }
    }

    /// Removes that of a page. Returns whether others are left.
    fn remove(&mut self, first: u64) -> bool {
        match self {
            Self::One(..) => return false,
            Self::Few(few) => few.retain(|&(page, _)| page != first),
            Self::Many(many) => _ = many.remove(&first),
        }
        self.is_any()
    }

    fn is_any(&self) -> bool {
        match self {
            Self::One(..) => true,
            Self::Few(few) => !few.is_empty(),
            Self::Many(many) => !many.is_empty(),
        }
    }

    /// Keeps those that `stays` keeps. Returns whether any are left.
    fn retain(&mut self, mut stays: impl FnMut(u64, &Entry) -> bool) -> bool {
        match self {
            Self::One(page, entry) => return stays(*page, entry),
            Self::Few(few) => few.retain(|(page, entry)| stays(*page, entry)),
            Self::Many(many) => many.retain(|&page, entry| stays(page, entry)),
        }
        self.is_any()
    }

    /// The last one that begins in `pages` and that `is_it`.
    fn last(&mut self, pages: Range<u64>, is_it: impl Fn(u64, &Entry) -> bool) -> Option<(u64, &mut Entry)> {
        match self {
            Self::One(page, entry) => (pages.contains(page) && is_it(*page, entry)).then_some((*page, entry)),
            Self::Few(few) => {
                let end = few.partition_point(|&(page, _)| page < pages.end);
                let before = few[..end].iter_mut().rev().take_while(|(page, _)| *page >= pages.start);
                before.map(|(page, entry)| (*page, entry)).find(|(page, entry)| is_it(*page, entry))
            }
            Self::Many(many) => {
                let before = many.range_mut(pages).rev();
                before.map(|(&page, entry)| (page, entry)).find(|(page, entry)| is_it(*page, entry))
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, Entry)> {
        let (one, few, many) = match self {
            Self::One(page, entry) => (Some((*page, *entry)), &[][..], None),
            Self::Few(few) => (None, &few[..], None),
            Self::Many(many) => (None, &[][..], Some(many.iter().map(|(&page, &entry)| (page, entry)))),
        };
        one.into_iter().chain(few.iter().copied()).chain(many.into_iter().flatten())
    }
}

impl Index {
    /// Adds a record. A longer or later one takes the place of another at the same page. Returns
    /// whether it is in the index, and what it replaced.
    pub(crate) fn insert(&mut self, segment: u64, record: &Record) -> (bool, Option<Entry>) {
        let Ok(segment) = u32::try_from(segment) else { return (false, None) };
        let entry = Entry::new(segment, record);
        let first = record.first_page;
        let Some(records) = self.objects.get_mut(&record.object) else {
            self.objects.insert(record.object, Records::One(first, entry));
            self.records += 1;
            self.kept_bytes += u64::from(entry.bytes());
            return (true, None);
        };
        let old = records.get(first).copied();
        if old.is_some_and(|old| (old.bytes(), old.segment) > (entry.bytes(), entry.segment)) {
            return (false, None);
        }
        records.insert(first, entry);
        self.records += usize::from(old.is_none());
        self.kept_bytes += u64::from(entry.bytes());
        self.kept_bytes -= old.map_or(0, |old| u64::from(old.bytes()));
        (true, old)
    }

    /// Removes a record, if it lies there. Returns its entry.
    pub(crate) fn remove(&mut self, segment: u64, record: &Record) -> Option<Entry> {
        let records = self.objects.get_mut(&record.object)?;
        let entry = *records.get(record.first_page)?;
        if (entry.segment(), entry.offset) != (segment, record.offset) {
            return None;
        }
        if !records.remove(record.first_page) {
            self.objects.remove(&record.object);
        }
        self.records -= 1;
        self.kept_bytes -= u64::from(entry.bytes());
        Some(entry)
    }

    /// Removes all records of some segments, and looks at every one for it. Returns their pages.
    pub(crate) fn remove_segments(&mut self, segments: &BTreeSet<u64>) -> Vec<(ObjectId, Range<u64>)> {
        let (kept_bytes, mut left) = (&mut self.kept_bytes, Vec::new());
        self.objects.retain(|&object, records| {
            records.retain(|first, entry| {
                let stays = !segments.contains(&entry.segment());
                if !stays {
                    *kept_bytes -= u64::from(entry.bytes());
                    left.push(entry.record(object, first).piece());
                }
                stays
            })
        });
        self.records -= left.len();
        left
    }

    /// A record that has the first `need` bytes of a page.
    pub(crate) fn find(&mut self, object: ObjectId, page: u64, need: usize) -> Option<(u64, &mut Entry)> {
        let begin = page / BLOCK_PAGES * BLOCK_PAGES;
        self.objects.get_mut(&object)?.last(begin..page + 1, |first, entry| {
            (page - first) * PAGE as u64 + need as u64 <= u64::from(entry.bytes())
        })
    }

    /// The pages of an object, merged, at most `most` ranges.
    pub(crate) fn kept(&self, object: ObjectId, most: usize) -> Vec<Range<u64>> {
        let mut merged: Vec<Range<u64>> = Vec::new();
        for (first, entry) in self.objects.get(&object).into_iter().flat_map(Records::iter) {
            let end = first + u64::from(entry.bytes()).div_ceil(PAGE as u64);
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
        self.records
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        memory_of(self.objects.len(), self.records)
    }

    /// Bytes of content.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }
}

/// Memory of these records, if nothing else is known of their objects.
pub(crate) fn memory_of_records(records: &[Record]) -> u64 {
    let mut objects: Vec<_> = records.iter().map(|record| record.object).collect();
    objects.sort_unstable();
    objects.dedup();
    memory_of(objects.len(), records.len())
}

fn memory_of(objects: usize, records: usize) -> u64 {
    objects as u64 * OBJECT_BYTES + (records - objects) as u64 * RECORD_BYTES
}

/// Bits of the longest record's length, 128 KiB.
const BYTES_BITS: u32 = 18;
const BYTES_MAX: u32 = (1 << BYTES_BITS) - 1;

/// Records of an object that lie in one piece of memory. Lower: an object of some megabytes takes
/// a node more than it needs. Higher: what is added in another order is moved more often. Source:
/// a guess, about a kilobyte.
const FEW_MAX: usize = 48;

/// Memory of an object with its first record, in bytes: 48 in a node of the map of 11, of which at
/// least six are used: 88, and a fifth more for the nodes above. Lower: the index grows past its
/// bound. Higher: less is kept than could be. Source: `tests/memory.rs`.
const OBJECT_BYTES: u64 = 112;

/// Memory of any other record, in bytes: 20 in such a node, or 24 in a list that has twice the
/// room. Lower and higher: see [`OBJECT_BYTES`]. Source: `tests/memory.rs`.
const RECORD_BYTES: u64 = 48;

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
        let mut at = |page, need| index.find(object, page, need).map(|(first, entry)| (first, entry.segment()));
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

    /// One, few and many records are found, counted and removed alike.
    #[test]
    fn an_object_may_have_any_number_of_records() {
        for records in [1, 2, 7, FEW_MAX as u64, FEW_MAX as u64 + 1, 500] {
            let (mut index, object) = (Index::default(), ObjectId([3; 16]));
            let order = |nth: u64| nth * 7 % records;
            let at = |nth: u64| record(order(nth) * 40, 4096, order(nth) as u32 * 5000);
            let coprime = records % 7 != 0;
            let all = || (0..records).filter(|&nth| coprime || nth < records).map(&at);
            let distinct: BTreeSet<u64> = all().map(|record| record.first_page).collect();
            for record in all() {
                assert!(index.insert(9, &record).0);
            }
            assert_eq!((index.len(), index.kept_bytes()), (distinct.len(), distinct.len() as u64 * 4096));
            assert_eq!(index.kept(object, 1000), []);
            let object = ObjectId([1; 16]);
            assert_eq!(index.kept(object, 1000).len(), distinct.len());
            for &first in &distinct {
                assert!(index.find(object, first + 1, 1).is_none(), "a gap");
                let (found, entry) = index.find(object, first, 4096).expect("it is there");
                assert_eq!(found, first);
                (0..20_000).for_each(|_| entry.hit());
                assert_eq!((entry.hits(), entry.bytes()), ((1 << (32 - BYTES_BITS)) - 1, 4096));
            }
            for (left, &first) in distinct.iter().enumerate().rev() {
                let gone = record(first, 4096, (first / 40) as u32 * 5000);
                assert!(index.remove(8, &gone).is_none() && index.remove(9, &gone).is_some());
                assert_eq!(index.len(), left);
            }
            assert_eq!((index.kept_bytes(), index.memory_bytes()), (0, 0));
        }
    }

    #[test]
    fn a_record_of_the_greatest_length_keeps_it() {
        let (mut index, longest) = (Index::default(), record(32, 32 * 4096, u32::MAX));
        index.insert(u64::from(u32::MAX), &longest);
        let (_, entry) = index.find(longest.object, 63, 4096).expect("it has the last page");
        entry.hit();
        assert_eq!((entry.record(longest.object, 32), entry.segment()), (longest, u32::MAX.into()));
        assert_eq!(index.insert(1 << 32, &record(64, 1, 4096)), (false, None));
    }
}
