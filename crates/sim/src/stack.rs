//! What is simulated in one column of a report: a policy, and the scheduler below it if there is one.

mod parse;
pub(crate) mod policy_name;
pub(crate) mod scheduler_name;

use std::fmt;

use policy_name::PolicyName;
use scheduler_name::SchedulerName;

/// A policy above a scheduler or, without one, above the device itself. Written `policy` or `policy/scheduler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stack {
    /// What decides what is read.
    pub policy: PolicyName,
    /// What decides what is read first. Block devices only.
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
