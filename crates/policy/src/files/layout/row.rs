//! How much is fetched behind columns that are read side by side and were not planned.
//!
//! ```text
//!   from the first column   | 0 | 1 | 2   3 | 4   5 ... all        as much again, then four times
//!   from another one        | 3 | 4 | 5 | 6 | 7 | 8   9 ... all    after four columns
//!                                            ^ read  ^ fetched
//! ```
//!
//! A reader of a whole row begins with the first column. One of a few columns may do so, too, and
//! what is fetched behind these is fetched in vain: once for each file, since the next group says
//! which columns are read, and others than these have to be read farther (`bursts`). So a row
//! grows from the first column as soon as there are two of it, and from any other one when there
//! are more than queries read side by side.
//!
//! The file does not fetch, and does not know what was (`layout`). Source: the growth of a stream
//! (`window`); docs/decisions/0098.

use crate::files::window::TRUST;

/// Pages that are fetched behind a row of so many `columns` of so many `pages`, which is
/// `first` in its group, or not.
pub(super) fn ahead(columns: usize, first: bool, pages: u64) -> u64 {
    match (columns, first) {
        (0..ROW_FIRST, true) | (0..=ROW, false) => 0,
        (ROW_FIRST..=ROW, true) => pages,
        (columns, false) if columns < 2 * ROW => pages * (columns - ROW) as u64 / columns as u64,
        _ => pages * TRUST,
    }
}

/// Columns from the first one that are read before those behind are fetched. Lower: a query of
/// the first column alone fetches another one in vain. Higher: a reader of a whole row waits for
/// one column after the other. Source: chosen here.
const ROW_FIRST: usize = 2;

/// Columns from another one that are read before the next one is fetched. Lower: with two, a query
/// of three columns fetches a fourth one of each file in vain, a seventh of what it reads of a
/// file with few groups. Higher: a reader of a whole row waits for more columns. Source:
/// `python/tests/test_bench.py`, which wants a twentieth.
const ROW: usize = 3;

/// Columns of a row that are looked at. Lower: less is fetched behind a row of many short columns.
/// Higher: each read of such a row compares more. Source: chosen here; four times as many are
/// fetched.
pub(super) const ROW_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_grows_from_the_first_column_after_two() {
        let first = |columns| ahead(columns, true, 100 * columns as u64);
        assert_eq!([1, 2, 3, 4].map(first), [0, 200, 300, 1_600]);
    }

    #[test]
    fn a_row_grows_from_another_column_after_three() {
        let other = |columns| ahead(columns, false, 100 * columns as u64);
        assert_eq!([2, 3, 4, 5, 6].map(other), [0, 0, 100, 200, 2_400]);
    }
}
