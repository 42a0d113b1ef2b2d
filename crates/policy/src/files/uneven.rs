//! Records at a constant distance that is no whole number of pages: a reader of 64 KiB every
//! million bytes, of the chunks of an HDF5 file, backward by 100,000 bytes.
//!
//! ```text
//!   bytes     0       1,000,000      2,000,000      3,000,000       a distance of 244.14 pages
//!   pages     0          244            488            732          . . 1220: one page more
//!
//!   seen      each start tells the distance, to a page, over all records since the first:
//!             (start - first - 1) / n  <  distance  <  (start - first + 1) / n
//!   fetched   . |=====record=====| .        a page more at either end: where a record begins is
//!                                           known to a page
//!
//!   place     0          244            488            732          even again: whole pages apart
//! ```
//!
//! The stream counts in *places*, between which the distance is a whole number. A record is found
//! from the last one that was seen.
//!
//! Records that touch need no places: their reader reads all that lies before it.
//!
//! *Invariants:* the distance lies between `least` and `most`. [`Uneven::page`] and
//! [`Uneven::place`] are inverse to each other, but for the last page before a record: there may
//! be one page more than places.
//!
//! The file does not find progressions (`stride`) or decide how far ahead is read (`window`).
//! Source: docs/decisions/0097; a line drawn on a grid tells its slope to one part in the square
//! of its length.

use crate::units::PAGE_PARTS;

/// Where the records of an uneven progression lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uneven {
    /// Where the first record began.
    first: u64,
    /// Where the last one that was seen began, and how many came before it.
    last: u64,
    number: i64,
    /// The distance from one record to the next, in [`PAGE_PARTS`]: at least, and at most.
    /// Negative for a reader that goes backward.
    least: i64,
    most: i64,
    /// The same in places.
    delta: i64,
    /// The place of the first record.
    zero: i64,
}

impl Uneven {
    /// The progression of which so many records begin at `starts`, in the order of the reader;
    /// `None` if they are not at one distance.
    pub(crate) fn new(starts: &[u64]) -> Option<Self> {
        let (&first, &last) = (starts.first()?, starts.last()?);
        let number = starts.len() as i64 - 1;
        let mut found = Self { first, last, number, least: i64::MIN, most: i64::MAX, delta: 0, zero: 0 };
        if !(1..).zip(&starts[1..]).all(|(number, &start)| found.narrow(number, start)) {
            return None;
        }
        found.settle()
    }

    /// A progression whose records seemed to be `delta` pages apart, from `first` to `last`, of
    /// which another one, so many `further` on, begins at `start`.
    pub(crate) fn slipped((first, last): (u64, u64), delta: i64, further: i64, start: u64) -> Option<Self> {
        let number = (last as i64 - first as i64) / delta;
        let mut found = Self { first, last, number, least: i64::MIN, most: i64::MAX, delta: 0, zero: 0 };
        let is_one = found.narrow(number, last) && found.narrow(number + further, start);
        if is_one { found.settle() } else { None }
    }

    /// Sets the distance of its places.
    fn settle(mut self) -> Option<Self> {
        self.delta = self.distance() / PAGE;
        self.zero = self.base(0) - self.number * self.delta;
        (self.delta.unsigned_abs() >= DELTA_MIN).then_some(self)
    }

    /// Pages from one record to the next, in places.
    pub(crate) fn delta(&self) -> i64 {
        self.delta
    }

    /// The distance from one record to the next, in [`PAGE_PARTS`].
    pub(crate) fn distance(&self) -> i64 {
        self.least.midpoint(self.most)
    }

    /// Whether records of `pages` pages touch, with a page more at either end.
    pub(crate) fn touch(&self, pages: u64) -> bool {
        pages + SLACK > self.delta.unsigned_abs()
    }

    /// How many records further on are found to a page.
    pub(crate) fn certain(&self) -> i64 {
        (PAGE / (self.most - self.least).max(1)).max(1)
    }

    /// Record `number` begins at `start`. Returns whether a progression may have it, behind its
    /// first one.
    fn narrow(&mut self, number: i64, start: u64) -> bool {
        if number <= 0 {
            return false;
        }
        let away = start as i64 - self.first as i64;
        let bound = |pages: i64| (i128::from(pages) * i128::from(PAGE) / i128::from(number)) as i64;
        let (least, most) = (self.least.max(bound(away - 1)), self.most.min(bound(away + 1)));
        let is_one = least < most;
        if is_one {
            (self.least, self.most) = (least, most);
        }
        is_one
    }

    /// The first page that may be of the record `further` records after the last one seen.
    fn base(&self, further: i64) -> i64 {
        let away = i128::from(further) * i128::from(self.distance()) - i128::from(PAGE / 2);
        self.last as i64 + away.div_euclid(i128::from(PAGE)) as i64
    }

