//! Maps by numbers that are given out here: of files, requests, tickets, blocks. Nobody chooses them to fall together, so they are spread by a
//! few multiplications, where the standard hasher takes a hundred instructions; a read that misses looks a dozen of them up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// See the module's text.
pub(crate) type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// The finaliser of splitmix64 after each number.
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
        let mut z = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_fall_apart_in_all_bits_that_a_map_uses() {
        let spread = BuildHasherDefault::<Spread>::default();
        let hashes: Vec<u64> = (0..4096_u64).map(|number| spread.hash_one(number * 32)).collect();
        // Of as many balls in as many boxes 63 % are hit.
        for shift in [0, 52] {
            let boxes: HashSet<u64> = hashes.iter().map(|hash| (hash >> shift) & 4095).collect();
            assert!(boxes.len() > 2400, "{} of 4096 from bit {shift} on", boxes.len());
        }
    }
}
