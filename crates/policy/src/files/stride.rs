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
//! Where the distance is no whole number of pages, the starts lie a page more or less apart
//! (`uneven`): four earlier ones are looked for, each to a page.
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

use crate::files::uneven::Uneven;

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
    /// Where the records lie, if the distance is no whole number of pages.
    pub(crate) uneven: Option<Uneven>,
}

impl Stride {
    /// A progression whose distance is a whole number of pages.
    pub(crate) fn even(delta: i64, pages: u64, records: u64) -> Self {
        Self { delta, pages, records, uneven: None }
    }
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
                return Some(Stride::even(delta, record, POINTS_ADJACENT));
            }
            if at(before.start as i64 - delta, middle).is_some() {
                return Some(Stride::even(delta, record, POINTS_APART));
            }
        }
        let near = |page: i64, later: usize| {
            let found = [page, page - 1, page + 1].into_iter().filter_map(move |page| at(page, later));
            found.map(|at| (at, self.runs[at]))
        };
        self.runs.iter().enumerate().rev().find_map(|run| Self::uneven(start, pages, run, near))
    }

    /// The uneven progression that a run of `pages` at `start` completes, if `last` is the one
    /// before it. `near` finds the runs that begin at a page, or beside it, and came earlier.
    fn uneven<R: Iterator<Item = (usize, Run)>>(
        start: u64,
        pages: u64,
        (at, last): (usize, &Run),
        near: impl Fn(i64, usize) -> R,
    ) -> Option<Stride> {
        let delta = start as i64 - last.start as i64;
        if pages.max(last.pages) > delta.unsigned_abs() {
            return None;
        }
        let mut starts = [start, last.start, 0, 0, 0];
        let (mut found, mut record) = (at, pages.max(last.pages));
        for nth in 2..starts.len() {
            let away = start as i64 - starts[nth - 1] as i64;
            let (at, run) = near(starts[nth - 1] as i64 - away / (nth as i64 - 1), found).next()?;
            (starts[nth], found, record) = (run.start, at, record.max(run.pages));
        }
        starts.reverse();
        let (uneven, records) = (Uneven::new(&starts)?, starts.len() as u64);
        let delta = uneven.delta();
        if uneven.touch(record) {
            return Some(Stride::even(delta, delta.unsigned_abs(), records));
        }
        Some(Stride { delta, pages: record, records, uneven: Some(uneven) })
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
    use alloc::vec::Vec;

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
        assert_eq!(detect(&[(0, 16), (256, 16), (512, 16), (768, 16)]), Some(Stride::even(256, 16, 4)));
    }

    #[test]
    fn a_backward_reader_needs_three_points() {
        assert_eq!(detect(&[(3072, 256), (2816, 256), (2560, 32)]), Some(Stride::even(-256, 256, 3)));
    }

    #[test]
    fn two_interleaved_strides_are_both_found() {
        let starts = [(0, 4), (100_000, 4), (64, 4), (100_500, 4), (128, 4), (101_000, 4), (192, 4)];
        assert_eq!(detect(&starts), Some(Stride::even(64, 4, 4)));
        let mut more = starts.to_vec();
        more.push((101_500, 4));
        assert_eq!(detect(&more), Some(Stride::even(500, 4, 4)));
    }

    #[test]
    fn a_distance_may_be_no_whole_number_of_pages() {
        let starts: Vec<_> = (0..5).map(|nth| (nth * 1_001_000 / 4096, 17)).collect();
        assert_eq!(detect(&starts[..4]), None, "four lie so by chance");
        let found = detect(&starts).expect("a progression");
        assert_eq!((found.delta, found.pages, found.uneven.is_some()), (244, 17, true));
        let backward: Vec<_> = starts.iter().map(|&(start, pages)| (10_000 - start, pages)).collect();
        assert_eq!(detect(&backward).map(|found| found.delta), Some(-244));
        let near: Vec<_> = (0..5).map(|nth| ((10_000_000 - nth * 100_000) / 4096, 23)).collect();
        assert_eq!(detect(&near), Some(Stride::even(-24, 24, 5)), "a page and a half between them");
    }

    #[test]
    fn random_starts_make_no_progression() {
        assert_eq!(detect(&[(7, 1), (93_111, 1), (412, 1), (77_020, 1), (5, 1), (31_337, 1)]), None);
    }
}
