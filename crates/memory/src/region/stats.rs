//! Counts that a region shows.

use foreread_policy::RegionCounters;

/// Counts of a region, as of when its pager last had work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What policy decided: faults by kind, requests, pages read, written and wasted.
    pub counters: RegionCounters,
    /// What the pager did, and its present state.
    pub gauges: Gauges,
    /// `io_uring` reads and writes the spill; otherwise threads do.
    pub io_uring: bool,
    /// The spill is read and written past the kernel's page cache. Otherwise the kernel's cached
    /// pages of it are beyond the budget.
    pub direct: bool,
}

/// What the pager counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Pages of the budget.
    pub budget_pages: u64,
    /// Pages in the mapping.
    pub mapped_pages: u64,
    /// Pages read and not yet in the mapping.
    pub staged_pages: u64,
    /// Requests that read the spill. Only grows.
    pub requests_read: u64,
    /// Pages that were to be written and held only zeroes, so that they were not. Only grows.
    pub pages_blank: u64,
    /// Read requests that failed. Only grows.
    pub reads_failed: u64,
    /// Writes that failed. Each is tried again for about a second; then its pages stay in memory.
    /// Only grows.
    pub writes_failed: u64,
    /// Pages that could not leave because a device, the kernel or another process had them as
    /// well. Only grows.
    pub pages_pinned: u64,
    /// Pages whose touch was answered by a signal. Only grows.
    pub pages_failed: u64,
}
