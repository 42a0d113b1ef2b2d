//! How many requests the storage is given at a time: as many as buy throughput, and none that only wait there.
//!
//! ```text
//!   in flight   16   32   64   128        a store that works on 32 at a time
//!   a second   500  1000 1000  1000       beyond 32 the rate stays as it is
//!   first byte  30    30   60   120 ms    and each waits for the others, whoever asked for it
//!
//!   try three quarters --the rate falls--> what was more did buy throughput: back, and no trial for a while, each time longer
//!        |               --it holds, and answers come sooner--> keep it, try again
//!        \--meanwhile, where the limit is reached and answers come as soon as ever--> a quarter more
//! ```
//!
//! What waits at the storage is served in the storage's order; what waits here is served in ours (`fair_queue`). Only a trial tells whether what
//! is in flight waits in vain: disks that sort what they are given serve 64 in less time than 64 times one. A trial is made now and
//! then whatever answers took, since a store that was busy from the first moment has never shown how quick it is. Origin: congestion
//! control by delay (TCP Vegas), with the throughput as a witness.

use crate::units::Nanos;

/// The limit, and what the present interval has shown.
#[derive(Debug)]
pub(crate) struct Concurrency {
    limit: usize,
    /// The quickest answer ever, forgetting slowly.
    least_ns: u64,
    /// Pages in 1,000 seconds, averaged, and the most of that, forgetting slowly.
    rate: u64,
    best_rate: u64,
    trial: Trial,
    /// Intervals without a trial after the next one that is in vain.
    rests: u32,
    since: Nanos,
    seen: u64,
    pages: u64,
    quickest_ns: u64,
    /// The most that were in flight.
    most: usize,
}

/// Whether a lower limit is being tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Not for so many intervals.
    Rest(u32),
    /// What was in flight before has to leave.
    Settling(Before),
    /// Whether the interval before cost throughput, too: one alone may by chance.
    Measuring(Before, bool),
}

/// How it was before a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Before {
    limit: usize,
    quickest_ns: u64,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self {
            limit: LIMIT_FIRST,
            least_ns: u64::MAX,
            rate: 0,
            best_rate: 0,
            trial: Trial::Rest(RESTS_FIRST),
            rests: RESTS,
            since: Nanos(0),
            seen: 0,
            pages: 0,
            quickest_ns: u64::MAX,
            most: 0,
        }
    }
}

