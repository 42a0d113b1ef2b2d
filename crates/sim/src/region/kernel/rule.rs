//! Rules for the cluster: which pages a fault swaps in.

pub(crate) mod fixed;
pub(crate) mod hits;
pub(crate) mod vma;

use std::ops::Range;

/// What a fault swaps in, together with its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// This many slots, a power of two, aligned, around the slot of the page: whatever they hold.
    Slots(u64),
    /// These pages of memory, wherever they are swapped to.
    Pages(Range<u64>),
}

/// A rule for clusters.
pub(crate) trait Rule {
    /// The cluster of a fault at `page`, which is in `slot`.
    fn cluster(&mut self, page: u64, slot: u64) -> Cluster;

    /// A fault finds `page` in memory; `hit`: it was read as part of a cluster and not touched
    /// yet.
    fn found(&mut self, _page: u64, _hit: bool) {}
}
