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
//! The reverse as well: what the storage was asked for and does not give, the tier may have. It
//! was asked past a busy disk, or others have read it meanwhile.
//!
//! Reads see no error of the tier: what it does not have, or has no more, comes from the storage.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::Frames;
use foreread_policy::{FOLIO_PAGES_MAX, Nanos, PAGE_BYTES};
use foreread_tier::Missing;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::pages::folio::Folio;
use crate::requests::carrier::InPlace;
use crate::requests::filling::Filling;
use crate::requests::joint::Joint;
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

/// Fills what the storage did not give with what the tier has. Returns whether all of it has come.
pub(crate) async fn rescue<O: Owner>(owner: &Arc<O>, joint: &Joint, filling: &mut Filling) -> bool {
    let Some(kept) = &joint.opened.kept else { return false };
    let (size, mut came) = (joint.opened.size(), true);
    while came && !filling.rest().is_empty() {
        let first = filling.rest().start / PAGE_BYTES;
        let end = (first / FOLIO_PAGES_MAX + 1) * FOLIO_PAGES_MAX;
        let pages = first..end.min(joint.extent().end);
        let bytes = (pages.end * PAGE_BYTES).min(size) - pages.start * PAGE_BYTES;
        let (done, read) = oneshot::channel();
        // A reader that does not wait any more is no concern of the tier's.
        kept.tier.read(kept.object, pages, bytes as usize, Box::new(move |read| _ = done.send(read)));
        came = match timeout(TIER_PATIENCE, read).await {
            Ok(Ok(Ok(frames))) => {
                let begun = filling.rest().start - first * PAGE_BYTES;
                filling.take(owner, Bytes::copy_from_slice(&frames[begun as usize..])).await
            }
            _ => false,
        };
    }
    came
}

/// How long the tier is waited for. Lower: a busy disk is passed over, and the storage is asked
/// for what is there. Higher: readers wait for a disk that hangs. Source: a guess; a disk that
/// spins answers within a tenth of it.
pub(crate) const TIER_PATIENCE: Duration = Duration::from_secs(1);
