//! What comes along with a random read: the rest of a block of which a part has been read.
//!
//! ```text
//!   |  read  |  ----  |  this  |  ----  |  ----  |  read  |  ----  |  ----  |
//!   |<-------------- more than a quarter of it has been read -------------->|
//!            [- one request for what is missing, across what is resident ---]
//! ```
//!
//! Programs return to some places more than to others: an index, the hot part of a table. A place of which a good part has been
//! read, and more than random reads of the file would leave there by chance, is one. Its rest comes with one request in place of
//! one for each read, as far as what that saves pays for it even if only one in four is made use of, and as long as no more comes
//! along than random reads have fetched. Origin: the kernel's read-around of faults, with evidence in place of its fixed size; and
//! data sieving (Thakur et al., 1999), which reads past what it does not need rather than ask twice.

use crate::units::Extent;

/// How much of a file has been read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRead {
    pub(crate) pages: u64,
    pub(crate) read_pages: u64,
}

impl FileRead {
    /// Whether a block of `pages` of which `known` have been read is nothing special in this file: within [`DEVIATIONS`] of what random
    /// reads of `record` pages leave in a block of its size.
    fn has_by_chance(self, known: u64, pages: u64, record: u64) -> bool {
        let expected = self.read_pages * pages / self.pages.max(1);
        known <= expected + DEVIATIONS * (expected * record).isqrt() + record
    }
}

/// The largest block around `read` whose rest pays, if any. `read_in` tells how many pages of an extent have been read, `cost_ns` what
/// a request for some pages takes.
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

/// The largest block, 2 MiB. With 4 MiB nothing was gained.
const BLOCK_PAGES_MAX: u64 = 512;

/// A block is worth a thought from a quarter on. With a half a table of which a sixth is hot is read no faster than by reading ahead
/// blindly, with a quarter a tenth faster (sysbench-oltp).
const KNOWN_SHARE: u64 = 4;

/// Standard deviations above what chance gives, of a Poisson distribution. With fewer, one in a thousand blocks of a file that is read
/// at random looks hot.
const DEVIATIONS: u64 = 4;

/// One in four of the requests that are saved must pay for the block: lower and more is fetched that nobody comes to, higher and the hot
/// part of a table comes later.
const USED_SHARE: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_PAGES: u64 = 10_000;

    /// 7 ms to position, 62 MB/s.
    fn disk(pages: u64) -> u64 {
        7_000_000 + pages * 66_000
    }

    fn around(read: Extent, known: &[Extent]) -> Option<Extent> {
        let read_in = |within: Extent| {
            let common = |e: &Extent| e.end.min(within.end).saturating_sub(e.start.max(within.start));
            known.iter().map(common).sum()
        };
        let read_pages = known.iter().map(|e| e.pages()).sum();
        block(read, FileRead { pages: FILE_PAGES, read_pages }, read_in, disk)
    }

    #[test]
    fn nothing_comes_along_where_little_has_been_read() {
        assert_eq!(around(Extent::new(1024, 1028), &[]), None);
        assert_eq!(around(Extent::new(1024, 1028), &[Extent::new(2048, 2560)]), None);
    }

    #[test]
    fn the_rest_of_a_block_comes_along_once_it_pays() {
        let every_third: [Extent; 42] =
            core::array::from_fn(|n| Extent::new(1024 + 12 * n as u64, 1028 + 12 * n as u64));
        assert_eq!(around(Extent::new(1028, 1032), &every_third), Some(Extent::new(1024, 1536)));
        assert_eq!(around(Extent::new(1028, 1032), &every_third[..2]), None, "three requests do not pay for one");
    }

    #[test]
    fn large_reads_pay_for_themselves() {
        let others = [Extent::new(1024, 1120), Extent::new(1280, 1408)];
        assert_eq!(around(Extent::new(1152, 1184), &others), None);
    }

    #[test]
    fn a_block_ends_with_the_file() {
        let known = [Extent::new(9_728, 9_860)];
        assert_eq!(around(Extent::new(9_996, 10_000), &known), Some(Extent::new(9_728, 10_000)));
    }
}
