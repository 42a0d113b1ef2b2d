//! What an engine is made with, and how long it waits for storage.
//!
//! Both types will grow, so they are made from their defaults:
//! `Options::default().with_readahead(false)`.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use crate::planted::Panic;

/// What an engine is made with.
///
/// ```
/// use std::time::Duration;
///
/// let options = foreread_engine::Options::default()
///     .with_memory_bytes(512 << 20)
///     .with_metadata_ttl(Duration::from_secs(60));
/// assert!(options.readahead);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
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
    /// Whether a request that is late is sent once more, one in twenty at most. Without it no
    /// answer is asked for twice, and a reader waits for a late one as long as `patience` lasts.
    pub hedges: bool,
    /// How long to wait for storage.
    pub patience: Patience,
    /// How long a listing is believed, from the moment at which it was requested. Zero: each name
    /// is asked for by itself, each time.
    pub metadata_ttl: Duration,
    /// Where to write the last events if policy panics. The system's folder for temporary files.
    pub events_folder: PathBuf,
    /// Where content stays that was read once: a folder on a local disk.
    pub cache: Option<Cache>,
    /// A read that waits for longer is counted, and told of in the log, with what it waited for.
    pub slow: Duration,
    /// From it follow the waits between attempts. Random, so that many clients do not come back in
    /// step; fixed in tests that are repeated.
    pub seed: u64,
    /// Panics to plant, for tests of what they do.
    pub panics: Vec<Panic>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            readahead: true,
            fair_queue: true,
            hedges: true,
            record: None,
            patience: Patience::default(),
            metadata_ttl: Duration::from_secs(1),
            events_folder: std::env::temp_dir(),
            cache: None,
            slow: Duration::from_secs(1),
            seed: RandomState::new().hash_one(0_u8),
            panics: Vec::new(),
        }
    }
}

impl Options {
    /// With a budget of so many bytes.
    #[must_use]
    pub fn with_memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// With or without readahead.
    #[must_use]
    pub fn with_readahead(mut self, readahead: bool) -> Self {
        self.readahead = readahead;
        self
    }

    /// With or without the fair queue.
    #[must_use]
    pub fn with_fair_queue(mut self, fair_queue: bool) -> Self {
        self.fair_queue = fair_queue;
        self
    }

    /// With or without hedges.
    #[must_use]
    pub fn with_hedges(mut self, hedges: bool) -> Self {
        self.hedges = hedges;
        self
    }

    /// With a record at `path`.
    #[must_use]
    pub fn with_record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// With this patience.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// With listings that are believed for so long.
    #[must_use]
    pub fn with_metadata_ttl(mut self, metadata_ttl: Duration) -> Self {
        self.metadata_ttl = metadata_ttl;
        self
    }
}

impl Options {
    /// With a folder where content stays that was read once.
    #[must_use]
    pub fn with_cache(mut self, cache: Option<Cache>) -> Self {
        self.cache = cache;
        self
    }

    /// With the last events written to `folder` if policy panics.
    #[must_use]
    pub fn with_events_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.events_folder = folder.into();
        self
    }

    /// With reads counted as slow that wait for longer.
    #[must_use]
    pub fn with_slow(mut self, slow: Duration) -> Self {
        self.slow = slow;
        self
    }

    /// With this seed of the waits between attempts.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With these panics planted.
    #[must_use]
    pub fn with_panics(mut self, panics: &[Panic]) -> Self {
        self.panics = panics.to_vec();
        self
    }
}

/// A folder on a local disk where content stays that was read once, across restarts. Engines and
/// processes of one user may share it, whatever they read from.
///
/// ```
/// let cache = foreread_engine::Cache::new("/var/cache/foreread").with_bytes(200 << 30);
/// let options = foreread_engine::Options::default().with_cache(Some(cache));
/// # assert!(options.cache.is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// The folder. Made, with mode 0700, if it is not there.
    pub folder: PathBuf,
    /// Bytes that its files take at most, of all processes together.
    pub bytes: u64,
    /// Bytes that stay free on its file system: with less, content leaves.
    pub min_free_bytes: u64,
    /// A file of 32 bytes or more that nothing else knows: content is encrypted with it. A folder
    /// is made with or without, and stays so.
    pub key_file: Option<PathBuf>,
    /// Whether the storage is asked for what is there, where the disk holds readers up. Without,
    /// what is there is never asked for, however slow the disk is.
    pub bypass: bool,
}

impl Cache {
    /// A folder of 64 GiB at most that leaves 1 GiB free.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let foreread_tier::Options { bytes, min_free_bytes, .. } = foreread_tier::Options::default();
        Self { folder: folder.into(), bytes, min_free_bytes, key_file: None, bypass: true }
    }

    /// With so many bytes at most.
    #[must_use]
    pub fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Encrypted with the content of this file.
    #[must_use]
    pub fn with_key_file(mut self, key_file: Option<PathBuf>) -> Self {
        self.key_file = key_file;
        self
    }

    /// With a disk that is helped by the storage, or not.
    #[must_use]
    pub fn with_bypass(mut self, bypass: bool) -> Self {
        self.bypass = bypass;
        self
    }

    /// With so many bytes left free.
    #[must_use]
    pub fn with_min_free_bytes(mut self, min_free_bytes: u64) -> Self {
        self.min_free_bytes = min_free_bytes;
        self
    }
}

/// How long to wait for storage before a request is made again, or given up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Patience {
    /// For the head of a response.
    pub first_byte: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// For one stat or list altogether, and for each 128 KiB of a read, retries included.
    pub total: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { first_byte: Duration::from_secs(10), idle: Duration::from_secs(10), total: Duration::from_secs(30) }
    }
}

impl Patience {
    /// With so much time for the head of a response.
    #[must_use]
    pub fn with_first_byte(mut self, first_byte: Duration) -> Self {
        self.first_byte = first_byte;
        self
    }

    /// With so much time between two pieces of a body.
    #[must_use]
    pub fn with_idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// With so much time for one operation altogether.
    #[must_use]
    pub fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }
}

/// The least memory budget, 16 MiB: two of the largest requests. With less, the parts of one
/// window and a page for each of a few readers do not fit, and every reader waits for every other
/// one. Higher refuses budgets that work.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
