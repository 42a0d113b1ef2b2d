//! Open after lookup: whether programs open the small files that they look up.
//!
//! ```text
//!   loader    look up, open, look up, open, ..  likely: a lookup fetches the file, one round trip
//!                                               instead of two
//!   du        look up, look up, look up, ..     unlikely: nothing is fetched
//!
//!   unlikely ──(4 opens or more, three of four lookups)──> likely
//!       ^                                                     │
//!       └──────────────(fewer than three of four)─────────────┘
//! ```
//!
//! Only lookups that the storage has to be asked for count. One lookup of four may lack an open:
//! the latest ones may still be opened.
//!
//! *Invariant:* opens are never more than lookups. Lookups are at most [`NAMED_MAX`]; both are
//! halved there, so old ones count less and less.
//!
//! This file does not decide what is fetched, and knows no files (`path/contents`). Source:
//! docs/decisions/0035.

/// The latest lookups of small files, and how many of them were followed by an open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OpenAfterLookup {
    /// Lookups of small files that the storage had to be asked for.
    named: u32,
    /// Those of them that were followed by an open.
    opened: u32,
}

impl OpenAfterLookup {
    /// The storage has to be asked for the name of a small file.
    pub(crate) fn named(&mut self) {
        self.named += 1;
        if self.named == NAMED_MAX {
            (self.named, self.opened) = (self.named / 2, self.opened / 2);
        }
    }

    /// A file that was looked up so is opened.
    pub(crate) fn opened(&mut self) {
        self.opened = (self.opened + 1).min(self.named);
    }

    /// Whether an open is likely to follow a lookup.
    pub(crate) fn is_likely(self) -> bool {
        self.opened >= OPENED_MIN && self.opened * 4 >= self.named * 3
    }
}

/// Lookups that count, at most. Lower: a few lookups without an open stop the fetches of a loader.
/// Higher: files are fetched in vain for longer once a program only looks names up. Source:
/// docs/decisions/0035.
const NAMED_MAX: u32 = 64;

/// Opens that must have followed lookups before files are fetched. Lower: a file is fetched in
/// vain for a program that opens one or two. Higher: a loader's first files cost two round trips
/// each. Source: docs/decisions/0035.
const OPENED_MIN: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_after_four_opens_until_lookups_go_without() {
        let mut lookups = OpenAfterLookup::default();
        for _ in 0..4 {
            lookups.named();
            assert!(!lookups.is_likely());
            lookups.opened();
        }
        assert!(lookups.is_likely());
        let stats = (0..).take_while(|_| {
            lookups.named();
            lookups.is_likely()
        });
        assert!(stats.count() < 4);
    }
}
