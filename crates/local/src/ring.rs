//! One `io_uring`: reads go in from any thread, and come out to whoever takes what has completed.
//!
//! ```text
//!  submit: [lock] entry into the queue [unlock], io_uring_enter      any thread; plugged: the second for all together
//!             │ owns the read: file, buffers, whom to tell
//!             v
//!  kernel ── completion, with the address of the read ──> take: all there?  yes: told      one thread at a time
//!                                                                           no:  submitted again, for the rest
//! ```
//!
//! A read is given to the kernel as the address of a box that nobody else has, and comes back as the same: from submission to
//! completion the kernel is its owner. Nothing here cancels: what a caller no longer wants completes, and is dropped then. A ring that
//! is dropped with reads in flight would be unmapped under them: whoever owns one keeps it until there are none.

#![allow(unsafe_code, reason = "memory is shared with the kernel: entries hold addresses")]

use std::cell::RefCell;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::reading::{Batch, IN_FLIGHT_MAX, Reading};

pub(crate) struct Ring {
    uring: IoUring,
    /// Held while the submission queue is written. The kernel has a lock of its own for those who submit what is there.
    submitting: Mutex<()>,
    /// Held while the completion queue is read: room for what comes out of it.
    taking: Mutex<Room>,
    in_flight: AtomicUsize,
    /// Whoever made it, and others like it.
    family: u64,
}

/// What the kernel owns: a read, and the list of its buffers while it is submitted.
struct Submitted {
    reading: Reading,
    buffers: SmallVec<[libc::iovec; 1]>,
}

/// Completions on their way, kept so that their lists are made once.
#[derive(Default)]
struct Room {
    completed: Vec<(u64, i32)>,
    over: Vec<(Reading, io::Result<usize>)>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight()).finish()
    }
}

