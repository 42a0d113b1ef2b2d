//! How room is made: pages are chosen, cleaned ahead of need, and dropped.

use alloc::vec::Vec;

use super::{Request, SwapPath, one, spare};
use crate::regions::event::SwapAction;
use crate::regions::page::{Flag, List, Place};
use crate::regions::replacement::Leaving;
use crate::units::{Extent, RequestId};

impl SwapPath {
    pub(super) fn cleaned(&mut self, request: RequestId, came: bool) {
        let Some(&Request::Clean(extent)) = self.requests.get(&request) else { return };
        self.requests.remove(&request);
        self.failing |= !came;
        for page in self.within(extent) {
            self.pages.set(page, Flag::CLEANING, false);
            let zeroes = self.pages.take(page, Flag::ZEROES);
            self.counters.pages_cleaned += u64::from(came && !zeroes);
            let clean = self.pages.place(page) == Place::Clean;
            self.pages.set(page, Flag::COPY, true);
            if !came || zeroes || !clean {
                self.forget_copy(page);
            }
            if self.pages.take(page, Flag::DISCARDED) {
                self.discarding -= 1;
                self.discard(page);
            } else if clean {
                if came {
                    if self.pages.list(page) == Some(List::Leaving) {
                        self.pages.put(page, List::Ready);
                    }
                } else {
                    self.pages.set_place(page, Place::Dirty);
                    Leaving::used(&mut self.pages, page);
                }
            }
        }
    }

    /// Room for so many pages, or as many as can be had at once.
    pub(super) fn room(&mut self, wanted: u64) -> u64 {
        if self.budget.saturating_sub(self.pages.held()) < wanted {
            // A few at a time cost a driver as much as one.
            let few = DROPPED_FEW.min(spare(self.budget) / DROPPED_FEW);
            while self.budget.saturating_sub(self.pages.held()) < wanted + few && self.drop_one() {}
        }
        self.budget.saturating_sub(self.pages.held()).min(wanted)
    }

    pub(super) fn drop_one(&mut self) -> bool {
        let Some(page) = self.pages.oldest(List::Ready) else { return false };
        self.pages.unlist(page);
        self.pages.set_place(page, Place::Away);
        if self.pages.take(page, Flag::UNSEEN) {
            self.counters.pages_wasted += 1;
            self.ahead.wasted(page);
        }
        if self.pages.take(page, Flag::UNWRITTEN) {
            self.writes.seen(false);
        }
        self.leaving.gone(&mut self.pages, page);
        self.credit = (self.credit + 2).min(2 * spare(self.budget));
        self.act(SwapAction::Drop { pages: one(page) });
        true
    }

    /// Chooses pages to leave, and cleans those that are dirty.
    pub(super) fn make_ready(&mut self) {
        let free = self.budget.saturating_sub(self.pages.held());
        let over = self.pages.held().saturating_sub(self.budget);
        let wanted = (spare(self.budget) + over).saturating_sub(free);
        let ready = self.pages.on(List::Ready) + self.pages.on(List::Leaving);
        let pressed = over > 0 || !self.pending.is_empty();
        if self.failing || ready * 2 >= wanted {
            return;
        }
        let mut dirty = Vec::new();
        for _ in ready..wanted {
            if self.credit == 0 && !pressed {
                break;
            }
            let Some(page) = self.leaving.next(&mut self.pages, self.budget) else { break };
            self.credit = self.credit.saturating_sub(1);
            if self.pages.place(page) == Place::Dirty {
                self.pages.put(page, List::Leaving);
                dirty.push(page);
            } else {
                self.pages.put(page, List::Ready);
            }
        }
        dirty.sort_unstable();
        self.clean(&dirty);
    }

    /// Writes pages to the spill file, side by side as far as there is room for that.
    fn clean(&mut self, mut dirty: &[u64]) {
        while !dirty.is_empty() {
            let (together, rest) = dirty.split_at(self.slots.take(dirty));
            for run in together.chunk_by(|page, next| page + 1 == *next) {
                for run in run.chunks(CLEAN_PAGES_MAX) {
                    let pages = Extent::new(run[0], run[0] + run.len() as u64);
                    for &page in run {
                        self.pages.set_place(page, Place::Clean);
                        self.pages.set(page, Flag::CLEANING, true);
                    }
                    let request = self.request(Request::Clean(pages));
                    self.act(SwapAction::Clean { request, pages, slot: self.slots.of(run[0]) });
                }
            }
            dirty = rest;
        }
    }
}

/// Pages that leave together, beyond those whose room is wanted, where many are ready.
const DROPPED_FEW: u64 = 7;

/// The longest request to clean pages: 256 KiB.
pub const CLEAN_PAGES_MAX: usize = 64;
