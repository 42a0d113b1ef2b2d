//! What a region tells of itself.

use foreread_policy::SwapCounters;

/// Counts of a region, as they were when its pager last had something to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What was decided: faults by kind, requests, pages read, written and wasted.
    pub counters: SwapCounters,
    /// What was done, and how things stand.
    pub gauges: Gauges,
    /// The spill is read and written by `io_uring`; otherwise by threads.
    pub io_uring: bool,
    /// The spill is read and written past the kernel's page cache. Otherwise what the kernel keeps of it is beyond the budget.
    pub direct: bool,
}

/// What the pager counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Pages that may be in memory.
    pub budget_pages: u64,
    /// Pages in the mapping.
    pub mapped_pages: u64,
    /// Pages read and not yet in the mapping.
    pub staged_pages: u64,
    /// Requests that read from the spill. Only grows.
    pub requests_read: u64,
    /// Pages that were all zeroes when they were to be written, and were not. Only grows.
    pub pages_blank: u64,
    /// Requests that failed to read. Only grows.
    pub reads_failed: u64,
    /// Requests that failed to write: their pages stay in memory. Only grows.
    pub writes_failed: u64,
    /// Pages whose touch was answered by a signal. Only grows.
    pub pages_failed: u64,
}
