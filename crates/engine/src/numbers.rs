//! A fast hasher, and maps with it, for keys that are numbers of the engine's own: files,
//! requests, tickets, blocks of pages.
//!
//! No program can choose such numbers so that they collide. So a few multiplications spread them,
//! where the standard hasher takes a hundred instructions. A read that misses looks up a dozen of
//! them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers of the engine's own.
pub(crate) type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// Hashes each number with the finaliser of splitmix64.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(self.0.wrapping_mul(STEP).wrapping_add(number));
    }
}

/// The step of splitmix64: its states are multiples of it.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64: each bit of `state` changes half of the result's bits.
pub(crate) fn mixed(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn adjacent_numbers_differ_in_all_bits_that_a_map_uses() {
        let spread = BuildHasherDefault::<Spread>::default();
        let hashes: Vec<u64> = (0..4096_u64).map(|number| spread.hash_one(number * 32)).collect();
        // 4096 balls thrown into 4096 boxes hit 63 % of the boxes.
        for shift in [0, 52] {
            let boxes: HashSet<u64> = hashes.iter().map(|hash| (hash >> shift) & 4095).collect();
            assert!(boxes.len() > 2400, "{} of 4096 from bit {shift} on", boxes.len());
        }
    }
}
