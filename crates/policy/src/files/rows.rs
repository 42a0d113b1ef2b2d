//! The rows of a progression that is read again and again, each time one record on: a reader of
//! columns, or one that takes many streams in turn.
//!
//! ```text
//!   page     0        d        2d            0+p      d+p      2d+p         0+2p
//!   read     |==|---->|==|---->|==|          |==|---->|==|---->|==|         |==|---->
//!            the first row                   the next one                   and so on
//!
//!   fetched  in each column at once: 1 record, 2, 4, 8 . . . as many as there is room for
//!            |==|     |==|     |==|          |==|==|  |==|==|  |==|==|      |==|==|==|==|
//!   place    0        d        2d            3d       4d       5d           6d
//! ```
//!
//! What is fetched lies at *places* that go on evenly from one row to the next. The stream counts
//! in places. Before a second row was shown places are pages.
//!
//! *Invariant:* [`Rows::page`] and [`Rows::place`] are inverse to each other.
//!
//! A kernel above that reads ahead does so in each column: it asks for more than a record. Such a
//! progression has no rows; its columns are streams of their own.
//!
//! The file does not decide how far ahead is read (`window`). Source: the two nested loops of a
//! program that goes through a matrix against the order in which it is stored; the height of a row
//! doubles as a window does. docs/decisions/0092.

use crate::units::Extent;

/// The rows of a progression that goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// The first page of the first record.
    first: u64,
    /// Pages from one record to the next.
    delta: u64,
    /// The record with which the reader may have begun another row, as far as it was read.
    begun: Option<Extent>,
    /// Whether a record was read beyond its end: it is the start of a stream of its own.
    go_on: bool,
    /// What a second row has shown.
    shown: Option<Shown>,
}

/// Rows that were shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// Records of a row.
    columns: u64,
    /// Pages of a record.
    pages: u64,
    /// The tallest row has so many records in a column, as a power of two.
    tallest: u32,
}

impl Shown {
    /// Records of one column that come before those of `row`.
    fn before(self, row: u64) -> u64 {
        let doubling = row.min(u64::from(self.tallest));
        (1 << doubling) - 1 + ((row - doubling) << self.tallest)
    }

    /// Records of one column that `row` has.
    fn height(self, row: u64) -> u64 {
        1 << row.min(u64::from(self.tallest))
    }

    /// The row of a record, of which `before` come first in its column.
    fn row(self, before: u64) -> u64 {
        let doubled = (1 << self.tallest) - 1;
        match before.checked_sub(doubled) {
            Some(more) => u64::from(self.tallest) + (more >> self.tallest),
            None => u64::from((before + 1).ilog2()),
        }
    }
}

impl Rows {
    /// The rows of a progression that began at page `first`.
    pub(crate) fn new(first: u64, delta: u64) -> Self {
        Self { first, delta, begun: None, go_on: false, shown: None }
    }

    /// Whether `read` is the second one of the next row, after one that went to the record at
    /// `last`, with records of `pages`. If so, that is the first row from now on. All of a row is
    /// to take no more than half of `room` pages.
    ///
    /// Nothing of that counts while `others_wait`: readers that go side by side lie at such places
    /// as well, and each goes on by itself. Nor does it where a read goes on behind a record: a
    /// kernel above reads ahead in each column, and asks for pieces of the next rows.
    pub(crate) fn begins(&mut self, read: Extent, last: u64, pages: u64, room: u64, others_wait: bool) -> bool {
        let columns = last.saturating_sub(self.first) / self.delta + 1;
        if self.shown.is_some() || self.go_on || columns < COLUMNS_MIN || room == 0 || others_wait {
            return false;
        }
        match &mut self.begun {
            Some(begun) if begun.end == read.start => {
                begun.end = read.end;
                self.go_on = begun.pages() > pages;
                false
            }
            Some(begun) if begun.start + self.delta == read.start && begun.pages() == pages => {
                let records = (room / (2 * columns * pages)).min(PART_PAGES_MAX / pages).min(self.delta / pages).max(1);
                self.first = begun.start;
                self.shown = Some(Shown { columns, pages, tallest: records.ilog2() });
                true
            }
            _ => {
                if read.start == self.first + pages {
                    self.begun = Some(read);
                }
                false
            }
        }
    }

