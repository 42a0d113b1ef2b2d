//! Subtree: whether one request lists the subtrees of many small directories, in place of a
//! request for each directory.
//!
//! ```text
//!   one by one   a/ -> 4 names   b/ -> 3 names   c/ -> 5 names ..   a request each
//!   together     a/1 a/2 a/3 a/4 b/1 b/2 b/3 c/1 ..                 1,000 names a request
//!
//!   covers   unknown ──(4 directories listed one by one)──> estimated: 1,000 / mean names
//!                    ──(a subtree request is over)────────> counted: directories a request
//!
//!   a/           what is known at each depth below a/: a/*, a/*/*, ..
//!     b/  c/     c/ is new: what is known of b/* in a/ holds for c/* as well
//! ```
//!
//! Directories with few entries cost more to request than to transfer. *Covers* is two numbers: of
//! the directories side by side that a request begins with, those that come whole; and all that
//! come, with those in them. Below [`COVERS_MIN`] in all, or where the first one does not come
//! whole, they are listed one by one.
//!
//! *Invariant:* `covers` is at least 1 and [`COVERS_MIN`], and at most [`COVERS_MAX`], or `None`.
//!
//! This file does not send requests or know which directories they list (`path/listings`), nor
//! whether the storage can list subtrees (`DirOptions::below`). Source: docs/decisions/0034.

/// The counts for the subtrees of the directories at one depth below a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Subtree {
    /// Directories there that were listed one by one.
    listed: u32,
    /// Their entries, and those among them that are directories.
    entries: u64,
    subdirs: u64,
    /// Subtree requests.
    requests: u32,
    /// The directories that they were for, and came whole.
    told: u32,
    /// All directories that came by them.
    brought: u32,
}

/// What one subtree request brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Covers {
    /// Directories side by side that come whole, with all that is in them.
    pub(crate) side_by_side: u32,
    /// These, and those in them.
    pub(crate) all: u32,
    /// A request has shown that, or no directory lies below those that were listed.
    pub(crate) is_seen: bool,
}

impl Covers {
    /// Of a directory at the end of a chain: no sibling tells what is in it. It is one request in
    /// place of one, if the directory comes whole.
    pub(crate) const OF_A_CHAIN: Self = Self { side_by_side: 1, all: COVERS_MIN, is_seen: false };

    /// Whether a request for `count` directories side by side is worth more than one for each that
    /// it brings.
    pub(crate) fn is_worth(self, count: usize) -> bool {
        count as u64 * u64::from(self.all) >= u64::from(COVERS_MIN) * u64::from(self.side_by_side)
    }
}

impl Subtree {
    /// A directory there was listed by itself.
    pub(crate) fn listed(&mut self, entries: usize, subdirs: usize) {
        self.listed += 1;
        self.entries += entries as u64;
        self.subdirs += subdirs as u64;
    }

    /// A subtree request is over; so many of the directories that it was for came whole, and it
    /// `brought` so many in all. Old requests count less and less.
    pub(crate) fn told(&mut self, directories: u32, brought: u32) {
        self.requests += 1;
        self.told += directories;
        self.brought += brought;
        if self.requests == REQUESTS_MAX {
            self.requests /= 2;
            self.told /= 2;
            self.brought /= 2;
        }
    }

    /// Whether anything can be said.
    pub(crate) fn is_known(self) -> bool {
        self.requests > 0 || self.listed >= LISTED_MIN
    }

    /// Whether a request has shown what comes.
    pub(crate) fn is_asked(self) -> bool {
        self.requests > 0
    }

    /// Whether directories here have about as many entries as those there: half to twice as many.
    pub(crate) fn is_like(self, other: Self) -> bool {
        let (a, b) = (self.entries * u64::from(other.listed), other.entries * u64::from(self.listed));
        a <= 2 * b && b <= 2 * a
    }

    /// Names of files in one directory here and below it, and directories, itself included, as far
    /// as those that were listed one by one tell. `deeper`: what is known of the depths below.
    fn size(self, deeper: &[Self]) -> (u64, u64) {
        let listed = u64::from(self.listed.max(1));
        let (names, dirs) = match deeper.split_first() {
            Some((next, deeper)) if next.listed >= LISTED_MIN => next.size(deeper),
            // One is at least a name.
            _ => (1, 1),
        };
        let files = self.entries.saturating_sub(self.subdirs);
        let names = files.saturating_add(self.subdirs.saturating_mul(names));
        (names.div_ceil(listed), (self.subdirs.saturating_mul(dirs) / listed).saturating_add(1))
    }

