//! An object as memory that is only read: from touches to blocks that are read, mapped and dropped.
//!
//! ```text
//!   Fault ──> away: Read ──> Completed ──> it came: Drop, until there is room ──> Map     who waits for it goes on
//!         │                           └──> it did not: Fail                               who waits for it is told; the next touch asks again
//!         ├─> on its way: nothing, the thread waits with the others
//!         └─> mapped meanwhile: Wake
//! ```
//!
//! A *block* is 128 KiB, as long as a read of a mount: what reads ahead behind this sees the streams that it would see there, so nothing is
//! read ahead here. Nothing is ever dirty, and what was dropped can be had again, so a block that leaves is gone at once.
//!
//! Which one leaves is `swap_replacement`'s to say, of blocks as of a region's pages: touches of what is mapped are not seen here either. In a loop over
//! more than the budget those mapped first would always be those wanted next, and every block would be missed in every round.
//!
//! Invariants: what is mapped never exceeds the budget. No block is asked for while it is on its way or mapped. What is on its way is memory of
//! whoever reads it, and not counted here.

use alloc::collections::VecDeque;

use crate::regions::page::{List, Pages, Place};
use crate::regions::replacement::Leaving;
use crate::units::Extent;
use crate::views::event::{ViewAction, ViewCounters, ViewEvent};

/// What a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewOptions {
    /// The object's pages; less than 2^37.
    pub pages: u64,
    /// How many of them may be mapped; counted in whole blocks, at least one.
    pub budget: u64,
}

/// A view. Used as [`crate::ReadPath`] is, without a clock: [`ViewPath::handle`], then [`ViewPath::poll_action`] until `None`.
///
/// An event costs O(1); 16 bytes a block of the object.
#[derive(Debug)]
pub struct ViewPath {
    /// The book of blocks, in which they are what pages are in a region's.
    blocks: Pages,
    leaving: Leaving,
    pages: u64,
    budget: u64,
    actions: VecDeque<ViewAction>,
    counters: ViewCounters,
    mapped_pages: u64,
}

impl ViewPath {
    /// A view of which nothing is mapped.
    ///
    /// # Panics
    ///
    /// With 2^37 pages or more.
    pub fn new(options: ViewOptions) -> Self {
        Self {
            blocks: Pages::new(options.pages.div_ceil(BLOCK_PAGES)),
            leaving: Leaving::new(),
            pages: options.pages,
            budget: (options.budget / BLOCK_PAGES).max(1),
            actions: VecDeque::new(),
            counters: ViewCounters::default(),
            mapped_pages: 0,
        }
    }

    /// Takes what happened. Pages beyond the object are ignored, and so is the end of what was not asked for.
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

    /// The next thing to do; `None` when that was all.
    pub fn poll_action(&mut self) -> Option<ViewAction> {
        self.actions.pop_front()
    }

    /// What has been decided so far.
    pub fn counters(&self) -> ViewCounters {
        self.counters
    }

    /// Pages that are mapped.
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
            && let Some(leaves) = self.leaving.next(&mut self.blocks, self.budget)
        {
            self.unmap(leaves);
            self.leaving.gone(&mut self.blocks, leaves);
            let pages = self.extent(leaves);
            self.actions.push_back(ViewAction::Drop { pages });
        }
        self.blocks.set_place(block, Place::Clean);
        self.leaving.came(&mut self.blocks, block, self.budget);
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

    /// The block of these pages, if that is where it is.
    fn block(&self, pages: Extent, place: Place) -> Option<u64> {
        let block = pages.start / BLOCK_PAGES;
        (block < self.blocks.len() && self.blocks.place(block) == place).then_some(block)
    }

    fn extent(&self, block: u64) -> Extent {
        Extent::new(block * BLOCK_PAGES, ((block + 1) * BLOCK_PAGES).min(self.pages))
    }
}

/// Pages read and mapped at a time: 128 KiB, as a mount is asked for. Fewer, and each is a fault and an event of the engine's more; more, and a
/// touch at random waits for, and drops, what nobody wants.
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
    fn who_touches_what_is_on_its_way_waits_with_the_others() {
        let mut path = ViewPath::new(ViewOptions { pages: 70, budget: 64 });
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 5 }), [ViewAction::Read { pages: Extent::new(0, 32) }]);
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 31 }), []);
        // The last block is as long as the object.
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 69 }), [ViewAction::Read { pages: Extent::new(64, 70) }]);
        assert_eq!(came(&mut path, 0, 32), [ViewAction::Map { pages: Extent::new(0, 32) }]);
        // A touch of which is told late.
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 7 }), [ViewAction::Wake { page: 7 }]);
        assert_eq!((path.counters().faults, path.counters().reads, path.mapped()), (4, 2, 32));
    }

    /// Touches a page of each of these blocks, one after the other: what was asked for.
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
    fn who_comes_is_given_the_room_of_another() {
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
    fn a_loop_misses_little_more_than_there_is_no_room_for() {
        let (budget, blocks) = (256, 384);
        let mut path = ViewPath::new(ViewOptions { pages: blocks * 32, budget: budget * 32 });
        assert_eq!(touch(&mut path, 0..blocks), blocks);
        let rounds = 20;
        let missed: u64 = (0..rounds).map(|_| touch(&mut path, 0..blocks)).sum();
        assert!((rounds * 128..rounds * 160).contains(&missed), "{missed}");
    }

    #[test]
    fn places_gone_through_in_step_keep_their_blocks_as_soon_as_that_is_seen() {
        // More places than blocks that pass: at first each leaves before its last page has been touched.
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
    fn what_does_not_come_drives_nothing_out_and_is_asked_for_again() {
        let mut path = ViewPath::new(ViewOptions { pages: 64, budget: 32 });
        tell(&mut path, ViewEvent::Fault { page: 0 });
        came(&mut path, 0, 32);
        tell(&mut path, ViewEvent::Fault { page: 40 });
        let pages = Extent::new(32, 64);
        let failed = tell(&mut path, ViewEvent::Completed { pages, came: false });
        assert_eq!(failed, [ViewAction::Fail { pages }]);
        assert_eq!((path.mapped(), path.counters().pages_failed), (32, 32));
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 40 }), [ViewAction::Read { pages }]);
        // It comes, and cannot be mapped.
        assert_eq!(came(&mut path, 32, 64).len(), 2);
        assert_eq!(tell(&mut path, ViewEvent::Lost { pages }), [ViewAction::Fail { pages }]);
        assert_eq!((path.mapped(), path.counters().pages_failed), (0, 64));
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 63 }), [ViewAction::Read { pages }]);
    }

    #[test]
    fn what_was_not_asked_for_is_nothing() {
        let mut path = ViewPath::new(ViewOptions { pages: 64, budget: 32 });
        assert_eq!(tell(&mut path, ViewEvent::Fault { page: 64 }), []);
        assert_eq!(came(&mut path, 0, 32), []);
        assert_eq!(tell(&mut path, ViewEvent::Lost { pages: Extent::new(640, 672) }), []);
        assert_eq!(path.counters(), ViewCounters::default());
    }
}