    /// Whether `read`, after one that ended at `last_end`, goes on from one row to the next
    /// without any other record in between. Of the reads of a row only the first of each part is
    /// sure to be told.
    pub(crate) fn goes_on(&self, read: Extent, last_end: u64) -> bool {
        let begins_part = || Some(self.part(self.place(read.start)?)?.start == read.start);
        read.start == last_end && begins_part() == Some(true)
    }

    /// A record was read beyond its end: there are no rows.
    pub(crate) fn end(&mut self) {
        (self.shown, self.go_on) = (None, true);
    }

    /// The first page of the first record of what was shown so far.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Whether a second row was shown.
    pub(crate) fn are_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// The place of `page`; `None` if it lies in no row.
    pub(crate) fn place(&self, page: u64) -> Option<u64> {
        let Some(shown) = self.shown else { return Some(page) };
        let away = page.checked_sub(self.first)?;
        let (column, within) = (away / self.delta, away % self.delta);
        let row = shown.row(within / shown.pages);
        let within = within - shown.before(row) * shown.pages;
        (column < shown.columns).then(|| self.first + (row * shown.columns + column) * self.delta + within)
    }

    /// The page at `place`; `None` behind the last row.
    pub(crate) fn page(&self, place: u64) -> Option<u64> {
        let Some(shown) = self.shown else { return Some(place) };
        let (row, column, within) = self.split(place, shown)?;
        let within = shown.before(row) * shown.pages + within;
        (within < self.delta).then(|| self.first + column * self.delta + within)
    }

    /// The pages of the part that begins at `place`; `None` if no second row was shown, or behind
    /// the last one.
    pub(crate) fn part(&self, place: u64) -> Option<Extent> {
        let shown = self.shown?;
        let (row, column, _) = self.split(place, shown)?;
        let start = shown.before(row) * shown.pages;
        let end = (start + shown.height(row) * shown.pages).min(self.delta);
        let page = self.first + column * self.delta;
        (start < end).then(|| Extent::new(page + start, page + end))
    }

    /// Whether what lies at `place` is fetched in the same row as what lies at `other`.
    pub(crate) fn are_of_one_row(&self, place: u64, other: u64) -> bool {
        let row = |place| Some(self.split(place, self.shown?)?.0);
        row(place).is_some_and(|of_place| row(other) == Some(of_place))
    }

    /// The row and the column of `place`, and how far behind the start of its part it lies.
    fn split(&self, place: u64, shown: Shown) -> Option<(u64, u64, u64)> {
        let away = place.checked_sub(self.first)?;
        let number = away / self.delta;
        Some((number / shown.columns, number % shown.columns, away % self.delta))
    }
}

/// Records of a row, at least. Lower: a few streams that one reader takes in turn are read record
/// by record at first, where windows of their own would make longer requests. Higher: streams in
/// turn that are fewer are found one by one, each after a wait. Source: docs/decisions/0092.
const COLUMNS_MIN: u64 = 32;