    /// What one subtree request brings; `None` if to list directories one by one is as good.
    /// `deeper`: what is known of the depths below.
    pub(crate) fn covers(self, deeper: &[Self]) -> Option<Covers> {
        let most = |count: u64| count.min(u64::from(COVERS_MAX));
        let (side_by_side, all) = match self.requests {
            0 if self.listed < LISTED_MIN => return None,
            0 => {
                let (names, dirs) = self.size(deeper);
                let side_by_side = most(PAGE_ENTRIES / names.max(1));
                (side_by_side, side_by_side.saturating_mul(dirs))
            }
            requests => (most(u64::from(self.told / requests)), most(u64::from(self.brought / requests))),
        };
        let is_worth = side_by_side > 0 && all >= u64::from(COVERS_MIN);
        let all = all.min(u64::from(u32::MAX)) as u32;
        is_worth.then_some(Covers {
            side_by_side: side_by_side as u32,
            all,
            is_seen: self.is_asked() || self.subdirs == 0,
        })
    }
}

/// Directories listed one by one before the others are estimated. Lower: a few small directories
/// stand for large ones. Higher: more directories are listed one by one. Source:
/// docs/decisions/0034.
const LISTED_MIN: u32 = 4;

/// Entries of a page, as stores answer. Lower: the first subtree request is sent for fewer
/// directories, or not at all. Higher: it is sent for more than it can list. Source:
/// docs/decisions/0030 and 0034.
const PAGE_ENTRIES: u64 = 1000;

/// Subtree requests that count; there both counts are halved. Lower: one request decides over all
/// others. Higher: directories that become larger or smaller are noticed later. Source: a guess,
/// not measured.
const REQUESTS_MAX: u32 = 8;

/// Directories that a subtree request must list to be worth sending: one by one they are listed
/// side by side, in the same time. Lower: subtree requests where one by one is as fast. Higher:
/// more requests for small directories. Source: docs/decisions/0034.
pub(crate) const COVERS_MIN: u32 = 8;

/// Depths below a directory that it knows of, in levels. Lower: each directory of a deep tree has
/// some in it listed one by one. Higher: more memory for each directory, and more directories are
/// told of each listing. Source: docs/decisions/0095.
pub(crate) const LEVELS: usize = 4;

/// Directories that a subtree request is sent for, at most. Lower: more requests for the smallest
/// directories. Higher: more directories wait for one answer, and are requested again if it is cut
/// off. Source: a guess, not measured.
const COVERS_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(side_by_side: u32, all: u32, is_seen: bool) -> Covers {
        Covers { side_by_side, all, is_seen }
    }

    #[test]
    fn small_directories_are_listed_together() {
        let mut small = Subtree::default();
        (0..3).for_each(|_| small.listed(4, 0));
        assert_eq!(small.covers(&[]), None);
        small.listed(4, 0);
        assert_eq!(small.covers(&[]), Some(covers(250, 250, true)));
        small.told(100, 100);
        assert_eq!(small.covers(&[]), Some(covers(100, 100, true)));
        assert!(small.covers(&[]).is_some_and(|covers| covers.is_worth(8) && !covers.is_worth(7)));
    }

    #[test]
    fn a_directory_comes_with_those_in_it() {
        let mut deep = Subtree::default();
        (0..4).for_each(|_| deep.listed(5, 3));
        assert_eq!(deep.covers(&[]), Some(covers(200, 800, false)));
        let mut below = Subtree::default();
        (0..4).for_each(|_| below.listed(60, 0));
        // 2 files of its own, and 3 directories of 60.
        assert_eq!(deep.covers(&[below]), Some(covers(5, 20, false)));
        (0..9).for_each(|_| below.listed(600, 0));
        assert_eq!(deep.covers(&[below]), None);
        deep.told(1, 40);
        assert_eq!(deep.covers(&[]), Some(covers(1, 40, true)));
        assert!(deep.covers(&[]).is_some_and(|covers| covers.is_worth(1)));
    }

    #[test]
    fn large_and_deep_directories_are_listed_one_by_one() {
        let mut large = Subtree::default();
        (0..9).for_each(|_| large.listed(200, 0));
        assert_eq!(large.covers(&[]), None);
        let mut deep = Subtree::default();
        (0..9).for_each(|_| deep.listed(3, 3));
        // The first one was cut off.
        deep.told(0, 300);
        assert_eq!(deep.covers(&[]), None);
        let mut few = Subtree::default();
        (0..9).for_each(|_| few.listed(3, 3));
        few.told(1, 4);
        assert_eq!(few.covers(&[]), None);
    }
}
