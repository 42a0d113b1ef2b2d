//! Transfers by threads that wait for them: where `io_uring` is forbidden, or the spill is a
//! program's own.
//!
//! ```text
//!   start ──> channel ──> a thread: read or write ──> list of ended transfers, bell ──> wait
//! ```

#![allow(unsafe_code, reason = "memory is handed to another thread by address")]

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use foreread_local::lock::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::kernel::bell::Bell;
use crate::kernel::uffd::Uffd;
use crate::region::carrier::transfer::{Transfer, Woken};
use crate::region::spill::Spill;

/// See the head of this file. Dropping it waits for all transfers.
pub(crate) struct Threads {
    spill: Arc<dyn Spill>,
    uffd: Arc<Uffd>,
    bell: Bell,
    work: Option<Sender<Work>>,
    taken: Arc<Mutex<Receiver<Work>>>,
    done: Arc<Mutex<Vec<(u64, bool)>>>,
    started: Vec<JoinHandle<()>>,
    /// Started, and not reported by `wait` yet.
    pending: usize,
}

struct Work(Transfer);

// SAFETY: by the contract of `start` only the transfer uses its memory until it ends, and one
// thread at a time has the transfer.
unsafe impl Send for Work {}

impl Threads {
    pub(crate) fn new(spill: Arc<dyn Spill>, uffd: Arc<Uffd>, bell: Bell) -> Self {
        let (work, taken) = mpsc::channel();
        let (taken, done) = (Arc::new(Mutex::new(taken)), Arc::default());
        Self { spill, uffd, bell, work: Some(work), taken, done, started: Vec::new(), pending: 0 }
    }

    /// See [`crate::region::carrier::Carrier::start`].
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn start(&mut self, transfer: Transfer) {
        self.pending += 1;
        if self.pending > self.started.len() && self.started.len() < THREADS_MAX {
            let (spill, taken) = (Arc::clone(&self.spill), Arc::clone(&self.taken));
            let (done, bell) = (Arc::clone(&self.done), self.bell.clone());
            let serve = move || {
                loop {
                    // The lock is held while this thread waits for work; the other threads wait
                    // for the lock.
                    let next = taken.lock().recv();
                    let Ok(Work(transfer)) = next else { return };
                    let came = carry(&*spill, transfer);
                    done.lock().push((transfer.token, came));
                    bell.ring();
                }
            };
            let spawned = std::thread::Builder::new().name("foreread-spill".to_owned()).spawn(serve);
            // Without another thread, those that there are do more.
            self.started.extend(spawned.ok());
        }
        let sent = !self.started.is_empty() && self.work.as_ref().is_some_and(|work| work.send(Work(transfer)).is_ok());
        if !sent {
            // There is no thread at all: this one does it.
            let came = carry(&*self.spill, transfer);
            self.done.lock().push((transfer.token, came));
            self.bell.ring();
        }
    }

    /// See [`crate::region::carrier::Carrier::wait`].
    pub(crate) fn wait(&mut self, woken: &mut Woken, at_most: Option<Duration>) {
        let mut fds = [PollFd::new(&*self.uffd, PollFlags::IN), PollFd::new(&self.bell, PollFlags::IN)];
        let timeout = at_most.map(|time| Timespec::try_from(time).unwrap_or_default());
        if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
            return;
        }
        woken.touched |= !fds[0].revents().is_empty();
        woken.rung |= !fds[1].revents().is_empty();
        if woken.rung {
            // Before the list is taken: an entry that is added later rings again.
            self.bell.silence();
            let done = std::mem::take(&mut *self.done.lock());
            self.pending -= done.len();
            woken.done.extend(done);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.work = None;
        for thread in self.started.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Executes a transfer. Whether it succeeded; a spill that panics has failed.
fn carry(spill: &dyn Spill, transfer: Transfer) -> bool {
    // SAFETY: the transfer owns its memory until it ends, see `Threads::start`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(transfer.memory, transfer.len) };
    let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if transfer.write { spill.write(transfer.offset, bytes) } else { spill.read(transfer.offset, bytes) }
    }));
    matches!(moved, Ok(Ok(())))
}

/// Threads, and so transfers at the same time, at most. Lower: a fast spill is not kept busy.
/// Higher: more threads for little gain.
const THREADS_MAX: usize = 16;
