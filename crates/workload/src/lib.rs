//! Workloads: one TOML each, read into a deterministic stream of operations with the figures that are expected of it.
//!
//! ```text
//!  workloads/NAME.toml ──parse──> Workload ──operations(thread)──> Op, Op, Op ...     what is read, in which order
//!                                    ├── device, mount                                on what, with how much memory
//!                                    └── expect: [Figure]                             what must come out of it
//! ```
//!
//! The same file runs in real time (`foreread bench`) and in virtual time, so nothing here does I/O or knows a clock:
//! an operation states only before which moment it must not start.
//!
//! ```
//! let workload = foreread_workload::catalogue::find("stride-64k-of-1m").unwrap();
//! let second = workload.operations(0).nth(1).unwrap();
//! assert_eq!((second.offset, second.len), (1 << 20, 64 << 10));
//! ```
//!
//! *Invariant:* the operations of a thread are a pure function of the file's text and the thread's number.

#![forbid(unsafe_code)]

pub mod catalogue;
mod decode;
mod disk_tree;
mod error;
mod figure;
mod operation;
mod permutation;
mod quantity;
mod region;
pub mod trace;
mod tree;
mod workload;

pub use disk_tree::{DiskTree, Shape};
pub use error::{Error, Problem};
pub use figure::{Figure, Metric, Operator};
pub use operation::{Op, Operations};
pub use region::{Order, Region};
pub use tree::{Batches, Child, Tree};
pub use workload::{
    Baseline, Descriptor, Device, Files, Mount, Pattern, Ratio, Reader, Simulate, Slow, Store, Visit, Workload,
};
