//! A local copy of what was read, in front of the storage.

use serde::Serialize;

/// A disk that keeps what was read once. In virtual time only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tier {
    /// The model of the disk.
    pub profile: String,
    /// Bytes that it holds; `None`: all that it is offered.
    pub size_bytes: Option<u64>,
    /// What it has of each of the workload's own files from the start: the first byte of a range,
    /// and the end of it. Each is a multiple of a page, or the end of the file.
    pub warm: Vec<(u64, u64)>,
}
