//! Policy begins anew after a panic: what it knew is gone, so what the engine holds goes as well.
//!
//! ```text
//!   requests at the storage ──> run to their ends without policy: ready reads get their bytes
//!   requests that wait      ──> dropped; asked for now, if reads are ready for them
//!   page tables             ──> emptied
//!   policy                  ──> a new one ── told: open files, reserved bytes, lacking reads
//! ```
//!
//! What runs to its end is not forgotten either: a read in place that the storage refuses goes on
//! as a task, and one that the storage is silent about is given up ([`Shard::take_outlived`]).
//!
//! *Invariant:* no read is forgotten: a ready one has its folios, a lacking one is told again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use foreread_policy::{Event, Found, Nanos, PAGE_BYTES};
use tokio::task::AbortHandle;

use super::Shard;
use super::lives::cannot_go_on;
use crate::requests::carrier::Carrier;
use crate::requests::joint::Joint;

impl Shard {
    /// Policy, or the execution of one of its actions, has panicked with `text`.
    pub(super) fn begin_anew(&mut self, now: Nanos, text: &str, spawn: &impl Fn(Joint) -> AbortHandle) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end();
        }
        let mut text = text.to_owned();
        for _ in 0..ATTEMPTS_MAX {
            self.drop_everything(spawn);
            self.policy = self.lives.next(now, &self.policy, &text);
            match catch_unwind(AssertUnwindSafe(|| self.tell_everything(now, spawn))) {
                Ok(()) => return,
                Err(panic) => text = crate::records::replay::panic_text(&*panic),
            }
        }
        self.drop_everything(spawn);
        self.lives.end();
        let failed = self.lacking.drain().map(|(_, read)| (cannot_go_on(), read));
        self.deferred.failed.extend(failed);
    }

    /// Lets go of requests and folios, which the next policy does not know.
    fn drop_everything(&mut self, spawn: &impl Fn(Joint) -> AbortHandle) {
        let requests: Vec<_> = self.requests.drain().map(|(_, (carrier, state))| (carrier, state)).collect();
        let has_memory = |joint: &Joint| joint.members().iter().any(|member| member.has_memory());
        // Before all of them are granted everything. One that was joined with a lead has memory,
        // so reads may be ready for it, before the lead has its turn.
        let (begun, waiting): (Vec<_>, Vec<_>) = requests.into_iter().partition(|(carrier, _)| match carrier {
            Carrier::None(joint) => has_memory(joint),
            Carrier::Joined | Carrier::Task(_) | Carrier::InPlace(_) => true,
        });
        for (carrier, state) in begun {
            // A request at the storage ends by itself: it lacks no memory any more.
            state.outlive();
            self.deferred.over.extend(state.let_go());
            let carrier = match carrier {
                Carrier::None(joint) => {
                    joint.members().iter().for_each(|member| member.outlive());
                    self.launch(joint, spawn)
                }
                carrier => carrier,
            };
            if let Carrier::InPlace(in_place) = carrier {
                self.outlived.push(Arc::downgrade(&in_place));
            }
        }
        for (carrier, state) in waiting {
            self.deferred.over.extend(state.let_go());
            if let Carrier::None(joint) = carrier {
                self.deferred.gone.extend(joint.folios);
            }
        }
        for opened in self.files.all() {
            self.deferred.gone.extend(opened.table.clear_all());
        }
    }

    /// Tells policy of what there is: files, reserved bytes and the reads that wait.
    fn tell_everything(&mut self, now: Nanos, spawn: &impl Fn(Joint) -> AbortHandle) {
        let files = self.files.all().map(|opened| (opened.id, opened.size().div_ceil(PAGE_BYTES)));
        for (file, pages) in files.collect::<Vec<_>>() {
            self.tell(now, Event::Open { file, pages }, spawn);
        }
        for event in self.files.all().flat_map(|opened| opened.cached()).collect::<Vec<_>>() {
            self.tell(now, event, spawn);
        }
        for file in self.files.all_idle() {
            self.tell(now, Event::Release { file }, spawn);
        }
        self.tell(now, Event::Reserve { bytes: self.lives.reserved() }, spawn);
        let mut lacking: Vec<_> = self.lacking.iter().map(|(&id, read)| (id, read.file(), read.extent())).collect();
        lacking.sort_unstable_by_key(|&(id, ..)| id);
        for (read, file, extent) in lacking {
            self.tell(now, Event::Read { read, file, extent, found: Found::Absent, marked: false }, spawn);
        }
    }
}

/// Policies that are begun for one panic: as many as it takes until there is no readahead.
const ATTEMPTS_MAX: usize = 4;
