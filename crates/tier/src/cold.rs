//! Which objects are in segments whose records are not in memory.
//!
//! ```text
//!   a segment of files of 64 MiB: 512 records, one object: 57 KiB hot, 100 bytes cold
//!   a segment of files of 4 KiB: 15,000 records and objects: 1.6 MiB hot, 180 KiB cold
//! ```
//!
//! An object is known by 32 bits of its identity, so a few others pass for it: whether a segment
//! has it is decided by its records, once they are read.

use std::collections::{BTreeMap, BTreeSet};

use crate::object::ObjectId;
use crate::record::Record;

/// The objects of cold segments.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// Of each segment the bytes of its content.
    segments: BTreeMap<u64, u64>,
    /// Objects, each with a segment that has it.
    objects: BTreeSet<(u32, u64)>,
}

fn short(object: ObjectId) -> u32 {
    object.halves()[0] as u32
}

impl Cold {
    /// Adds a segment with these records.
    pub(crate) fn add(&mut self, segment: u64, records: &[Record]) {
        let bytes = records.iter().map(|record| u64::from(record.bytes)).sum();
        self.segments.insert(segment, bytes);
        self.objects.extend(records.iter().map(|record| (short(record.object), segment)));
    }

    /// Removes a segment, by its records where they are known.
    pub(crate) fn remove(&mut self, segment: u64, records: Option<&[Record]>) {
        if self.segments.remove(&segment).is_none() {
            return;
        }
        match records {
            Some(records) => {
                for record in records {
                    self.objects.remove(&(short(record.object), segment));
                }
            }
            None => self.objects.retain(|&(_, of)| of != segment),
        }
    }

    pub(crate) fn has(&self, segment: u64) -> bool {
        self.segments.contains_key(&segment)
    }

    /// Segments that may have an object, the newest first.
    pub(crate) fn of(&self, object: ObjectId) -> Vec<u64> {
        let short = short(object);
        self.objects.range((short, 0)..=(short, u64::MAX)).rev().map(|&(_, segment)| segment).collect()
    }

    /// Whether a segment may have an object.
    pub(crate) fn has_some_of(&self, object: ObjectId) -> bool {
        let short = short(object);
        self.objects.range((short, 0)..=(short, u64::MAX)).next().is_some()
    }

    /// Bytes of content.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.segments.len() as u64 * SEGMENT_BYTES + self.objects.len() as u64 * OBJECT_BYTES
    }

    /// Memory of a segment with these records, in bytes.
    pub(crate) fn memory_of(records: &[Record]) -> u64 {
        let mut objects: Vec<_> = records.iter().map(|record| short(record.object)).collect();
        objects.sort_unstable();
        objects.dedup();
        SEGMENT_BYTES + objects.len() as u64 * OBJECT_BYTES
    }
}

/// Memory of an object, in bytes: 16 in a node of the set, of which at least six of eleven are
/// used. Lower: more memory than is told. Higher: fewer segments than could be. Source:
/// arithmetic, as for the index.
const OBJECT_BYTES: u64 = 32;

/// Memory of a segment, in bytes: 16 in a node of the map, and what policy and the state know of
/// it. Lower and higher: see [`OBJECT_BYTES`]. Source: arithmetic.
const SEGMENT_BYTES: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(object: u8) -> Record {
        Record { object: ObjectId([object; 16]), first_page: 0, bytes: 5000, offset: 4096 }
    }

    #[test]
    fn objects_are_found_in_the_newest_segment_first() {
        let mut cold = Cold::default();
        cold.add(3, &[record(1), record(2), record(1)]);
        cold.add(9, &[record(1)]);
        assert_eq!((cold.of(ObjectId([1; 16])), cold.of(ObjectId([2; 16]))), (vec![9, 3], vec![3]));
        assert_eq!((cold.kept_bytes(), cold.memory_bytes()), (20_000, 3 * OBJECT_BYTES + 2 * SEGMENT_BYTES));
        assert_eq!(Cold::memory_of(&[record(1), record(2), record(1)]), 2 * OBJECT_BYTES + SEGMENT_BYTES);
        cold.remove(3, Some(&[record(1), record(2)]));
        cold.remove(9, None);
        assert_eq!((cold.kept_bytes(), cold.memory_bytes(), cold.has(9)), (0, 0, false));
    }
}
