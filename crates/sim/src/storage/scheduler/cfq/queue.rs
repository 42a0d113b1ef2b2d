//! One queue: its waiting requests, and what it has learnt about its reader: jumps and think time.

use std::collections::BTreeMap;

use crate::storage::scheduler::Request;

/// The requests of one context, or of several that are merged.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Waiting requests, by position and order of arrival.
    pub(super) waiting: BTreeMap<(u64, u64), Request>,
    /// Contexts that share it.
    pub(super) contexts: u32,
    pub(super) in_drives: u32,
    /// Where its last request ends.
    pub(super) end: Option<u64>,
    /// Which of the last 32 requests jumped, a bit each.
    pub(super) jumps: u32,
    /// While merged and seeky: since when, and how many requests ago.
    pub(super) seeky_since: Option<(u64, u32)>,
    /// When its last request was done, while it has no other.
    pub(super) thinks_since_ns: Option<u64>,
    /// Mean time from a request that is done to the next one.
    pub(super) thinks_ns: u64,
}

impl Queue {
    pub(super) fn is_seeky(&self) -> bool {
        self.jumps.count_ones() > JUMPS_MAX
    }

    /// Whether the device should wait for its next request.
    pub(super) fn is_worth_idling(&self) -> bool {
        self.contexts > 0 && !self.is_seeky() && self.thinks_ns <= IDLE_NS
    }

    /// The waiting request nearest to `head` in the direction of the arm: first those after it,
    /// then from the start.
    pub(super) fn after(&self, head: u64) -> Option<(u64, u64)> {
        let after = self.waiting.range((head, 0)..).next().or_else(|| self.waiting.first_key_value());
        after.map(|(&place, _)| place)
    }

    /// Distance from `head` to its nearest request.
    pub(super) fn distance(&self, head: u64) -> Option<u64> {
        let after = self.waiting.range((head, 0)..).next();
        let before = self.waiting.range(..(head, 0)).next_back();
        [after, before].into_iter().flatten().map(|(&(offset, _), _)| offset.abs_diff(head)).min()
    }

    /// Learns from a new request.
    pub(super) fn learn(&mut self, now_ns: u64, request: Request) {
        let jumped = self.end.is_some_and(|end| end.abs_diff(request.offset) > JUMP_BYTES);
        self.jumps = self.jumps << 1 | u32::from(jumped);
        self.end = Some(request.offset + request.bytes);
        if let Some(since_ns) = self.thinks_since_ns.take() {
            let took_ns = (now_ns - since_ns).min(2 * IDLE_NS);
            self.thinks_ns = (self.thinks_ns * (THOUGHTS - 1) + took_ns) / THOUGHTS;
        }
        self.seeky_since = match self.seeky_since {
            _ if self.contexts < 2 || !self.is_seeky() => None,
            Some((since_ns, requests)) => Some((since_ns, requests + 1)),
            None => Some((now_ns, 0)),
        };
    }
}

/// How long the device idles for the next request of a sequential queue, in ns. Lower than the
/// think time: idles in vain; higher: wastes time when a reader stops.
pub(super) const IDLE_NS: u64 = 8_000_000;

/// A larger distance from the end of a request to the start of the next, in bytes, is a jump.
/// Lower: strides are seeky; higher: jumps are missed.
const JUMP_BYTES: u64 = 400 << 10;

/// With more jumps among the last 32 requests a queue is seeky. Lower: seeky by chance; higher:
/// seeky late.
pub(super) const JUMPS_MAX: u32 = 4;

/// Weight of the mean think time: the past counts seven of eight. Lower: the mean follows each
/// think time; higher: it follows late.
const THOUGHTS: u64 = 8;
