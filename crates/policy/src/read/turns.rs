//! Turns: the streams that found the speculative requests at their limit, in the order in which
//! they plan again.
//!
//! ```text
//!   a stream finds the limit ──insert──> waits, in the order of (what it had, when it came)
//!                                          ^                                 │ pop: the first
//!                                          └── it has had more since then <──┤
//!                                                           it plans now <───┘ it has not
//! ```
//!
//! The stream that has had the least of the storage's time is first, and among equals the one that
//! has waited longest. That time only grows, so a stream is looked up again when it comes to the
//! front: what it had when it began to wait is a lower bound.
//!
//! *Invariant:* a stream waits once.
//!
//! The file does not know how much a stream has had (`queue::fair_queue`). Source:
//! docs/decisions/0015.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::units::FileId;

/// A stream of a file.
type Name = (FileId, u64);

/// All streams that wait for a turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// What each had at least, in ns, and when it came.
    waiting: BTreeMap<Name, (u64, u64)>,
    order: BTreeSet<((u64, u64), Name)>,
    came: u64,
}

impl Turns {
    /// A stream waits from now on, if it did not before.
    pub(crate) fn insert(&mut self, name: Name, had_ns: u64) {
        if !self.waiting.contains_key(&name) {
            self.came += 1;
            self.waiting.insert(name, (had_ns, self.came));
            self.order.insert(((had_ns, self.came), name));
        }
    }

    /// Removes the stream that is first; `had_ns` says what a stream has had.
    pub(crate) fn pop(&mut self, had_ns: impl Fn(Name) -> u64) -> Option<Name> {
        loop {
            let ((known_ns, came), name) = self.order.pop_first()?;
            let now_ns = had_ns(name);
            if now_ns <= known_ns {
                self.waiting.remove(&name);
                return Some(name);
            }
            self.waiting.insert(name, (now_ns, came));
            self.order.insert(((now_ns, came), name));
        }
    }

    /// Whether no stream waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The streams of `file` wait no more.
    pub(crate) fn remove(&mut self, file: FileId) {
        let all: Vec<_> = self.waiting.range((file, 0)..=(file, u64::MAX)).map(|(&name, &key)| (key, name)).collect();
        for entry in all {
            self.order.remove(&entry);
            self.waiting.remove(&entry.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_that_had_least_is_first_then_the_one_that_came_first() {
        let mut turns = Turns::default();
        let name = |stream| (FileId(stream % 2), stream);
        for (stream, had_ns) in [(1, 5), (2, 3), (3, 3), (4, 9), (1, 0)] {
            turns.insert(name(stream), had_ns);
        }
        let had_ns = |(_, stream)| [0, 5, 7, 3, 9][stream as usize];
        let order: Vec<_> = core::iter::from_fn(|| turns.pop(had_ns)).map(|(_, stream)| stream).collect();
        assert_eq!(order, [3, 1, 2, 4]);
        turns.insert(name(1), 0);
        turns.insert(name(2), 0);
        turns.remove(FileId(0));
        assert_eq!((turns.pop(|_| 0), turns.pop(|_| 0)), (Some(name(1)), None));
    }
}
