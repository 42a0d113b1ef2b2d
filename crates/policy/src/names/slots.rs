//! The slots of names: where a name lies, by its number.
//!
//! ```text
//!   slot 0 .. 1023 | 1024 .. 2047 | 2048 ..     a chunk of which all slots are free is given
//!        ^ place or next free, generation       back, and remembers its highest generation
//! ```
//!
//! *Invariants:* no name in a slot has the generation of an earlier one, but for every 2^32nd. A
//! slot that is taken lies in the first chunk that has a free one, so that later chunks empty.
//!
//! The file does not know whether a slot is free: the list of names does, where each name says its
//! slot. Source: docs/decisions/0068.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    chunks: Vec<Chunk>,
    /// The chunks that have free slots.
    free: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Chunk {
    /// None, or [`CHUNK`] of them.
    slots: Box<[Slot]>,
    /// The first free one in the chunk, which leads to the next.
    first: u32,
    used: u32,
    /// The generation of slots that are made anew.
    generation: u32,
}

/// A slot, and the generation of the name in it, or of the next one.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The place of its name; of a free one, the next free one in the chunk.
    at: u32,
    generation: u32,
}

impl Slots {
    /// A free slot for the name at `at`, and its generation.
    pub(super) fn take(&mut self, at: u32) -> (u32, u32) {
        let nth = self.free.first().copied().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            let nth = (self.chunks.len() - 1) as u32;
            self.free.insert(nth);
            nth
        });
        let chunk = &mut self.chunks[nth as usize];
        if chunk.slots.is_empty() {
            let generation = chunk.generation;
            chunk.slots = (1..=CHUNK).map(|next| Slot { at: next, generation }).collect();
            chunk.first = 0;
        }
        let inside = chunk.first;
        let slot = &mut chunk.slots[inside as usize];
        chunk.first = core::mem::replace(&mut slot.at, at);
        chunk.used += 1;
        let generation = slot.generation;
        if chunk.used == CHUNK {
            self.free.remove(&nth);
        }
        (nth * CHUNK + inside, generation)
    }

    /// The name in a slot that is in use is gone.
    pub(super) fn free(&mut self, slot: u32) {
        let (nth, inside) = (slot / CHUNK, slot % CHUNK);
        let chunk = &mut self.chunks[nth as usize];
        let Slot { at, generation } = &mut chunk.slots[inside as usize];
        *at = core::mem::replace(&mut chunk.first, inside);
        *generation = generation.wrapping_add(1);
        chunk.used -= 1;
        if chunk.used == 0 {
            let slots = core::mem::take(&mut chunk.slots);
            chunk.generation = slots.iter().map(|slot| slot.generation).max().unwrap_or_default();
        }
        self.free.insert(nth);
    }

    /// The place and the generation that a slot has, if it is in use; any if it is free.
    pub(super) fn get(&self, slot: u32) -> Option<(u32, u32)> {
        let chunk = self.chunks.get((slot / CHUNK) as usize)?;
        let Slot { at, generation } = chunk.slots.get((slot % CHUNK) as usize)?;
        Some((*at, *generation))
    }

    /// The name in a slot that is in use lies at `at` from now on.
    pub(super) fn set(&mut self, slot: u32, at: u32) {
        if let Some(chunk) = self.chunks.get_mut((slot / CHUNK) as usize) {
            chunk.slots[(slot % CHUNK) as usize].at = at;
        }
    }

    /// Memory that slots take, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| size_of_val(&*chunk.slots) + size_of::<Chunk>()).sum()
    }
}

/// Slots in a chunk: 8 KiB. Lower: more chunks to keep account of. Higher: a few names that stay
/// hold more memory. Source: a guess, not measured.
const CHUNK: u32 = 1024;

/// Memory that a slot takes, in bytes, with its part of a chunk. Lower: more is kept than is
/// charged. Higher: fewer names than there is memory for. Source: the size of the type.
pub(super) const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_never_has_the_same_generation_twice_and_chunks_are_given_back() {
        let mut slots = Slots::default();
        let mut seen = BTreeSet::new();
        for round in 0..10 {
            let taken: Vec<u32> = (0..10 * CHUNK + 5)
                .map(|at| {
                    let (slot, generation) = slots.take(at);
                    assert!(seen.insert((slot, generation)), "round {round}: {slot}, {generation} again");
                    assert_eq!(slots.get(slot), Some((at, generation)));
                    slot
                })
                .collect();
            assert_eq!(slots.chunks.len(), 11, "free slots are used first");
            // All but one, in an order that is not that of their places.
            for nth in (0..taken.len()).filter(|nth| nth % 2 == 0).chain((0..taken.len()).filter(|nth| nth % 2 == 1)) {
                if round > 0 || nth != 1 {
                    slots.free(taken[nth]);
                }
            }
            assert!(slots.bytes() < 3 * 8192, "{} bytes", slots.bytes());
        }
    }
}
