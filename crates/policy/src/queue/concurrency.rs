//! Concurrency: how many requests the storage is given at a time, found by trials.
//!
//! ```text
//!   in flight   16   32   64   128        a store that works on 32 requests at a time
//!   a second   500  1000 1000  1000       beyond 32 the rate no longer rises
//!   first byte  30    30   60   120 ms    and every request waits for the others
//!
//!   Rest(n) ──(n intervals, enough in flight)──> Settling ──> Measuring    limit: 3/4 of those
//!      ^                                            ^             │         in flight
//!      │                                            └─────────────┤  the rate holds, first bytes
//!      │                                                          │  come 1/8 sooner: kept
//!      └──────────────────────────────────────────────────────────┘  otherwise: the old limit,
//!                                                                    and twice the rest
//!   Rest: 3/4 of the limit in use, and the quickest first byte within half as much again of the
//!   quickest ever: a quarter more
//! ```
//!
//! A request that waits at the storage is served in the storage's order. A request that waits here
//! is served in the order of `fair_queue`. So the limit is the least number of requests that still
//! has the full rate. Only a trial shows whether requests wait at the storage in vain: a disk that
//! sorts serves 64 requests in less time than 64 times one. A trial takes place even if answers
//! are quick: a store that was busy from the first moment has never shown how quick it can be.
//!
//! *Invariants:* the limit is between [`LIMIT_MIN`] and [`LIMIT_MAX`]. A lower limit stays only if
//! the rate held and first bytes came sooner.
//!
//! This file does not hold requests back; `fair_queue` does, and it may exceed the limit for some.
//! It has no limit for a disk, which `fair_queue` gives one long request at a time. Source:
//! docs/decisions/0022, amended by 0026 and 0061; congestion control by delay (TCP Vegas), with
//! the rate as a second witness.

use crate::units::Nanos;

/// The limit, and the figures of the present interval.
#[derive(Debug)]
pub(crate) struct Concurrency {
    limit: usize,
    /// The quickest first byte so far, in ns. A trial that costs throughput raises it, since the
    /// storage itself may have become slower.
    least_ns: u64,
    /// The rate in pages per 1,000 seconds, averaged over some four intervals.
    rate: u64,
    /// The highest average rate, forgotten slowly ([`FORGETS`]).
    best_rate: u64,
    trial: Trial,
    /// Intervals to rest after the next trial that is undone.
    rests: u32,
    /// The last trial lowered the limit by one part in so many.
    depth: usize,
    /// The present interval: its start, its answers, their pages, and the quickest first byte.
    since: Nanos,
    seen: u64,
    pages: u64,
    quickest_ns: u64,
    first_bytes_ns: u64,
    /// The most requests in flight in the present interval.
    most: usize,
    /// The greatest limit.
    max: usize,
    /// The present round of the link: the most requests in flight, its answers, and the sum of
    /// their first bytes.
    round_most: usize,
    round_seen: u64,
    round_first_bytes_ns: u64,
}

/// Whether a lower limit is being tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// No trial for so many intervals.
    Rest(u32),
    /// The limit was lowered; the requests above it have to end first.
    Settling(Before),
    /// The lower limit is measured. `true` if the rate fell in the interval before as well: in one
    /// interval alone it may fall by chance.
    Measuring(Before, bool),
}

/// The state before a trial.
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
            depth: DEPTH_FIRST,
            since: Nanos(0),
            seen: 0,
            pages: 0,
            quickest_ns: u64::MAX,
            first_bytes_ns: 0,
            most: 0,
            max: LIMIT_MAX,
            round_most: 0,
            round_seen: 0,
            round_first_bytes_ns: 0,
        }
    }
}

