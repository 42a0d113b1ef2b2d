//! Link: what the storage costs, measured from its own completions.
//!
//! ```text
//!   submitted          first byte                      last byte
//!   |<---- latency ---->|<---- bytes / bandwidth ------->|
//!
//!   bound = throughput of all x (latency + transfer of one part) x 2, at least 8 MiB
//! ```
//!
//! More bytes in flight than throughput x (latency + transfer) raise no throughput, they only
//! wait. So that product, with headroom, is the *bound* of what may be in flight. The estimates:
//!
//! - *latency*: the least first-byte latency, rising by a 64th of the difference at each sample
//!   above.
//! - *bandwidth* of one request: the most that a long one had. A request that shares a full link
//!   shows its share, so a lower sample counts only while the link carries clearly less than it
//!   can and nothing is held back, or once its throughput has fallen. A short request may be a
//!   burst: it counts from when the first byte of the quickest would have come. Where the
//!   bandwidth is in doubt, a probe tells (`probe`).
//! - *throughput* of all: measured in rounds (`throughput`).
//! - *crowding*: how much longer requests take than they would alone. While the throughput grows
//!   and they do not, there is no bound: what the link carries has not shown yet. Once it was
//!   level, twice the bound is tried.
//! - *positioning*: the mean first-byte latency divided by the demand requests that share it.
//!
//! *Invariant:* integers only; the same completions give the same estimates.
//!
//! This file does not decide how far a stream is ahead (`read/path/limits`, `files/share`) nor
//! which request pays (`fair_queue`). It knows nothing of the kind of storage: the read path says
//! which completions measure the bandwidth of a disk. Source: the bandwidth-delay product, with
//! extremes that are forgotten slowly as in BBR; docs/decisions/0021 (cost), 0026 (what may be
//! measured), 0050, 0060 and 0062 (when the bandwidth is that of a connection), 0112 and 0115
//! (bursts).

use crate::queue::probe::Probe;
use crate::queue::throughput::{Passed, Throughput, per_second};
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

/// A request that is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) pages: u64,
    /// When its first byte came after its start, and when its last.
    pub(crate) first_byte: Nanos,
    pub(crate) total: Nanos,
    /// The most other requests that it knew at the storage.
    pub(crate) beside: usize,
    /// Bytes that had ever arrived when it came to the storage.
    pub(crate) arrived_before: u64,
    /// Its own bytes that have arrived and were not told.
    pub(crate) arrived: u64,
    /// It waited for memory: its transfer shows nothing of the link.
    pub(crate) held_up: bool,
}

/// The estimates for one backend.
#[derive(Debug, Default)]
pub(crate) struct Link {
    latency_ns: u64,
    /// The mean cost of a first byte: its latency, shared by the demand requests that were there.
    first_byte_ns: u64,
    /// Bytes a second of one request, after its first byte.
    bandwidth: u64,
    /// Bytes of the requests that showed it, forgotten slowly: shorter ones count only where no
    /// longer ones are made.
    shown_by: u64,
    /// Bytes a second that all requests had meanwhile: the least.
    shown_with: u64,
    /// Fewer requests in flight carried less, and each took no less time: none of them had a share
    /// of a full link, so the bandwidth is that of a connection.
    is_own: bool,
    /// Pages of the parts of the last round.
    carried_pages: u64,
    /// What all requests carry.
    throughput: Throughput,
    /// Bytes that have ever arrived.
    arrived: u64,
    /// The time that requests take over the time that each would on an idle link, averaged, per
    /// mille.
    crowding: u64,
    probe: Probe,
    /// A probe has shown the bandwidth: requests of any length may be bursts. This stays, as the
    /// machine does.
    is_probed: bool,
}

/// What is known of the way to the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// The least time to a first byte.
    pub first_byte: Nanos,
    /// Bytes a second of one request, after its first byte; 0 while it is not known.
    pub connection_bytes_per_s: u64,
    /// Bytes a second of all requests together; 0 while it is not known.
    pub bytes_per_s: u64,
    /// It may carry more than is known.
    pub is_growing: bool,
    /// Requests take clearly longer than they would alone.
    pub is_crowded: bool,
    /// How many requests it is given at a time, at most.
    pub requests_max: usize,
    /// How many it has.
    pub requests: usize,
}

