//! A region of memory that spills: from faults to actions. The wiring; what is decided is in the mechanisms.
//!
//! ```text
//!   Fault ──> swap_readahead: a plan ──> pending, until there is room ──> Read or Zero ──> Completed ──> Map, or staged
//!                                           ^
//!             Ready: Drop ──────────────────┘      a page leaves at once, since it has been cleaned before
//!               ^
//!             Leaving: Clean, Cleaned <── swap_replacement: which page; swap_slots: where to
//! ```
//!
//! Invariants: what is mapped, staged and on its way never exceeds the budget, unless that was just made smaller. No page is in two requests.
//! A dirty page never leaves, unless the program has given it up.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::event::Class;
use crate::swap_cost::SwapCost;
use crate::swap_event::{Advice, SwapAction, SwapCounters, SwapEvent};
use crate::swap_page::{Flag, List, Pages, Place};
use crate::swap_readahead::{Plan, SwapReadahead};
use crate::swap_replacement::Leaving;
use crate::swap_slots::Slots;
use crate::swap_writes::Writes;
use crate::units::{Extent, Nanos, RequestId};

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapOptions {
    /// Its pages; less than 2^32.
    pub pages: u64,
    /// How many of them may be mapped or staged or on their way; 0 counts as 1.
    pub budget: u64,
}

/// A request that is not over.
#[derive(Debug, Clone, Copy)]
enum Request {
    /// Since when, if no other was on its way then.
    Read(Extent, Option<Nanos>),
    Clean(Extent),
}

/// A region. Used as [`crate::ReadPath`] is: [`SwapPath::handle`], then [`SwapPath::poll_action`] until `None`.
///
/// A fault costs O(pages of its cluster); a little more than 20 bytes a page of the region.
#[derive(Debug)]
pub struct SwapPath {
    pages: Pages,
    slots: Slots,
    leaving: Leaving,
    ahead: SwapReadahead,
    cost: SwapCost,
    writes: Writes,
    now: Nanos,
    budget: u64,
    requests: BTreeMap<RequestId, Request>,
    next_request: u64,
    /// Pages that threads wait for and that there is no room for yet.
    pending: VecDeque<(u64, Plan)>,
    /// What is to be read since the program will need it.
    wanted: VecDeque<Extent>,
    /// What the program said of pages, the latest last.
    advice: Vec<(Extent, Advice)>,
    /// So many more pages may be chosen to leave before their room is wanted.
    credit: u64,
    /// A request to clean pages has failed since the last fault.
    failing: bool,
    discarding: u64,
    actions: VecDeque<SwapAction>,
    counters: SwapCounters,
}

impl SwapPath {
    /// A region that nobody has written to.
    ///
    /// # Panics
    ///
    /// With 2^32 - 1 pages or more.
    pub fn new(options: SwapOptions) -> Self {
        let budget = options.budget.max(1);
        Self {
            pages: Pages::new(options.pages),
            slots: Slots::new(options.pages),
            leaving: Leaving::new(),
            ahead: SwapReadahead::new(budget),
            cost: SwapCost::default(),
            writes: Writes::default(),
            now: Nanos(0),
            budget,
            requests: BTreeMap::new(),
            next_request: 0,
            pending: VecDeque::new(),
            wanted: VecDeque::new(),
            advice: Vec::new(),
            credit: spare(budget),
            failing: false,
            discarding: 0,
            actions: VecDeque::new(),
            counters: SwapCounters::default(),
        }
    }

    /// Takes what happened at `now`, which never goes back. Pages beyond the region are ignored.
    pub fn handle(&mut self, now: Nanos, event: SwapEvent) {
        self.now = now;
        match event {
            SwapEvent::Fault { page, thread, write } if page < self.pages.len() => self.fault(page, thread, write),
            SwapEvent::Written { page } if page < self.pages.len() => self.written(page),
            SwapEvent::Fault { .. } | SwapEvent::Written { .. } => {}
            SwapEvent::Completed { request, came } => self.completed(request, came),
            SwapEvent::Zeroes { pages } => {
                for page in self.within(pages) {
                    self.pages.set(page, Flag::ZEROES, self.pages.has(page, Flag::CLEANING));
                }
            }
            SwapEvent::Cleaned { request, came } => self.cleaned(request, came),
            SwapEvent::Advised { pages, advice } => self.advised(pages, advice),
            SwapEvent::Budget { pages } => {
                self.budget = pages.max(1);
                self.credit = spare(self.budget);
                self.ahead.set_budget(self.budget);
            }
        }
        self.pump();
    }

