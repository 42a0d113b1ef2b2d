//! How directories go on when a task that lists has ended without a word, or policy has panicked.
//!
//! ```text
//!   a task ──> its readers know (`brought`); policy is told that it has failed
//!   policy ──> a new one ── told: the directories that have numbers
//!                 └─ listings are forgotten: readers in the middle of one list the rest again
//!                 └─ the third panic within 10 s: nothing is listed ahead from then on
//! ```
//!
//! *Invariant:* what a reader waits for is in flight, has come, or has failed: no panic leaves it
//! waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::{DirEvent, DirReadahead};

use crate::directories::brought::Brought;
use crate::directories::driver::{Directories, State};
use crate::directories::name::identity_bytes;
use crate::records::replay::panic_text;
use crate::survival::PANICS_MAX;

impl Directories {
    /// Tells policy of tasks that have ended without a word.
    pub(super) fn tell_unheard(self: &Arc<Self>, state: &mut State) {
        let unheard = std::mem::take(&mut *self.unheard.lock());
        for what in unheard {
            match what {
                Brought::More(chain) if !state.table.is_latest(&chain) => {}
                Brought::More(chain) => {
                    self.tell(state, DirEvent::Failed { dir: chain.dir });
                    // Of what had come no more is told.
                    chain.has_told(u32::MAX);
                }
                Brought::Again { chain, from } => self.told_again(state, &chain, from, &[]),
                Brought::Below { dir, from, .. } => self.tell(state, DirEvent::ListedBelow { dir, from }),
            }
        }
    }

    /// Policy, or the execution of one of its actions, has panicked with `text`.
    pub(super) fn begin_anew(self: &Arc<Self>, state: &mut State, text: &str) {
        let counted = &self.driver.storage.stats;
        counted.panics.fetch_add(1, Relaxed);
        tracing::error!(text, "policy of directories has panicked, and begins anew: please report it");
        if state.lately.again(self.driver.now()) && state.options.readahead {
            tracing::error!("policy of directories has panicked {PANICS_MAX} times: nothing is listed ahead any more");
            counted.plain.store(true, Relaxed);
            state.options.readahead = false;
        }
        state.counters = state.counters + state.policy.counters();
        state.policy = DirReadahead::new(state.options);
        state.table.forget_listings();
        state.fetching.clear();
        state.renewing.clear();
        state.settled = true;
        // All have names that the table keeps, so all can be forgotten as those that were met.
        let known = state.table.identities();
        let told = catch_unwind(AssertUnwindSafe(|| {
            for (dir, prefix) in known {
                self.told(state, DirEvent::Met { dir, bytes: identity_bytes(prefix.len()) });
            }
        }));
        if let Err(panic) = told {
            let text = panic_text(&*panic);
            tracing::error!(text, "policy of directories panics when it is told of them, and goes on without");
            counted.panics.fetch_add(1, Relaxed);
            state.policy = DirReadahead::new(state.options);
        }
    }
}
