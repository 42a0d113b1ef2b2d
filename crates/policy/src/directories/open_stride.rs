//! Open stride: files that are opened at equal distances in the order of the listings.
//!
//! ```text
//!   files   0 . . . . 5 . . . . 10 . . . . 15 . . . . 20        a part of a training set, every
//!           ^────5────^────5────^────5─────^ a stride           fifth file
//!   files   . . 7 6 5 | 4 3 | 2 1 0                             from the last one to the first
//! ```
//!
//! Each of `n` machines takes every `n`th file of one list. A program that looks at samples does
//! so, and one that begins with the latest file goes backward.
//!
//! *Invariant:* files one after the other are no stride: a walk follows them (`open_run`).
//!
//! This file does not count files (`steps`) and does not fetch any (`path/contents`). Source:
//! docs/decisions/0100.

use crate::directories::confidence::Confidence;
use crate::directories::open_order::FileRef;
use crate::units::DirId;

/// The file opened last, and the distance at which files were opened.
#[derive(Debug)]
pub(crate) struct OpenStride {
    last: Option<FileRef>,
    /// Files from one open to the next, negative for backward ones.
    step: i64,
    /// Opens in turn at this distance.
    equal: u32,
    /// A file was opened since the files next were last searched for.
    is_due: bool,
    /// How many files may be ahead of the reader.
    pub(crate) confidence: Confidence,
}

impl Default for OpenStride {
    fn default() -> Self {
        Self { last: None, step: 0, equal: 0, is_due: false, confidence: Confidence::closed(AHEAD_MAX) }
    }
}

impl OpenStride {
    /// The file that was opened last.
    pub(crate) fn last(&self) -> Option<FileRef> {
        self.last
    }

    /// `file` is opened, so many files behind the last one; `None` if that is not known. Returns
    /// whether it goes on with the stride.
    pub(crate) fn opened(&mut self, file: FileRef, distance: Option<i64>) -> bool {
        (self.last, self.is_due) = (Some(file), true);
        match distance {
            // The same file again says nothing.
            Some(0) => return false,
            Some(distance) if distance == self.step => self.equal = self.equal.saturating_add(1),
            _ => {
                if self.is_stride() {
                    self.confidence.missed();
                }
                (self.step, self.equal) = (distance.unwrap_or(0), u32::from(distance.is_some()));
            }
        }
        if self.is_stride() {
            self.confidence.open(AHEAD_FIRST);
        }
        // The one that made it a stride was not expected.
        self.equal > EQUAL_MIN && self.is_stride()
    }

    /// The file opened last and the distance to the next one, if files are opened at equal ones
    /// and those next are to be searched for.
    pub(crate) fn next(&self) -> Option<(FileRef, i64)> {
        let is_due = self.is_due && self.is_stride() && self.confidence.is_open();
        self.last.filter(|_| is_due).map(|last| (last, self.step))
    }

    /// The files next were searched for, and `all` were found that may be ahead.
    pub(crate) fn searched(&mut self, all: bool) {
        self.is_due &= !all;
    }

    /// Whether the reader passes over files.
    pub(crate) fn passes_over(&self) -> bool {
        self.is_stride() && self.step.abs() > 1 && self.confidence.is_open()
    }

    /// The entries of `dir` have other places from now on.
    pub(crate) fn forget(&mut self, dir: DirId) {
        if self.last.is_some_and(|last| last.0 == dir) {
            (self.last, self.step, self.equal) = (None, 0, 0);
        }
    }

    fn is_stride(&self) -> bool {
        self.equal >= EQUAL_MIN && self.step != 1
    }
}

/// Equal distances in turn that make a stride. Lower: in directories of twenty files every
/// twentieth open has files fetched in vain. Higher: the reader waits for more of them. Source: a
/// guess, not measured; three of them are one in four hundred by chance there.
const EQUAL_MIN: u32 = 3;

/// Files fetched ahead when a stride begins. Lower: the reader waits more often until the number
/// has doubled. Higher: more is fetched in vain where it was chance. Source: as for a walk.
const AHEAD_FIRST: u32 = 4;

/// Files fetched ahead at most. Lower: a fast reader waits for files. Higher: more is fetched in
/// vain where the reader stops. Source: as for a walk, half of it.
const AHEAD_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether each file of a directory that is opened in this order goes on with a stride.
    fn opened(places: &[i64]) -> alloc::vec::Vec<bool> {
        let (mut stride, mut last) = (OpenStride::default(), None);
        let mut found = alloc::vec::Vec::new();
        for &place in places {
            let distance = last.replace(place).map(|last| place - last);
            found.push(stride.opened((DirId(1), place as u32), distance));
        }
        found
    }

    #[test]
    fn the_fifth_file_at_equal_distances_is_expected() {
        assert_eq!(opened(&[0, 5, 10, 15, 20, 25]), [false, false, false, false, true, true]);
        assert_eq!(opened(&[9, 8, 7, 6, 5]), [false, false, false, false, true]);
        assert_eq!(opened(&[0, 5, 10, 15, 15, 20, 26, 31]), [false, false, false, false, false, true, false, false]);
    }

    #[test]
    fn names_with_other_places_end_a_stride() {
        let mut stride = OpenStride::default();
        for nth in 0..6 {
            stride.opened((DirId(1), nth * 7), (nth > 0).then_some(7));
        }
        stride.forget(DirId(2));
        assert_eq!(stride.next(), Some(((DirId(1), 35), 7)));
        assert!(stride.passes_over());
        stride.searched(true);
        assert_eq!(stride.next(), None, "until a file is opened");
        stride.opened((DirId(1), 42), Some(7));
        assert!(stride.next().is_some());
        stride.forget(DirId(1));
        assert_eq!((stride.next(), stride.last(), stride.passes_over()), (None, None, false));
    }

    #[test]
    fn a_stride_is_followed_again_after_many_that_were_chance() {
        let mut stride = OpenStride::default();
        for chance in 0..8 {
            for nth in 0..4 {
                stride.opened((DirId(1), chance * 100 + nth * 7), (nth > 0).then_some(i64::from(chance) + 7));
            }
        }
        assert!(!stride.confidence.is_open() && !stride.passes_over());
        for nth in 0..300 {
            stride.opened((DirId(2), nth * 5), Some(5));
        }
        assert!(stride.confidence.is_open());
    }

    #[test]
    fn files_at_random_places_have_few_fetched_in_vain() {
        for files in [20, 100, 1_000] {
            let (mut stride, mut last, mut seed, mut ahead) = (OpenStride::default(), None, 1_u64, 0);
            for _ in 0..10_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let place = (seed >> 33) as i64 % files;
                let distance = last.replace(place).map(|last| place - last);
                if stride.opened((DirId(1), place as u32), distance) {
                    stride.confidence.hit(true);
                }
                ahead += stride.next().map_or(0, |_| stride.confidence.size());
            }
            assert!(ahead <= 50, "{ahead} files of {files}");
        }
    }

    #[test]
    fn files_one_after_the_other_are_left_to_a_walk() {
        assert!(opened(&[0, 1, 2, 3, 4, 5, 6]).iter().all(|&expected| !expected));
    }
}
