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
pub mod optimum;
mod page_map;
pub mod picture;
mod policy;
pub mod profile;
mod region;
mod scenario;
mod scheduler;
pub mod search;
mod service;
mod stack;
mod storage;
mod tally;
mod tree;
mod violation;
mod world;

pub use foreread_device::Profile;
pub use policy::{Grain, Policy, Reading};
pub use region::Swapped;
pub use scenario::{Beside, Error, PolicyName, Reads, Scenario, simulate};
pub use scheduler::SchedulerName;
pub use service::Curve;
pub use stack::Stack;
pub use tally::{Second, Tally};
pub use tree::Forest;
pub use violation::Violation;
