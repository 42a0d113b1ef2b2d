//! The course of a request: when the storage or the tier was asked for it, and when it answered.
//!
//! ```text
//!   made ── turn, memory ──> asked ── first byte ──> answered ── bytes ──> its folios are full
//!                              └─ failed, asked again: attempts
//! ```
//!
//! It is there to say afterwards what a read has waited for. A stamp costs an atomic store.

use std::time::Duration;

use foreread_policy::Source;
use tokio::time::Instant;

use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU32};

/// Times since the request was made, in microseconds and at least 1; 0: not yet.
#[derive(Debug, Default)]
pub(crate) struct Course {
    asked: AtomicU32,
    answered: AtomicU32,
    attempts: AtomicU32,
    of_tier: AtomicBool,
}

impl Course {
    /// `source` is asked for a request that was `made` then.
    pub(crate) fn ask(&self, made: Instant, source: Source) {
        self.of_tier.store(source == Source::Tier, Relaxed);
        if self.attempts.fetch_add(1, Relaxed) == 0 {
            self.asked.store(micros(made.elapsed()), Relaxed);
        }
    }

    /// Its first byte has come.
    pub(crate) fn answer(&self, made: Instant) {
        if self.answered.load(Relaxed) == 0 {
            self.answered.store(micros(made.elapsed()), Relaxed);
        }
    }

    /// From when it was made until it was asked for.
    pub(crate) fn asked(&self) -> Option<Duration> {
        since(self.asked.load(Relaxed))
    }

    /// From when it was made until its first byte.
    pub(crate) fn answered(&self) -> Option<Duration> {
        since(self.answered.load(Relaxed))
    }

    /// Whether the tier was asked for it last.
    pub(crate) fn is_of_tier(&self) -> bool {
        self.of_tier.load(Relaxed)
    }

    /// How often it was asked for.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Relaxed)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1)
}

fn since(micros: u32) -> Option<Duration> {
    (micros > 0).then(|| Duration::from_micros(micros.into()))
}
