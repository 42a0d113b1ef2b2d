//! The wiring of a view: from touches to blocks that are read, mapped and dropped.
//!
//! ```text
//!   Fault ──┬─ away ───────> Read .. Completed ──┬─ read ────> Drop until there is room, then Map
//!           ├─ arriving ───> nothing             └─ failed ──> Fail; the next touch reads again
//!           └─ mapped ─────> Wake
//! ```
//!
//! A block is as long as a read of a mount. So the readahead behind the view sees the same streams
//! that it would see there, and the view reads nothing ahead. No block is dirty, and a dropped
//! block can be read again, so a block that leaves is gone at once.
//!
//! `regions::replacement` decides which block leaves, as for the pages of a region: touches of
//! mapped blocks are not seen here either. If the block mapped first always left, a loop over more
//! than the budget would miss every block in every round.
//!
//! *Invariants:* mapped blocks never exceed the budget. No block is read while it is arriving or
//! mapped. Blocks that are arriving are memory of the engine, and are not counted here.
//!
//! This file does not wait, retry or know threads: the driver holds those that wait. Source:
//! docs/decisions/0039.

use alloc::collections::VecDeque;

use crate::regions::page::{List, Pages, Place};
use crate::regions::replacement::Eviction;
use crate::units::Extent;
use crate::views::event::{ViewAction, ViewCounters, ViewEvent};

/// What a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewOptions {
    /// The pages of the object; less than 2^37.
    pub pages: u64,
    /// Pages that may be mapped; counted in whole blocks of 32, at least one block.
    pub budget: u64,
}

/// The policy of a view. It is used as [`crate::ReadPath`] is, without a clock:
/// [`ViewPath::handle`], then [`ViewPath::poll_action`] until `None`.
///
/// An event costs O(1). The records take 16 bytes for each block of the object.
#[derive(Debug)]
pub struct ViewPath {
    /// The records of the blocks: a block is to a view what a page is to a region.
    blocks: Pages,
    eviction: Eviction,
    pages: u64,
    /// In blocks.
    budget: u64,
    actions: VecDeque<ViewAction>,
    counters: ViewCounters,
    mapped_pages: u64,
}

impl ViewPath {
    /// A view with nothing mapped.
    ///
    /// # Panics
    ///
    /// If the object has 2^37 pages or more.
    pub fn new(options: ViewOptions) -> Self {
        Self {
            blocks: Pages::new(options.pages.div_ceil(BLOCK_PAGES)),
            eviction: Eviction::new(),
            pages: options.pages,
            budget: (options.budget / BLOCK_PAGES).max(1),
            actions: VecDeque::new(),
            counters: ViewCounters::default(),
            mapped_pages: 0,
        }
    }

    /// Handles an event. Events of pages beyond the object are ignored, and so are ends of reads
    /// that were not made.
    pub fn handle(&mut self, event: ViewEvent) {
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        match event {
            ViewEvent::Fault { page } if page < self.pages => self.fault(page),
            ViewEvent::Fault { .. } => {}
            ViewEvent::Completed { pages, came } => {
                if let Some(block) = self.block(pages, Place::Arriving) {
                    if came { self.map(block) } else { self.fail(block) }
                }
            }
            ViewEvent::Lost { pages } => {
                if let Some(block) = self.block(pages, Place::Clean) {
                    self.unmap(block);
                    self.fail(block);
                }
            }
        }
    }

    /// The next action; `None` when there are no more.
    pub fn poll_action(&mut self) -> Option<ViewAction> {
        self.actions.pop_front()
    }

    /// What was decided so far.
    pub fn counters(&self) -> ViewCounters {
        self.counters
    }

    /// The number of mapped pages.
    pub fn mapped(&self) -> u64 {
        self.mapped_pages
    }

    fn fault(&mut self, page: u64) {
        self.counters.faults += 1;
        let block = page / BLOCK_PAGES;
        match self.blocks.place(block) {
            Place::Away => {
                self.blocks.set_place(block, Place::Arriving);
                self.counters.reads += 1;
                let pages = self.extent(block);
                self.actions.push_back(ViewAction::Read { pages });
            }
            Place::Arriving => {}
            _ => self.actions.push_back(ViewAction::Wake { page }),
        }
    }

    fn map(&mut self, block: u64) {
        while self.blocks.on(List::Passing) + self.blocks.on(List::Settled) >= self.budget
            && let Some(leaves) = self.eviction.next(&mut self.blocks, self.budget)
        {
            self.unmap(leaves);
            self.eviction.evicted(&mut self.blocks, leaves);
            let pages = self.extent(leaves);
            self.actions.push_back(ViewAction::Drop { pages });
        }
        self.blocks.set_place(block, Place::Clean);
        self.eviction.arrived(&mut self.blocks, block, self.budget);
        let pages = self.extent(block);
        self.mapped_pages += pages.pages();
        self.actions.push_back(ViewAction::Map { pages });
    }

    fn unmap(&mut self, block: u64) {
        self.blocks.unlist(block);
        self.blocks.set_place(block, Place::Away);
        self.mapped_pages -= self.extent(block).pages();
    }

    fn fail(&mut self, block: u64) {
        self.blocks.set_place(block, Place::Away);
        let pages = self.extent(block);
        self.counters.pages_failed += pages.pages();
        self.actions.push_back(ViewAction::Fail { pages });
    }

    /// The block that begins with `pages`, if it is at `place`.
    fn block(&self, pages: Extent, place: Place) -> Option<u64> {
        let block = pages.start / BLOCK_PAGES;
        (block < self.blocks.len() && self.blocks.place(block) == place).then_some(block)
    }

