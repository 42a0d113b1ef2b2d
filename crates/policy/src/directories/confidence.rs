//! Confidence: how many predictions may be ahead of one reader: enough that the reader need not
//! wait, and fewer when predictions turn out wrong.
//!
//! ```text
//!               open(n)                       hit, the reader waited
//!   closed: 0 ───────────> n ahead ──┬───────────────────────────────> 2n, up to max
//!      ^                             ├── hit, it did not wait ───────> n
//!      │                             └── missed ─────────────────────> n/2
//!      │                                    │
//!      └── four more wrong than right ──────┘
//!      then: 256 opportunities are skipped, the next opens 1 on trial; one more miss closes it
//! ```
//!
//! *Invariant:* the size is at most `max`.
//!
//! This file does not know what is predicted (directories of a walk, files of a walk, files in the
//! order of opens) and does not judge a prediction; its users do. Source: docs/decisions/0028
//! (misled listings) and 0034 (growth while the reader waits).

/// The number of predictions that may be ahead, and how good they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confidence {
    size: u32,
    max: u32,
    /// Wrong predictions less right ones, at least 0.
    wrong: u32,
    /// Opportunities skipped since predictions stopped.
    skipped: u32,
}

impl Default for Confidence {
    /// One prediction at a time.
    fn default() -> Self {
        Self::closed(1)
    }
}

impl Confidence {
    /// Nothing may be ahead; after [`Confidence::open`], at most `max`.
    pub(crate) const fn closed(max: u32) -> Self {
        Self { size: 0, max, wrong: 0, skipped: 0 }
    }

    /// An opportunity to predict: at least `size` may be ahead from now on. After too many wrong
    /// predictions [`SKIPPED_MAX`] opportunities are skipped first.
    pub(crate) fn open(&mut self, size: u32) {
        if self.wrong < WRONG_MAX {
            self.size = self.size.max(size).min(self.max);
        } else if self.skipped == SKIPPED_MAX {
            *self = Self { size: 1, max: self.max, wrong: WRONG_MAX - 1, skipped: 0 };
        } else {
            self.skipped += 1;
        }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    pub(crate) fn is_open(&self) -> bool {
        self.size > 0
    }

    /// A prediction was right. If its reader had to wait for it, twice as many may be ahead.
    pub(crate) fn hit(&mut self, waited: bool) {
        self.wrong = self.wrong.saturating_sub(1);
        if waited {
            self.size = (self.size * 2).min(self.max);
        }
    }

    /// A reader wanted something else than was predicted, or did not find what should be ahead.
    pub(crate) fn missed(&mut self) {
        self.wrong += 1;
        self.size /= 2;
        if self.wrong >= WRONG_MAX {
            self.size = 0;
        }
    }
}

/// Wrong predictions, less right ones, that stop further ones. Lower: a few exceptions stop a walk
/// that is in order. Higher: more is fetched in vain for a reader that follows no order. Source:
/// docs/decisions/0028: misled, a walk stops after 11 directories of 100.
const WRONG_MAX: u32 = 4;

/// Opportunities skipped after that, before one prediction is made on trial. Lower: more is
/// fetched in vain for a reader that follows no order. Higher: a reader that comes to follow an
/// order is read ahead later. Source: a guess, not measured.
const SKIPPED_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_grows_only_while_the_reader_waits() {
        let mut confidence = Confidence::closed(64);
        confidence.open(8);
        confidence.hit(false);
        assert_eq!(confidence.size(), 8);
        (0..9).for_each(|_| confidence.hit(true));
        assert_eq!(confidence.size(), 64);
    }

    #[test]
    fn wrong_predictions_stop_further_ones_for_long() {
        let mut confidence = Confidence::closed(64);
        confidence.open(64);
        (0..WRONG_MAX).for_each(|_| confidence.missed());
        (0..SKIPPED_MAX).for_each(|_| confidence.open(8));
        assert!(!confidence.is_open());
        confidence.open(8);
        assert_eq!(confidence.size(), 1);
        confidence.missed();
        assert!(!confidence.is_open());
    }
}
