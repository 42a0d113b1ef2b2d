//! Disk: what the tier's device serves, measured from its own answers.
//!
//! ```text
//!   asked    |--a--|
//!               |-----b-----|              time between two answers while it has requests: what
//!                  |--------c-------|      one of them takes of its time
//!   answers        ^     ^          ^
//! ```
//!
//! - *service*: the mean time between two answers while the disk has requests. A request more
//!   waits for so much for each that is there, and for as long as the disk has been silent, if
//!   that is longer than one takes.
//! - *response*: the least time from a request to its answer, of those that found few others
//!   there, rising by a 64th of the difference at each sample above.
//!
//! A disk needs few requests at a time: as many as it serves while a reader that is not expected
//! may wait, and as many as hide its response.
//!
//! *Invariant:* integers only; the same answers give the same estimates.
//!
//! This file does not choose between disk and storage (`read/path/source`). Source:
//! docs/decisions/0078.

use crate::units::{Nanos, PAGE_BYTES};

/// The estimates for one disk.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The requests that it has.
    asked: u64,
    /// The last answer, or the first request after all had been answered.
    since: Nanos,
    /// Its answers, as far as they count.
    answers: u64,
    /// Averages over them.
    service_ns: u64,
    bytes: u64,
    response_ns: u64,
}

impl Disk {
    /// The requests that it has.
    pub(crate) fn has(&self) -> usize {
        self.asked as usize
    }

    /// It is asked for one more request.
    pub(crate) fn asked(&mut self, now: Nanos) {
        if self.asked == 0 {
            self.since = now;
        }
        self.asked += 1;
    }

    /// It has answered a request for `pages`, which took `response` and found `beside` others.
    pub(crate) fn answered(&mut self, now: Nanos, pages: u64, response: Nanos, beside: usize) {
        let took = now.since(self.since).0;
        self.passed();
        self.since = now;
        self.answers = (self.answers + 1).min(AVERAGE_OF);
        let average = |value: u64, sample: u64| value - value / self.answers + sample / self.answers;
        self.service_ns = average(self.service_ns, took);
        self.bytes = average(self.bytes, pages * PAGE_BYTES);
        let (least, response) = (self.response_ns, response.0.max(1));
        // Among many, it is the time that they wait for each other.
        if (beside as u64) < DEPTH_MIN {
            self.response_ns = if least == 0 || response < least { response } else { least + (response - least) / 64 };
        }
    }

    /// A request is over without an answer of the disk.
    pub(crate) fn passed(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }

    /// How long one more request would wait for those that are there, and take, in ns. An idle
    /// disk counts as quick: else one that was slow for a while would not be asked again.
    pub(crate) fn delay_ns(&self, now: Nanos) -> u64 {
        if self.asked == 0 {
            return 0;
        }
        // The next answer is due, and then one for each of the others.
        let next = self.service_ns.max(now.since(self.since).0);
        next.saturating_add(self.asked.saturating_mul(self.service_ns)).max(self.response_ns)
    }

    /// The bytes of a mean request, and the time of the disk that it takes, in ns; `None` while
    /// too little is known.
    pub(crate) fn service(&self) -> Option<(u64, u64)> {
        self.is_known().then_some((self.bytes, self.service_ns))
    }

    fn is_known(&self) -> bool {
        self.answers >= KNOWN && self.service_ns > 0
    }

    /// The speculative requests that it is given at a time.
    pub(crate) fn depth(&self) -> usize {
        if !self.is_known() {
            return DEPTH_MIN as usize;
        }
        let served = (SERVED_NS / self.service_ns).clamp(DEPTH_MIN, DEPTH_MAX);
        // Twice what is under way while one is answered.
        let hidden = (self.response_ns / self.service_ns).saturating_mul(2).min(HIDDEN_MAX);
        served.max(hidden) as usize
    }
}

/// Answers that are averaged over. Lower: a disk whose answers come many at a time looks slow and
/// fast by turns. Higher: a disk that others have begun to use is noticed later. Source: twice the
/// depth of a fast disk.
const AVERAGE_OF: u64 = 64;

