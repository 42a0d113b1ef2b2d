//! Cleaning: how room is made. Pages are chosen, cleaned ahead of need, and dropped when their
//! room is wanted.
//!
//! ```text
//!   memory  |········ kept ········|leaving: being cleaned|ready: clean|free|
//!                                  |<──── a 64th of the budget, at most 512 ────>|
//!
//!   chosen by replacement ─┬─ dirty ──> Leaving ──Cleaned──> Ready ──room is wanted──> dropped
//!                          └─ clean ────────────────────────^
//!   written to, or its cleaning failed ──> settled, and kept
//! ```
//!
//! Pages are chosen again when fewer than half of the wanted pages are ready or leaving. A
//! *credit* bounds the pages that are chosen while no fault waits: each dropped page gives two.
//!
//! *Invariants:* only pages on the Ready list are dropped here, and they are clean. A page is in
//! one request at a time. After a failed request no page is chosen until a fault needs room, or
//! the pending faults have failed.
//!
//! This file does not decide which page is evicted (`replacement`), nor detect zeroes (the
//! driver). Source: docs/decisions/0032, point 5; 0038, point 2.

use alloc::vec::Vec;

use super::{RegionPath, Request, one};
use crate::regions::event::RegionAction;
use crate::regions::page::{Flag, List, Place};
use crate::regions::replacement::Eviction;
use crate::units::{Extent, RequestId};

impl RegionPath {
    pub(super) fn cleaned(&mut self, request: RequestId, came: bool) {
        let Some(&Request::Clean(extent)) = self.requests.get(&request) else { return };
        self.requests.remove(&request);
        self.failing |= !came;
        for page in self.within(extent) {
            self.pages.set(page, Flag::Cleaning, false);
            let zeroes = self.pages.take(page, Flag::Zeroes);
            self.counters.pages_cleaned += u64::from(came && !zeroes);
            let clean = self.pages.place(page) == Place::Clean;
            self.pages.set(page, Flag::Copy, true);
            if !came || zeroes || !clean {
                self.forget_copy(page);
            }
            if self.pages.take(page, Flag::Discarded) {
                self.discarding -= 1;
                self.discard(page);
            } else if clean {
                if came {
                    if self.pages.list(page) == Some(List::Leaving) {
                        self.pages.put(page, List::Ready);
                    }
                } else {
                    self.pages.set_place(page, Place::Dirty);
                    Eviction::settle(&mut self.pages, page);
                }
            }
        }
    }

    /// Makes room for `wanted` pages. Returns for how many there is room now.
    pub(super) fn room(&mut self, wanted: u64) -> u64 {
        if self.budget.saturating_sub(self.pages.held()) < wanted {
            // Dropping a few adjacent pages costs a driver as much as one.
            let few = DROPPED_FEW.min(self.spare / DROPPED_FEW);
            while self.budget.saturating_sub(self.pages.held()) < wanted + few && self.drop_one() {}
        }
        self.budget.saturating_sub(self.pages.held()).min(wanted)
    }

    /// Drops the page that has been ready for longest. Returns whether there was one.
    pub(super) fn drop_one(&mut self) -> bool {
        let Some(page) = self.pages.oldest(List::Ready) else { return false };
        self.pages.unlist(page);
        self.pages.set_place(page, Place::Away);
        if self.pages.take(page, Flag::Unseen) {
            self.counters.pages_wasted += 1;
            self.ahead.wasted(page);
        }
        if self.pages.take(page, Flag::Unwritten) {
            self.writes.seen(false);
        }
        self.eviction.evicted(&mut self.pages, page);
        self.credit = (self.credit + 2).min(2 * self.spare);
        self.act(RegionAction::Drop { pages: one(page) });
        true
    }

    /// Chooses pages to leave, and cleans the dirty ones.
    pub(super) fn make_ready(&mut self) {
        let free = self.budget.saturating_sub(self.pages.held());
        let over = self.pages.held().saturating_sub(self.budget);
        let wanted = (self.spare + over).saturating_sub(free);
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
            let Some(page) = self.eviction.next(&mut self.pages, self.budget) else { break };
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

    /// Writes pages to the spill file, in slots side by side as far as there are such.
    fn clean(&mut self, mut dirty: &[u64]) {
        while !dirty.is_empty() {
            if self.slots.free_slots() == 0 {
                // The driver has room for fewer slots than pages: as if the write failed, unless a
                // request that is open may free some.
                self.failing |= self.requests.is_empty();
                for &page in dirty {
                    Eviction::settle(&mut self.pages, page);
                }
                return;
            }
            let (together, rest) = dirty.split_at(self.slots.take(dirty));
            for run in together.chunk_by(|page, next| page + 1 == *next) {
                for run in run.chunks(CLEAN_PAGES_MAX) {
                    let pages = Extent::new(run[0], run[0] + run.len() as u64);
                    for &page in run {
                        self.pages.set_place(page, Place::Clean);
                        self.pages.set(page, Flag::Cleaning, true);
                    }
                    let request = self.request(Request::Clean(pages));
                    self.act(RegionAction::Clean { request, pages, slot: self.slots.of(run[0]) });
                }
            }
            dirty = rest;
        }
    }
}

/// Pages dropped beyond the room that is wanted, at most; and a seventh of the pages kept ready,
/// at most. Lower: more actions for the same pages. Higher: pages leave before their room is
/// wanted. Source: a guess, not measured.
const DROPPED_FEW: u64 = 7;

/// Pages of the longest request to clean: 256 KiB. Lower: more requests for the same pages.
/// Higher: threads wait behind longer writes, and more pages stay dirty when one fails. Source: a
/// guess, not measured.
pub const CLEAN_PAGES_MAX: usize = 64;
