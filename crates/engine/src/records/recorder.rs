//! Writes the log of a mount: each event before its actions, as they happen.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use foreread_policy::{Action, Event, Nanos, Options};

use crate::records::log::{action_text, event_text, head_text};

/// Writes a log. A failure to write ends the log, not the reading; it is warned of once.
pub(crate) struct Recorder {
    out: Option<BufWriter<File>>,
}

impl Recorder {
    /// Starts a log at `path`, which only its owner may read, replacing a file that is there.
    pub(crate) fn create(path: &Path, options: Options) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // It tells what was read, and when. A pipe or a terminal stays as it is.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        let mut out = BufWriter::new(file);
        writeln!(out, "{}", head_text(options))?;
        Ok(Self { out: Some(out) })
    }

    pub(crate) fn event(&mut self, now: Nanos, event: Event) {
        self.line(&format!("@{} {}", now.0, event_text(event)));
    }

    pub(crate) fn action(&mut self, action: Action) {
        self.line(&format!("! {}", action_text(action)));
    }

    /// Policy has panicked: the log ends with the event that it was told.
    pub(crate) fn end(&mut self) {
        self.flush();
        tracing::warn!("the record ends here: policy is started anew");
        self.out = None;
    }

    pub(crate) fn flush(&mut self) {
        if let Some(out) = &mut self.out
            && let Err(error) = out.flush()
        {
            tracing::warn!(%error, "the record is incomplete");
        }
    }

    fn line(&mut self, text: &str) {
        if let Some(out) = &mut self.out
            && let Err(error) = writeln!(out, "{text}")
        {
            tracing::warn!(%error, "the record is incomplete: it ends here");
            self.out = None;
        }
    }
}
