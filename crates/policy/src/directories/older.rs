//! Older listings: those that are no longer their directory's latest, and that a driver keeps for
//! readers in the middle of them, or until the latest has come.
//!
//! ```text
//!   latest ──(listed anew, or dropped)──> older ──(no reader left)──> gone
//!   a reader's own ────────────────────────┘ └────(too much memory)──> released
//! ```
//!
//! An open directory keeps the listing that it is in, and each may keep another one. So they have
//! a share, and the one that was used least recently is released first. Its reader goes on with a
//! listing of its own, after the last name that it was given: that costs it a request.
//!
//! The file does not know whose listings they are. Source: docs/decisions/0068.

use alloc::collections::{BTreeMap, BTreeSet};

/// What older listings take.
#[derive(Debug, Default)]
pub(crate) struct Older {
    /// By listing: its bytes, and when it was used.
    all: BTreeMap<u64, (u64, u64)>,
    /// The least recently used first.
    by_use: BTreeSet<(u64, u64)>,
    uses: u64,
    bytes: u64,
}

impl Older {
    /// A listing was used, and takes so many bytes; none if it is gone.
    pub(crate) fn set(&mut self, listing: u64, bytes: u64) {
        if let Some((before, used)) = self.all.remove(&listing) {
            self.bytes -= before;
            self.by_use.remove(&(used, listing));
        }
        if bytes > 0 {
            self.uses += 1;
            self.bytes += bytes;
            self.all.insert(listing, (bytes, self.uses));
            self.by_use.insert((self.uses, listing));
        }
    }

    /// The listing that is released next, if they take more than `most` bytes.
    pub(crate) fn pop(&mut self, most: u64) -> Option<u64> {
        if self.bytes <= most {
            return None;
        }
        let (_, listing) = *self.by_use.first()?;
        self.set(listing, 0);
        Some(listing)
    }

    /// What they take, in bytes, and what is kept of them here.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.all.len() as u64 * LISTING_BYTES
    }
}

/// Memory that an older listing takes here, in bytes: entries of two trees. Lower: more is kept
/// than is charged. Higher: fewer listings fit. Source: the sizes of the types, and half as much
/// for the trees' own.
const LISTING_BYTES: u64 = (size_of::<[u64; 5]>() * 3 / 2) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_least_recently_goes_first_and_all_that_is_counted_is_given_back() {
        let mut older = Older::default();
        (1..=4).for_each(|listing| older.set(listing, 100));
        older.set(1, 90);
        assert_eq!(older.bytes(), 390 + 4 * LISTING_BYTES);
        assert_eq!((older.pop(390), older.pop(300), older.pop(200)), (None, Some(2), Some(3)));
        older.set(4, 0);
        older.set(7, 0);
        assert_eq!((older.pop(0), older.pop(0), older.bytes()), (Some(1), None, 0));
    }
}
