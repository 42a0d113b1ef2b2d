//! A kernel that swaps: two lists of pages, a swap cache, and slots on a device.
//!
//! ```text
//!   Untouched ──> Mapped ── reclaimed: a slot, a write ──> Writing ──> Out
//!                   ^  └────── unchanged since it was read ────────────> ┤
//!                   └── touched ── Cached <── Arriving <── the cluster around a fault
//! ```
//!
//! - New pages are active, swapped ones inactive. An inactive page that was touched becomes active
//!   when its turn comes; the oldest active pages become inactive while the inactive ones are
//!   fewer than a quarter.
//! - Memory is reclaimed 32 pages at a time, when free memory is below a low mark.
//! - A page keeps its slot until it is written to, or is mapped while half of the slots are taken.
//! - A cluster of slots is one request. Pages of it that are resident, and slots without a page,
//!   are not read. Of a window of pages, each run of adjacent slots is a request.

mod lru;
pub(super) mod rule;
mod slots;

use std::collections::HashMap;
use std::ops::Range;

use super::drive::Drive;
use super::world::{Pager, Touch};
use lru::{Lists, Of};
use rule::{Cluster, Rule};
use slots::Slots;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Untouched,
    Out,
    Arriving,
    /// Read, not mapped.
    Cached,
    Mapped,
    /// Unmapped, not written yet.
    Writing,
    /// Mapped again before it was written.
    Again,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    state: State,
    slot: Option<u32>,
    dirty: bool,
    /// Touched since reclaim last looked at it.
    young: bool,
    /// Read as part of a cluster, not touched.
    ahead: bool,
}

enum Request {
    Read(Vec<u64>),
    Write(Vec<u64>),
}

/// A kernel as a pager.
pub(crate) struct Kernel {
    pages: Vec<Page>,
    lists: Lists,
    slots: Slots,
    rule: Box<dyn Rule>,
    budget: u64,
    /// Free pages below which memory is reclaimed.
    low: u64,
    used: u64,
    /// Pages that become free when writes in flight are done.
    writing: u64,
    requests: HashMap<u64, Request>,
}

impl Kernel {
    /// A region of `pages` with a memory of `budget` pages and a fiftieth more slots than pages.
    pub(crate) fn new(pages: u64, budget: u64, rotational: bool, rule: Box<dyn Rule>) -> Self {
        let untouched = Page { state: State::Untouched, slot: None, dirty: false, young: false, ahead: false };
        Self {
            pages: vec![untouched; pages as usize],
            lists: Lists::new(pages),
            slots: Slots::new(pages + pages / 50, rotational),
            rule,
            budget,
            low: (budget * PAGE_KIB * 16).isqrt() / PAGE_KIB * 5 / 4,
            used: 0,
            writing: 0,
            requests: HashMap::new(),
        }
    }

    fn free(&self) -> u64 {
        self.budget.saturating_sub(self.used)
    }

    /// Reclaims memory if that is due; whether a page is free.
    fn make_room(&mut self, now_ns: u64, drive: &mut Drive) -> bool {
        if self.free() + self.writing < self.low {
            self.reclaim(now_ns, drive);
        }
        self.free() > 0
    }

    fn reclaim(&mut self, now_ns: u64, drive: &mut Drive) {
        let mut written = Vec::new();
        let mut gone = 0;
        let mut looked_at = 2 * (self.lists.len(Of::Inactive) + self.lists.len(Of::Active));
        while gone < BATCH && looked_at > 0 {
            looked_at -= 1;
            if self.lists.len(Of::Inactive) * 3 < self.lists.len(Of::Active)
                && let Some(oldest) = self.lists.oldest(Of::Active)
            {
                self.pages[oldest as usize].young = false;
                self.lists.put(oldest, Of::Inactive);
                continue;
            }
            let Some(number) = self.lists.oldest(Of::Inactive) else { break };
            let page = &mut self.pages[number as usize];
            if page.state == State::Again || page.state == State::Mapped && page.young {
                page.young = false;
                self.lists.put(number, Of::Active);
                continue;
            }
            if page.dirty {
                let Some(slot) = page.slot.map(u64::from).or_else(|| self.slots.take(number)) else { break };
                (page.slot, page.state) = (Some(slot as u32), State::Writing);
                self.writing += 1;
                written.push((slot, number));
            } else {
                page.state = State::Out;
                page.ahead = false;
                self.used -= 1;
            }
            self.lists.take(number);
            gone += 1;
        }
        written.sort_unstable();
        for run in written.chunk_by(|before, after| before.0 + 1 == after.0) {
            let request = drive.write(now_ns, run[0].0, run.len() as u64);
            self.requests.insert(request, Request::Write(run.iter().map(|&(_, number)| number).collect()));
        }
    }

    /// Maps a page in memory, and writes to it.
    fn map(&mut self, number: u64) {
        let page = &mut self.pages[number as usize];
        let hit = std::mem::take(&mut page.ahead);
        // The page of a fault that has waited for it was not found.
        if hit || page.state == State::Writing {
            self.rule.found(number, hit);
        }
        page.young = true;
        if page.state == State::Writing {
            page.state = State::Again;
            self.writing -= 1;
            self.lists.put(number, Of::Active);
        } else {
            page.state = State::Mapped;
            self.write_to(number);
        }
    }

