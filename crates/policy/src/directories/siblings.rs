//! Siblings: the small files of a directory that come with one that is opened, whatever the order.
//!
//! ```text
//!   opens   two in a directory, one after the other,
//!           or less than a second apart, in turn with
//!           those of three other directories          ──> the files nearest to it: 8 at first,
//!                                                         16, 32, .. while the reader waits
//!           any, a sibling was opened less than a second ago ──> the same
//!           any, n files of the directory were opened before,
//!           and its names are known                          ──> n - 1 files, if these are more
//! ```
//!
//! A program that opens files by name (an import, a build, a version control system) opens most of
//! the small files of each directory that it comes to, in an order of its own. Siblings are bought
//! with credit (`credit`), in bytes and in requests, and pay it back when they are opened. A
//! loader that opens files at random spends the first credit, and nearly stops. The more of a
//! directory it has opened, the more it earns for the rest.
//!
//! *Invariant:* siblings fetched and not opened never exceed the credit that was given.
//!
//! Cousins are files of the same name, or at the same place, in other directories.
//!
//! This file does not know files: which ones are near, and whether they are small, is decided by
//! `path/beside`. Readers in order are a walk's. Source: docs/decisions/0057, 0086 and 0116.

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
    /// The same in files, each of which is a request.
    requests: Credit,
    /// When a sibling was last opened.
    hit: Option<Nanos>,
    /// The directories of the last opens, the latest first, and when that was.
    last: [Option<(DirId, Nanos)>; RETURN_DIRS_MAX],
}

/// How much of a directory was opened before a file is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dense {
    /// Files that were opened, each once.
    pub(crate) opened: u32,
    /// Files that it has.
    pub(crate) files: u32,
}

impl Dense {
    /// How many siblings may be ahead since so many were opened. Two may be chance.
    fn ahead(self) -> u32 {
        self.opened.saturating_sub(1)
    }
}

/// How a program comes to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Return {
    /// The open before was in it as well, or one of the last second: a program may take files of
    /// several directories in turn.
    pub(crate) stays: bool,
    /// So many directories were opened in since the last open in it that a reader in order may
    /// have opened both.
    pub(crate) is_soon: bool,
}

impl Default for Siblings {
    fn default() -> Self {
        Self {
            confidence: Confidence::closed(SIBLINGS_MAX),
            credit: Credit::growing(CREDIT_FIRST),
            credit_long: Credit::growing(CREDIT_LONG_FIRST),
            requests: Credit::growing(REQUESTS_FIRST),
            hit: None,
            last: [None; RETURN_DIRS_MAX],
        }
    }
}

impl Siblings {
    /// Buys a sibling. Returns `false` if the credit does not suffice.
    pub(crate) fn spend(&mut self, bytes: u64, is_small: bool) -> bool {
        if !self.requests.spend(REQUEST) {
            return false;
        }
        let is_bought = self.credit_for(is_small).spend(bytes);
        if !is_bought {
            self.requests.refused(REQUEST);
        }
        is_bought
    }

    /// Whether there is credit for a request.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.has(REQUEST)
    }

    /// A sibling that was bought did not come.
    pub(crate) fn refused(&mut self, bytes: u64, is_small: bool) {
        self.credit_for(is_small).refused(bytes);
        self.requests.refused(REQUEST);
    }

    /// What files that are small, or not, may be fetched with.
    fn credit_for(&mut self, is_small: bool) -> &mut Credit {
        if is_small { &mut self.credit } else { &mut self.credit_long }
    }

    /// A file is opened that was not bought, and could have been.
    pub(crate) fn used(&mut self, bytes: u64, is_small: bool) {
        self.credit_for(is_small).used(bytes);
        self.requests.used(REQUEST);
    }

    /// The same, where there is no order.
    pub(crate) fn used_among(&mut self, bytes: u64, is_small: bool, dense: Dense) {
        let (opened, files) = (dense.opened.into(), dense.files.into());
        self.credit_for(is_small).used_among(bytes, opened, files);
        self.requests.used_among(REQUEST, opened, files);
    }

    /// A sibling is opened, and is resident or in flight.
    pub(crate) fn hit(&mut self, bytes: u64, is_small: bool, now: Nanos, waited: bool) {
        self.confidence.hit(waited);
        self.hit = Some(now);
        self.credit_for(is_small).hit(bytes);
        self.requests.hit(REQUEST);
    }

    /// A file is opened that came for its name: siblings go on as if one was opened.
    pub(crate) fn goes_on(&mut self, now: Nanos) {
        self.hit = Some(now);
    }

    /// A sibling was not opened, or was evicted before.
    pub(crate) fn missed(&mut self) {
        self.confidence.missed();
    }

    /// A file in `dir` is opened.
    pub(crate) fn comes(&mut self, dir: DirId, now: Nanos) -> Return {
        let found = self.last.iter().position(|last| last.is_some_and(|(last, _)| last == dir));
        let at = found.unwrap_or(RETURN_DIRS_MAX - 1);
        self.last[..=at].rotate_right(1);
        let before = self.last[0].replace((dir, now));
        let in_turn = at < DIRS_MAX && before.is_some_and(|(_, opened)| now.since(opened) < RECENT);
        Return { stays: found == Some(0) || found.is_some() && in_turn, is_soon: found.is_some() }
    }

    /// How many siblings may be ahead in a directory where a small file is opened; `stays`, and it
    /// is the second one there. Whatever came between, as many may be as were opened there before,
    /// but for the first.
    pub(crate) fn ahead(&mut self, stays: bool, dense: Dense, now: Nanos) -> u32 {
        let goes_on = self.hit.is_some_and(|hit| now.since(hit) < RECENT);
        if !stays && !goes_on {
            return dense.ahead();
        }
        self.confidence.open(SIBLINGS_FIRST);
        self.confidence.size().max(dense.ahead())
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

/// Directories that readers open files of in turn, at most, where each goes on in order. Lower:
/// more readers side by side wait for three files of each directory in place of two. Higher: two
/// neighbours that a loader opens by chance, long after one another, are taken for an order.
/// Source: docs/decisions/0116; twice the workers of a usual loader.
const RETURN_DIRS_MAX: usize = 16;

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

/// What a file costs as a request, whatever its length. Lower: what is earned for one is rounded
/// more. Higher: less credit can be saved. Source: derived; a thousandth of what can be saved.
const REQUEST: u64 = 16 << 10;

/// Credit of a mount at its start in requests. Lower: the first directories cost more round trips.
/// Higher: more requests are made in vain for programs that open few short files of many. Source:
/// docs/decisions/0116; as many as files of 16 KiB can be bought with what may be fetched.
const REQUESTS_FIRST: u64 = CREDIT_FIRST / (16 << 10) * REQUEST;

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
            let stays = siblings.comes(dir, Nanos::from_millis(at)).stays;
            let ahead = siblings.ahead(stays, Dense { opened: 0, files: 9 }, Nanos::from_millis(at));
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
            (0..dirs * 2).filter(|nth| siblings.comes(DirId(nth % dirs), Nanos::from_millis(nth * 10)).stays).count()
        };
        assert_eq!([1, 2, 3, 4, 5].map(stays), [1, 2, 3, 4, 0]);
    }
}
