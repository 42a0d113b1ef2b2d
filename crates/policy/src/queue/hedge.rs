//! Hedge: when a request is late, and whether a second request is sent for the same bytes.
//!
//! ```text
//!   silences      ######################## . . . . . . . . . . . # . . #   a few last much longer
//!                           median      p97 |   |
//!                                               late = max(p97 + an eighth, 2 x median)
//! ```
//!
//! A silence is the wait for the first byte of an answer, or for more of it. A few answers of an
//! object store are much later than the rest, and a connection may fall silent for good. A second
//! request is then likely to be answered sooner than the first. The other bound, twice the median,
//! matters where all requests are slow alike because the load is high: a second request would
//! raise the load. So the read path asks for no second one before a request that came later is
//! complete, or the storage has stalled.
//!
//! ```text
//!   unknown ──(64 requests)──> late after what they show, 20 ms at least
//!    late after 2 s                │ 3, and one in 20, are hedged
//!                                  └──> no budget
//! ```
//!
//! *Invariant:* at most three requests and one in twenty are hedged; questions of each kind have
//! such a budget of their own.
//!
//! This file has no timer: policy submits a request with the silence after which it is late, and
//! the driver reports when it has lasted so long, and twice as long, and so on. It does not choose
//! which requests may be hedged (the read path: what a reader waits for, with readahead, not on a
//! disk; drivers: questions about names, once the storage has stalled), nor which of two answers
//! counts (the driver: the first). Source: docs/decisions/0017,
//! 0121; hedged requests (Dean and Barroso, "The Tail at Scale", 2013). The quantiles move a step
//! at each sample, as in frugal streaming.

use crate::units::Nanos;

/// The longest silences of requests, and the number of hedges.
#[derive(Debug, Default)]
pub struct Hedge {
    median: Quantile,
    high: Quantile,
    seen: u64,
    made: u64,
}

impl Hedge {
    /// A request is complete; the storage was silent for `silence` at most.
    pub fn observe(&mut self, silence: Nanos) {
        self.median.follow(silence.0, 50);
        self.high.follow(silence.0, HIGH_PERCENT);
        self.seen += 1;
    }

    /// The silence after which a request is late.
    pub(crate) fn late_after(&self) -> Nanos {
        if self.seen < SEEN_MIN { self.stalled_after() } else { Nanos(self.usual().max(LATE_NS_MIN)) }
    }

    /// The silence after which a request will hardly be answered any more.
    pub fn stalled_after(&self) -> Nanos {
        Nanos(self.usual().max(STALLED_NS_MIN))
    }

    /// A silence that few requests exceed, in ns.
    fn usual(&self) -> u64 {
        let high = self.high.0 + self.high.0 / MARGIN;
        high.max(2 * self.median.0)
    }

    /// Whether a late request may be sent once more.
    pub(crate) fn has_budget(&self) -> bool {
        self.made < FIRST + self.seen / ONE_IN
    }

    /// A request is late. Returns whether to send it once more.
    pub fn take(&mut self) -> bool {
        let taken = self.has_budget();
        self.made += u64::from(taken);
        taken
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

/// One request in so many may be hedged: 5 %. Lower: more load on storage that may be slow because
/// of load. Higher: more late requests go without a hedge. Source: docs/decisions/0017.
const ONE_IN: u64 = 20;

/// So many may be hedged besides. Lower: a connection that falls silent early on is waited for as
/// long as patience lasts. Higher: more requests in vain at storage that answers in more than
/// [`STALLED_NS_MIN`]. Source: a guess, not measured.
const FIRST: u64 = 3;

/// Requests that must be complete before their silences say what is late. Lower: the estimates are
/// those of a few requests. Higher: a silence in the first requests of a run lasts
/// [`STALLED_NS_MIN`]. Source: a guess, not measured.
const SEEN_MIN: u64 = 64;

/// No request is late before this: 20 ms. Lower: delays of a busy machine itself count as those of
/// the storage. Higher: the tail of storage that is near lasts longer. Source: a guess, not
/// measured.
const LATE_NS_MIN: u64 = 20_000_000;

/// No connection has stalled before this: 2 s. Lower: usual answers of slow storage count as
/// stalls before much is known. Higher: readers wait longer for a connection that fell silent.
/// Source: a guess: the slowest first bytes of a million of a public object store took as long.
const STALLED_NS_MIN: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The `nth` silence; two in a hundred last twenty times as long as the others.
    fn with_tail(nth: u64) -> Nanos {
        Nanos(if nth % 50 == 49 { 600 * MS } else { 30 * MS + nth % 7 * MS / 10 })
    }

    #[test]
    fn late_lies_between_what_is_usual_and_the_tail() {
        let mut hedge = Hedge::default();
        (0..63).for_each(|nth| hedge.observe(with_tail(nth)));
        assert_eq!(hedge.late_after(), Nanos(2_000 * MS), "too little is known");
        for nth in 63..5_000 {
            hedge.observe(with_tail(nth));
            let late = hedge.late_after();
            assert!((60 * MS..400 * MS).contains(&late.0), "late after {late:?} at {nth}");
        }
    }

    #[test]
    fn three_and_one_in_twenty_are_hedged() {
        let mut hedge = Hedge::default();
        let mut made = 0;
        for seen in 1..=1_000u64 {
            hedge.observe(Nanos(30 * MS));
            made += u64::from(hedge.take()) + u64::from(hedge.take());
            assert!(made <= 3 + seen / 20);
        }
        assert_eq!(made, 53);
    }

    #[test]
    fn storage_that_becomes_slow_is_not_asked_twice_for_long() {
        let mut hedge = Hedge::default();
        (0..1_000).for_each(|_| hedge.observe(Nanos(MS)));
        (0..1_000).for_each(|_| hedge.observe(Nanos(100 * MS)));
        assert!(hedge.late_after().0 >= 200 * MS);
        (0..5_000).for_each(|_| hedge.observe(Nanos(MS)));
        assert_eq!(hedge.late_after(), Nanos(20 * MS));
    }
}