    /// The page changes: its copy on the device is void.
    fn write_to(&mut self, number: u64) {
        let page = &mut self.pages[number as usize];
        page.dirty = true;
        if let Some(slot) = page.slot.take() {
            self.slots.free(u64::from(slot));
        }
    }

    /// Reads the cluster of a fault.
    fn swap_in(&mut self, now_ns: u64, number: u64, drive: &mut Drive) {
        let Some(slot) = self.pages[number as usize].slot.map(u64::from) else { return };
        match self.rule.cluster(number, slot) {
            Cluster::Slots(size) => self.read_slots(now_ns, number, slot, size.max(1), drive),
            Cluster::Pages(pages) => self.read_pages(now_ns, number, pages, drive),
        }
    }

    /// Reads the aligned slots around the slot of a page.
    fn read_slots(&mut self, now_ns: u64, number: u64, slot: u64, size: u64, drive: &mut Drive) {
        let first = slot & !(size - 1);
        let (mut read, mut from, mut until) = (Vec::new(), slot, slot + 1);
        self.arrives(number, &mut read);
        for beside in (first..first + size).filter(|&beside| beside != slot) {
            let Some(owner) = self.slots.owner(beside) else { continue };
            if self.pages[owner as usize].state == State::Out && self.make_room(now_ns, drive) {
                self.pages[owner as usize].ahead = true;
                self.arrives(owner, &mut read);
                (from, until) = (from.min(beside), until.max(beside + 1));
            }
        }
        let request = drive.read(now_ns, from, read.len() as u64, until - from);
        self.requests.insert(request, Request::Read(read));
    }

    /// Reads a window of pages, a request for each run of adjacent slots, in the order of the
    /// slots.
    fn read_pages(&mut self, now_ns: u64, number: u64, window: Range<u64>, drive: &mut Drive) {
        let mut read = Vec::new();
        self.arrives(number, &mut read);
        for beside in window.filter(|&beside| beside != number) {
            if self.pages[beside as usize].state == State::Out && self.make_room(now_ns, drive) {
                self.pages[beside as usize].ahead = true;
                self.arrives(beside, &mut read);
            }
        }
        let slot = |&page: &u64| self.pages[page as usize].slot.map_or(0, u64::from);
        let mut placed: Vec<(u64, u64)> = read.iter().map(|page| (slot(page), *page)).collect();
        placed.sort_unstable();
        for run in placed.chunk_by(|before, after| before.0 + 1 == after.0) {
            let request = drive.read(now_ns, run[0].0, run.len() as u64, run.len() as u64);
            self.requests.insert(request, Request::Read(run.iter().map(|&(_, page)| page).collect()));
        }
    }

    fn arrives(&mut self, number: u64, read: &mut Vec<u64>) {
        self.pages[number as usize].state = State::Arriving;
        self.used += 1;
        read.push(number);
    }
}

impl Pager for Kernel {
    fn touch(&mut self, now_ns: u64, _: u32, number: u64, drive: &mut Drive) -> Touch {
        let page = &mut self.pages[number as usize];
        match page.state {
            State::Mapped | State::Again => {
                page.young = true;
                if !page.dirty {
                    self.write_to(number);
                }
                return Touch::There(0);
            }
            State::Cached | State::Writing => self.map(number),
            State::Arriving => return Touch::Waits,
            State::Untouched => {
                if !self.make_room(now_ns, drive) {
                    return Touch::Waits;
                }
                self.used += 1;
                self.lists.put(number, Of::Active);
                self.map(number);
            }
            State::Out => {
                if self.make_room(now_ns, drive) {
                    self.swap_in(now_ns, number, drive);
                }
                return Touch::Waits;
            }
        }
        Touch::There(FAULT_NS)
    }

    fn came(&mut self, _: u64, request: u64, _: &mut Drive) {
        match self.requests.remove(&request) {
            Some(Request::Read(pages)) => {
                let full = self.slots.is_half_full();
                for number in pages {
                    let page = &mut self.pages[number as usize];
                    page.state = State::Cached;
                    page.dirty = false;
                    if full && !page.ahead {
                        self.write_to(number);
                    }
                    self.lists.put(number, Of::Inactive);
                }
            }
            Some(Request::Write(pages)) => {
                for number in pages {
                    let page = &mut self.pages[number as usize];
                    if page.state == State::Writing {
                        (page.state, page.dirty) = (State::Out, false);
                        self.used -= 1;
                        self.writing -= 1;
                    } else {
                        page.state = State::Mapped;
                        self.write_to(number);
                    }
                }
            }
            None => {}
        }
    }
}

/// Pages reclaimed at a time. Origin: `SWAP_CLUSTER_MAX` of Linux.
const BATCH: u64 = 32;

/// Cost of a fault that reads nothing, in ns.
const FAULT_NS: u64 = 1_500;

/// KiB of a page. The low mark, in KiB, is the square root of sixteen times the memory, and a
/// quarter more.
const PAGE_KIB: u64 = 4;
