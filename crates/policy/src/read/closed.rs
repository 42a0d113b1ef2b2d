//! Files that no program has open any more, in the order in which they were closed.
//!
//! *Invariant:* a file is due once for each time that it was put in.
//!
//! The file does not know whether a file was opened again since, nor what is to be done with one
//! that was not (`read::path::release`). Source: docs/decisions/0104.

use alloc::collections::VecDeque;

use crate::units::{FileId, Nanos};

/// Files, and when each was closed.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    files: VecDeque<(Nanos, FileId)>,
}

impl Closed {
    /// `file` was closed `at` that time, which is no earlier than those of the others.
    pub(crate) fn push(&mut self, at: Nanos, file: FileId) {
        self.files.push_back((at, file));
    }

    /// Removes the first file, if there are more than `most`, and says when it was closed.
    pub(crate) fn pop_beyond(&mut self, most: u64) -> Option<(Nanos, FileId)> {
        if self.files.len() as u64 > most { self.files.pop_front() } else { None }
    }

    /// Removes the first file, if it was closed `until` then, and says when.
    pub(crate) fn pop(&mut self, until: Nanos) -> Option<(Nanos, FileId)> {
        self.files.pop_front_if(|(at, _)| *at <= until)
    }
}
