//! The wiring of a region: events go to the mechanisms, and what they want becomes actions as far
//! as there is room.
//!
//! ```text
//!   Fault ──> readahead: a plan ──> pending, until there is room ──> Zero
//!                                      ^                       └──> Read .. Completed ──> Map
//!        Ready: Drop ──────────────────┘  a clean page leaves at once
//!          ^
//!        Leaving: Clean .. Cleaned <── replacement: which page; slots: where to
//! ```
//!
//! `faults` holds what a fault finds and what becomes of pages that were read, `reads` turns a
//! plan into requests, `cleaning` makes room. This file holds the state, advice, and the order of
//! all this: evict, then serve pending faults, then read what the program will need, then clean
//! ahead.
//!
//! *Invariants:* mapped, staged and arriving pages never exceed the budget, unless the budget was
//! just made smaller. No page is in two requests. A dirty page never leaves, unless the program
//! has given it up. Every thread that waits is answered when no request is open any more.
//!
//! This file retries no write: when a request to clean fails and no request is open, the pending
//! faults fail. Source: docs/decisions/0032; 0033, point 7, for failures.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::regions::cost::ReadCost;
use crate::regions::event::{Advice, RegionAction, RegionCounters, RegionEvent};
use crate::regions::page::{Flag, Pages, Place};
use crate::regions::readahead::{Plan, RegionReadahead};
use crate::regions::replacement::Eviction;
use crate::regions::slots::Slots;
use crate::regions::writes::Writes;
use crate::units::{Extent, Nanos, RequestId};

pub(crate) mod cleaning;
mod faults;
mod reads;

/// What a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionOptions {
    /// The pages of the region; less than 2^32 - 1.
    pub pages: u64,
    /// Pages that may be mapped, staged or arriving; 0 counts as 1.
    pub budget: u64,
}

/// An open request.
#[derive(Debug, Clone, Copy)]
enum Request {
    /// Its start, if no other request was open then; and whether the program said that it will
    /// need these pages.
    Read(Extent, Option<Nanos>, bool),
    Clean(Extent),
}

/// The policy of a region. It is used as [`crate::ReadPath`] is: [`RegionPath::handle`], then
/// [`RegionPath::poll_action`] until `None`.
///
/// A fault costs O(pages of its cluster), and of the streams that are remembered. The records take
/// 20.1 bytes for each page of the region, from the start.
#[derive(Debug)]
pub struct RegionPath {
    pages: Pages,
    slots: Slots,
    eviction: Eviction,
    ahead: RegionReadahead,
    cost: ReadCost,
    writes: Writes,
    now: Nanos,
    budget: u64,
    requests: BTreeMap<RequestId, Request>,
    next_request: u64,
    /// Pages that threads wait for and that have no room yet, with their plans.
    pending: VecDeque<(u64, Plan)>,
    /// Pages to read because the program will need them.
    wanted: VecDeque<Extent>,
    /// Requests for such pages that are open.
    wanted_open: u64,
    /// The advice for pages, the latest last.
    advice: Vec<(Extent, Advice)>,
    /// Pages that are kept ready to leave.
    spare: u64,
    /// Pages that may still be chosen to leave before their room is wanted.
    credit: u64,
    /// A request to clean has failed since the last fault that needs room.
    failing: bool,
    /// Pages that are given up and in an open request.
    discarding: u64,
    actions: VecDeque<RegionAction>,
    counters: RegionCounters,
}

impl RegionPath {
    /// A region of zeroes.
    ///
    /// # Panics
    ///
    /// If the region has 2^32 - 1 pages or more.
    pub fn new(options: RegionOptions) -> Self {
        let budget = options.budget.max(1);
        Self {
            pages: Pages::new(options.pages),
            slots: Slots::new(options.pages),
            eviction: Eviction::new(),
            ahead: RegionReadahead::new(budget),
            cost: ReadCost::default(),
            writes: Writes::default(),
            now: Nanos(0),
            budget,
            requests: BTreeMap::new(),
            next_request: 0,
            pending: VecDeque::new(),
            wanted: VecDeque::new(),
            wanted_open: 0,
            advice: Vec::new(),
            spare: spare(budget, 0),
            credit: spare(budget, 0),
            failing: false,
            discarding: 0,
            actions: VecDeque::new(),
            counters: RegionCounters::default(),
        }
    }

