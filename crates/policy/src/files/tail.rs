//! The end of a file, fetched with a read that comes close to it.
//!
//! ```text
//!   . . . . . [ read ][ end ]      one request: what follows the read is no longer than the read
//!   . . [ read ][ . . . . . ]      its own pages: the end is farther away
//! ```
//!
//! Parquet, ORC and zip keep their directory at the end of the file. A program reads it first, and
//! the kernel cuts its read at the end of a window: the last page would be one round trip more.
//!
//! *Invariant:* no more pages are added than the read has, and none past the end of the file.
//!
//! The file does not know what is resident, and makes no request (`read::path::plan`). Source: a
//! random read fetches at most as many pages again; docs/decisions/0059.

use crate::units::Extent;

/// `read`, with the rest of a file of `file_pages` pages; `None` where that is nothing, or longer
/// than the read.
pub(crate) fn with_end(read: Extent, file_pages: u64) -> Option<Extent> {
    let rest = file_pages.saturating_sub(read.end);
    (rest > 0 && rest <= read.pages()).then(|| Extent::new(read.start, file_pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_the_end_with_it_if_that_is_no_longer_than_itself() {
        assert_eq!(with_end(Extent::new(67, 99), 100), Some(Extent::new(67, 100)));
        assert_eq!(with_end(Extent::new(36, 68), 100), Some(Extent::new(36, 100)));
        assert_eq!(with_end(Extent::new(35, 67), 100), None);
        assert_eq!(with_end(Extent::new(98, 99), 100), Some(Extent::new(98, 100)));
        assert_eq!(with_end(Extent::new(97, 98), 100), None);
        assert_eq!(with_end(Extent::new(68, 100), 100), None, "it is there already");
        assert_eq!(with_end(Extent::new(90, 110), 100), None);
    }
}
