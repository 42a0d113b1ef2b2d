//! A request that the storage answers in place: a read of a local file, straight into the folios' memory.
//!
//! ```text
//!  Submit ─ all of it granted, nothing resident between? ─ no ──> a task (fetch.rs)
//!              └ yes: [shard free] begin ── told: full ──> folios filled ──> Event::Completed      no task, no thread
//!                                              └── not: the way of a task, which retries
//! ```
//!
//! The thread that missed begins it as soon as it has left the shard; whoever takes the completion fills the folios and tells policy.
//! A disk is not asked twice for what is late: it would be asked by the same queue. One that stays silent is given up on by
//! [`Inner::watch`], and what it brings later is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use foreread_backend::Told;
use foreread_policy::{Event, Nanos, PAGE_BYTES, RequestId};

use crate::buffer::{Buffer, frames};
use crate::engine::Inner;
use crate::error::{Error, ErrorKind};
use crate::fetch::{InFlight, fetch};
use crate::joint::Joint;
use crate::page_table::Folio;
use crate::shard::Carrier;

/// A request, shared by the shard and whoever tells what has become of it.
pub(crate) struct InPlace {
    joint: Joint,
    submitted: Instant,
}

impl InPlace {
    /// A request for `joint`, if that is how its file is read; or it is given back.
    pub(crate) fn new(joint: Joint) -> Result<Arc<Self>, Joint> {
        let pages: u64 = joint.folios.iter().map(|folio| folio.extent.pages()).sum();
        let whole = joint.is_granted() && pages == joint.extent().pages();
        if joint.opened.positioned.is_none() || !whole || pages > PAGES_MAX {
            return Err(joint);
        }
        Ok(Arc::new(Self { joint, submitted: Instant::now() }))
    }

    pub(crate) fn joint(&self) -> &Joint {
        &self.joint
    }

    /// Asks for it. Without the shard: what is told at once takes it.
    pub(crate) fn begin(self: Arc<Self>, in_flight: InFlight) {
        let opened = &self.joint.opened;
        let Some(positioned) = &opened.positioned else { return };
        let size = opened.object.version.size;
        let bytes = |folio: &Arc<Folio>| {
            let end = (folio.extent.end * PAGE_BYTES).min(size);
            frames((end - folio.extent.start * PAGE_BYTES) as usize)
        };
        let buffers = self.joint.folios.iter().map(bytes).collect();
        // Of what all reads share nothing is counted once more for each.
        let own = Arc::clone(&self);
        let offset = self.joint.extent().start * PAGE_BYTES;
        positioned.read(offset, buffers, Box::new(move |told| own.told(in_flight, told)));
    }

    fn told(self: Arc<Self>, in_flight: InFlight, told: Told) {
        let engine = in_flight.engine();
        let buffers = match told.read {
            Ok(buffers) => buffers,
            Err(error) => {
                tracing::debug!(%error, "not in place");
                // With the shard it tells policy of those that were over before it, too.
                return self.go_round(in_flight);
            }
        };
        let took = self.submitted.elapsed();
        let stats = &engine.stats;
        stats.requests.fetch_add(1, Relaxed);
        stats.fetched_bytes.fetch_add(buffers.iter().map(|b| b.len() as u64).sum(), Relaxed);
        stats.first_byte.record(took);
        for (folio, bytes) in self.joint.folios.iter().zip(buffers) {
            folio.fill(Ok(Buffer::of(bytes)));
        }
        engine.complete(Arc::clone(&self), Nanos(took.as_nanos() as u64), told.rest == 0);
    }

    /// A task does it instead, unless nobody wants it any more.
    fn go_round(self: Arc<Self>, in_flight: InFlight) {
        let engine = Arc::clone(in_flight.engine());
        engine.enter(|shard| {
            if self.joint.members().iter().any(|made| shard.counts(made.request())) {
                let task = engine.runtime.spawn(fetch(in_flight, self.joint.clone()));
                shard.carry(self.joint.members(), &Carrier::Task(Arc::new(task.abort_handle())));
            }
        });
    }

    /// For how long it has been waited for.
    fn age(&self) -> Duration {
        self.submitted.elapsed()
    }

    fn fail(&self, error: &Error) {
        for folio in &self.joint.folios {
            folio.fill(Err(error.clone()));
        }
    }
}

impl Inner {
    /// Gives up on requests in place that have no answer when patience ends. Runs until the engine is gone.
    pub(crate) fn watch(self: &Arc<Self>) {
        let (engine, patience) = (Arc::downgrade(self), self.patience.total);
        let step = (patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(step).await;
                let Some(engine) = engine.upgrade() else { return };
                engine.give_up_late(patience);
            }
        });
    }

    fn give_up_late(self: &Arc<Self>, patience: Duration) {
        let late: Vec<(RequestId, Arc<InPlace>)> = self.enter(|shard| {
            let late: Vec<_> = shard.in_place().filter(|(_, in_place)| in_place.age() >= patience).collect();
            for (request, _) in &late {
                if shard.finished(*request) {
                    self.tell(shard, Event::Failed { request: *request });
                }
            }
            late
        });
        for (_, in_place) in late {
            self.stats.demand_failed.fetch_add(1, Relaxed);
            let key = in_place.joint.opened.object.key.as_str();
            let text = format!("read {key}: the storage was silent for {} s", patience.as_secs_f32());
            in_place.fail(&Error::new(ErrorKind::TimedOut, text).with_key(key));
        }
    }
}

/// Pages of a request in place, 1 MiB. A larger one is read in pieces, so that its first bytes do not wait for its last.
const PAGES_MAX: u64 = 256;
