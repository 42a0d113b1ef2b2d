//! Open order: the order in which files were opened, for readers that open them in that order
//! again.
//!
//! ```text
//!   log:     f3 f9 f1 f7 | f4 f2 f8 f0 f6 f5 ...          opens so far, the oldest first
//!                 done   ^ tail   ^ head
//!   opened now: .. f1 f4 f7 f8    next: f2, f0, f6, f5  logged after the tail, not opened since
//!
//!   matches   open within SLACK of the head                +1, up to 32; from 4 on: repeated
//!             open elsewhere in the log                    -2; at 0 or 1 the head moves there
//!             open of a file not in the log, or just now   -1
//! ```
//!
//! Several readers that share the work of an epoch open files in nearly the same order. So an open
//! counts as expected if its place in the log is within [`SLACK`] of the head, the furthest place
//! reached. A file that was passed over stays expected until it is [`SLACK`] behind the head.
//!
//! *Invariants:* the log holds at most [`LOG_MAX`] opens. `last` has the latest place of each
//! logged file, unless its directory was forgotten.
//!
//! This file does not decide whether a file is worth fetching (`path/contents`), and does not know
//! which reader opens a file. Source: docs/decisions/0029 (epochs in the order of the one before).

use alloc::collections::{BTreeMap, VecDeque};

use crate::directories::confidence::Confidence;
use crate::units::DirId;

/// A file: its directory, and which of its entries.
pub(crate) type FileRef = (DirId, u32);

/// The log of opens, and the place in it that readers have reached.
#[derive(Debug)]
pub(crate) struct OpenOrder {
    log: VecDeque<FileRef>,
    /// The place of the first open of `log`.
    base: u64,
    /// The latest place of each file.
    last: BTreeMap<FileRef, u64>,
    /// The first place that is still expected.
    tail: u64,
    /// The furthest place that was reached.
    head: u64,
    /// Expected opens, less others.
    matches: u32,
    /// Opens in the log at most.
    most: usize,
    pub(crate) confidence: Confidence,
}

impl OpenOrder {
    /// An empty log of at most `most` opens.
    pub(crate) fn new(most: usize) -> Self {
        let confidence = Confidence::closed(AHEAD_MAX);
        Self {
            most: most.clamp(1, LOG_MAX),
            log: VecDeque::new(),
            base: 0,
            last: BTreeMap::new(),
            tail: 0,
            head: 0,
            matches: 0,
            confidence,
        }
    }

    /// Logs `file` after all others.
    pub(crate) fn push(&mut self, file: FileRef) {
        if self.log.len() == self.most {
            self.pop();
        }
        self.last.insert(file, self.base + self.log.len() as u64);
        self.log.push_back(file);
    }

    /// Forgets the oldest open.
    fn pop(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        if self.last.get(&oldest) == Some(&self.base) {
            self.last.remove(&oldest);
        }
        self.base += 1;
    }

    /// The log holds at most `most` opens from now on.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most.clamp(1, LOG_MAX);
        while self.log.len() > self.most {
            self.pop();
        }
        self.log.shrink_to(self.most);
    }

    /// `file` is opened. Returns whether that was expected.
    pub(crate) fn opened(&mut self, file: FileRef) -> bool {
        if self.log.back() == Some(&file) {
            // The same file again: it is logged already.
            return false;
        }
        let end = self.base + self.log.len() as u64;
        // A file among the last few opens is opened twice, which says nothing about the order: it
        // counts like a file that is not in the log.
        let before = self.last.get(&file).copied().filter(|&place| place + REPEAT < end || place >= self.head);
        self.push(file);
        let Some(place) = before else {
            self.matches = self.matches.saturating_sub(1);
            return false;
        };
        let expected = place + SLACK > self.head && place < self.head + SLACK;
        if expected {
            self.matches = (self.matches + 1).min(MATCHES_MAX);
        } else if self.matches > 1 {
            self.matches -= 2;
            return false;
        } else {
            self.matches = 1;
            self.head = place;
            self.tail = place;
        }
        self.head = self.head.max(place);
        self.tail = self.tail.max(self.head.saturating_sub(SLACK)).max(self.base);
        while self.tail < self.head && self.is_over(self.tail) {
            self.tail += 1;
        }
        if self.matches >= MATCHES_MIN {
            self.confidence.open(AHEAD_FIRST);
        }
        expected
    }

    /// Whether opens come in the order of the log.
    pub(crate) fn is_repeated(&self) -> bool {
        self.matches >= MATCHES_MIN && self.confidence.is_open()
    }

    /// The files that are expected and were not opened yet, in order.
    pub(crate) fn expected(&self) -> impl Iterator<Item = FileRef> {
        let skip = self.tail.saturating_sub(self.base);
        let places = (self.tail..).zip(self.log.iter().skip(skip as usize));
        places.filter(|&(place, file)| self.last.get(file) == Some(&place)).map(|(_, &file)| file)
    }

    /// Whether the file of a place was opened again since, or is gone from the log.
    fn is_over(&self, place: u64) -> bool {
        let file = place.checked_sub(self.base).and_then(|at| self.log.get(at as usize));
        file.is_none_or(|file| self.last.get(file) != Some(&place))
    }

    /// The entries of `dir` have other names from now on: forgets its files.
    pub(crate) fn forget(&mut self, dir: DirId) {
        let gone: alloc::vec::Vec<_> = self.last.range((dir, 0)..=(dir, u32::MAX)).map(|(&file, _)| file).collect();
        for file in gone {
            self.last.remove(&file);
        }
    }

    /// The number of opens in the log.
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }
}

