//! The files that a workload without a tree reads.

use serde::Serialize;

/// The objects that a workload reads, all of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Files {
    /// At least 1.
    pub count: u32,
    /// Bytes of each; at least one record.
    pub size_bytes: u64,
    /// On a disk all files grew at the same time, each by so many bytes in turn; `None`: one lies after the other.
    pub extent_bytes: Option<u64>,
}
