//! How many requests the storage is given at a time: as many as buy throughput, and none that only wait there.
//!
//! ```text
//!   in flight   16   32   64   128        a store that works on 32 at a time
//!   a second   500  1000 1000  1000       beyond 32 the rate stays as it is
//!   first byte  30    30   60   120 ms    and each waits for the others, whoever asked for it
//! ```
//!
//! What waits at the storage is served in the storage's order; what waits here is served in ours (`fair_queue`). Where even the quickest answer
//! of an interval took half as long again as it ever did, requests wait for each other: by Little's law the rate that was measured needs
//! `in flight x least first byte / first byte` at once; a quarter more leaves room to find that more would do. Where
//! first bytes come as soon as ever, more is tried. Origin: congestion control by delay, as TCP Vegas and BBR do it, on requests.

use crate::units::Nanos;

/// The limit, and what the present interval has shown.
#[derive(Debug)]
pub(crate) struct Concurrency {
    limit: usize,
    /// The quickest answer ever, forgetting slowly.
    least_ns: u64,
    since: Nanos,
    seen: u64,
    quickest_ns: u64,
    /// The most that were in flight.
    most: usize,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self::from(LIMIT_FIRST, u64::MAX, Nanos(0))
    }
}

impl Concurrency {
    fn from(limit: usize, least_ns: u64, since: Nanos) -> Self {
        Self { limit, least_ns, since, seen: 0, quickest_ns: u64::MAX, most: 0 }
    }

    /// The most requests to have in flight.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// So many are in flight.
    pub(crate) fn in_flight(&mut self, count: usize) {
        self.most = self.most.max(count);
    }

    /// A request had its first byte after `first_byte`.
    pub(crate) fn answered(&mut self, now: Nanos, first_byte: Nanos) {
        self.seen += 1;
        self.quickest_ns = self.quickest_ns.min(first_byte.0.max(1));
        self.least_ns = self.least_ns.min(self.quickest_ns);
        if self.seen < SEEN_MIN || now.since(self.since) < INTERVAL {
            return;
        }
        // What is slow while much is asked for says nothing of the least; what is slow at the least limit does.
        let reached = self.most * 4 >= self.limit * 3;
        let waits = self.quickest_ns > self.least_ns.saturating_mul(3) / 2;
        if self.limit == LIMIT_MIN {
            self.least_ns += (self.quickest_ns - self.least_ns) / FORGETS;
        }
        let limit = if waits {
            let needed = (self.most as u128 * u128::from(self.least_ns) / u128::from(self.quickest_ns)) as usize;
            (needed + needed / 4).max(self.limit / 2).clamp(LIMIT_MIN, self.limit)
        } else if reached && self.quickest_ns < self.least_ns.saturating_mul(5) / 4 {
            (self.limit + self.limit / 4).min(LIMIT_MAX)
        } else {
            self.limit
        };
        *self = Self::from(limit, self.least_ns, now);
    }
}

/// Until something is known: above the useful concurrency of every storage measured (16 to 64 connections fill a link), and room for a crowd that
/// begins together.
const LIMIT_FIRST: usize = 256;

/// Never fewer: what a few answers say by chance must not make a store serial.
const LIMIT_MIN: usize = 8;

/// Never more: connections cost memory on both sides.
const LIMIT_MAX: usize = 1024;

/// An interval lasts at least 100 ms, and this many answers.
const INTERVAL: Nanos = Nanos::from_millis(100);
const SEEN_MIN: u64 = 16;

/// Each interval at the least limit forgets an eighth of the difference: a second after that a store that became slower has a new least.
const FORGETS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What a store that works on `servers` at a time, 30 ms each, makes of the limit when as many are asked as may be, after `seconds`.
    fn found(concurrency: &mut Concurrency, servers: u64, seconds: u64) -> usize {
        let (mut now, mut answered_ns) = (0, 0);
        while now < seconds * 1_000 * MS {
            let in_flight = concurrency.limit() as u64;
            concurrency.in_flight(in_flight as usize);
            let first_byte = 30 * MS * in_flight.max(servers) / servers;
            // So many answers a second.
            answered_ns += 30 * MS / servers.min(in_flight);
            now = answered_ns;
            concurrency.answered(Nanos(now), Nanos(first_byte));
        }
        concurrency.limit()
    }

    #[test]
    fn the_limit_comes_to_what_the_store_works_on() {
        // The first answers come before anything has to wait.
        for servers in [16, 32, 64] {
            let mut concurrency = Concurrency::default();
            concurrency.answered(Nanos(0), Nanos(30 * MS));
            let limit = found(&mut concurrency, servers, 5) as u64;
            assert!((servers..=servers * 3 / 2).contains(&limit), "{limit} for {servers}");
        }
    }

    #[test]
    fn a_store_that_became_slower_is_not_taken_to_be_overloaded_for_ever() {
        let mut concurrency = Concurrency::default();
        for at in 0..40 {
            concurrency.in_flight(1);
            concurrency.answered(Nanos(at * 3 * MS), Nanos(3 * MS));
        }
        assert!(found(&mut concurrency, 64, 20) >= 64, "{concurrency:?}");
    }

    #[test]
    fn a_limit_that_is_not_reached_stays() {
        let mut concurrency = Concurrency::default();
        for at in 0..1_000 {
            concurrency.in_flight(16);
            // Answers of all kinds, some quick.
            concurrency.answered(Nanos(at * 10 * MS), Nanos((30 + at % 7 * 50) * MS));
        }
        assert_eq!(concurrency.limit(), LIMIT_FIRST);
    }

    #[test]
    fn a_store_that_never_lets_wait_is_given_more() {
        let mut concurrency = Concurrency::default();
        found(&mut concurrency, 1 << 20, 5);
        assert_eq!(concurrency.limit(), LIMIT_MAX);
    }
}
