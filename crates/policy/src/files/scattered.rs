//! Scattered: a small file that is read in no order comes whole, once enough of it was read.
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
//! *Invariant:* what is fetched is no more than sixteen times what was read, and takes no more
//! time than readers have waited. It is not bought: it is fetched while half of the budget is
//! free, or what was fetched beside random reads is used (`Budget::prefers_nearby`).
//!
//! The file counts what it is told. It does not know which reads had to wait, and does not fetch
//! (the read path). Source: docs/decisions/0122.

use crate::files::sparse::AMPLIFICATION_MAX;
use crate::units::{Extent, PAGE_BYTES};

/// The random reads of a file that had to wait, since it last came whole.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scattered {
    reads: u64,
    pages: u64,
}

impl Scattered {
    /// One more `read`.
    pub(crate) fn note(&mut self, read: Extent) {
        self.reads += 1;
        self.pages += read.pages();
    }

    /// Whether the rest of a file of so many pages is worth fetching, in a budget of so many.
    /// `cost_ns` says what a request for some pages costs.
    pub(crate) fn is_worth(self, file_pages: u64, room_pages: u64, cost_ns: impl Fn(u64) -> u64) -> bool {
        let is_small = file_pages <= SCATTERED_PAGES_MAX.min(room_pages / SCATTERED_SHARE);
        let is_dense = self.reads >= SCATTERED_READS_MIN && file_pages <= AMPLIFICATION_MAX * self.pages;
        is_small && is_dense && cost_ns(file_pages) <= self.reads * cost_ns(1)
    }
}

/// The longest file that comes whole after random reads, in pages: 16 MiB. Lower: archives of a
/// few megabytes are read member by member. Higher: more is fetched of tables of which a part is
/// read. Source: chosen here; docs/decisions/0122.
const SCATTERED_PAGES_MAX: u64 = (16 << 20) / PAGE_BYTES;

/// The reads after which it may. Lower: programs that read the head and the end of each of many
/// files have all of them. Higher: small archives are read member by member for longer. Source: a
/// guess, not measured.
const SCATTERED_READS_MIN: u64 = 8;

/// Divisor of the budget for the longest such file. Lower: one file pushes others out. Higher:
/// small budgets have no such file whole. Source: chosen here; 8 MiB of 64 MiB.
const SCATTERED_SHARE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many reads of so many pages, in no order, the rest of a file comes, where a first
    /// byte takes as long as so many pages.
    fn reads(pages: u64, file_pages: u64, first_byte: u64) -> Option<u64> {
        let mut scattered = Scattered::default();
        (1..1_000).find(|_| {
            scattered.note(Extent::new(0, pages));
            scattered.is_worth(file_pages, 1 << 16, |pages| first_byte + pages)
        })
    }

    #[test]
    fn what_is_fetched_for_random_reads_is_bounded_in_bytes_and_in_time() {
        assert_eq!(reads(5, 2_400, 600), Some(30), "sixteen times what was read");
        assert_eq!(reads(5, 2_400, 30), Some(79), "as long as was waited");
        assert_eq!(reads(5, 4_097, 600), None, "too long");
    }
}
