//! A read that waits for folios: one piece of memory from the miss to the answer.
//!
//! ```text
//!   read_resident: missing ──> shard: what there is of it, and is to come ──> wait_for(pages) ── the last folio is filled ──> answered
//!                                └─ no memory for it yet: starved ──────────────┘
//! ```
//!
//! Whoever fills the last folio answers, whichever thread that is, without the shard.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::Error;
use crate::file::File;
use crate::pages::table::Pages;

/// See the module's text.
pub(crate) struct Waiting<D: ?Sized = dyn Finish> {
    pub(crate) file: File,
    /// Where, in bytes, and how many.
    pub(crate) offset: u64,
    pub(crate) len: usize,
    since: Instant,
    /// Folios still missing, and one more until all have been told.
    missing: AtomicUsize,
    pages: Mutex<Option<Pages>>,
    done: D,
}

/// Told what has become of a read.
pub(crate) trait Finish: Send + Sync {
    /// Once: what is told later is ignored.
    fn finish(&self, result: Result<Pages, Error>);
}

impl<F: FnOnce(Result<Pages, Error>) + Send> Finish for Mutex<Option<F>> {
    fn finish(&self, result: Result<Pages, Error>) {
        let done = self.lock().take();
        if let Some(done) = done {
            done(result);
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl Waiting {
    /// A read of `file`, of which `done` is told.
    pub(crate) fn new(
        file: File,
        offset: u64,
        len: usize,
        done: impl FnOnce(Result<Pages, Error>) + Send + 'static,
    ) -> Arc<Self> {
        let (since, missing, pages) = (Instant::now(), AtomicUsize::new(0), Mutex::new(None));
        Arc::new(Waiting { file, offset, len, since, missing, pages, done: Mutex::new(Some(done)) })
    }

    /// Answers with `pages` as soon as all their folios have an outcome: maybe at once, on this thread.
    pub(crate) fn wait_for(self: &Arc<Self>, pages: Pages) {
        let mut held = self.pages.lock();
        self.missing.store(pages.folios().len() + 1, Ordering::Relaxed);
        let ready = held.insert(pages).folios().iter().filter(|folio| !folio.tells(self)).count();
        drop(held);
        self.ready(ready + 1);
    }

    /// So many more of its folios have an outcome.
    pub(crate) fn ready(&self, folios: usize) {
        if self.missing.fetch_sub(folios, Ordering::AcqRel) != folios {
            return;
        }
        let Some(pages) = self.pages.lock().take() else { return };
        let result = match pages.folios().iter().find_map(|folio| folio.failure().cloned()) {
            Some(failure) => Err(failure),
            None => Ok(pages),
        };
        let (file, stats) = (&self.file, &self.file.engine.stats);
        if let Ok(pages) = &result {
            file.engine.reference(&file.opened, pages);
        }
        stats.waited(result.as_ref().ok().map(Pages::len), self.since.elapsed());
        self.done.finish(result);
    }
}
