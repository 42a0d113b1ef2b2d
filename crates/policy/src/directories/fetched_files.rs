//! Fetched files: those that were fetched ahead of readers, in flight or not, and not opened yet.
//!
//! ```text
//!   expected   oldest | 3 | 7 | . | 9 | 12 | newest      . has been opened meanwhile, and is
//!   siblings   oldest | 4 | 5 | . | . | 11 |             passed over
//! ```
//!
//! Each has a number, which grows with every file. A file that is opened leaves by its number
//! alone: its place in the queue stays until it is the oldest, or until half of the places are
//! such and one is added.
//!
//! Siblings are apart: they are bounded by what they are bought with, and by bytes, the others by
//! a number as well.
//!
//! *Invariant:* where a file is added, a queue has at most twice as many places as files, and a
//! few.
//!
//! This file does not know files: their entries keep the numbers (`directory`). It does not decide
//! how many there may be (`path/contents`). Source: derived; a queue in which things leave from
//! the middle.

use alloc::collections::VecDeque;

use crate::directories::open_order::FileRef;

/// A file's number among those that were fetched. It may come round: two are compared by how long
/// ago they were.
pub(crate) type FetchNumber = u32;

#[derive(Debug, Default)]
struct Queue {
    places: VecDeque<(FileRef, FetchNumber)>,
    files: usize,
}

/// Files that were fetched and not opened.
#[derive(Debug, Default)]
pub(crate) struct FetchedFiles {
    expected: Queue,
    siblings: Queue,
    bytes: u64,
    next: FetchNumber,
}

impl FetchedFiles {
    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many there are but for siblings.
    pub(crate) fn expected(&self) -> usize {
        self.expected.files
    }

    /// A file of so many bytes is fetched. Returns its number. `has` tells of a file whether it is
    /// there with a number.
    pub(crate) fn push(
        &mut self,
        file: FileRef,
        is_sibling: bool,
        bytes: u64,
        has: impl Fn(FileRef, FetchNumber) -> bool,
    ) -> FetchNumber {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.bytes += bytes;
        let queue = self.queue(is_sibling);
        if queue.places.len() > 2 * queue.files + SPARE {
            queue.places.retain(|&(file, number)| has(file, number));
        }
        queue.files += 1;
        queue.places.push_back((file, number));
        number
    }

    /// A file is no longer among them.
    pub(crate) fn left(&mut self, is_sibling: bool, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        let queue = self.queue(is_sibling);
        queue.files = queue.files.saturating_sub(1);
    }

    /// Some are other files than before: their bytes by an earlier listing, and by the latest one.
    pub(crate) fn replaced(&mut self, before: u64, after: u64) {
        self.bytes = (self.bytes + after).saturating_sub(before);
    }

    /// The one that was fetched first: of all, or of those that are no siblings.
    pub(crate) fn oldest(&mut self, of_all: bool, has: impl Fn(FileRef, FetchNumber) -> bool) -> Option<FileRef> {
        let next = self.next;
        let first = |queue: &mut Queue| {
            while queue.places.pop_front_if(|&mut (file, number)| !has(file, number)).is_some() {}
            queue.places.front().copied()
        };
        let expected = first(&mut self.expected);
        let sibling = if of_all { first(&mut self.siblings) } else { None };
        let oldest = expected.into_iter().chain(sibling).max_by_key(|&(_, number)| next.wrapping_sub(number));
        oldest.map(|(file, _)| file)
    }

    fn queue(&mut self, is_sibling: bool) -> &mut Queue {
        if is_sibling { &mut self.siblings } else { &mut self.expected }
    }
}

/// Places of files that were opened that may stay whatever their part, in places. Lower: short
/// queues are searched often. Higher: more memory. Source: derived; as many as may be in flight.
const SPARE: usize = 64;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::units::DirId;

    #[test]
    fn the_oldest_that_has_not_left_is_the_first() {
        let (mut files, mut there) = (FetchedFiles { next: u32::MAX - 2, ..FetchedFiles::default() }, BTreeMap::new());
        for nth in 0..6 {
            let file = (DirId(0), nth);
            let number = files.push(file, nth % 2 == 0, 10, |file, number| there.get(&file) == Some(&number));
            there.insert(file, number);
        }
        assert_eq!((files.bytes(), files.expected()), (60, 3));
        let mut leaves = |of_all| {
            let has = |file, number| there.get(&file) == Some(&number);
            let oldest = files.oldest(of_all, has)?;
            there.remove(&oldest);
            files.left(oldest.1 % 2 == 0, 10);
            Some(oldest.1)
        };
        assert_eq!(
            [true, false, true, false, true, false, true].map(&mut leaves),
            [Some(0), Some(1), Some(2), Some(3), Some(4), Some(5), None]
        );
        assert_eq!((files.bytes(), files.expected()), (0, 0));
    }

    #[test]
    fn a_file_that_is_fetched_again_is_the_newest_and_places_do_not_add_up() {
        let (mut files, mut last) = (FetchedFiles::default(), [0; 4]);
        for nth in 0..1_000 {
            let at = nth % 4;
            let has = |file: FileRef, number| last[file.1 as usize] == number;
            if nth >= 4 {
                files.left(false, 1);
            }
            let number = files.push((DirId(0), at), false, 1, has);
            last[at as usize] = number;
            assert!(files.expected.places.len() <= 4 * 2 + SPARE + 1);
        }
        let has = |file: FileRef, number| last[file.1 as usize] == number;
        assert_eq!(files.oldest(true, has), Some((DirId(0), 0)));
    }
}
