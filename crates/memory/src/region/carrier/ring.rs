//! Transfers by `io_uring`, and the pager's wait.
//!
//! ```text
//!   wait ──> look out (5 to 100 us, no sleep) ── nothing came ──> sleep in io_uring_enter
//!                └─ a completion, a touch or the bell ──────────────────┴──> Woken
//! ```
//!
//! A processor that sleeps is woken by the next fault, and waking it may take as long as the
//! fault. So before it sleeps the pager looks out for a while: twice as long as before if
//! something came the last time, half as long if not. Between two looks it yields the processor to
//! any other thread.
//!
//! The kernel owns the memory of a transfer from submission to completion, and nothing here
//! cancels: the pager waits for all its transfers before it drops a ring.

#![allow(unsafe_code, reason = "entries of the queue hold addresses")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::kernel::bell::Bell;
use crate::kernel::uffd::Uffd;
use crate::region::carrier::transfer::{Transfer, Woken};
use crate::region::spill::SpillFile;

/// See the head of this file.
pub(crate) struct Ring {
    uring: IoUring,
    file: Arc<SpillFile>,
    uffd: Arc<Uffd>,
    bell: Bell,
    /// Transfers that the kernel has; the index is the entry's user data.
    started: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// How long to look out.
    patience: Duration,
    /// The kernel sets a flag when there are completions to fetch (`IORING_SQ_TASKRUN`).
    tells: bool,
}

impl Ring {
    /// A ring of the calling thread. Returns the file where the kernel or a sandbox forbids
    /// `io_uring`.
    pub(crate) fn new(file: Arc<SpillFile>, uffd: Arc<Uffd>, bell: Bell) -> Result<Self, (Arc<SpillFile>, io::Error)> {
        let build = |when_asked: bool| {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_cqsize(COMPLETIONS);
            if when_asked {
                // Completions are processed when this thread asks, and interrupt it at no other
                // time.
                builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
            }
            builder.build(ENTRIES)
        };
        let deferred = build(true);
        let tells = deferred.is_ok();
        let uring = match deferred.or_else(|_| build(false)) {
            Ok(uring) if uring.params().is_feature_nodrop() => uring,
            Ok(_) => return Err((file, io::ErrorKind::Unsupported.into())),
            Err(error) => return Err((file, error)),
        };
        let mut ring =
            Self { uring, file, uffd, bell, started: Vec::new(), free: Vec::new(), patience: PATIENCE_MIN, tells };
        ring.watch(TOUCHED);
        ring.watch(RUNG);
        Ok(ring)
    }

    /// See [`crate::region::carrier::Carrier::start`].
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn start(&mut self, transfer: Transfer) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.started.push(None);
            self.started.len() - 1
        });
        self.started[place] = Some(transfer);
        self.submit(place);
    }

    fn submit(&mut self, place: usize) {
        let Some(Transfer { write, memory, len, offset, .. }) = self.started[place] else { return };
        let fd = types::Fd(self.file.as_fd().as_raw_fd());
        let entry = if write {
            opcode::Write::new(fd, memory, len as u32).offset(offset).build()
        } else {
            opcode::Read::new(fd, memory, len as u32).offset(offset).build()
        };
        self.push(&entry.user_data(place as u64));
    }

    /// Has the kernel report, each time, that the userfaultfd or the bell can be read.
    fn watch(&mut self, which: u64) {
        let fd = if which == TOUCHED { self.uffd.as_fd().as_raw_fd() } else { self.bell.as_fd().as_raw_fd() };
        let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build();
        self.push(&poll.user_data(which));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the kernel owns a transfer's memory until its completion, by the contract of
            // `start`; a poll has no memory. The descriptors outlive their entries: the ring is
            // dropped before them.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                return;
            }
            // This makes room in the queue, or the kernel is out of memory for a moment.
            if self.uring.submit().is_err() {
                std::thread::yield_now();
            }
        }
    }

    /// Looks for completions for a while, without sleeping.
    fn look_out(&mut self) {
        if !self.tells {
            return;
        }
        self.submit_started();
        let start = Instant::now();
        loop {
            if !self.uring.completion().is_empty() || self.uring.submission().taskrun() {
                self.patience = (self.patience * 2).min(PATIENCE_MAX);
                return;
            }
            if start.elapsed() >= self.patience {
                self.patience = (self.patience / 2).max(PATIENCE_MIN);
                return;
            }
            // A thread whose fault has been answered may wait for this processor.
            rustix::thread::sched_yield();
        }
    }

    /// See [`crate::region::carrier::Carrier::submit`].
    pub(crate) fn submit_started(&mut self) {
        if !self.uring.submission().is_empty() {
            // `wait` tries again after a failure.
            let _ = self.uring.submit();
        }
    }

    /// See [`crate::region::carrier::Carrier::wait`].
    pub(crate) fn wait(&mut self, woken: &mut Woken, at_most: Option<Duration>) {
        // Failures are: an interruption, a full completion queue, or no completion within no time.
        // None matters here.
        if at_most.is_none_or(|time| !time.is_zero()) {
            self.look_out();
        }
        match at_most {
            None => _ = self.uring.submit_and_wait(1),
            Some(time) => {
                let time = types::Timespec::from(time);
                let _ = self.uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time));
            }
        }
        let mut again = Vec::new();
        let mut unwatched = [None; 2];
        for entry in self.uring.completion() {
            let (data, result) = (entry.user_data(), entry.result());
            if data == TOUCHED || data == RUNG {
                *(if data == TOUCHED { &mut woken.touched } else { &mut woken.rung }) = true;
                if !cqueue::more(entry.flags()) {
                    unwatched[usize::from(data == RUNG)] = Some(data);
                }
                continue;
            }
            let place = data as usize;
            let Some(transfer) = self.started.get_mut(place).and_then(Option::as_mut) else { continue };
            let rest = match usize::try_from(result) {
                // The end of the file, where there is none.
                Ok(0) => None,
                Ok(moved) => Some(moved.min(transfer.len)),
                Err(_) if [libc::EINTR, libc::EAGAIN].contains(&-result) => Some(0),
                Err(_) => None,
            };
            match rest {
                Some(moved) if moved < transfer.len => {
                    transfer.memory = transfer.memory.wrapping_add(moved);
                    transfer.len -= moved;
                    transfer.offset += moved as u64;
                    again.push(place);
                }
                rest => {
                    woken.done.push((transfer.token, rest.is_some()));
                    self.started[place] = None;
                    self.free.push(place);
                }
            }
        }
        if woken.rung {
            // Before the pager looks for orders: one that comes later rings again.
            self.bell.silence();
        }
        for place in again {
            self.submit(place);
        }
        for which in unwatched.into_iter().flatten() {
            self.watch(which);
        }
    }
}

/// User data of the two polls: the userfaultfd, and the bell.
const TOUCHED: u64 = u64::MAX;
const RUNG: u64 = u64::MAX - 1;

/// How long the pager looks out, at least and at most: about what waking a virtual processor
/// takes, and about what a fast drive's read takes. Lower: more sleeps, each of which adds the
/// time of waking. Higher: more processor time spent on looking.
const PATIENCE_MIN: Duration = Duration::from_micros(5);
const PATIENCE_MAX: Duration = Duration::from_micros(100);

/// Entries that are submitted together, at most. Lower: more system calls. Higher: more memory.
const ENTRIES: u32 = 128;

/// Completions that the queue holds; the kernel keeps further ones. Lower: the kernel copies more
/// of them. Higher: more memory.
const COMPLETIONS: u32 = 1024;
