//! The simulator: the policy that serves real reads, and those that it is compared with, against models of devices in virtual time.
//!
//! ```text
//!  Workload ──operations──> World (virtual clock, readers, page table) <──events, actions──> Policy: ReadPath, or a Baseline
//!                             │  ^
//!                      reads  v  │ bytes
//!             Storage (device models, a Scheduler in front, or a mount: another World)     World ──> Tally ──> figures
//! ```
//!
//! Trees of directories have a world of their own, of blocks, inodes and the programs that go through them (`tree/`). So has memory larger
//! than there is room for (`region/`).
//!
//! *Invariant:* no clock, no thread, no I/O; the same scenario gives the same events and figures, bit for bit.

#![forbid(unsafe_code)]

mod baseline;
mod error;
mod outcome;
mod page_map;
mod policy;
mod region;
mod scenario;
pub mod search;
mod stack;
mod storage;
mod tree;
mod world;

pub use error::Error;
pub use foreread_device::Profile;
pub use outcome::service::Curve;
pub use outcome::tally::{Second, Tally};
pub use outcome::violation::Violation;
pub use outcome::{optimum, picture};
pub use policy::{Grain, Policy, Reading};
pub use region::Swapped;
pub use scenario::{Beside, Reads, Scenario, simulate};
pub use stack::Stack;
pub use stack::policy_name::PolicyName;
pub use stack::scheduler_name::SchedulerName;
pub use storage::profile;
pub use tree::Forest;
