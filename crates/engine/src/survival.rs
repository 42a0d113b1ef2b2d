//! What may panic, run so that the engine goes on.
//!
//! ```text
//!   survive(f) ── returns ──> Some
//!       └───────── panics ──> logged, counted (`Stats::panics`) ──> None
//! ```
//!
//! Locks are not poisoned. So what runs here changes what threads share in one step, or in steps
//! of which each one leaves a state to go on from.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

use foreread_policy::Nanos;

use crate::error::{Error, ErrorKind};
use crate::records::replay::panic_text;
use crate::stats::Counters;

impl Counters {
    /// Runs `f`, which does `what`. A panic is logged and counted.
    pub(crate) fn survive<T>(&self, what: &str, f: impl FnOnce() -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.panics.fetch_add(1, Relaxed);
                tracing::error!(text = panic_text(&*panic), "{what} has panicked: please report it");
                None
            }
        }
    }
}

/// When policy panicked lately.
#[derive(Debug, Default)]
pub(crate) struct Lately(Vec<Nanos>);

impl Lately {
    /// It has panicked again. Returns whether that is too often.
    pub(crate) fn again(&mut self, now: Nanos) -> bool {
        self.0.retain(|&at| now.since(at) < PANICS_WITHIN);
        self.0.push(now);
        self.0.len() >= PANICS_MAX
    }
}

/// Why a read, or a listing, ends that a panic of the engine's own code has ended.
pub(crate) fn failed_itself() -> Error {
    Error::new(ErrorKind::Io, "an error of the engine itself ended the request: please report it")
}

/// Panics after which policy goes on without what it need not do.
pub(crate) const PANICS_MAX: usize = 3;

/// The time in which these panics are counted, 10 s. Lower, and a mistake that shows now and then
/// costs its readers what is resident each time; higher, and readahead ends for less.
const PANICS_WITHIN: Nanos = Nanos::from_millis(10_000);
