//! Files that are read alike: columns that the readers of other files have read.
//!
//! ```text
//!   file 1   read: a c      ─┐
//!   file 2   read: a c f    ─┴─> both: a c
//!   file 3   a is read: c is fetched beside it, and of the next groups if both went on to these
//!
//!   file 1   open, a and c were read in two groups
//!   file 2   a and c of a group were read: those of the next groups are fetched
//! ```
//!
//! A data set is many files with the same columns, and a query reads the same ones of each. What
//! both of two files in a row had read is read of the next one, too. A look-up of a row reads the
//! columns of its condition in all files, and the others in the file that has the row: these are
//! not of both. Nor does it read them in two groups: columns that were read in two groups of a
//! file that is open are what a reader of a file beside it goes on with, once it has read all of
//! them in a group.
//!
//! *Invariant:* at most [`COLUMNS_MAX`] columns are remembered; files with another number of
//! columns are not alike.
//!
//! The file does not know what a file's readers have read (`read::path::columns`). Source:
//! docs/decisions/0103, 0104.

use alloc::vec::Vec;

use crate::units::FileId;

/// What was read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// How many columns it has.
    pub(crate) width: u32,
    /// Those that were read, ascending.
    pub(crate) columns: Vec<u32>,
    /// They were read in several groups.
    pub(crate) goes_on: bool,
    /// How far ahead its reader wanted to be, in pages. 0 if that says nothing of others.
    pub(crate) ahead: u64,
}

/// What was read of the latest files.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    latest: Option<Read>,
    both: Option<Read>,
    /// What is read of a file that is open.
    open: Option<(FileId, Read)>,
}

impl Alike {
    /// These `columns` of `file`, which is open, were read in several of its groups.
    pub(crate) fn reads(&mut self, file: FileId, width: u32, columns: &[u32], ahead: u64) {
        let columns = &columns[..columns.len().min(COLUMNS_MAX)];
        match &mut self.open {
            Some((of, read)) if *of == file && read.columns == columns => read.ahead = ahead,
            open => *open = Some((file, Read { width, columns: columns.to_vec(), goes_on: true, ahead })),
        }
    }

    /// `file` was closed, of which `read` was read.
    pub(crate) fn closed(&mut self, file: FileId, mut read: Read) {
        self.open.take_if(|(open, _)| *open == file);
        read.columns.truncate(COLUMNS_MAX);
        self.both = self.latest.as_ref().filter(|before| before.width == read.width).map(|before| Read {
            width: read.width,
            columns: read.columns.iter().copied().filter(|at| before.columns.binary_search(at).is_ok()).collect(),
            goes_on: read.goes_on && before.goes_on,
            ahead: 0,
        });
        self.latest = Some(read);
    }

    /// What was read of both of the latest files, if they have so many columns.
    pub(crate) fn closed_of(&self, width: u32) -> Option<&Read> {
        self.both.as_ref().filter(|both| both.width == width && !both.columns.is_empty())
    }

    /// What is read of a file with so many columns that is open.
    pub(crate) fn open_of(&self, width: u32) -> Option<&Read> {
        self.open.as_ref().map(|(_, read)| read).filter(|read| read.width == width)
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
        Read { width: 10, columns: columns.to_vec(), goes_on, ahead: 0 }
    }

    #[test]
    fn what_two_files_in_a_row_had_read_is_read_of_the_next() {
        let mut alike = Alike::default();
        assert_eq!(alike.closed_of(10), None);
        alike.closed(FileId(1), read(&[1, 4, 7], true));
        assert_eq!(alike.closed_of(10), None, "one file shows nothing");
        alike.closed(FileId(1), read(&[1, 7, 9], true));
        assert_eq!(alike.closed_of(10), Some(&read(&[1, 7], true)));
        assert_eq!(alike.closed_of(11), None, "another table");
        alike.closed(FileId(1), read(&[1, 7], false));
        assert_eq!(alike.closed_of(10), Some(&read(&[1, 7], false)));
    }

    #[test]
    fn what_an_open_file_is_read_for_is_read_of_files_beside_it_until_it_is_closed() {
        let mut alike = Alike::default();
        alike.reads(FileId(1), 10, &[1, 4], 64);
        alike.reads(FileId(1), 10, &[1, 4], 256);
        assert_eq!(alike.open_of(10), Some(&Read { ahead: 256, ..read(&[1, 4], true) }));
        assert_eq!(alike.open_of(11), None, "another table");
        alike.closed(FileId(2), read(&[7], true));
        assert_eq!(alike.open_of(10).map(|read| &read.columns[..]), Some(&[1, 4][..]));
        alike.closed(FileId(1), read(&[1, 4], true));
        assert_eq!(alike.open_of(10), None);
    }

    #[test]
    fn a_row_in_one_of_many_files_is_not_looked_for_in_the_others() {
        let mut alike = Alike::default();
        alike.closed(FileId(1), read(&[0], true));
        alike.closed(FileId(1), read(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], true));
        assert_eq!(alike.closed_of(10), Some(&read(&[0], true)));
        alike.closed(FileId(1), read(&[0], true));
        assert_eq!(alike.closed_of(10), Some(&read(&[0], true)));
        alike.closed(FileId(1), read(&[3], true));
        assert_eq!(alike.closed_of(10), None, "nothing in common");
    }
}
