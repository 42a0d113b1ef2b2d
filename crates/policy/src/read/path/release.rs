//! What becomes of a file that no program has open any more.
//!
//! ```text
//!   Release ──> reads that wait are dropped
//!        │      read on before? ── no ──> requests in flight are cancelled
//!        │                         yes ── 100 ms ──> the same
//!        └──── 2 s, or too many ──> streams are forgotten
//!   Forget ──> all of it goes, at once, and the pages
//!   Open ────> its streams may be read on
//! ```
//!
//! A program that looks at the beginning of a file does not come back, and what is on its way for
//! it is read in vain. A program may as well open a file for each piece that it reads: a task of
//! many, a tool that is started again and again. So streams are kept for a while. Where one was
//! read on after its file was closed, what is on its way at the next close is likely to be read.
//!
//! No timer is needed: what is due is done at the next event. Without one nothing else needs the
//! link or the memory (docs/decisions/0017).
//!
//! *Invariant:* a file that is closed has no reads, and no share of the memory among streams.
//!
//! The file does not decide what stays resident: pages stay until room is needed (`residency`).
//! Nor does it know where a stream is read on (`files::streams`). Source: docs/decisions/0105.

use super::ReadPath;
use crate::files::cached::Cached;
use crate::units::{FileId, Nanos};

impl ReadPath {
    /// No program has `file` open.
    pub(super) fn release(&mut self, file: FileId) {
        self.drop_reads(file);
        self.turns.remove(file);
        self.tier_turns.remove(file);
        self.close_layout(file);
        let Some(known) = self.files.get_mut(&file).filter(|known| known.is_open) else { return };
        known.is_open = false;
        self.streams_bytes -= known.readahead.bytes();
        let is_read_on = known.readahead.close(self.now);
        self.streams_bytes += known.readahead.bytes();
        if is_read_on {
            self.fetching.insert(self.now, file);
        } else {
            self.cancel_of(file);
            self.rest_streams(self.now, file);
        }
        self.rests(file);
    }

    /// A program has opened `file`, or it is forgotten: nothing is due for it any more.
    pub(super) fn is_not_closed(&mut self, file: FileId) {
        if let Some(at) = self.files.get(&file).and_then(|known| known.readahead.closed()) {
            self.fetching.remove(at, file);
            self.resting.remove(at, file);
        }
    }

    /// Does what is due for files that are closed.
    pub(super) fn leave_closed(&mut self, now: Nanos) {
        let since = |time: Nanos| now.0.checked_sub(time.0).map(Nanos);
        let most = self.options.capacity_bytes / BYTES_PER_KEPT;
        while let Some((at, file)) = self.fetching.pop(most, since(FETCHED)) {
            self.cancel_of(file);
            self.rest_streams(at, file);
        }
        while let Some((_, file)) = self.resting.pop(most, since(KEPT)) {
            self.leave(file);
        }
    }

    /// The requests of `file` are cancelled.
    fn cancel_of(&mut self, file: FileId) {
        for request in self.requests.of_file(file) {
            self.cancel(request);
        }
    }

    /// No request of `file`, which was closed `at` that time, is in flight any more.
    fn rest_streams(&mut self, at: Nanos, file: FileId) {
        let Some(known) = self.files.get_mut(&file) else { return };
        known.readahead.is_not_read_on();
        if known.readahead.may_go_on(known.pages) {
            self.resting.insert(at, file);
        } else {
            self.leave(file);
        }
    }

    /// The streams of `file`, which is closed, are forgotten.
    fn leave(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            self.streams_bytes -= file.readahead.bytes();
            file.readahead = file.readahead.anew();
        }
        self.queue.close(file);
    }

    /// `file` will not be read again: everything of it goes.
    pub(super) fn forget(&mut self, file: FileId) {
        self.release(file);
        self.is_not_closed(file);
        self.cancel_of(file);
        self.leave(file);
        self.cached(file, |cached| *cached = Cached::default());
        let known = self.files.remove(&file);
        if let Some(layout) = known.as_ref().and_then(|known| known.layout.as_ref()) {
            self.told.remove(file, layout);
        }
        let pages = known.map_or(0, |known| known.pages);
        let gone = self.budget.close(file, pages);
        self.gone(gone);
    }
}

/// Time for which the requests of a closed file go on, where a program has read on before: 100 ms.
/// Lower: one that takes longer between two pieces waits for each. Higher: what is read in vain at
/// the end takes memory and the link from others for longer. Source: docs/decisions/0105.
const FETCHED: Nanos = Nanos::from_millis(100);

/// Time for which the streams of a closed file are kept: 2 s. Lower: a program that takes longer
/// between two pieces waits for each. Higher: files that are looked at and left hold memory for
/// longer. Source: docs/decisions/0105.
const KEPT: Nanos = Nanos::from_millis(2_000);

/// Bytes of the budget for which one closed file is kept so: 256 KiB. Lower: files that are looked
/// at and left, thousands a second, take memory from pages. Higher: of several files that a
/// program opens in turn for each piece some are forgotten. Source: chosen here: 64 files in 16
/// MiB, each of which takes about 1 KiB, and 10 KiB at most.
const BYTES_PER_KEPT: u64 = 256 << 10;