    fn extent(&self, block: u64) -> Extent {
        Extent::new(block * BLOCK_PAGES, ((block + 1) * BLOCK_PAGES).min(self.pages))
    }
}

/// Pages of a block, which is read and mapped at once: 128 KiB, as long as a read of a mount.
/// Lower: more faults and more reads of the engine. Higher: a touch at random waits for pages that
/// are not used, and evicts others for them. Source: docs/decisions/0033, point 9, and 0039.
const BLOCK_PAGES: u64 = 32;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn tell(path: &mut ViewPath, event: ViewEvent) -> Vec<ViewAction> {
        path.handle(event);
        core::iter::from_fn(|| path.poll_action()).collect()
    }

    fn came(path: &mut ViewPath, start: u64, end: u64) -> Vec<ViewAction> {
        tell(path, ViewEvent::Completed { pages: Extent::new(start, end), came: true })
    }

    #[test]
    fn a_touch_of_an_arriving_block_reads_nothing() {
        let mut path = ViewPath::new(ViewOptions { pages: 70, budget: 64 });
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 5 }), [ViewAction::Read { pages: Extent::new(0, 32) }]);
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 31 }), []);
        // The last block ends with the object.
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 69 }), [ViewAction::Read { pages: Extent::new(64, 70) }]);
        assert_eq!(came(&mut path, 0, 32), [ViewAction::Map { pages: Extent::new(0, 32) }]);
        // This touch is reported after the block was mapped.
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 7 }), [ViewAction::Wake { page: 7 }]);
        assert_eq!((path.counters().faults, path.counters().reads, path.mapped()), (4, 2, 32));
    }

    /// Touches a page of each of these blocks, one after the other. Returns how many were read.
    fn touch(path: &mut ViewPath, blocks: impl IntoIterator<Item = u64>) -> u64 {
        let before = path.counters().reads;
        for block in blocks {
            if path.blocks.place(block) == Place::Away {
                tell(path, ViewEvent::Fault { page: block * 32 + 9 });
                came(path, block * 32, block * 32 + 32);
            }
        }
        path.counters().reads - before
    }

    #[test]
    fn a_block_that_arrives_takes_the_room_of_another() {
        let mut path = ViewPath::new(ViewOptions { pages: 1000, budget: 64 + 31 });
        touch(&mut path, [10, 0]);
        tell(&mut path, ViewEvent::Fault { page: 65 });
        let actions = came(&mut path, 64, 96);
        assert!(
            matches!(actions[..], [ViewAction::Drop { .. }, ViewAction::Map { pages }] if pages == Extent::new(64, 96))
        );
        assert_eq!(path.mapped(), 64);
    }

    #[test]
    fn a_loop_misses_little_more_than_the_blocks_without_room() {
        let (budget, blocks) = (256, 384);
        let mut path = ViewPath::new(ViewOptions { pages: blocks * 32, budget: budget * 32 });
        assert_eq!(touch(&mut path, 0..blocks), blocks);
        let rounds = 20;
        let missed: u64 = (0..rounds).map(|_| touch(&mut path, 0..blocks)).sum();
        assert!((rounds * 128..rounds * 160).contains(&missed), "{missed}");
    }

    #[test]
    fn blocks_of_threads_in_step_are_kept_once_that_is_seen() {
        // More places than passing blocks: at first each block leaves before its last page has
        // been touched.
        let (places, each) = (64, 400);
        let mut path = ViewPath::new(ViewOptions { pages: places * each * 32, budget: 256 * 32 });
        let turns = |pages: core::ops::Range<u64>| {
            pages.flat_map(|page| (0..places).map(move |place| place * each + page / 32))
        };
        let learned = touch(&mut path, turns(0..150 * 32));
        assert!(learned < places * 150 + 4_096, "{learned} of {}", places * 150);
        let after = touch(&mut path, turns(150 * 32..each * 32));
        assert!(after < places * 250 * 21 / 20, "{after} of {}", places * 250);
    }

    #[test]
    fn a_block_that_fails_evicts_nothing_and_is_read_again() {
        let mut path = ViewPath::new(ViewOptions { pages: 64, budget: 32 });
        tell(&mut path, ViewEvent::Fault { page: 0 });
        came(&mut path, 0, 32);
        tell(&mut path, ViewEvent::Fault { page: 40 });
        let pages = Extent::new(32, 64);
        let failed = tell(&mut path, ViewEvent::Completed { pages, came: false });
        assert_eq!(failed, [ViewAction::Fail { pages }]);
        assert_eq!((path.mapped(), path.counters().pages_failed), (32, 32));
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 40 }), [ViewAction::Read { pages }]);
        // It is read, and cannot be mapped.
        assert_eq!(came(&mut path, 32, 64).len(), 2);
        assert_eq!(tell(&mut path, ViewEvent::Lost { pages }), [ViewAction::Fail { pages }]);
        assert_eq!((path.mapped(), path.counters().pages_failed), (0, 64));
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 63 }), [ViewAction::Read { pages }]);
    }

    #[test]
    fn events_of_blocks_that_were_not_read_are_ignored() {
        let mut path = ViewPath::new(ViewOptions { pages: 64, budget: 32 });
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 64 }), []);
        assert_eq!(came(&mut path, 0, 32), []);
        assert_eq!(tell(&mut path, ViewEvent::Lost { pages: Extent::new(640, 672) }), []);
        assert_eq!(path.counters(), ViewCounters::default());
    }
}