impl Link {
    /// What is known, where the storage has `requests` of at most `requests_max`.
    pub(crate) fn state(&self, requests_max: usize, requests: usize) -> LinkState {
        LinkState {
            first_byte: Nanos(self.latency_ns),
            connection_bytes_per_s: self.bandwidth,
            bytes_per_s: self.throughput.rate(),
            is_growing: self.is_growing(),
            is_crowded: self.is_crowded(),
            requests_max,
            requests,
        }
    }

    /// The first byte of a demand request came after `first_byte`. `others` counts the demand
    /// requests that were at the storage when this one came: it waited for them or shared with
    /// them. The requests that are still in flight would be the wrong count: the last of many that
    /// came together has waited for all others, and they have all left.
    pub(crate) fn answered(&mut self, first_byte: Nanos, others: usize) {
        self.first_byte_ns = average(self.first_byte_ns, first_byte.0 / (others as u64 + 1));
    }

    /// A request is complete. Only a request that ran `alone` contributes to the bandwidth: a disk
    /// that has others reads for them between the pieces of one.
    pub(crate) fn completed(&mut self, completion: Completion, alone: bool) {
        let Completion { pages, first_byte, total, beside, arrived_before, arrived, held_up } = completion;
        let bytes = pages * PAGE_BYTES;
        self.arrived(arrived);
        self.latency_ns = drift_down(self.latency_ns, first_byte.0.max(1));
        if held_up {
            return;
        }
        let transfer_ns = total.since(first_byte).0;
        let from_first = total.since(Nanos(self.latency_ns));
        if alone {
            self.probe.completed(bytes, from_first);
        }
        let size = bytes.min(TRANSFER_BYTES_MIN);
        if size >= TRANSFER_BYTES_LEAST && size >= self.shown_by && transfer_ns > 0 && alone {
            // Its first byte may have been noticed late, with many of those behind it. So few
            // bytes, or any where a probe has shown it, began to come no earlier than the first
            // byte of the quickest request would.
            let is_burst = size <= BURST_BYTES_MAX || self.is_probed;
            let late_ns = if is_burst { first_byte.0.saturating_sub(self.latency_ns) } else { 0 };
            let most = per_second(bytes, transfer_ns);
            let least = per_second(bytes, transfer_ns + late_ns);
            // Two estimates of what all requests carried while this one ran; the higher counts.
            // Arrived bytes are reported by folio: beside many short requests they are too few.
            // The number of requests that this one met is too low where many others overtook it.
            let told = per_second(self.arrived - arrived_before, total.0);
            let with = |sample: u64| if beside < FEW { 0 } else { sample.saturating_mul(beside as u64 + 1).max(told) };
            let near = self.bandwidth / 16;
            // Where something was held back, the link was asked for all that it carries, so this
            // request had a share. If that is less than before, the link has become narrower.
            let is_share = self.throughput.is_limit() || !self.throughput.is_far_above(with(most));
            self.probe.shows(bytes, from_first, beside < FEW);
            let shown = if least > self.bandwidth + near { least } else { most.min(self.bandwidth) };
            if shown > self.bandwidth {
                self.probe.raised(shown);
            }
            if shown > self.bandwidth || (shown < self.bandwidth - near && !is_share) {
                (self.bandwidth, self.shown_by, self.shown_with) = (shown, size, with(shown));
                self.is_own = false;
            } else if shown >= self.bandwidth - near {
                (self.shown_by, self.shown_with) = (size, self.shown_with.min(with(shown)));
            }
        }
        if self.throughput.has_fallen() && transfer_ns > 0 && alone {
            // The link has changed: what it was is forgotten.
            self.bandwidth = self.bandwidth.min(drift_up(self.bandwidth, per_second(bytes, transfer_ns)));
            self.shown_by = drift_up(self.shown_by, size);
        }
        let crowding = total.0.saturating_mul(1_000) / self.delay_ns(pages).max(1);
        self.crowding = self.crowding - self.crowding / CROWDING_OF + crowding.min(CROWDING_MAX) / CROWDING_OF;
    }