    /// The next thing to do; `None` when that was all.
    pub fn poll_action(&mut self) -> Option<SwapAction> {
        self.actions.pop_front()
    }

    /// What has been decided so far.
    pub fn counters(&self) -> SwapCounters {
        self.counters
    }

    /// Pages that are mapped, staged or on their way.
    pub fn held(&self) -> u64 {
        self.pages.held()
    }

    /// Pages that the program gave up and that are dropped when what is on its way for them is over.
    pub fn discarding(&self) -> u64 {
        self.discarding
    }

    fn within(&self, pages: Extent) -> core::ops::Range<u64> {
        pages.start.min(self.pages.len())..pages.end.min(self.pages.len())
    }

    fn fault(&mut self, page: u64, thread: u32, write: bool) {
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

    fn written(&mut self, page: u64) {
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

    fn completed(&mut self, request: RequestId, came: bool) {
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

    fn cleaned(&mut self, request: RequestId, came: bool) {
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

    fn advised(&mut self, extent: Extent, advice: Advice) {
        match advice {
            Advice::Normal | Advice::Sequential | Advice::Random => {
                self.advice.retain(|(said, _)| !(extent.start <= said.start && said.end <= extent.end));
                if self.advice.len() == ADVICE_MAX {
                    self.advice.remove(0);
                }
                self.advice.push((extent, advice));
            }
            Advice::WillNeed => {
                let pages = extent.pages().min(self.budget / 2);
                self.wanted.push_back(Extent::new(extent.start, extent.start + pages));
            }
            Advice::DontNeed => {
                for page in self.within(extent) {
                    if self.pages.place(page) == Place::Arriving || self.pages.has(page, Flag::CLEANING) {
                        self.discarding += u64::from(!self.pages.has(page, Flag::DISCARDED));
                        self.pages.set(page, Flag::DISCARDED, true);
                    } else {
                        self.discard(page);
                    }
                }
            }
        }
    }

    /// Zeroes from now on.
    fn discard(&mut self, page: u64) {
        self.forget_copy(page);
        self.pages.set(page, Flag::UNSEEN, false);
        self.pages.set(page, Flag::UNWRITTEN, false);
        if self.pages.place(page) == Place::Away {
            Leaving::forget(&mut self.pages, page);
        } else {
            self.pages.unlist(page);
            self.pages.set_place(page, Place::Away);
            self.act(SwapAction::Drop { pages: one(page) });
        }
    }

    /// What the spill file has of a page is not its contents any more.
    fn forget_copy(&mut self, page: u64) {
        if self.pages.take(page, Flag::COPY) {
            self.slots.free(page);
        }
    }

    /// Maps a page that is staged.
    fn map(&mut self, page: u64) {
        let write = self.pages.take(page, Flag::WRITE) || self.writes.expected();
        self.pages.set(page, Flag::WAITED, false);
        self.settle(page, write);
        self.act(SwapAction::Map { pages: one(page), protect: !write });
    }

    fn settle(&mut self, page: u64, write: bool) {
        self.pages.set_place(page, if write { Place::Dirty } else { Place::Clean });
        if write {
            self.forget_copy(page);
        }
        self.pages.set(page, Flag::UNWRITTEN, !write);
    }

    /// Does what there is room for now, and makes room for what comes.
    fn pump(&mut self) {
        while self.pages.held() > self.budget && self.drop_one() {}
        self.make_ready();
        while let Some(&(page, plan)) = self.pending.front() {
            let away = self.pages.place(page) == Place::Away;
            if away && self.room(1) == 0 {
                self.make_ready();
                if self.room(1) == 0 {
                    break;
                }
            }
            self.pending.pop_front();
            self.pages.set(page, Flag::PENDING, false);
            if away {
                self.carry_out(Some(page), &plan);
            }
        }
        if self.failing && self.requests.is_empty() {
            self.failing = false;
            for (page, _) in core::mem::take(&mut self.pending) {
                self.pages.set(page, Flag::PENDING, false);
                // It may have come meanwhile, with the cluster of another.
                if self.pages.take(page, Flag::WAITED) {
                    self.pages.set(page, Flag::WRITE, false);
                    self.act(SwapAction::Fail { pages: one(page) });
                }
            }
        }
        while self.pending.is_empty()
            && let Some(extent) = self.wanted.pop_front()
        {
            let missing: Vec<_> = self.within(extent).filter(|&page| self.is_spilled(page)).collect();
            let room = self.room(missing.len() as u64);
            let mut chosen: Vec<_> = missing.into_iter().take(room as usize).collect();
            for &page in &chosen {
                self.pages.set(page, Flag::EXPECTED, true);
                self.pages.set_place(page, Place::Arriving);
            }
            self.read(&mut chosen);
        }
        self.make_ready();
    }

    /// Reads or makes the pages of a plan, as many as there is room for; `waited` first.
    fn carry_out(&mut self, waited: Option<u64>, plan: &Plan) {
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
            return (self.around(page, plan), plan.first, None);
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
    fn around(&self, page: u64, plan: &Plan) -> Vec<u64> {
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
    fn is_spilled(&self, page: u64) -> bool {
        self.pages.place(page) == Place::Away && self.pages.has(page, Flag::COPY)
    }

    /// Asks for pages that have just been given room: at once, where they lie side by side in the region and in the spill file.
    fn read(&mut self, pages: &mut [u64]) {
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

    fn request(&mut self, what: Request) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, what);
        request
    }

    /// Room for so many pages, or as many as can be had at once.
    fn room(&mut self, wanted: u64) -> u64 {
        if self.budget.saturating_sub(self.pages.held()) < wanted {
            // A few at a time cost a driver as much as one.
            let few = DROPPED_FEW.min(spare(self.budget) / DROPPED_FEW);
            while self.budget.saturating_sub(self.pages.held()) < wanted + few && self.drop_one() {}
        }
        self.budget.saturating_sub(self.pages.held()).min(wanted)
    }

    fn drop_one(&mut self) -> bool {
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
    fn make_ready(&mut self) {
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

    /// Says what to do; with what was said last, where that is the same for pages beside these.
    fn act(&mut self, action: SwapAction) {
        let joined = match (self.actions.back_mut(), action) {
            (Some(SwapAction::Drop { pages: last }), SwapAction::Drop { pages })
            | (Some(SwapAction::Fail { pages: last }), SwapAction::Fail { pages }) => join(last, pages),
            (Some(SwapAction::Map { pages: last, protect: one }), SwapAction::Map { pages, protect })
            | (Some(SwapAction::Zero { pages: last, protect: one }), SwapAction::Zero { pages, protect })
                if *one == protect =>
            {
                join(last, pages)
            }
            _ => false,
        };
        if !joined {
            self.actions.push_back(action);
        }
    }
}

/// Makes `last` both, where they lie side by side.
fn join(last: &mut Extent, pages: Extent) -> bool {
    if last.end == pages.start {
        last.end = pages.end;
    } else if pages.end == last.start {
        last.start = pages.start;
    } else {
        return false;
    }
    true
}

fn one(page: u64) -> Extent {
    Extent::new(page, page + 1)
}

/// Pages that are kept ready to leave, of a budget of so many: as many as are written in the time of a few clusters that are read.
fn spare(budget: u64) -> u64 {
    (budget / SPARE_PART).clamp(1, SPARE_MAX)
}

const SPARE_PART: u64 = 64;
const SPARE_MAX: u64 = 512;

/// Pages that leave together, beyond those whose room is wanted, where many are ready.
const DROPPED_FEW: u64 = 7;

/// The longest request to clean pages: 256 KiB.
pub const CLEAN_PAGES_MAX: usize = 64;

/// Pages that a plan passes over since they are there.
const PASSED_OVER: u64 = 1024;

/// Advice that is remembered. Older is forgotten.
const ADVICE_MAX: usize = 64;
