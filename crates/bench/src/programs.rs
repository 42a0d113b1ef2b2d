//! Rows that are programs: run over a mount as their users run them, on data that a script makes.
//!
//! ```text
//!  tools, data ──> local folder ──> program without a mount ──> foreread      a repetition
//!  scripts, once                    readahead off, without root, others       once, at the end
//! ```
//!
//! - `made`: the folders that scripts fill, kept from one benchmark to the next.
//! - `stage`: the storage of a row, and one cold run there. `measure`: all runs.

pub(crate) mod made;
pub(crate) mod measure;
mod stage;
