//! Marks: where entries are that are gone, a name for about each page, so that a listing can go on
//! from any of them.
//!
//! ```text
//!   entries      | gone      | gone      | kept .. kept |   gone, not listed yet    |
//!   marks                    ^ 1000 "f"  ^ 2000 "m"         ^ 7000 "t"
//!   name "k"                   between 1000 and 2000
//!   place 1500                 the storage is asked for what follows "f", past 500 entries
//! ```
//!
//! *Invariants:* places and keys ascend. There are at most [`MARKS_MAX`]: where there would be
//! more, every other one goes, and later ones are farther apart.

use crate::directories::name::order;

/// An entry that a listing can go on behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) name: String,
    pub(crate) directory: bool,
}

/// The marks of one listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    all: Vec<Mark>,
    /// Places from one mark to the next, at least.
    apart: u32,
}

/// The entry before `place` has this name.
#[derive(Debug, Clone)]
struct Mark {
    place: u32,
    name: Box<str>,
    /// A slash follows the name in the key.
    slash: bool,
}

impl Mark {
    fn key(&self) -> (&str, bool) {
        (&self.name, self.slash)
    }
}

impl Marks {
    /// The entry before `place` is gone, and has this key.
    pub(crate) fn add(&mut self, place: u32, (name, slash): (&str, bool)) {
        let at = self.all.partition_point(|mark| mark.place <= place);
        let before = at.checked_sub(1).map(|before| &self.all[before]);
        let is_near = before.is_some_and(|mark| place - mark.place < self.apart.max(1));
        let ascends = before.is_none_or(|mark| order(mark.key(), (name, slash)).is_lt())
            && self.all.get(at).is_none_or(|mark| order((name, slash), mark.key()).is_lt());
        if is_near || !ascends {
            return;
        }
        if self.all.len() == MARKS_MAX {
            let mut nth = 0;
            self.all.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
            self.apart = self.all.windows(2).map(|two| two[1].place - two[0].place).min().unwrap_or(0);
            return self.add(place, (name, slash));
        }
        self.all.insert(at, Mark { place, name: name.into(), slash });
    }

    /// Entries from `gone` on have come again: those before `end`, the last one with the key
    /// `last`. What the marks among them told before may be out of date.
    pub(crate) fn came(&mut self, gone: u32, end: u32, last: (&str, bool)) {
        if self.all.last().is_some_and(|mark| mark.place > gone) {
            self.all.retain(|mark| mark.place <= gone || mark.place > end && order(mark.key(), last).is_gt());
        }
    }

    /// The mark at `place`, or the last one before it: its place, and the entry before that.
    pub(crate) fn before(&self, place: u32) -> Option<(u32, Last)> {
        let mark = &self.all[self.all.partition_point(|mark| mark.place <= place).checked_sub(1)?];
        Some((mark.place, Last { name: mark.name.to_string(), directory: mark.slash }))
    }

    /// The places between which an entry of this name would be, if any marks are there.
    pub(crate) fn around(&self, name: &str) -> Option<(u32, u32)> {
        let before = |key| self.all.partition_point(|mark| order(mark.key(), key).is_lt());
        let (from, to) = (before((name, false)), before((name, true)));
        let place = |at: usize| self.all.get(at).map(|mark| mark.place);
        (!self.all.is_empty())
            .then(|| (from.checked_sub(1).and_then(place).unwrap_or(0), place(to).unwrap_or(u32::MAX)))
    }

    /// Memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        (self.all.capacity() * size_of::<Mark>() + self.all.iter().map(|mark| mark.name.len()).sum::<usize>()) as u64
    }
}

/// Marks of one listing, at most: a million entries have one each thousand. Lower: a listing that
/// goes on from a place brings more entries before it. Higher: up to a hundred bytes each.
const MARKS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(place: u32) -> String {
        format!("n{place:08}")
    }

    fn marks(places: impl Iterator<Item = u32>) -> Marks {
        let mut marks = Marks::default();
        places.for_each(|place| marks.add(place, (&name(place - 1), false)));
        marks
    }

    #[test]
    fn names_and_places_are_between_two_marks() {
        let marks = marks([10, 20, 30].into_iter());
        // A file of this name is before the mark, and a directory would be behind it.
        assert_eq!(marks.around(&name(9)), Some((0, 20)));
        assert_eq!(marks.around(&name(10)), Some((10, 20)));
        assert_eq!(marks.around(&name(30)), Some((30, u32::MAX)));
        assert_eq!(marks.before(9).map(|(place, _)| place), None);
        assert_eq!(marks.before(29), Some((20, Last { name: name(19), directory: false })));
        assert_eq!(Marks::default().around("a"), None);
    }

    #[test]
    fn what_comes_again_replaces_the_marks_there() {
        let mut marks = marks((1..10).map(|n| n * 10));
        marks.came(20, 55, (&name(60), false));
        let places: Vec<u32> = marks.all.iter().map(|mark| mark.place).collect();
        assert_eq!(places, [10, 20, 70, 80, 90], "the one at 60 has a name that came before it");
    }

    #[test]
    fn there_are_never_too_many_and_they_stay_even() {
        let marks = marks((1..100_000).map(|n| n * 10));
        assert!(marks.all.len() <= MARKS_MAX && marks.all.len() >= MARKS_MAX / 2, "{}", marks.all.len());
        let gaps = marks.all.windows(2).map(|two| two[1].place - two[0].place);
        assert!(gaps.max() <= Some(4 * 1_000_000 / MARKS_MAX as u32));
        assert!(marks.bytes() < 100 << 10);
    }
}