/// Pages of the records of one column that come at once, at most: 2 MiB. Lower: more requests for
/// the same bytes. Higher: the reader waits for longer where a row begins. Source: a guess, not
/// measured; at 80 MB/s their bytes take as long as their first byte.
const PART_PAGES_MAX: u64 = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The record at `page`.
    fn record(page: u64) -> Extent {
        Extent::new(page, page + 4)
    }

    /// Rows whose second one begins at page 104, with records of 4 pages 1,000 apart.
    fn shown(columns: u64, room: u64) -> Option<Rows> {
        let (mut rows, last) = (Rows::new(100, 1_000), 100 + (columns - 1) * 1_000);
        assert!(!rows.begins(record(104), last, 4, room, false), "one read is no row");
        rows.begins(record(1_104), last, 4, room, false).then_some(rows)
    }

    #[test]
    fn two_reads_at_its_places_show_the_next_row() {
        assert_eq!(shown(31, 8), None);
        let rows = shown(41, 8).expect("a row of 41 records");
        assert_eq!(rows.place(2_104), Some(2_104));
        assert_eq!(rows.place(108), Some(104 + 41 * 1_000), "the next row");
        assert_eq!(rows.place(41_104), None, "beyond the last column");
        assert!(rows.are_of_one_row(2_104, 40_104) && !rows.are_of_one_row(104, 104 + 41 * 1_000));
        let (mut rows, again) = (rows, 104 + 40 * 1_000);
        assert!(
            !rows.begins(record(108), again, 4, 8, false) && !rows.begins(record(1_108), again, 4, 8, false),
            "it goes on by itself"
        );
    }

    #[test]
    fn readers_side_by_side_have_no_rows() {
        let (mut rows, last) = (Rows::new(100, 1_000), 100 + 63 * 1_000);
        assert!(!rows.begins(record(104), last, 4, 8, true) && !rows.begins(record(1_104), last, 4, 8, true));
    }

    #[test]
    fn reading_the_same_records_again_is_no_next_row() {
        let mut rows = Rows::new(100, 1_000);
        assert!(!rows.begins(record(100), 40_100, 4, 8, false) && !rows.begins(record(1_100), 40_100, 4, 8, false));
    }

    #[test]
    fn a_record_may_be_told_in_pieces() {
        let (mut rows, last) = (Rows::new(100, 1_000), 100 + 63 * 1_000);
        for piece in [(104, 106), (106, 108), (1_104, 1_106)] {
            let piece = Extent::new(piece.0, piece.1);
            assert_eq!(rows.begins(piece, last, 4, 8, false), piece.start == 1_104);
        }
    }

    #[test]
    fn what_is_read_beyond_a_record_shows_no_row() {
        let (mut rows, last) = (Rows::new(100, 1_000), 100 + 63 * 1_000);
        for start in [104, 108, 1_104, 1_108, 104, 1_104] {
            assert!(!rows.begins(record(start), last, 4, 8, false), "{start}");
        }
        let mut rows = shown(100, 2 * 100 * 4 * 2).expect("a row of 100 records");
        assert!(!rows.goes_on(record(1_104), 108), "the next record of its row");
        assert!(!rows.goes_on(record(112), 112), "the second record of a part: those between were resident");
        assert!(rows.goes_on(record(108), 108), "a part that follows another");
        rows.end();
        assert!(!rows.are_shown() && !rows.begins(record(104), last, 4, 8, false));
    }

    #[test]
    fn rows_grow_as_tall_as_there_is_room_for() {
        let rows = shown(100, 2 * 100 * 4 * 5).expect("a row of 100 records");
        let part = |row: u64| rows.part(104 + row * 100 * 1_000).expect("a part");
        assert_eq!([part(0), part(1), part(2)], [(104, 108), (108, 116), (116, 132)].map(|(a, b)| Extent::new(a, b)));
        assert_eq!(part(3), Extent::new(132, 148), "no taller than four records: there is room for five");
        assert_eq!(shown(100, 1 << 40).and_then(|rows| rows.part(104 + 6 * 100 * 1_000)).map(Extent::pages), Some(256));
    }

    proptest! {
        #[test]
        fn a_place_has_one_page(first in 0..1_000_u64, delta in 8..5_000_u64, columns in COLUMNS_MIN..200, pages in 1..8_u64, tallest in 0..6_u32, at: u64) {
            let shown = Shown { columns, pages, tallest };
            let rows = Rows { first, delta, begun: None, go_on: false, shown: Some(shown) };
            let page = first + at % (delta * columns);
            let place = rows.place(page).expect("it lies in a row");
            prop_assert_eq!(rows.page(place), Some(page));
            let part = rows.part(place).expect("a part");
            prop_assert!(part.contains(page) && part.pages() <= pages << tallest);
        }
    }
}
