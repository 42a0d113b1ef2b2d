//! Heads: what is fetched of files that are not small because such ends of their siblings were
//! read.
//!
//! ```text
//!   closed   a: 256 KiB, b: 128 KiB         two in a directory, or the last two anywhere:
//!                                           the longest of the last four, but at most four
//!                                           times the shortest
//!   opened   c, after b                     in order: the files behind it, in that order
//!            x, after another one of them   in no order: those nearest to it, on both sides
//!              └──> heads bought: 4 files at first, then more while the reader waits
//!   closed   c: what was bought and read is paid back, the rest is dropped
//!
//!   bought ──> ahead ──opened──> opened ──closed──> paid
//!                └──refused: repaid; discarded: lost
//! ```
//!
//! A program that asks what files are reads a little of each, and waits for a round trip at each
//! open. How much it reads is known once it has closed a few. Ends of files are bought with credit
//! (`credit`) and pay it back when they have been read, not when the file is opened: a program
//! that opens files and reads none spends the first credit. What is read of a file of which
//! nothing was bought earns a little.
//!
//! *Invariants:* what is fetched so and not read never exceeds the credit that was given. What was
//! bought of a file is known for as long as its entry says that its ends are ahead.
//!
//! This file does not know files: which ones are next is decided by `path/ends`. Files that are
//! small come whole (`siblings`, `walk`). Source: docs/decisions/0124.

use alloc::collections::{BTreeMap, VecDeque};

use crate::credit::Credit;
use crate::directories::confidence::Confidence;
use crate::directories::open_order::FileRef;
use crate::directories::siblings::Dense;
use crate::ends::Ends;
use crate::units::{DirId, PAGE_BYTES};

/// The ends that were read of the last files that were closed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Closed {
    last: [Ends; CLOSED_MAX],
    files: u8,
    /// The one that was closed last.
    latest: Option<FileRef>,
}

impl Closed {
    /// These ends of a file were read. One that is opened again and again tells nothing of others.
    pub(crate) fn add(&mut self, file: FileRef, ends: Ends) {
        if self.latest.replace(file) == Some(file) {
            return;
        }
        self.last.rotate_right(1);
        self.last[0] = ends;
        self.files = (self.files + 1).min(CLOSED_MAX as u8);
    }

    /// What will be read of the next one, if enough of them tell.
    pub(crate) fn expected(&self) -> Option<Ends> {
        let last = &self.last[..self.files.into()];
        if last.len() < CLOSED_MIN {
            return None;
        }
        let likely = |of: fn(&Ends) -> u32| {
            let shortest = last.iter().map(of).min().unwrap_or(0);
            let longest = last.iter().map(of).max().unwrap_or(0);
            longest.min(shortest.saturating_mul(ALIKE)).min(END_PAGES_MAX)
        };
        let ends = Ends { head: likely(|ends| ends.head), tail: likely(|ends| ends.tail) };
        (!ends.is_empty()).then_some(ends)
    }
}

/// How a reader has come to a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// Steps in one direction, negative for backward ones.
    pub(crate) steps: i32,
    /// So many that the next files are likely to be opened in it.
    pub(crate) in_order: bool,
    /// The open before was in the same directory, and the file was not opened before.
    pub(crate) stays: bool,
    /// How much of the directory was opened before.
    pub(crate) dense: Dense,
}

/// What fetching heads has gained lately, and how much more it may cost.
#[derive(Debug)]
pub(crate) struct Heads {
    /// How many may be ahead.
    pub(crate) confidence: Confidence,
    pub(crate) credit: Credit,
    /// What was read of the last files, in whatever directory.
    pub(crate) closed: Closed,
    /// What was bought of files that are not opened yet.
    ahead: BTreeMap<FileRef, Ends>,
    /// The same of files that are opened and not closed yet, the oldest first.
    opened: VecDeque<(FileRef, Ends)>,
}

impl Default for Heads {
    fn default() -> Self {
        Self {
            confidence: Confidence::closed(HEADS_MAX),
            credit: Credit::growing(CREDIT_FIRST),
            closed: Closed::default(),
            ahead: BTreeMap::new(),
            opened: VecDeque::new(),
        }
    }
}

impl Heads {
    /// Whether the credit suffices for all of these ends.
    pub(crate) fn affords(&self, ends: Ends) -> bool {
        self.credit.has(cost(ends))
    }

    /// Buys these ends of a file, or as much of them as the credit suffices for; of the file
    /// itself there are so many pages.
    pub(crate) fn buy(&mut self, file: FileRef, ends: Ends, file_pages: u64) -> Option<Ends> {
        let all = ends.within(file_pages, u64::MAX);
        let ends = all.within(file_pages, self.credit.left());
        let is_worth = ends == all || ends.bytes() >= BOUGHT_MIN;
        if ends.is_empty() || !is_worth || !self.credit.spend(cost(ends)) {
            return None;
        }
        self.ahead.insert(file, ends);
        Some(ends)
    }

