//! A bandwidth, and the time of bytes at this bandwidth.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// Bytes per second; never zero. "Unlimited" is the absence of a rate (`Option<Rate>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate of `bytes` per second; `None` for zero.
    pub fn per_second(bytes: u64) -> Option<Self> {
        NonZeroU64::new(bytes).map(Self)
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> u64 {
        self.0.get()
    }

    /// The time that `bytes` take, in nanoseconds, rounded up: a rounded schedule never exceeds
    /// the rate.
    pub fn time_ns(self, bytes: u64) -> u64 {
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0.get()));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// The bytes that pass in `ns` nanoseconds, rounded down.
    pub fn bytes_in(self, ns: u64) -> u64 {
        let bytes = u128::from(self.0.get()) * u128::from(ns) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_rounds_up_and_bytes_round_down() {
        let rate = Rate::per_second(3).unwrap();
        assert_eq!(rate.time_ns(1), 333_333_334);
        assert_eq!(rate.bytes_in(333_333_333), 0);
        assert_eq!(rate.bytes_in(333_333_334), 1);
        assert_eq!(Rate::per_second(80_000_000).unwrap().time_ns(8 << 20), 104_857_600);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Rate::per_second(0), None);
        assert_eq!(Rate::per_second(1).unwrap().time_ns(u64::MAX), u64::MAX);
        assert_eq!(Rate::per_second(u64::MAX).unwrap().bytes_in(u64::MAX), u64::MAX);
    }
}
