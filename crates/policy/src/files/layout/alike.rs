//! Files that are read alike: columns that the readers of the latest files have read.
//!
//! ```text
//!   file 1   read: a c      ─┐
//!   file 2   read: a c f    ─┴─> both: a c
//!   file 3   a is read: c is fetched beside it, and of the next groups if both went on to these
//! ```
//!
//! A data set is many files with the same columns, and a query reads the same ones of each. What
//! both of two files in a row had read is read of the next one, too. A look-up of a row reads the
//! columns of its condition in all files, and the others in the file that has the row: these are
//! not of both.
//!
//! *Invariant:* at most [`COLUMNS_MAX`] columns are remembered; files with another number of
//! columns are not alike.
//!
//! The file does not know what a file's readers have read (`read::path::columns`). Source:
//! docs/decisions/0103.

use alloc::vec::Vec;

/// What was read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// How many columns it has.
    pub(crate) width: u32,
    /// Those that were read, ascending.
    pub(crate) columns: Vec<u32>,
    /// They were read in several groups.
    pub(crate) goes_on: bool,
}

/// What was read of the latest files.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    latest: Option<Read>,
    both: Option<Read>,
}

impl Alike {
    /// A file was closed of which `read` was read.
    pub(crate) fn closed(&mut self, mut read: Read) {
        read.columns.truncate(COLUMNS_MAX);
        self.both = self.latest.as_ref().filter(|before| before.width == read.width).map(|before| Read {
            width: read.width,
            columns: read.columns.iter().copied().filter(|at| before.columns.binary_search(at).is_ok()).collect(),
            goes_on: read.goes_on && before.goes_on,
        });
        self.latest = Some(read);
    }

    /// What will be read of a file with so many columns.
    pub(crate) fn of(&self, width: u32) -> Option<&Read> {
        self.both.as_ref().filter(|both| both.width == width && !both.columns.is_empty())
    }
}

/// Columns of a file that are remembered. Lower: of queries of more columns, some are not fetched
/// with the first. Higher: more to compare with, for each file. Source: chosen here; queries of
/// more columns read rows (`row`).
const COLUMNS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &[u32], goes_on: bool) -> Read {
        Read { width: 10, columns: columns.to_vec(), goes_on }
    }

    #[test]
    fn what_two_files_in_a_row_had_read_is_read_of_the_next() {
        let mut alike = Alike::default();
        assert_eq!(alike.of(10), None);
        alike.closed(read(&[1, 4, 7], true));
        assert_eq!(alike.of(10), None, "one file shows nothing");
        alike.closed(read(&[1, 7, 9], true));
        assert_eq!(alike.of(10), Some(&read(&[1, 7], true)));
        assert_eq!(alike.of(11), None, "another table");
        alike.closed(read(&[1, 7], false));
        assert_eq!(alike.of(10), Some(&read(&[1, 7], false)));
    }

    #[test]
    fn a_row_in_one_of_many_files_is_not_looked_for_in_the_others() {
        let mut alike = Alike::default();
        alike.closed(read(&[0], true));
        alike.closed(read(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], true));
        assert_eq!(alike.of(10), Some(&read(&[0], true)));
        alike.closed(read(&[0], true));
        assert_eq!(alike.of(10), Some(&read(&[0], true)));
        alike.closed(read(&[3], true));
        assert_eq!(alike.of(10), None, "nothing in common");
    }
}
