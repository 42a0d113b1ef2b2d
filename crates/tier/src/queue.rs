//! What was offered and is not written yet: a bounded queue with one thread that takes from it.
//!
//! ```text
//!   push ── full, paused, ended ──> refused
//!     └──> offers ── take ──> the writer ── done ──> flush sees it
//! ```

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use foreread_local::lock::{Condvar, Mutex};

use crate::object::ObjectId;

/// Bytes that are offered. They are dropped when they are written.
pub trait Bytes: AsRef<[u8]> + Send + 'static {}

impl<T: AsRef<[u8]> + Send + 'static> Bytes for T {}

/// Called with the pages of an offer once they can be read.
pub(crate) type Told = Box<dyn FnOnce(Range<u64>) + Send>;

/// Bytes of an object that are to be written.
pub(crate) struct Offer {
    pub(crate) object: ObjectId,
    pub(crate) first_page: u64,
    pub(crate) bytes: Box<dyn Bytes>,
    pub(crate) told: Told,
}

pub(crate) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    work: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct Waiting {
    offers: VecDeque<(Offer, usize)>,
    bytes: usize,
    pushed: u64,
    done: u64,
    paused_until: Option<Instant>,
    has_ended: bool,
}

impl Queue {
    /// An empty one, for so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        let (waiting, work, done) = (Mutex::default(), Condvar::default(), Condvar::default());
        Self { bytes_max: bytes_max as usize, waiting, work, done }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.waiting.lock().bytes as u64
    }

    /// Bytes that wait, if `more` may be added.
    pub(crate) fn room_for(&self, more: usize) -> Option<usize> {
        let mut waiting = self.waiting.lock();
        if waiting.paused_until.is_some_and(|until| Instant::now() >= until) {
            waiting.paused_until = None;
        }
        // One longer than the queue is taken by an empty one.
        let fits = waiting.bytes == 0 || waiting.bytes + more <= self.bytes_max;
        (fits && !waiting.has_ended && waiting.paused_until.is_none()).then_some(waiting.bytes)
    }

    pub(crate) fn push(&self, offer: Offer, bytes: usize) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += bytes;
        waiting.pushed += 1;
        waiting.offers.push_back((offer, bytes));
        self.work.notify_one();
    }

    /// The next offer, if there is one.
    pub(crate) fn next(&self) -> Option<(Offer, usize)> {
        self.waiting.lock().offers.pop_front()
    }

    /// Waits for an offer. `None`: there are none left, and the end was asked for.
    pub(crate) fn take(&self) -> Option<(Offer, usize)> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(offer) = waiting.offers.pop_front() {
                return Some(offer);
            }
            if waiting.has_ended {
                return None;
            }
            self.work.wait(&mut waiting);
        }
    }

    /// An offer that was taken holds its bytes no more.
    pub(crate) fn release(&self, bytes: usize) {
        self.waiting.lock().bytes -= bytes;
    }

    /// So many offers that were taken are written, or will not be.
    pub(crate) fn finish(&self, offers: u64) {
        self.waiting.lock().done += offers;
        self.done.notify_all();
    }

    /// Takes no offers until then.
    pub(crate) fn pause(&self, until: Instant) {
        self.waiting.lock().paused_until = Some(until);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.waiting.lock().paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Waits until all that was pushed before is finished, but no longer than this. Returns
    /// whether it is.
    pub(crate) fn flush(&self, longest: Duration) -> bool {
        let (mut waiting, began) = (self.waiting.lock(), Instant::now());
        let until = waiting.pushed;
        while waiting.done < until {
            let left = longest.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            self.done.wait_for(&mut waiting, left.min(Duration::from_mins(1)));
        }
        true
    }

    /// Takes no more offers.
    pub(crate) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.work.notify_all();
    }
}
