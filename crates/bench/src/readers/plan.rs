//! The plan of a process that reads, as JSON in a file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The reads of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The workload's TOML.
    pub(crate) workload: String,
    /// The longest duration; it may be shorter than the workload's.
    pub(crate) duration_ns: u64,
    /// Which of the workload's processes this is, from 0.
    pub(crate) process: u32,
    /// The paths of the workload's files, in order; of a tree, its top.
    pub(crate) paths: Vec<PathBuf>,
    /// The files' keys on the testbed, whose content is known; empty elsewhere.
    pub(crate) keys: Vec<String>,
    /// How reads are submitted to the library, for a workload that does so.
    pub(crate) submitter: Option<Submitter>,
}

/// What reads are submitted to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Submitter {
    /// The library.
    Library {
        /// Whether threads read local files, in place of `io_uring`.
        threads: bool,
        /// The seed of the order, in place of the workload's own: no two runs read the same
        /// places.
        seed: u64,
    },
    /// The emulated device itself, with nothing in between.
    Bare {
        /// Reads in flight.
        depth: u32,
    },
}

/// The line that a reader writes when it could begin.
pub(crate) const READY: &str = "ready";
