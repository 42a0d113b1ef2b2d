//! The fate of each attempt, drawn from a seed: a run that shows a bug can be repeated.

use foreread_device::Random;

/// How often each fault happens, in millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    pub(crate) failed: u32,
    pub(crate) broken: u32,
    pub(crate) lost: u32,
    /// Of reads: before the read the object is replaced, or all other readers close the file.
    pub(crate) replaced: u32,
    pub(crate) released: u32,
}

/// A source of faults.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(super) rates: Rates,
    pub(super) random: Random,
}

/// The result of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// After this many ns.
    Failed(u64),
    /// After this many bytes.
    Broken(u64),
    Lost,
}

impl Faults {
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self { rates, random: Random::new(seed) }
    }

    pub(super) fn of_attempt(&mut self, bytes: u64) -> Fate {
        if self.random.chance(self.rates.failed) {
            Fate::Failed(self.random.below(FAILS_WITHIN_NS))
        } else if self.random.chance(self.rates.broken) {
            Fate::Broken(self.random.below(bytes))
        } else if self.random.chance(self.rates.lost) {
            Fate::Lost
        } else {
            Fate::Answered
        }
    }
}

/// Bound of the time until an attempt fails, in ns. Lower or higher: failures come earlier or
/// later; chosen here.
const FAILS_WITHIN_NS: u64 = 1_000_000_000;
