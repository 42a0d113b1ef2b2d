//! The last events that policy was told, kept in memory for the case that it panics.
//!
//! ```text
//!   event ──> | 16,384 events, the oldest first | ── policy panics ──> a file, mode 0600
//! ```
//!
//! The file has the form of a log without actions (`log.rs`). If no event had been dropped by
//! then, a replay of it panics in the same place; otherwise it shows what led there.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use foreread_policy::{Event, Nanos, Options, RequestId};

use crate::records::log::{event_text, events_head_text};

/// The last events.
pub(crate) struct Last {
    options: Options,
    first: RequestId,
    events: VecDeque<(Nanos, Event)>,
}

impl Last {
    /// No event yet, for a policy with `options` whose requests are numbered from `first` on.
    pub(crate) fn new(options: Options, first: RequestId) -> Self {
        Self { options, first, events: VecDeque::new() }
    }

    pub(crate) fn note(&mut self, now: Nanos, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back((now, event));
    }

    /// Writes the events to a new file in `folder`. Returns its path.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let (path, file) = new_file(folder)?;
        let mut out = BufWriter::new(file);
        writeln!(out, "{}", events_head_text(self.options, self.first))?;
        for &(now, event) in &self.events {
            writeln!(out, "@{} {}", now.0, event_text(event))?;
        }
        out.flush()?;
        Ok(path)
    }
}

/// A file of the first number that is free: one of another engine, or of a process that had this
/// number before, stays as it is.
fn new_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 1;
    loop {
        let path = folder.join(format!("foreread-{}-{number}.events", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NUMBERS_MAX => number += 1,
            opened => return opened.map(|file| (path, file)),
        }
    }
}

/// Names that are tried. Lower: events are lost where so many files are left. Higher: a panic takes
/// longer in a folder that is full of them.
const NUMBERS_MAX: u32 = 10_000;

/// Events that are kept, about a megabyte. Lower, and fewer panics can be replayed from the first
/// event on; higher costs memory.
const EVENTS_MAX: usize = 16_384;
