//! What an engine is made with, and how long it waits for storage.

use std::path::PathBuf;
use std::time::Duration;

/// What an engine is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The budget for everything that the engine holds, in bytes. At least 16 MiB.
    pub memory_bytes: u64,
    /// Whether to read ahead at all. Without it each read fetches its own pages only.
    pub readahead: bool,
    /// Whether streams share the storage fairly. Without it requests are made in the order in
    /// which they arise, all at once.
    pub fair_queue: bool,
    /// Where to record every event and action (see [`crate::replay`]).
    pub record: Option<PathBuf>,
    /// How long to wait for storage.
    pub patience: Patience,
    /// How long a listing is believed, from the moment at which it was requested. Zero: each name
    /// is asked for by itself, each time.
    pub metadata_ttl: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            readahead: true,
            fair_queue: true,
            record: None,
            patience: Patience::default(),
            metadata_ttl: Duration::from_secs(1),
        }
    }
}

/// How long to wait for storage before a request is made again, or given up.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the head of a response.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// For one read, stat or list altogether, retries included.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { first_byte: Duration::from_secs(10), idle: Duration::from_secs(10), total: Duration::from_secs(30) }
    }
}

/// The least memory budget, 16 MiB: two of the largest requests. With less, the parts of one
/// window and a page for each of a few readers do not fit, and every reader waits for every other
/// one. Higher refuses budgets that work.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
