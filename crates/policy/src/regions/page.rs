//! What is known of each page of a region: 16 bytes a page, and the lists that the pages in memory are on.
//!
//! ```text
//!   list   head <-> page <-> page <-> tail        a page is on one list at most; the head has been there longest
//!
//!   Settled, Passing   in memory, and not to leave yet
//!   Leaving            to leave, on its way to the spill file
//!   Ready              to leave as soon as its room is wanted
//! ```

use alloc::vec;
use alloc::vec::Vec;

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in memory: in the spill file, or zeroes.
    Away,
    /// On its way from the spill file.
    Arriving,
    /// Read, and not mapped.
    Staged,
    /// Mapped, as the spill file has it.
    Clean,
    /// Mapped, and perhaps different.
    Dirty,
}

/// A list that a page can be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Settled,
    Passing,
    Leaving,
    Ready,
}

/// Something that holds of a page or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag(u16);

impl Flag {
    /// The spill file holds its contents. Without, they are zeroes, unless it is dirty.
    pub(crate) const COPY: Self = Self(1);
    /// A thread waits for it.
    pub(crate) const WAITED: Self = Self(1 << 1);
    /// It will be dirty as soon as it is mapped.
    pub(crate) const WRITE: Self = Self(1 << 2);
    /// It is mapped when it comes, though nobody waits for it.
    pub(crate) const EXPECTED: Self = Self(1 << 3);
    /// It was read ahead, and nobody has been seen to use it.
    pub(crate) const UNSEEN: Self = Self(1 << 4);
    /// A request to clean it is on its way.
    pub(crate) const CLEANING: Self = Self(1 << 5);
    /// Its contents are not wanted any more, but something is on its way.
    pub(crate) const DISCARDED: Self = Self(1 << 6);
    /// The request to clean it found nothing but zeroes.
    pub(crate) const ZEROES: Self = Self(1 << 7);
    /// It was in memory before.
    pub(crate) const LEFT: Self = Self(1 << 8);
    /// It was settled when it left, or is to be when it comes.
    pub(crate) const SETTLED: Self = Self(1 << 9);
    /// Its thread waits for room.
    pub(crate) const PENDING: Self = Self(1 << 10);
    /// It was mapped protected, and neither has it been written to since nor has it left.
    pub(crate) const UNWRITTEN: Self = Self(1 << 12);
    /// It left to be compared with others.
    pub(crate) const RACES: Self = Self(1 << 11);
}

#[derive(Debug, Clone, Copy)]
struct Record {
    before: u32,
    after: u32,
    /// When it left.
    left: u32,
    flags: u16,
    place: Place,
    list: Option<List>,
}

/// Ends of a list.
#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
    len: u64,
}

/// All pages of a region.
#[derive(Debug)]
pub(crate) struct Pages {
    records: Vec<Record>,
    lists: [Ends; 4],
    held: u64,
}

impl Pages {
    /// `pages` that were never written to; less than 2^32.
    pub(crate) fn new(pages: u64) -> Self {
        let pages = u32::try_from(pages).ok().filter(|&pages| pages < NONE).expect("a region below 16 TiB");
        let untouched = Record { before: NONE, after: NONE, left: 0, flags: 0, place: Place::Away, list: None };
        let empty = Ends { head: NONE, tail: NONE, len: 0 };
        Self { records: vec![untouched; pages as usize], lists: [empty; 4], held: 0 }
    }

    /// How many pages there are.
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// How many of them are in memory or on their way there.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn place(&self, page: u64) -> Place {
        self.records[page as usize].place
    }

    pub(crate) fn set_place(&mut self, page: u64, place: Place) {
        let record = &mut self.records[page as usize];
        self.held += u64::from(place != Place::Away);
        self.held -= u64::from(record.place != Place::Away);
        record.place = place;
    }

    pub(crate) fn has(&self, page: u64, flag: Flag) -> bool {
        self.records[page as usize].flags & flag.0 != 0
    }

    pub(crate) fn set(&mut self, page: u64, flag: Flag, holds: bool) {
        let flags = &mut self.records[page as usize].flags;
        *flags = if holds { *flags | flag.0 } else { *flags & !flag.0 };
    }

    /// The same, and whether it held before.
    pub(crate) fn take(&mut self, page: u64, flag: Flag) -> bool {
        let held = self.has(page, flag);
        self.set(page, flag, false);
        held
    }

    /// When the page left last.
    pub(crate) fn left(&self, page: u64) -> u32 {
        self.records[page as usize].left
    }

    pub(crate) fn set_left(&mut self, page: u64, now: u32) {
        self.records[page as usize].left = now;
    }

    pub(crate) fn list(&self, page: u64) -> Option<List> {
        self.records[page as usize].list
    }

    /// How many pages are on a list.
    pub(crate) fn on(&self, list: List) -> u64 {
        self.lists[list as usize].len
    }

    /// The page that has been on a list for longest.
    pub(crate) fn oldest(&self, list: List) -> Option<u64> {
        Some(self.lists[list as usize].head).filter(|&head| head != NONE).map(u64::from)
    }

    /// Puts the page at the tail of a list, off the one that it is on.
    pub(crate) fn put(&mut self, page: u64, list: List) {
        self.unlist(page);
        let tail = self.lists[list as usize].tail;
        let record = &mut self.records[page as usize];
        (record.before, record.after, record.list) = (tail, NONE, Some(list));
        let number = page as u32;
        if let Some(before) = self.records.get_mut(tail as usize) {
            before.after = number;
        } else {
            self.lists[list as usize].head = number;
        }
        let ends = &mut self.lists[list as usize];
        ends.tail = number;
        ends.len += 1;
    }

    /// Takes the page off the list that it is on.
    pub(crate) fn unlist(&mut self, page: u64) {
        let record = &mut self.records[page as usize];
        let (before, after) = (record.before, record.after);
        let Some(list) = record.list.take() else { return };
        if let Some(record) = self.records.get_mut(before as usize) {
            record.after = after;
        } else {
            self.lists[list as usize].head = after;
        }
        if let Some(record) = self.records.get_mut(after as usize) {
            record.before = before;
        } else {
            self.lists[list as usize].tail = before;
        }
        self.lists[list as usize].len -= 1;
    }
}

/// No page.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_sixteen_bytes() {
        assert_eq!(size_of::<Record>(), 16);
    }

    #[test]
    fn a_page_is_on_one_list_in_the_order_in_which_it_came() {
        let mut pages = Pages::new(8);
        for page in [3, 1, 7] {
            pages.put(page, List::Passing);
        }
        pages.put(1, List::Ready);
        assert_eq!((pages.on(List::Passing), pages.on(List::Ready)), (2, 1));
        assert_eq!((pages.oldest(List::Passing), pages.oldest(List::Ready)), (Some(3), Some(1)));
        pages.unlist(3);
        pages.put(3, List::Passing);
        assert_eq!(pages.oldest(List::Passing), Some(7));
        pages.unlist(7);
        pages.unlist(3);
        assert_eq!((pages.oldest(List::Passing), pages.list(3)), (None, None));
    }

    #[test]
    fn what_is_in_memory_is_counted() {
        let mut pages = Pages::new(4);
        pages.set_place(2, Place::Arriving);
        pages.set_place(2, Place::Dirty);
        pages.set_place(1, Place::Staged);
        assert_eq!(pages.held(), 2);
        pages.set_place(2, Place::Away);
        assert_eq!(pages.held(), 1);
        pages.set(1, Flag::COPY, true);
        assert!(pages.take(1, Flag::COPY) && !pages.has(1, Flag::COPY));
    }
}
