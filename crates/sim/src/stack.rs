//! One column of a report: a policy, and the scheduler below it if there is one.

mod parse;
pub(crate) mod policy_name;
pub(crate) mod scheduler_name;

use std::fmt;

use policy_name::PolicyName;
use scheduler_name::SchedulerName;

/// A policy above a scheduler, or above the device itself. Written `policy/scheduler` or `policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stack {
    /// Decides what to read.
    pub policy: PolicyName,
    /// Decides which waiting request goes to the device next. Block devices only.
    pub scheduler: Option<SchedulerName>,
}

impl From<PolicyName> for Stack {
    fn from(policy: PolicyName) -> Self {
        Self { policy, scheduler: None }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.scheduler {
            Some(scheduler) => format!("{}/{scheduler}", self.policy),
            None => self.policy.to_string(),
        };
        formatter.pad(&name)
    }
}