impl Concurrency {
    /// A `Concurrency` that begins with `limit`.
    #[cfg(test)]
    pub(crate) fn of(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The same with another greatest limit.
    pub(crate) fn with_max(self, max: usize) -> Self {
        Self { max: max.max(LIMIT_FIRST), ..self }
    }

    /// The most requests to have in flight.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// `count` requests are in flight now.
    pub(crate) fn in_flight(&mut self, count: usize) {
        self.most = self.most.max(count);
        self.round_most = self.round_most.max(count);
    }

    /// A request for `pages` is complete; its first byte came after `first_byte`.
    pub(crate) fn answered(&mut self, now: Nanos, first_byte: Nanos, pages: u64) {
        self.seen += 1;
        self.pages += pages;
        self.quickest_ns = self.quickest_ns.min(first_byte.0.max(1));
        self.first_bytes_ns = self.first_bytes_ns.saturating_add(first_byte.0);
        self.least_ns = self.least_ns.min(self.quickest_ns);
        self.round_seen += 1;
        self.round_first_bytes_ns = self.round_first_bytes_ns.saturating_add(first_byte.0);
        let elapsed = now.since(self.since);
        if self.seen >= SEEN_MIN && elapsed >= INTERVAL {
            let rate = (u128::from(self.pages) * 1_000_000_000_000 / u128::from(elapsed.0)) as u64;
            self.end_interval(rate);
            (self.since, self.seen, self.pages, self.most) = (now, 0, 0, 0);
            (self.quickest_ns, self.first_bytes_ns) = (u64::MAX, 0);
        }
    }

    /// While the throughput of the link `grows`, a limit that is used and at which requests do not
    /// wait at the storage becomes four times as large. The first answer of many requests does not
    /// show that: it may be the only one that did not wait. Half of those that were in flight do.
    pub(crate) fn grow(&mut self, grows: bool) {
        let mean_ns = self.round_first_bytes_ns.checked_div(self.round_seen).unwrap_or(0);
        let waits = self.round_seen * 2 < self.round_most as u64 || mean_ns > self.least_ns.saturating_mul(3) / 2;
        if grows && !waits && self.limit >= LIMIT_FIRST && self.is_used(self.round_most) {
            self.limit = (self.limit * 4).min(self.max);
            self.round_ended();
        }
    }

    /// A round of the link is over: what was seen in it counts no more.
    pub(crate) fn round_ended(&mut self) {
        (self.round_most, self.round_seen, self.round_first_bytes_ns) = (0, 0, 0);
    }

    /// Whether `most` requests in flight use up the limit.
    fn is_used(&self, most: usize) -> bool {
        most * 4 >= self.limit * 3
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
                // The storage itself is slow: fewer requests did not help.
                self.least_ns += (self.quickest_ns - self.least_ns) / 8;
                self.limit = before.limit;
                self.rest();
            }
            Trial::Measuring(before, _) => {
                // The rate held. If first bytes came sooner, a still lower limit may do. If not,
                // the lower limit gains nothing.
                let sooner = before.quickest_ns / (2 * self.depth as u64);
                if self.quickest_ns < before.quickest_ns - sooner {
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
            let is_crowded = self.limit < LIMIT_FIRST || self.first_bytes_wait();
            self.depth = if is_crowded { DEPTH } else { DEPTH_FIRST };
            self.limit = (used - used.div_ceil(self.depth)).max(LIMIT_MIN);
        } else if matches!(self.trial, Trial::Rest(_)) && self.is_used(self.most) && !self.buys_latency() {
            self.limit = (self.limit + self.limit / 4).min(self.max);
        }
    }

    /// Whether even the quickest first byte of this interval waited for other requests.
    fn buys_latency(&self) -> bool {
        self.quickest_ns > self.least_ns.saturating_mul(3) / 2
    }

    /// Whether first bytes of this interval came clearly later on average than the quickest ever.
    fn first_bytes_wait(&self) -> bool {
        self.first_bytes_ns.checked_div(self.seen).is_some_and(|mean_ns| mean_ns > self.least_ns.saturating_mul(3) / 2)
    }

    /// Rests from trials, each time for longer.
    fn rest(&mut self) {
        self.trial = Trial::Rest(self.rests);
        self.rests = (self.rests * 2).min(RESTS_MAX);
    }
}

/// The limit before any trial, in requests. It is above the useful concurrency of every storage
/// measured (16 to 64 connections fill a link), with room for many readers that begin together.
/// Lower: many readers that begin together wait for each other. Higher: a store that works on a
/// few requests takes more trials to be found (four seconds from 256 to 8). Source:
/// docs/decisions/0022.
const LIMIT_FIRST: usize = 256;

/// The least limit, in requests. Lower: a few slow answers by chance can make a store serial.
/// Higher: a store that works on fewer requests queues the others in its own order. Source:
/// docs/decisions/0022.
const LIMIT_MIN: usize = 8;

/// The greatest limit where no budget says otherwise, in requests. Lower: a store that works on
/// more is not used fully. Higher: connections cost more memory on both sides. Source: a guess,
/// not measured; `read::path` derives it from the budget.
const LIMIT_MAX: usize = 1024;

/// The least length of an interval: 100 ms. Lower: rates of intervals differ by chance, and trials
/// are undone. Higher: a limit takes longer to be found. Source: a guess, not measured.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// The least number of answers in an interval. Lower: rates of intervals differ by more than a
/// trial has to tell. Higher: a store that answers slowly has few trials. Source: a guess, not
/// measured.
const SEEN_MIN: u64 = 64;

/// A lower limit costs throughput if the rate is below this percentage of the best rate. A store
/// that works on eight requests answers in groups of eight, so the rates of two intervals differ
/// by several percent. Lower: limits that cost throughput are kept. Higher: a trial fails by
/// chance. Source: docs/decisions/0022.
const KEEPS_PERCENT: u64 = 97;

/// The best rate loses a 4,096th at each interval, so it is forgotten in minutes. Lower: each
/// trial may cost a little more than the one before, since the best rate follows the lower limit.
/// Higher: where less is read than before, no lower limit is kept for longer. Source: a guess, not
/// measured.
const FORGETS: u64 = 4_096;

/// Intervals before the first trial. Lower: the first trial begins before the rate is known.
/// Higher: a crowded store stays crowded for longer at the start. Source: a guess, not measured.
const RESTS_FIRST: u32 = 4;

/// Intervals of rest after the first trial that is undone; the rest then doubles each time. A
/// trial takes three intervals with a quarter fewer requests, which is 5 % of the throughput of a
/// trial and its rest. Lower: trials cost more throughput. Higher: a useful lower limit is found
/// later. Source: a guess, not measured; the doubling is from docs/decisions/0022.
const RESTS: u32 = 12;

/// The longest rest, in intervals: 100 s or more. Trials then cost .1 % of the throughput. Lower:
/// they cost more. Higher: a store that becomes crowded later is noticed later. Source: a guess,
/// not measured.
const RESTS_MAX: u32 = 1_024;

/// Until requests have been seen to wait, each trial lowers the limit by a sixteenth. Lower: a
/// trial costs the readers of a store without a queue more of their throughput. Higher: the rate
/// of such a store falls by less than chance changes it, and lower limits are kept. Source:
/// docs/decisions/0050: less than a tenth.
const DEPTH_FIRST: usize = 16;

/// Once they have, or a trial has been kept, each lowers it by a quarter. Lower: by more than the
/// store may bear. Higher: a store that works on a few requests takes longer to be found. Source:
/// docs/decisions/0022.
const DEPTH: usize = 4;

/// Requests in flight that the first trial needs, until a trial has been kept. Lower: with sixteen
/// readers a trial costs them 6 % of their throughput, more than is gained by the few requests
/// that could then wait here. Higher: a store that works on a few requests stays crowded when
/// fewer readers than this use it. Source: docs/decisions/0026.
const TRIED_MIN_FIRST: usize = 32;

/// Requests in flight that a trial needs once the limit is below [`LIMIT_FIRST`]. Lower: trials
/// where hardly any request could wait here instead of at the storage. Higher: the limit stays
/// above what a small store works on. Source: docs/decisions/0026.
const TRIED_MIN: usize = 12;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;

