//! The state of one request: what its folios, the shard and the task that executes it share.
//!
//! ```text
//!   submitted ── grant, grant, .. ──> granted to its end   demand: a reader waits for some of it
//!        └── hedge: to be made once more, if its lead is late
//! ```
//!
//! Demand, hedging, what outlives policy and what is given up are set with the shard held. Others
//! look at them without it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use foreread_policy::{Extent, Nanos, RequestId};
use tokio::time::Instant;

use crate::pages::course::Course;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use crate::sync::{Mutex, Notify};

/// The state of one request.
pub(crate) struct Request {
    id: RequestId,
    extent: Extent,
    made: Instant,
    course: Course,
    demanded: AtomicBool,
    /// There is memory for the pages before this one.
    granted: AtomicU64,
    grown: Notify,
    late: Option<Duration>,
    hedges: AtomicU32,
    /// Policy has begun anew, and does not know it.
    outlives: AtomicBool,
    given_up: AtomicBool,
    /// Taken with the shard held, dropped without.
    held: Mutex<Vec<Held>>,
}

/// Something that is dropped when policy has been told that a request is over.
pub(crate) type Held = Arc<dyn Any + Send + Sync>;

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("id", &self.id).field("extent", &self.extent).finish_non_exhaustive()
    }
}

impl Request {
    /// A request for `extent`, with memory for the pages before `granted`. It is late when the
    /// storage was silent for `late`.
    pub(crate) fn new(id: RequestId, extent: Extent, demanded: bool, granted: u64, late: Option<Nanos>) -> Arc<Self> {
        let (demanded, granted) = (AtomicBool::new(demanded), AtomicU64::new(granted));
        let late = late.map(|late| Duration::from_nanos(late.0));
        let [outlives, given_up] = [(); 2].map(|()| AtomicBool::new(false));
        let hedges = AtomicU32::new(0);
        let (made, grown, held) = (Instant::now(), Notify::new(), Mutex::default());
        let course = Course::default();
        Arc::new(Self { id, extent, made, course, demanded, granted, grown, late, hedges, outlives, given_up, held })
    }

    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// When policy made it.
    pub(crate) fn made(&self) -> Instant {
        self.made
    }

    /// When it was asked for and answered.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// How long the storage may be silent before it is late.
    pub(crate) fn late(&self) -> Option<Duration> {
        self.late
    }

    /// The end of the pages that there is memory for.
    pub(crate) fn granted(&self) -> u64 {
        self.granted.load(Acquire)
    }

    /// Whether there is memory for some of it.
    pub(crate) fn has_memory(&self) -> bool {
        self.granted() > self.extent.start
    }

    /// Whether there is memory for all of it.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted() >= self.extent.end
    }

    /// There is memory for the pages before `granted`.
    pub(crate) fn grant(&self, granted: u64) {
        self.granted.store(granted, Release);
        self.grown.notify_one();
    }

    /// Waits until its grant is another one than `granted`.
    pub(crate) async fn outgrown(&self, granted: u64) {
        while self.granted() == granted {
            self.grown.notified().await;
        }
    }

    /// Policy needs it no more: what has not come of it never will.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }

    /// Holds `held` until policy has been told that the request is over.
    pub(crate) fn hold(&self, held: Held) {
        self.held.lock().push(held);
    }

    /// What it holds, to be dropped without the shard.
    pub(crate) fn let_go(&self) -> Vec<Held> {
        std::mem::take(&mut *self.held.lock())
    }

    /// Policy has begun anew, and does not know it: reads that were ready for it before wait for
    /// it as they did. All of it may arrive.
    pub(crate) fn outlive(&self) {
        self.outlives.store(true, Relaxed);
        self.grant(self.extent.end);
    }

    /// Whether reads wait for it although policy does not know it.
    pub(crate) fn is_needed_still(&self) -> bool {
        self.outlives.load(Relaxed) && self.is_demanded()
    }

    /// It is to be made once more.
    pub(crate) fn hedge(&self) {
        self.hedges.fetch_add(1, Relaxed);
    }

    pub(crate) fn is_hedged(&self) -> bool {
        self.hedges() > 0
    }

    /// How often it was made once more.
    pub(crate) fn hedges(&self) -> u32 {
        self.hedges.load(Relaxed)
    }

    /// A reader waits for some of it from now on.
    pub(crate) fn demand(&self) {
        self.demanded.store(true, Relaxed);
    }

    pub(crate) fn is_demanded(&self) -> bool {
        self.demanded.load(Acquire)
    }
}
