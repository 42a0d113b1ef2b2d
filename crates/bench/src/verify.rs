//! Torture for a mount: many processes read a directory in mixed patterns, and compare each byte
//! with a second source of the same bytes.
//!
//! ```text
//!  torture (parent) ──plan──> worker 0 ─┐  each: task 0, 1, 2 ... of its plan, which follows from
//!     │  never touches    ──> worker 1 ─┤  seed + process number; reads DIR, reads the source,
//!     │  the directory    ──> worker n ─┘  compares
//!     │                          │
//!     └── looks at <── board ────┤ what each does now and since when, and its counters
//!         reads at the end <─────┘ findings: wrong bytes, errors, slow reads
//! ```
//!
//! | file | decides |
//! |---|---|
//! | `pattern.rs` | the patterns |
//! | `tree.rs` | the names that are read, as the source lists them |
//! | `plan.rs` | the steps of each task, from the seed |
//! | `source.rs` | where the right bytes come from |
//! | `board.rs` | the file in which each worker says what it does |
//! | `finding.rs` | one thing that is not right |
//! | `worker.rs` | the process that reads and compares |
//! | `report.rs` | the result of a run |
//! | `torture.rs` | the parent: start, watch, end, report |
//!
//! *Invariant:* the parent makes no system call on the directory or on the source. A read that
//! never returns can be killed no more than waited for, so it holds a worker, which is left behind
//! and named in the report.

pub(crate) mod board;
pub mod finding;
pub mod pattern;
pub(crate) mod plan;
pub mod report;
pub mod source;
pub mod torture;
pub(crate) mod tree;
pub(crate) mod worker;
