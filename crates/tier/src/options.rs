//! How large a cache may be, and what it has done.

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// Limits of a cache.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of all segment files, at most.
    pub bytes: u64,
    /// Bytes of the file system that stay free.
    pub min_free_bytes: u64,
    /// Memory of the index, in bytes.
    pub index_bytes_max: u64,
    /// Memory of what was offered and is not written, in bytes.
    pub queue_bytes_max: u64,
    /// Encrypts the content of the folder and the names in it.
    pub secret: Option<Secret>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes: 64 << 30,
            min_free_bytes: 1 << 30,
            index_bytes_max: 64 << 20,
            queue_bytes_max: QUEUE_BYTES_MAX,
            secret: None,
        }
    }
}

impl Options {
    /// With other [`Options::bytes`].
    #[must_use]
    pub fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes, ..self }
    }

    /// With other [`Options::min_free_bytes`].
    #[must_use]
    pub fn with_min_free_bytes(self, min_free_bytes: u64) -> Self {
        Self { min_free_bytes, ..self }
    }

    /// With other [`Options::index_bytes_max`].
    #[must_use]
    pub fn with_index_bytes_max(self, index_bytes_max: u64) -> Self {
        Self { index_bytes_max, ..self }
    }

    /// With other [`Options::queue_bytes_max`], at most 16 MiB.
    #[must_use]
    pub fn with_queue_bytes_max(self, queue_bytes_max: u64) -> Self {
        Self { queue_bytes_max: queue_bytes_max.min(QUEUE_BYTES_MAX), ..self }
    }

    /// With another [`Options::secret`].
    #[must_use]
    pub fn with_secret(self, secret: Option<Secret>) -> Self {
        Self { secret, ..self }
    }

    /// On a file system of `total` bytes: all that it has are the most that a cache takes.
    pub(crate) fn on(self, total: u64) -> Self {
        Self { bytes: self.bytes.min(total), ..self }
    }

    /// Bytes of a segment file: a 32nd of the cache, so that little leaves at once.
    pub(crate) fn segment_bytes(&self) -> u64 {
        (self.bytes / 32).clamp(1 << 20, 64 << 20) >> 20 << 20
    }
}

/// Bytes that are offered and were not written. Lower: a burst of requests that complete together
/// is not kept. Higher: memory beyond the budget of the caller. Source: as much as 64 requests of
/// 256 KiB, and what a disk writes in a tenth of a second or less.
const QUEUE_BYTES_MAX: u64 = 16 << 20;

/// What a folder holds, and what it was used for by this process since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of content in it.
    pub kept_bytes: u64,
    /// Its segment files.
    pub segments: u64,
    /// Pieces of content in it, of up to 128 KiB.
    pub entries: u64,
    /// Memory for what is known of it, in bytes.
    pub memory_bytes: u64,
    /// Reads of it that had their bytes.
    pub hits: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Reads of it that had none: the storage was asked.
    pub misses: u64,
    /// Pieces that were found wrong, and dropped.
    pub wrong: u64,
    /// Bytes written to its files.
    pub written_bytes: u64,
    /// Bytes of content that were new in it.
    pub admitted_bytes: u64,
    /// Bytes that were read and not worth keeping.
    pub refused_bytes: u64,
    /// Bytes that came faster than they could be written, or while writing paused.
    pub dropped_bytes: u64,
    /// Bytes of content that were written again, since their file left.
    pub carried_bytes: u64,
    /// Bytes of files that left.
    pub evicted_bytes: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// How often the disk did not answer for a second: then reads went to the storage until it
    /// did.
    pub silences: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_fit_into_a_small_file_system() {
        for (total, segment) in [(20 << 20, 1 << 20), (60 << 20, 1 << 20), (1 << 30, 32 << 20), (1 << 40, 64 << 20)] {
            assert_eq!(Options::default().on(total).segment_bytes(), segment, "on {total} bytes");
        }
    }
}
