//! Has the storage answer a request in place: bytes of a local file, straight into the folios'
//! memory.
//!
//! ```text
//!   Submit ─ all of it granted, none of it resident? ─ no ──> a task (fetch.rs)
//!              └ yes: [shard free] begin ── full ──> folios filled ──> Event::Completed
//!                                             └── not: a task, which retries
//! ```
//!
//! The thread that missed begins the request as soon as it has left the shard. The thread that
//! takes the completion fills the folios and tells policy. A late request is not hedged: the same
//! queue of the same disk would answer the second one. The driver gives up on one that stays
//! silent; bytes that it brings later are dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_backend::{Frames, Told};
use foreread_policy::{Nanos, PAGE_BYTES, Source};

use crate::pages::folio::Folio;
use crate::requests::carrier::InPlace;
use crate::requests::from_tier;
use crate::requests::owner::{Broken, InFlight, Owner};

/// Asks the storage for `in_place`. Without the shard: an answer that comes at once takes it.
pub(crate) fn begin<O: Owner>(in_place: &Arc<InPlace>, in_flight: InFlight<O>) {
    in_place.joint.ask(in_place.joint.source);
    if in_place.joint.source == Source::Tier {
        return from_tier::begin(in_place, in_flight);
    }
    // One count more is raised for this request alone; the counts that all reads share are left.
    let asked = Asked(Some((Arc::clone(in_place), in_flight)));
    let joint = &in_place.joint;
    let Some(positioned) = &joint.opened.positioned else { return };
    let size = joint.opened.size();
    let bytes = |folio: &Arc<Folio>| {
        let end = (folio.extent.end * PAGE_BYTES).min(size);
        Frames::new((end - folio.extent.start * PAGE_BYTES) as usize)
    };
    let buffers = joint.folios.iter().map(bytes).collect();
    let offset = joint.extent().start * PAGE_BYTES;
    positioned.read(offset, buffers, Box::new(move |told| asked.take(told)));
}

/// A request in place that the storage has not answered. However that ends, the owner hears of it:
/// one that is dropped has failed.
struct Asked<O: Owner>(Option<(Arc<InPlace>, InFlight<O>)>);

impl<O: Owner> Drop for Asked<O> {
    fn drop(&mut self) {
        if let Some((in_place, in_flight)) = self.0.take() {
            let (joint, unfilled) = (in_place.joint.clone(), in_place.joint.folios.clone());
            in_flight.owner().broken(Broken { joint, unfilled, panicked: std::thread::panicking() });
        }
    }
}

impl<O: Owner> Asked<O> {
    /// Takes the storage's answer.
    fn take(mut self, told: Told) {
        let buffers = match told.read {
            Ok(buffers) => buffers,
            Err(error) => {
                tracing::debug!(%error, "not in place");
                // With the shard this tells policy of the requests that completed before it, too.
                if let Some((in_place, in_flight)) = self.0.take() {
                    O::carry_by_task(in_flight, &in_place.joint);
                }
                return;
            }
        };
        let Some((in_place, in_flight)) = &self.0 else { return };
        let (took, stats) = (in_place.age(), &in_flight.owner().storage().stats);
        stats.requests.fetch_add(1, Relaxed);
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        stats.fetched_bytes.fetch_add(bytes as u64, Relaxed);
        in_place.joint.opened.uses.fetched(bytes);
        stats.first_byte.record(took);
        for (folio, bytes) in in_place.joint.folios.iter().zip(buffers) {
            folio.fill(Ok(bytes));
        }
        if let Some((in_place, in_flight)) = self.0.take() {
            in_flight.owner().completed(in_place, Nanos(took.as_nanos() as u64), told.rest == 0);
        }
    }
}
