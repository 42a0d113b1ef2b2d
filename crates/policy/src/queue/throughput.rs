//! What a link carries in all, measured round by round, and whether that still grows.
//!
//! ```text
//!   started        a  b  c        d  e
//!   completed            a        b  c     d          d came after the round began and ends it
//!                        |<---- round ---->|<----    throughput = bytes that arrived / its length
//!
//!   rate    ......./-----\.......     plateau: the rate when it had last risen by a quarter
//!   rounds  rises  level  level       three level rounds: it rises no more
//!                  held back          three of them in which the link was the limit: it grows no
//!                                     more, and neither does it where requests are crowded
//! ```
//!
//! A round is as long as a request takes, so the bytes of many requests that end together are
//! divided by the time that they took. A span of fixed length is often shorter than that, and
//! would show a rate that the link does not have: 406 MB/s on a link of 100.
//!
//! The bytes of a long request are told grant by grant. In the time of a short request many of
//! them may be told that came before it: 2 MiB in 34 ms, on a link of 10 MB/s. So a short request
//! beside longer ones ends no round, unless nothing was in flight when that began, or the
//! throughput was never level: during the start, each round counts.
//!
//! A round is overdue if it takes twice as long as its requests take at the known rate. If less
//! than half of the bytes came in it as well, the link has become narrower.
//!
//! *Invariant:* `best` is at least `rate`.
//!
//! This file does not know what one request may carry (`link`) nor what is done with a link that
//! grows (`read/path/limits`, `concurrency`). Source: rounds by acknowledged packets, and the
//! startup that ends after three rounds without a rise by a quarter, as in BBR;
//! docs/decisions/0050, 0062, 0099.

use crate::units::Nanos;

/// The bytes a second of all requests, and how they change.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an observation of its own, in any combination")]
pub(crate) struct Throughput {
    /// Bytes a second: half of the way to a round above, a 16th of the way to one below, unless
    /// that began with nothing in flight or nothing was held back in it.
    rate: u64,
    /// The most of it, forgotten slowly.
    best: u64,
    /// What it was when it had last risen by a quarter.
    plateau: u64,
    /// Rounds since then, and those of them in which the link was the limit.
    level: u32,
    held_back: u32,
    grows: bool,
    /// It was level once: the start is over.
    was_level: bool,
    /// Something was held back in this round by what the link was thought to carry.
    is_limit: bool,
    /// The same in the round before.
    was_limit: bool,
    /// In the round before, something was held back, and less came than the link is known to
    /// carry.
    fell_short: bool,
    /// Bytes a second of the round before.
    latest: u64,
    round: Round,
    /// Since a request last started while nothing was at the storage: when that was, the bytes
    /// that arrived, and when the last request completed.
    busy: Busy,
}

/// A time in which something was at the storage throughout.
#[derive(Debug, Clone, Copy, Default)]
struct Busy {
    start: Nanos,
    bytes: u64,
    last: Nanos,
}

/// The present round.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    start: Nanos,
    bytes: u64,
    /// The requests that had come to the storage when it began.
    came: u64,
    /// Nothing was in flight when it began.
    is_first: bool,
}

/// A request that is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    /// Its number among those that came to the storage.
    pub(crate) came: u64,
    /// How many have come so far.
    pub(crate) latest: u64,
    /// It is over before those beside it have told what came.
    pub(crate) is_short: bool,
}

#[cfg(test)]
impl Passed {
    /// A request as long as those beside it.
    pub(crate) fn long(came: u64, latest: u64) -> Self {
        Self { came, latest, is_short: false }
    }
}

impl Throughput {
    /// A request starts while nothing is at the storage, where `came` had come before: the round
    /// begins anew. What was busy before carried at least what it did in all.
    pub(crate) fn begins(&mut self, now: Nanos, came: u64) {
        let Busy { start, bytes, last } = self.busy;
        if last.since(start) >= ROUND_MIN {
            let sample = per_second(bytes, last.since(start).0);
            self.rate = self.rate.max(settle(self.rate, sample));
            self.best = self.best.max(self.rate);
        }
        self.busy = Busy { start: now, bytes: 0, last: now };
        self.round = Round { start: now, bytes: 0, came, is_first: true };
    }

