//! From a scheduler's name to the scheduler.

use super::Scheduler;
use super::cfq::{Cfq, Merging, Rules};
use super::mq_deadline::{IN_DRIVE_MAX, MqDeadline};
use crate::stack::scheduler_name::SchedulerName;

/// The scheduler of that name.
pub(crate) fn scheduler(name: SchedulerName) -> Box<dyn Scheduler> {
    let (low_latency, merging) = match name {
        SchedulerName::Cfq => (false, None),
        SchedulerName::CfqLowLatency => (true, None),
        SchedulerName::CfqMerging => (true, Some(Merging::UntilSeekyForTime)),
        SchedulerName::CfqSplitting => (true, Some(Merging::UntilSeekyForRequests)),
        SchedulerName::MqDeadline => return Box::new(MqDeadline::new(IN_DRIVE_MAX)),
    };
    Box::new(Cfq::new(Rules { low_latency, merging }))
}
