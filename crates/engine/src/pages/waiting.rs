//! A read that waits for folios: one piece of memory from the miss to the answer.
//!
//! ```text
//!   missed ──> shard: policy is told ── ready: memory for all its pages ──> wait_for(pages)
//!   wait_for ── the last folio has an outcome ──> Reader::finish ──> policy: answered
//! ```
//!
//! The thread that fills the last folio finishes the read, without the shard. A read that waited
//! for a request of before it, which failed, may be made anew: the patience that ended was not its
//! own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foreread_policy::{Extent, FileId, PAGE_BYTES, ReadId};
use tokio::time::Instant;

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

    /// Makes a read of `len` bytes at `offset` anew, which policy knows as `read`, if it was told
    /// of it: a request that is older than the read has failed. Returns whether it does; then the
    /// read is not finished.
    fn begins_anew(&self, offset: u64, len: usize, read: Option<ReadId>) -> bool;

    /// The read is over, which policy knows as `read`, if it was told of it. Called again only for
    /// a read that has failed by a panic: then it has ended already.
    fn finish(&self, result: Result<Pages, Error>, read: Option<ReadId>);
}

/// A read that did not find all its pages resident, as the shard sees it.
pub(crate) trait Missed: Waits {
    fn file(&self) -> FileId;

    /// The pages that are read.
    fn extent(&self) -> Extent;

    /// Policy is told of it as `read`.
    fn told(&self, read: ReadId);

    /// Policy does not know it any more: it has been told that the read is over.
    fn untold(&self);

    /// Whether it has waited for longer than this.
    fn has_waited(&self, longest: Duration) -> bool;

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
    made: Instant,
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
        Arc::new(Self { offset, len, made: Instant::now(), missing, pages, read, reader })
    }

    fn finish(&self, result: Result<Pages, Error>) {
        self.reader.finish(result, self.known());
    }

    fn known(&self) -> Option<ReadId> {
        Some(ReadId(self.read.load(Ordering::Relaxed))).filter(|read| read.0 > 0)
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
        // Once one of its requests has failed, the others are given up.
        let failures = pages.folios().iter().filter_map(|folio| Some((folio, folio.failure()?)));
        let cause = failures.min_by_key(|(_, failure)| failure.is_given_up());
        let Some((folio, failure)) = cause else { return self.finish(Ok(pages)) };
        let joined = folio.request.made() < self.made && failure.is_retryable();
        if !(joined && self.reader.begins_anew(self.offset, self.len, self.known())) {
            self.finish(Err(failure.clone()));
        }
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

    fn untold(&self) {
        self.read.store(0, Ordering::Relaxed);
    }

    fn has_waited(&self, longest: Duration) -> bool {
        self.made.elapsed() > longest
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
