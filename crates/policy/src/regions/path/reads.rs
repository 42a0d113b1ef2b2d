//! Reads: which pages of a plan are read or mapped as zeroes, and in which requests.
//!
//! ```text
//!   plan of a stream       first, first + delta, ..      resident pages are skipped
//!   plan of the detector   a cluster around the page     cut where a second request would begin
//!
//!   chosen pages, in order  |a|b|c|  |e|f|     a request for each run that is adjacent
//!   their slots              7 8 9    3 4      in the region and in the spill file
//! ```
//!
//! *Invariants:* the page that a thread waits for is chosen first. No more pages are chosen than
//! there is room for. A page of zeroes is not read.
//!
//! This file decides no size: a plan comes from `readahead`. Source: docs/decisions/0032, points 3
//! and 4; 0038, point 3.

use alloc::vec::Vec;

use super::{RegionPath, Request, one};
use crate::regions::event::RegionAction;
use crate::regions::page::{Flag, Place};
use crate::regions::readahead::{Maps, Plan};
use crate::units::{Class, Extent};

impl RegionPath {
    /// Carries out a plan as far as there is room: pages in the spill file are read, others are
    /// zeroes. `waited` is the page that a thread waits for.
    pub(super) fn carry_out(&mut self, waited: Option<u64>, plan: &Plan) {
        let zeroes = waited.is_some_and(|page| !self.pages.has(page, Flag::Copy));
        let (mut chosen, mut front, mut mark) = self.choose(waited, plan, zeroes && plan.maps != Maps::Nothing);
        let writes = waited.map_or(plan.writes, |page| self.pages.has(page, Flag::Write));
        let room = self.room(chosen.len() as u64) as usize;
        if let (true, Some(&first)) = (plan.stream.is_some(), chosen.get(room)) {
            // The stream goes on where room ended, and not behind pages that were not read.
            front = first;
            chosen.truncate(room);
            mark = mark.filter(|page| chosen.contains(page));
        }
        let mut read = Vec::new();
        for page in chosen.into_iter().take(room) {
            if self.pages.has(page, Flag::Copy) {
                let seen = plan.maps != Maps::Nothing && mark != Some(page);
                if !self.pages.has(page, Flag::Waited) {
                    self.pages.set(page, Flag::Expected, seen);
                    self.pages.set(page, Flag::Unseen, !seen);
                    self.pages.set(page, Flag::Write, seen && plan.writes);
                }
                self.pages.set_place(page, Place::Arriving);
                read.push(page);
            } else {
                self.pages.set(page, Flag::Waited, false);
                let write = self.pages.take(page, Flag::Write) || writes || self.writes.expected();
                self.set_mapped(page, write);
                self.eviction.arrived(&mut self.pages, page, self.budget);
                self.act(RegionAction::Zero { pages: one(page), protect: !write });
            }
        }
        self.ahead.planned(plan, front, mark);
        self.read(&mut read);
    }

    /// The pages of a plan that are away, the page after them, and the mark. Pages of zeroes are
    /// chosen only if `zeroes`.
    fn choose(&self, waited: Option<u64>, plan: &Plan, zeroes: bool) -> (Vec<u64>, u64, Option<u64>) {
        if let (Maps::Nothing, Some(page)) = (plan.maps, waited) {
            return (self.cluster(page, plan), plan.first, None);
        }
        let mut chosen: Vec<u64> = waited.into_iter().collect();
        let (mut front, mut mark) = (plan.first, None);
        let skipped_max = if plan.maps == Maps::All { 0 } else { SKIPPED_MAX };
        for step in 0..plan.pages + skipped_max {
            let full = chosen.len() as u64 >= plan.pages && Some(front) != waited;
            if full || front >= self.pages.len() {
                break;
            }
            let copy = self.pages.has(front, Flag::Copy);
            if Some(front) != waited && self.pages.place(front) == Place::Away && (copy || zeroes) {
                if copy && mark.is_none() && matches!(plan.maps, Maps::ButMark(from) if step >= from) {
                    mark = Some(front);
                }
                chosen.push(front);
            }
            front = front.wrapping_add_signed(plan.delta);
        }
        (chosen, front, mark)
    }

    /// The pages of a cluster that are one request with `page`. Pages beyond a resident one would
    /// cost a second request.
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

    /// Whether the page is in the spill file and nowhere else.
    pub(super) fn is_spilled(&self, page: u64) -> bool {
        self.pages.place(page) == Place::Away && self.pages.has(page, Flag::Copy)
    }

    /// Reads pages that have room. Pages adjacent in the region and in the spill file are one
    /// request.
    pub(super) fn read(&mut self, pages: &mut [u64]) {
        pages.sort_unstable();
        let mut rest = &*pages;
        while !rest.is_empty() {
            let beside = |two: &&[u64]| two[0] + 1 == two[1] && self.slots.of(two[0]) + 1 == self.slots.of(two[1]);
            let (run, others) = rest.split_at(1 + rest.windows(2).take_while(beside).count());
            rest = others;
            let extent = Extent::new(run[0], run[0] + run.len() as u64);
            let waited = run.iter().any(|&page| self.pages.has(page, Flag::Waited));
            let class = if waited { Class::Demand } else { Class::Speculative };
            match class {
                Class::Demand => self.counters.reads_demand += 1,
                Class::Speculative => self.counters.reads_speculative += 1,
            }
            let since = self.requests.is_empty().then_some(self.now);
            let request = self.request(Request::Read(extent, since, false));
            self.act(RegionAction::Read { request, pages: extent, slot: self.slots.of(run[0]), class });
        }
    }
}

/// Resident pages that a plan of a stream skips, at most. Lower: behind a long run of resident
/// pages a stream reads less than its size. Higher: a longer search at a fault. Source: a guess,
/// not measured.
const SKIPPED_MAX: u64 = 1024;
