//! Blocks that are not in the cache but were offered to it, or have left it.
//!
//! ```text
//!   offered   pages 0..16   16..32  | 0..16   16..32
//!   fresh     #             ##      | #       ##         the round that goes on
//!   known                           | ##      ##         the rounds before it: pages, and value
//!                                     ^ a page that is fresh begins another round
//!
//!   block ── hash ──> a set of 8 places; the one that was used longest ago gives way
//! ```
//!
//! A block may be offered in pieces. What is known of it is of earlier rounds alone: its second
//! half is not known because its first half came just before.
//!
//! *Invariants:* memory is fixed at the start, 24 bytes a ghost. Nothing depends on a random seed.
//!
//! This file does not decide what a ghost is worth beside a segment (`tier`). Source: the names of
//! 2Q (Johnson and Shasha, VLDB 1994), in sets as a processor's cache has them.

use alloc::vec;
use alloc::vec::Vec;

use crate::tier::decay::{USE, decayed};

/// What is remembered.
#[derive(Debug)]
pub(super) struct Ghosts {
    ghosts: Vec<Ghost>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ghost {
    block: u64,
    /// Pages of earlier rounds; with `fresh`, none in a free place.
    known: u32,
    fresh: u32,
    /// Of earlier rounds, as of `step`.
    value: u32,
    step: u16,
    rounds: u16,
}

impl Ghost {
    fn age(&self, step: u64) -> u64 {
        u64::from((step as u16).wrapping_sub(self.step))
    }

    fn is_free(&self) -> bool {
        self.known | self.fresh == 0
    }

    fn mean(&self) -> u64 {
        u64::from(self.value) / u64::from(self.known.count_ones().max(1))
    }
}

impl Ghosts {
    /// For a cache of so many blocks.
    pub(super) fn new(blocks: u64) -> Self {
        let places = blocks.clamp(GHOSTS_MIN, GHOSTS_MAX).next_multiple_of(WAYS as u64);
        Self { ghosts: vec![Ghost::default(); places as usize] }
    }

    /// Pages of a block are offered. If all of them are known from earlier rounds, and it was
    /// offered in two of them or was in the cache: what a page of it was worth.
    pub(super) fn offered(&mut self, block: u64, pages: u32, step: u64) -> Option<u64> {
        let ghost = self.place(block, step);
        let age = ghost.age(step);
        let mut value = u64::from(ghost.value);
        if ghost.fresh & pages != 0 {
            value += u64::from(ghost.fresh.count_ones()) * USE;
            ghost.known |= ghost.fresh;
            ghost.fresh = 0;
            ghost.rounds = ghost.rounds.saturating_add(1);
        }
        ghost.fresh |= pages;
        (ghost.value, ghost.step) = (u32::try_from(decayed(value, age)).unwrap_or(u32::MAX), step as u16);
        (ghost.known & pages == pages && ghost.rounds >= ROUNDS_MIN).then(|| ghost.mean())
    }

    /// Pages of a block are in the cache from now on. Returns their value, if they are known.
    pub(super) fn take(&mut self, block: u64, pages: u32, step: u64) -> Option<u64> {
        let ghost = self.set(block).iter_mut().find(|ghost| ghost.block == block && !ghost.is_free())?;
        let age = ghost.age(step);
        let (known, fresh) = (ghost.known & pages, ghost.fresh & pages);
        let before = u64::from(known.count_ones()) * ghost.mean();
        ghost.value -= (before as u32).min(ghost.value);
        ghost.known &= !pages;
        ghost.fresh &= !pages;
        Some(decayed(before + u64::from(fresh.count_ones()) * USE, age))
    }

    /// Pages of a block leave the cache, each with this value.
    pub(super) fn remember(&mut self, block: u64, pages: u32, value: u64, step: u64) {
        let ghost = self.place(block, step);
        let old = decayed(u64::from(ghost.value), ghost.age(step));
        let value = value.saturating_mul(u64::from((pages & !ghost.known).count_ones()));
        ghost.known |= pages;
        ghost.value = u32::try_from(old.saturating_add(value)).unwrap_or(u32::MAX);
        ghost.step = step as u16;
        ghost.rounds = ROUNDS_MIN;
    }

