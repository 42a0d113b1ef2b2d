//! A read that waits for folios: one piece of memory from the miss to the answer.
//!
//! ```text
//!   missed ──> shard: policy is told ── ready: memory for all its pages ──> wait_for(pages)
//!   wait_for ── the last folio has an outcome ──> Reader::finish ──> policy: answered
//! ```
//!
//! The thread that fills the last folio finishes the read, without the shard.

use std::fmt;
use std::sync::Arc;

use foreread_policy::{Extent, FileId, PAGE_BYTES, ReadId};

use crate::error::Error;
use crate::pages::folio::Waits;
use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::pages::table::Lookup;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The one that a waiting read answers.
pub(crate) trait Reader: Send + Sync + 'static {
    /// The file that is read.
    fn opened(&self) -> &Opened;

    /// The read is over, which policy knows as `read`, if it was told of it. Called once.
    fn finish(&self, result: Result<Pages, Error>, read: Option<ReadId>);
}

/// A read that did not find all its pages resident, as the shard sees it.
pub(crate) trait Missed: Waits {
    fn file(&self) -> FileId;

    /// The pages that are read.
    fn extent(&self) -> Extent;

    /// Policy is told of it as `read`.
    fn told(&self, read: ReadId);

    /// Looks its bytes before page `end` up in the page table.
    fn look_up(&self, end: u64) -> Lookup;

    /// Answers with `pages` once all their folios have an outcome: at once, on this thread, if
    /// they have one already.
    fn wait_for(self: Arc<Self>, pages: Pages);

    /// Answers with `error`, on this thread.
    fn fail(&self, error: Error);
}

/// A read of `len` bytes at `offset`, and how many of its folios have no outcome yet.
pub(crate) struct Waiting<R> {
    offset: u64,
    len: usize,
    /// Folios without an outcome, and one more until all of them have been asked.
    missing: AtomicUsize,
    pages: Mutex<Option<Pages>>,
    /// Its number in policy; 0 if policy was not told.
    read: AtomicU64,
    reader: R,
}

impl<R: Reader> Waiting<R> {
    /// A read that `reader` is told the end of.
    pub(crate) fn new(reader: R, offset: u64, len: usize) -> Arc<Self> {
        let (missing, pages, read) = (AtomicUsize::new(0), Mutex::new(None), AtomicU64::new(0));
        Arc::new(Self { offset, len, missing, pages, read, reader })
    }

    fn finish(&self, result: Result<Pages, Error>) {
        let read = Some(ReadId(self.read.load(Ordering::Relaxed))).filter(|read| read.0 > 0);
        self.reader.finish(result, read);
    }
}

impl<R> fmt::Debug for Waiting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl<R: Reader> Waits for Waiting<R> {
    fn ready(&self, folios: usize) {
        if self.missing.fetch_sub(folios, Ordering::AcqRel) != folios {
            return;
        }
        let Some(pages) = self.pages.lock().take() else { return };
        self.finish(match pages.folios().iter().find_map(|folio| folio.failure().cloned()) {
            Some(failure) => Err(failure),
            None => Ok(pages),
        });
    }
}

impl<R: Reader> Missed for Waiting<R> {
    fn file(&self) -> FileId {
        self.reader.opened().id
    }

    fn extent(&self) -> Extent {
        Extent::of_bytes(self.offset, self.len as u64)
    }

    fn told(&self, read: ReadId) {
        self.read.store(read.0, Ordering::Relaxed);
    }

    fn look_up(&self, end: u64) -> Lookup {
        let before = end.saturating_mul(PAGE_BYTES).saturating_sub(self.offset);
        self.reader.opened().table.look_up(self.offset, (self.len as u64).min(before) as usize)
    }

    fn fail(&self, error: Error) {
        self.finish(Err(error));
    }

    fn wait_for(self: Arc<Self>, pages: Pages) {
        let mut held = self.pages.lock();
        self.missing.store(pages.folios().len() + 1, Ordering::Relaxed);
        let pages = held.insert(pages);
        let ready = pages.folios().iter().filter(|folio| !folio.tells(&self)).count();
        drop(held);
        self.ready(ready + 1);
    }
}
