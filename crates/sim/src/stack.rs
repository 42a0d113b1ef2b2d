//! One column of a report: a policy, and what is below it.

mod parse;
pub(crate) mod policy_name;
pub(crate) mod scheduler_name;

use std::fmt;

use policy_name::PolicyName;
use scheduler_name::SchedulerName;

/// A policy above a scheduler, or above the device itself. Written `policy/scheduler` or `policy`,
/// and `policy/no-tier` without the tier of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stack {
    /// Decides what to read.
    pub policy: PolicyName,
    /// Decides which waiting request goes to the device next. Block devices only.
    pub scheduler: Option<SchedulerName>,
    /// Whether a tier is used, if there is one.
    pub tier: bool,
}

impl From<PolicyName> for Stack {
    fn from(policy: PolicyName) -> Self {
        Self { policy, scheduler: None, tier: true }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.scheduler {
            Some(scheduler) => format!("{}/{scheduler}", self.policy),
            None if !self.tier => format!("{}/{NO_TIER}", self.policy),
            None => self.policy.to_string(),
        };
        formatter.pad(&name)
    }
}

/// What stands below a policy that does not use the tier.
const NO_TIER: &str = "no-tier";
