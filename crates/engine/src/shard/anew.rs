//! Policy begins anew after a panic: what it knew is gone, so what the engine holds goes as well.
//!
//! ```text
//!   requests at the storage ──> run to their ends without policy: ready reads get their bytes
//!   requests that wait      ──> dropped
//!   page tables             ──> emptied
//!   policy                  ──> a new one ── told: open files, reserved bytes, lacking reads
//! ```
//!
//! *Invariant:* no read is forgotten: a ready one has its folios, a lacking one is told again.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
            self.drop_everything();
            self.policy = self.lives.next(now, &self.policy, &text);
            match catch_unwind(AssertUnwindSafe(|| self.tell_everything(now, spawn))) {
                Ok(()) => return,
                Err(panic) => text = crate::records::replay::panic_text(&*panic),
            }
        }
        self.drop_everything();
        self.lives.end();
        let failed = self.lacking.drain().map(|(_, read)| (cannot_go_on(), read));
        self.deferred.failed.extend(failed);
    }

    /// Lets go of requests and folios, which the next policy does not know.
    fn drop_everything(&mut self) {
        for (_, (carrier, state)) in self.requests.drain() {
            // A request at the storage ends by itself: it lacks no memory any more.
            state.grant(state.extent().end);
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
