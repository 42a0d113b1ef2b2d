//! Finds reads that lie a constant distance apart: strided and backward readers, interleaved or
//! not.
//!
//! ```text
//!   starts seen    a        b           c     a+d      b+e      a+2d     b+2e     a+3d
//!                  ^-----------------------------^-----------------^--------------^
//!   the newest start is s = a+3d: is there a start r with s-r = d, and r-d, and r-2d as well?
//!   yes ──> a progression of stride d       no ──> s is remembered, and the oldest forgotten
//! ```
//!
//! Only starts of *runs* are kept: a read that continues another is no start.
//!
//! *Invariants:* the starts of a progression were seen in its order. A record is no longer than
//! the distance to the next.
//!
//! The file does not decide what is read ahead for a progression (`window`). Source: stride
//! detection by arithmetic progressions; the number of points is measured here (see the
//! constants).

use alloc::collections::VecDeque;

/// One run of contiguous reads, while it is remembered.
#[derive(Debug, Clone, Copy)]
struct Run {
    id: u64,
    start: u64,
    pages: u64,
}

/// A progression that the newest run completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    /// From one record's first page to the next one's; negative for a backward reader.
    pub(crate) delta: i64,
    /// Pages of a record.
    pub(crate) pages: u64,
    /// Records seen, the newest included.
    pub(crate) records: u64,
}

/// The latest starts of runs in one file.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    runs: VecDeque<Run>,
}

impl Starts {
    /// Remembers that run `id` starts at `start`. Returns the progression that this completes, if
    /// any.
    pub(crate) fn push(&mut self, id: u64, start: u64, pages: u64) -> Option<Stride> {
        let found = self.progression(start, pages);
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(Run { id, start, pages });
        found
    }

    /// Run `id` has grown to `pages`, from `start`.
    pub(crate) fn grow(&mut self, id: u64, start: u64, pages: u64) {
        if let Some(run) = self.runs.iter_mut().rev().find(|r| r.id == id) {
            run.start = start;
            run.pages = pages;
        }
    }

    /// Run `id` turned out to be a part of another.
    pub(crate) fn forget(&mut self, id: u64) {
        self.runs.retain(|r| r.id != id);
    }

    /// The progression that a run of `pages` at `start` completes, if any.
    fn progression(&self, start: u64, pages: u64) -> Option<Stride> {
        // Most pages that are looked for are no start: the filter tells so without a scan.
        let mut filter = Filter::default();
        self.runs.iter().for_each(|run| filter.add(run.start as i64));
        // A reader leaves its starts in order. Three random starts lie in another order five times
        // of six.
        let at = |page: i64, later: usize| {
            filter.may_have(page).then(|| self.runs.range(..later).rposition(|r| r.start as i64 == page)).flatten()
        };
        for (newest, run) in self.runs.iter().enumerate().rev() {
            let delta = start as i64 - run.start as i64;
            if delta == 0 {
                continue;
            }
            let Some(middle) = at(run.start as i64 - delta, newest) else { continue };
            let before = self.runs[middle];
            let record = pages.max(run.pages).max(before.pages);
            if record > delta.unsigned_abs() {
                continue;
            }
            if record == delta.unsigned_abs() {
                return Some(Stride { delta, pages: record, records: POINTS_ADJACENT });
            }
            if at(before.start as i64 - delta, middle).is_some() {
                return Some(Stride { delta, pages: record, records: POINTS_APART });
            }
        }
        None
    }
}

/// A set of pages, as a Bloom filter: with as many members as runs are remembered, it reports one
/// in thirty of the other pages as a member.
#[derive(Debug, Default)]
struct Filter([u64; 16]);

impl Filter {
    /// The word and the bit of `page`: ten bits of a product, as in Fibonacci hashing.
    fn place(page: i64) -> (usize, u64) {
        let hash = (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    fn add(&mut self, page: i64) {
        let (word, bit) = Self::place(page);
        self.0[word] |= bit;
    }

    fn may_have(&self, page: i64) -> bool {
        let (word, bit) = Self::place(page);
        self.0[word] & bit != 0
    }
}

/// Starts of runs that are remembered for each file. Lower: strides of interleaved readers are
/// lost; each needs four starts. Higher: a longer scan at each random read (of the filter, and of
/// all starts one time in thirty), and progressions by chance. Source: docs/decisions/0012, 0037;
/// the value is a guess, not measured.
const RUNS_MAX: usize = 32;

/// Records that show a backward reader: they touch; `progression` looks for as many starts. Lower:
/// two starts that touch by chance make a progression. Higher: a backward reader waits for one
/// record more. Source: a guess, not measured: two adjacent steps do not happen by chance.
const POINTS_ADJACENT: u64 = 3;

/// Records that show a progression of records that lie apart; `progression` looks for as many
/// starts. Lower: random reads complete one by chance; with three, one in twenty random 128 KiB
/// reads of a 2 GiB file does, with four one in ten thousand. Higher: a strided reader waits for
/// one record more. Source: measured with random reads of 128 KiB in a file of 2 GiB.
const POINTS_APART: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(starts: &[(u64, u64)]) -> Option<Stride> {
        let mut seen = Starts::default();
        let mut last = None;
        for (id, &(start, pages)) in starts.iter().enumerate() {
            last = seen.push(id as u64, start, pages);
        }
        last
    }

    #[test]
    fn records_apart_need_four_points() {
        assert_eq!(detect(&[(0, 16), (256, 16), (512, 16)]), None);
        assert_eq!(
            detect(&[(0, 16), (256, 16), (512, 16), (768, 16)]),
            Some(Stride { delta: 256, pages: 16, records: 4 })
        );
    }

    #[test]
    fn a_backward_reader_needs_three_points() {
        assert_eq!(
            detect(&[(3072, 256), (2816, 256), (2560, 32)]),
            Some(Stride { delta: -256, pages: 256, records: 3 })
        );
    }

    #[test]
    fn two_interleaved_strides_are_both_found() {
        let starts = [(0, 4), (100_000, 4), (64, 4), (100_500, 4), (128, 4), (101_000, 4), (192, 4)];
        assert_eq!(detect(&starts), Some(Stride { delta: 64, pages: 4, records: 4 }));
        let mut more = starts.to_vec();
        more.push((101_500, 4));
        assert_eq!(detect(&more), Some(Stride { delta: 500, pages: 4, records: 4 }));
    }

    #[test]
    fn random_starts_make_no_progression() {
        assert_eq!(detect(&[(7, 1), (93_111, 1), (412, 1), (77_020, 1), (5, 1), (31_337, 1)]), None);
    }
}
