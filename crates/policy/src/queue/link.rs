//! What the storage costs, measured from its own completions: latency, bandwidth of one request, throughput of all.
//!
//! ```text
//!   submitted          first byte                      last byte
//!   |<---- latency ---->|<---- bytes / bandwidth ------->|
//! ```
//!
//! More in flight than throughput x (latency + transfer) of one request buys no throughput, only waiting: that product is
//! the most that all speculation together may cover. Latency is the least seen and bandwidth and throughput are the most
//! seen, each forgetting slowly. Origin: the bandwidth-delay product, estimated by windowed extremes as BBR does.

use crate::units::{Nanos, PAGE_BYTES};

/// What a request keeps the storage busy with, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Going there. Not paid by what goes on where the last request ended.
    pub(crate) positioning_ns: u64,
    pub(crate) transfer_ns: u64,
}

/// A running model of one backend.
#[derive(Debug, Default)]
pub(crate) struct Link {
    latency_ns: u64,
    /// What the first byte costs on average: its latency, shared by those that wait for theirs.
    first_byte_ns: u64,
    /// Bytes a second of one request, once its first byte is there.
    bandwidth: u64,
    /// Bytes a second of all requests.
    throughput: u64,
    interval_start: Nanos,
    interval_bytes: u64,
}

impl Link {
    /// A reader's request had its first byte after `first_byte`; `others` were there before it, and it waited for them or shared with
    /// them. Not those that are still there: of many that came together the last has waited for all.
    pub(crate) fn answered(&mut self, first_byte: Nanos, others: usize) {
        self.first_byte_ns = average(self.first_byte_ns, first_byte.0 / (others as u64 + 1));
    }

    /// A request for `pages` pages has completed: its first byte came after `first_byte`, its last after `total`. Where others keep
    /// it waiting while it comes it tells nothing of the bandwidth, unless it was `alone`.
    pub(crate) fn completed(&mut self, now: Nanos, pages: u64, first_byte: Nanos, total: Nanos, alone: bool) {
        let bytes = pages * PAGE_BYTES;
        self.latency_ns = drift_down(self.latency_ns, first_byte.0.max(1));
        let transfer_ns = total.since(first_byte).0;
        if bytes >= TRANSFER_BYTES_MIN && transfer_ns > 0 && alone {
            self.bandwidth = drift_up(self.bandwidth, per_second(bytes, transfer_ns));
        }
        self.interval_bytes += bytes;
        let elapsed = now.since(self.interval_start).0;
        if elapsed >= INTERVAL.0 {
            self.throughput = settle(self.throughput, per_second(self.interval_bytes, elapsed));
            self.interval_start = now;
            self.interval_bytes = 0;
        }
    }

    /// What a request for `pages` takes, in ns.
    pub(crate) fn cost_ns(&self, pages: u64) -> u64 {
        let Cost { positioning_ns, transfer_ns } = self.cost(pages);
        positioning_ns + transfer_ns
    }

    /// The same, in its parts.
    pub(crate) fn cost(&self, pages: u64) -> Cost {
        let bandwidth = if self.bandwidth == 0 { BANDWIDTH_UNKNOWN } else { self.bandwidth };
        Cost { positioning_ns: self.first_byte_ns, transfer_ns: pages * PAGE_BYTES * 1_000_000_000 / bandwidth }
    }

    /// The most pages that are worth having in flight or unread at once, for requests of `part_pages`.
    pub(crate) fn ahead_pages_max(&self, part_pages: u64) -> u64 {
        if self.throughput == 0 || self.bandwidth == 0 {
            return AHEAD_PAGES_MIN;
        }
        let transfer_ns = u128::from(part_pages) * u128::from(PAGE_BYTES) * 1_000_000_000 / u128::from(self.bandwidth);
        let delay_ns = u128::from(self.latency_ns) + transfer_ns;
        let product = u128::from(self.throughput) * delay_ns / 1_000_000_000 / u128::from(PAGE_BYTES);
        let wanted = product * HEADROOM_PERCENT / 100;
        (wanted.min(u128::from(u64::MAX)) as u64).max(AHEAD_PAGES_MIN)
    }
}

fn per_second(bytes: u64, ns: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(ns)).min(u128::from(u64::MAX)) as u64
}

/// The least seen, forgetting a 64th of the difference at each sample above it.
fn drift_down(value: u64, sample: u64) -> u64 {
    if value == 0 || sample < value { sample } else { value + (sample - value) / 64 }
}

/// The most seen, forgetting a 64th of the difference at each sample below it.
fn drift_up(value: u64, sample: u64) -> u64 {
    if sample > value { sample } else { value - (value - sample) / 64 }
}

/// The mean of the last samples.
fn average(value: u64, sample: u64) -> u64 {
    if value == 0 { sample } else { value - value / 64 + sample / 64 }
}

/// Half way to a sample above, a 16th of the way to one below: whole requests that happen to end together look like more than
/// the link carries.
fn settle(value: u64, sample: u64) -> u64 {
    if value == 0 {
        sample
    } else if sample > value {
        u64::midpoint(value, sample)
    } else {
        value - (value - sample) / 16
    }
}

/// Requests smaller than this (1 MiB) say more about buffers on the way than about bandwidth: 256 KiB that arrive in a burst
/// look three times as fast as they are, and the window that follows is a third of what it should be.
const TRANSFER_BYTES_MIN: u64 = 1 << 20;

/// What one request is taken to carry until one has shown it: 100 MB/s, as a disk or a connection to an object store.
const BANDWIDTH_UNKNOWN: u64 = 100_000_000;

/// Throughput is taken over intervals of 200 ms: longer than a request, shorter than a phase of a program.
const INTERVAL: Nanos = Nanos::from_millis(200);

/// Half as much again as the product covers what the estimate misses: without headroom a throughput limited by the window could
/// never be seen to grow. More is fetched in vain where a reader stops.
const HEADROOM_PERCENT: u128 = 150;

/// Never less than 128 MiB: a start must not be held back by what the start itself has measured. Half of that took a second to
/// find the rest of a gigabyte a second at 30 ms.
const AHEAD_PAGES_MIN: u64 = (128 << 20) / PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_covers_throughput_times_delay() {
        let mut link = Link::default();
        // 8 MiB requests at 80 MB/s after 30 ms, sixteen of them each 100 ms: 1342 MB/s.
        for i in 1..=100u64 {
            for _ in 0..16 {
                link.completed(
                    Nanos::from_millis(100 * i),
                    2048,
                    Nanos::from_millis(30),
                    Nanos::from_millis(135),
                    true,
                );
            }
        }
        let bytes = link.ahead_pages_max(2048) * PAGE_BYTES;
        let product = 1_342_000_000 / 1000 * 135;
        assert!(bytes > product * 13 / 10 && bytes < product * 17 / 10, "{bytes}");
    }

    #[test]
    fn latency_forgets_an_old_minimum() {
        let mut link = Link::default();
        link.completed(Nanos(1), 1, Nanos(100), Nanos(100), true);
        for i in 0..1000 {
            link.completed(Nanos(i), 1, Nanos(10_000), Nanos(10_000), true);
        }
        assert!(link.latency_ns > 9_000, "{}", link.latency_ns);
    }
}
