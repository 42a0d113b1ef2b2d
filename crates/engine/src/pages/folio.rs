//! A folio: up to 32 pages of a file held as one piece, from its request to its removal.
//!
//! ```text
//!   new ──> in flight ──> filled ──> resident ──> removed from its table (shard)
//!               │            └ the reads that waited for it are told
//!               └──> failed: the reads that waited get the error, the shard removes it
//! ```
//!
//! The thread that fills a folio tells the reads that wait for it, without the shard. A folio that
//! is removed while a reader holds it lives until that reader drops it.

use std::fmt;
use std::sync::Arc;

use foreread_backend::Frames;
use foreread_policy::{Extent, Touch};
use smallvec::SmallVec;

use crate::error::Error;
use crate::pages::request::Request;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, OnceLock};

/// A read that waits for folios.
pub(crate) trait Waits: fmt::Debug + Send + Sync {
    /// So many more of its folios have an outcome.
    fn ready(&self, folios: usize);
}

/// Pages of one file held as one piece.
#[derive(Debug)]
pub(crate) struct Folio {
    pub(crate) extent: Extent,
    /// The request that fills it.
    pub(crate) request: Arc<Request>,
    outcome: OnceLock<Result<Frames, Error>>,
    /// A read of it is an event for policy.
    marked: AtomicBool,
    /// A reader was given some of it.
    referenced: AtomicBool,
    /// A reader was given its last page.
    finished: AtomicBool,
    /// A reader was given some of it after that: the reference bit that policy clears.
    again: AtomicBool,
    /// Reads to complete once the outcome is known; `None` from then on.
    waiting: Mutex<Option<Waiters>>,
}

/// The reads that wait for one folio; most often one.
type Waiters = SmallVec<[Arc<dyn Waits>; 1]>;

/// Several folios; most often one.
pub(crate) type Folios = SmallVec<[Arc<Folio>; 1]>;

impl Folio {
    /// A folio in flight.
    pub(crate) fn new(extent: Extent, marked: bool, request: Arc<Request>) -> Arc<Self> {
        Arc::new(Self {
            extent,
            request,
            outcome: OnceLock::new(),
            marked: AtomicBool::new(marked),
            referenced: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            again: AtomicBool::new(false),
            waiting: Mutex::new(Some(SmallVec::new())),
        })
    }

    /// Whether its bytes have come.
    pub(crate) fn is_resident(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(_)))
    }

    /// Why its bytes will never come, if that is so.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.outcome.get().and_then(|o| o.as_ref().err())
    }

    /// The next read of it is an event for policy.
    pub(crate) fn mark(&self) {
        self.marked.store(true, Ordering::Relaxed);
    }

    /// Takes the mark off. Returns whether there was one.
    pub(crate) fn take_mark(&self) -> bool {
        self.marked.load(Ordering::Relaxed) && self.marked.swap(false, Ordering::Relaxed)
    }

    /// Sets the bit for a `read`. Returns which touch that was, if policy does not know of it.
    pub(crate) fn reference(&self, read: Extent) -> Option<Touch> {
        let (bit, touch) = if self.finished.load(Ordering::Relaxed) {
            let pages = read.end.min(self.extent.end).saturating_sub(read.start.max(self.extent.start));
            (&self.again, Touch::Again { pages })
        } else if read.end >= self.extent.end {
            (&self.finished, Touch::Finished)
        } else {
            (&self.referenced, Touch::First)
        };
        let news = !bit.load(Ordering::Relaxed) && !bit.swap(true, Ordering::Relaxed);
        news.then_some(touch)
    }

    /// Clears the reference bit: policy is told of the next touch.
    pub(crate) fn clear(&self) {
        self.again.store(false, Ordering::Relaxed);
    }

    /// Its bytes have come, or never will. Completes the reads that wait for nothing else, on this
    /// thread. Later outcomes are ignored.
    pub(crate) fn fill(&self, outcome: Result<Frames, Error>) {
        if self.outcome.set(outcome).is_err() {
            return;
        }
        let waiting = self.waiting.lock().take();
        for read in waiting.into_iter().flatten() {
            read.ready(1);
        }
    }

    /// Tells `read` once its outcome is known. Returns `false`, and does not, if it is known
    /// already.
    pub(crate) fn tells<R: Waits + 'static>(&self, read: &Arc<R>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.as_mut().map(|waiting| waiting.push(Arc::<R>::clone(read))).is_some()
    }

    /// Its bytes, if they have come.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self.outcome.get() {
            Some(Ok(frames)) => Some(frames),
            _ => None,
        }
    }
}
