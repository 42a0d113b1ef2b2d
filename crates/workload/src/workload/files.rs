//! The files that a workload without a tree reads.

use serde::Serialize;

/// The files of a workload, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Files {
    /// At least 1.
    pub count: u32,
    /// Bytes of each; at least one record.
    pub size_bytes: u64,
    /// On a disk, files grew together and got this many bytes in turn; `None`: each file is in one
    /// piece.
    pub extent_bytes: Option<u64>,
}
