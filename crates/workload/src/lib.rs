//! Workloads: each TOML file becomes a deterministic stream of operations, with the figures that
//! are expected of it.
//!
//! ```text
//!  workloads/NAME.toml ──parse──> Workload ──operations(thread)──> Op, Op ...   the reads
//!                                    ├── device, mount                          storage, memory
//!                                    └── expect: [Figure]                       expected figures
//!  workloads/programs/NAME.toml ────> Program                                     what is run
//! ```
//!
//! | folder | what is in it |
//! |---|---|
//! | `workload` | the types that a file of reads describes; `program` has that of a program |
//! | `decode` | from the text of a file to these types |
//! | `operations` | from a workload to the reads of each thread |
//! | `trace` | recordings of other programs' reads |
//!
//! The same file runs in real time (`foreread bench`) and in virtual time, so nothing here does
//! I/O or knows a clock: an operation only says before which time it must not start.
//!
//! ```
//! let workload = foreread_workload::catalogue::find("stride-64k-of-1m").unwrap();
//! let second = workload.operations(0).nth(1).unwrap();
//! assert_eq!((second.offset, second.len), (1 << 20, 64 << 10));
//! ```
//!
//! *Invariant:* the operations of a thread are a pure function of the file's text and the thread's
//! number.

#![forbid(unsafe_code)]

pub mod catalogue;
mod decode;
mod error;
mod figure;
mod load;
mod operations;
mod program;
pub mod trace;
mod workload;

pub use error::{Error, Problem};
pub use figure::{Figure, Metric, Operator};
pub use load::Load;
pub use operations::batches::Batches;
pub use operations::reader::Reader;
pub use operations::{Op, Operations};
pub use program::{Program, Timed};
pub use workload::device::{Device, Slow, Store};
pub use workload::files::Files;
pub use workload::pattern::disk_tree::{DiskTree, Shape};
pub use workload::pattern::region::{Order, Region};
pub use workload::pattern::{Descriptor, Pattern, Visit};
pub use workload::simulate::{Ratio, Simulate};
pub use workload::tier::Tier;
pub use workload::tree::{Child, Tree};
pub use workload::{Baseline, Mount, Workload};
