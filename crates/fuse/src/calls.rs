//! Gives a kernel all of a program's read when it asks for the first window of it.
//!
//! ```text
//!   program   pread of a column chunk, 400 KiB
//!   kernel    READ of 128 KiB ──> engine: a read of 400 KiB ──> FUSE_NOTIFY_STORE of the other 272
//!                    └──<── the answer, after that ──────────────────────────┘
//! ```
//!
//! A kernel cuts a read that is longer than its window into windows. Each waits for the one before
//! it, and one or two more follow behind the end of the read, for which the program waits as well.
//! Only root can set the window (`kernel_window`). What is stored in the page cache is not asked
//! for: a chunk is one read of the engine then, and ends where it ends.
//!
//! The kernel stores a page once no READ of it is under way. So a notification waits for answers.
//!
//! *Invariants:* no thread that answers READs stores. A READ whose answer waits for a store is the
//! only one of its bytes whose answer does: so what a store waits for is answered without one. Few
//! stores are under way at once, and an answer that would need one more does without.
//!
//! How long the program's read is, policy guesses (`ReadPath::call_of`). Source:
//! `fuse_notify_store` of Linux; docs/decisions/0111.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::{Arc, OnceLock};

use foreread_engine::{Engine, File, Pages};
use fuser::{INodeNo, Notifier};
use parking_lot::Mutex;

use crate::guarded::later;

/// The reads of programs that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// How the kernel is given pages, once it has accepted the mount.
    notifier: OnceLock<Notifier>,
    /// The inode and the bytes of each.
    begun: Mutex<Vec<(u64, Range<u64>)>>,
    /// Threads that store.
    storing: AtomicUsize,
}

/// A read of a program whose first window the kernel has asked for.
#[derive(Debug)]
pub(crate) struct Call {
    calls: Arc<Calls>,
    inode: u64,
    bytes: Range<u64>,
    /// Of those, bytes that the kernel has asked for.
    window: usize,
}

impl Calls {
    /// The kernel has accepted the mount.
    pub(crate) fn accepted(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// The kernel asks for a `window` of bytes at `offset`, which go to its page cache. Returns
    /// the read of a program that this is the beginning of, if it is longer and no other one of
    /// these bytes is under way.
    pub(crate) fn begin(self: &Arc<Self>, inode: u64, file: &File, offset: u64, window: usize) -> Option<Call> {
        self.notifier.get()?;
        let len = file.call_of(offset, window);
        if len <= window {
            return None;
        }
        self.claim(inode, offset..offset + len as u64, window)
    }

    /// A call of `bytes`, if none of them is under way.
    fn claim(self: &Arc<Self>, inode: u64, bytes: Range<u64>, window: usize) -> Option<Call> {
        let mut begun = self.begun.lock();
        if begun.iter().any(|(of, other)| *of == inode && other.start < bytes.end && bytes.start < other.end) {
            return None;
        }
        begun.push((inode, bytes.clone()));
        Some(Call { calls: Arc::clone(self), inode, bytes, window })
    }

    /// Room for one more thread that stores, if there is any.
    fn store(self: &Arc<Self>) -> Option<Storing> {
        let storing = Storing(Arc::clone(self));
        (self.storing.fetch_add(1, AcqRel) < STORING_MAX).then_some(storing)
    }
}

impl Call {
    /// How many bytes the program reads.
    pub(crate) fn len(&self) -> usize {
        (self.bytes.end - self.bytes.start) as usize
    }

    /// The program's bytes have come: the kernel is given those behind its window, and then
    /// `answer` is called with the window, on another thread.
    pub(crate) fn answer(self, engine: &Engine, pages: &Pages, answer: impl FnOnce(Pages) + Send + 'static) {
        let (window, rest) = (pages.part(0, self.window), pages.part(self.window, pages.len()));
        let Some(storing) = self.calls.store().filter(|_| !rest.is_empty()) else {
            drop(self);
            return answer(window);
        };
        let store = move || {
            self.give(&rest);
            drop((self, storing));
            answer(window);
        };
        later(engine, async {
            if let Err(error) = tokio::task::spawn_blocking(store).await
                && error.is_panic()
            {
                resume_unwind(error.into_panic());
            }
        });
    }

    /// Stores pages in the kernel. What it does not take, it asks for.
    fn give(&self, pages: &Pages) {
        let Some(notifier) = self.calls.notifier.get() else { return };
        let mut offset = pages.offset();
        for piece in pages.slices() {
            if let Err(error) = notifier.store(INodeNo(self.inode), offset, piece) {
                tracing::debug!(%error, "the kernel was not given what a program reads");
                return;
            }
            offset += piece.len() as u64;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut begun = self.calls.begun.lock();
        if let Some(at) = begun.iter().position(|(of, bytes)| *of == self.inode && *bytes == self.bytes) {
            begun.swap_remove(at);
        }
    }
}

/// A thread that stores.
struct Storing(Arc<Calls>);

impl Drop for Storing {
    fn drop(&mut self) {
        self.0.storing.fetch_sub(1, AcqRel);
    }
}

/// Threads that store at once. Lower: readers side by side are given less than they read. Higher:
/// of the runtime's 512 threads for what blocks, more may wait for pages that other programs read.
/// Source: chosen here; about .1 ms a store.
const STORING_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_calls_that_overlap_one_waits_for_a_store() {
        let calls = Arc::<Calls>::default();
        let first = calls.claim(1, 0..100, 10).expect("the only one");
        assert!(calls.claim(1, 99..200, 10).is_none());
        let other = (calls.claim(1, 100..200, 10), calls.claim(2, 0..100, 10));
        assert!(other.0.is_some() && other.1.is_some(), "other bytes, another file");
        drop(first);
        assert!(calls.claim(1, 99..100, 10).is_some(), "it has ended");
    }

    #[test]
    fn few_threads_store_at_once() {
        let calls = Arc::<Calls>::default();
        let storing: Vec<_> = (0..STORING_MAX).map(|_| calls.store().expect("room")).collect();
        assert!(calls.store().is_none() && calls.store().is_none());
        drop(storing);
        assert!(calls.store().is_some());
    }
}
