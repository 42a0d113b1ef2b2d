//! One `io_uring` for all who read: whoever misses submits by itself, one thread takes what has completed.
//!
//! ```text
//!  submit: [lock] entry into the queue [unlock], io_uring_enter      any thread; plugged: the second for all together
//!             │ owns the read: file, buffers, whom to tell
//!             v
//!  kernel ── completion, with the address of the read ──> reaper: all there?  yes: told
//!                                                                             no:  submitted again, for the rest
//! ```
//!
//! A read is given to the kernel as the address of a box that nobody else has, and comes back as the same: from submission to
//! completion the kernel is its owner. Nothing here cancels: what a caller no longer wants completes, and is dropped then. The ring
//! is unmapped by its reaper, after the last completion.

#![allow(unsafe_code, reason = "memory is shared with the kernel: entries hold addresses")]

use std::cell::Cell;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::IN_FLIGHT_MAX;
use crate::reading::Reading;

/// A ring and its reaper.
pub(crate) struct Uring {
    ring: Arc<Ring>,
}

struct Ring {
    uring: IoUring,
    /// Held while the submission queue is written. The kernel has a lock of its own for those who submit what is there.
    submitting: Mutex<()>,
    in_flight: AtomicUsize,
    stopped: AtomicBool,
}

/// What the kernel owns: a read, and the list of its buffers while it is submitted.
struct Submitted {
    reading: Reading,
    buffers: SmallVec<[libc::iovec; 1]>,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("in_flight", &self.in_flight()).finish()
    }
}

