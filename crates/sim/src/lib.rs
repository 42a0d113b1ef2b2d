//! The simulator: runs policies against models of devices in virtual time.
//!
//! ```text
//!  Workload ──operations──> World: clock, readers, pages <──events, actions──> Policy
//!                             │  ^        └──> Tally ──> figures        ReadPath or a Baseline
//!                      reads  v  │ bytes
//!             Storage: device models, a Scheduler in front, or a mount: another World
//! ```
//!
//! | folder | content |
//! |---|---|
//! | `scenario` | from a workload to a run: start here |
//! | `stack` | names of policies and schedulers |
//! | `world`, `tree`, `region` | the drivers of file reads, directories and memory |
//! | `storage` | devices, schedulers and profiles below the drivers |
//! | `baseline` | the rules that policy is compared with |
//! | `outcome` | what is reported: tally, pictures, curves, violations |
//! | `search` | random scenarios with faults |
//! | `grid` | links, readers and budgets, and the throughput that each allows |
//!
//! *Invariant:* no clock, no thread, no I/O; the same scenario gives the same events and figures,
//! bit for bit.

#![forbid(unsafe_code)]

mod baseline;
mod error;
pub mod grid;
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
pub use outcome::course::{Course, Watch};
pub use outcome::service::Curve;
pub use outcome::tally::{Second, Tally};
pub use outcome::violation::Violation;
pub use outcome::{optimum, picture};
pub use policy::{Grain, Policy, Reading};
pub use region::Swapped;
pub use scenario::busy::Busy;
pub use scenario::change::Change;
pub use scenario::chunk::Chunk;
pub use scenario::{Beside, Reads, Scenario, Tiered, simulate};
pub use stack::Stack;
pub use stack::policy_name::PolicyName;
pub use stack::scheduler_name::SchedulerName;
pub use storage::profile;
pub use tree::Forest;