    /// Bytes of requests have arrived.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.round.bytes += bytes;
        self.busy.bytes += bytes;
    }

    /// Something is held back by what the link is thought to carry. A round without that shows
    /// what readers want, and not what the link carries.
    pub(crate) fn holds_back(&mut self) {
        self.is_limit = true;
    }

    /// A request is complete. Requests are `crowded` if they wait for each other for long. Returns
    /// whether that ends the round.
    ///
    /// At the known rate a round takes no longer than `expected`. A round that took twice as long
    /// is overdue. If something was held back in it, and less than half of the known rate came,
    /// the link has become narrower: the rate is set to what came.
    pub(crate) fn passed(&mut self, now: Nanos, passed: Passed, expected: Nanos, crowded: bool) -> bool {
        let Passed { came, latest, is_short } = passed;
        self.busy.last = now;
        let elapsed = now.since(self.round.start);
        let is_overdue = self.is_limit && !self.grows && elapsed.0 / OVERDUE >= expected.0;
        let is_too_short = is_short && !self.round.is_first && self.was_level;
        if came <= self.round.came || elapsed < ROUND_MIN || is_too_short {
            return false;
        }
        let sample = per_second(self.round.bytes, elapsed.0);
        self.latest = sample;
        self.fell_short = self.is_limit && sample < self.rate / SHORT_OF * (SHORT_OF - 1);
        let least = if self.round.is_first || !self.is_limit { self.rate } else { 0 };
        self.rate = settle(self.rate, sample).max(least);
        self.best = self.rate.max(self.best - self.best / FORGETS);
        if sample < self.rate / 2 && is_overdue {
            self.rate = sample.max(least);
            self.best = self.rate;
        }
        self.round = Round { start: now, bytes: 0, came: latest, is_first: false };
        if sample >= self.plateau / 4 * 5 {
            (self.plateau, self.level, self.held_back) = (sample, 0, 0);
            self.grows = true;
        } else {
            self.level = self.level.saturating_add(1);
            self.held_back = self.held_back.saturating_add(u32::from(self.is_limit));
            self.plateau -= self.plateau / FORGETS;
        }
        self.was_level |= !self.rises();
        (self.is_limit, self.was_limit) = (false, self.is_limit);
        self.grows &= self.held_back < LEVEL_ROUNDS && !crowded;
        true
    }

    /// Bytes a second; 0 before the first round is over.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Bytes a second of the last round.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Whether something was held back in the last round.
    pub(crate) fn was_limit(&self) -> bool {
        self.was_limit
    }

    /// Whether it has risen in the last rounds.
    pub(crate) fn rises(&self) -> bool {
        self.level < LEVEL_ROUNDS
    }

    /// Whether it was level once: the start is over.
    pub(crate) fn was_level(&self) -> bool {
        self.was_level
    }

    /// Whether more may be had than is known: it was seen to rise, and not to be at its limit
    /// since.
    pub(crate) fn grows(&self) -> bool {
        self.grows
    }

    /// Whether something is held back, or was in the last round: all that the link carries was
    /// asked for.
    pub(crate) fn is_limit(&self) -> bool {
        self.is_limit || self.was_limit
    }

    /// Whether, in the last round, something was held back, and yet less came than is known to
    /// come: either the link has become slower, or too much was held back.
    pub(crate) fn fell_short(&self) -> bool {
        self.fell_short
    }

    /// Whether `bytes_per_s` is clearly less than what the link has carried.
    pub(crate) fn is_far_above(&self, bytes_per_s: u64) -> bool {
        bytes_per_s.saturating_mul(3) / 2 < self.best
    }

    /// Whether the link has carried more than `bytes_per_s`, by more than chance.
    pub(crate) fn is_above(&self, bytes_per_s: u64) -> bool {
        bytes_per_s / ABOVE_OF * (ABOVE_OF + 1) < self.best
    }

    /// Whether it is clearly below what it was. While it is not, a slow request shows how many
    /// share the link, and not what one could have.
    pub(crate) fn has_fallen(&self) -> bool {
        self.rate < self.best / FALLEN_OF * (FALLEN_OF - 1)
    }
}

