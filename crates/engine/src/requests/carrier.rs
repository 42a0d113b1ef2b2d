//! What carries a request, as the shard sees it.
//!
//! ```text
//!   None ── its turn ──> InPlace   read by the storage or the tier into the folios, no task
//!     │        └───────> Task      everything else, and what could not be read in place
//!     └── Join ──> Joined          carried by what carries the lead
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::AcqRel;
use std::time::Duration;

use foreread_policy::Source;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::error::Error;
use crate::requests::joint::Joint;

/// What carries a request.
#[derive(Clone)]
pub(crate) enum Carrier {
    /// Nothing yet: it is not its turn.
    None(Joint),
    /// What carries the request that it was joined with, once that has its turn.
    Joined,
    /// A task of the runtime, shared by all requests that it carries.
    Task(Arc<AbortHandle>),
    /// The storage itself, or the tier.
    InPlace(Arc<InPlace>),
}

/// A request that is answered in place, without a task: a small read of a local file, or of the
/// tier.
pub(crate) struct InPlace {
    pub(crate) joint: Joint,
    submitted: Instant,
    /// Its answer was taken, or something else carries it.
    is_taken: AtomicBool,
}

impl InPlace {
    /// A request in place for `joint`, or `joint` back if it cannot be read in place: its file is
    /// not local, it is too long, it is not granted as a whole, or some of it is resident already.
    /// What the tier is asked for is none of these.
    pub(crate) fn new(joint: Joint) -> Result<Arc<Self>, Joint> {
        let pages: u64 = joint.folios.iter().map(|folio| folio.extent.pages()).sum();
        let whole = joint.is_granted() && pages == joint.extent().pages();
        let is_local = joint.source == Source::Tier || joint.opened.positioned.is_some();
        if !is_local || !whole || pages > PAGES_MAX {
            return Err(joint);
        }
        Ok(Arc::new(Self { joint, submitted: Instant::now(), is_taken: AtomicBool::new(false) }))
    }

    /// How long ago it was submitted.
    pub(crate) fn age(&self) -> Duration {
        self.submitted.elapsed()
    }

    /// Takes what is to be done with it. `false`: that was taken before.
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, AcqRel)
    }

    /// Its bytes will not come: the reads that wait for them get `error`.
    pub(crate) fn fail(&self, error: &Error) {
        for folio in &self.joint.folios {
            folio.fill(Err(error.clone()));
        }
    }
}

/// Pages of a request in place, 1 MiB. Higher, and the first bytes of a long request wait for its
/// last ones; lower, and more reads of local files cost a task.
const PAGES_MAX: u64 = 256;
