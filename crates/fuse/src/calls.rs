//! Gives a kernel all of a program's read when it asks for the first window of it.
//!
//! ```text
//!   program   pread of a column chunk, 400 KiB
//!   kernel    READ of 128 KiB ──> engine: a read of 400 KiB ──> FUSE_NOTIFY_STORE of the rest
//!                    └──<── the answer, after that ──────────────────────────┘
//! ```
//!
//! A kernel cuts a read that is longer than its window into windows. The program waits for them
//! one after the other, and for one or two more behind the end of its read. Only root can set the
//! window (`kernel_window`). What is stored in the page cache is not asked for: a chunk is one
//! read of the engine then, and ends where it ends.
//!
//! The kernel stores a page once no READ of it is under way. So a store waits for answers, and
//! while it waits, the thread that stores cannot be killed.
//!
//! *Invariants:* no answer waits for a store for long. Bytes of which another READ is under way
//! are not stored, as far as that is known when the store begins. What is stored takes little
//! memory beyond the budget.
//!
//! How long the program's read is, policy guesses (`ReadPath::call_of`). Source:
//! `fuse_notify_store` of Linux; docs/decisions/0111.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foreread_engine::{Engine, File, Pages};
use fuser::{INodeNo, Notifier};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::guarded::later;

/// The reads of programs that are under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// How the kernel is given pages, once it has accepted the mount.
    notifier: OnceLock<Notifier>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The inode and the bytes of each READ of a file with chunks that is under way.
    reads: Vec<(u64, Range<u64>)>,
    /// The inode and the bytes of each call.
    calls: Vec<(u64, Range<u64>)>,
    /// Bytes that are being stored.
    storing: u64,
}

/// A READ that is under way.
#[derive(Debug)]
pub(crate) struct Begun {
    calls: Arc<Calls>,
    of: (u64, Range<u64>),
}

/// A read of a program whose first window the kernel has asked for.
#[derive(Debug)]
pub(crate) struct Call {
    calls: Arc<Calls>,
    of: (u64, Range<u64>),
    /// Of those bytes, how many the kernel has asked for.
    window: usize,
}

impl Calls {
    /// The kernel has accepted the mount.
    pub(crate) fn accepted(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// A READ of a file with chunks is under way until what is returned is dropped.
    pub(crate) fn read(self: &Arc<Self>, inode: u64, bytes: Range<u64>) -> Begun {
        self.known.lock().reads.push((inode, bytes.clone()));
        Begun { calls: Arc::clone(self), of: (inode, bytes) }
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
        let (of, mut known) = ((inode, bytes), self.known.lock());
        if known.calls.iter().any(|other| overlap(other, &of)) {
            return None;
        }
        known.calls.push(of.clone());
        Some(Call { calls: Arc::clone(self), of, window })
    }
}

/// Whether these are bytes of the same file.
fn overlap(a: &(u64, Range<u64>), b: &(u64, Range<u64>)) -> bool {
    a.0 == b.0 && a.1.start < b.1.end && b.1.start < a.1.end
}

impl Call {
    /// How many bytes the program reads.
    pub(crate) fn len(&self) -> usize {
        (self.of.1.end - self.of.1.start) as usize
    }

    /// The program's bytes have come: the kernel is given those behind its window, and then
    /// `answer` is called with the window, on another thread.
    pub(crate) fn answer(self, engine: &Engine, pages: &Pages, answer: impl FnOnce(Pages) + Send + 'static) {
        let (window, rest) = (pages.part(0, self.window), pages.part(self.window, pages.len()));
        let behind = rest.offset()..rest.offset() + rest.len() as u64;
        let Some(storing) = self.store(behind, engine.memory_bytes()) else { return answer(window) };
        later(engine, async {
            let given = timeout(GIVEN_WITHIN, tokio::task::spawn_blocking(|| self.give(rest, storing))).await;
            answer(window);
            if let Ok(Err(error)) = given
                && error.is_panic()
            {
                resume_unwind(error.into_panic());
            }
        });
    }

    /// Room beside a budget of so many bytes to store the `rest`, if none of it is being read.
    fn store(&self, rest: Range<u64>, budget_bytes: u64) -> Option<Storing> {
        let bytes = rest.end - rest.start;
        let of = (self.of.0, rest);
        let mut known = self.calls.known.lock();
        if bytes == 0
            || known.reads.iter().any(|read| overlap(read, &of))
            || known.storing + bytes > budget_bytes / STORING_SHARE
        {
            return None;
        }
        known.storing += bytes;
        Some(Storing { calls: Arc::clone(&self.calls), bytes })
    }

    /// Stores pages in the kernel. What it does not take, it asks for.
    fn give(self, pages: Pages, storing: Storing) {
        let whole = pages.slices().map(<[u8]>::len).sum::<usize>() == pages.len();
        let Some(notifier) = self.calls.notifier.get().filter(|_| whole) else { return };
        let mut offset = pages.offset();
        for piece in pages.slices() {
            if let Err(error) = notifier.store(INodeNo(self.of.0), offset, piece) {
                tracing::debug!(%error, "the kernel was not given what a program reads");
                break;
            }
            offset += piece.len() as u64;
        }
        drop((pages, storing));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        remove(&mut self.calls.known.lock().calls, &self.of);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        remove(&mut self.calls.known.lock().reads, &self.of);
    }
}

fn remove(list: &mut Vec<(u64, Range<u64>)>, one: &(u64, Range<u64>)) {
    if let Some(at) = list.iter().position(|other| other == one) {
        list.swap_remove(at);
    }
}

/// Bytes that are being stored.
struct Storing {
    calls: Arc<Calls>,
    bytes: u64,
}

impl Drop for Storing {
    fn drop(&mut self) {
        self.calls.known.lock().storing -= self.bytes;
    }
}

/// How long an answer waits for a store. Lower: on a loaded machine the kernel asks for what it is
/// about to be given. Higher: a program waits for pages that others read, where their READ came
/// while they were stored. Source: chosen here; a store takes about .1 ms.
const GIVEN_WITHIN: Duration = Duration::from_millis(20);

/// The part of the budget that stores may hold beside it: an eighth, as much as one read may.
/// Lower: more memory than the budget. Higher: of programs that read side by side, fewer are given
/// their calls. Source: chosen here; as the longest read of the engine.
const STORING_SHARE: u64 = 8;

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
    fn what_is_being_read_is_not_stored_and_little_is_at_once() {
        let calls = Arc::<Calls>::default();
        let call = calls.claim(1, 0..100, 10).expect("the only one");
        let other = (calls.read(1, 0..10), calls.read(1, 100..110), calls.read(2, 0..100));
        assert!(call.store(10..100, 800).is_some(), "its own window, bytes behind it, another file");
        let read = calls.read(1, 99..120);
        assert!(call.store(10..100, 800).is_none());
        drop((read, other));
        let storing = call.store(10..100, 800).expect("room");
        assert!(call.store(10..21, 800).is_none() && call.store(10..20, 800).is_some());
        drop(storing);
        assert!(call.store(10..100, 800).is_some() && call.store(10..10, 800).is_none());
    }
}