pub(crate) fn per_second(bytes: u64, ns: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1))).min(u128::from(u64::MAX)) as u64
}

/// Half of the way to a sample above, a 16th of the way to one below. The value is not the highest
/// sample: whole requests that happen to end together look like more than the link carries.
fn settle(value: u64, sample: u64) -> u64 {
    if value == 0 {
        sample
    } else if sample > value {
        u64::midpoint(value, sample)
    } else {
        value - (value - sample) / 16
    }
}

/// The shortest round: 1 ms. Lower: single pieces count. Higher: on a quick link several round
/// trips are one round. Source: a guess, not measured.
const ROUND_MIN: Nanos = Nanos::from_millis(1);

/// How many times as long as expected a round takes that is overdue. Lower: one that ends late by
/// chance looks like a narrower link. Higher: a link that became narrower is noticed later, with
/// more in flight. Source: docs/decisions/0062.
const OVERDUE: u64 = 2;

/// Rounds without a rise by a quarter after which the throughput is level. Lower: a start that
/// pauses for a round trip is taken for the link's limit. Higher: more is asked for than the link
/// carries. Source: BBR, which leaves its startup after three rounds without such a rise.
const LEVEL_ROUNDS: u32 = 3;

/// The best loses a 64th in each round. Lower: one round of luck is remembered for less time.
/// Higher: a link that became slower is taken for a crowded one for longer. Source: a guess, not
/// measured.
const FORGETS: u64 = 64;

/// A throughput that is lower by one part in so many has fallen: a quarter. Lower: by a larger
/// part, and a link that became slower is taken for a crowded one for longer. Higher: a pause of
/// readers looks like a slower link. Source: a guess, not measured.
const FALLEN_OF: u64 = 4;

/// The link has carried more than it did at another time if that is more by one part in so many:
/// an eighth. Lower: by a larger part, and connections that had no share of a full link are taken
/// to have had one: sixteen readers at 25 MB/s a connection, measured at .9 of what the link then
/// had carried, stayed at .7 of it. Higher: a share is taken for a connection. Source:
/// docs/decisions/0085.
const ABOVE_OF: u64 = 8;

