//! Why a workload cannot be simulated.

use crate::outcome::violation::Violation;
use crate::stack::Stack;
use crate::stack::scheduler_name::SchedulerName;

/// A workload or a stack that cannot be simulated, or a run that broke a rule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No policy has this name.
    #[error("no policy is called {name}; known: {known}")]
    NoPolicy {
        /// The name.
        name: String,
        /// The known names, with commas.
        known: String,
    },
    /// No scheduler has this name.
    #[error("no scheduler is called {name}; known: {known}")]
    NoScheduler {
        /// The name.
        name: String,
        /// The known names, with commas.
        known: String,
    },
    /// The device below the scheduler is not a block device.
    #[error("{scheduler} is for block devices only")]
    Unscheduled {
        /// Its name.
        scheduler: SchedulerName,
    },
    /// The workload has no tier that could be left out.
    #[error("there is no tier to leave out")]
    NoTier,
    /// No device model has this name.
    #[error("no device is called {name}; known: {known}")]
    NoDevice {
        /// The name.
        name: String,
        /// The known names, with commas.
        known: String,
    },
    /// The policy broke the contract.
    #[error("{policy} broke the contract of policies")]
    Violation {
        /// Its name.
        policy: Stack,
        /// The broken rule.
        #[source]
        violation: Violation,
    },
}
