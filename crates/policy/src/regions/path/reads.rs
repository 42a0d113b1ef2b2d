//! Which pages a plan reads or makes, and with which requests.

use alloc::vec::Vec;

use super::{Request, SwapPath, one};
use crate::regions::event::SwapAction;
use crate::regions::page::{Flag, Place};
use crate::regions::readahead::Plan;
use crate::units::{Class, Extent};

impl SwapPath {
    /// Reads or makes the pages of a plan, as many as there is room for; `waited` first.
    pub(super) fn carry_out(&mut self, waited: Option<u64>, plan: &Plan) {
        let zeroes = waited.is_some_and(|page| !self.pages.has(page, Flag::COPY));
        let (chosen, front, mark) = self.choose(waited, plan, zeroes && plan.stream.is_some());
        let writes = waited.map_or(plan.writes, |page| self.pages.has(page, Flag::WRITE));
        let room = self.room(chosen.len() as u64);
        let mut read = Vec::new();
        for page in chosen.into_iter().take(room as usize) {
            if self.pages.has(page, Flag::COPY) {
                let seen = plan.mark.is_some() && mark != Some(page);
                if !self.pages.has(page, Flag::WAITED) {
                    self.pages.set(page, Flag::EXPECTED, seen);
                    self.pages.set(page, Flag::UNSEEN, !seen);
                    self.pages.set(page, Flag::WRITE, seen && plan.writes);
                }
                self.pages.set_place(page, Place::Arriving);
                read.push(page);
            } else {
                self.pages.set(page, Flag::WAITED, false);
                let write = self.pages.take(page, Flag::WRITE) || writes || self.writes.expected();
                self.settle(page, write);
                self.leaving.came(&mut self.pages, page, self.budget);
                self.act(SwapAction::Zero { pages: one(page), protect: !write });
            }
        }
        self.ahead.planned(plan, front, mark);
        self.read(&mut read);
    }

    /// The pages of a plan that are not there, what is after them, and which one is the mark. Those of zeroes as well, if they are wanted.
    fn choose(&self, waited: Option<u64>, plan: &Plan, zeroes: bool) -> (Vec<u64>, u64, Option<u64>) {
        if let (None, Some(page)) = (plan.mark, waited) {
            return (self.cluster(page, plan), plan.first, None);
        }
        let mut chosen: Vec<u64> = waited.into_iter().collect();
        let (mut front, mut mark) = (plan.first, None);
        for step in 0..plan.pages + PASSED_OVER {
            let full = chosen.len() as u64 >= plan.pages && Some(front) != waited;
            if full || front >= self.pages.len() {
                break;
            }
            let copy = self.pages.has(front, Flag::COPY);
            if Some(front) != waited && self.pages.place(front) == Place::Away && (copy || zeroes) {
                if copy && mark.is_none() && plan.mark.is_some_and(|from| step >= from) {
                    mark = Some(front);
                }
                chosen.push(front);
            }
            front = front.wrapping_add_signed(plan.delta);
        }
        (chosen, front, mark)
    }

    /// The pages of a cluster that are one request with the page that is waited for: what lies beyond a page that is there would cost another.
    fn cluster(&self, page: u64, plan: &Plan) -> Vec<u64> {
        if !self.is_spilled(page) {
            return alloc::vec![page];
        }
        let with = |&other: &u64| {
            let apart = self.slots.of(other).wrapping_sub(self.slots.of(page));
            self.is_spilled(other) && apart == other.wrapping_sub(page)
        };
        let before = (plan.first..page).rev().take_while(with);
        let after = (page + 1..(plan.first + plan.pages).min(self.pages.len())).take_while(with);
        core::iter::once(page).chain(before).chain(after).collect()
    }

    /// Whether it is in the spill file, and nowhere else.
    pub(super) fn is_spilled(&self, page: u64) -> bool {
        self.pages.place(page) == Place::Away && self.pages.has(page, Flag::COPY)
    }

    /// Asks for pages that have just been given room: at once, where they lie side by side in the region and in the spill file.
    pub(super) fn read(&mut self, pages: &mut [u64]) {
        pages.sort_unstable();
        let mut rest = &*pages;
        while !rest.is_empty() {
            let beside = |two: &&[u64]| two[0] + 1 == two[1] && self.slots.of(two[0]) + 1 == self.slots.of(two[1]);
            let (run, others) = rest.split_at(1 + rest.windows(2).take_while(beside).count());
            rest = others;
            let extent = Extent::new(run[0], run[0] + run.len() as u64);
            let waited = run.iter().any(|&page| self.pages.has(page, Flag::WAITED));
            let class = if waited { Class::Demand } else { Class::Speculative };
            match class {
                Class::Demand => self.counters.reads_demand += 1,
                Class::Speculative => self.counters.reads_speculative += 1,
            }
            let since = self.requests.is_empty().then_some(self.now);
            let request = self.request(Request::Read(extent, since));
            self.act(SwapAction::Read { request, pages: extent, slot: self.slots.of(run[0]), class });
        }
    }
}

/// Pages that a plan passes over since they are there.
const PASSED_OVER: u64 = 1024;
