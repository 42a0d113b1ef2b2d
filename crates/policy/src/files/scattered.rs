//! Scattered: a small file that is read here and there comes whole, once enough of it was read.
//!
//! ```text
//!   reads     r    r r      r   r     r  r         r     each waits for a first byte
//!   then      |---r----r-r------r---r-----r--r---------r---|      the rest, a request each 1 MiB
//! ```
//!
//! Members of a small archive are read one here and one there, and each costs a first byte. What
//! lies between costs no more than they did, once there were many of them. A hot block does the
//! same for a part of a larger file (`hot_block`), a file that is read from its start comes whole
//! at once (`whole`).
//!
//! What is known of the order of the reads says how much is a fair bet. A directory of members
//! says that there are more, and a reader that goes forward with gaps is likely to come to the end
//! as it began. Of other reads nothing is known but how many there were.
//!
//! *Invariant:* what is fetched is no more than sixteen times what was read (of an archive 64
//! times; where gaps are read through, of what the reader has gone through), and takes no more
//! than twice the time that readers have waited. It is not bought: it is fetched while half of the
//! budget is free, or what was fetched beside random reads is used (`Budget::prefers_nearby`).
//!
//! The file counts what it is told. It does not know which reads had to wait, and does not fetch
//! (the read path). Source: docs/decisions/0122, 0125.

use crate::files::sparse::AMPLIFICATION_MAX;
use crate::units::{Extent, PAGE_BYTES};

/// The random reads of a file that had to wait, since it last came whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scattered {
    reads: u64,
    pages: u64,
    /// Where the first of them begins in the file, and the last one ends.
    from: u64,
    until: u64,
}

impl Scattered {
    /// One more `read`.
    pub(crate) fn note(&mut self, read: Extent) {
        self.from = if self.reads == 0 { read.start } else { self.from.min(read.start) };
        self.until = self.until.max(read.end);
        self.reads += 1;
        self.pages += read.pages();
    }

    /// Whether the rest of a file of so many pages is worth fetching, in a budget of so many.
    /// `cost_ns` says what a request for some pages costs.
    pub(crate) fn is_worth(self, file_pages: u64, room_pages: u64, order: Order, cost_ns: impl Fn(u64) -> u64) -> bool {
        let dense = |pages: u64, times: u64| pages <= times * self.pages;
        let (is_told, is_dense) = match order {
            Order::None => (false, dense(file_pages, AMPLIFICATION_MAX) && self.reads >= READS_MIN),
            Order::Members => (true, dense(file_pages, MEMBERS_AMPLIFICATION) && self.reads >= READS_MIN),
            Order::Gaps => (true, dense(self.until.saturating_sub(self.from), AMPLIFICATION_MAX)),
        };
        let (most, share, waited) =
            if is_told { (TOLD_PAGES_MAX, TOLD_SHARE, TOLD_WAITED) } else { (SCATTERED_PAGES_MAX, SCATTERED_SHARE, 1) };
        let is_small = file_pages <= most.min(room_pages / share);
        is_small && is_dense && cost_ns(file_pages) <= waited * self.reads * cost_ns(1)
    }
}

/// What is known of the order of the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing.
    None,
    /// They are of members of an archive.
    Members,
    /// They go through the file, with gaps between them.
    Gaps,
}

/// The longest file that comes whole after random reads, in pages: 16 MiB. Lower: archives of a
/// few megabytes are read member by member. Higher: more is fetched of tables of which a part is
/// read. Source: chosen here; docs/decisions/0122.
const SCATTERED_PAGES_MAX: u64 = (16 << 20) / PAGE_BYTES;

/// The reads after which it may, if they go through it in no order. Lower: programs that read the
/// head and the end of each of many files have all of them. Higher: small archives are read member
/// by member for longer. Source: a guess, not measured.
const READS_MIN: u64 = 8;

/// The longest file that comes whole where the order of its reads is known, in pages: 64 MiB.
/// Lower: archives of tens of megabytes are read member by member. Higher: more is fetched of
/// those of which some members are read. Source: chosen here; what s3fs reads with the first byte
/// is 50 MB.
const TOLD_PAGES_MAX: u64 = (64 << 20) / PAGE_BYTES;

/// The most that is fetched of an archive for what was read, its directory as well. Lower: with 16
/// members of 20 kB, a thousand of them, are read one by one up to the 52nd. Higher: more is
/// fetched for a few members. Source: measured; docs/decisions/0125.
const MEMBERS_AMPLIFICATION: u64 = 64;

/// How many times as long as readers have waited the rest may take where the order is known.
/// Lower: with 1, `tar -t` of 20 MB waits for nine headers in place of five at 30 ms. Higher:
/// more is fetched for readers that end soon. Source: measured; docs/decisions/0125.
const TOLD_WAITED: u64 = 2;

/// Divisor of the budget for the longest file where the order is known. Lower: one file pushes all
/// others out. Higher: small budgets have no archive whole. Source: chosen here; 32 MiB of 64 MiB,
/// while half of the budget is free.
const TOLD_SHARE: u64 = 2;

/// Divisor of the budget for the longest other file. Lower: one file pushes others out. Higher:
/// small budgets have no such file whole. Source: chosen here; 8 MiB of 64 MiB.
const SCATTERED_SHARE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many reads of `pages`, each a `step` behind the one before it, the rest of a file
    /// comes, where a first byte takes as long as so many pages.
    fn reads(order: Order, (pages, step): (u64, u64), file_pages: u64, first_byte: u64) -> Option<u64> {
        let mut scattered = Scattered::default();
        (1..1_000).find(|nth| {
            scattered.note(Extent::new(nth * step, nth * step + pages));
            scattered.is_worth(file_pages, 1 << 16, order, |pages| first_byte + pages)
        })
    }

    #[test]
    fn what_is_fetched_for_random_reads_is_bounded_in_bytes_and_in_time() {
        let reads = |pages, file_pages, first_byte| reads(Order::None, (pages, 0), file_pages, first_byte);
        assert_eq!(reads(5, 2_400, 600), Some(30), "sixteen times what was read");
        assert_eq!(reads(5, 2_400, 30), Some(79), "as long as was waited");
        assert_eq!(reads(5, 4_097, 600), None, "too long");
    }

    #[test]
    fn an_archive_comes_whole_sooner() {
        let reads = |pages, file_pages, first_byte| reads(Order::Members, (pages, 0), file_pages, first_byte);
        assert_eq!(reads(5, 4_800, 600), Some(15), "64 times what was read");
        assert_eq!(reads(6, 256, 600), Some(8), "the fewest reads");
        assert_eq!(reads(5, 4_800, 30), Some(78), "twice as long as was waited");
        assert_eq!(reads(5, 16_385, 600), None, "too long");
    }

    #[test]
    fn gaps_come_with_the_rest_by_what_was_gone_through() {
        let reads = |step, first_byte| reads(Order::Gaps, (1, step), 5_000, first_byte);
        assert_eq!([reads(5, 600), reads(15, 600)], [Some(5), Some(5)], "twice as long as was waited");
        assert_eq!(reads(17, 60), None, "more than sixteen times what was read");
    }
}
