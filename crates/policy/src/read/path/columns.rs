//! Reads of a file that says where its parts lie.
//!
//! ```text
//!   Chunk ──> layout: one chunk more
//!   read ──> layout: of a run? ── yes ──> plan_run: the chunk, its group, the next groups
//!                                └─ no ──> streams, as in any file (plan)
//!   passed chunks ── unread? ──> layout: chunks are not fetched whole for a while
//! ```
//!
//! To all other mechanisms a run is a stream: it has a number, an owner of the queue, a share of
//! the memory and turns.
//!
//! *Invariant:* nothing is submitted past the end of a chunk but what a reader waits for.
//!
//! The file does not decide what a run wants (`files::layout`). Source: docs/decisions/0094.

use super::{File, ReadPath};
use crate::files::layout::{Chunk, Layout};
use crate::residency::folio::Ahead;
use crate::units::{Extent, FileId, Found, Nanos};

impl ReadPath {
    /// A file says where one of its chunks lies.
    pub(super) fn chunk(&mut self, file: FileId, chunk: Chunk) {
        if let Some(known) = self.files.get_mut(&file)
            && chunk.extent.end <= known.pages
        {
            self.layouts_bytes -= known.layout.bytes();
            known.layout.push(chunk);
            self.layouts_bytes += known.layout.bytes();
        }
    }

    /// Takes note of a read. Returns the run that it belongs to, if it reads chunks.
    pub(super) fn observe_chunks(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found) -> Option<u64> {
        let known = self.files.get_mut(&file)?;
        let run = known.layout.observe(now, extent, found == Found::Absent, found != Found::Resident)?;
        while let Some(chunk) = known.layout.passed(run) {
            let unread = self.budget.unread_in(file, chunk.extent);
            known.layout.judge(run, chunk, unread <= chunk.extent.pages() / 2);
        }
        Some(run)
    }

    /// Submits what `run` wants next; `read` is the extent that its reader waits for.
    pub(super) fn plan_run(&mut self, now: Nanos, file: FileId, run: u64, read: Extent, file_pages: u64) {
        let limits = self.limits(now, file, run, file_pages);
        let (most, part) = (limits.ahead_pages_max, limits.part_pages_max);
        while let Some(part) = self.files.get_mut(&file).and_then(|f| f.layout.next_part(run, most, part, read)) {
            let until = self.submit_part(file, Ahead::Stream(run), part, read).err();
            if let Some(known) = self.files.get_mut(&file) {
                known.layout.planned(run, until.unwrap_or(part.extent.end));
            }
            if until.is_some() {
                return;
            }
        }
    }
}

impl File {
    /// How far ahead a stream or run wants to be, in pages.
    pub(super) fn ahead(&self, stream: u64) -> u64 {
        self.layout.ahead(stream).unwrap_or_else(|| self.readahead.ahead(stream))
    }

    /// When the reader of a stream or run counts as stopped.
    pub(super) fn stops_at(&self, stream: u64) -> Option<Nanos> {
        if Layout::is_run(stream) { self.layout.stops_at(stream) } else { self.readahead.stops_at(stream) }
    }

    /// How long that reader may be silent beyond what is usual.
    pub(super) fn patience(&self, stream: u64) -> Option<Nanos> {
        if Layout::is_run(stream) { Some(Nanos(0)) } else { self.readahead.patience(stream) }
    }

    /// Whether that reader has had to wait since then.
    pub(super) fn has_waited(&self, stream: u64, since: Nanos) -> bool {
        self.layout.has_waited(stream, since) || self.readahead.has_waited(stream, since)
    }

    /// Pages that were read ahead for a stream or run were evicted unread.
    pub(super) fn wasted(&mut self, stream: u64) {
        if Layout::is_run(stream) {
            self.layout.wasted(stream);
        } else {
            self.readahead.wasted(stream, true);
        }
    }
}
