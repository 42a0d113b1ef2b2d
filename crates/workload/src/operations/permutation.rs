//! A random order of `0..count` that needs no memory: a Feistel network over the next even power
//! of two, walked until it lands below `count` again (cycle walking, Black and Rogaway 2002).
//!
//! A random workload reads its records in such an order, so no record is read twice: the kernel's
//! page cache would answer a repeated read, and the run would measure that.

/// Rounds of the network. Four mix two halves completely; fewer leave neighbours visibly related.
const ROUNDS: u64 = 4;

/// A bijection of `0..count`, chosen by `seed`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    seed: u64,
    half_bits: u32,
}

impl Permutation {
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, seed, half_bits: bits.div_ceil(2).max(1) }
    }

    /// The image of `index`. Costs less than four walks on average (the domain is less than four
    /// times `count`).
    pub(crate) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut value = index;
        loop {
            value = self.network(value);
            if value < self.count {
                return value;
            }
        }
    }

    fn network(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(right ^ self.seed.rotate_left(16) ^ (round << 56)) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// A number below `bound` that is a function of `seed` and `index`; 0 where `bound` is.
pub(crate) fn random(seed: u64, index: u64, bound: u64) -> u64 {
    ((u128::from(mix(mix(seed) ^ index)) * u128::from(bound)) >> 64) as u64
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_once() {
        for count in [1, 2, 3, 7, 64, 65, 1000] {
            for seed in 0..5 {
                let order = Permutation::new(count, seed);
                let mut seen: Vec<u64> = (0..count).map(|index| order.at(index)).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn neighbours_are_rare() {
        let order = Permutation::new(1 << 20, 1);
        let steps = (1..4096).filter(|&index| order.at(index).abs_diff(order.at(index - 1)) <= 32).count();
        assert!(steps <= 4, "{steps} of 4095 steps are short");
    }
}