    /// What was bought of a file that is not opened yet.
    pub(crate) fn ahead(&self, file: FileRef) -> Option<Ends> {
        self.ahead.get(&file).copied()
    }

    /// A file of which ends are ahead is opened, and they are there.
    pub(crate) fn opened(&mut self, file: FileRef) {
        let Some(ends) = self.ahead.remove(&file) else { return };
        if self.opened.len() == OPENED_MAX {
            self.opened.pop_front();
        }
        self.opened.push_back((file, ends));
    }

    /// Nothing of a file of which ends were ahead is there any more, or will be read.
    pub(crate) fn lost(&mut self, file: FileRef) {
        self.ahead.remove(&file);
    }

    /// What was bought did not come.
    pub(crate) fn refused(&mut self, file: FileRef) {
        if let Some(ends) = self.ahead.remove(&file) {
            self.credit.refused(cost(ends));
        }
    }

    /// Of what was bought only these ends will come.
    pub(crate) fn cut(&mut self, file: FileRef, ends: Ends) {
        let opened = self.opened.iter_mut().rfind(|(opened, _)| *opened == file).map(|(_, ends)| ends);
        if let Some(bought) = self.ahead.get_mut(&file).or(opened) {
            let before = core::mem::replace(bought, bought.common(ends));
            self.credit.refused(cost(before).saturating_sub(cost(*bought)));
        }
    }

    /// The files of `dir` are others, or not known any more, but for those of which ends are
    /// ahead.
    pub(crate) fn forget(&mut self, dir: DirId) {
        self.opened.retain(|&((of, _), _)| of != dir);
    }

    /// `ends` were read of a file that is closed, for the `first` time or not, in a directory that
    /// was opened so far. Returns whether some was bought, and not read.
    pub(crate) fn closed(&mut self, file: FileRef, ends: Ends, first: bool, dense: Dense) -> bool {
        self.closed.add(file, ends);
        let place = self.opened.iter().position(|&(opened, _)| opened == file);
        let Some((_, bought)) = place.and_then(|place| self.opened.remove(place)) else {
            if first {
                let bytes = ends.within(u64::MAX, u64::from(END_PAGES_MAX) * PAGE_BYTES).bytes();
                self.credit.used_among(bytes, dense.opened.into(), dense.files.into());
            }
            return false;
        };
        let common = bought.common(ends);
        self.credit.hit(if common == bought { cost(bought) } else { common.bytes() });
        common != bought
    }
}

/// What ends cost, in bytes.
fn cost(ends: Ends) -> u64 {
    ends.bytes().max(REQUEST_BYTES)
}

/// What a file costs at least, in bytes: it is a request, however little comes of it. Lower: a
/// program that reads the first page of a few files has many others fetched in vain. Higher: less
/// is ahead of one that goes on. Source: as for files across directories, docs/decisions/0063.
const REQUEST_BYTES: u64 = 16 << 10;

/// Files that are fetched with one guess, of the last files that were closed: 4. Lower: one that
/// is read otherwise changes what is fetched of many. Higher: a program that reads less is
/// followed later. Source: a guess, not measured.
const CLOSED_MAX: usize = 4;

/// Files that have to be closed until some are fetched. Lower: a lone `head` has others fetched.
/// Higher: a reader waits for more files. Source: a guess, not measured; siblings come with the
/// second file as well.
const CLOSED_MIN: usize = 2;

/// How many times as long as the shortest of them the ends are that are fetched, at most. Lower:
/// of files that differ the longer ones cost a second round trip. Higher: one that was read to its
/// end has much fetched in vain. Source: a guess, not measured; tags are 64 KiB to 256 KiB.
const ALIKE: u32 = 4;

/// The longest end that is fetched, in pages: 8 MiB. Lower: programs that read some megabytes of
/// each (`file` reads seven) wait for the rest. Higher: a file that is read whole spends all
/// credit on the next one alone. Source: docs/decisions/0124.
const END_PAGES_MAX: u32 = ((8 << 20) / PAGE_BYTES) as u32;

/// The least that is bought of a file when the credit does not suffice for all, in bytes. Lower:
/// requests of a few pages, each of which costs as much as one of many. Higher: less is ahead of a
/// program that reads long heads. Source: a guess, not measured; one read of a kernel.
const BOUGHT_MIN: u64 = 128 << 10;

/// Files fetched ahead when heads are first expected. Lower: the reader waits more often until the
/// number has doubled. Higher: more is fetched in vain for a program that reads three heads.
/// Source: as for a walk.
pub(crate) const HEADS_FIRST: u32 = 4;

/// Heads ahead at most, in files. Lower: a fast reader waits. Higher: more is fetched in vain
/// where it stops. Source: as many files as may be in flight.
const HEADS_MAX: u32 = 64;

