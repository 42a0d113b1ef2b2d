//! Transfers by `io_uring`: the pager's only place to wait.
//!
//! A processor that sleeps is woken by the next fault, and that may take as long as the fault. So before it sleeps the pager looks out for a
//! while, which is as long as has been worth it lately: twice as long after something came, half as long after nothing did. Whoever else wants the
//! processor has it meanwhile.
//!
//! The kernel has the memory of a transfer from its submission to its completion, and nothing here cancels: whoever drops a ring has waited for
//! all that it started.

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
    file: SpillFile,
    uffd: Arc<Uffd>,
    bell: Bell,
    /// What the kernel has; its place is the entry's user data.
    started: Vec<Option<Transfer>>,
    free: Vec<usize>,
    /// For how long to look out.
    patience: Duration,
    /// The kernel says without being asked that there is something to finish.
    tells: bool,
}

impl Ring {
    /// A ring of the calling thread. The file comes back where the kernel or a sandbox allows none.
    pub(crate) fn new(file: SpillFile, uffd: Arc<Uffd>, bell: Bell) -> Result<Self, (SpillFile, io::Error)> {
        let build = |when_asked: bool| {
            let mut builder = IoUring::builder();
            builder.dontfork().setup_cqsize(COMPLETIONS);
            if when_asked {
                // What completes is finished when this thread asks, and interrupts it at no other time.
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

    /// Has the kernel say when a descriptor has something to read, each time.
    fn watch(&mut self, which: u64) {
        let fd = if which == TOUCHED { self.uffd.as_fd().as_raw_fd() } else { self.bell.as_fd().as_raw_fd() };
        let poll = opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build();
        self.push(&poll.user_data(which));
    }

    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: a transfer's memory is the kernel's until its completion, by what `start` demands; a poll has no memory. The
            // descriptors live as long as the ring, which is dropped before them.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                return;
            }
            // The kernel takes them, or is out of memory for a moment.
            if self.uring.submit().is_err() {
                std::thread::yield_now();
            }
        }
    }

    /// Waits for a while without sleeping.
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
            // A thread that has been answered may be waiting for this processor.
            rustix::thread::sched_yield();
        }
    }

    /// See [`crate::region::carrier::Carrier::submit`].
    pub(crate) fn submit_started(&mut self) {
        if !self.uring.submission().is_empty() {
            // What fails is tried again by `wait`.
            let _ = self.uring.submit();
        }
    }

    /// See [`crate::region::carrier::Carrier::wait`].
    pub(crate) fn wait(&mut self, woken: &mut Woken, sleep: bool) {
        // A failure is an interruption, or that completions have to be taken first; or that nothing completes without sleeping.
        if sleep {
            self.look_out();
            let _ = self.uring.submit_and_wait(1);
        } else {
            let at_once = types::Timespec::new();
            let _ = self.uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&at_once));
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
                // The end of the file, where there should be none.
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
            // Before what it was rung for is looked at: what comes afterwards rings again.
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

/// User data of what watches the userfaultfd, and the bell.
const TOUCHED: u64 = u64::MAX;
const RUNG: u64 = u64::MAX - 1;

/// For how long it is looked out at least and at most: about what it takes to wake a virtual processor, and about what a fast drive takes to read.
const PATIENCE_MIN: Duration = Duration::from_micros(5);
const PATIENCE_MAX: Duration = Duration::from_micros(100);

/// Transfers given to the kernel together, at most.
const ENTRIES: u32 = 128;

/// Completions that fit; the kernel keeps what does not.
const COMPLETIONS: u32 = 1024;
