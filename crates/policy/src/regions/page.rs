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

impl Place {
    /// In the order of their numbers.
    const ALL: [Self; 5] = [Self::Away, Self::Arriving, Self::Staged, Self::Clean, Self::Dirty];
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

impl List {
    /// In the order of their numbers.
    const ALL: [Self; 4] = [Self::Settled, Self::Passing, Self::Leaving, Self::Ready];
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
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What is known of one page: its neighbours on its list, when it left in pages that left before,
/// and its state. A page that was never used is all zeroes: the table takes memory where it is
/// written to only.
type Record = [u32; 4];

/// A word of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Before,
    After,
    Left,
    /// Flags in the lower 16 bits, then the place and the list, in 8 bits each.
    State,
}

/// A page on a list: its number and one more, so that 0 is none.
type Link = u32;

/// The ends of a list.
#[derive(Debug, Clone, Copy)]
struct Ends {
    head: Link,
    tail: Link,
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
        let pages = u32::try_from(pages).ok().filter(|&pages| pages < u32::MAX).expect("a region below 16 TiB");
        let empty = Ends { head: 0, tail: 0, len: 0 };
        // The allocator has zeroes at no cost.
        Self { records: vec![[0; 4]; pages as usize], lists: [empty; 4], held: 0 }
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
        Place::ALL[(self.records[page as usize][Word::State as usize] >> PLACE_SHIFT & 0xff) as usize]
    }

    pub(crate) fn set_place(&mut self, page: u64, place: Place) {
        let before = self.place(page);
        self.held += u64::from(place != Place::Away);
        self.held -= u64::from(before != Place::Away);
        self.set_byte(page, PLACE_SHIFT, place as u32);
    }

    /// Sets 8 bits of the state.
    fn set_byte(&mut self, page: u64, shift: u32, byte: u32) {
        let state = &mut self.records[page as usize][Word::State as usize];
        *state = *state & !(0xff << shift) | byte << shift;
    }

    pub(crate) fn has(&self, page: u64, flag: Flag) -> bool {
        self.records[page as usize][Word::State as usize] & flag.bit() != 0
    }

    pub(crate) fn set(&mut self, page: u64, flag: Flag, holds: bool) {
        if self.has(page, flag) != holds {
            self.records[page as usize][Word::State as usize] ^= flag.bit();
        }
    }

    /// Clears a flag. Returns whether it was set.
    pub(crate) fn take(&mut self, page: u64, flag: Flag) -> bool {
        let held = self.has(page, flag);
        self.set(page, flag, false);
        held
    }

    /// When the page left last, in pages that left before it.
    pub(crate) fn left(&self, page: u64) -> u32 {
        self.records[page as usize][Word::Left as usize]
    }

    pub(crate) fn set_left(&mut self, page: u64, now: u32) {
        self.records[page as usize][Word::Left as usize] = now;
    }

    pub(crate) fn list(&self, page: u64) -> Option<List> {
        let list = (self.records[page as usize][Word::State as usize] >> LIST_SHIFT).checked_sub(1)?;
        Some(List::ALL[list as usize])
    }

    /// The number of pages on a list.
    pub(crate) fn on(&self, list: List) -> u64 {
        self.lists[list as usize].len
    }

    /// The page that has been on a list for longest.
    pub(crate) fn oldest(&self, list: List) -> Option<u64> {
        self.lists[list as usize].head.checked_sub(1).map(u64::from)
    }

    /// Moves the page to the tail of a list.
    pub(crate) fn put(&mut self, page: u64, list: List) {
        self.unlist(page);
        let (tail, own) = (self.lists[list as usize].tail, page as Link + 1);
        self.set_byte(page, LIST_SHIFT, list as u32 + 1);
        let record = &mut self.records[page as usize];
        (record[Word::Before as usize], record[Word::After as usize]) = (tail, 0);
        self.link(tail, Word::After, own, list);
        let ends = &mut self.lists[list as usize];
        ends.tail = own;
        ends.len += 1;
    }

    /// Takes the page off the list that it is on.
    pub(crate) fn unlist(&mut self, page: u64) {
        let Some(list) = self.list(page) else { return };
        let record = self.records[page as usize];
        self.set_byte(page, LIST_SHIFT, 0);
        self.link(record[Word::Before as usize], Word::After, record[Word::After as usize], list);
        self.link(record[Word::After as usize], Word::Before, record[Word::Before as usize], list);
        self.lists[list as usize].len -= 1;
    }

    /// The neighbour on one `side` of the page `of` is `to`. Of no page it is the list's end.
    fn link(&mut self, of: Link, side: Word, to: Link, list: List) {
        if let Some(of) = of.checked_sub(1) {
            self.records[of as usize][side as usize] = to;
        } else if side == Word::After {
            self.lists[list as usize].head = to;
        } else {
            self.lists[list as usize].tail = to;
        }
    }
}

/// Where the place is in a state, in bits. Lower: it would overlap with the flags. Higher: the
/// list would not fit. Source: the number of flags.
const PLACE_SHIFT: u32 = 16;

/// Where the list is in a state, in bits. Lower: it would overlap with the place. Higher: it would
/// not fit. Source: the 8 bits of the place.
const LIST_SHIFT: u32 = 24;

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
    fn numbers_and_what_they_stand_for_agree() {
        assert!(Place::ALL.iter().enumerate().all(|(number, place)| *place as usize == number));
        assert!(List::ALL.iter().enumerate().all(|(number, list)| *list as usize == number));
        assert!(Flag::Unwritten.bit() < 1 << PLACE_SHIFT, "the last flag is below the place");
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