    /// Whether a request was ever answered.
    pub(crate) fn is_measured(&self) -> bool {
        self.latency_ns > 0
    }

    /// What all requests carry, in bytes a second; 0 while it is not known.
    pub(crate) fn bytes_per_s(&self) -> u64 {
        self.throughput.rate()
    }

    /// A request starts while nothing is at the storage, where `came` had come before.
    pub(crate) fn begins(&mut self, now: Nanos, came: u64) {
        self.throughput.begins(now, came);
    }

    /// Bytes that have ever arrived.
    pub(crate) fn arrived_bytes(&self) -> u64 {
        self.arrived
    }

    /// Bytes of requests have arrived.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
        self.throughput.arrived(bytes);
    }

    /// A request is complete, where parts have `part_pages` at most. `may_probe`, and what is in
    /// flight follows from the bound. Returns whether that ends a round.
    pub(crate) fn passed(&mut self, now: Nanos, passed: Passed, part_pages: u64, may_probe: bool) -> bool {
        // A filled link answers within the time that it takes for what may be in flight.
        let least_ns = transfer_ns(AHEAD_PAGES_MIN * PAGE_BYTES, self.throughput.rate().max(1));
        let expected = Nanos(self.delay_ns(part_pages).saturating_mul(HEADROOM).max(least_ns));
        let ends = self.throughput.passed(now, passed, expected, self.crowding >= CROWDED_START);
        if ends {
            self.is_own |= self.throughput.fell_short() && !self.is_crowded();
            self.carried_pages = part_pages;
            let is_full = self.throughput.was_limit() && self.crowding >= CROWDED_START;
            let all = self.throughput.latest();
            if let Some(connection) = self.probe.round_ended(all, self.bandwidth, may_probe && is_full) {
                (self.bandwidth, self.shown_with) = (connection, all);
                (self.is_own, self.is_probed) = (true, true);
            }
        }
        ends
    }

    /// Something is held back by what the link is thought to carry.
    pub(crate) fn holds_back(&mut self) {
        self.throughput.holds_back();
    }

    /// Whether requests take clearly longer than they would alone: they wait for each other at the
    /// link, or for memory.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowding > CROWDED
    }

    /// Whether the throughput has risen in the last rounds.
    pub(crate) fn rises(&self) -> bool {
        self.throughput.rises()
    }

    /// Whether the link may carry more than is known.
    pub(crate) fn is_growing(&self) -> bool {
        self.throughput.grows()
    }

    /// The same, and requests do not wait for each other yet.
    pub(crate) fn may_carry_more(&self) -> bool {
        self.is_growing() && !self.is_crowded()
    }

    /// First byte and transfer of a request for `pages` on an idle link, in ns.
    pub(crate) fn delay_ns(&self, pages: u64) -> u64 {
        self.latency_ns.saturating_add(self.transfer_ns(pages))
    }

    fn transfer_ns(&self, pages: u64) -> u64 {
        transfer_ns(pages * PAGE_BYTES, self.bandwidth_or_guess())
    }

    fn bandwidth_or_guess(&self) -> u64 {
        if self.bandwidth == 0 { BANDWIDTH_UNKNOWN } else { self.bandwidth }
    }

    /// The same, for the bound of what is in flight. A full link shows only a share of a
    /// connection's bandwidth. The bandwidth is then taken to be high, so the bound is low. With
    /// less in flight, a request shows what a connection carries.
    fn transfer_in_flight_ns(&self, pages: u64) -> u64 {
        let known = self.is_bandwidth_known();
        let bandwidth = if known { self.bandwidth } else { self.bandwidth.max(BANDWIDTH_UNKNOWN) };
        transfer_ns(pages * PAGE_BYTES, bandwidth.max(1))
    }

    /// Whether the measured bandwidth is that of a connection, not a share of a full link. It is
    /// if the throughput rises, since the link is then not full; if the link was not full at the
    /// measurement; or if less in flight made no request quicker.
    pub(crate) fn is_bandwidth_known(&self) -> bool {
        self.rises() || self.is_own || self.is_bandwidth_clear()
    }

    /// Whether the bandwidth was measured while the link carried clearly less than it can: what a
    /// request has of a full link is its share.
    pub(crate) fn is_bandwidth_clear(&self) -> bool {
        self.bandwidth > 0 && self.throughput.is_above(self.shown_with)
    }

    /// Pages of the parts of the last round.
    pub(crate) fn carried_pages(&self) -> u64 {
        self.carried_pages
    }

    /// Pages that one request transfers in the time of its first byte, the nearest power of two;
    /// `None` while too little is known.
    pub(crate) fn first_byte_pages(&self) -> Option<u64> {
        if self.bandwidth == 0 || self.latency_ns == 0 {
            return None;
        }
        let bytes = u128::from(self.bandwidth) * u128::from(self.latency_ns) / 1_000_000_000;
        let pages = (bytes / u128::from(PAGE_BYTES)).clamp(1, 1 << 24) as u64;
        let below = 1 << pages.ilog2();
        Some(if pages * pages < 2 * below * below { below } else { 2 * below })
    }

    /// The memory that requests of `part` pages hold while the link is filled, in bytes. The first
    /// `grant` pages of each are held from its start to its end, half of the rest while it is
    /// transferred, and `connection` bytes besides. What is read `from_the_end` on is read when
    /// all has come: half of it is held for as long again.
    pub(crate) fn held_bytes(&self, part: u64, grant: u64, connection: u64, from_the_end: bool) -> u64 {
        let (delay_ns, transfer_ns) = (u128::from(self.delay_ns(part)), u128::from(self.transfer_ns(part)));
        let at_once = u128::from(part.min(grant) * PAGE_BYTES + connection) * delay_ns;
        let later = u128::from(part.saturating_sub(grant) * PAGE_BYTES) * transfer_ns / 2;
        let again = if from_the_end { u128::from(part * PAGE_BYTES) * transfer_ns / 2 } else { 0 };
        let each = (at_once + later + again) / u128::from(part * PAGE_BYTES);
        (u128::from(self.throughput.rate()) * each / 1_000_000_000).min(u128::from(u64::MAX)) as u64
    }

    /// The cost of a request for `pages`, in ns.
    pub(crate) fn cost_ns(&self, pages: u64) -> u64 {
        let Cost { positioning_ns, transfer_ns } = self.cost(pages);
        positioning_ns + transfer_ns
    }

    /// The cost of a request for `pages`: positioning and transfer.
    pub(crate) fn cost(&self, pages: u64) -> Cost {
        Cost { positioning_ns: self.first_byte_ns, transfer_ns: self.transfer_ns(pages) }
    }

    /// The longest gap between two requests that costs less than the second one does, in pages, by
    /// what the link is known to carry.
    pub(crate) fn gap_pages_max(&self) -> u64 {
        pages_in(self.throughput.rate(), self.request_ns())
    }

    /// The longest gap that the link carries in less time than a reader waits for a first byte, in
    /// pages.
    pub(crate) fn first_byte_gap_pages(&self) -> u64 {
        pages_in(self.bandwidth_or_guess().max(self.throughput.rate()), self.latency_ns)
    }

    /// What a request costs beside its bytes, in ns.
    pub(crate) fn request_ns(&self) -> u64 {
        if self.is_measured() { (self.latency_ns / REQUEST_SHARE).min(REQUEST_NS_MAX) } else { REQUEST_NS_MAX }
    }

    /// The most pages that are worth having in flight or unread at once, in requests of
    /// `part_pages`.
    pub(crate) fn ahead_pages_max(&self, part_pages: u64) -> u64 {
        let bound = self.bound_pages(part_pages);
        let least = if self.probe.is_on() { bound.saturating_mul(PROBED) / 2 } else { bound };
        match (self.may_carry_more(), self.throughput.was_level()) {
            (false, _) => least,
            // What the link carries has not shown yet.
            (true, false) => u64::MAX,
            (true, true) => bound.saturating_mul(WIDER),
        }
    }

    /// The same where the link carries no more than is known.
    pub(crate) fn bound_pages(&self, part_pages: u64) -> u64 {
        self.product_pages(part_pages).saturating_mul(HEADROOM).max(AHEAD_PAGES_MIN)
    }

    /// Throughput x delay, in requests of `part_pages`: what is in flight on a link that is just
    /// filled, in pages.
    pub(crate) fn product_pages(&self, part_pages: u64) -> u64 {
        let delay_ns = self.latency_ns.saturating_add(self.transfer_in_flight_ns(part_pages));
        pages_in(self.throughput.rate(), delay_ns)
    }
}

