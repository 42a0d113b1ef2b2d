//! Has the tier answer a request in place: bytes of a local copy, checked by the tier.
//!
//! ```text
//!   Submit from the tier ──> begin: a read a folio ── all full ──> Event::Completed
//!                              ├── one is missing, or wrong ──> Event::Uncached, and a task:
//!                              │                                the storage is asked
//!                              └── no answer for a second ──> the same, and what comes later is
//!                                                             dropped
//! ```
//!
//! Reads see no error of the tier: what it does not have, or has no more, comes from the storage.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use foreread_backend::Frames;
use foreread_policy::{Nanos, PAGE_BYTES};
use foreread_tier::Missing;
use tokio::runtime::Handle;

use crate::pages::folio::Folio;
use crate::requests::carrier::InPlace;
use crate::requests::owner::{Broken, InFlight, Owner};

/// Asks the tier for `in_place`. Without the shard: an answer that comes at once takes it.
pub(crate) fn begin<O: Owner>(in_place: &Arc<InPlace>, in_flight: InFlight<O>) {
    let joint = &in_place.joint;
    let folios = joint.folios.len();
    let asked = Arc::new(Asked {
        in_place: Arc::clone(in_place),
        runtime: in_flight.owner().runtime().clone(),
        in_flight: Some(in_flight),
        left: AtomicUsize::new(folios),
        missing: AtomicBool::new(false),
    });
    let Some(kept) = &joint.opened.kept else { return asked.missing.store(true, Relaxed) };
    for folio in &joint.folios {
        let (asked, filled) = (Arc::clone(&asked), Arc::clone(folio));
        let bytes = (folio.extent.end * PAGE_BYTES).min(joint.opened.size()) - folio.extent.start * PAGE_BYTES;
        let done = move |read: Result<Frames, Missing>| {
            // A thread of the tier, mostly: policy's clock is the runtime's, also for what else
            // ends with an answer.
            let runtime = asked.runtime.clone();
            let _entered = runtime.enter();
            asked.take(&filled, read);
            drop((asked, filled));
        };
        kept.tier.read(kept.object, folio.extent.start..folio.extent.end, bytes as usize, Box::new(done));
    }
}

/// A request that the tier has not answered. However that ends, the owner hears of it, once the
/// last of its reads is over or dropped.
struct Asked<O: Owner> {
    in_place: Arc<InPlace>,
    runtime: Handle,
    /// There until it is dropped.
    in_flight: Option<InFlight<O>>,
    /// Folios without an answer.
    left: AtomicUsize,
    /// Some of it is not to be had.
    missing: AtomicBool,
}

impl<O: Owner> Asked<O> {
    fn take(&self, folio: &Folio, read: Result<Frames, Missing>) {
        match read {
            Ok(bytes) => folio.fill(Ok(bytes)),
            Err(missing) => {
                tracing::debug!(?missing, "not in the tier");
                self.missing.store(true, Relaxed);
            }
        }
        self.left.fetch_sub(1, Relaxed);
    }
}

impl<O: Owner> Drop for Asked<O> {
    fn drop(&mut self) {
        // The last of its reads is over: the counts of all of them are seen here.
        let Some(in_flight) = self.in_flight.take() else { return };
        let (in_place, owner) = (&self.in_place, Arc::clone(in_flight.owner()));
        if !in_place.take() {
            // It came too late: a task carries it.
            return;
        }
        if *self.missing.get_mut() {
            O::carry_by_task(in_flight, &in_place.joint);
        } else if *self.left.get_mut() > 0 {
            let (joint, unfilled) = (in_place.joint.clone(), in_place.joint.folios.clone());
            owner.broken(Broken { joint, unfilled, panicked: std::thread::panicking() });
        } else {
            let took = in_place.age();
            owner.completed(Arc::clone(in_place), Nanos(took.as_nanos() as u64), true);
        }
    }
}
