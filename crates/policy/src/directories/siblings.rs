//! Siblings: the small files of a directory that come with one that is opened, whatever the order.
//!
//! ```text
//!   opens   two in a directory, one after the other,
//!           or less than a second apart, in turn with
//!           those of three other directories          ──> the files nearest to it: 8 at first,
//!                                                         16, 32, .. while the reader waits
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
//! Cousins are files of the same name, or at the same place, in other directories.
//!
//! This file does not know files: which ones are near, and whether they are small, is decided by
//! `path/beside`. Readers in order are a walk's. Source: docs/decisions/0057 and 0086.

use crate::credit::Credit;
use crate::directories::confidence::Confidence;
use crate::units::{DirId, Nanos};

/// What fetching siblings has gained lately, and how much more it may cost.
#[derive(Debug)]
pub(crate) struct Siblings {
    /// How many may be ahead in one directory.
    confidence: Confidence,
    /// What may be fetched of small files, and of others.
    credit: Credit,
    credit_long: Credit,
    /// When a sibling was last opened.
    hit: Option<Nanos>,
    /// The directories of the last opens, the latest first, and when that was.
    last: [Option<(DirId, Nanos)>; DIRS_MAX],
}

impl Default for Siblings {
    fn default() -> Self {
        Self {
            confidence: Confidence::closed(SIBLINGS_MAX),
            credit: Credit::growing(CREDIT_FIRST),
            credit_long: Credit::growing(CREDIT_LONG_FIRST),
            hit: None,
            last: [None; DIRS_MAX],
        }
    }
}

impl Siblings {
    /// What files that are small, or not, may be fetched with.
    pub(crate) fn credit_for(&mut self, is_small: bool) -> &mut Credit {
        if is_small { &mut self.credit } else { &mut self.credit_long }
    }

    /// A sibling is opened, and is resident or in flight.
    pub(crate) fn hit(&mut self, bytes: u64, is_small: bool, now: Nanos, waited: bool) {
        self.confidence.hit(waited);
        self.hit = Some(now);
        self.credit_for(is_small).hit(bytes);
    }

    /// A file is opened that came for its name: siblings go on as if one was opened.
    pub(crate) fn goes_on(&mut self, now: Nanos) {
        self.hit = Some(now);
    }

    /// A sibling was not opened, or was evicted before.
    pub(crate) fn missed(&mut self) {
        self.confidence.missed();
    }

    /// A file in `dir` is opened. Returns whether the one before was in it as well, or one of the
    /// last second: a program may take files of several directories in turn.
    pub(crate) fn stays(&mut self, dir: DirId, now: Nanos) -> bool {
        let found = self.last.iter().position(|last| last.is_some_and(|(last, _)| last == dir));
        let at = found.unwrap_or(DIRS_MAX - 1);
        self.last[..=at].rotate_right(1);
        let before = self.last[0].replace((dir, now));
        found == Some(0) || found.is_some() && before.is_some_and(|(_, opened)| now.since(opened) < RECENT)
    }

    /// How many siblings may be ahead in a directory where a small file is opened; `stays`, and it
    /// is the second one there.
    pub(crate) fn ahead(&mut self, stays: bool, now: Nanos) -> u32 {
        let goes_on = self.hit.is_some_and(|hit| now.since(hit) < RECENT);
        if !stays && !goes_on {
            return 0;
        }
        self.confidence.open(SIBLINGS_FIRST);
        self.confidence.size()
    }
}

/// What fetching cousins has gained lately, and how much more it may cost.
#[derive(Debug)]
pub(crate) struct Cousins {
    pub(crate) confidence: Confidence,
    pub(crate) credit: Credit,
}

impl Default for Cousins {
    fn default() -> Self {
        Self { confidence: Confidence::closed(COUSINS_MAX), credit: Credit::growing(CREDIT_COUSINS_FIRST) }
    }
}

impl Cousins {
    /// A cousin is opened that cost so many bytes.
    pub(crate) fn hit(&mut self, bytes: u64, waited: bool) {
        self.confidence.hit(waited);
        self.credit.hit(bytes);
    }
}

/// How long after a sibling was opened a first open in another directory counts as one of the same
/// program, a second; and a second open in one, after others. Lower: a program that pauses waits
/// for two files of each directory. Higher: a program that reads one file soon after another has
/// siblings fetched. Source: docs/decisions/0057.
const RECENT: Nanos = Nanos::from_millis(1_000);

/// Directories that a program takes files of in turn, at most. Lower: sources beside what is
/// compiled of them in a folder of its own, or pictures and labels, wait for each file. Higher: a
/// loader that opens files at random has siblings fetched until the credit is spent. Source:
/// docs/decisions/0086; such programs have two or three.
const DIRS_MAX: usize = 4;

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

/// Credit of a mount at its start for siblings that are not small, in bytes. Lower: more libraries
/// are waited for. Higher: more is fetched in vain for programs that open files at random. Source:
/// docs/decisions/0086; what files may be fetched whole with at first.
const CREDIT_LONG_FIRST: u64 = 4 << 20;

/// Cousins ahead at most, in files. Lower: trees of many directories cost more round trips.
/// Higher: more is fetched in vain where a program ends. Source: docs/decisions/0086.
const COUSINS_MAX: u32 = 32;

/// Credit of a mount at its start for cousins, in bytes. Lower: the first directories cost more
/// round trips. Higher: more is fetched in vain for programs that come to few directories. Source:
/// docs/decisions/0086; sixteen short files, as across directories.
const CREDIT_COUSINS_FIRST: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DirId = DirId(1);
    const THERE: DirId = DirId(2);

    #[test]
    fn a_lone_open_brings_no_sibling_unless_one_was_opened_lately() {
        let mut siblings = Siblings::default();
        let mut open = |dir, at| {
            let stays = siblings.stays(dir, Nanos::from_millis(at));
            let ahead = siblings.ahead(stays, Nanos::from_millis(at));
            if ahead > 0 {
                siblings.hit(1, true, Nanos::from_millis(at), true);
            }
            ahead
        };
        assert_eq!(open(HERE, 0), 0);
        assert_eq!(open(THERE, 500), 0);
        assert_eq!(open(HERE, 1_000), 0);
        assert_eq!(open(HERE, 2_100), SIBLINGS_FIRST);
        assert_eq!(open(THERE, 2_200), SIBLINGS_FIRST * 2);
        assert_eq!(open(HERE, 3_200), 0);
    }

    #[test]
    fn files_of_a_few_directories_are_taken_in_turn() {
        let stays = |dirs: u64| {
            let mut siblings = Siblings::default();
            (0..dirs * 2).filter(|nth| siblings.stays(DirId(nth % dirs), Nanos::from_millis(nth * 10))).count()
        };
        assert_eq!([1, 2, 3, 4, 5].map(stays), [1, 2, 3, 4, 0]);
    }
}
