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

use crate::regions::cost::SwapCost;
use crate::regions::event::{Advice, SwapAction, SwapCounters, SwapEvent};
use crate::regions::page::{Flag, Pages, Place};
use crate::regions::readahead::{Plan, SwapReadahead};
use crate::regions::replacement::Leaving;
use crate::regions::slots::Slots;
use crate::regions::writes::Writes;
use crate::units::{Extent, Nanos, RequestId};

pub(crate) mod cleaning;
mod faults;
mod reads;

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
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
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

    fn request(&mut self, what: Request) -> RequestId {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.insert(request, what);
        request
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

/// Advice that is remembered. Older is forgotten.
const ADVICE_MAX: usize = 64;

/// Pages that are kept ready to leave, of a budget of so many: as many as are written in the time of a few clusters that are read.
fn spare(budget: u64) -> u64 {
    (budget / SPARE_PART).clamp(1, SPARE_MAX)
}

const SPARE_PART: u64 = 64;
const SPARE_MAX: u64 = 512;
