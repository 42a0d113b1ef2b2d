//! Whether more runs of a file should be remembered: where forgotten ones ended, and how often
//! reads go on there.
//!
//! ```text
//!   old     |#| . . |#| . . . |#| . . .       runs beyond those that are always remembered, and
//!              ^       ^         ^            runs that were forgotten: a random read begins at
//!                                             one of their ends with a chance of
//!                                             number x its pages / pages of the file
//! ```
//!
//! Most runs end where they are. To remember them costs memory, and some of what is read near
//! them later is taken for theirs. But a reader that takes a thousand streams in no order comes
//! back to each after a thousand other reads. So forgotten runs leave their ends behind. A file
//! whose reads go on at such ends many times as often as random reads would has more runs
//! remembered.
//!
//! *Invariant:* no more ends than [`ENDS_MAX`].
//!
//! The file does not decide how many runs are remembered (`streams`). Source: the ghost lists of
//! caches that adapt; a likelihood ratio, with a margin for small numbers; docs/decisions/0093.

use alloc::collections::{BTreeSet, VecDeque};

/// The ends of forgotten runs, reads that went on at those or at old runs, and how many of them
/// random reads would have.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    ends: BTreeSet<u64>,
    /// The oldest first.
    order: VecDeque<u64>,
    reads: u32,
    went_on: u64,
    /// In parts of [`ONE`].
    by_chance: u64,
}

impl Forgotten {
    /// The memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.ends.len() as u64 * END_BYTES
    }

    /// A run or stream that ended before `page` was forgotten.
    pub(crate) fn push(&mut self, page: u64) {
        if self.ends.insert(page) {
            self.order.push_back(page);
        }
        if self.order.len() > ENDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
    }

    /// A read of `pages` from page `start` on of a file of `file_pages` belongs to no stream.
    /// Beside the forgotten ones there are `old` runs; `goes_on` says whether it continues one.
    pub(crate) fn count(&mut self, start: u64, pages: u64, file_pages: u64, old: usize, goes_on: bool) {
        let number = (old + self.ends.len()) as u64;
        self.by_chance += (number * pages * ONE).checked_div(file_pages).unwrap_or(ONE).min(ONE);
        self.went_on += u64::from(goes_on || self.ends.contains(&start));
        self.reads += 1;
        if self.reads == READS {
            (self.reads, self.went_on, self.by_chance) = (0, self.went_on / 2, self.by_chance / 2);
        }
    }

    /// Whether so many reads go on at old runs that it is not by chance.
    pub(crate) fn come_back(&self) -> bool {
        self.went_on * ONE > MORE * self.by_chance + LEAST * ONE
    }
}

/// Ends that are kept. Lower: of streams that are taken in no order fewer are noticed. Higher:
/// more memory for files that are read at random. Source: chosen here; of 16,000 streams, one read
/// in eight goes on at one of them.
const ENDS_MAX: usize = 2_048;

/// Memory of an end, in bytes. Lower: more is held than is charged. Higher: less memory for pages.
/// Source: a page number in the tree and in the order, and the tree's nodes.
const END_BYTES: u64 = 32;

/// One read, in the unit of what is expected. Lower: small chances count as none. Higher: no
/// effect. Source: chosen here; a read of one page beside one run of a file of 256 MiB.
const ONE: u64 = 1 << 16;

/// Reads after which those so far count for half. Lower: a few reads by chance are taken for
/// more. Higher: a program that begins to read at random is noticed later. Source: a guess, not
/// measured.
const READS: u32 = 4_096;

/// How many times as often as by chance reads must go on. Lower: random reads in clusters count
/// as streams. Higher: where streams are read beside random reads, they are found later. Source: a
/// guess, not measured.
const MORE: u64 = 8;

/// Reads that go on and do not count. Lower: a few random reads that lie so show streams. Higher:
/// the first streams are found later. Source: a guess, not measured.
const LEAST: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_reads_do_not_come_back_and_streams_do() {
        let mut forgotten = Forgotten::default();
        for nth in 0..1_000 {
            forgotten.push(nth * 2_000);
        }
        for nth in 0..10_000 {
            let start = if nth % 64 == 0 { 2_000 } else { 2_001 };
            forgotten.count(start, 32, 1 << 21, 0, false);
            assert!(!forgotten.come_back(), "{nth}");
        }
        for nth in 0..1_600 {
            forgotten.count(nth * 1_000, 32, 1 << 21, 0, false);
        }
        assert!(forgotten.come_back());
    }

    #[test]
    fn the_oldest_ends_are_given_up() {
        let mut forgotten = Forgotten::default();
        for page in 0..3 * ENDS_MAX as u64 {
            forgotten.push(page);
            forgotten.push(page);
        }
        assert_eq!((forgotten.ends.len(), forgotten.order.len()), (ENDS_MAX, ENDS_MAX));
        assert!(!forgotten.ends.contains(&0) && forgotten.ends.contains(&(3 * ENDS_MAX as u64 - 1)));
    }
}
