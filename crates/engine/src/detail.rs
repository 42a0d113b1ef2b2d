//! What an engine has done with each file and with the storage's time, to be shown over time.
//!
//! What it is doing just now is in `watch`, counters of all of it in `stats`. To look costs a turn
//! at the shard and changes nothing.

use serde::{Deserialize, Serialize};

use crate::failures::Failed;

/// What an engine has done, in more detail than its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Detail {
    /// Since the engine began. The next look gives it to be told of what was wasted since.
    pub now_us: u64,
    /// The files of which most has been read, or fetched.
    pub files: Vec<FileUse>,
    /// Files that are left out.
    pub more_files: usize,
    /// What was read ahead and dropped unread lately, the latest first.
    pub wasted: Vec<WastedRange>,
    /// Pieces of that which are left out.
    pub more_wasted: usize,
    /// The last failures, the latest first.
    pub errors: Vec<Failed>,
    /// What the storage's time was spent on.
    pub service: Service,
}

/// What has been done with a file since it was opened first, or anew after it was forgotten.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FileUse {
    /// The object.
    pub key: String,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes given to readers.
    pub read_bytes: u64,
    /// Bytes that came from the storage.
    pub fetched_bytes: u64,
    /// Bytes read ahead and dropped unread.
    pub wasted_bytes: u64,
    /// Reads that had to wait.
    pub late_reads: u64,
}

/// A part of a file that was read ahead and dropped unread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WastedRange {
    /// The object.
    pub key: String,
    /// Where it begins.
    pub start_bytes: u64,
    /// Where it ends.
    pub end_bytes: u64,
    /// Since it was dropped.
    pub ago_ms: u64,
    /// For want of memory; else since no reader was expected any more.
    pub thrashed: bool,
}

/// What the storage's time was spent on so far, as the fair queue charges it: for each request the
/// time to its first byte and that of its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Service {
    /// On requests that a reader waited for when they were made.
    pub demand_us: u64,
    /// On requests ahead of any reader.
    pub readahead_us: u64,
}

impl From<foreread_policy::Service> for Service {
    fn from(service: foreread_policy::Service) -> Self {
        Self { demand_us: service.demand_ns / 1_000, readahead_us: service.readahead_ns / 1_000 }
    }
}