impl Uring {
    /// A ring, if kernel and sandbox allow one that can read.
    pub(crate) fn new() -> io::Result<Self> {
        let ring: IoUring = IoUring::builder().dontfork().setup_cqsize(COMPLETIONS).build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let can = |code| probe.is_supported(code);
        if !can(opcode::Read::CODE) || !can(opcode::Readv::CODE) || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ring = Arc::new(Ring {
            uring: ring,
            submitting: Mutex::new(()),
            in_flight: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let reaper = Arc::clone(&ring);
        std::thread::Builder::new().name("foreread-ring".to_owned()).spawn(move || reaper.reap())?;
        Ok(Self { ring })
    }

    /// Gives a read to the kernel, or back.
    pub(crate) fn submit(&self, reading: Reading) -> Result<(), Reading> {
        let taken = self.ring.in_flight.fetch_update(AcqRel, Acquire, |n| (n < IN_FLIGHT_MAX).then_some(n + 1));
        if taken.is_err() {
            return Err(reading);
        }
        self.ring.submit(Box::new(Submitted { reading, buffers: SmallVec::new() }));
        Ok(())
    }

    /// What this thread submits here stays in the queue until [`Uring::unplug`], as long as that has room and no other thread submits.
    /// `false` if the thread is plugged already, here or elsewhere: then all is as it was.
    pub(crate) fn plug(&self) -> bool {
        let free = PLUGGED.get() == NOWHERE;
        if free {
            PLUGGED.set(self.ring.place());
        }
        free
    }

    pub(crate) fn unplug(&self) {
        PLUGGED.set(NOWHERE);
        self.ring.enter();
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.ring.in_flight.load(Acquire)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.ring.stopped.store(true, Release);
        // The reaper may be asleep with nothing in flight.
        self.ring.push(&opcode::Nop::new().build().user_data(WAKE));
    }
}

impl Ring {
    fn submit(&self, submitted: Box<Submitted>) {
        let raw = Box::into_raw(submitted);
        // SAFETY: the box was just given up, nobody else has its address, and the kernel gets it only below.
        let Submitted { reading, buffers } = unsafe { &mut *raw };
        let (fd, at) = (types::Fd(reading.file().as_raw_fd()), reading.position());
        buffers.clear();
        buffers.extend(
            reading
                .rest()
                .take(VECTOR_MAX)
                .map(|rest| libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() }),
        );
        let entry = match buffers.as_slice() {
            [one] => opcode::Read::new(fd, one.iov_base.cast(), one.iov_len as u32).offset(at).build(),
            all => opcode::Readv::new(fd, all.as_ptr(), all.len() as u32).offset(at).build(),
        };
        self.push(&entry.user_data(raw as u64));
    }

    fn push(&self, entry: &squeue::Entry) {
        let held = self.submitting.lock();
        loop {
            // SAFETY: the lock is held, so nobody else writes the submission queue. What an entry refers to lives until its completion:
            // the box that its user data names owns the file, the buffers and the list of them, and only its completion gives it back.
            let pushed = unsafe { self.uring.submission_shared().push(entry) };
            if pushed.is_ok() {
                break;
            }
            // Of a plugged thread, or what the kernel had no memory for.
            self.enter();
        }
        drop(held);
        if PLUGGED.get() != self.place() {
            self.enter();
        }
    }

    /// Where it is, while it is.
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Tells the kernel of what is in the queue. What it cannot take for want of memory stays there, for the next to submit.
    fn enter(&self) {
        for _ in 0..ENTER_TRIES {
            match self.uring.submitter().submit() {
                Ok(_) => return,
                Err(_) => std::thread::yield_now(),
            }
        }
        tracing::warn!("the kernel takes no reads");
    }

    fn reap(&self) {
        let mut completed = Vec::with_capacity(COMPLETIONS as usize);
        while !(self.stopped.load(Acquire) && self.in_flight.load(Acquire) == 0) {
            // SAFETY: this thread alone reads the completion queue.
            let queue = unsafe { self.uring.completion_shared() };
            completed.extend(queue.map(|entry| (entry.user_data(), entry.result())));
            if completed.is_empty() {
                // SAFETY: nothing is submitted and no argument is passed: it waits for one completion.
                let _ = unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
            }
            let batch = NonZeroU64::new(BATCHES.fetch_add(1, Relaxed));
            for (data, result) in completed.drain(..) {
                if data != WAKE {
                    // SAFETY: user data other than `WAKE` is a box given up in `submit`, and each entry completes once.
                    self.complete(unsafe { Box::from_raw(data as *mut Submitted) }, result, batch);
                }
            }
        }
    }

    fn complete(&self, mut submitted: Box<Submitted>, result: i32, batch: Option<NonZeroU64>) {
        let result = usize::try_from(result).map_err(|_| match Errno::from_raw_os_error(-result) {
            // The thread that submitted it has ended, and the kernel had nobody to finish it for: the memory is ours and valid, so it
            // is submitted again, by the reaper, which ends last.
            Errno::CANCELED | Errno::FAULT => Errno::INTR,
            errno => errno,
        });
        match submitted.reading.take(result) {
            None => self.submit(submitted),
            Some(result) => {
                // Before it is told: whoever is told may ask for the next one.
                self.in_flight.fetch_sub(1, AcqRel);
                submitted.reading.finish_in(batch, result);
            }
        }
    }
}

thread_local! {
    /// The ring that this thread is plugged at.
    static PLUGGED: Cell<usize> = const { Cell::new(NOWHERE) };
}

/// The number of the next batch of any ring.
static BATCHES: AtomicU64 = AtomicU64::new(1);

/// No ring is there.
const NOWHERE: usize = 0;

/// User data of what only wakes the reaper: no box is there.
const WAKE: u64 = 0;

/// Entries of the submission queue: the most that are given to the kernel together.
const ENTRIES: u32 = 64;

/// Completions that fit: all that may be in flight, and what wakes.
const COMPLETIONS: u32 = 2 * IN_FLIGHT_MAX as u32;

/// Buffers of one system call; the kernel's limit.
const VECTOR_MAX: usize = 1024;

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

/// How often a submission is tried before it is left for the next one: the kernel was out of memory all the while.
const ENTER_TRIES: u32 = 1000;
