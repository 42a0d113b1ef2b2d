//! Waste: the folios that were read ahead and dropped unread, the last of them.
//!
//! ```text
//!   note ──> | file 3, 0-32 | file 3, 64-96, thrashed | file 9, 0-1 |    the oldest falls out
//!              ^ the next one that touches it, and goes as it went, makes it longer
//! ```
//!
//! *Invariant:* there are [`LAST_MAX`] at most, in the order in which they were dropped.
//!
//! The file is to be looked at: nothing is decided by it. It does not count (`read::path`).
//! Source: own.

use alloc::collections::VecDeque;

use crate::units::{Extent, FileId, Nanos};

/// Pages that were read ahead and dropped unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wasted {
    /// The file.
    pub file: FileId,
    /// The pages.
    pub extent: Extent,
    /// When the last of them were dropped.
    pub at: Nanos,
    /// They were dropped for want of memory; else since no reader was expected any more.
    pub thrashed: bool,
}

/// The last of all.
#[derive(Debug, Default)]
pub(crate) struct Waste {
    last: VecDeque<Wasted>,
}

impl Waste {
    /// `wasted` has been dropped now.
    pub(crate) fn note(&mut self, wasted: Wasted) {
        if let Some(last) = self.last.back_mut()
            && last.file == wasted.file
            && last.thrashed == wasted.thrashed
            && wasted.at.since(last.at) <= TOGETHER
            && let Some(extent) = joined(last.extent, wasted.extent)
        {
            (last.extent, last.at) = (extent, wasted.at);
            return;
        }
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(wasted);
    }

    /// The last of all, the oldest first.
    pub(crate) fn last(&self) -> impl Iterator<Item = &Wasted> {
        self.last.iter()
    }
}

/// Both, if one begins where the other ends.
fn joined(one: Extent, other: Extent) -> Option<Extent> {
    let touches = one.end == other.start || other.end == one.start;
    touches.then(|| Extent::new(one.start.min(other.start), one.end.max(other.end)))
}

/// Pieces that are kept. Lower: of much waste at a time less is seen. Higher: more memory, 48
/// bytes each. Source: a guess: 12 KiB.
const LAST_MAX: usize = 256;

/// Pieces that touch and are dropped within this time are one, 100 ms. Lower: more pieces. Higher:
/// it is seen less exactly when they went. Source: a guess: a tenth of what is looked at at a
/// time.
const TOGETHER: Nanos = Nanos::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn wasted(file: u64, start: u64, ms: u64, thrashed: bool) -> Wasted {
        let extent = Extent::new(start, start + 32);
        Wasted { file: FileId(file), extent, at: Nanos::from_millis(ms), thrashed }
    }

    #[test]
    fn what_touches_and_goes_together_is_one_piece() {
        let mut waste = Waste::default();
        // Forward, and as the budget drops them: the last one first.
        for start in [32, 64, 0] {
            waste.note(wasted(1, start, 10, false));
        }
        let all = Wasted { extent: Extent::new(0, 96), ..wasted(1, 0, 10, false) };
        assert!(waste.last().eq([&all]), "{waste:?}");
        for other in [wasted(1, 96, 10, true), wasted(2, 128, 10, true), wasted(2, 160, 500, true)] {
            waste.note(other);
        }
        assert_eq!(waste.last().count(), 4, "of another kind, file and time: {waste:?}");
    }

    #[test]
    fn the_oldest_falls_out() {
        let mut waste = Waste::default();
        (0..1_000).for_each(|nth| waste.note(wasted(nth, 0, nth, false)));
        assert_eq!((waste.last().count(), waste.last().next().map(|first| first.file)), (256, Some(FileId(744))));
    }
}
