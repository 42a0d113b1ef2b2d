//! Ends: how much of a file is read from its start on, and how much of it up to its end.
//!
//! ```text
//!   file   |hhhhhhhh|..|hh|............................|..|tttt|
//!           head ────────>                                <──── tail
//!                    ^ a gap of up to 256 KiB: read out of turn
//! ```
//!
//! Programs that ask what files are (their types, tags, pictures in small, the headers of scans)
//! read the same ends of each. What is read in between is neither: it says nothing of the next
//! file.
//!
//! *Invariant:* neither end of a file that was read is longer than it, and they do not overlap:
//! the tail is what the head does not reach.
//!
//! This file does not decide what is fetched (`directories/heads`). Source: docs/decisions/0124.

use crate::units::{Extent, PAGE_BYTES};

/// The ends of a file, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ends {
    /// Pages from its start on.
    pub head: u32,
    /// Pages up to its end.
    pub tail: u32,
}

impl Ends {
    /// A reader is given `extent` of a file of `file_pages` pages of which these ends were read so
    /// far: the ends from then on.
    #[must_use]
    pub fn read(self, extent: Extent, file_pages: u64) -> Self {
        let (head, tail) = (u64::from(self.head), u64::from(self.tail));
        if extent.start <= head + GAP_PAGES {
            let head = head.max(extent.end.min(file_pages));
            Self { head: narrow(head), tail: narrow(tail.min(file_pages.saturating_sub(head))) }
        } else if extent.end + tail + GAP_PAGES >= file_pages {
            Self { tail: narrow(tail.max(file_pages.saturating_sub(extent.start))), ..self }
        } else {
            self
        }
    }

    /// Both together, in bytes.
    pub fn bytes(self) -> u64 {
        (u64::from(self.head) + u64::from(self.tail)) * PAGE_BYTES
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Where they lie in a file of so many pages: none of them twice.
    pub fn extents(self, file_pages: u64) -> impl Iterator<Item = Extent> {
        let head = u64::from(self.head).min(file_pages);
        let tail = file_pages.saturating_sub(self.tail.into()).max(head);
        [Extent::new(0, head), Extent::new(tail, file_pages)].into_iter().filter(|extent| extent.start < extent.end)
    }

    /// These ends of a file of so many pages, of `bytes` at most: the head is shortened last.
    #[must_use]
    pub fn within(self, file_pages: u64, bytes: u64) -> Self {
        let most = bytes / PAGE_BYTES;
        let head = u64::from(self.head).min(file_pages).min(most);
        let tail = u64::from(self.tail).min(file_pages - head).min(most - head);
        Self { head: narrow(head), tail: narrow(tail) }
    }

    /// What of these is in others as well.
    #[must_use]
    pub fn common(self, others: Self) -> Self {
        Self { head: self.head.min(others.head), tail: self.tail.min(others.tail) }
    }
}

/// `pages`, as the ends hold it: 16 TiB at most.
fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

/// How far behind a head a read may begin that is of it, in pages: 256 KiB. Lower: reads that a
/// kernel sends side by side, and that come out of turn, end a head. Higher: a program that reads
/// a part of a file near its start has what lies before that fetched in the next one. Source: a
/// guess, not measured; two of the kernel's reads.
const GAP_PAGES: u64 = (256 << 10) / PAGE_BYTES;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn read(file_pages: u64, reads: &[(u64, u64)]) -> (u32, u32) {
        let ends =
            reads.iter().fold(Ends::default(), |ends, &(start, end)| ends.read(Extent::new(start, end), file_pages));
        (ends.head, ends.tail)
    }

    #[test]
    fn reads_grow_an_end_in_any_order_and_those_between_do_not() {
        assert_eq!(read(1_000, &[(0, 32), (32, 64)]), (64, 0));
        assert_eq!(read(1_000, &[(32, 64), (0, 32)]), (64, 0));
        assert_eq!(read(1_000, &[(0, 1), (999, 1_000), (990, 999)]), (1, 10));
        assert_eq!(read(1_000, &[(0, 1), (500, 532), (999, 1_000)]), (1, 1));
        assert_eq!(read(1_000, &[(500, 532)]), (0, 0));
        assert_eq!(read(20, &[(0, 1), (19, 20)]), (20, 0), "a short file has a head only");
        assert_eq!(read(1_000, &[(900, 1_000), (0, 950)]), (950, 50), "the head comes first");
        assert_eq!(read(1_000, &[(900, 1_000), (0, 1_000)]), (1_000, 0), "all of it is head");
        assert_eq!(read(1_000, &[(0, 900), (999, 1_008)]), (900, 1), "no more than the file has");
    }

    #[test]
    fn ends_lie_within_their_file_and_apart() {
        let extents = |head, tail, pages| Ends { head, tail }.extents(pages).collect::<Vec<_>>();
        assert_eq!(extents(4, 2, 10), [Extent::new(0, 4), Extent::new(8, 10)]);
        assert_eq!(extents(8, 8, 10), [Extent::new(0, 8), Extent::new(8, 10)]);
        assert_eq!(extents(20, 1, 10), [Extent::new(0, 10)]);
        assert_eq!(extents(0, 1, 10), [Extent::new(9, 10)]);
        assert_eq!(extents(0, 0, 10), []);
        let ends = Ends { head: 8, tail: 8 };
        assert_eq!(ends.within(100, 10 * PAGE_BYTES), Ends { head: 8, tail: 2 });
        assert_eq!(ends.within(10, u64::MAX), Ends { head: 8, tail: 2 });
        assert_eq!(ends.within(100, 5 * PAGE_BYTES + 1), Ends { head: 5, tail: 0 });
    }
}