/// Credit of a mount at its start, in bytes. Lower: the first files cost more round trips. Higher:
/// more is fetched in vain for a program that reads a few heads of many files. Source: as for
/// siblings, docs/decisions/0057; eight heads of 256 KiB.
const CREDIT_FIRST: u64 = 2 << 20;

/// Files of which something was bought and that are opened and not closed, at most. Lower: a
/// program that keeps many files open pays nothing back. Higher: more memory, and a close takes
/// longer. Source: a guess, not measured.
const OPENED_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DirId;

    fn expected(heads: &[u32]) -> Option<u32> {
        let mut closed = Closed::default();
        for (nth, &head) in (0..).zip(heads) {
            closed.add((DirId(0), nth), Ends { head, tail: 0 });
        }
        closed.expected().map(|ends| ends.head)
    }

    #[test]
    fn two_files_tell_and_one_that_differs_changes_little() {
        assert_eq!(expected(&[]), None);
        assert_eq!(expected(&[32]), None);
        assert_eq!(expected(&[32, 16]), Some(32));
        assert_eq!(expected(&[16, 16, 10_000]), Some(64));
        assert_eq!(expected(&[16, 64, 64, 64, 64]), Some(64));
        assert_eq!(expected(&[9_000, 9_000]), Some(END_PAGES_MAX));
        assert_eq!(expected(&[0, 32]), None, "of one nothing was read");
    }

    #[test]
    fn one_file_that_is_closed_again_is_one() {
        let (mut heads, file) = (Heads::default(), (DirId(0), 7));
        let ends = Ends { head: 64, tail: 0 };
        heads.closed(file, ends, true, Dense::default());
        let left = heads.credit.left();
        heads.closed(file, ends, false, Dense::default());
        assert_eq!((heads.closed.expected(), heads.credit.left()), (None, left));
        heads.closed((DirId(0), 9), ends, true, Dense::default());
        assert_eq!(heads.closed.expected(), Some(ends));
        assert!(heads.credit.left() > left);
    }

    #[test]
    fn what_is_ahead_is_known_until_it_is_opened_and_the_oldest_that_is_opened_is_forgotten() {
        let mut heads = Heads { credit: Credit::new(1 << 30), ..Heads::default() };
        let ends = Ends { head: 1, tail: 0 };
        let files = (0..3 * OPENED_MAX as u32).map(|nth| (DirId(u64::from(nth % 2)), 10_000 - nth));
        for file in files.clone() {
            assert_eq!(heads.buy(file, ends, 1_000), Some(ends));
        }
        assert!(files.clone().all(|file| heads.ahead(file) == Some(ends)));
        for file in files.clone() {
            heads.opened(file);
        }
        let kept = |heads: &Heads| heads.opened.iter().map(|&(file, _)| file).collect::<alloc::vec::Vec<_>>();
        assert_eq!(kept(&heads), files.clone().skip(2 * OPENED_MAX).collect::<alloc::vec::Vec<_>>());
        heads.forget(DirId(1));
        assert!(heads.opened.len() == OPENED_MAX / 2 && kept(&heads).iter().all(|&(dir, _)| dir == DirId(0)));
        assert!(heads.ahead.is_empty());
    }

    #[test]
    fn what_found_no_room_is_repaid_and_what_did_is_not() {
        let (mut heads, file) = (Heads::default(), (DirId(0), 7));
        let before = heads.credit.left();
        heads.buy(file, Ends { head: 64, tail: 32 }, 1_000);
        heads.cut(file, Ends { head: 64, tail: 0 });
        assert_eq!(before - heads.credit.left(), 64 * PAGE_BYTES);
        assert_eq!(heads.ahead(file), Some(Ends { head: 64, tail: 0 }));
    }

    #[test]
    fn what_is_bought_and_not_read_is_bounded() {
        let mut heads = Heads::default();
        let ends = Ends { head: 64, tail: 0 };
        let mut vain = 0;
        for entry in 0..10_000 {
            let file = (DirId(0), entry);
            match heads.buy(file, ends, 1_000) {
                Some(ends) => vain += ends.bytes(),
                None => _ = heads.closed(file, ends, true, Dense::default()),
            }
        }
        let read = 10_000 * ends.bytes();
        assert!(vain > CREDIT_FIRST && vain <= CREDIT_FIRST + read / 32, "{vain}");
    }

    #[test]
    fn what_is_read_pays_for_the_next() {
        let mut heads = Heads::default();
        let (bought, read) = (Ends { head: 64, tail: 1 }, Ends { head: 32, tail: 8 });
        let file = (DirId(0), 7);
        assert_eq!(heads.buy(file, bought, 1_000), Some(bought));
        assert_eq!(heads.ahead(file), Some(bought));
        heads.opened(file);
        let before = heads.credit.left();
        assert!(heads.closed(file, read, true, Dense::default()), "some of it was not read");
        assert_eq!(heads.credit.left() - before, 2 * 33 * PAGE_BYTES);
        assert_eq!(heads.ahead(file), None);
    }
}
