//! Probe: more is asked for during two rounds, to tell a full link from a limit that is too low.
//!
//! ```text
//!                     in flight   a full link                a limit that is too low
//!   before            42 MB       350 MB/s, 70 a request     350 MB/s, 70 a request
//!   during a probe    63 MB       350 MB/s, 50 a request     520 MB/s, 70 a request
//! ```
//!
//! Where requests take longer than they would alone, either they share a full link, or what one
//! would carry alone was taken for too much: then too little may be in flight, less comes, and
//! this is taken for what the link carries. Only with more in flight do the two differ.
//!
//! What others ask for waits behind a probe. So there is one only where the bandwidth is in doubt:
//! no request has had two thirds of it from the least first byte on, and it has shown twelve
//! rounds ago at most. A longer request counts for more there: of a short one a machine that is
//! busy with other work may find all in its buffers.
//!
//! *Invariant:* there is one probe at most, each time that a higher bandwidth has shown. One that
//! is broken off is not repeated.
//!
//! The file does not know what is in flight (`link` raises its bound). Source: BBR, which asks for
//! a quarter more once in eight rounds; docs/decisions/0115.

use core::mem::take;

use crate::queue::throughput::per_second;
use crate::units::Nanos;

/// When there is a probe, and what it is compared with.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// The most that a request has had from the least first byte on, in bytes a second, of those
    /// that count: none before the one of so many bytes.
    certain: u64,
    certain_by: u64,
    /// Rounds since a higher bandwidth has shown.
    age: u32,
    /// Rounds in a row that call for a probe and carried about as much as those before.
    level: u32,
    /// What they carried.
    usual: Round,
    /// Rounds of the probe that are left.
    left: u32,
    /// Bytes of the requests that are complete since the last round, and the time that they took
    /// from the least first byte on, in ns.
    bytes: u64,
    ns: u64,
}

/// What a round carried.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// Bytes a second in all.
    all: u64,
    /// Bytes a second of a request, from the least first byte on.
    each: u64,
}

impl Probe {
    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.left > 0
    }

    /// A request for `bytes` is complete, `from_first` after the least first byte.
    pub(crate) fn completed(&mut self, bytes: u64, from_first: Nanos) {
        self.bytes += bytes;
        self.ns = self.ns.saturating_add(from_first.0);
    }

    /// The same, of one that is long enough to show a bandwidth. It had `few` beside it.
    pub(crate) fn shows(&mut self, bytes: u64, from_first: Nanos, few: bool) {
        let rate = per_second(bytes, from_first.0);
        if few && self.age < TRIAL && bytes >= LONGER * self.certain_by {
            (self.certain, self.certain_by) = (rate, bytes);
        }
        self.certain = self.certain.max(rate);
    }

    /// A request has shown a higher bandwidth: that is on trial if it is not certain.
    pub(crate) fn raised(&mut self, bandwidth: u64) {
        if bandwidth > self.certain {
            self.age = 0;
        }
    }

    /// A round is over, in which all requests carried `all` bytes a second, and one is taken to
    /// carry `bandwidth` alone. The link `is_full`, as far as is known. Returns what a connection
    /// carries, if a probe has shown that this is less.
    pub(crate) fn round_ended(&mut self, all: u64, bandwidth: u64, is_full: bool) -> Option<u64> {
        let (bytes, ns) = (take(&mut self.bytes), take(&mut self.ns));
        self.age = self.age.saturating_add(1);
        // One in which all waited for memory says nothing.
        if bytes == 0 {
            return None;
        }
        let round = Round { all, each: per_second(bytes, ns) };
        let is_due = is_full && self.age <= TRIAL;
        if self.certain >= bandwidth / 3 * 2 || !(is_due || self.is_on()) {
            (self.left, self.level) = (0, 0);
            return None;
        }
        if self.left == 0 {
            let near = self.usual.all / LEVEL_OF;
            if self.level == 0 || !(self.usual.all - near..=self.usual.all + near).contains(&all) {
                (self.usual, self.level) = (round, 0);
            }
            self.usual = self.usual.settle(round);
            self.level += 1;
            if self.level >= LEVEL {
                (self.left, self.age, self.level) = (ROUNDS, TRIAL, 0);
            }
            return None;
        }
        self.left -= 1;
        (self.left == 0 && all > self.usual.all / 5 * 6).then(|| {
            self.certain = self.usual.each;
            self.usual.each
        })
    }
}

impl Round {
    /// A quarter of the way to the `latest`.
    fn settle(self, latest: Self) -> Self {
        let settle = |value: u64, sample: u64| value - value / 4 + sample / 4;
        Self { all: settle(self.all, latest.all), each: settle(self.each, latest.each) }
    }
}

/// Rounds in which a bandwidth is on trial. Lower: those of a start, in which the throughput still
/// rises, may be all of them. Higher: a link that has changed meanwhile is taken for one that was
/// never filled; with 32, one of 100 MB/s that another tenant takes half of had .85 of the rest
/// after 8.4 s, and not at once. Source: docs/decisions/0115.
const TRIAL: u32 = 12;

