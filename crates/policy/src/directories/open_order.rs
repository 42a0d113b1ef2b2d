//! The order in which files were opened, for a reader who comes back in the same one.
//!
//! ```text
//!   log:     f3 f9 f1 f7 | f4 f2 f8 f0 f6 f5 ...          opened so far, the oldest first
//!                 done   ^ tail   ^ head
//!   opened now: .. f1 f4 f7 f8 ->  next: f2, f0, f6, f5   what was opened after these, as far as it was not yet
//! ```
//!
//! Several readers who share the work come by in nearly the same order: a place counts as the expected one within [`SLACK`] of the last.
//! Whoever goes another way is no such reader, and the log only grows.

use alloc::collections::{BTreeMap, VecDeque};

use crate::directories::confidence::Confidence;
use crate::units::DirId;

/// A file: its directory, and which of its entries.
pub(crate) type FileRef = (DirId, u32);

/// See the module's text.
#[derive(Debug)]
pub(crate) struct OpenOrder {
    log: VecDeque<FileRef>,
    /// Place of the first of `log`.
    base: u64,
    /// Where each file was last.
    last: BTreeMap<FileRef, u64>,
    /// First place that could still be opened.
    tail: u64,
    /// The furthest that has been.
    head: u64,
    /// Opens that were where they were expected, less those that were not.
    matches: u32,
    /// What was named last was not opened, but told.
    told: bool,
    pub(crate) confidence: Confidence,
}

impl Default for OpenOrder {
    fn default() -> Self {
        let confidence = Confidence::closed(AHEAD_MAX);
        Self {
            log: VecDeque::new(),
            base: 0,
            last: BTreeMap::new(),
            tail: 0,
            head: 0,
            matches: 0,
            told: false,
            confidence,
        }
    }
}

impl OpenOrder {
    /// `file` comes after all others.
    pub(crate) fn push(&mut self, file: FileRef) {
        if self.log.len() == LOG_MAX
            && let Some(oldest) = self.log.pop_front()
        {
            if self.last.get(&oldest) == Some(&self.base) {
                self.last.remove(&oldest);
            }
            self.base += 1;
        }
        self.last.insert(file, self.base + self.log.len() as u64);
        self.log.push_back(file);
    }

    /// `file` will be opened, after those named before it.
    pub(crate) fn expect(&mut self, file: FileRef) {
        if !self.told {
            let end = self.base + self.log.len() as u64;
            (self.told, self.head, self.tail) = (true, end, end);
        }
        self.push(file);
        self.matches = self.matches.max(MATCHES_MIN);
        self.confidence.open(AHEAD_FIRST);
    }

    /// `file` is opened. Whether that was expected.
    pub(crate) fn opened(&mut self, file: FileRef) -> bool {
        self.told = false;
        let end = self.base + self.log.len() as u64;
        // What was opened only a moment ago is opened twice, and tells no order.
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

    /// What is expected next and was not opened yet, in order.
    pub(crate) fn expected(&self) -> impl Iterator<Item = FileRef> {
        let skip = self.tail.saturating_sub(self.base);
        let places = (self.tail..).zip(self.log.iter().skip(skip as usize));
        places.filter(|&(place, file)| self.last.get(file) == Some(&place)).map(|(_, &file)| file)
    }

    /// Whether the file of a place was opened again since.
    fn is_over(&self, place: u64) -> bool {
        let file = place.checked_sub(self.base).and_then(|at| self.log.get(at as usize));
        file.is_none_or(|file| self.last.get(file) != Some(&place))
    }

    /// Files of `dir` are called otherwise from now on.
    pub(crate) fn forget(&mut self, dir: DirId) {
        let gone: alloc::vec::Vec<_> = self.last.range((dir, 0)..=(dir, u32::MAX)).map(|(&file, _)| file).collect();
        for file in gone {
            self.last.remove(&file);
        }
    }

    /// How many files it knows.
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }
}

/// Opens remembered: an epoch of a million files in 64 MiB.
const LOG_MAX: usize = 1 << 20;

/// Readers who share an epoch are this far apart at most: eight of them with 64 files each.
const SLACK: u64 = 512;

/// An open of a file that was one of the last so many is a repetition.
const REPEAT: u64 = 8;

/// Opens in the order of the log before anything is fetched in it.
const MATCHES_MIN: u32 = 4;
const MATCHES_MAX: u32 = 32;

/// Files ahead at first.
const AHEAD_FIRST: u32 = 8;
const AHEAD_MAX: u32 = 128;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn file(n: u64) -> FileRef {
        (DirId(n % 7), (n * 31 % 1009) as u32)
    }

    #[test]
    fn a_second_epoch_is_foretold_also_where_readers_are_a_little_apart() {
        let mut epoch = OpenOrder::default();
        (0..500).for_each(|n| assert!(!epoch.opened(file(n))));
        assert!(!epoch.is_repeated());
        for n in [1, 0, 2, 4, 3, 6, 5] {
            epoch.opened(file(n));
        }
        assert!(epoch.is_repeated());
        assert_eq!(epoch.expected().take(3).collect::<Vec<_>>(), [file(7), file(8), file(9)]);
    }

    #[test]
    fn an_order_that_is_told_is_expected_from_its_start() {
        let mut epoch = OpenOrder::default();
        (0..100).for_each(|n| _ = epoch.opened(file(n)));
        for n in [70, 10, 40] {
            epoch.expect(file(n));
        }
        assert!(epoch.is_repeated());
        assert_eq!(epoch.expected().collect::<Vec<_>>(), [file(70), file(10), file(40)]);
        assert!(epoch.opened(file(70)));
        assert_eq!(epoch.expected().take(2).collect::<Vec<_>>(), [file(10), file(40)]);
    }

    #[test]
    fn what_was_passed_over_is_expected_until_it_is_far_behind() {
        let mut epoch = OpenOrder::default();
        (0..2000).for_each(|n| epoch.push(file(n)));
        (0..900).filter(|&n| n != 5).for_each(|n| _ = epoch.opened(file(n)));
        assert!(!epoch.expected().take(10).any(|expected| expected == file(5)));
        assert_eq!(epoch.expected().next(), Some(file(900)));
    }

    #[test]
    fn another_order_is_no_epoch() {
        let mut epoch = OpenOrder::default();
        (0..2000).for_each(|n| epoch.push(file(n)));
        (0..2000).for_each(|n| _ = epoch.opened(file(n * 1117 % 2000)));
        assert!(!epoch.is_repeated());
    }

    #[test]
    fn a_log_is_bounded_and_forgets_what_has_gone() {
        let mut epoch = OpenOrder::default();
        (0..LOG_MAX as u64 + 10).for_each(|n| epoch.push((DirId(1), n as u32)));
        assert_eq!(epoch.len(), LOG_MAX);
        assert_eq!(epoch.last.len(), LOG_MAX);
        epoch.forget(DirId(1));
        assert_eq!(epoch.expected().count(), 0);
    }
}