impl Concurrency {
    /// One that begins with another limit.
    #[cfg(test)]
    pub(crate) fn of(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The most requests to have in flight.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// So many are in flight.
    pub(crate) fn in_flight(&mut self, count: usize) {
        self.most = self.most.max(count);
    }

    /// A request for `pages` is done; it had its first byte after `first_byte`.
    pub(crate) fn answered(&mut self, now: Nanos, first_byte: Nanos, pages: u64) {
        self.seen += 1;
        self.pages += pages;
        self.quickest_ns = self.quickest_ns.min(first_byte.0.max(1));
        self.least_ns = self.least_ns.min(self.quickest_ns);
        let elapsed = now.since(self.since);
        if self.seen >= SEEN_MIN && elapsed >= INTERVAL {
            let rate = (u128::from(self.pages) * 1_000_000_000_000 / u128::from(elapsed.0)) as u64;
            self.end_interval(rate);
            (self.since, self.seen, self.pages, self.quickest_ns, self.most) = (now, 0, 0, u64::MAX, 0);
        }
    }

    fn end_interval(&mut self, rate: u64) {
        self.rate = if self.rate == 0 { rate } else { self.rate - self.rate / 4 + rate / 4 };
        self.best_rate = self.rate.max(self.best_rate - self.best_rate / FORGETS);
        let costs = rate < self.best_rate / 100 * KEEPS_PERCENT;
        let used = self.limit.min(self.most);
        match self.trial {
            Trial::Settling(before) => self.trial = Trial::Measuring(before, false),
            Trial::Measuring(before, false) if costs => self.trial = Trial::Measuring(before, true),
            Trial::Measuring(before, true) if costs => {
                // It is the storage that is slow, and not what waits there.
                self.least_ns += (self.quickest_ns - self.least_ns) / 8;
                self.limit = before.limit;
                self.rest();
            }
            Trial::Measuring(before, _) => {
                // It costs nothing. Where answers came sooner still less may do; where not it was for nothing.
                if self.quickest_ns < before.quickest_ns / 8 * 7 {
                    (self.trial, self.rests) = (Trial::Rest(0), RESTS);
                } else {
                    self.limit = before.limit;
                    self.rest();
                }
            }
            Trial::Rest(left) => self.trial = Trial::Rest(left.saturating_sub(1)),
        }
        let tried_min = if self.limit < LIMIT_FIRST { TRIED_MIN } else { TRIED_MIN_FIRST };
        if self.trial == Trial::Rest(0) && used >= tried_min {
            self.trial = Trial::Settling(Before { limit: self.limit, quickest_ns: self.quickest_ns });
            self.limit = (used * 3 / 4).max(LIMIT_MIN);
        } else if matches!(self.trial, Trial::Rest(_)) && self.most * 4 >= self.limit * 3 && !self.buys_latency() {
            self.limit = (self.limit + self.limit / 4).min(LIMIT_MAX);
        }
    }

    /// Whether even the quickest answer of this interval waited for others.
    fn buys_latency(&self) -> bool {
        self.quickest_ns > self.least_ns.saturating_mul(3) / 2
    }

    /// No trial for a while, each time longer.
    fn rest(&mut self) {
        self.trial = Trial::Rest(self.rests);
        self.rests = (self.rests * 2).min(RESTS_MAX);
    }
}

/// Until something is known: above the useful concurrency of every storage measured (16 to 64 connections fill a link), and room for a crowd that
/// begins together.
const LIMIT_FIRST: usize = 256;

/// Never fewer: what a few answers say by chance must not make a store serial.
const LIMIT_MIN: usize = 8;

/// Never more: connections cost memory on both sides.
const LIMIT_MAX: usize = 1024;

/// An interval lasts at least 100 ms, and this many answers: with fewer, rates differ by more than a trial has to tell.
const INTERVAL: Nanos = Nanos::from_millis(100);
const SEEN_MIN: u64 = 64;

/// A lower limit is kept if the rate is this much of the best. What works on eight at a time answers in groups of eight: the rates of two
/// intervals differ by several percent.
const KEEPS_PERCENT: u64 = 97;

/// The best rate is forgotten by a 4,096th at each interval, in minutes: sooner, and each trial would cost a little more of what the one before
/// has left. Where less is read meanwhile a best that is too high keeps the limit as it is.
const FORGETS: u64 = 4_096;

/// Intervals before the first trial, after the first one that was in vain; then twice as many each time, to the most: a
/// quarter less for three of them costs 5 % of the throughput of the first twelve, and .1 % in the long run.
const RESTS_FIRST: u32 = 4;
const RESTS: u32 = 12;
const RESTS_MAX: u32 = 1_024;

/// Fewer in flight than this are not tried with less: where nothing has shown yet that less does, a trial with sixteen readers costs them more
/// than the few that could wait here instead of there would gain; and where a trial has, down to a dozen.
const TRIED_MIN_FIRST: usize = 32;
const TRIED_MIN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The limit after `seconds` in front of a store that answers each of `n` in flight after `first_byte_ms(n)`, closed loop of `readers`.
    fn found(readers: u64, seconds: u64, first_byte_ns: impl Fn(u64) -> u64) -> usize {
        let (mut concurrency, mut now) = (Concurrency::default(), 0);
        // The first answers come before anything has to wait.
        concurrency.answered(Nanos(0), Nanos(first_byte_ns(1)), 1);
        while now < seconds * 1_000 * MS {
            let in_flight = readers.min(concurrency.limit() as u64);
            concurrency.in_flight(in_flight as usize);
            now += first_byte_ns(in_flight) / in_flight;
            concurrency.answered(Nanos(now), Nanos(first_byte_ns(in_flight)), 1);
        }
        concurrency.limit()
    }

    #[test]
    fn the_limit_comes_to_what_the_store_works_on() {
        for servers in [8, 16, 32, 64] {
            let limit = found(500, 20, |n| 30 * MS * n.max(servers) / servers) as u64;
            assert!((servers..=2 * servers).contains(&limit), "{limit} for {servers}");
        }
    }

    #[test]
    fn what_buys_throughput_is_kept() {
        // Disks that sort: the more there are, the less each takes.
        let limit = found(64, 20, |n| 9 * MS * n.max(10) / 10 * 20 / (20 + u64::from(n.ilog2())));
        assert!(limit >= 48, "{limit}");
    }

    #[test]
    fn a_limit_that_is_not_reached_stays() {
        assert_eq!(found(16, 20, |_| 30 * MS), LIMIT_FIRST);
    }

    #[test]
    fn a_store_that_never_lets_wait_is_given_more() {
        assert_eq!(found(5_000, 20, |_| 30 * MS), LIMIT_MAX);
    }

    #[test]
    fn a_store_that_became_slower_is_not_taken_to_be_overloaded_for_ever() {
        let (mut concurrency, mut now) = (Concurrency::default(), 0);
        concurrency.answered(Nanos(0), Nanos(MS), 1);
        let mut limits = 0;
        for _ in 0..100_000 {
            let in_flight = concurrency.limit().min(64) as u64;
            concurrency.in_flight(in_flight as usize);
            now += 30 * MS / in_flight;
            concurrency.answered(Nanos(now), Nanos(30 * MS), 1);
            limits += in_flight;
        }
        assert!(limits / 100_000 >= 60, "{}", limits / 100_000);
    }
}
