//! Pages: what is known of each page of a region, in 16 bytes a page, and the lists that pages are
//! on.
//!
//! ```text
//!   list   head <-> page <-> page <-> tail        the head has been on the list for longest
//!
//!   Passing, Settled ──chosen──> Leaving ──cleaned──> Ready ──> off: dropped
//!      ^                 │ clean already ──────────────^ │
//!      └── written to, or used: Settled ─────────────────┘
//! ```
//!
//! *Invariants:* a page is on one list at most. The lists are threaded through the records, so no
//! operation allocates or searches.
//!
//! This file decides nothing: `replacement` moves pages between the lists, `path` changes their
//! places. Source: docs/decisions/0032, point 9, for the size of a record.

use alloc::vec;
use alloc::vec::Vec;

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in memory: in the spill file, or zeroes.
    Away,
    /// It is being read from the spill file.
    Arriving,
    /// Read, and held by the driver outside the mapping.
    Staged,
    /// Mapped, with the contents that the spill file has, or zeroes.
    Clean,
    /// Mapped, and perhaps changed.
    Dirty,
}

/// A list that a page can be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// In memory, and kept for longer.
    Settled,
    /// In memory, and came lately.
    Passing,
    /// Chosen to leave, and being cleaned.
    Leaving,
    /// Clean, and dropped as soon as its room is wanted.
    Ready,
}

/// A property that a page has or has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// The spill file holds its contents. A page without it is zeroes, unless it is dirty.
    Copy,
    /// A thread waits for it.
    Waited,
    /// It is mapped dirty.
    Write,
    /// It is mapped when it has been read, though no thread waits for it.
    Expected,
    /// It was read ahead, and no use of it has been seen.
    Unseen,
    /// A request to clean it is open.
    Cleaning,
    /// Its contents are given up, but a request for it is open.
    Discarded,
    /// The request to clean it found nothing but zeroes.
    Zeroes,
    /// It was in memory before.
    Left,
    /// It was settled when it was chosen to leave.
    Settled,
    /// Its thread waits for room.
    Pending,
    /// It left for a race between settled and passing pages.
    Races,
    /// It was mapped protected, and has neither been written to since nor left.
    Unwritten,
}

impl Flag {
    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// What is known of one page.
#[derive(Debug, Clone, Copy)]
struct Record {
    /// Its neighbours on its list.
    before: u32,
    after: u32,
    /// When it left, in pages that left before.
    left: u32,
    flags: u16,
    place: Place,
    list: Option<List>,
}

/// The ends of a list.
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
    /// Pages that are not away.
    held: u64,
}

impl Pages {
    /// A region of `pages` pages that were never written to; less than 2^32 - 1.
    pub(crate) fn new(pages: u64) -> Self {
        let pages = u32::try_from(pages).ok().filter(|&pages| pages < NONE).expect("a region below 16 TiB");
        let untouched = Record { before: NONE, after: NONE, left: 0, flags: 0, place: Place::Away, list: None };
        let empty = Ends { head: NONE, tail: NONE, len: 0 };
        Self { records: vec![untouched; pages as usize], lists: [empty; 4], held: 0 }
    }

    /// The number of pages of the region.
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// The number of pages that are in memory or arriving.
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
        self.records[page as usize].flags & flag.bit() != 0
    }

    pub(crate) fn set(&mut self, page: u64, flag: Flag, holds: bool) {
        let flags = &mut self.records[page as usize].flags;
        *flags = if holds { *flags | flag.bit() } else { *flags & !flag.bit() };
    }

    /// Clears a flag. Returns whether it was set.
    pub(crate) fn take(&mut self, page: u64, flag: Flag) -> bool {
        let held = self.has(page, flag);
        self.set(page, flag, false);
        held
    }

    /// When the page left last, in pages that left before it.
    pub(crate) fn left(&self, page: u64) -> u32 {
        self.records[page as usize].left
    }

    pub(crate) fn set_left(&mut self, page: u64, now: u32) {
        self.records[page as usize].left = now;
    }

    pub(crate) fn list(&self, page: u64) -> Option<List> {
        self.records[page as usize].list
    }

    /// The number of pages on a list.
    pub(crate) fn on(&self, list: List) -> u64 {
        self.lists[list as usize].len
    }

    /// The page that has been on a list for longest.
    pub(crate) fn oldest(&self, list: List) -> Option<u64> {
        Some(self.lists[list as usize].head).filter(|&head| head != NONE).map(u64::from)
    }

    /// Moves the page to the tail of a list.
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

/// The page number that stands for no page. Lower: a region could have fewer pages. Higher: it
/// would not fit into the record. Source: docs/decisions/0032, point 9: a record has 16 bytes.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_sixteen_bytes() {
        assert_eq!(size_of::<Record>(), 16);
    }

    #[test]
    fn a_list_keeps_the_order_in_which_pages_were_put() {
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
    fn pages_in_memory_are_counted() {
        let mut pages = Pages::new(4);
        pages.set_place(2, Place::Arriving);
        pages.set_place(2, Place::Dirty);
        pages.set_place(1, Place::Staged);
        assert_eq!(pages.held(), 2);
        pages.set_place(2, Place::Away);
        assert_eq!(pages.held(), 1);
        pages.set(1, Flag::Copy, true);
        assert!(pages.take(1, Flag::Copy) && !pages.has(1, Flag::Copy));
    }
}