    /// How many records after the last one seen `page` lies in, or behind.
    fn further(&self, page: u64) -> i64 {
        let (page, step) = (page as i64, self.distance().signum());
        let away = i128::from(page - self.last as i64) * i128::from(PAGE);
        let mut further = (away / i128::from(self.distance())) as i64;
        while self.base(further) > page {
            further -= step;
        }
        while self.base(further + step) <= page {
            further += step;
        }
        further
    }

    /// The place of `page`; `None` before all places.
    pub(crate) fn place(&self, page: u64) -> Option<u64> {
        let further = self.further(page);
        let within = (page as i64 - self.base(further)).min(self.delta.abs() - 1);
        u64::try_from(self.zero + (self.number + further) * self.delta + within).ok()
    }

    /// The place of the last record that was seen; `None` before all places.
    pub(crate) fn place_of_last(&self) -> Option<u64> {
        u64::try_from(self.zero + self.number * self.delta).ok()
    }

    /// The page at `place`, which may lie before the file.
    pub(crate) fn page(&self, place: i64) -> i64 {
        let within = (place - self.zero).rem_euclid(self.delta.abs());
        let number = (place - self.zero - within) / self.delta;
        self.base(number - self.number) + within
    }

    /// A read has come at `page`. If a record may begin there, the others are known better.
    pub(crate) fn read(&mut self, page: u64) {
        let further = self.further(page);
        let within = page as i64 - self.base(further);
        if within < SLACK as i64 && self.narrow(self.number + further, page) {
            (self.number, self.last) = (self.number + further, page);
        }
    }

    /// Where the last record that was seen began.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
}

/// Pages at which a record may begin, one behind the other; one page less than these is fetched
/// beside each record. Lower: the start or the end of some records waits for a request of its own.
/// Higher: more is fetched than is read. Source: derived: half a page before and behind what the
/// distance tells, in whole pages.
pub(crate) const SLACK: u64 = 3;

/// A page, in the parts that distances are told in. Lower: places are wrong after fewer records.
/// Higher: distances of long files leave 64 bits. Source: [`PAGE_PARTS`], with a sign.
const PAGE: i64 = PAGE_PARTS as i64;

/// The least distance. Lower: any few reads of a small region are at one distance to a page.
/// Higher: small records that lie near each other are found by the gaps between them only
/// (`sparse`). Source: derived: a record with a page more at either end, and a gap.
const DELTA_MIN: u64 = 4;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// Where record `number` begins, of those that lie `distance` bytes apart from `origin` on.
    fn start(origin: i64, distance: i64, number: i64) -> u64 {
        ((origin + number * distance) / 4096) as u64
    }

    #[test]
    fn starts_that_are_not_at_one_distance_are_no_progression() {
        assert!(Uneven::new(&[0, 244, 488, 732, 976]).is_some());
        assert!(Uneven::new(&[0, 244, 488, 733, 977, 1_221]).is_some(), "244.2 pages");
        assert_eq!(Uneven::new(&[0, 244, 488, 735, 979]), None);
        assert_eq!(Uneven::new(&[0, 2, 4, 7, 9]), None, "too near");
    }

    #[test]
    fn a_reader_that_goes_back_to_the_first_record_shows_nothing_new() {
        let mut uneven = Uneven::new(&[1_000, 1_244, 1_488, 1_733, 1_977]).expect("a progression");
        let before = uneven;
        for page in [1_000, 999, 756, 512] {
            uneven.read(page);
            assert_eq!(uneven, before, "{page}");
        }
    }

    proptest! {
        #[test]
        fn records_lie_where_they_are_expected(origin in 1 << 30..(1_i64 << 31), distance in 16_384..(1_i64 << 24), backward: bool, skips in proptest::collection::vec(1..4_i64, 1..200)) {
            let distance = if backward { -distance / 64 - 16_384 } else { distance };
            let at = |number| start(origin, distance, number);
            let starts: Vec<u64> = (0..5).map(at).collect();
            let mut uneven = Uneven::new(&starts).expect("one distance");
            let mut number = 4;
            for skip in skips {
                for further in 1..=uneven.certain().min(50) {
                    let begins = at(number + further) as i64 - uneven.base(further);
                    prop_assert!((0..SLACK as i64).contains(&begins), "{begins} at {further}: {uneven:?}");
                }
                let place = uneven.place(at(number)).expect("a place");
                prop_assert_eq!(uneven.page(place as i64), at(number) as i64);
                number += skip.min(uneven.certain());
                uneven.read(at(number));
                prop_assert_eq!((uneven.number, uneven.last), (number, at(number)));
            }
            let exact = distance * PAGE / 4096;
            prop_assert!(uneven.least - 1 <= exact && exact <= uneven.most + 1);
        }
    }
}
