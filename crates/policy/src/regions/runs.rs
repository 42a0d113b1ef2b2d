//! Runs: how many pages threads touch from where they begin, and so how many are read at once.
//!
//! ```text
//!   fault of no stream          known: runs are four pages long
//!          v
//!   ......[p|p+1|p+2|p+3]......      a row: one request, all of it mapped
//!                        ^ a fault here: the run is longer, and a stream begins
//! ```
//!
//! Rows of a matrix, records and nodes of an index are alike, and where a thread goes next is not
//! known. A stream would wait at the first page, at the second, and read past the end. Once some
//! runs have ended, a fault that begins one reads as far as three in four of them came.
//!
//! Touches of mapped pages are not seen. So nothing would show that runs have become shorter, and
//! one row in eight is staged: each of its pages is seen when it is touched. Of rows only those
//! count. Nor do runs count that begin behind a resident page or end before one: how long they are
//! is not known.
//!
//! *Invariants:* at most [`RECENT`] runs are under way. A row has at most [`ROW_PAGES_MAX`] pages.
//!
//! This file does not read, and knows no streams: `readahead` says what a plan brought, and asks
//! where a run begins. Source: docs/decisions/0132.

use alloc::collections::VecDeque;

/// Adjacent pages that were touched one after the other.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    /// The page after the last one that was touched.
    reached: u64,
    /// The page after the last one that was read for it.
    until: u64,
    /// It was read as a row, and has not come past it.
    row: bool,
    /// How far it comes is seen, and counts.
    counts: bool,
}

/// What to read where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) pages: u64,
    /// The use of each page should be seen.
    pub(crate) seen: bool,
}

/// Where in a run a touched page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touched {
    /// In a row, of which so many pages should be read from here on if it is away.
    Row(u64),
    /// Directly behind a row.
    Behind,
    Elsewhere,
}

/// The last runs of a region.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The latest last.
    recent: VecDeque<Run>,
    /// How long the last ones were that count, in pages, the latest last.
    ended: VecDeque<u64>,
    /// The pages that three in four of those have.
    common: u64,
    rows: u64,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self { recent: VecDeque::new(), ended: VecDeque::new(), common: 1, rows: 0 }
    }

    /// A fault of no stream begins a run at `page`. Returns the row to read, of at most `most`
    /// pages; nothing where one page is all that is known.
    pub(crate) fn begin(&mut self, page: u64, most: u64, resident: impl Fn(u64) -> bool) -> Option<Row> {
        if self.recent.len() == RECENT
            && let Some(run) = self.recent.pop_front()
            && run.counts
            && !(run.reached == run.until && resident(run.until))
        {
            self.end(run.reached - run.start);
        }
        let before = if self.common > 1 {
            (1..=BEFORE_MAX.min(page)).take_while(|&back| resident(page - back)).count()
        } else {
            0
        };
        // The first pages of the row may be there.
        let pages = (self.common - before as u64 % self.common).min(most);
        let row = pages > 1;
        let seen = row && self.rows.is_multiple_of(SEEN);
        self.rows += u64::from(row);
        let counts = (!row || seen) && !page.checked_sub(1).is_some_and(&resident);
        let until = (page + 1..page + pages).find(|&next| seen && resident(next)).unwrap_or(page + pages);
        self.recent.push_back(Run { start: page, reached: page + 1, until, row, counts });
        row.then_some(Row { pages, seen })
    }

    /// A run of so many pages has ended.
    fn end(&mut self, pages: u64) {
        if self.ended.len() == ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(pages.min(ROW_PAGES_MAX));
        if self.ended.len() == ENDED {
            let mut lengths: [u64; ENDED] = core::array::from_fn(|nth| self.ended[nth]);
            lengths.sort_unstable();
            self.common = lengths[ENDED / SHORTER];
        }
    }

    /// `page` is touched, which was away or staged.
    pub(crate) fn touched(&mut self, page: u64) -> Touched {
        let goes_on = |run: &&mut Run| run.start < page && page <= run.until;
        let Some(run) = self.recent.iter_mut().rev().find(goes_on) else { return Touched::Elsewhere };
        let (row, rest) = (run.row, run.until - page);
        run.reached = run.reached.max(page + 1);
        if rest == 0 {
            (run.row, run.until) = (false, page + 1);
        }
        match rest {
            _ if !row => Touched::Elsewhere,
            0 => Touched::Behind,
            // Of a row that counts, pages of zeroes and those that were cut off come one by one.
            _ if run.counts => Touched::Row(1),
            rest => Touched::Row(rest),
        }
    }

    /// The pages from `first` on and before `front` have been read for the run that came there.
    pub(crate) fn planned(&mut self, first: u64, front: u64) {
        let goes_on = |run: &&mut Run| run.start <= first && first <= run.until;
        if let Some(run) = self.recent.iter_mut().rev().find(goes_on) {
            run.until = run.until.max(front);
        }
    }
}

