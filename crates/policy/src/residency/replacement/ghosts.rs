//! Names of evicted folios, the oldest first, and how long ago each was evicted.
//!
//! ```text
//!   push ──> oldest ... newest ── take: it comes back ──> how many bytes were evicted since
//!              └─ more than may be remembered ──> forgotten
//! ```
//!
//! What is evicted is counted in bytes: a name that comes back after `n` of them would have been
//! found in a queue that were `n` bytes longer. When the folio was read last is kept for the
//! caller, by the caller's clock.
//!
//! *Invariant:* each name has an entry in the order, its latest, so no name outlives `truncate`.
//!
//! This file does not decide what a folio that comes back is worth (`replacement`). Source: the
//! queue of names of S3-FIFO; what is counted, docs/decisions/0053.

use alloc::collections::VecDeque;

use crate::collections::hash_table::HashTable;
use crate::units::FileId;

/// Names of folios evicted from one queue.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// Each name, and the bytes evicted until then. May hold names that were taken meanwhile.
    order: VecDeque<(FileId, u64, u64)>,
    /// The bytes evicted until then, and when the folio was read last.
    names: HashTable<(u64, u64)>,
    evicted_bytes: u64,
}

/// What is known of a folio that left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    /// Bytes evicted from the queue since.
    pub(super) evicted_since: u64,
    /// When it was read last.
    pub(super) read_at: u64,
}

impl Ghosts {
    /// The folio of this name, read last at `read_at`, is evicted, with `bytes`.
    pub(super) fn push(&mut self, name: (FileId, u64), bytes: u64, read_at: u64) {
        self.evicted_bytes += bytes;
        *self.names.entry(name.0, name.1) = (self.evicted_bytes, read_at);
        self.order.push_back((name.0, name.1, self.evicted_bytes));
    }

    /// The folio of this name comes back.
    pub(super) fn take(&mut self, name: (FileId, u64)) -> Option<Left> {
        let (at, read_at) = self.names.remove(name.0, name.1)?;
        Some(Left { evicted_since: self.evicted_bytes - at, read_at })
    }

    /// Remembers `most` names at most.
    pub(super) fn truncate(&mut self, most: usize) {
        while self.order.len() > most {
            let Some((file, start, at)) = self.order.pop_front() else { return };
            // The same name may have been pushed again since.
            if self.names.get(file, start).is_some_and(|&(latest, _)| latest == at) {
                self.names.remove(file, start);
            }
        }
    }

    /// Names that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.names.len().max(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_back_says_how_much_was_evicted_since() {
        let (mut ghosts, file) = (Ghosts::default(), FileId(1));
        for start in 0..4 {
            ghosts.push((file, start), 10, start);
        }
        assert_eq!(ghosts.take((file, 1)), Some(Left { evicted_since: 20, read_at: 1 }));
        assert_eq!(ghosts.take((file, 1)), None);
        ghosts.push((file, 1), 10, 5);
        // The entry of its first eviction is the second oldest: it says nothing of the latest one.
        ghosts.truncate(2);
        assert_eq!(ghosts.take((file, 0)), None);
        assert_eq!(ghosts.take((file, 1)), Some(Left { evicted_since: 0, read_at: 5 }));
    }
}
