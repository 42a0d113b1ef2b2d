//! When a second request is worth making for what a reader already waits for: the storage's slow tail is not the reader's.
//!
//! ```text
//!   first bytes   ######################## . . . . . . . . . . . . . . . #      most come together, a few much later
//!                          median    p97 |
//!                                        late: from here on another request is likely to be answered sooner
//! ```
//!
//! A request is late when it has waited longer than 97 of 100 did, and than twice what is usual: where all are slow alike, because much is
//! asked for, a second request would only make them slower. One demand request in twenty at most is made twice. Origin: hedged
//! requests (Dean and Barroso, "The Tail at Scale", 2013); the quantiles are followed a step at a time, as frugal streaming does.

use crate::units::Nanos;

/// What is usual, and how much has been made twice.
#[derive(Debug, Default)]
pub(crate) struct Hedge {
    median: Quantile,
    high: Quantile,
    seen: u64,
    made: u64,
}

impl Hedge {
    /// The first byte of what a reader waited for came after `first_byte`.
    pub(crate) fn observe(&mut self, first_byte: Nanos) {
        self.median.follow(first_byte.0, 50);
        self.high.follow(first_byte.0, HIGH_PERCENT);
        self.seen += 1;
    }

    /// After how long a request is late; `None` while too little is known, or enough was made twice.
    pub(crate) fn late_after(&self) -> Option<Nanos> {
        let high = self.high.0 + self.high.0 / MARGIN;
        self.has_budget().then(|| Nanos(high.max(2 * self.median.0)))
    }

    /// A request is late. Whether it is to be made once more.
    pub(crate) fn take(&mut self) -> bool {
        let taken = self.has_budget();
        self.made += u64::from(taken);
        taken
    }

    fn has_budget(&self) -> bool {
        self.seen >= SEEN_MIN && (self.made + 1) * ONE_IN <= self.seen
    }
}

/// A quantile of what is seen, followed by steps in proportion to itself.
#[derive(Debug, Default)]
struct Quantile(u64);

impl Quantile {
    /// Goes up by as many parts of a step as `percent`, or down by as many as that lacks to 100.
    fn follow(&mut self, sample: u64, percent: u64) {
        let step = self.0 / STEP;
        self.0 = match sample {
            _ if self.0 == 0 => sample,
            sample if sample > self.0 => (self.0 + (step * percent).div_ceil(100)).min(sample),
            _ => (self.0 - step * (100 - percent) / 100).max(sample),
        };
    }
}

/// The quantile from which on a request is late.
const HIGH_PERCENT: u64 = 97;

/// An eighth of it more: its estimate swings by a step.
const MARGIN: u64 = 8;

/// A step is a sixteenth: a hundred samples find a tail that was not there before.
const STEP: u64 = 16;

/// One demand request in twenty may be made twice: 5 %.
const ONE_IN: u64 = 20;

/// First bytes that must have been seen.
const SEEN_MIN: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The `nth` of first bytes of which two in a hundred take twenty times as long.
    fn with_tail(nth: u64) -> Nanos {
        Nanos(if nth % 50 == 49 { 600 * MS } else { 30 * MS + nth % 7 * MS / 10 })
    }

    #[test]
    fn a_tail_is_told_from_the_rest() {
        let mut hedge = Hedge::default();
        (0..63).for_each(|nth| hedge.observe(with_tail(nth)));
        assert_eq!(hedge.late_after(), None, "too little is known");
        for nth in 63..10_000 {
            hedge.observe(with_tail(nth));
            let late = hedge.late_after().unwrap();
            assert!((50 * MS..80 * MS).contains(&late.0), "{late:?} after {nth}");
        }
    }

    #[test]
    fn one_in_twenty_at_most_is_made_twice() {
        let mut hedge = Hedge::default();
        let mut made = 0;
        for seen in 1..=1_000u64 {
            hedge.observe(Nanos(30 * MS));
            made += u64::from(hedge.take()) + u64::from(hedge.take());
            assert!(made * 20 <= seen, "{made} of {seen}");
        }
        assert_eq!(made, 50);
    }

    #[test]
    fn storage_that_becomes_slower_is_followed() {
        let mut hedge = Hedge::default();
        (0..1_000).for_each(|_| hedge.observe(Nanos(MS)));
        (0..1_000).for_each(|_| hedge.observe(Nanos(100 * MS)));
        assert!(hedge.late_after().unwrap().0 >= 200 * MS);
        (0..5_000).for_each(|_| hedge.observe(Nanos(MS)));
        assert!(hedge.late_after().unwrap().0 < 4 * MS);
    }
}
