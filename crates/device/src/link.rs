//! The link between a device and its host: carries one piece at a time, first come, first served.
//!
//! ```text
//!   carry(at, id, bytes) ──> [ id id id ] ── bytes / rate, one after the other ──> crossed()
//! ```
//!
//! A link without a rate delivers each piece at the time that it is given it.

use std::collections::VecDeque;

use crate::Rate;
use crate::block::RequestId;

/// Pieces of requests on their way to the host. Each call costs O(1), a lookup by request O(n) for
/// n pieces.
#[derive(Debug)]
pub(crate) struct Link {
    rate: Option<Rate>,
    /// When the link has carried all that it was given.
    free_ns: u64,
    /// When each piece has crossed, and its request, in order.
    crossing: VecDeque<(u64, RequestId)>,
}

impl Link {
    /// An idle link of `rate`; `None` for no limit.
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self { rate, free_ns: 0, crossing: VecDeque::new() }
    }

    /// `bytes` of request `id` are ready at `at_ns`.
    pub(crate) fn carry(&mut self, at_ns: u64, id: RequestId, bytes: u64) {
        let takes_ns = self.rate.map_or(0, |rate| rate.time_ns(bytes));
        self.free_ns = self.free_ns.max(at_ns) + takes_ns;
        self.crossing.push_back((self.free_ns, id));
    }

    /// The next piece that has crossed by `now_ns`: when, and its request.
    pub(crate) fn crossed(&mut self, now_ns: u64) -> Option<(u64, RequestId)> {
        let first = self.crossing.front().copied().filter(|&(at_ns, _)| at_ns <= now_ns)?;
        self.crossing.pop_front();
        Some(first)
    }

    /// Whether a piece of `id` is on its way.
    pub(crate) fn carries(&self, id: RequestId) -> bool {
        self.crossing.iter().any(|&(_, crossing)| crossing == id)
    }

    /// Forgets the pieces of `id`. They take their time all the same.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.crossing.retain(|&(_, crossing)| crossing != id);
    }

    /// When the next piece has crossed.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.crossing.front().map(|&(at_ns, _)| at_ns)
    }
}
