//! Files that no program has open any more, in the order in which they were closed.
//!
//! *Invariant:* a file is in it once.
//!
//! The file does not know what is to be done with them (`read::path::release`). Source:
//! docs/decisions/0105.

use alloc::collections::BTreeSet;

use crate::units::{FileId, Nanos};

/// Files, by the time at which each was closed.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    files: BTreeSet<(Nanos, FileId)>,
}

impl Closed {
    /// `file` was closed `at` that time.
    pub(crate) fn insert(&mut self, at: Nanos, file: FileId) {
        self.files.insert((at, file));
    }

    /// `file`, which was closed `at` that time, is open again, or gone.
    pub(crate) fn remove(&mut self, at: Nanos, file: FileId) {
        self.files.remove(&(at, file));
    }

    /// The file that was closed first.
    pub(crate) fn first(&self) -> Option<FileId> {
        self.files.first().map(|&(_, file)| file)
    }

    /// Removes the file that was closed first, if there are more than `most`, or that was `until`
    /// then. Says when.
    pub(crate) fn pop(&mut self, most: u64, until: Option<Nanos>) -> Option<(Nanos, FileId)> {
        let &(at, _) = self.files.first()?;
        let is_due = self.files.len() as u64 > most || until.is_some_and(|until| at <= until);
        if is_due { self.files.pop_first() } else { None }
    }
}
