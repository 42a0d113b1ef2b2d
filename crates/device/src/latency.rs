//! First-byte latency: a base, a spread around it, and a slow tail.
//!
//! ```text
//!   share of requests
//!        │    ▄█▄
//!        │   ▄███▄▄                                   slow: a few in a million requests
//!        │   ██████▄▄▄▄ ▁ ▁                ▂▃▂        take `multiplier` times as long
//!        └───┴──────────────────────────────┴──────> time
//!           base, with its spread
//! ```
//!
//! The log-normal spread is computed in fixed point: the normal variable is a sum of 12 uniform
//! ones (its tails end at 6 standard deviations and are a little thin beyond 3; the slow tail is
//! modelled apart), and the power of two comes from 16 exact constants. No float, so a seed gives
//! the same latencies everywhere.

use serde::{Deserialize, Serialize};

use crate::Random;

/// The distribution of the time to the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FirstByte {
    /// The time of an ordinary request in nanoseconds: the least (uniform spread) or the median
    /// (log-normal).
    pub base_ns: u64,
    /// How requests differ from the base.
    pub spread: Spread,
    /// Requests that are far slower than the rest.
    pub slow: SlowTail,
}

/// How the time of ordinary requests spreads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Spread {
    /// Every request takes the base.
    #[default]
    None,
    /// From the base to the base plus this many nanoseconds, each equally likely.
    Uniform(u64),
    /// Log-normal with the base as median: one standard deviation multiplies by this percentage
    /// (150: by 1.5, so that 16% of the requests take more than 1.5 times the base). 100 and less
    /// spread nothing.
    LogNormal(u32),
}

/// A fraction of the requests that take a multiple of their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlowTail {
    /// How many requests of a million are slow.
    pub per_million: u32,
    /// Factor of the time of a slow request.
    pub multiplier: u32,
}

impl FirstByte {
    /// Every request takes `base_ns`.
    pub fn fixed(base_ns: u64) -> Self {
        Self { base_ns, ..Self::default() }
    }

    /// The time of the next request, in nanoseconds.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let ordinary = match self.spread {
            Spread::Uniform(jitter_ns) => self.base_ns.saturating_add(random.below(jitter_ns.saturating_add(1))),
            Spread::LogNormal(percent) if percent > 100 => {
                let deviation = log2_q16(percent) - log2_q16(100);
                let exponent = (standard_normal_q16(random) * deviation) >> 16;
                scale_by_power_of_two(self.base_ns, exponent)
            }
            Spread::None | Spread::LogNormal(_) => self.base_ns,
        };
        if self.slow.per_million > 0 && random.chance(self.slow.per_million) {
            ordinary.saturating_mul(u64::from(self.slow.multiplier.max(1)))
        } else {
            ordinary
        }
    }
}

/// A normal variable of mean 0 and deviation 1, times 65,536: the sum of 12 uniform variables,
/// less its mean.
fn standard_normal_q16(random: &mut Random) -> i64 {
    let sum: u64 = (0..3)
        .map(|_| {
            let bits = random.next_u64();
            (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48)
        })
        .sum();
    sum as i64 - 6 * 65_535
}

/// log2(x) times 65,536, for x > 0, digit by digit: squaring doubles a logarithm.
fn log2_q16(x: u32) -> i64 {
    let whole = i64::from(x.ilog2());
    let mut mantissa = (u64::from(x) << 31) >> whole;
    let mut result = whole << 16;
    for digit in (0..16).rev() {
        mantissa = (mantissa * mantissa) >> 31;
        if mantissa >= 2 << 31 {
            mantissa >>= 1;
            result |= 1 << digit;
        }
    }
    result
}

/// `value` times 2^(`exponent` / 65,536), saturating.
fn scale_by_power_of_two(value: u64, exponent: i64) -> u64 {
    let (whole, fraction) = (exponent >> 16, exponent & 0xffff);
    let mut scaled = u128::from(value);
    for (digit, root) in ROOTS_OF_TWO_Q32.iter().enumerate() {
        if fraction & (0x8000 >> digit) != 0 {
            scaled = (scaled * u128::from(*root)) >> 32;
        }
    }
    let scaled = if whole >= 0 { scaled << whole.min(63) } else { scaled >> (-whole).min(127) };
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// 2^(1/2), 2^(1/4), 2^(1/8) ... times 2^32.
const ROOTS_OF_TWO_Q32: [u64; 16] = [
    0x1_6a09_e668,
    0x1_306f_e0a3,
    0x1_172b_83c8,
    0x1_0b55_86d0,
    0x1_059b_0d31,
    0x1_02c9_a3e7,
    0x1_0163_daa0,
    0x1_00b1_afa6,
    0x1_0058_c86e,
    0x1_002c_605e,
    0x1_0016_2f39,
    0x1_000b_175f,
    0x1_0005_8ba0,
    0x1_0002_c5cc,
    0x1_0001_62e5,
    0x1_0000_b172,
];

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 30_000_000;

    fn sorted(latency: FirstByte) -> Vec<u64> {
        let mut random = Random::new(7);
        let mut drawn: Vec<u64> = (0..100_000).map(|_| latency.draw(&mut random)).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn fixed_is_fixed() {
        assert!(sorted(FirstByte::fixed(BASE)).iter().all(|&ns| ns == BASE));
    }

    #[test]
    fn uniform_fills_its_interval() {
        let drawn = sorted(FirstByte { base_ns: BASE, spread: Spread::Uniform(1000), ..FirstByte::default() });
        assert_eq!((drawn[0], drawn[99_999]), (BASE, BASE + 1000));
    }

    #[test]
    fn log_normal_has_the_stated_quantiles() {
        let drawn = sorted(FirstByte { base_ns: BASE, spread: Spread::LogNormal(150), ..FirstByte::default() });
        let near = |ns: u64, expected: u64| ns.abs_diff(expected) < expected / 50;
        assert!(near(drawn[50_000], BASE), "median {}", drawn[50_000]);
        assert!(near(drawn[84_134], BASE * 3 / 2), "one deviation up {}", drawn[84_134]);
        assert!(near(drawn[15_866], BASE * 2 / 3), "one deviation down {}", drawn[15_866]);
    }

    #[test]
    fn the_slow_tail_has_its_share_and_its_multiple() {
        let slow = SlowTail { per_million: 10_000, multiplier: 20 };
        let drawn = sorted(FirstByte { base_ns: BASE, slow, ..FirstByte::default() });
        let count = drawn.iter().filter(|&&ns| ns == 20 * BASE).count();
        assert!((900..1100).contains(&count), "{count} of 1000 expected");
        assert_eq!(drawn.iter().filter(|&&ns| ns == BASE).count(), 100_000 - count);
    }

    #[test]
    fn fixed_point_agrees_with_known_values() {
        assert_eq!(log2_q16(1024), 10 << 16);
        assert_eq!(log2_q16(150) - log2_q16(100), 38_336);
        assert_eq!(scale_by_power_of_two(1_000_000, 1 << 16), 2_000_000);
        assert_eq!(scale_by_power_of_two(1_000_000, 0x8000), 1_414_213);
        assert_eq!(scale_by_power_of_two(1_000_000, -(2 << 16)), 250_000);
        assert_eq!(scale_by_power_of_two(u64::MAX, 63 << 16), u64::MAX);
    }
}
