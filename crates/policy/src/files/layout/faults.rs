//! Reads that a kernel makes for a fault of a mapping.
//!
//! ```text
//!   |---------------------------------|   a window: in its middle the page that was faulted for
//!                   ^
//!                    |----------------|   a program that calls: from that page on
//! ```
//!
//! Such a read says where its program is as exactly as one of a program that calls. Any window of
//! a stream may lie so that the start of a chunk is in its middle: one that begins where another
//! read ended is none.
//!
//! *Invariant:* the ends that are remembered are bounded.
//!
//! The file does not know chunks (`layout`). Source: `do_sync_mmap_readahead` of Linux 6.18;
//! docs/decisions/0114.

use alloc::collections::VecDeque;

use crate::units::Extent;

/// The latest reads of a file, which tell windows from faults.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Where those ended that were told.
    ends: VecDeque<u64>,
}

impl Faults {
    /// The page that was faulted for, if `read` may have been made for a fault.
    pub(super) fn page_of(&mut self, read: Extent) -> Option<u64> {
        let goes_on = self.ends.contains(&read.start);
        if self.ends.len() >= ENDS_KEPT {
            self.ends.pop_front();
        }
        self.ends.push_back(read.end);
        (!goes_on && FAULT_PAGES.contains(&read.pages())).then(|| read.start + read.pages() / 2)
    }

    /// No program reads the file any more.
    pub(super) fn release(&mut self) {
        self.ends.clear();
    }

    /// Memory that it takes besides itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u64>() * self.ends.capacity()
    }
}

/// Pages that a kernel reads at once for a fault of a mapping. Lower: a short read across the
/// start of a chunk is taken for one. Higher: so is a long one; and a window of more than 256
/// pages comes in several requests, none of which has its fault in the middle. Source: the
/// kernel's own window of 32 pages, and that of files that are read in pieces (`kernel_window`).
const FAULT_PAGES: core::ops::Range<u64> = 32..65;

/// Ends of reads that are remembered. Lower: where threads read side by side, a window of one is
/// taken for a fault. Higher: more to compare with. Source: chosen here; as those of a run
/// (`run`).
const ENDS_KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_begins_where_another_read_ended_is_no_fault() {
        let mut faults = Faults::default();
        assert_eq!(faults.page_of(Extent::new(84, 117)), Some(100));
        assert_eq!(faults.page_of(Extent::new(117, 150)), None);
        assert_eq!(faults.page_of(Extent::new(10, 42)), Some(26));
        faults.release();
        assert_eq!(faults.page_of(Extent::new(117, 150)), Some(133));
    }

    #[test]
    fn short_reads_and_requests_of_long_windows_are_none() {
        let mut faults = Faults::default();
        let reads = [1, 2, 31, 65, 256].map(|pages| faults.page_of(Extent::new(1_000 * pages, 1_001 * pages)));
        assert_eq!(reads, [None; 5]);
    }
}
