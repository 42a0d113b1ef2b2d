//! The only source of randomness in the models: a seeded generator in integer arithmetic.

/// A generator of 64-bit numbers that gives the same sequence for the same seed on every platform.
///
/// Origin: `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014). One addition and a mix; it passes `BigCrush`, and unlike a xorshift it may be seeded
/// with any number, zero too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 where `bound` is 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `per_million` times out of a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs of the reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut random = Random::new(1);
        let seen: Vec<u64> = (0..1000).map(|_| random.below(7)).collect();
        assert!((0..7).all(|n| seen.contains(&n)));
        assert!(seen.iter().all(|&n| n < 7));
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn chance_has_its_frequency() {
        let mut random = Random::new(2);
        let hits = (0..100_000).filter(|_| random.chance(10_000)).count();
        assert!((900..1100).contains(&hits), "{hits} of 1000 expected");
        assert!(!random.chance(0));
        assert!(random.chance(1_000_000));
    }
}
