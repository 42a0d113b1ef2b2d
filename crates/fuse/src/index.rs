//! Slots of names, found by a hash of what the names are.
//!
//! In parts, so that no more than one of them is moved at a time as they grow and shrink. It keeps
//! no hashes: the table that it belongs to tells that of each slot.

use hashbrown::HashTable;

/// Slots by hash.
#[derive(Debug)]
pub(crate) struct Index {
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    slots: HashTable<u32>,
    /// The most that it has had since it was last shrunk.
    most: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect() }
    }
}

impl Index {
    /// What a slot takes here, in bytes, in a table that is between 7/16 and 7/8 full.
    pub(crate) const SLOT_BYTES: u64 = (size_of::<u32>() as u64 + 1) * 2;

    /// The part that a hash is in; the table uses other bits of it.
    fn part(hash: u64) -> usize {
        (hash >> 32) as usize % PARTS
    }

    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.parts[Self::part(hash)].slots.find(hash, |slot| is_it(*slot)).copied()
    }

    /// Enters a slot that is not there.
    pub(crate) fn enter(&mut self, hash: u64, slot: u32, of: impl Fn(u32) -> u64) {
        let Part { slots, most } = &mut self.parts[Self::part(hash)];
        slots.insert_unique(hash, slot, |slot| of(*slot));
        *most = slots.len().max(*most);
    }

    /// Takes a slot out, if it is there.
    pub(crate) fn leave(&mut self, hash: u64, slot: u32, of: impl Fn(u32) -> u64) {
        let Part { slots, most } = &mut self.parts[Self::part(hash)];
        let Ok(entry) = slots.find_entry(hash, |other| *other == slot) else { return };
        entry.remove();
        if *most > SHRINK_MIN && slots.len() < *most / SHRINK_AT {
            slots.shrink_to(slots.len() * 9 / 8, |slot| of(*slot));
            *most = slots.len();
        }
    }

    /// What it may keep without slots.
    #[cfg(test)]
    pub(crate) const BYTES_MIN: usize = PARTS * 16 * SHRINK_MIN;

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.slots.len()).sum()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.slots.allocation_size()).sum()
    }
}

/// Parts of the table. Lower: more entries are moved at a time, while look-ups wait. Higher: more
/// memory for a mount with few inodes.
const PARTS: usize = 64;

/// Entries that a part must have had before it shrinks. Lower: small parts are moved more often.
/// Higher: more memory stays after many inodes.
const SHRINK_MIN: usize = 32;

/// Divisor of the most entries that a part has had: so many are left when it shrinks, a half.
/// Lower: it may have to grow again soon. Higher: more memory stays.
const SHRINK_AT: usize = 2;
