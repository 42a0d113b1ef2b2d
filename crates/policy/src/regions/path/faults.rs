//! Faults: what a fault finds, and what becomes of the pages that were read for it.
//!
//! ```text
//!   Fault of a page that is   mapped     nothing: the driver lets the thread continue
//!                             staged     Map; the use may ask for more
//!                             arriving   the thread waits for the request
//!                             away       a plan, and pending until there is room
//!
//!   Completed, for each page  given up   Drop; a waiting thread is served with zeroes
//!                             failed     a waited page is read again alone; alone already: Fail
//!                             read       staged; mapped if a thread waits or is expected
//! ```
//!
//! *Invariants:* a page that a thread waits for is pending, arriving, or answered. One page that
//! cannot be read fails no other page.
//!
//! This file chooses no cluster (`readahead`), and no page to evict (`cleaning`). Source:
//! docs/decisions/0032; 0033, point 7.

use super::{RegionPath, Request, one};
use crate::regions::event::{Advice, RegionAction};
use crate::regions::page::{Flag, List, Place};
use crate::regions::readahead::Plan;
use crate::regions::replacement::Eviction;
use crate::units::RequestId;

impl RegionPath {
    pub(super) fn fault(&mut self, page: u64, thread: u32, write: bool) {
        match self.pages.place(page) {
            Place::Clean | Place::Dirty => return,
            Place::Staged => {
                self.counters.faults_minor += 1;
                self.pages.set(page, Flag::Write, write);
                self.map(page);
                if matches!(self.pages.list(page), Some(List::Ready)) {
                    Eviction::settle(&mut self.pages, page);
                }
                self.touched(page, thread, write);
                return;
            }
            Place::Arriving => {
                self.counters.faults_minor += 1;
                if !self.pages.has(page, Flag::Expected) {
                    self.touched(page, thread, write);
                }
            }
            Place::Away => {
                if !self.pages.has(page, Flag::Pending) {
                    let copy = self.pages.has(page, Flag::Copy);
                    self.counters.faults_major += u64::from(copy);
                    self.counters.faults_zero += u64::from(!copy);
                    let plan = self.plan(page, thread, write);
                    self.pages.set(page, Flag::Pending, true);
                    self.pending.push_back((page, plan));
                    self.failing = false;
                }
            }
        }
        self.pages.set(page, Flag::Waited, true);
        let write = write || self.pages.has(page, Flag::Write);
        self.pages.set(page, Flag::Write, write);
    }

    fn plan(&mut self, page: u64, thread: u32, write: bool) -> Plan {
        let advised = self.advice.iter().rfind(|(pages, _)| pages.contains(page));
        let advice = advised.map_or(Advice::Normal, |&(_, advice)| advice);
        if advice == Advice::Random {
            return Plan::alone(page);
        }
        let pages = &self.pages;
        let resident = |page: u64| page < pages.len() && pages.place(page) != Place::Away;
        self.ahead.fault(page, thread, write, advice == Advice::Sequential, resident)
    }

    /// A page that is staged, or will be, is used for the first time. This may ask for the next
    /// cluster.
    fn touched(&mut self, page: u64, thread: u32, write: bool) {
        if self.pages.take(page, Flag::Unseen)
            && let Some(plan) = self.ahead.touched(page, thread, write)
            && self.pending.is_empty()
        {
            self.carry_out(None, &plan);
        }
    }

    pub(super) fn written(&mut self, page: u64) {
        if self.pages.place(page) != Place::Clean {
            return;
        }
        self.pages.set_place(page, Place::Dirty);
        self.forget_copy(page);
        if self.pages.take(page, Flag::Unwritten) {
            self.writes.seen(true);
        }
        self.discarding -= u64::from(self.pages.take(page, Flag::Discarded));
        if matches!(self.pages.list(page), Some(List::Leaving | List::Ready)) {
            Eviction::settle(&mut self.pages, page);
        }
    }

    pub(super) fn completed(&mut self, request: RequestId, came: bool) {
        let Some(&Request::Read(extent, since, wanted)) = self.requests.get(&request) else { return };
        self.requests.remove(&request);
        self.wanted_open -= u64::from(wanted);
        if let Some(since) = since.filter(|_| came && self.requests.is_empty()) {
            self.cost.took(extent.pages(), self.now.since(since));
            self.ahead.set_pages_of_request(self.cost.pages_of_request());
        }
        for page in self.within(extent) {
            let expected = self.pages.take(page, Flag::Expected);
            if self.pages.take(page, Flag::Discarded) {
                self.discarding -= 1;
                self.pages.set(page, Flag::Unseen, false);
                self.pages.set_place(page, Place::Away);
                self.discard(page);
                if came {
                    self.act(RegionAction::Drop { pages: one(page) });
                }
                if self.pages.has(page, Flag::Waited) {
                    self.pages.set(page, Flag::Pending, true);
                    self.pending.push_back((page, Plan::alone(page)));
                } else {
                    self.pages.set(page, Flag::Write, false);
                }
                continue;
            }
            if !came {
                self.pages.set_place(page, Place::Away);
                self.pages.set(page, Flag::Unseen, false);
                if self.pages.has(page, Flag::Waited) && extent.pages() > 1 {
                    // The request may have failed for another page: this one is read again alone.
                    self.pages.set(page, Flag::Pending, true);
                    self.pending.push_back((page, Plan::alone(page)));
                    continue;
                }
                self.pages.set(page, Flag::Write, false);
                if self.pages.take(page, Flag::Waited) {
                    self.act(RegionAction::Fail { pages: one(page) });
                }
                continue;
            }
            self.counters.pages_read += 1;
            self.pages.set_place(page, Place::Staged);
            self.eviction.arrived(&mut self.pages, page, self.budget);
            if expected || self.pages.has(page, Flag::Waited) {
                self.map(page);
            }
        }
    }

    /// Maps a staged page.
    fn map(&mut self, page: u64) {
        let write = self.pages.take(page, Flag::Write) || self.writes.expected();
        self.pages.set(page, Flag::Waited, false);
        self.set_mapped(page, write);
        self.act(RegionAction::Map { pages: one(page), protect: !write });
    }

    /// A page is mapped: dirty if it is written to, otherwise clean and protected.
    pub(super) fn set_mapped(&mut self, page: u64, write: bool) {
        self.pages.set_place(page, if write { Place::Dirty } else { Place::Clean });
        if write {
            self.forget_copy(page);
        }
        self.pages.set(page, Flag::Unwritten, !write);
    }
}
