//! Wires the mechanisms: matches each event, forwards it, and turns what they want into actions. Holds no rule of its own but
//! the order: demand is submitted before speculation, and room is made before anything is submitted.

use alloc::collections::{BTreeMap, VecDeque};

use crate::files::share::{Round, Shares};
use crate::files::streams::FileReadahead;
use crate::queue::fair_queue::FairQueue;
use crate::queue::hedge::Hedge;
use crate::queue::link::Link;
use crate::queue::requests::{Request, Requests};
use crate::read::event::{Action, Counters, Event};
use crate::residency::budget::{Resident, Room};
use crate::residency::folio::wasted;
use crate::residency::replacement::Replacement;
use crate::units::{Class, Extent, FileId, Nanos, RequestId, Touch};

mod limits;
mod plan;
mod room;
mod submit;

/// What a driver decides once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Bytes that everything resident or in flight may take, bookkeeping included.
    pub capacity_bytes: u64,
    /// Whether to make requests that no reader waits for. Without, a read fetches its own pages, once: the baseline.
    pub readahead: bool,
    /// What leaves first of what has been read.
    pub replacement: Replacement,
    /// Going from one place to another costs the storage time in which it serves nobody, as a disk's arm does.
    pub rotational: bool,
    /// Whether requests wait for their turn here, and streams have the same part of the storage's time. Without, requests are started as
    /// they come and the storage serves them in its own order: what the fair queue is compared with.
    pub fair_queue: bool,
}

/// What the budget is spent on, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The budget.
    pub capacity_bytes: u64,
    /// Resident or in flight, bookkeeping included.
    pub charged_bytes: u64,
    /// Of those, read ahead and not read yet.
    pub ahead_bytes: u64,
}

struct File {
    pages: u64,
    readahead: FileReadahead,
    /// Pages that random reads have fetched, less those that came along: the most that may.
    random_pages: u64,
}

/// The whole read path of one mount or library: one value a backend. See the crate's text for the contract.
pub struct ReadPath {
    options: Options,
    files: BTreeMap<FileId, File>,
    resident: Resident,
    requests: Requests,
    queue: FairQueue,
    link: Link,
    hedge: Hedge,
    actions: VecDeque<Action>,
    now: Nanos,
    room: Room,
    /// Demand that found no room: tried again whenever memory comes free.
    waiting: VecDeque<(FileId, Extent)>,
    /// Streams whose next part was one too many in flight: each has its turn as others come to their end.
    turns: VecDeque<(FileId, u64)>,
    /// How far ahead all streams want to be, in pages, as of `shares_at`.
    shares: Shares,
    shares_at: Option<Nanos>,
    round: Round,
    counters: Counters,
}

impl ReadPath {
    /// A read path that holds nothing.
    pub fn new(options: Options) -> Self {
        let queue = if options.fair_queue { FairQueue::new } else { FairQueue::off };
        Self {
            options,
            files: BTreeMap::new(),
            resident: Resident::new(options.capacity_bytes, options.replacement),
            requests: Requests::default(),
            queue: queue(options.rotational),
            link: Link::default(),
            hedge: Hedge::default(),
            actions: VecDeque::new(),
            now: Nanos(0),
            room: Room::default(),
            waiting: VecDeque::new(),
            turns: VecDeque::new(),
            shares: Shares::default(),
            shares_at: None,
            round: Round::default(),
            counters: Counters::default(),
        }
    }

