//! What a task brings of listings, until it has said how that ended.
//!
//! ```text
//!   Bringing ── end ──> all of it was told
//!       └────── dropped: it has panicked, was aborted, or never began
//!                  ├─> its listing fails, or may be asked for by itself: readers are woken
//!                  └─> Unheard ──> policy is told by the next thread that has the directories
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_backend::lock::Mutex;
use foreread_policy::DirId;

use crate::directories::chain::Chain;
use crate::requests::filling::shut_down;
use crate::stats::Counters;
use crate::survival::failed_itself;

/// What a task lists.
pub(super) enum Brought {
    /// More of a listing.
    More(Arc<Chain>),
    /// A page of a listing again, from the entry `from` on.
    Again { chain: Arc<Chain>, from: u32 },
    /// The directories `chains`, by one request, among the entries of `dir` from `from` on.
    Below { dir: DirId, from: u32, chains: Vec<Arc<Chain>> },
}

/// Tasks that have ended without a word, of which policy is not told yet.
pub(super) type Unheard = Arc<Mutex<Vec<Brought>>>;

/// Held by a task that lists.
pub(super) struct Bringing {
    what: Option<Brought>,
    unheard: Unheard,
    stats: Arc<Counters>,
}

impl Bringing {
    pub(super) fn new(what: Brought, unheard: &Unheard, stats: &Arc<Counters>) -> Self {
        Self { what: Some(what), unheard: Arc::clone(unheard), stats: Arc::clone(stats) }
    }

    /// All of it has been told.
    pub(super) fn end(mut self) {
        self.what = None;
    }
}

impl Drop for Bringing {
    /// Waits for no lock but a listing's: this thread may have the others.
    fn drop(&mut self) {
        let Some(what) = self.what.take() else { return };
        let panicked = std::thread::panicking();
        self.stats.panics.fetch_add(u64::from(panicked), Relaxed);
        match &what {
            Brought::More(chain) => chain.listing.fail(if panicked { failed_itself() } else { shut_down() }),
            // Names that wait for it are told with policy.
            Brought::Again { .. } => {}
            Brought::Below { chains, .. } => {
                for chain in chains.iter().filter(|chain| chain.leave()) {
                    chain.listing.wake();
                }
            }
        }
        self.unheard.lock().push(what);
    }
}
