//! Why a workload cannot be simulated.

use crate::outcome::violation::Violation;
use crate::stack::Stack;
use crate::stack::scheduler_name::SchedulerName;

/// What keeps a workload from being simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A policy that nobody knows.
    #[error("no policy is called {name}; known: {known}")]
    NoPolicy {
        /// The name.
        name: String,
        /// Those that are known.
        known: String,
    },
    /// A scheduler that nobody knows.
    #[error("no scheduler is called {name}; known: {known}")]
    NoScheduler {
        /// The name.
        name: String,
        /// Those that are known.
        known: String,
    },
    /// A scheduler in front of what is no block device.
    #[error("{scheduler} is for block devices only")]
    Unscheduled {
        /// Which one.
        scheduler: SchedulerName,
    },
    /// A device that nobody knows.
    #[error("no device is called {name}; known: {known}")]
    NoDevice {
        /// The name.
        name: String,
        /// Those that are known.
        known: String,
    },
    /// The policy did what it must not.
    #[error("{policy} broke the contract of policies")]
    Violation {
        /// Which one.
        policy: Stack,
        /// How.
        #[source]
        violation: Violation,
    },
}
