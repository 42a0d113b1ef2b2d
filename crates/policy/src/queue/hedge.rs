//! Hedge: when a demand request is late, and whether a second request is sent for the same bytes.
//!
//! ```text
//!   first bytes   ######################## . . . . . . . . . . . # . . #    a few come much later
//!                           median      p97 |   |
//!                                               late = max(p97 + an eighth, 2 x median)
//! ```
//!
//! A few answers of an object store are much later than the rest. A second request is then likely
//! to be answered sooner than the first. The other bound, twice the median, matters where all
//! requests are slow alike because the load is high: a second request would raise the load.
//!
//! ```text
//!   unknown ──(64 first bytes)──> late_after() has a value <──┐
//!                                      │ one in 20 is hedged  │ more first bytes
//!                                      └──> no budget ────────┘
//! ```
//!
//! *Invariant:* at most one demand request in twenty is hedged.
//!
//! This file has no timer: policy submits a request with the time after which it is late, and the
//! driver reports when that time has passed. It does not choose which requests may be hedged (the
//! read path: demand only, with readahead, not on a disk), nor which of two answers counts (the
//! driver: the first). Source: docs/decisions/0017; hedged requests (Dean and Barroso, "The Tail
//! at Scale", 2013). The quantiles move a step at each sample, as in frugal streaming.

use crate::units::Nanos;

/// The first-byte latencies of demand requests, and the number of hedges.
#[derive(Debug, Default)]
pub(crate) struct Hedge {
    median: Quantile,
    high: Quantile,
    seen: u64,
    made: u64,
}

impl Hedge {
    /// The first byte of a demand request came after `first_byte`.
    pub(crate) fn observe(&mut self, first_byte: Nanos) {
        self.median.follow(first_byte.0, 50);
        self.high.follow(first_byte.0, HIGH_PERCENT);
        self.seen += 1;
    }

    /// The time after which a request is late; `None` while too few first bytes are known, or as
    /// many requests as allowed were hedged.
    pub(crate) fn late_after(&self) -> Option<Nanos> {
        let high = self.high.0 + self.high.0 / MARGIN;
        self.has_budget().then(|| Nanos(high.max(2 * self.median.0)))
    }

    /// A request is late. Returns whether to send it once more.
    pub(crate) fn take(&mut self) -> bool {
        let taken = self.has_budget();
        self.made += u64::from(taken);
        taken
    }

    fn has_budget(&self) -> bool {
        self.seen >= SEEN_MIN && (self.made + 1) * ONE_IN <= self.seen
    }
}

/// A quantile of the samples, in ns. It moves by a step in proportion to its value.
#[derive(Debug, Default)]
struct Quantile(u64);

impl Quantile {
    /// Goes up by `percent` of a step, or down by `100 - percent` of it, but not past `sample`.
    fn follow(&mut self, sample: u64, percent: u64) {
        let step = self.0 / STEP;
        self.0 = match sample {
            _ if self.0 == 0 => sample,
            sample if sample > self.0 => (self.0 + (step * percent).div_ceil(100)).min(sample),
            _ => (self.0 - step * (100 - percent) / 100).max(sample),
        };
    }
}

/// The quantile that lateness is measured from, in percent. Lower: hedges go to requests that
/// would be answered soon. Higher: the bound lies within the tail, and late requests wait longer.
/// Source: docs/decisions/0017.
const HIGH_PERCENT: u64 = 97;

/// A request is late an eighth above that quantile, since the estimate swings by a step. Lower:
/// the margin is larger, and late requests are hedged later. Higher: a swing of the estimate makes
/// usual requests late. Source: docs/decisions/0017.
const MARGIN: u64 = 8;

/// A step is a sixteenth of the estimate: the high quantile rises a hundredfold in 80 samples.
/// Lower: steps are larger, and the estimate swings by more than [`MARGIN`]. Higher: storage that
/// becomes slower is followed later. Source: a guess, not measured.
const STEP: u64 = 16;

/// One demand request in so many may be hedged: 5 %. Lower: more load on storage that may be slow
/// because of load. Higher: more late requests go without a hedge. Source: docs/decisions/0017.
const ONE_IN: u64 = 20;

/// First bytes that must be known before a request counts as late. Lower: the estimates are those
/// of a few requests. Higher: no hedge in the first requests of a run. Source: a guess, not
/// measured.
const SEEN_MIN: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The `nth` first byte; two in a hundred take twenty times as long as the others.
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
    fn at_most_one_in_twenty_is_hedged() {
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
