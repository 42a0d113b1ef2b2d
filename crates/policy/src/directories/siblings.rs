//! Siblings: the small files of a directory that come with one that is opened, whatever the order.
//!
//! ```text
//!   opens   two in a directory, one after the other ──> the files nearest to it: 8 at first,
//!                                                       16, 32, .. while the reader waits
//!           any, a sibling was opened less than a second ago ──> the same
//! ```
//!
//! A program that opens files by name (an import, a build, a version control system) opens most of
//! the small files of each directory that it comes to, in an order of its own. Siblings are bought
//! with credit (`credit`), and pay it back when they are opened. A loader that opens files at
//! random spends the first credit, and nearly stops.
//!
//! *Invariant:* siblings fetched and not opened never exceed the credit that was given.
//!
//! This file does not know files: which ones are near, and whether they are small, is decided by
//! `path/contents`. Readers in order are a walk's. Source: docs/decisions/0057.

use crate::credit::Credit;
use crate::directories::confidence::Confidence;
use crate::units::{DirId, Nanos};

/// What fetching siblings has gained lately, and how much more it may cost.
#[derive(Debug)]
pub(crate) struct Siblings {
    /// How many may be ahead in one directory.
    confidence: Confidence,
    /// What may be fetched.
    pub(crate) credit: Credit,
    /// When a sibling was last opened.
    hit: Option<Nanos>,
    /// The directory of the last open.
    last: Option<DirId>,
}

impl Default for Siblings {
    fn default() -> Self {
        Self { confidence: Confidence::closed(SIBLINGS_MAX), credit: Credit::new(CREDIT_FIRST), hit: None, last: None }
    }
}

impl Siblings {
    /// A sibling is opened, and is resident or in flight.
    pub(crate) fn hit(&mut self, bytes: u64, now: Nanos, waited: bool) {
        self.confidence.hit(waited);
        self.hit = Some(now);
        self.credit.hit(bytes);
    }

    /// A sibling was not opened, or was evicted before.
    pub(crate) fn missed(&mut self) {
        self.confidence.missed();
    }

    /// A file in `dir` is opened. Returns whether the one before was in it as well.
    pub(crate) fn stays(&mut self, dir: DirId) -> bool {
        self.last.replace(dir) == Some(dir)
    }

    /// How many siblings may be ahead in a directory where a small file is opened; `stays`, and it
    /// is the second one there, one after the other.
    pub(crate) fn ahead(&mut self, stays: bool, now: Nanos) -> u32 {
        let goes_on = self.hit.is_some_and(|hit| now.since(hit) < RECENT);
        if !stays && !goes_on {
            return 0;
        }
        self.confidence.open(SIBLINGS_FIRST);
        self.confidence.size()
    }
}

/// How long after a sibling was opened a first open in another directory counts as one of the same
/// program, a second. Lower: a program that pauses waits for two files of each directory. Higher:
/// a program that reads one file soon after another has siblings fetched. Source:
/// docs/decisions/0057.
const RECENT: Nanos = Nanos::from_millis(1_000);

/// Siblings ahead in one directory at first, in files. Lower: more waits until the number has
/// doubled. Higher: more is fetched in vain for two opens by chance. Source: docs/decisions/0057.
const SIBLINGS_FIRST: u32 = 8;

/// Siblings ahead in one directory at most, in files. Lower: large directories of small files cost
/// more round trips. Higher: more is fetched in vain where a program opens few of many. Source: as
/// many files as may be in flight.
const SIBLINGS_MAX: u32 = 64;

/// Credit of a mount at its start, in bytes. Lower: the first directories cost more round trips.
/// Higher: more is fetched in vain for programs that open files at random. Source:
/// docs/decisions/0057.
const CREDIT_FIRST: u64 = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DirId = DirId(1);
    const THERE: DirId = DirId(2);

    #[test]
    fn a_lone_open_brings_no_sibling_unless_one_was_opened_lately() {
        let mut siblings = Siblings::default();
        let mut open = |dir, at| {
            let stays = siblings.stays(dir);
            let ahead = siblings.ahead(stays, Nanos::from_millis(at));
            if ahead > 0 {
                siblings.hit(1, Nanos::from_millis(at), true);
            }
            ahead
        };
        assert_eq!(open(HERE, 0), 0);
        assert_eq!(open(THERE, 0), 0);
        assert_eq!(open(HERE, 0), 0);
        assert_eq!(open(HERE, 100), SIBLINGS_FIRST);
        assert_eq!(open(THERE, 200), SIBLINGS_FIRST * 2);
        assert_eq!(open(HERE, 1_200), 0);
    }
}