impl Ring {
    /// A ring, if kernel and sandbox allow one that can read, and can be waited for with an end.
    pub(crate) fn new(whose: Whose, family: u64) -> io::Result<Arc<Self>> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS);
        if whose == Whose::Owners {
            builder.setup_coop_taskrun();
        }
        let uring: IoUring = builder.build(ENTRIES)?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let can = |code| probe.is_supported(code);
        let features = uring.params().is_feature_nodrop() && uring.params().is_feature_ext_arg();
        if !can(opcode::Read::CODE) || !can(opcode::Readv::CODE) || !features {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (submitting, taking, in_flight) = (Mutex::new(()), Mutex::default(), AtomicUsize::new(0));
        Ok(Arc::new(Self { uring, submitting, taking, in_flight, family }))
    }

    /// Gives a read to the kernel, or back.
    pub(crate) fn submit(&self, reading: Reading) -> Result<(), Reading> {
        let taken = self.in_flight.fetch_update(SeqCst, Acquire, |n| (n < IN_FLIGHT_MAX).then_some(n + 1));
        if taken.is_err() {
            return Err(reading);
        }
        self.give(Box::new(Submitted { reading, buffers: SmallVec::new() }));
        Ok(())
    }

    /// Reads that the kernel has.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(SeqCst)
    }

    /// Wakes whoever waits for completions, now or next.
    pub(crate) fn wake(&self) {
        self.push(&opcode::Nop::new().build().user_data(WAKE));
        self.enter();
    }

    /// Tells of what has completed, `max` at most. How many reads, and wakings, that were.
    pub(crate) fn take(&self, max: usize) -> usize {
        self.take_with(self.taking.lock(), max)
    }

    /// The same, unless somebody takes, or waits.
    pub(crate) fn try_take(&self, max: usize) -> usize {
        self.taking.try_lock().map_or(0, |room| self.take_with(room, max))
    }

    /// Waits until something has completed, for at most `timeout`. One thread at a time.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let _room = self.taking.lock();
        let timeout = timeout.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(timeout) = &timeout {
            args = args.timespec(timeout);
        }
        // What it failed at, if it was not only late, is tried again by whoever asks next.
        let _ = self.uring.submitter().submit_with_args(1, &args);
    }

    /// What this thread submits here stays in the queue until [`Ring::unplug`], as long as that has room and no other thread submits.
    /// `false` if the thread is plugged already, here or elsewhere: then all is as it was.
    pub(crate) fn plug(self: &Arc<Self>) -> bool {
        PLUGGED.with_borrow_mut(|plugged| {
            let free = plugged.is_none();
            if free {
                *plugged = Some((Arc::clone(self), false));
            }
            free
        })
    }

    pub(crate) fn unplug(&self) {
        if PLUGGED.take().is_some_and(|(_, pushed)| pushed) {
            self.enter();
        }
    }

    /// The ring of `family` that this thread is plugged at.
    pub(crate) fn plugged(family: u64) -> Option<Arc<Self>> {
        let ring = |(ring, _): &(Arc<Self>, bool)| (ring.family == family).then(|| Arc::clone(ring));
        PLUGGED.with_borrow(|plugged| plugged.as_ref().and_then(ring))
    }

    fn give(&self, submitted: Box<Submitted>) {
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
        if !self.is_plugged() {
            self.enter();
        }
    }

    fn push(&self, entry: &squeue::Entry) {
        let _held = self.submitting.lock();
        loop {
            // SAFETY: the lock is held, so nobody else writes the submission queue. What an entry refers to lives until its completion:
            // the box that its user data names owns the file, the buffers and the list of them, and only its completion gives it back.
            let pushed = unsafe { self.uring.submission_shared().push(entry) };
            if pushed.is_ok() {
                return;
            }
            // Of a plugged thread, or what the kernel had no memory for.
            self.enter();
        }
    }

    /// Whether this thread is plugged here: then there is something to be given to the kernel when it no longer is.
    fn is_plugged(&self) -> bool {
        PLUGGED.with_borrow_mut(|plugged| match plugged {
            Some((ring, pushed)) if std::ptr::eq(&raw const **ring, self) => {
                *pushed = true;
                true
            }
            _ => false,
        })
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

    /// Takes what the kernel says of a read. What has come of it, if it is over; else it is submitted again, for the rest.
    fn complete(&self, mut submitted: Box<Submitted>, result: i32) -> Option<(Reading, io::Result<usize>)> {
        let result = usize::try_from(result).map_err(|_| match Errno::from_raw_os_error(-result) {
            // The thread that submitted it has ended, and the kernel had nobody to finish it for: the memory is ours and valid, so it
            // is submitted again, by whoever takes completions.
            Errno::CANCELED | Errno::FAULT => Errno::INTR,
            errno => errno,
        });
        match submitted.reading.take(result) {
            None => {
                self.give(submitted);
                None
            }
            Some(result) => Some((submitted.reading, result)),
        }
    }

    fn take_with(&self, mut room: MutexGuard<'_, Room>, max: usize) -> usize {
        let Room { completed, over } = &mut *room;
        // SAFETY: whoever holds the lock of this room reads the completion queue, and nobody else.
        let queue = unsafe { self.uring.completion_shared() };
        completed.extend(queue.take(max).map(|entry| (entry.user_data(), entry.result())));
        let count = completed.len();
        for (data, result) in completed.drain(..) {
            if data != WAKE {
                // SAFETY: user data other than `WAKE` is a box given up in `give`, and each entry completes once.
                over.extend(self.complete(unsafe { Box::from_raw(data as *mut Submitted) }, result));
            }
        }
        if over.is_empty() {
            return count;
        }
        let mut over = std::mem::take(over);
        // Whoever is told may take by himself.
        drop(room);
        // Before they are told: whoever is told may ask for the next one.
        self.in_flight.fetch_sub(over.len(), AcqRel);
        let number = NonZeroU64::new(BATCHES.fetch_add(1, Relaxed));
        let mut rest = over.len();
        for (reading, result) in over.drain(..) {
            rest -= 1;
            reading.finish_in(number.map(|number| Batch { number, rest }), result);
        }
        // To be used again, unless somebody is at it already.
        if let Some(mut room) = self.taking.try_lock() {
            room.over = over;
        }
        count
    }
}

/// Who takes what completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A thread that does nothing else.
    Everybodys,
    /// Those who submit, by asking for it: none of them is interrupted for it.
    Owners,
}

thread_local! {
    /// The ring that this thread is plugged at, and whether it has submitted something there.
    static PLUGGED: RefCell<Option<(Arc<Ring>, bool)>> = const { RefCell::new(None) };
}

/// The number of the next batch of any ring.
static BATCHES: AtomicU64 = AtomicU64::new(1);

/// User data of what only wakes: no box is there.
const WAKE: u64 = 0;

/// Entries of the submission queue: the most that are given to the kernel together.
const ENTRIES: u32 = 64;

/// Completions that fit: all that may be in flight, and what wakes.
const COMPLETIONS: u32 = 2 * IN_FLIGHT_MAX as u32;

/// Buffers of one system call; the kernel's limit.
const VECTOR_MAX: usize = 1024;

/// How often a submission is tried before it is left for the next one: the kernel was out of memory all the while.
const ENTER_TRIES: u32 = 1000;
