//! What a fault finds, and what becomes of the pages that were read for it.

use super::{Request, SwapPath, one};
use crate::regions::event::{Advice, SwapAction};
use crate::regions::page::{Flag, List, Place};
use crate::regions::readahead::Plan;
use crate::regions::replacement::Leaving;
use crate::units::RequestId;

impl SwapPath {
    pub(super) fn fault(&mut self, page: u64, thread: u32, write: bool) {
        match self.pages.place(page) {
            Place::Clean | Place::Dirty => return,
            Place::Staged => {
                self.counters.faults_minor += 1;
                self.pages.set(page, Flag::WRITE, write);
                self.map(page);
                if matches!(self.pages.list(page), Some(List::Ready)) {
                    Leaving::used(&mut self.pages, page);
                }
                self.touched(page, thread, write);
                return;
            }
            Place::Arriving => {
                self.counters.faults_minor += 1;
                if !self.pages.has(page, Flag::EXPECTED) {
                    self.touched(page, thread, write);
                }
            }
            Place::Away => {
                if !self.pages.has(page, Flag::PENDING) {
                    let copy = self.pages.has(page, Flag::COPY);
                    self.counters.faults_major += u64::from(copy);
                    self.counters.faults_zero += u64::from(!copy);
                    let plan = self.plan(page, thread, write);
                    self.pages.set(page, Flag::PENDING, true);
                    self.pending.push_back((page, plan));
                    self.failing = false;
                }
            }
        }
        self.pages.set(page, Flag::WAITED, true);
        let write = write || self.pages.has(page, Flag::WRITE);
        self.pages.set(page, Flag::WRITE, write);
    }

    fn plan(&mut self, page: u64, thread: u32, write: bool) -> Plan {
        let advised = self.advice.iter().rfind(|(pages, _)| pages.contains(page));
        let advice = advised.map_or(Advice::Normal, |&(_, advice)| advice);
        if advice == Advice::Random {
            return Plan::alone(page);
        }
        let pages = &self.pages;
        let there = |page: u64| page < pages.len() && pages.place(page) != Place::Away;
        self.ahead.fault(page, thread, write, advice == Advice::Sequential, there)
    }

    /// A page that was staged, or was going to be, is wanted.
    fn touched(&mut self, page: u64, thread: u32, write: bool) {
        if self.pages.take(page, Flag::UNSEEN)
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
        if self.pages.take(page, Flag::UNWRITTEN) {
            self.writes.seen(true);
        }
        self.discarding -= u64::from(self.pages.take(page, Flag::DISCARDED));
        if matches!(self.pages.list(page), Some(List::Leaving | List::Ready)) {
            Leaving::used(&mut self.pages, page);
        }
    }

    pub(super) fn completed(&mut self, request: RequestId, came: bool) {
        let Some(&Request::Read(extent, since)) = self.requests.get(&request) else { return };
        self.requests.remove(&request);
        if let Some(since) = since.filter(|_| came && self.requests.is_empty()) {
            self.cost.took(extent.pages(), self.now.since(since));
            self.ahead.set_pages_of_request(self.cost.pages_of_request());
        }
        for page in self.within(extent) {
            let expected = self.pages.take(page, Flag::EXPECTED);
            if self.pages.take(page, Flag::DISCARDED) {
                self.discarding -= 1;
                self.pages.set(page, Flag::UNSEEN, false);
                self.pages.set_place(page, Place::Away);
                self.discard(page);
                if came {
                    self.act(SwapAction::Drop { pages: one(page) });
                }
                if self.pages.has(page, Flag::WAITED) {
                    self.pages.set(page, Flag::PENDING, true);
                    self.pending.push_back((page, Plan::alone(page)));
                } else {
                    self.pages.set(page, Flag::WRITE, false);
                }
                continue;
            }
            if !came {
                self.pages.set_place(page, Place::Away);
                self.pages.set(page, Flag::UNSEEN, false);
                if self.pages.has(page, Flag::WAITED) && extent.pages() > 1 {
                    // One page that cannot be read does not fail its neighbours.
                    self.pages.set(page, Flag::PENDING, true);
                    self.pending.push_back((page, Plan::alone(page)));
                    continue;
                }
                self.pages.set(page, Flag::WRITE, false);
                if self.pages.take(page, Flag::WAITED) {
                    self.act(SwapAction::Fail { pages: one(page) });
                }
                continue;
            }
            self.counters.pages_read += 1;
            self.pages.set_place(page, Place::Staged);
            self.leaving.came(&mut self.pages, page, self.budget);
            if expected || self.pages.has(page, Flag::WAITED) {
                self.map(page);
            }
        }
    }

    /// Maps a page that is staged.
    fn map(&mut self, page: u64) {
        let write = self.pages.take(page, Flag::WRITE) || self.writes.expected();
        self.pages.set(page, Flag::WAITED, false);
        self.settle(page, write);
        self.act(SwapAction::Map { pages: one(page), protect: !write });
    }

    pub(super) fn settle(&mut self, page: u64, write: bool) {
        self.pages.set_place(page, if write { Place::Dirty } else { Place::Clean });
        if write {
            self.forget_copy(page);
        }
        self.pages.set(page, Flag::UNWRITTEN, !write);
    }
}