/// A round that has less than the rate by one part in so many fell short: a sixteenth. Lower: by a
/// larger part, and a bound that is too low stays longer. Higher: a round that ended late looks
/// like one. Source: docs/decisions/0060.
const SHORT_OF: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const EXPECTED: Nanos = Nanos::from_millis(333);

    /// The rate after `rounds` in which `n` requests of 1 MB end together, each `round_ms` after
    /// it was started.
    fn of_bursts(n: u64, round_ms: u64, rounds: u64) -> Throughput {
        let mut throughput = Throughput::default();
        throughput.begins(Nanos(0), 0);
        for round in 1..=rounds {
            for nth in 1..=n {
                throughput.arrived(MB);
                // Each that ends makes room for another one, which comes after it.
                let came = (round - 1) * n + nth;
                throughput.passed(
                    Nanos::from_millis(round * round_ms),
                    Passed::long(came, n * round + nth - 1),
                    EXPECTED,
                    false,
                );
            }
        }
        throughput
    }

    #[test]
    fn requests_that_end_together_count_once_each() {
        // Sixteen in a third of a second: 48 MB/s, and not what comes in the instant of their end.
        let rate = of_bursts(16, 333, 40).rate();
        assert!((45 * MB..=51 * MB).contains(&rate), "{rate}");
    }

    #[test]
    fn a_rate_that_readers_limit_is_not_taken_for_the_links() {
        assert!(of_bursts(16, 333, 40).grows());
        assert!(!of_bursts(16, 333, 40).rises());
        let mut throughput = of_bursts(16, 333, 40);
        for round in 41..=44 {
            throughput.holds_back();
            throughput.arrived(16 * MB);
            throughput.passed(Nanos::from_millis(round * 333), Passed::long(u64::MAX, u64::MAX - 1), EXPECTED, false);
        }
        assert!(!throughput.grows());
    }

    #[test]
    fn a_slow_round_shows_the_rate_only_where_it_is_overdue_and_the_link_was_the_limit() {
        let after = |holds_back: bool, round_ms: u64, grows: bool| {
            let mut throughput = of_bursts(16, 333, 40);
            throughput.grows = grows;
            if holds_back {
                throughput.holds_back();
            }
            throughput.arrived(5 * MB);
            throughput.passed(
                Nanos::from_millis(40 * 333 + round_ms),
                Passed::long(u64::MAX, u64::MAX - 1),
                EXPECTED,
                false,
            );
            throughput.rate() / MB
        };
        // The rest of the last burst counts as well: 20 MB in 2 s.
        assert_eq!(after(true, 2_000, false), 10);
        assert_eq!(after(false, 2_000, false), 48, "readers wanted less, which shows nothing");
        assert_eq!(after(true, 650, false), 46, "it took no longer than rounds do");
        assert_eq!(after(true, 2_000, true), 45, "what a start has put in flight is not known");
    }

    #[test]
    fn what_longer_requests_tell_in_the_time_of_a_short_one_is_no_rate() {
        // Eight requests share 10 MB/s, tell 2 MB at once every 200 ms, and take 800 ms.
        let rate = |is_short| {
            let mut throughput = of_bursts(2, 200, 40);
            for burst in 41..=44 {
                throughput.holds_back();
                throughput.arrived(2 * MB);
                let now = Nanos::from_millis(burst * 200);
                throughput.passed(now, Passed::long(burst * 10, burst * 10), EXPECTED, false);
            }
            for burst in 45..=84 {
                throughput.holds_back();
                let mut pass = |ms, came, is_short| {
                    let passed = Passed { came, latest: came, is_short };
                    throughput.passed(Nanos::from_millis(burst * 200 + ms - 10), passed, EXPECTED, false);
                };
                pass(0, burst * 10, is_short);
                if burst % 4 == 0 {
                    pass(10, burst * 10 + 1, false);
                }
                throughput.arrived(2 * MB);
                let passed = Passed { came: burst * 10 + 2, latest: burst * 10 + 2, is_short };
                throughput.passed(Nanos::from_millis(burst * 200 + 24), passed, EXPECTED, false);
            }
            throughput.rate() / MB
        };
        assert!((9..=10).contains(&rate(true)), "{}", rate(true));
        assert!(rate(false) > 20, "{}: a burst in the time of a short request", rate(false));
    }

    #[test]
    fn bursts_with_pauses_show_what_they_carried_while_they_lasted() {
        // Two hundred requests of 1 MB each second, all of which end together after 300 ms.
        let mut throughput = Throughput::default();
        for burst in 0..60 {
            throughput.begins(Nanos::from_millis(1_000 * burst), 200 * burst);
            for nth in 1..=200 {
                throughput.arrived(MB);
                let now = Nanos::from_millis(1_000 * burst + 300);
                throughput.passed(now, Passed::long(200 * burst + nth, 200 * (burst + 1)), EXPECTED, false);
            }
        }
        let rate = throughput.rate();
        assert!((600 * MB..=670 * MB).contains(&rate), "{rate}");
    }

    #[test]
    fn a_pause_is_in_no_round() {
        let mut throughput = of_bursts(16, 333, 40);
        let before = throughput.rate();
        throughput.begins(Nanos::from_millis(1_000_000), 700);
        throughput.arrived(16 * MB);
        assert!(throughput.passed(Nanos::from_millis(1_000_333), Passed::long(701, 701), EXPECTED, false));
        assert!(throughput.rate() > before / 10 * 9, "{}", throughput.rate());
    }
}
