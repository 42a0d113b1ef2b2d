//! The kernel carries reads: a ring for all, whose completions one thread takes, and rings of those who take their own (`queue.rs`).
//!
//! ```text
//!   who only submits ──> the ring for all ──> reaper
//!   who waits        ──> his own ring     ──> himself                              no thread between him and the kernel
//!                             └─ he has not asked for a millisecond ──> reaper     others may wait for the same pages
//! ```
//!
//! A ring goes when its last completion has been taken: the reaper keeps it until then.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;

use crate::reading::Reading;
use crate::ring::{Ring, Whose};

/// The ring for all, its reaper, and the rings of others that it looks after.
pub(crate) struct Uring {
    shared: Arc<Shared>,
}

struct Shared {
    ring: Arc<Ring>,
    /// What all these rings have in common.
    family: u64,
    owned: Mutex<Vec<Arc<Owned>>>,
    /// The reaper looks at owned rings every [`TICK`]. Else it sleeps until the ring for all has something, and is to be woken.
    looks: AtomicBool,
    stopped: AtomicBool,
}

/// A ring whose owner takes what completes.
pub(crate) struct Owned {
    pub(crate) ring: Arc<Ring>,
    /// The owner has taken what there was since the reaper last looked.
    pub(crate) attended: AtomicBool,
    /// There is no owner any more.
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
    /// If kernel and sandbox allow it.
    pub(crate) fn new() -> io::Result<Self> {
        let family = FAMILIES.fetch_add(1, Relaxed);
        let shared = Arc::new(Shared {
            ring: Ring::new(Whose::Everybodys, family)?,
            family,
            owned: Mutex::default(),
            looks: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        });
        let reaper = Arc::clone(&shared);
        std::thread::Builder::new().name("foreread-ring".to_owned()).spawn(move || reaper.reap())?;
        Ok(Self { shared })
    }

    /// Gives a read to the kernel, or back: where this thread is plugged, else for the reaper.
    pub(crate) fn submit(&self, reading: Reading) -> Result<(), Reading> {
        match Ring::plugged(self.shared.family) {
            Some(ring) => ring.submit(reading),
            None => self.shared.ring.submit(reading),
        }
    }

    /// The ring for all.
    pub(crate) fn ring(&self) -> &Arc<Ring> {
        &self.shared.ring
    }

    /// A ring for one owner, if there is memory for another one.
    pub(crate) fn owned(&self) -> io::Result<Arc<Owned>> {
        let owned = Arc::new(Owned {
            ring: Ring::new(Whose::Owners, self.shared.family)?,
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
    /// Something is in flight here that its owner may not come back for.
    pub(crate) fn look_after(&self) {
        // The reaper says that it looks no longer before it looks a last time.
        if !self.shared.looks.load(SeqCst) && !self.shared.looks.swap(true, SeqCst) {
            self.shared.ring.wake();
        }
    }

    /// Its owner is gone: what is in flight completes.
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
                    // Who submitted before that has not woken anybody.
                    if self.look() {
                        self.looks.store(true, SeqCst);
                    }
                }
            }
        }
    }

    /// Takes what owners have left, and forgets rings that nobody will use again. Whether something is in flight in one of them.
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

/// The next one's family.
static FAMILIES: AtomicU64 = AtomicU64::new(0);

/// How often the reaper looks at rings whose owners may have left them. Less costs a processor more than a hundredth of its time.
const TICK: Duration = Duration::from_millis(1);

/// Looks without anything in flight before it sleeps: waking it costs as much as several.
const IDLE_TICKS: u32 = 50;