/// Rounds that call for a probe until there is one. Lower: a throughput that still rises by itself
/// is compared with. Higher: a limit that is too low stays for longer. Source: as many as make a
/// throughput level (`throughput`), and one more.
const LEVEL: u32 = 4;

/// A round is level with those before if it carried no more and no less by one part in so many: an
/// eighth. Lower: by a larger part, and one that had little by chance is compared with. Higher:
/// where rounds differ, there is no probe. Source: as much as parts that end together make of a
/// link of ten requests.
const LEVEL_OF: u64 = 8;

/// Rounds of a probe. Lower: the one in which requests are added is judged. Higher: what others
/// ask for waits for longer. Source: derived: one, and that one.
const ROUNDS: u32 = 2;

/// How many times as long a request counts for more. Lower: on a link that is full one that has a
/// share of it makes the bandwidth doubtful. Higher: what bursts have shown stays certain. Source:
/// docs/decisions/0115; from 4 to 8 MiB, which parts become on a link that is narrower, is less.
const LONGER: u64 = 4;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MB: u64 = 1_000_000;

    /// A bandwidth of 400 MB/s that one burst has shown, where requests have 70, ten at a time.
    fn doubtful() -> Probe {
        let mut probe = Probe::default();
        probe.shows(MB / 2, Nanos(1_250_000), true);
        probe.raised(401 * MB);
        probe.shows(7 * MB, Nanos::from_millis(100), true);
        probe
    }

    /// A round of `requests` that have `each` MB/s. Returns what has shown.
    fn round(probe: &mut Probe, requests: u64, each: u64) -> Option<u64> {
        for _ in 0..requests {
            probe.completed(each * MB / 10, Nanos::from_millis(100));
        }
        probe.round_ended(requests * each * MB, 400 * MB, true)
    }

    /// Rounds until there is a probe.
    fn wait(probe: &mut Probe) -> Option<usize> {
        (1..100).find(|_| {
            assert_eq!(round(probe, 10, 70), None);
            probe.is_on()
        })
    }

    #[test]
    fn where_more_comes_with_more_in_flight_the_connection_is_known() {
        let mut probe = doubtful();
        assert_eq!(wait(&mut probe), Some(4));
        assert_eq!(round(&mut probe, 12, 70), None, "the first round has requests from before");
        let shown = round(&mut probe, 15, 70).expect("half as much again came");
        assert!((68 * MB..=70 * MB).contains(&shown), "{shown}");
        assert!(!probe.is_on());
    }

    #[test]
    fn a_full_link_is_probed_once() {
        let mut probe = doubtful();
        assert_eq!(wait(&mut probe), Some(4));
        assert_eq!([round(&mut probe, 12, 58), round(&mut probe, 15, 47)], [None, None]);
        assert_eq!(wait(&mut probe), None);
        probe.raised(500 * MB);
        assert_eq!(wait(&mut probe), Some(4), "more than ever has shown");
    }

    #[test]
    fn a_throughput_that_rises_by_itself_is_not_compared_with() {
        let mut probe = doubtful();
        for requests in [4, 5, 6, 7, 8] {
            assert_eq!(round(&mut probe, requests, 70), None);
            assert!(!probe.is_on());
        }
        assert_eq!(wait(&mut probe), Some(4));
    }

    #[test]
    fn what_others_have_had_is_certain() {
        let mut probe = doubtful();
        probe.shows(7 * MB, Nanos::from_millis(25), false);
        assert_eq!(wait(&mut probe), None);
    }

    #[test]
    fn a_longer_request_counts_for_more_for_a_few_rounds_only() {
        let mut probe = Probe::default();
        probe.shows(MB / 2, Nanos(1_250_000), true);
        (0..TRIAL).for_each(|_| assert_eq!(round(&mut probe, 10, 400), None));
        // The link has become narrower.
        probe.shows(7 * MB, Nanos::from_millis(100), true);
        assert_eq!(probe.certain, 400 * MB);
    }

    #[test]
    fn what_a_link_carries_now_and_then_is_no_more_than_it_carries() {
        let mut probe = doubtful();
        let shown: Vec<_> = [10, 10, 10, 2, 10, 10, 10, 10].map(|requests| round(&mut probe, requests, 70)).into();
        assert!(probe.is_on() && shown.iter().all(Option::is_none));
        assert_eq!([round(&mut probe, 10, 70), round(&mut probe, 10, 70)], [None, None]);
    }

    #[test]
    fn a_probe_is_followed_by_none_until_as_many_rounds_are_level_again() {
        let mut probe = doubtful();
        assert_eq!(wait(&mut probe), Some(4));
        assert_eq!([round(&mut probe, 12, 58), round(&mut probe, 15, 47)], [None, None]);
        probe.raised(500 * MB);
        assert_eq!(wait(&mut probe), Some(4));
    }

    #[test]
    fn rounds_that_waited_for_memory_say_nothing() {
        let mut probe = doubtful();
        (0..8).for_each(|_| assert_eq!(probe.round_ended(700 * MB, 400 * MB, true), None));
        assert!(!probe.is_on() && probe.usual.each == 0);
    }
}
