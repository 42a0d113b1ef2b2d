//! Schedulers: which of the requests that wait for a block device goes to it next. A baseline, below the policies that are compared;
//! the policy that serves real reads asks nobody.
//!
//! ```text
//!  add ──> what waits, by context ──next──> device ──> completed
//! ```
//!
//! A context is an open file: whoever shares it is one stream to the scheduler, and a helper that opened the file for itself is another.

mod cfq;

use std::fmt;
use std::str::FromStr;

use crate::scenario::Error;
use cfq::{Cfq, Merging, Rules};

/// A request for bytes of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Its name, used once.
    pub(crate) id: u64,
    /// Who makes it.
    pub(crate) context: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Decides about requests in virtual time. Times never go back; [`Scheduler::next`] is asked after everything else until `None`.
pub(crate) trait Scheduler: fmt::Debug {
    /// A request waits.
    fn add(&mut self, now_ns: u64, request: Request);

    /// One that was given out is done.
    fn completed(&mut self, now_ns: u64, id: u64);

    /// A request is not wanted any more. Whether it still waited; one that was given out is over.
    fn cancel(&mut self, now_ns: u64, id: u64) -> bool;

    /// A context makes no more requests.
    fn closed(&mut self, now_ns: u64, context: u32);

    /// What goes to the device now; `None` if nothing should, whether or not something waits.
    fn next(&mut self, now_ns: u64) -> Option<Request>;

    /// When to be asked again even if nothing happens.
    fn next_deadline(&self) -> Option<u64>;
}

/// A scheduler that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SchedulerName {
    /// Completely fair queueing as in 2007: slices of 100 ms.
    Cfq,
    /// The same with slices that get shorter as more want one (2.6.32).
    CfqLowLatency,
    /// The same, and queues that read close together are merged until they have been seeky for a second (2.6.33).
    CfqMerging,
    /// The same, until they have made a few requests since they turned seeky.
    CfqSplitting,
}

impl SchedulerName {
    /// Every scheduler.
    pub const ALL: &[Self] = &[Self::Cfq, Self::CfqLowLatency, Self::CfqMerging, Self::CfqSplitting];

    /// Its name in workloads, on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cfq => "cfq",
            Self::CfqLowLatency => "cfq-low-latency",
            Self::CfqMerging => "cfq-merging",
            Self::CfqSplitting => "cfq-splitting",
        }
    }

    pub(crate) fn scheduler(self) -> Box<dyn Scheduler> {
        let (low_latency, merging) = match self {
            Self::Cfq => (false, None),
            Self::CfqLowLatency => (true, None),
            Self::CfqMerging => (true, Some(Merging::UntilSeekyForTime)),
            Self::CfqSplitting => (true, Some(Merging::UntilSeekyForRequests)),
        };
        Box::new(Cfq::new(Rules { low_latency, merging }))
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for SchedulerName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = || Self::ALL.iter().map(|scheduler| scheduler.as_str()).collect::<Vec<_>>().join(", ");
        let found = Self::ALL.iter().find(|scheduler| scheduler.as_str() == name);
        found.copied().ok_or_else(|| Error::NoScheduler { name: name.to_owned(), known: known() })
    }
}
