//! The names of the schedulers that can be simulated. `storage/scheduler/named.rs` makes a
//! scheduler of a name.

use std::fmt;

/// A scheduler that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SchedulerName {
    /// Completely fair queueing as in 2007: slices of 100 ms.
    Cfq,
    /// `Cfq` whose slices become shorter as more queues wait (2.6.32).
    CfqLowLatency,
    /// `CfqLowLatency` that merges queues which read close together, until a merged queue has been
    /// seeky for a second (2.6.33).
    CfqMerging,
    /// `CfqMerging` that splits a merged queue a few requests after it became seeky.
    CfqSplitting,
    /// The order of positions with a deadline for each request: what Linux has for a disk today.
    MqDeadline,
}

impl SchedulerName {
    /// Every scheduler.
    pub const ALL: &[Self] = &[Self::Cfq, Self::CfqLowLatency, Self::CfqMerging, Self::CfqSplitting, Self::MqDeadline];

    /// Its name in workloads, on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cfq => "cfq",
            Self::CfqLowLatency => "cfq-low-latency",
            Self::CfqMerging => "cfq-merging",
            Self::CfqSplitting => "cfq-splitting",
            Self::MqDeadline => "mq-deadline",
        }
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