/// The time that `bytes` take at `bytes_per_s`, in ns.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s)).min(u128::from(u64::MAX)) as u64
}

/// Whole pages that come in `ns` at `bytes_per_s`.
fn pages_in(bytes_per_s: u64, ns: u64) -> u64 {
    let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
    (bytes / u128::from(PAGE_BYTES)).min(u128::from(u64::MAX)) as u64
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

/// Requests that the crowding of the link is averaged over. Lower: a few slow ones make it
/// crowded. Higher: a link that becomes crowded is noticed later. Source: a guess, not measured.
const CROWDING_OF: u64 = 16;

/// The most that one request counts, per mille. Lower: a link that is very crowded counts as less.
/// Higher: one request that waited makes a link crowded for longer. Source: a guess, not measured.
const CROWDING_MAX: u64 = 8_000;

/// The crowding from which on a link is crowded, per mille: a twelfth more than alone. Lower:
/// parts are spaced on a link that would carry more. Higher: bursts fill memory. Source:
/// docs/decisions/0050.
const CROWDED: u64 = 1_080;

/// Requests at the storage below which each is taken to have what a connection carries. Lower: the
/// first ones of a stream do not show it. Higher: requests that share a link show their share.
/// Source: the four parts of a first window, twice.
const FEW: usize = 8;

/// The crowding that ends a start, per mille: requests take half as long again. Lower: bursts of a
/// start end it. Higher: more is asked for than the link carries before that shows. Source:
/// docs/decisions/0050.
const CROWDED_START: u64 = 1_500;

/// The smallest request that measures bandwidth where no larger ones are made, in bytes: 128 KiB.
/// Lower: the time of a packet is measured. Higher: where memory is short and parts are small, the
/// bandwidth stays unknown. Source: the smallest part of a stream.
const TRANSFER_BYTES_LEAST: u64 = 128 << 10;

/// The smallest request that measures bandwidth, in bytes: 1 MiB. Lower: buffers on the way are
/// measured instead; 256 KiB that arrive in a burst look three times as fast as they are, and the
/// bound is then a third of what it should be. Higher: workloads of small requests leave the
/// bandwidth unknown. Source: measured with bursts of 256 KiB; 1 MiB itself is a guess.
const TRANSFER_BYTES_MIN: u64 = 1 << 20;

/// The longest request whose transfer may be over when its first byte is noticed, in bytes: 512
/// KiB. Lower: where a link is first used, 256 KiB that a busy machine found in its buffers are a
/// connection of 570 MB/s, and a link of 900 is given four requests at a time. Higher: on an array
/// of disks, where a request waits for an arm and then comes at once, an arm is taken to read as
/// slowly as that. Source: docs/decisions/0112.
const BURST_BYTES_MAX: u64 = 512 << 10;

/// The bandwidth of one request until one is measured, in bytes a second: 100 MB/s, as a disk or a
/// connection to an object store has. Lower: transfers look dear, and random reads bring less with
/// them. Higher: they look cheap, and bring more. Source: a guess, not measured.
const BANDWIDTH_UNKNOWN: u64 = 100_000_000;

/// The most that a request costs beside its bytes, in ns: 180 us. Lower: gaps are left out that
/// requests cannot be made for as quickly. Higher: bytes are read in vain that take longer than
/// requests would. Source: the 5,500 requests a second that object stores promise for a prefix,
/// and the 100 to 200 us of processor that a request by HTTP takes at both ends.
const REQUEST_NS_MAX: u64 = 180_000;

/// The same as a part of the first byte's latency: an eighth. Lower: near storage is asked for
/// more bytes in vain. Higher: its requests are taken to cost nothing. Source: a guess, not
/// measured: 10 us where a first byte takes 80, as the processor needs for a read of a local file.
const REQUEST_SHARE: u64 = 8;

/// The bound as a multiple of throughput x delay. Lower: requests that began together end
/// together, and the link idles until the next ones have their first byte; at 1.5 sixteen readers
/// had 95 % of it. Higher: what others ask for comes later, and more is fetched in vain where a
/// reader stops; at 3 during a start slow streams beside two quick ones read late. Source:
/// docs/decisions/0050.
const HEADROOM: u64 = 2;

/// How many times the bound may be in flight while it is seen whether a link carries more than it
/// did. Lower: a link that became wider is filled in more rounds. Higher: what others ask for
/// waits behind more of it; without a bound 800 MB/s had 425 MB in flight, and reads of 4 KiB took
/// 48 ms, not 38. Source: docs/decisions/0099.
const WIDER: u64 = 2;

/// How many halves of the bound may be in flight during a probe: three. Lower: a link that is not
/// full carries little more. Higher: what others ask for waits for longer. Source:
/// docs/decisions/0115.
const PROBED: u64 = 3;

/// The least bound, in pages: 8 MiB, the largest part. Lower: no part of that size is made on a
/// slow link. Higher: a slow link is given more than it carries; with 128 MiB at 100 MB/s all of
/// it came after 1.3 s, and its reader waited as long. Source: docs/decisions/0050.
const AHEAD_PAGES_MIN: u64 = (8 << 20) / PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pages: u64, first_byte: Nanos, total: Nanos) -> Completion {
        Completion {
            pages,
            first_byte,
            total,
            beside: 0,
            arrived_before: 0,
            arrived: pages * PAGE_BYTES,
            held_up: false,
        }
    }

    #[test]
    fn the_bound_covers_throughput_times_delay() {
        let mut link = Link::default();
        // Sixteen requests of 8 MiB end every 100 ms, each at 80 MB/s after 30 ms: 1342 MB/s.
        for i in 1..=100u64 {
            for _ in 0..16 {
                link.completed(after(2048, Nanos::from_millis(30), Nanos::from_millis(135)), true);
            }
            link.holds_back();
            link.passed(Nanos::from_millis(100 * i), Passed::long(i, i), 2048, true);
        }
        let bytes = link.ahead_pages_max(2048) * PAGE_BYTES;
        let product = 1_342_000_000 / 1000 * 135;
        assert!(bytes > product * 18 / 10 && bytes < product * 22 / 10, "{bytes}");
    }

    #[test]
    fn a_connection_that_was_taken_for_a_share_is_known_once_less_in_flight_carries_less() {
        let mut link = Link::default();
        let mut now_ms = 0;
        let mut round = |link: &mut Link, nth: u64, requests: u64, total_ms: u64| {
            for _ in 0..requests {
                let first_byte = Nanos::from_millis(200);
                let beside = requests as usize - 1;
                let total = Nanos::from_millis(total_ms);
                link.completed(Completion { beside, ..after(512, first_byte, total) }, true);
            }
            link.holds_back();
            now_ms += total_ms;
            link.passed(Nanos::from_millis(now_ms), Passed::long(nth, nth), 512, true);
        };
        // Twenty connections of 5 MB/s fill a link of 100: each seems to have a share of it.
        (1..=20).for_each(|nth| round(&mut link, nth, 20, 620));
        assert!(!link.is_bandwidth_known());
        // Fewer carry less, in the same time.
        (21..=30).for_each(|nth| round(&mut link, nth, 17, 620));
        assert!(link.is_bandwidth_known());
        let bytes = link.ahead_pages_max(512) * PAGE_BYTES;
        assert!(bytes > 60_000_000, "twice 100 MB/s x .62 s, less what was forgotten: {bytes}");
    }

    #[test]
    fn fewer_requests_that_take_less_time_show_no_connection() {
        let mut link = Link::default();
        let mut now_ms = 0;
        for nth in 1..=30u64 {
            // The link carries 100 MB/s, however many there are.
            let requests = if nth <= 20 { 20 } else { 17 };
            let total = Nanos::from_millis(200 + 21 * requests);
            for _ in 0..requests {
                let completion = after(512, Nanos::from_millis(200), total);
                link.completed(Completion { beside: requests as usize - 1, ..completion }, true);
            }
            link.holds_back();
            now_ms += 21 * requests;
            link.passed(Nanos::from_millis(now_ms), Passed::long(nth, nth), 512, true);
        }
        assert!(!link.is_bandwidth_known());
    }

    /// A link that carried 100 MB/s in 40 requests of 25 MB/s, 4 MiB each, and after `at` rounds
    /// carries a tenth of it, or gives a connection a tenth.
    fn narrower(rounds: u64, at: u64, holds_back: bool) -> Link {
        let mut link = Link::default();
        let mut now_ms = 0;
        for nth in 1..=rounds {
            let (requests, total_ms) = if nth <= at { (9, 380) } else { (9, 3_800) };
            for _ in 0..requests {
                let completion = after(1024, Nanos::from_millis(30), Nanos::from_millis(total_ms));
                let beside = if nth == 1 { 0 } else { requests - 1 };
                let arrived_before = link.arrived_bytes().saturating_sub(requests as u64 * completion.arrived);
                let total = if nth == 1 { Nanos::from_millis(198) } else { completion.total };
                link.completed(Completion { total, beside, arrived_before, ..completion }, true);
            }
            if holds_back {
                link.holds_back();
            }
            now_ms += total_ms;
            link.passed(Nanos::from_millis(now_ms), Passed::long(nth, nth), 1024, true);
        }
        link
    }

    #[test]
    fn a_link_that_became_narrower_is_known_after_one_round() {
        let (before, after) = (narrower(20, 20, true), narrower(21, 20, true));
        let bound = |link: &Link| link.ahead_pages_max(1024) * PAGE_BYTES;
        assert!((35_000_000..50_000_000).contains(&bound(&before)), "{}", bound(&before));
        assert_eq!(bound(&after), 8 << 20, "the least bound: 10 MB/s x .2 s are less");
        assert_eq!(after.bandwidth, before.bandwidth, "each request has a share of what is left");
    }

    #[test]
    fn where_nothing_is_held_back_a_slow_round_shows_slow_connections() {
        let (before, after) = (narrower(20, 20, false), narrower(21, 20, false));
        assert!(after.throughput.rate() > before.throughput.rate() / 10 * 9, "readers asked for less");
        assert!(after.bandwidth < before.bandwidth / 10, "{} {}", after.bandwidth, before.bandwidth);
    }

    #[test]
    fn a_request_that_waited_for_memory_shows_nothing_of_the_link() {
        let mut link = Link::default();
        let quick = after(1024, Nanos::from_millis(30), Nanos::from_millis(80));
        (0..16).for_each(|_| link.completed(quick, true));
        let (bandwidth, crowding) = (link.bandwidth, link.crowding);
        let waited = Completion { held_up: true, ..after(1024, Nanos::from_millis(30), Nanos::from_millis(2_000)) };
        (0..16).for_each(|_| link.completed(waited, true));
        assert_eq!((link.bandwidth, link.crowding), (bandwidth, crowding));
        assert_eq!(link.arrived_bytes(), 32 * 1024 * PAGE_BYTES);
    }

    /// A machine that is busy with other work finds most of an answer in its buffers.
    #[test]
    fn a_first_byte_that_is_noticed_late_shows_no_quick_connection() {
        let mut link = Link::default();
        (0..16).for_each(|_| link.completed(after(32, Nanos(30_000_000), Nanos(31_600_000)), true));
        let bandwidth = link.bandwidth;
        assert!((80_000_000..84_000_000).contains(&bandwidth), "{bandwidth}");
        // 256 KiB in half a millisecond, after three more than they take.
        link.completed(after(64, Nanos(36_600_000), Nanos(37_100_000)), true);
        assert_eq!(link.bandwidth, bandwidth);
        // One that is as quick and was not late.
        link.completed(after(64, Nanos(30_000_000), Nanos(30_500_000)), true);
        assert!(link.bandwidth > 500_000_000, "{}", link.bandwidth);
    }

    #[test]
    fn latency_forgets_an_old_minimum() {
        let mut link = Link::default();
        link.completed(after(1, Nanos(100), Nanos(100)), true);
        for _ in 0..1000 {
            link.completed(after(1, Nanos(10_000), Nanos(10_000)), true);
        }
        assert!(link.latency_ns > 9_000, "{}", link.latency_ns);
    }
}
