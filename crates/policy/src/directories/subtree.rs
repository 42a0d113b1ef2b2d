//! Subtree: whether one request lists the subtrees of many small directories, in place of a
//! request for each directory.
//!
//! ```text
//!   one by one   a/ -> 4 names   b/ -> 3 names   c/ -> 5 names ..   a request each
//!   together     a/1 a/2 a/3 a/4 b/1 b/2 b/3 c/1 ..                 1,000 names a request
//!
//!   covers   unknown ──(4 directories listed one by one)──> estimated: 1,000 / mean entries
//!                    ──(a subtree request is over)────────> counted: directories a request
//! ```
//!
//! Directories with few entries cost more to request than to transfer. *Covers* is the number of
//! directories that one request lists. Below [`COVERS_MIN`] they are listed one by one.
//!
//! *Invariant:* `covers` is at least [`COVERS_MIN`] and at most [`COVERS_MAX`], or `None`.
//!
//! This file does not send requests or know which directories they list (`path/listings`), nor
//! whether the storage can list subtrees (`DirOptions::below`). Source: docs/decisions/0034.

/// The counts for the subtree of one directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Subtree {
    /// Directories in it that were listed one by one.
    listed: u32,
    /// Their entries.
    entries: u64,
    /// Subtree requests.
    requests: u32,
    /// The directories that they listed.
    told: u32,
}

impl Subtree {
    /// A directory in it was listed by itself.
    pub(crate) fn listed(&mut self, entries: usize) {
        self.listed += 1;
        self.entries += entries as u64;
    }

    /// A subtree request is over; it listed so many directories. Old requests count less and less.
    pub(crate) fn told(&mut self, directories: u32) {
        self.requests += 1;
        self.told += directories;
        if self.requests == REQUESTS_MAX {
            self.requests /= 2;
            self.told /= 2;
        }
    }

    /// How many of its directories one subtree request lists; `None` if to list them one by one is
    /// as good.
    pub(crate) fn covers(&self) -> Option<u32> {
        let covers = match self.requests {
            0 if self.listed < LISTED_MIN => return None,
            0 => u32::try_from(u64::from(self.listed) * PAGE_ENTRIES / self.entries.max(1)).unwrap_or(u32::MAX),
            requests => self.told / requests,
        };
        (covers >= COVERS_MIN).then_some(covers.min(COVERS_MAX))
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

/// Directories that a subtree request is sent for, at most. Lower: more requests for the smallest
/// directories. Higher: more directories wait for one answer, and are requested again if it is cut
/// off. Source: a guess, not measured.
const COVERS_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_directories_are_listed_together() {
        let mut small = Subtree::default();
        (0..3).for_each(|_| small.listed(4));
        assert_eq!(small.covers(), None);
        small.listed(4);
        assert_eq!(small.covers(), Some(250));
        small.told(100);
        assert_eq!(small.covers(), Some(100));
    }

    #[test]
    fn large_and_deep_directories_are_listed_one_by_one() {
        let mut large = Subtree::default();
        (0..9).for_each(|_| large.listed(200));
        assert_eq!(large.covers(), None);
        let mut deep = Subtree::default();
        (0..9).for_each(|_| deep.listed(3));
        deep.told(1);
        assert_eq!(deep.covers(), None);
    }
}
