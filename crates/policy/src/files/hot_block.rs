//! What is fetched along with a random read: the rest of a hot block around it.
//!
//! ```text
//!   |  read  |  ----  |  this  |  ----  |  ----  |  read  |  ----  |  ----  |
//!   |<-------------- more than a quarter of it has been read -------------->|
//!            [- one request for the missing pages, across resident ones ----]
//! ```
//!
//! Programs return to some places more than to others: an index, the hot part of a table. A block
//! is hot when more than a quarter of it has been read, and more than random reads of the file
//! would leave there by chance. Its rest is fetched with one request in place of one for each
//! read, if the requests that this saves pay for the whole block even when only one in four of
//! them would have been made.
//!
//! *Invariants:* a block is a power of two of pages, aligned to its size, and ends with the file
//! at the latest. It holds the read.
//!
//! The file does not say which pages are missing, or how many may be fetched this way in all
//! (`read::path::plan`: no more than random reads have asked for). Source: docs/decisions/0010;
//! the kernel's read-around of faults, with evidence in place of its fixed size; and data sieving
//! (Thakur et al., 1999), which reads past data it does not need rather than ask twice.

use crate::units::Extent;

/// How large a file is, and how much of it is resident and has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRead {
    pub(crate) pages: u64,
    pub(crate) read_pages: u64,
}

impl FileRead {
    /// Whether `known` read pages in a block of `pages` are nothing special in this file: within
    /// [`DEVIATIONS`] of the number that random reads of `record` pages leave in such a block.
    fn has_by_chance(self, known: u64, pages: u64, record: u64) -> bool {
        let expected = self.read_pages * pages / self.pages.max(1);
        known <= expected + DEVIATIONS * (expected * record).isqrt() + record
    }
}

/// The largest block around `read` that is worth fetching whole, if any. `read_in` returns how
/// many pages of an extent have been read, `cost_ns` the time that a request for some pages takes.
pub(crate) fn block(
    read: Extent,
    file: FileRead,
    read_in: impl Fn(Extent) -> u64,
    cost_ns: impl Fn(u64) -> u64,
) -> Option<Extent> {
    let mut pages = read.pages().next_power_of_two();
    let (mut counted, mut known) = (read, read.pages());
    let mut worth = None;
    while pages <= BLOCK_PAGES_MAX {
        let start = read.start / pages * pages;
        let block = Extent::new(start, (start + pages).min(file.pages));
        if block.end < read.end {
            break;
        }
        known += read_in(Extent::new(block.start, counted.start)) + read_in(Extent::new(counted.end, block.end));
        counted = block;
        let saved_ns = block.pages().saturating_sub(known) / read.pages() * cost_ns(read.pages());
        let dense = known * KNOWN_SHARE > block.pages() && !file.has_by_chance(known, block.pages(), read.pages());
        if dense && cost_ns(block.pages()) * USED_SHARE <= saved_ns {
            worth = Some(block);
        }
        pages *= 2;
    }
    worth
}

/// Pages of the largest block: 2 MiB. Lower: a hot place takes more requests. Higher: nothing
/// gained at 4 MiB. Source: measured with `sysbench-oltp` in the simulator.
const BLOCK_PAGES_MAX: u64 = 512;

/// Divisor of a block: it can be hot when more than one page in this many has been read, a
/// quarter. Lower: blocks are fetched too late; with a half, a table of which a sixth is hot is
/// read no faster than by blind readahead. Higher: blocks that are not hot are fetched, and only
/// the test for chance is left. Source: docs/decisions/0010: `sysbench-oltp` 0.99 of the best with
/// a half, 1.12 with a quarter.
const KNOWN_SHARE: u64 = 4;

/// Standard deviations above the mean of chance, of a Poisson distribution. Lower: more blocks of
/// a file read at random look hot; with 3 one in a thousand does. Higher: a hot block is
/// recognised later. Source: docs/decisions/0010: without this test `sysbench-fileio` falls to .98
/// of the best.
const DEVIATIONS: u64 = 4;

/// The cost of a block is counted this many times: one in four of the requests that it saves must
/// pay for it. Lower: more is fetched that no reader comes to. Higher: the hot part of a table is
/// fetched later. Source: docs/decisions/0010.
const USED_SHARE: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_PAGES: u64 = 10_000;

    /// The cost in ns on a disk: 7 ms to position, 62 MB/s.
    fn disk(pages: u64) -> u64 {
        7_000_000 + pages * 66_000
    }

    fn block_around(read: Extent, known: &[Extent]) -> Option<Extent> {
        let read_in = |within: Extent| {
            let common = |e: &Extent| e.end.min(within.end).saturating_sub(e.start.max(within.start));
            known.iter().map(common).sum()
        };
        let read_pages = known.iter().map(|e| e.pages()).sum();
        block(read, FileRead { pages: FILE_PAGES, read_pages }, read_in, disk)
    }

    #[test]
    fn no_block_is_fetched_where_little_has_been_read() {
        assert_eq!(block_around(Extent::new(1024, 1028), &[]), None);
        assert_eq!(block_around(Extent::new(1024, 1028), &[Extent::new(2048, 2560)]), None);
    }

    #[test]
    fn the_rest_of_a_block_is_fetched_once_it_pays() {
        let every_third: [Extent; 42] =
            core::array::from_fn(|n| Extent::new(1024 + 12 * n as u64, 1028 + 12 * n as u64));
        assert_eq!(block_around(Extent::new(1028, 1032), &every_third), Some(Extent::new(1024, 1536)));
        assert_eq!(block_around(Extent::new(1028, 1032), &every_third[..2]), None, "three requests do not pay for one");
    }

    #[test]
    fn large_reads_fetch_no_block() {
        let others = [Extent::new(1024, 1120), Extent::new(1280, 1408)];
        assert_eq!(block_around(Extent::new(1152, 1184), &others), None);
    }

    #[test]
    fn a_block_ends_with_the_file() {
        let known = [Extent::new(9_728, 9_860)];
        assert_eq!(block_around(Extent::new(9_996, 10_000), &known), Some(Extent::new(9_728, 10_000)));
    }
}
