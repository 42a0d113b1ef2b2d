//! A page cache as kernels have it: single pages in the order of arrival; a page that is read
//! again moves to the end.
//!
//! The first touch does not move a page: pages that are read once, as streams read them, are
//! evicted in the order of arrival, read or not. Only the second touch makes a page the newest.

use foreread_policy::{Extent, FileId};

use crate::page_map::PageMap;

/// Resident pages and pages in flight, up to a capacity.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The frame of each page; 0 for a missing page.
    slots: PageMap<u32>,
    /// Frames of resident pages, in a ring by the last touch. Frame 0 stands between the newest
    /// (its `older`) and the oldest (its `newer`).
    frames: Vec<Frame>,
    free: Vec<u32>,
    capacity: usize,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    file: FileId,
    page: u64,
    older: u32,
    newer: u32,
    in_flight: bool,
    touched: bool,
    /// The descriptor whose readahead fetched it, until a read uses it.
    ahead_for: Option<u32>,
}

/// An evicted page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) file: FileId,
    pub(crate) page: u64,
    /// The descriptor for which it was read ahead in vain.
    pub(crate) wasted_for: Option<u32>,
}

const SENTINEL: u32 = 0;

impl Cache {
    pub(crate) fn new(capacity_pages: u64) -> Self {
        let sentinel =
            Frame { file: FileId(0), page: 0, older: 0, newer: 0, in_flight: true, touched: false, ahead_for: None };
        Self { slots: PageMap::default(), frames: vec![sentinel], free: Vec::new(), capacity: capacity_pages as usize }
    }

    pub(crate) fn holds(&self, file: FileId, page: u64) -> bool {
        self.slots.get(file, page) != 0
    }

    pub(crate) fn is_in_flight(&self, file: FileId, page: u64) -> bool {
        let slot = self.slots.get(file, page);
        slot != SENTINEL && self.frames[slot as usize].in_flight
    }

    /// The first missing page in `within`, or its end.
    pub(crate) fn next_hole(&self, file: FileId, within: Extent) -> u64 {
        (within.start..within.end).find(|&page| !self.holds(file, page)).unwrap_or(within.end)
    }

    /// Contiguous pages before `page` that are not missing, at most `most`.
    pub(crate) fn run_before(&self, file: FileId, page: u64, most: u64) -> u64 {
        let first = page.saturating_sub(most);
        (first..page).rev().take_while(|&before| self.holds(file, before)).count() as u64
    }

    /// Makes room for one page: `Ok` with the page evicted for it, if any; `Err` if all pages are
    /// in flight.
    pub(crate) fn make_room(&mut self) -> Result<Option<Evicted>, ()> {
        if self.frames.len() - 1 - self.free.len() < self.capacity {
            return Ok(None);
        }
        let at = self.frames[SENTINEL as usize].newer;
        if at == SENTINEL {
            return Err(());
        }
        let Frame { file, page, ahead_for, .. } = self.frames[at as usize];
        self.unlink(at);
        self.free.push(at);
        *self.slots.entry(file, page) = 0;
        Ok(Some(Evicted { file, page, wasted_for: ahead_for }))
    }

    /// A missing page is in flight now.
    pub(crate) fn insert(&mut self, file: FileId, page: u64, ahead_for: Option<u32>) {
        let frame = Frame { file, page, older: 0, newer: 0, in_flight: true, touched: false, ahead_for };
        let slot = if let Some(slot) = self.free.pop() {
            self.frames[slot as usize] = frame;
            slot
        } else {
            self.frames.push(frame);
            (self.frames.len() - 1) as u32
        };
        *self.slots.entry(file, page) = slot;
    }

    /// The pages of `extent` have arrived.
    pub(crate) fn arrived(&mut self, file: FileId, extent: Extent) {
        for page in extent.start..extent.end {
            let slot = self.slots.get(file, page);
            if slot != SENTINEL && std::mem::take(&mut self.frames[slot as usize].in_flight) {
                self.link_newest(slot);
            }
        }
    }

    /// A read used `page`.
    pub(crate) fn touch(&mut self, file: FileId, page: u64) {
        let slot = self.slots.get(file, page);
        if slot != SENTINEL && !self.frames[slot as usize].in_flight {
            let frame = &mut self.frames[slot as usize];
            frame.ahead_for = None;
            if std::mem::replace(&mut frame.touched, true) {
                self.unlink(slot);
                self.link_newest(slot);
            }
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Frame { older, newer, .. } = self.frames[slot as usize];
        self.frames[older as usize].newer = newer;
        self.frames[newer as usize].older = older;
    }

    fn link_newest(&mut self, slot: u32) {
        let newest = self.frames[SENTINEL as usize].older;
        self.frames[slot as usize].older = newest;
        self.frames[slot as usize].newer = SENTINEL;
        self.frames[newest as usize].newer = slot;
        self.frames[SENTINEL as usize].older = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(0);

    #[test]
    fn pages_are_evicted_in_the_order_of_arrival_or_second_touch() {
        let mut cache = Cache::new(3);
        for page in 0..3 {
            assert_eq!(cache.make_room(), Ok(None));
            cache.insert(FILE, page, Some(7));
        }
        assert_eq!(cache.make_room(), Err(()), "all are in flight");
        cache.arrived(FILE, Extent::new(0, 3));
        cache.touch(FILE, 0);
        cache.touch(FILE, 0);
        assert_eq!(cache.make_room(), Ok(Some(Evicted { file: FILE, page: 1, wasted_for: Some(7) })));
        cache.insert(FILE, 9, None);
        assert_eq!(cache.make_room().unwrap().unwrap().page, 2);
        assert_eq!(cache.make_room(), Ok(None), "there is room for one");
        assert_eq!((cache.next_hole(FILE, Extent::new(0, 5)), cache.next_hole(FILE, Extent::new(9, 10))), (1, 10));
        assert_eq!((cache.run_before(FILE, 1, 8), cache.run_before(FILE, 2, 8)), (1, 0));
    }
}
