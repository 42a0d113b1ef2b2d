//! The names of the policies that can be simulated. `scenario/policies.rs`, `tree.rs` and
//! `region.rs` make a policy of a name.

use std::fmt;

/// A policy that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PolicyName {
    /// The policy that serves real reads.
    Foreread,
    /// No readahead: each read is fetched as it is.
    None,
    /// Fetches aligned blocks of one size.
    Fixed,
    /// Two windows, strictly sequential.
    Linux2620,
    /// On-demand readahead, first form.
    OnDemand2007,
    /// On-demand readahead, today's form.
    Linux,
    /// Adaptive multi-stream prefetching.
    Amp,
    /// `Foreread` that evicts the least recently used page first.
    ForereadLru,
    /// `Foreread` without its fair queue: first come, first served.
    ForereadFifo,
    /// `Foreread` without readahead: what stays in memory is its choice, what comes is not.
    ForereadOnDemand,
    /// `Linux` that reads directories ahead in windows of 128 KiB, at twice the rate of the reader
    /// (2007).
    Ext32007,
    /// Its first form, which computes wrong positions for the blocks of a directory.
    Ext32007First,
    /// `Foreread` that computes wrong positions for the directories that it lists ahead.
    ForereadMisled,
    /// A kernel that swaps in clusters of eight pages.
    Swap8,
    /// A kernel whose cluster follows the hits in earlier clusters, at most eight pages (2012).
    SwapHits,
    /// The last form of `SwapHits`: a cluster shrinks to no less than half of the one before
    /// (2014).
    SwapHitsHalved,
    /// `SwapHits` with clusters of at most sixteen pages.
    SwapHits16,
    /// `SwapHits` with clusters of one page.
    SwapHits1,
    /// A kernel that reads pages around a fault in memory (2017). On a disk it is
    /// `SwapHitsHalved`, as in Linux.
    SwapVma,
}

impl PolicyName {
    /// Every policy, in the order of a report.
    pub const ALL: &[Self] = &[
        Self::Foreread,
        Self::Linux,
        Self::Amp,
        Self::OnDemand2007,
        Self::Linux2620,
        Self::Fixed,
        Self::None,
        Self::ForereadLru,
        Self::ForereadFifo,
    ];

    /// Policies that show a part of another one.
    pub const PARTS: &[Self] = &[Self::ForereadOnDemand];

    /// Policies that differ from one of [`Self::ALL`] in trees of directories only.
    pub const IN_TREES: &[Self] = &[Self::Ext32007, Self::Ext32007First, Self::ForereadMisled];

    /// Kernels that swap. They read files without readahead.
    pub const IN_REGIONS: &[Self] =
        &[Self::Swap8, Self::SwapHits, Self::SwapHitsHalved, Self::SwapHits16, Self::SwapHits1, Self::SwapVma];

    /// Its name in workloads, on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreread => "foreread",
            Self::None => "none",
            Self::Fixed => "fixed",
            Self::Linux2620 => "linux-2.6.20",
            Self::OnDemand2007 => "on-demand-2007",
            Self::Linux => "linux",
            Self::Amp => "amp",
            Self::ForereadLru => "foreread-lru",
            Self::ForereadFifo => "foreread-fifo",
            Self::ForereadOnDemand => "foreread-on-demand",
            Self::Ext32007 => "ext3-2007",
            Self::Ext32007First => "ext3-2007-first",
            Self::ForereadMisled => "foreread-misled",
            Self::Swap8 => "swap-8",
            Self::SwapHits => "swap-hits",
            Self::SwapHitsHalved => "swap-hits-halved",
            Self::SwapHits16 => "swap-hits-16",
            Self::SwapHits1 => "swap-hits-1",
            Self::SwapVma => "swap-vma",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
