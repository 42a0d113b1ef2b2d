//! The benchmark: the promised figures, measured.
//!
//! ```text
//!                 ┌─ testbed ────────────── a process; serves the row's objects behind its device
//!  bench (this) ──┼─ bare client ────────── threads of this process; the yardstick
//!                 ├─ mount ──────────────── a process for each run; foreread or another client
//!                 └─ readers ────────────── processes for each run; pread, verify, keep time
//! ```
//!
//! A [`Row`] is one workload, measured through a mount ([`measure()`]). A workload with a tree of
//! directories has readers of another kind (`readers/tree.rs`). A workload whose reads are
//! submitted to the library has neither testbed nor mount (`submission/`). A program is run over a
//! mount in place of readers ([`measure_program()`]). Regions of memory have rows of their own
//! ([`Regions`]).
//!
//! `verify/` measures nothing: its processes read a directory in mixed patterns and compare each
//! byte with a second source ([`verify::torture::Torture`]).
//!
//! Everything that is measured is a process of its own. The benchmark ends each by its number.
//! Those processes are the calling program itself, `current_exe()`: it must be the `foreread`
//! command, which passes `bench --reader`, `--toucher` and `--verifier` to [`child`]. Workloads
//! and their figures come from the `workload` crate; this crate starts, measures and compares.
//!
//! *Invariant:* nothing here parses arguments or writes to the terminal. A measurement reports its
//! progress through the `status` of [`Setup`]; results are values, or text for the caller to
//! print.

#![deny(unsafe_code)]

mod error;
mod options;
mod process;
mod programs;
mod readers;
mod regions;
mod row;
mod setup;
mod subject;
mod submission;
pub mod verify;

pub use error::Error;
pub use options::Options;
pub use process::child;
pub use process::interrupt::Interrupt;
pub use programs::made::{Made, Script};
pub use programs::measure::{Cast, measure as measure_program};
pub use regions::rows::Regions;
pub use row::column::Column;
pub use row::conditions::Conditions;
pub use row::measure::measure;
pub use row::{Row, report};
pub use setup::{Setup, need_fuse};
pub use subject::client::Storage;