/// Answers without which nothing is known. Lower: one slow answer makes a disk slow. Higher: the
/// first readers wait for a slow disk. Source: a guess: 4 MiB, .1 s of such a disk.
const KNOWN: u64 = 8;

/// The time that demand may wait behind speculation on a disk, in ns: 4 ms. Lower: a disk idles
/// between two streams. Higher: a reader that comes waits for longer. Source: a guess: half of
/// what a disk that spins takes to position.
const SERVED_NS: u64 = 4_000_000;

/// The least depth. Lower: a disk that spins positions for each 256 KiB where several streams
/// share it. Higher: demand waits for longer on a slow disk. Source: derived: 2 MiB, which such
/// a disk reads in twice the time that it takes to position.
const DEPTH_MIN: u64 = 8;

/// The depth of a fast disk. Lower: it idles between two requests. Higher: demand waits behind
/// them in its queue. Source: a guess: 8 MiB, and half of what keeps a fast drive busy.
const DEPTH_MAX: u64 = 32;

/// The depth of a disk that is fast and far, as one that is reached through a network. Lower: its
/// response is not hidden. Higher: more memory is held for what is on its way. Source: derived:
/// 64 MiB, 10 ms at 6 GB/s.
const HIDDEN_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that has `depth` requests of 256 KiB at any time, and answers one each `service_ns`.
    fn served(depth: u64, service_ns: u64, answers: u64) -> (Disk, Nanos) {
        let mut disk = Disk::default();
        (0..depth).for_each(|_| disk.asked(Nanos(0)));
        for nth in 1..=answers {
            disk.answered(Nanos(nth * service_ns), 64, Nanos(depth * service_ns), 0);
            disk.asked(Nanos(nth * service_ns));
        }
        (disk, Nanos(answers * service_ns))
    }

    #[test]
    fn a_request_waits_for_those_before_it() {
        let (disk, now) = served(8, 4_000_000, 40);
        assert_eq!(disk.delay_ns(now), 36_000_000);
        assert_eq!(disk.service(), Some((256 << 10, 4_000_000)));
    }

    #[test]
    fn answers_that_come_together_count_once() {
        let mut disk = Disk::default();
        for nth in 0..20 {
            (0..8).for_each(|_| disk.asked(Nanos(nth * 32_000_000)));
            let now = Nanos((nth + 1) * 32_000_000);
            (0..8).for_each(|_| disk.answered(now, 64, Nanos(32_000_000), 7));
        }
        let (_, service_ns) = disk.service().expect("it has answered");
        assert!((3_000_000..5_000_000).contains(&service_ns), "{service_ns}");
    }

    #[test]
    fn a_silent_disk_is_waited_for_as_long_as_it_has_been_silent() {
        let (disk, now) = served(1, 100_000, 40);
        assert_eq!(disk.delay_ns(now), 200_000);
        assert_eq!(disk.delay_ns(Nanos(now.0 + 50_000_000)), 50_100_000);
    }

    #[test]
    fn a_disk_that_has_nothing_to_do_is_not_silent() {
        let mut disk = Disk::default();
        disk.asked(Nanos(0));
        disk.answered(Nanos(100_000), 64, Nanos(100_000), 0);
        assert_eq!(disk.service(), None, "one answer tells little");
        disk.asked(Nanos(9_000_000_000));
        assert_eq!(disk.delay_ns(Nanos(9_000_000_000)), 200_000);
        disk.passed();
        assert_eq!(disk.delay_ns(Nanos(99_000_000_000)), 0);
    }

    #[test]
    fn the_depth_follows_the_disk() {
        assert_eq!(Disk::default().depth(), 8, "until it is known");
        assert_eq!(served(2, 50_000, 40).0.depth(), 32, "5 GB/s");
        assert_eq!(served(2, 500_000, 40).0.depth(), 8, "512 MB/s");
        assert_eq!(served(1, 4_000_000, 40).0.depth(), 8, "64 MB/s");
        assert_eq!(served(40, 250_000, 40).0.depth(), 80, "1 GB/s behind 10 ms");
    }
}