    /// The limit after `seconds` of `readers` in a closed loop. The store answers each of `n`
    /// requests in flight after `first_byte_ns(n)`.
    fn found(readers: u64, seconds: u64, first_byte_ns: impl Fn(u64) -> u64) -> usize {
        let (mut concurrency, mut now) = (Concurrency::default(), 0);
        // The first answer comes before any request has to wait.
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
    fn the_limit_approaches_the_number_that_the_store_works_on() {
        for servers in [8, 16, 32, 64] {
            let limit = found(500, 20, |n| 30 * MS * n.max(servers) / servers) as u64;
            assert!((servers..=2 * servers).contains(&limit), "{limit} for {servers}");
        }
    }

    #[test]
    fn a_limit_that_raises_the_rate_is_kept() {
        // Disks that sort: the more requests there are, the less time each takes.
        let limit = found(64, 20, |n| 9 * MS * n.max(10) / 10 * 20 / (20 + u64::from(n.ilog2())));
        assert!(limit >= 48, "{limit}");
    }

    #[test]
    fn a_limit_that_is_not_reached_stays() {
        assert_eq!(found(16, 20, |_| 30 * MS), LIMIT_FIRST);
    }

    #[test]
    fn a_store_without_a_queue_is_given_more() {
        assert_eq!(found(5_000, 20, |_| 30 * MS), LIMIT_MAX);
    }

    #[test]
    fn the_first_answer_of_many_requests_does_not_raise_the_limit() {
        let mut concurrency = Concurrency::default();
        concurrency.in_flight(LIMIT_FIRST);
        concurrency.answered(Nanos(30 * MS), Nanos(30 * MS), 1);
        concurrency.grow(true);
        concurrency.round_ended();
        assert_eq!(concurrency.limit(), LIMIT_FIRST);
        concurrency.in_flight(LIMIT_FIRST);
        (0..LIMIT_FIRST).for_each(|_| concurrency.answered(Nanos(30 * MS), Nanos(30 * MS), 1));
        concurrency.grow(true);
        concurrency.round_ended();
        assert_eq!(concurrency.limit(), LIMIT_FIRST * 4);
    }

    #[test]
    fn half_of_the_answers_raise_the_limit_before_the_round_is_over() {
        let mut concurrency = Concurrency::default();
        concurrency.in_flight(LIMIT_FIRST);
        let limits: Vec<usize> = (0..LIMIT_FIRST / 2)
            .map(|_| {
                concurrency.answered(Nanos(30 * MS), Nanos(30 * MS), 1);
                concurrency.grow(true);
                concurrency.limit()
            })
            .collect();
        assert_eq!(limits[LIMIT_FIRST / 2 - 2..], [LIMIT_FIRST, LIMIT_FIRST * 4]);
        concurrency.answered(Nanos(30 * MS), Nanos(30 * MS), 1);
        concurrency.grow(true);
        assert_eq!(concurrency.limit(), LIMIT_FIRST * 4, "these show nothing of the new limit");
    }

    #[test]
    fn a_store_that_became_slower_does_not_count_as_overloaded_for_ever() {
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
