//! Relisting: where a directory that does not fit, or is long, is listed again, for a reader that
//! goes through its names.
//!
//! ```text
//!   names looked up      a  b |  ..         part of the listing that is gone
//!                        1  2 ──> listed again from this part on
//!
//!   entries      | gone | kept, read | kept, ahead |  gone, or not known  |
//!                       relisting ───────────────> goes on as its reader does
//! ```
//!
//! Two names in turn from one part, or from neighbouring ones, are *in order*: of a thousand parts
//! names at random places seldom are. A relisting that answered few names was wrong. Then twice as
//! many names in order have the next one listed, up to [`VAIN_MAX`] times.
//!
//! This file does not list (`path/listings`) and does not trim (`directory`). Source:
//! docs/decisions/0055 and 0117.

/// Names sought in one directory that its listing did not tell, and what the relisting answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relisting {
    /// The part of the last name that was sought.
    last: Option<(u32, u32)>,
    /// Names in order, the last one included.
    in_order: u32,
    /// Names answered since the relisting began.
    hits: u32,
    /// Relistings in turn that answered too few.
    vain: u32,
}

impl Default for Relisting {
    fn default() -> Self {
        Self { last: None, in_order: 0, hits: WORTH_MIN, vain: 0 }
    }
}

impl Relisting {
    /// A name among the entries from `from` on and before `to` is sought. Returns whether the
    /// directory is to be listed from there.
    pub(crate) fn sought(&mut self, from: u32, to: u32) -> bool {
        let touches = self.last.is_some_and(|(first, end)| first <= to && from <= end);
        self.last = Some((from, to));
        self.in_order = if touches { self.in_order.saturating_add(1) } else { 1 };
        self.in_order >= IN_ORDER_MIN << self.vain
    }

    /// A name was answered.
    pub(crate) fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
    }

    /// A relisting begins.
    pub(crate) fn begin(&mut self) {
        if self.hits >= WORTH_MIN {
            self.vain = 0;
        } else {
            (self.vain, self.in_order) = ((self.vain + 1).min(VAIN_MAX), 0);
        }
        self.hits = 0;
    }
}

/// Names in order before a directory is listed from the last one. Lower: a single look-up has a
/// page listed. Higher: more names cost requests of their own. Source: docs/decisions/0029 (the
/// second name has a directory listed).
const IN_ORDER_MIN: u32 = 2;

/// Names that a relisting must answer to have been worth it. Lower: names that are seldom in order
/// have a page listed each time. Higher: readers of a few names in many places are not helped.
/// Source: a name that is looked up by itself costs two requests, and a page one.
const WORTH_MIN: u32 = 2;

/// Relistings in turn that answered too few names, and count: names in order double each time, up
/// to 512. Lower: more pages are listed in vain. Higher: a reader that comes to follow an order
/// waits longer. Source: a guess, not measured.
const VAIN_MAX: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_order_begin_a_relisting_and_others_do_not() {
        let mut relisting = Relisting::default();
        assert!(!relisting.sought(1000, 2000));
        assert!(relisting.sought(1000, 2000));
        assert!(!relisting.sought(7000, 8000));
        assert!(relisting.sought(8000, 9000), "the next part");
        assert!(relisting.sought(7000, 8000), "the part before");
        assert!(!relisting.sought(2000, 3000));
    }

    #[test]
    fn relistings_in_vain_become_rare() {
        let (mut relisting, mut relistings) = (Relisting::default(), 0);
        for _ in 0..10_000 {
            if relisting.sought(0, 1000) {
                relisting.begin();
                relistings += 1;
            }
        }
        assert!((9..40).contains(&relistings), "{relistings} relistings");
        (0..WORTH_MIN).for_each(|_| relisting.hit());
        (0..2000).for_each(|_| _ = relisting.sought(0, 1000));
        relisting.begin();
        assert!(!relisting.sought(5000, 6000));
        assert!(relisting.sought(5000, 6000), "one that was worth it has the next begin at once");
    }
}