    /// The ghost of a block; a new one takes the place of the one used longest ago.
    fn place(&mut self, block: u64, step: u64) -> &mut Ghost {
        let set = self.set(block);
        let is_it = |ghost: &Ghost| ghost.block == block && !ghost.is_free();
        let at = set.iter().position(is_it).unwrap_or_else(|| {
            let oldest = |&at: &usize| if set[at].is_free() { u64::MAX } else { set[at].age(step) };
            let at = (0..WAYS).max_by_key(oldest).unwrap_or(0);
            set[at] = Ghost { block, step: step as u16, ..Ghost::default() };
            at
        });
        &mut set[at]
    }

    fn set(&mut self, block: u64) -> &mut [Ghost] {
        let sets = self.ghosts.len() / WAYS;
        // The numbers of blocks are hashes, but need not be: they are spread once more.
        let spread = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = ((spread * sets as u64) >> 32) as usize * WAYS;
        &mut self.ghosts[at..at + WAYS]
    }
}

/// Rounds after which a block is known. Lower: after one round a block that was offered late in it
/// looks better than a segment that was filled early in it; a loop in random order rewrites 5 % of
/// the cache for that. Higher: a working set that shifts is followed in more than three passes.
/// Source: the loop and the shift in the tests of `tier`.
const ROUNDS_MIN: u16 = 2;

/// Places in a set. Lower: more blocks are forgotten early by chance. Higher: each look-up
/// compares more. Source: a guess, not measured; eight are three cache lines.
const WAYS: usize = 8;

/// The fewest ghosts. Lower: a small cache does not learn a working set that is larger. Higher: a
/// small cache takes more memory. Source: a guess, not measured: 96 KiB.
const GHOSTS_MIN: u64 = 4096;

/// The most ghosts. Lower: a large cache does not learn a loop over more than it holds. Higher: it
/// takes more than 24 MiB of memory. Source: a guess, not measured: blocks of 128 GiB.
const GHOSTS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_takes_24_bytes() {
        assert_eq!(size_of::<Ghost>(), 24);
    }

    #[test]
    fn pieces_of_one_round_do_not_make_each_other_known() {
        let mut ghosts = Ghosts::new(0);
        for round in 0..4 {
            for piece in [0xff_u32, 0xff00, 0xffff_0000] {
                assert_eq!(ghosts.offered(7, piece, 0), (round > 1).then_some(round * USE));
            }
        }
        assert_eq!(ghosts.take(7, 0xff, 0), Some(8 * 4 * USE));
        assert_eq!(ghosts.take(7, !0xff, 0), Some(24 * 4 * USE));
        assert_eq!((ghosts.take(7, !0, 0), ghosts.offered(7, 1, 0)), (None, None));
    }

    #[test]
    fn what_left_is_known_with_its_value() {
        let mut ghosts = Ghosts::new(0);
        ghosts.remember(3, 0xf, 5 * USE, 0);
        assert_eq!(ghosts.offered(3, 0x3, 16), Some(5 * USE / 2));
        assert_eq!(ghosts.offered(3, 0x10, 16), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut ghosts = Ghosts::new(0);
        (0..3 * GHOSTS_MIN).for_each(|block| assert_eq!(ghosts.offered(block, 1, block), None));
        let known = |ghosts: &mut Ghosts, block| ghosts.take(block, 1, 3 * GHOSTS_MIN).is_some();
        assert!((0..GHOSTS_MIN).filter(|&block| known(&mut ghosts, block)).count() < 40);
        assert!((5 * GHOSTS_MIN / 2..3 * GHOSTS_MIN).filter(|&block| known(&mut ghosts, block)).count() > 2000);
    }
}
