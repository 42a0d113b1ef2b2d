//! The plan of a process that touches memory, and its result, as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The memory that is touched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Memory {
    /// The process's own, swapped by the kernel.
    Kernel,
    /// A region.
    Region { budget_bytes: usize, dir: PathBuf },
    /// One page in eight, each once, of memory with no page resident: the cost of a fault.
    Faults {
        dir: PathBuf,
        /// Whether a bare loop answers the faults, in place of a region.
        bare: bool,
    },
    /// A file of a mount, read from its first byte to its last.
    File { path: PathBuf },
    /// The same object mapped, without a mount.
    View { endpoint: String, key: String, memory_bytes: u64 },
}

/// The touches of one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) memory: Memory,
    pub(crate) bytes: usize,
    /// Touches of each page, on average.
    pub(crate) cycles: usize,
    pub(crate) random: bool,
    pub(crate) threads: usize,
    /// One touch in this many writes.
    pub(crate) write_each: u64,
    pub(crate) seed: u64,
}

/// What the process measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Touched {
    pub(crate) seconds: f64,
    pub(crate) touches: u64,
    /// Touches that waited for the storage.
    pub(crate) misses: u64,
    /// Pages read from the storage.
    pub(crate) pages_read: u64,
    /// Pages written to the storage.
    pub(crate) pages_written: u64,
    /// Anonymous memory of the process at its end, without what the kernel swapped out.
    pub(crate) rss_bytes: u64,
    /// The median time of a touch that faults.
    pub(crate) fault_p50_ns: Option<u64>,
}
