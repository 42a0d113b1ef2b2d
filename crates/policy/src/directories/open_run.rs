//! Open run: files of one directory that are opened in order, by one reader or by several side by
//! side.
//!
//! ```text
//!   files    | o | o | o | . | o | o | . | o | . | . | . | . |      o: opened
//!            ^ low                         ^ high
//!     an open up to 32 files above high ──────> a step forward
//!     an open up to 32 files below low ───────> a step backward
//!     the first open of a file in between ────> in order: a reader that lags behind the others
//!     more than two thirds of the last 32 files at that end opened; else a new run
//! ```
//!
//! Programs with several threads give each the next file of one list, so opens come a little out
//! of order. A reader that takes every second file, or files at random, opens two thirds of them
//! or fewer.
//!
//! *Invariant:* `low` is not above `high`, and both were opened.
//!
//! This file does not decide what is fetched (`path::contents`). Source: the opens of programs
//! with several threads; the limits are guesses, as their constants say.

/// What is known of one file: `None` where there is none at this place.
pub(crate) type Opened = Option<bool>;

/// The places between which files were opened in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenRun {
    low: u32,
    high: u32,
    /// Steps in one direction, one after the other: negative for backward ones.
    steps: i32,
}

impl OpenRun {
    pub(crate) fn new(entry: u32) -> Self {
        Self { low: entry, high: entry, steps: 0 }
    }

    /// The file at `entry` is opened. `again`: it had been, since the latest listing. `at` tells
    /// of each place whether a file is there and was opened, `entry` included.
    pub(crate) fn opened(&mut self, entry: u32, again: bool, at: impl Fn(u32) -> Opened) {
        let (before, is_inside) = (*self, (self.low..=self.high).contains(&entry));
        if is_inside {
            let end = if self.steps < 0 { self.low } else { self.high };
            let lags = !again && is_near(end, entry, &at);
            if !lags && self.low != self.high {
                *self = Self::new(entry);
            }
            return;
        }
        let forward = entry > self.high;
        if forward {
            (self.high, self.steps) = (entry, self.steps.max(0) + 1);
        } else {
            (self.low, self.steps) = (entry, self.steps.min(0) - 1);
        }
        let from = if forward { before.high } else { before.low };
        if !is_near(from, entry, &at) || !self.is_dense(forward, &at) {
            *self = Self::new(entry);
        }
    }

    /// Steps in one direction, up to now; 0 where the last open was out of order.
    pub(crate) fn steps(&self) -> i32 {
        self.steps
    }

    /// The place after the run, in its direction.
    pub(crate) fn next(&self) -> u32 {
        if self.steps < 0 { self.low } else { self.high + 1 }
    }

    /// Whether more than two thirds of the last files of the run at one end were opened.
    fn is_dense(&self, forward: bool, at: impl Fn(u32) -> Opened) -> bool {
        let (from, to) = if forward { (self.high, self.low) } else { (self.low, self.high) };
        let (mut count, mut opened) = (1, 1);
        for is_opened in files(from, to, at).take(NEAR_FILES - 1) {
            (count, opened) = (count + 1, opened + usize::from(is_opened));
        }
        opened * 3 > count * 2
    }
}

/// Whether the next opens after one at `from` may be at `to`.
fn is_near(from: u32, to: u32, at: impl Fn(u32) -> Opened) -> bool {
    from.abs_diff(to) as usize <= NEAR_PLACES && files(from, to, at).count() <= NEAR_FILES
}

/// The files after the place `from`, up to `to` in its direction: of those near, whether each was
/// opened.
fn files(from: u32, to: u32, at: impl Fn(u32) -> Opened) -> impl Iterator<Item = bool> {
    let (distance, backward) = (from.abs_diff(to), to < from);
    let places = (1..=distance).map(move |step| if backward { from - step } else { from + step });
    places.take(NEAR_PLACES).filter_map(at)
}

/// Files around the end of a run in which the next opens are expected. Lower: readers side by side
/// are not in order. Higher: files of a reader that follows no order are in order by chance, in
/// directories of a few hundred. Source: a guess, not measured; twice the workers of a usual
/// loader.
const NEAR_FILES: usize = 32;

/// Places that are searched for those files, past subdirectories. Lower: files with many
/// subdirectories between them count as opened in no order. Higher: each open searches further.
/// Source: a guess, not measured.
const NEAR_PLACES: usize = 128;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Opens files of a directory of 1,000 in this order. Returns the steps after each.
    fn run(order: impl IntoIterator<Item = u32>) -> Vec<i32> {
        let (mut opened, mut run) = ([false; 1000], None);
        let mut steps = Vec::new();
        for entry in order {
            let again = core::mem::replace(&mut opened[entry as usize], true);
            let run = run.get_or_insert(OpenRun::new(entry));
            run.opened(entry, again, |place| opened.get(place as usize).copied());
            steps.push(run.steps());
        }
        steps
    }

    #[test]
    fn files_one_after_the_other_are_in_order_either_way() {
        assert_eq!(run(0..5), [0, 1, 2, 3, 4]);
        assert_eq!(run((5..10).rev()), [0, -1, -2, -3, -4]);
    }

    #[test]
    fn readers_side_by_side_are_in_order() {
        // Eight threads, each with every eighth file, in another order in each round.
        let order = (0..100).flat_map(|round| (0..8).map(move |thread| round * 8 + (thread * 5 + round) % 8));
        let steps = run(order);
        let out_of_order = steps.iter().skip(24).filter(|&&steps| steps <= 0).count();
        assert_eq!(out_of_order, 0, "{steps:?}");
    }

    #[test]
    fn every_second_file_and_chance_are_no_order() {
        let second = run((0..500).map(|n| n * 2));
        assert!(second.iter().all(|steps| steps.abs() <= 1), "{second:?}");
        let chance = run((0..300).map(|n| n * 617 % 1000));
        assert!(chance.iter().all(|steps| steps.abs() <= 1), "{chance:?}");
    }

    #[test]
    fn a_file_that_is_opened_again_changes_nothing_alone_and_ends_a_run() {
        assert_eq!(run([7, 7, 7, 8, 9]), [0, 0, 0, 1, 2]);
        assert_eq!(run([0, 1, 2, 3, 1]), [0, 1, 2, 3, 0]);
    }
}
