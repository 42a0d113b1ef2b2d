//! Whether all that lies below a directory is asked for at once, in place of the directories in it one by one.
//!
//! ```text
//!   one by one     a/ -> 4 names      b/ -> 3 names      c/ -> 5 names ..      a request each
//!   at once        a/1 a/2 a/3 a/4 b/1 b/2 b/3 c/1 ..                          a request for a thousand names
//! ```
//!
//! Directories that hold little cost more to ask for than to tell. How many of them one request tells is reckoned from those that
//! were listed one by one, and from then on counted.

/// See the module's text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Subtree {
    /// Directories in it that were listed one by one, and entries of them.
    listed: u32,
    entries: u64,
    /// Requests for all that lies below it, and directories in it that they told.
    requests: u32,
    told: u32,
}

impl Subtree {
    /// A directory in it was listed by itself.
    pub(crate) fn listed(&mut self, entries: usize) {
        self.listed += 1;
        self.entries += entries as u64;
    }

    /// A request for all that lies below is over. What was long ago counts less and less.
    pub(crate) fn told(&mut self, directories: u32) {
        self.requests += 1;
        self.told += directories;
        if self.requests == REQUESTS_MAX {
            self.requests /= 2;
            self.told /= 2;
        }
    }

    /// How many of its directories one request for all that lies below tells; `None` where asking for each by itself is as good.
    pub(crate) fn covers(&self) -> Option<u32> {
        let covers = match self.requests {
            0 if self.listed < LISTED_MIN => return None,
            0 => u32::try_from(u64::from(self.listed) * PAGE_ENTRIES / self.entries.max(1)).unwrap_or(u32::MAX),
            requests => self.told / requests,
        };
        (covers >= COVERS_MIN).then_some(covers.min(COVERS_MAX))
    }
}

/// Directories that are listed one by one before anything is said of the others.
const LISTED_MIN: u32 = 4;

/// Entries that a request is answered with, as stores have it.
const PAGE_ENTRIES: u64 = 1000;

/// Requests that count.
const REQUESTS_MAX: u32 = 8;

/// Directories that a request must tell to be worth as much as so many: they would be asked for side by side, in the same time.
pub(crate) const COVERS_MIN: u32 = 8;

/// Directories that one request is expected to tell at most.
const COVERS_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_hold_little_are_asked_for_together() {
        let mut below = Subtree::default();
        (0..3).for_each(|_| below.listed(4));
        assert_eq!(below.covers(), None);
        below.listed(4);
        assert_eq!(below.covers(), Some(250));
        below.told(100);
        assert_eq!(below.covers(), Some(100));
    }

    #[test]
    fn large_ones_and_deep_ones_are_not() {
        let mut large = Subtree::default();
        (0..9).for_each(|_| large.listed(200));
        assert_eq!(large.covers(), None);
        let mut deep = Subtree::default();
        (0..9).for_each(|_| deep.listed(3));
        deep.told(1);
        assert_eq!(deep.covers(), None);
    }
}