/// Runs that are under way. Lower: of many threads, runs are taken for ended that go on. Higher: a
/// habit is known later, and a search at each fault is longer. Source: as many faults as a stream
/// may be silent for that was never proven.
const RECENT: usize = 32;

/// Pages of the longest row: 256 KiB. Lower: longer rows wait more than once. Higher: a run that
/// has begun waits for more that it may not touch. Source: chosen here; the longest cluster of the
/// detector.
const ROW_PAGES_MAX: u64 = 64;

/// Resident pages before a run that are looked at. Rows come and leave as a whole, so if these are
/// no whole number of rows, the run begins within one. Lower: where many rows are there, a part of
/// the next row is read with a part of one. Higher: a longer search at a fault. Source: chosen
/// here.
const BEFORE_MAX: u64 = 256;

/// Of so many rows, the use of one is seen. Lower: more touches are faults. Higher: that runs have
/// become shorter is known later. Source: docs/decisions/0132.
const SEEN: u64 = 8;

/// Runs that say how long one is. Lower: chance decides. Higher: it is known later that they have
/// become longer or shorter. Source: chosen here.
const ENDED: usize = 32;

/// One in so many of them may be shorter than a row. Lower: runs that are nearly alike are read
/// at once as well, and more of those that end is read for nothing. Higher: fewer are. Source:
/// chosen here.
const SHORTER: usize = 4;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Runs of `pages` pages at places that are far apart, each page touched in order, with all
    /// pages away but those of its row. Returns the rows that were read.
    fn rows(runs: &mut Runs, pages: u64, number: u64) -> Vec<u64> {
        let mut rows = Vec::new();
        for nth in 0..number {
            let start = nth * 1_000;
            let row = runs.begin(start, 256, |_| false);
            rows.push(row.map_or(1, |row| row.pages));
            for page in start + 1..start + pages {
                let here = row.is_some_and(|row| page < start + row.pages);
                if !here || row.is_some_and(|row| row.seen) {
                    runs.touched(page);
                }
            }
        }
        rows
    }

    #[test]
    fn runs_that_are_alike_are_read_at_once() {
        for pages in [2, 3, 4, 7, 16, 60] {
            let mut runs = Runs::new();
            let rows = rows(&mut runs, pages, 200);
            assert!(rows[..RECENT + ENDED - 1].iter().all(|&row| row == 1), "nothing is known yet");
            assert!(rows[70..].iter().all(|&row| row == pages), "{pages}: {rows:?}");
        }
    }

    #[test]
    fn of_single_pages_one_is_read() {
        assert!(rows(&mut Runs::new(), 1, 300).iter().all(|&row| row == 1));
    }

    #[test]
    fn rows_become_shorter_and_longer_with_the_runs() {
        let mut runs = Runs::new();
        assert_eq!(rows(&mut runs, 8, 500).last(), Some(&8));
        assert_eq!(rows(&mut runs, 2, 5_000).last(), Some(&2));
        assert_eq!(rows(&mut runs, 12, 5_000).last(), Some(&12));
    }

    #[test]
    fn runs_that_resident_pages_cut_say_nothing() {
        let mut runs = Runs::new();
        // Of each four pages two are there, the first or the last ones.
        let resident = |page: u64| (page % 100) / 2 == (page / 100) % 2;
        for nth in 0..200 {
            let first = nth * 100 + 2 * (1 - nth % 2);
            assert_eq!(runs.begin(first, 256, resident), None);
            runs.touched(first + 1);
        }
    }

    #[test]
    fn a_row_is_no_longer_than_the_longest() {
        assert_eq!(rows(&mut Runs::new(), 400, 100).last(), Some(&ROW_PAGES_MAX));
    }
}