    /// Handles an event at `now`, which never goes back. Pages beyond the region are ignored.
    pub fn handle(&mut self, now: Nanos, event: RegionEvent) {
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        self.spare = spare(self.budget, self.ahead.active());
        match event {
            RegionEvent::Fault { page, thread, write } if page < self.pages.len() => self.fault(page, thread, write),
            RegionEvent::Written { page } if page < self.pages.len() => self.written(page),
            RegionEvent::Fault { .. } | RegionEvent::Written { .. } => {}
            RegionEvent::Completed { request, came } => self.completed(request, came),
            RegionEvent::Zeroes { pages } => {
                for page in self.within(pages) {
                    self.pages.set(page, Flag::Zeroes, self.pages.has(page, Flag::Cleaning));
                }
            }
            RegionEvent::Cleaned { request, came } => self.cleaned(request, came),
            RegionEvent::Advised { pages, advice } => self.advised(pages, advice),
            RegionEvent::Budget { pages } => {
                self.budget = pages.max(1);
                self.spare = spare(self.budget, self.ahead.active());
                self.credit = self.spare;
                self.ahead.set_budget(self.budget);
            }
            RegionEvent::Room { slots } => {
                self.slots.set_limit(slots);
                self.failing = false;
            }
        }
        self.pump();
    }

    /// The next action; `None` when there are no more.
    pub fn poll_action(&mut self) -> Option<RegionAction> {
        self.actions.pop_front()
    }

    /// What was decided so far.
    pub fn counters(&self) -> RegionCounters {
        self.counters
    }

    /// The number of pages that are mapped, staged or arriving.
    pub fn held(&self) -> u64 {
        self.pages.held()
    }

    /// The number of slots of the spill file that there must be room for, from the first one on:
    /// what [`RegionEvent::Room`] said, or more, while slots behind that are in use.
    pub fn slots(&self) -> u64 {
        self.slots.limit()
    }

    /// The number of pages that the program gave up and that are dropped when their requests end.
    pub fn discarding(&self) -> u64 {
        self.discarding
    }

