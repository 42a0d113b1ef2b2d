//! Link: what the storage costs, measured from its own completions.
//!
//! ```text
//!   submitted          first byte                      last byte
//!   |<---- latency ---->|<---- bytes / bandwidth ------->|
//!
//!   bound = throughput of all x (latency + transfer of one part) x 1.5, at least 128 MiB
//! ```
//!
//! More bytes in flight than throughput x (latency + transfer) raise no throughput, they only
//! wait. So that product, with headroom, is the *bound* of what speculation may cover. The
//! estimates:
//!
//! - *latency*: the least first-byte latency, rising by a 64th of the difference at each sample
//!   above.
//! - *bandwidth* of one request: the most, falling by a 64th of the difference at each sample
//!   below.
//! - *throughput* of all: half of the way to a sample above, a 16th of the way to one below.
//! - *positioning*: the mean first-byte latency divided by the demand requests that share it.
//!
//! *Invariant:* integers only; the same completions give the same estimates.
//!
//! This file does not decide how far a stream is ahead (`read/path/limits`, `files/share`) nor
//! which request pays (`fair_queue`). It knows nothing of the kind of storage: the read path says
//! which completions measure the bandwidth of a disk. Source: the bandwidth-delay product, with
//! extremes that are forgotten slowly as in BBR; docs/decisions/0021 (cost) and 0026 (what may be
//! measured).

use crate::units::{Nanos, PAGE_BYTES};

/// The time that a request keeps the storage busy, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The share of a first byte. A request that continues where the last one of its queue ended
    /// does not pay it, nor does one that joins a lead request.
    pub(crate) positioning_ns: u64,
    /// The bytes, at the bandwidth of one request.
    pub(crate) transfer_ns: u64,
}

/// The estimates for one backend.
#[derive(Debug, Default)]
pub(crate) struct Link {
    latency_ns: u64,
    /// The mean cost of a first byte: its latency, shared by the demand requests that were there.
    first_byte_ns: u64,
    /// Bytes a second of one request, after its first byte.
    bandwidth: u64,
    /// Bytes a second of all requests.
    throughput: u64,
    interval_start: Nanos,
    interval_bytes: u64,
}

impl Link {
    /// The first byte of a demand request came after `first_byte`. `others` counts the demand
    /// requests that were at the storage when this one came: it waited for them or shared with
    /// them. Requests still in flight are not counted instead: of many that came together the last
    /// has waited for all others, and none of them is left to share with.
    pub(crate) fn answered(&mut self, first_byte: Nanos, others: usize) {
        self.first_byte_ns = average(self.first_byte_ns, first_byte.0 / (others as u64 + 1));
    }

    /// A request for `pages` has completed: its first byte came after `first_byte`, its last after
    /// `total`. Only a request that ran `alone` contributes to the bandwidth: between the pieces
    /// of another one a disk reads for others.
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

    /// The cost of a request for `pages`, in ns.
    pub(crate) fn cost_ns(&self, pages: u64) -> u64 {
        let Cost { positioning_ns, transfer_ns } = self.cost(pages);
        positioning_ns + transfer_ns
    }

    /// The cost of a request for `pages`: positioning and transfer.
    pub(crate) fn cost(&self, pages: u64) -> Cost {
        let bandwidth = if self.bandwidth == 0 { BANDWIDTH_UNKNOWN } else { self.bandwidth };
        Cost { positioning_ns: self.first_byte_ns, transfer_ns: pages * PAGE_BYTES * 1_000_000_000 / bandwidth }
    }

    /// The most pages that are worth having in flight or unread at once, in requests of
    /// `part_pages`.
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

/// The mean of the last 64 samples or so.
fn average(value: u64, sample: u64) -> u64 {
    if value == 0 { sample } else { value - value / 64 + sample / 64 }
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

/// The smallest request that measures bandwidth, in bytes: 1 MiB. Lower: buffers on the way are
/// measured instead; 256 KiB that arrive in a burst look three times as fast as they are, and the
/// bound is then a third of what it should be. Higher: workloads of small requests leave the
/// bandwidth unknown. Source: measured with bursts of 256 KiB; 1 MiB itself is a guess.
const TRANSFER_BYTES_MIN: u64 = 1 << 20;

/// The bandwidth of one request until one is measured, in bytes a second: 100 MB/s, as a disk or a
/// connection to an object store has. Lower: transfers look dear, and random reads bring less with
/// them. Higher: they look cheap, and bring more. Source: a guess, not measured.
const BANDWIDTH_UNKNOWN: u64 = 100_000_000;

/// The interval over which throughput is measured: 200 ms, longer than a request and shorter than
/// a phase of a program. Lower: requests that end together look like more than the link carries.
/// Higher: the bound follows a faster link later. Source: a guess, not measured.
const INTERVAL: Nanos = Nanos::from_millis(200);

/// The bound as a percentage of throughput x delay. Lower: without headroom a throughput that the
/// bound limits is never seen to grow. Higher: more is fetched in vain where a reader stops.
/// Source: a guess, not measured.
const HEADROOM_PERCENT: u128 = 150;

/// The least bound, in pages: 128 MiB. Lower: a start is held back by what the start itself has
/// measured; with 64 MiB it took a second to reach 1 GB/s at 30 ms. Higher: more is fetched in
/// vain from a slow store where a reader stops. Source: measured with a sequential reader at 30 ms
/// and 1 GB/s.
const AHEAD_PAGES_MIN: u64 = (128 << 20) / PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_covers_throughput_times_delay() {
        let mut link = Link::default();
        // Sixteen requests of 8 MiB end every 100 ms, each at 80 MB/s after 30 ms: 1342 MB/s.
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
