//! Firsts: which file of each directory programs open before others.
//!
//! ```text
//!   pkg/  x/cache/ 0 1 2    y/ 0 1    y/cache/ 0 1
//!                  ^ first     ^ first         ^ first, as in x: repeated
//! ```
//!
//! A directory remembers the first files that were opened in those one and two levels below it, by
//! their kind, their name and their place. One that repeats within a second is one that a program
//! looks for in each: by its name, wherever that lies, or else by its place.
//!
//! *Invariant:* a directory remembers at most [`FIRSTS_MAX`].
//!
//! This file does not know files, and fetches none: that is `path/beside`. Source:
//! docs/decisions/0086 and 0110.

use alloc::vec::Vec;

use crate::units::Nanos;

/// Kinds of files: a bit for each, of which several kinds may share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u64);

impl Kinds {
    /// The set of one kind.
    pub(crate) fn one(kind: u8) -> Self {
        Self(1 << (kind % 64))
    }

    pub(crate) fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    pub(crate) fn have(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The first file that was opened in a directory, as seen from one above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    /// The directory lies two levels below, and is this one of its parent's subdirectories.
    pub(crate) below: Option<usize>,
    /// The file's place there.
    pub(crate) entry: u32,
    pub(crate) kinds: Kinds,
    /// A hash of what its name has before the first dot; 0 if that is not known.
    pub(crate) stem: u32,
}

/// How a first file is like an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    Name,
    Place,
}

impl First {
    /// How it is like another one, if it is.
    fn repeats(self, other: Self) -> Option<Repeats> {
        if (self.below, self.kinds) != (other.below, other.kinds) {
            None
        } else if self.stem != 0 && self.stem == other.stem {
            Some(Repeats::Name)
        } else {
            (self.entry == other.entry).then_some(Repeats::Place)
        }
    }
}

/// The first files that were opened last in the directories below one, and when they were. A
/// program may come to several in each: a module, and what it was compiled from.
#[derive(Debug, Default)]
pub(crate) struct Firsts(Vec<(First, Nanos)>);

impl Firsts {
    /// A first file is opened. Returns how it is like one of the last second.
    pub(crate) fn opened(&mut self, first: First, now: Nanos) -> Option<Repeats> {
        let like = |how| self.0.iter().position(|&(last, _)| first.repeats(last) == Some(how));
        let found = like(Repeats::Name).or_else(|| like(Repeats::Place));
        let before = found.map(|at| self.0.remove(at));
        self.0.truncate(FIRSTS_MAX - 1);
        self.0.insert(0, (first, now));
        let (last, opened) = before?;
        first.repeats(last).filter(|_| now.since(opened) < RECENT)
    }
}

/// How long after a first file one like it counts as one of the same program, a second. Lower:
/// cousins of slow programs do not come. Higher: two files that were opened by chance have some.
/// Source: as for siblings, docs/decisions/0057.
const RECENT: Nanos = Nanos::from_millis(1_000);

/// First files remembered of the directories below one. Lower: programs that open several kinds of
/// files in each have no cousins. Higher: firsts by chance have some, and more memory is taken.
/// Source: docs/decisions/0086; an import opens four: compiled or not, one level below or two.
const FIRSTS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_last_four_repeats_within_a_second() {
        let first = |entry| First { below: None, entry, kinds: Kinds::default(), stem: 0 };
        let mut firsts = Firsts::default();
        let mut open = |entry, at| firsts.opened(first(entry), Nanos::from_millis(at)).is_some();
        assert!((0..4).all(|entry| !open(entry, 0)));
        assert!((0..4).all(|entry| open(entry, 500)));
        assert!(!open(4, 600) && !open(0, 700), "four others came after it");
        assert!(!open(4, 1_600) && open(4, 1_700));
    }

    #[test]
    fn a_name_repeats_wherever_it_lies_and_a_place_whatever_its_name() {
        let mut firsts = Firsts::default();
        let mut open = |entry, stem, kind| {
            let first = First { below: None, entry, kinds: Kinds::one(kind), stem };
            firsts.opened(first, Nanos::from_millis(0))
        };
        assert_eq!(open(3, 7, 1), None);
        assert_eq!(open(5, 7, 1), Some(Repeats::Name));
        assert_eq!(open(5, 8, 1), Some(Repeats::Place));
        assert_eq!((open(6, 9, 1), open(5, 8, 1)), (None, Some(Repeats::Name)));
        assert_eq!(open(5, 9, 1), Some(Repeats::Name), "though another one was at that place later");
        assert_eq!(open(5, 8, 2), None, "another kind");
        assert_eq!(open(6, 0, 1), None);
        assert_eq!(open(7, 0, 1), None, "names that are not known are not alike");
    }
}