    /// Tells what happened. Poll the actions afterwards.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        self.resident.pass(now);
        match event {
            Event::Open { file, pages } => {
                self.files.insert(file, File { pages, readahead: FileReadahead::new(), random_pages: 0 });
            }
            Event::Release { file } => self.release(file),
            Event::Forget { file } => self.forget(file),
            Event::Read { file, extent, found, marked } => self.read(now, file, extent, found, marked),
            Event::Prefetch { file } => self.prefetch(file),
            Event::Discard { file } => {
                let pages = self.files.get(&file).map_or(0, |file| file.pages);
                for gone in self.resident.discarded(file, pages) {
                    self.counters.pages_wasted += wasted(gone);
                    self.actions.push_back(Action::Drop { file, folio: gone.folio });
                }
                self.retry_waiting();
            }
            Event::Reserve { bytes } => {
                self.resident.set_capacity(self.options.capacity_bytes.saturating_sub(bytes));
                // As much as can go now: what is in flight goes when it has come.
                self.make_room(0, true);
            }
            Event::Referenced { file, start, touch } => {
                self.referenced(file, start, touch);
                self.resume(now, file);
            }
            Event::Wants { request } => {
                self.requests.wants(request);
                if let Some(Request { file, .. }) = self.requests.get(request) {
                    self.resume(now, file);
                }
            }
            Event::Late { request } => {
                if self.requests.get(request).is_some() && self.hedge.take() {
                    self.counters.requests_hedged += 1;
                    self.actions.push_back(Action::Hedge { request });
                }
            }
            Event::Completed { request, first_byte, total } => {
                if let Some((finished @ Request { file, extent, class, met, .. }, last)) = self.finish(request) {
                    // One first byte was waited for, however many came with it.
                    if class == Class::Demand && last {
                        self.link.answered(first_byte, met.demanded);
                        self.hedge.observe(first_byte);
                    }
                    self.queue.answered(now, first_byte, extent.pages());
                    let alone = !self.options.rotational || self.requests.was_alone(finished);
                    self.link.completed(now, extent.pages(), first_byte, total, alone);
                    self.resident.arrived(file, extent, request);
                    self.retry_waiting();
                }
            }
            Event::Failed { request } => {
                if let Some((Request { file, extent, class, .. }, _)) = self.finish(request) {
                    self.counters.speculation_failed += u64::from(class == Class::Speculative);
                    self.abandon(file, extent, request);
                    self.retry_waiting();
                }
            }
        }
        self.take_turns(now);
        self.grant();
        self.start_waiting();
    }

    /// What to do next, until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What has been decided so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the budget is spent on.
    pub fn memory(&self) -> Memory {
        Memory {
            capacity_bytes: self.options.capacity_bytes,
            charged_bytes: self.resident.charged_bytes(),
            ahead_bytes: self.resident.ahead_bytes(),
        }
    }

    /// A folio has been read.
    fn referenced(&mut self, file: FileId, start: u64, touch: Touch) {
        if self.resident.referenced(file, start, touch) {
            self.actions.push_back(Action::Clear { file, start });
        }
    }

    fn cancel(&mut self, request: RequestId) {
        if let Some((Request { file, extent, .. }, _)) = self.finish(request) {
            self.counters.cancelled += 1;
            self.actions.push_back(Action::Cancel { request });
            self.abandon(file, extent, request);
        }
    }

    fn abandon(&mut self, file: FileId, extent: Extent, request: RequestId) {
        for gone in self.resident.abandoned(file, extent, request) {
            self.counters.pages_wasted += wasted(gone);
            self.actions.push_back(Action::Drop { file, folio: gone.folio });
        }
    }

    /// A reader waits for pages that are in flight: whatever they were fetched for, they are demand now.
    fn promote(&mut self, file: FileId, extent: Extent) {
        for request in self.resident.requests_in(file, extent) {
            self.requests.promote(request);
            self.queue.promote(request);
        }
    }

    /// Nobody has `file` open: nothing more is fetched for it, and what is there may stay until room is needed.
    fn release(&mut self, file: FileId) {
        self.waiting.retain(|&(f, _)| f != file);
        self.turns.retain(|&(f, _)| f != file);
        for request in self.requests.of_file(file) {
            self.cancel(request);
        }
        if let Some(file) = self.files.get_mut(&file) {
            file.readahead = FileReadahead::new();
        }
        self.queue.close(file);
        self.retry_waiting();
    }

    fn forget(&mut self, file: FileId) {
        self.release(file);
        let pages = self.files.remove(&file).map_or(0, |file| file.pages);
        for gone in self.resident.close(file, pages) {
            self.counters.pages_wasted += wasted(gone);
            self.actions.push_back(Action::Drop { file, folio: gone.folio });
        }
    }

    /// A request is over, whatever became of it. With it, whether it was the last of what the storage was asked for at once.
    fn finish(&mut self, request: RequestId) -> Option<(Request, bool)> {
        let finished = self.requests.finish(request)?;
        self.resident.disconnect(finished.extent);
        Some((finished, self.queue.finish(request)))
    }
}
