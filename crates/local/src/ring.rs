//! One `io_uring`: any thread submits reads, and one thread at a time takes completions.
//!
//! ```text
//!  submit: [lock] entry into the queue [unlock], io_uring_enter     plugged: one for all
//!             │ the kernel owns the read: file, buffers, `done`
//!             v
//!  kernel ── completion, with the address of the read ──> take ─┬─ ended ──> done
//!                                                               └─ short ──> submitted again
//! ```
//!
//! The kernel gets a read as the address of a box that nothing else refers to, and gives it back
//! as such: from submission to completion the kernel owns it. Nothing here cancels: a read that
//! its caller no longer wants completes, and is dropped then. A ring that is dropped with reads in
//! flight would be unmapped under them, so the owner of a ring keeps it until there are none.

#![allow(unsafe_code, reason = "memory is shared with the kernel: entries hold addresses")]

use std::cell::RefCell;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use crate::lock::{Mutex, MutexGuard};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::reading::{Batch, IN_FLIGHT_MAX, Reading};

pub(crate) struct Ring {
    uring: IoUring,
    /// Held while the submission queue is written. The kernel locks by itself when entries are
    /// submitted.
    submitting: Mutex<()>,
    /// Held while the completion queue is read. Holds lists for what comes out of it.
    taking: Mutex<Room>,
    in_flight: AtomicUsize,
    /// The number that rings of one `Uring` share.
    family: u64,
}

/// Owned by the kernel while submitted: a read, and the list of its buffers.
struct Submitted {
    reading: Reading,
    buffers: SmallVec<[libc::iovec; 1]>,
}

/// Lists for completions, kept so that they are allocated once.
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
    /// A ring, if the kernel and the sandbox allow one that can read and can be waited for with a
    /// timeout.
    pub(crate) fn new(taken_by: TakenBy, family: u64) -> io::Result<Arc<Self>> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS);
        if taken_by == TakenBy::Owner {
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

    /// Submits a read; returns it if too many are in flight.
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

    /// Wakes the thread that waits for completions, now or next.
    pub(crate) fn wake(&self) {
        self.push(&opcode::Nop::new().build().user_data(WAKE));
        self.enter();
    }

    /// Calls `done` for at most `max` completions. Returns how many completions and wakes that
    /// were.
    pub(crate) fn take(&self, max: usize) -> usize {
        self.take_with(self.taking.lock(), max)
    }

    /// The same, unless another thread takes or waits.
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
        // A timeout is no failure; the next caller tries again after another error.
        let _ = self.uring.submitter().submit_with_args(1, &args);
    }

    /// Holds back this thread's entries in the queue until [`Ring::unplug`], as long as the queue
    /// has room and no other thread submits. `false`, without effect, if the thread is plugged
    /// already, here or elsewhere.
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
        // SAFETY: the box was just given up, nothing else has its address, and the kernel gets it
        // only below.
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
            // SAFETY: this thread holds the lock, so no other writes the submission queue.
            // Whatever an entry refers to lives until its completion: the box named by its user
            // data owns the file, the buffers and their list, and only the completion gives the
            // box back.
            let pushed = unsafe { self.uring.submission_shared().push(entry) };
            if pushed.is_ok() {
                return;
            }
            // The queue is full of a plugged thread's entries, or the kernel had no memory for
            // them.
            self.enter();
        }
    }

    /// Whether this thread is plugged here. If so, notes that there are entries to submit at
    /// `unplug`.
    fn is_plugged(&self) -> bool {
        PLUGGED.with_borrow_mut(|plugged| match plugged {
            Some((ring, pushed)) if std::ptr::eq(&raw const **ring, self) => {
                *pushed = true;
                true
            }
            _ => false,
        })
    }

    /// Submits the entries in the queue. Entries for which the kernel has no memory stay for the
    /// next call.
    fn enter(&self) {
        for _ in 0..ENTER_TRIES {
            match self.uring.submitter().submit() {
                Ok(_) => return,
                Err(_) => std::thread::yield_now(),
            }
        }
        tracing::warn!("the kernel takes no reads");
    }

    /// Takes the kernel's result of a read. Returns the read if it has ended; otherwise submits it
    /// again for the rest.
    fn complete(&self, mut submitted: Box<Submitted>, result: i32) -> Option<(Reading, io::Result<usize>)> {
        let result = usize::try_from(result).map_err(|_| match Errno::from_raw_os_error(-result) {
            // The thread that submitted the read has ended before the kernel finished it. The
            // memory is ours and valid, so this thread submits it again.
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
        // SAFETY: only the thread that holds this lock reads the completion queue.
        let queue = unsafe { self.uring.completion_shared() };
        completed.extend(queue.take(max).map(|entry| (entry.user_data(), entry.result())));
        let count = completed.len();
        for (data, result) in completed.drain(..) {
            if data != WAKE {
                // SAFETY: user data other than `WAKE` is a box given up in `give`, and each entry
                // completes once.
                over.extend(self.complete(unsafe { Box::from_raw(data as *mut Submitted) }, result));
            }
        }
        if over.is_empty() {
            return count;
        }
        let mut over = std::mem::take(over);
        // Unlocked first: `done` may take completions itself.
        drop(room);
        // Before `done` is called: it may submit the next read.
        self.in_flight.fetch_sub(over.len(), AcqRel);
        let number = NonZeroU64::new(BATCHES.fetch_add(1, Relaxed));
        let mut rest = over.len();
        for (reading, result) in over.drain(..) {
            rest -= 1;
            reading.finish_in(number.map(|number| Batch { number, rest }), result);
        }
        // Keeps the list for the next call, unless another thread is taking.
        if let Some(mut room) = self.taking.try_lock() {
            room.over = over;
        }
        count
    }
}

/// Which thread takes the completions of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenBy {
    /// The reaper: a thread that does nothing else.
    Reaper,
    /// The threads that submit, when they ask: no thread is interrupted for a completion.
    Owner,
}

thread_local! {
    /// The ring that this thread is plugged at, and whether it has added entries there.
    static PLUGGED: RefCell<Option<(Arc<Ring>, bool)>> = const { RefCell::new(None) };
}

/// The number of the next batch of any ring.
static BATCHES: AtomicU64 = AtomicU64::new(1);

/// User data of a wake: there is no box.
const WAKE: u64 = 0;

/// Entries of the submission queue: the most that one system call submits. Lower: more calls for a
/// burst. Higher: more memory a ring.
const ENTRIES: u32 = 64;

/// Completions that fit: all that may be in flight, and wakes. Lower: the kernel has to keep some.
/// Higher: more memory.
const COMPLETIONS: u32 = 2 * IN_FLIGHT_MAX as u32;

/// Buffers of one system call: the kernel's limit.
const VECTOR_MAX: usize = 1024;

/// How often a submission is tried while the kernel is out of memory. Lower: entries stay for the
/// next submission too early. Higher: the thread spins longer.
const ENTER_TRIES: u32 = 1000;
