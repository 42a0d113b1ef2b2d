//! Reads by `io_uring`: one shared ring, whose completions the reaper takes, and rings of owners
//! that take their own (`queue.rs`).
//!
//! ```text
//!   a thread that only submits ──> the shared ring ──> reaper ──> done
//!   the owner of a queue       ──> its own ring    ──> the owner ──> done
//!                                     └─ not taken for a millisecond ──> reaper ──> done
//! ```
//!
//! The reaper steps in because other readers may wait for the same pages. A ring is dropped after
//! its last completion has been taken: the reaper keeps it until then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::lock::Mutex;

use crate::reading::Reading;
use crate::ring::{Ring, TakenBy};

/// The shared ring, its reaper, and the owned rings that the reaper looks after.
pub(crate) struct Uring {
    shared: Arc<Shared>,
}

struct Shared {
    ring: Arc<Ring>,
    /// The number that all these rings share.
    family: u64,
    owned: Mutex<Vec<Arc<Owned>>>,
    /// The reaper looks at owned rings every [`TICK`]. Otherwise it sleeps until the shared ring
    /// has a completion, and has to be woken for owned ones.
    looks: AtomicBool,
    stopped: AtomicBool,
}

/// A ring whose owner takes completions.
pub(crate) struct Owned {
    pub(crate) ring: Arc<Ring>,
    /// The owner has taken completions since the reaper last looked.
    pub(crate) attended: AtomicBool,
    /// The owner is gone.
    closed: AtomicBool,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Owned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owned").field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("in_flight", &self.in_flight()).finish()
    }
}

impl Uring {
    /// If the kernel and the sandbox allow it.
    pub(crate) fn new() -> io::Result<Self> {
        let family = FAMILIES.fetch_add(1, Relaxed);
        let shared = Arc::new(Shared {
            ring: Ring::new(TakenBy::Reaper, family)?,
            family,
            owned: Mutex::default(),
            looks: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let reaper = Arc::clone(&shared);
        std::thread::Builder::new().name("foreread-ring".to_owned()).spawn(move || reaper.reap())?;
        Ok(Self { shared })
    }

    /// Submits a read: to the ring that this thread is plugged at, otherwise to the shared one.
    /// Returns the read if too many are in flight.
    pub(crate) fn submit(&self, reading: Reading) -> Result<(), Reading> {
        match Ring::plugged(self.shared.family) {
            Some(ring) => ring.submit(reading),
            None => self.shared.ring.submit(reading),
        }
    }

    /// The shared ring.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.shared.ring
    }

    /// A ring for one owner, if there is memory for another.
    pub(crate) fn owned(&self) -> io::Result<Arc<Owned>> {
        let owned = Arc::new(Owned {
            ring: Ring::new(TakenBy::Owner, self.shared.family)?,
            attended: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            shared: Arc::clone(&self.shared),
        });
        self.shared.owned.lock().push(Arc::clone(&owned));
        Ok(owned)
    }

    pub(crate) fn in_flight(&self) -> usize {
        let owned: usize = self.shared.owned.lock().iter().map(|owned| owned.ring.in_flight()).sum();
        self.shared.ring.in_flight() + owned
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Release);
        self.shared.ring.wake();
    }
}

impl Owned {
    /// Has the reaper look after this ring: reads are in flight that the owner may not come back
    /// for.
    pub(crate) fn look_after(&self) {
        // The reaper clears `looks` before it looks a last time, so this cannot be missed.
        if !self.shared.looks.load(SeqCst) && !self.shared.looks.swap(true, SeqCst) {
            self.shared.ring.wake();
        }
    }

    /// The owner goes: reads in flight complete.
    pub(crate) fn close(&self) {
        self.closed.store(true, Release);
        self.look_after();
    }
}

impl Shared {
    fn reap(&self) {
        let mut idle = 0;
        while !(self.stopped.load(Acquire) && self.ring.in_flight() == 0 && self.owned.lock().is_empty()) {
            if self.ring.take(usize::MAX) == 0 {
                let looks = self.looks.load(SeqCst);
                self.ring.wait(looks.then_some(TICK));
                self.ring.take(usize::MAX);
            }
            if self.looks.load(SeqCst) {
                idle = if self.look() { 0 } else { idle + 1 };
                if idle > IDLE_TICKS {
                    idle = 0;
                    self.looks.store(false, SeqCst);
                    // A thread that submitted before this has not woken the reaper: look once
                    // more.
                    if self.look() {
                        self.looks.store(true, SeqCst);
                    }
                }
            }
        }
    }

    /// Takes completions that owners have left, and drops rings that no thread will use again.
    /// Whether reads are in flight in one of the rings.
    fn look(&self) -> bool {
        let owned: Vec<_> = self.owned.lock().clone();
        for owned in &owned {
            if !owned.attended.swap(false, Relaxed) {
                owned.ring.try_take(usize::MAX);
            }
        }
        let over = |owned: &Owned| owned.closed.load(Acquire) && owned.ring.in_flight() == 0;
        self.owned.lock().retain(|owned| !over(owned));
        owned.iter().any(|owned| owned.ring.in_flight() > 0)
    }
}

/// The next family's number.
static FAMILIES: AtomicU64 = AtomicU64::new(0);

/// How often the reaper looks at owned rings. Lower: more than a hundredth of a processor's time.
/// Higher: other readers wait longer for completions that an owner has left.
const TICK: Duration = Duration::from_millis(1);

/// Looks that find nothing in flight before the reaper sleeps. Lower: it is woken more often,
/// which costs as much as several looks. Higher: it looks longer for nothing.
const IDLE_TICKS: u32 = 50;