    fn within(&self, pages: Extent) -> core::ops::Range<u64> {
        pages.start.min(self.pages.len())..pages.end.min(self.pages.len())
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
                    if self.pages.place(page) == Place::Arriving || self.pages.has(page, Flag::Cleaning) {
                        self.discarding += u64::from(!self.pages.has(page, Flag::Discarded));
                        self.pages.set(page, Flag::Discarded, true);
                    } else {
                        self.discard(page);
                    }
                }
            }
        }
    }

    /// The contents of a page in no request are given up: it is zeroes from now on.
    fn discard(&mut self, page: u64) {
        self.forget_copy(page);
        self.pages.set(page, Flag::Unseen, false);
        self.pages.set(page, Flag::Unwritten, false);
        if self.pages.place(page) == Place::Away {
            Eviction::forget(&mut self.pages, page);
        } else {
            self.pages.unlist(page);
            self.pages.set_place(page, Place::Away);
            self.act(RegionAction::Drop { pages: one(page) });
        }
    }

    /// The copy of a page in the spill file is no longer valid.
    fn forget_copy(&mut self, page: u64) {
        if self.pages.take(page, Flag::Copy) {
            self.slots.free(page);
        }
    }

    /// Serves what there is room for, and makes room ahead of need.
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
            self.pages.set(page, Flag::Pending, false);
            if away {
                self.carry_out(Some(page), &plan);
            }
        }
        if self.failing && self.requests.is_empty() {
            self.failing = false;
            for (page, _) in core::mem::take(&mut self.pending) {
                self.pages.set(page, Flag::Pending, false);
                // It may have been read meanwhile, with the cluster of another page.
                if self.pages.take(page, Flag::Waited) {
                    self.pages.set(page, Flag::Write, false);
                    self.act(RegionAction::Fail { pages: one(page) });
                }
            }
        }
        while self.pending.is_empty()
            && self.wanted_open < WANTED_REQUESTS
            && let Some(extent) = self.wanted.pop_front()
        {
            self.read_wanted(extent);
        }
        self.make_ready();
    }

    /// Reads the start of pages that the program will need; the rest comes later.
    fn read_wanted(&mut self, extent: Extent) {
        let within = self.within(extent);
        let missing = within.clone().filter(|&page| self.is_spilled(page));
        let mut chosen: Vec<_> = missing.take(WANTED_PAGES as usize).collect();
        let rest = chosen.last().map_or(within.end, |last| last + 1);
        let room = self.room(chosen.len() as u64) as usize;
        if room == chosen.len() && rest < within.end {
            self.wanted.push_front(Extent::new(rest, within.end));
        }
        chosen.truncate(room);
        for &page in &chosen {
            self.pages.set(page, Flag::Expected, true);
            self.pages.set_place(page, Place::Arriving);
        }
        let before = self.next_request;
        self.read(&mut chosen);
        self.wanted_open += self.next_request - before;
        for request in before..self.next_request {
            if let Some(Request::Read(_, _, wanted)) = self.requests.get_mut(&RequestId(request)) {
                *wanted = true;
            }
        }
    }

    fn request(&mut self, what: Request) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, what);
        request
    }

    /// Adds an action. It is merged with the last one if that is the same for adjacent pages.
    fn act(&mut self, action: RegionAction) {
        let joined = match (self.actions.back_mut(), action) {
            (Some(RegionAction::Drop { pages: last }), RegionAction::Drop { pages })
            | (Some(RegionAction::Fail { pages: last }), RegionAction::Fail { pages }) => join(last, pages),
            (Some(RegionAction::Map { pages: last, protect: one }), RegionAction::Map { pages, protect })
            | (Some(RegionAction::Zero { pages: last, protect: one }), RegionAction::Zero { pages, protect })
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

/// Extends `last` by `pages`, if they are adjacent. Returns whether they are.
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

/// Ranges of advice that are remembered; the oldest is forgotten. Lower: advice of programs with
/// many ranges is lost. Higher: each fault searches a longer list. Source: a guess, not measured.
const ADVICE_MAX: usize = 64;

/// Pages that are kept ready to leave, for a budget of `budget` pages: as many as are written in
/// the time that a few clusters take to be read.
///
/// Pages that are written together are read together. So with many streams, whose pages leave in
/// turns, more pages leave at a time.
fn spare(budget: u64, streams: u64) -> u64 {
    (budget / SPARE_PART).clamp(1, SPARE_MAX.max(streams * SPARE_OF_STREAM))
}

/// Pages that are kept ready to leave are a 64th of the budget. Lower: a larger part of the budget
/// leaves before its room is wanted. Higher: fewer pages are ready, and faults wait for writes.
/// Source: docs/decisions/0032, point 5.
const SPARE_PART: u64 = 64;

/// Pages that are kept ready to leave, at most. Lower: the faults of a fast reader wait for
/// writes. Higher: pages are written that are changed again: with 8,192, 30 % more is written at
/// random, and mixed touches take 52 s in place of 45.8. Source: docs/decisions/0032, point 5.
const SPARE_MAX: u64 = 512;

/// Pages that are kept ready to leave for each stream that goes on, where that is more than
/// [`SPARE_MAX`]. Lower: a stream's pages are written a few at a time, and come back a few at a
/// time: with none 64 threads in order take 37 s in place of 31. Higher: more is written that is
/// changed again. Source: `many_threads_in_order_are_streams_as_few_are` in
/// crates/sim/tests/regions.rs.
const SPARE_OF_STREAM: u64 = 64;

/// Pages of a piece of those that the program will need: 1 MiB, as the longest cluster. Lower:
/// more requests. Higher: a fault waits behind longer requests. Source: `CLUSTER_MAX` of
/// `readahead`.
const WANTED_PAGES: u64 = 256;

/// Open requests for such pages at which no further piece is asked for. Lower: the storage waits
/// between two pieces. Higher: a fault waits behind more requests. Source: a guess, not measured.
const WANTED_REQUESTS: u64 = 2;