/// Opens in the log at most: an epoch of a million files, in 64 MiB. Lower: a larger epoch is not
/// recognised. Higher: the log takes more of the memory for listings. Source: a guess, not
/// measured.
const LOG_MAX: usize = 1 << 20;

/// Opens between the furthest readers of an epoch: eight readers with 64 files each. Lower:
/// readers further apart count as another order. Higher: opens in any order of a small data set
/// count as expected, and files passed over stay expected for longer. Source: a guess, not
/// measured.
const SLACK: u64 = 512;

/// An open of a file among the last so many opens is a repetition. Lower: a file that is opened
/// again soon disturbs the order. Higher: an epoch of a few files is not recognised. Source: a
/// guess, not measured.
const REPEAT: u64 = 8;

/// Expected opens, less others, before files are fetched in the order of the log. Lower: a few
/// opens by chance start fetches. Higher: a repeated epoch is read ahead later. Source: a guess,
/// not measured.
const MATCHES_MIN: u32 = 4;

/// The most that count, in opens. Lower: a few other opens stop the fetches of a long epoch.
/// Higher: fetches go on for longer after the order has changed. Source: a guess, not measured.
const MATCHES_MAX: u32 = 32;

/// Files ahead when the order is recognised. Lower: readers wait for the first files. Higher: more
/// is fetched in vain when the recognition is wrong. Source: a guess, not measured.
pub(crate) const AHEAD_FIRST: u32 = 8;

/// Files ahead at most. Lower: a fast reader waits on a slow store (128 files at 30 ms each are
/// four thousand files a second). Higher: more memory for files that are not opened yet. Source: a
/// guess, not measured; docs/decisions/0029 measured 1,290 to 2,020 files/s with it.
pub(crate) const AHEAD_MAX: u32 = 128;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn file(n: u64) -> FileRef {
        (DirId(n % 7), (n * 31 % 1009) as u32)
    }

    #[test]
    fn a_second_epoch_is_predicted_while_readers_are_a_little_apart() {
        let mut epoch = OpenOrder::new(LOG_MAX);
        (0..500).for_each(|n| assert!(!epoch.opened(file(n))));
        assert!(!epoch.is_repeated());
        for n in [1, 0, 2, 4, 3, 6, 5] {
            epoch.opened(file(n));
        }
        assert!(epoch.is_repeated());
        assert_eq!(epoch.expected().take(3).collect::<Vec<_>>(), [file(7), file(8), file(9)]);
    }

    #[test]
    fn a_file_passed_over_is_expected_until_it_is_far_behind() {
        let mut epoch = OpenOrder::new(LOG_MAX);
        (0..2000).for_each(|n| epoch.push(file(n)));
        (0..900).filter(|&n| n != 5).for_each(|n| _ = epoch.opened(file(n)));
        assert!(!epoch.expected().take(10).any(|expected| expected == file(5)));
        assert_eq!(epoch.expected().next(), Some(file(900)));
    }

    #[test]
    fn one_file_again_and_again_is_no_epoch() {
        let mut epoch = OpenOrder::new(LOG_MAX);
        (0..20).for_each(|n| _ = epoch.opened(file(n)));
        (0..20).for_each(|_| _ = epoch.opened(file(11)));
        assert!(!epoch.is_repeated());
    }

    #[test]
    fn another_order_is_no_epoch() {
        let mut epoch = OpenOrder::new(LOG_MAX);
        (0..2000).for_each(|n| epoch.push(file(n)));
        (0..2000).for_each(|n| _ = epoch.opened(file(n * 1117 % 2000)));
        assert!(!epoch.is_repeated());
    }

    #[test]
    fn a_log_is_bounded_and_forgets_directories() {
        let mut epoch = OpenOrder::new(LOG_MAX);
        (0..LOG_MAX as u64 + 10).for_each(|n| epoch.push((DirId(1), n as u32)));
        assert_eq!(epoch.len(), LOG_MAX);
        assert_eq!(epoch.last.len(), LOG_MAX);
        epoch.forget(DirId(1));
        assert_eq!(epoch.expected().count(), 0);
        let mut short = OpenOrder::new(100);
        (0..1000).for_each(|n| _ = short.opened(file(n)));
        assert_eq!((short.len(), short.last.len()), (100, 100));
    }
}
