//! A hash table by file and number, with open addressing: if the place of an entry is taken, it
//! lies in the next free one.
//!
//! ```text
//!   place           0   1   2   3   4
//!   a and b, home 1; d, home 2
//!                 | . | a | b | d | . |       b and d lie one place behind their homes
//!   remove a      | . | b | d | . | . |       displaced entries move up: no gap between an
//!                                             entry and its home
//! ```
//!
//! *Invariant:* every place from an entry's home to the entry itself is taken.
//!
//! The table cannot be iterated, so no decision depends on the order of its entries. The hash has
//! no random seed: policy makes the same decisions in every run. Source: linear probing with
//! backward shift deletion (Knuth, The Art of Computer Programming 3, 6.4).

use alloc::vec::Vec;

use crate::units::FileId;

/// A map from a file and a number to a value.
#[derive(Debug)]
pub(crate) struct HashTable<V> {
    /// Empty, or a power of two of places.
    entries: Vec<Entry<V>>,
    used: usize,
}

#[derive(Debug)]
struct Entry<V> {
    /// [`NO_FILE`] in a free place.
    file: FileId,
    number: u64,
    value: V,
}

impl<V: Default> Entry<V> {
    fn empty() -> Self {
        Self { file: NO_FILE, number: 0, value: V::default() }
    }

    fn is(&self, file: FileId, number: u64) -> bool {
        self.number == number && self.file == file
    }
}

impl<V> Default for HashTable<V> {
    fn default() -> Self {
        Self { entries: Vec::new(), used: 0 }
    }
}

impl<V: Default> HashTable<V> {
    pub(crate) fn get(&self, file: FileId, number: u64) -> Option<&V> {
        self.find(file, number).map(|at| &self.entries[at].value)
    }

    pub(crate) fn get_mut(&mut self, file: FileId, number: u64) -> Option<&mut V> {
        self.find(file, number).map(|at| &mut self.entries[at].value)
    }

    /// The value of an entry; one with the default value is added if there is none.
    pub(crate) fn entry(&mut self, file: FileId, number: u64) -> &mut V {
        let at = self.find(file, number).unwrap_or_else(|| {
            self.used += 1;
            if self.used * LOAD_OF > self.entries.len() * LOAD_MAX {
                self.resize((self.entries.len() * 2).max(ENTRIES_MIN));
            }
            let at = self.probe(file, number);
            (self.entries[at].file, self.entries[at].number) = (file, number);
            at
        });
        &mut self.entries[at].value
    }

    /// Removes an entry and returns its value.
    pub(crate) fn remove(&mut self, file: FileId, number: u64) -> Option<V> {
        let mut gap = self.find(file, number)?;
        let removed = core::mem::replace(&mut self.entries[gap], Entry::empty()).value;
        self.used -= 1;
        let mask = self.entries.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let Entry { file, number, .. } = self.entries[at];
            if file == NO_FILE {
                break;
            }
            let home = hash(file, number) as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask {
                self.entries.swap(gap, at);
                gap = at;
            }
        }
        if self.entries.len() > ENTRIES_MIN && self.used * SHRINK_AT < self.entries.len() {
            self.resize(self.entries.len() / 2);
        }
        Some(removed)
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    fn find(&self, file: FileId, number: u64) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        Some(self.probe(file, number)).filter(|&at| self.entries[at].file != NO_FILE)
    }

    /// The place where an entry is, or would be.
    fn probe(&self, file: FileId, number: u64) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = hash(file, number) as usize & mask;
        while self.entries[at].file != NO_FILE && !self.entries[at].is(file, number) {
            at = (at + 1) & mask;
        }
        at
    }

    fn resize(&mut self, places: usize) {
        let before = core::mem::take(&mut self.entries);
        self.entries.resize_with(places, Entry::empty);
        for entry in before.into_iter().filter(|entry| entry.file != NO_FILE) {
            let at = self.probe(entry.file, entry.number);
            self.entries[at] = entry;
        }
    }
}

/// The finaliser of splitmix64 over both numbers: neighbours in a file lie apart.
fn hash(file: FileId, number: u64) -> u64 {
    let mut z = number.wrapping_add(file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The file of a free place, a file number: the highest, as drivers count files up from a low one.
/// Lower: a driver may number a file so, and its entries would be lost. Higher: there is no higher
/// one. Source: a guess, not measured: no driver opens 2^64 files.
const NO_FILE: FileId = FileId(u64::MAX);

/// The numerator of the most places that may be used, three quarters of them. Lower: the table
/// takes more memory. Higher: look-ups step over more places. Source: a guess, not measured; the
/// usual load of open addressing.
const LOAD_MAX: usize = 3;

/// The denominator of that part, in quarters. Lower: look-ups step over more places. Higher: the
/// table takes more memory. Source: a guess, not measured; see [`LOAD_MAX`].
const LOAD_OF: usize = 4;

/// The table shrinks to half of its places when less than an eighth of them is used. Lower: it may
/// grow again at once. Higher: an emptied table keeps more memory. Source: a guess, not measured.
const SHRINK_AT: usize = 8;

/// The least number of places, once there are any. Lower: a small table grows more often. Higher:
/// a table with a few entries takes more memory. Source: a guess, not measured.
const ENTRIES_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..3_u8, 0..4_u64, 0..64_u64), 1..600)) {
            let (mut table, mut model) = (HashTable::<usize>::default(), BTreeMap::new());
            for (value, (step, file, number)) in steps.into_iter().enumerate() {
                let id = FileId(file);
                match step {
                    0 => {
                        *table.entry(id, number) = value;
                        model.insert((file, number), value);
                    }
                    1 => prop_assert_eq!(table.remove(id, number), model.remove(&(file, number))),
                    _ => prop_assert_eq!(table.get(id, number), model.get(&(file, number))),
                }
                prop_assert_eq!(table.len(), model.len());
            }
            for ((file, number), value) in model {
                prop_assert_eq!(table.get_mut(FileId(file), number), Some(&mut { value }));
            }
        }
    }

    #[test]
    fn it_shrinks_when_it_empties() {
        let mut table = HashTable::<()>::default();
        (0..100_000).for_each(|number| *table.entry(FileId(1), number) = ());
        assert!(table.entries.len() >= 131_072);
        (0..100_000).for_each(|number| assert_eq!(table.remove(FileId(1), number), Some(())));
        assert_eq!((table.len(), table.entries.len()), (0, ENTRIES_MIN));
    }
}
