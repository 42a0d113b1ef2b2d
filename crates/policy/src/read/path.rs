//! Holds the state of the read path, and forwards each event to the mechanisms that it concerns.
//!
//! ```text
//!   Read         streams: which stream ──> plan: its next parts ──> demand ──> hot block
//!   Referenced   residency: the folio's state ──> plan: the part of a stream that was held back
//!   Wants        residency: arrived ──> the request waits for memory
//!   Completed    link, hedge, queue: what it cost ──> residency: arrived
//!   Failed       residency: drop untouched folios
//!   each event, at its end    streams that wait to plan ──> reads that wait ──> grants
//!                             ──> requests that may start
//! ```
//!
//! The rules that need several mechanisms at once lie below: `plan`, `limits`, `submit`, `answer`,
//! `room`, `release`. This file has two of its own. After each event, memory and turns that came
//! free are given away in the order above. Storage is measured from completions; a group of
//! coalesced requests has one first byte, and on a disk only a request that ran alone shows the
//! bandwidth (docs/decisions/0026).
//!
//! *Invariants:* a debug build asserts that every action was polled before the next event, and
//! that `now` never goes back. Room is made before anything is submitted.
//!
//! The file does not find streams, choose victims, order requests or retry. No mechanism asks for
//! a wake-up: drivers report time by events only (docs/decisions/0017). Source:
//! docs/decisions/0001 (the state is here), 0021 (queues) and 0043 (the reads that wait).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::files::cached::Cached;
use crate::files::layout::{Alike, Chunk, Habit, Layout};
use crate::files::scattered::Scattered;
use crate::files::share::{Round, Shares};
use crate::files::streams::FileReadahead;
use crate::files::whole::Whole;
use crate::files::window::state::StreamState;
use crate::queue::arm::Arm;
use crate::queue::disk::Disk;
use crate::queue::fair_queue::{FairQueue, Owner, Service};
use crate::queue::hedge::Hedge;
use crate::queue::link::{Completion, Link, LinkState};
use crate::queue::requests::{Request, Requests};
use crate::queue::throughput::Passed;
use crate::read::closed::Closed;
use crate::read::event::{Action, Counters, Event};
use crate::read::told::Told;
use crate::read::turns::Turns;
use crate::read::waits::Waits;
use crate::residency::budget::{Budget, Room};
use crate::residency::folio::{Ahead, Evicted, connection, wasted};
use crate::residency::replacement::Replacement;
use crate::residency::waste::{Waste, Wasted};
use crate::units::{Class, Extent, FileId, Nanos, PAGE_BYTES, ReadId, RequestId, Source, Touch};

mod answer;
mod columns;
mod limits;
mod plan;
mod release;
mod room;
mod source;
mod submit;

/// What a driver decides once, when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mechanism that is there or not")]
pub struct Options {
    /// Bytes that all folios resident or in flight may take, bookkeeping included.
    pub capacity_bytes: u64,
    /// Whether reads cause requests that no reader waits for. Without, a read fetches its own
    /// pages, once: the baseline. [`Event::Prefetch`] is obeyed either way.
    pub readahead: bool,
    /// Which read folios are evicted first.
    pub replacement: Replacement,
    /// Whether moving between places costs the storage time in which it serves no request, as a
    /// disk's arm does.
    pub rotational: bool,
    /// Whether requests wait for their turn in policy, and streams have equal parts of the
    /// storage's time. Without, requests start as they are made and the storage serves them in its
    /// own order: the comparison for the fair queue (docs/decisions/0024).
    pub fair_queue: bool,
    /// Whether there is a tier: a local copy of what was read once. It is offered what readers
    /// touch.
    pub tier: bool,
    /// Whether the storage is asked for what the tier has, where its disk holds readers up.
    pub bypass: bool,
}

/// What the budget is spent on, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The budget.
    pub capacity_bytes: u64,
    /// Of those, what pages may take: the rest is reserved, or holds files, streams and reads.
    pub pages_bytes: u64,
    /// Resident or in flight, bookkeeping included.
    pub charged_bytes: u64,
    /// Of those, bytes read ahead that no reader has touched.
    pub ahead_bytes: u64,
    /// Of those, bytes that a reader has touched.
    pub read_bytes: u64,
    /// Bytes that are asked for and take no memory yet.
    pub pending_bytes: u64,
}

struct File {
    pages: u64,
    /// Some program has it open.
    is_open: bool,
    /// It is closed, has no folio, and stands in `empty`.
    is_empty: bool,
    readahead: FileReadahead,
    /// Where its parts lie, if it says so.
    layout: Option<Box<Layout>>,
    /// What the tier has of it.
    cached: Cached,
    /// Pages that random reads asked for, less those fetched with them as hot blocks: how many
    /// more may be.
    random_pages: u64,
    /// The random reads that waited.
    scattered: Scattered,
    /// Pages that were read ahead and dropped unread.
    wasted_pages: u64,
}

/// The whole read path of one mount or library, one value for each backend. The crate's
/// documentation states its contract.
pub struct ReadPath {
    options: Options,
    files: BTreeMap<FileId, File>,
    budget: Budget,
    /// Closed files whose requests are in flight, and those whose streams are kept.
    fetching: Closed,
    resting: Closed,
    /// Closed files without a folio, the oldest first. May name files that are open by now, or
    /// gone.
    empty: VecDeque<FileId>,
    /// The memory that the streams and runs of all files take.
    streams_bytes: u64,
    /// The memory that what is known of the tier takes.
    cached_bytes: u64,
    /// The memory that what is known of chunks takes.
    told: Told,
    /// How the kernel that asks has read past the ends of chunks.
    habit: Option<Habit>,
    /// The columns that were read of the latest files.
    alike: Alike,
    /// Bytes that directories take.
    reserved_bytes: u64,
    /// Bytes that the tier takes.
    tier_bytes: u64,
    requests: Requests,
    queue: FairQueue,
    link: Link,
    /// The arm of rotational storage.
    arm: Arm,
    /// What the tier is on.
    disk: Disk,
    hedge: Hedge,
    whole: Whole,
    actions: VecDeque<Action>,
    now: Nanos,
    room: Room,
    waits: Waits,
    /// Reads to check at the end of the event: requests that they wait for are over, or were
    /// granted memory.
    changed: BTreeSet<ReadId>,
    /// Streams that found the speculative requests at their limit. They plan again as
    /// requests end.
    turns: Turns,
    /// The same for requests of the tier.
    tier_turns: Turns,
    /// The stream that plans has its turn.
    in_turn: bool,
    /// Pages of the largest part, when it was last asked for.
    part_pages: u64,
    /// How far ahead all streams want to be, in pages, as counted at `shares_at`.
    shares: Shares,
    shares_at: Option<Nanos>,
    round: Round,
    counters: Counters,
    waste: Waste,
}

impl ReadPath {
    /// A read path that holds nothing.
    pub fn new(options: Options) -> Self {
        let queue = if options.fair_queue { FairQueue::new } else { FairQueue::off };
        Self {
            options,
            files: BTreeMap::new(),
            budget: Budget::new(options.capacity_bytes, options.replacement),
            fetching: Closed::default(),
            resting: Closed::default(),
            empty: VecDeque::new(),
            streams_bytes: 0,
            cached_bytes: 0,
            told: Told::default(),
            habit: None,
            alike: Alike::default(),
            reserved_bytes: 0,
            tier_bytes: 0,
            requests: Requests::default(),
            queue: queue(options.rotational).with_limit_max((options.capacity_bytes / CONNECTION_SHARE_BYTES) as usize),
            link: Link::default(),
            arm: Arm::default(),
            disk: Disk::default(),
            hedge: Hedge::default(),
            whole: Whole::new(options.capacity_bytes),
            actions: VecDeque::new(),
            now: Nanos(0),
            room: Room::default(),
            waits: Waits::default(),
            changed: BTreeSet::new(),
            turns: Turns::default(),
            tier_turns: Turns::default(),
            in_turn: false,
            part_pages: 1,
            shares: Shares::default(),
            shares_at: None,
            round: Round::default(),
            counters: Counters::default(),
            waste: Waste::default(),
        }
    }

    /// A read path that holds nothing, whose requests are numbered from `first` on: for a driver
    /// that starts policy anew while requests of the one before may still end.
    pub fn starting_at(options: Options, first: RequestId) -> Self {
        Self { requests: Requests::starting_at(first), ..Self::new(options) }
    }

    /// Takes note of what happened. Poll the actions afterwards.
    ///
    /// # Panics
    ///
    /// In a debug build, if an action is left from the last event, or `now` is before its time.
    pub fn handle(&mut self, now: Nanos, event: Event) {
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        self.arm.passed(now, self.waits.len() > 0);
        let files = &self.files;
        let stops_at = |file, stream| files.get(&file)?.stops_at(stream);
        let patience = |file, stream| files.get(&file)?.patience(stream);
        self.budget.pass(now, stops_at, patience);
        // The request that is told of is over for the driver, also while touches are told before
        // it.
        let is_of_request = matches!(
            event,
            Event::Referenced { .. } | Event::Wants { .. } | Event::Completed { .. } | Event::Failed { .. }
        );
        if !is_of_request {
            self.leave_closed(now);
        }
        match event {
            Event::Open { file, pages } => {
                self.is_not_closed(file);
                let (readahead, random_pages, scattered) = (FileReadahead::new(), 0, Scattered::default());
                let (layout, cached) = (None, Cached::default());
                let (is_open, is_empty, wasted_pages) = (true, false, 0);
                let new =
                    File { pages, is_open, is_empty, readahead, layout, cached, random_pages, scattered, wasted_pages };
                let known = self.files.entry(file).or_insert(new);
                (known.is_open, known.is_empty) = (true, false);
                self.open_layout(file);
            }
            Event::Release { file } => self.release(file),
            Event::Forget { file } => self.forget(file),
            Event::Read { read, file, extent, found, marked } => self.read(now, read, file, extent, found, marked),
            Event::Answered { read } => self.answered(read),
            Event::Prefetch { file } => self.prefetch(file),
            Event::PrefetchEnds { file, ends } => self.prefetch_ends(file, ends),
            Event::Discard { file } => {
                let pages = self.files.get(&file).map_or(0, |file| file.pages);
                let gone = self.budget.discarded(file, pages);
                self.gone(gone);
            }
            Event::Parts { file } => {
                if let Some(known) = self.files.get_mut(&file) {
                    known.readahead.has_parts();
                }
            }
            Event::Directory { file, bytes } => self.directory(file, bytes),
            Event::Member { file, extent } => self.member(file, extent),
            Event::Chunk { file, extent, group, column } => self.chunk(file, Chunk { extent, group, column }),
            Event::Cached { file, extent } => self.cached(file, |cached| cached.insert(extent)),
            Event::Uncached { file, extent } => self.uncached(file, extent),
            Event::Capacity { bytes } => {
                self.options.capacity_bytes = bytes;
                self.share_memory();
                if !self.make_room(0, true) {
                    self.cancel_speculation(0);
                }
                self.budget.shrink();
            }
            Event::Reserve { bytes } => self.reserved_bytes = bytes,
            Event::Tier { bytes } => self.tier_bytes = bytes,
            Event::Referenced { file, start, request, touch } => {
                self.referenced(file, start, request, touch);
                self.resume(now, file);
            }
            Event::Wants { request } => {
                if let Some(Request { file, .. }) = self.requests.get(request) {
                    let arrived = self.requests.arrived(request);
                    self.link.arrived(arrived.pages() * PAGE_BYTES);
                    self.budget.arrived(file, arrived, request);
                    self.want(request);
                    self.resume(now, file);
                }
            }
            Event::Late { request, silence } => {
                let is_over = silence >= self.hedge.stalled_after();
                let is_left_behind = || self.queue.started() == 1 || self.requests.is_overtaken(request);
                if self.hedge.has_budget() && (is_over || is_left_behind()) && self.is_waited_for(request) {
                    self.hedge.take();
                    self.counters.requests_hedged += 1;
                    self.actions.push_back(Action::Hedge { request });
                }
            }
            Event::Completed { request, first_byte, silence, total } => {
                if let Some(Request { extent, met, .. }) = self.requests.get(request)
                    && self.requests.left_disk(request)
                {
                    self.disk.answered(now, extent.pages(), total, met.beside);
                }
                let finished = self.finish(request);
                if let Some((Request { file, extent, source: Source::Tier, .. }, _)) = finished {
                    self.budget.arrived(file, extent, request);
                } else if let Some((finished @ Request { file, extent, class, met, .. }, last)) = finished {
                    // Coalesced requests share one first byte: the last of them to end counts it.
                    self.requests.completed(finished);
                    if last {
                        self.hedge.observe(silence);
                    }
                    if class == Class::Demand && last {
                        self.link.answered(first_byte, met.demanded);
                    }
                    self.queue.answered(now, first_byte, extent.pages());
                    let alone = !self.options.rotational || self.requests.was_alone(finished);
                    let completion = Completion {
                        pages: extent.pages(),
                        first_byte,
                        total,
                        beside: met.beside.max(self.queue.started()),
                        arrived_before: met.arrived,
                        held_up: finished.held_up,
                        arrived: (extent.end - finished.arrived) * PAGE_BYTES,
                    };
                    self.link.completed(completion, alone);
                    let passed = Passed {
                        came: met.came,
                        latest: self.requests.came(),
                        is_short: self.requests.is_short(extent.pages()),
                    };
                    let is_over = self.link.passed(now, passed, self.part_pages, !self.options.rotational);
                    self.queue.grow(self.link.is_growing());
                    if is_over {
                        self.queue.round_ended();
                    }
                    self.budget.arrived(file, extent, request);
                }
            }
            Event::Failed { request } => {
                if let Some((Request { file, extent, class, .. }, _)) = self.finish(request) {
                    self.counters.speculation_failed += u64::from(class == Class::Speculative);
                    self.fail_reads(request, file, extent);
                    self.abandon(file, extent, request);
                }
            }
        }
        if is_of_request && !matches!(event, Event::Referenced { .. }) {
            self.leave_closed(now);
        }
        self.give_up_layouts();
        self.share_memory();
        self.take_turns(now);
        self.take_tier_turns(now);
        loop {
            self.check_again();
            self.grant();
            self.start_waiting();
            if self.changed.is_empty() {
                break;
            }
        }
        self.forget_empty();
    }

    /// The next thing to do, until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What policy has decided so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the budget is spent on.
    pub fn memory(&self) -> Memory {
        Memory {
            capacity_bytes: self.options.capacity_bytes,
            pages_bytes: self.budget.capacity_bytes(),
            charged_bytes: self.budget.charged_bytes(),
            ahead_bytes: self.budget.ahead_bytes(),
            read_bytes: self.budget.read_bytes(),
            pending_bytes: self.budget.pending_bytes(),
        }
    }

    /// What all streams are doing.
    pub fn streams(&self) -> impl Iterator<Item = StreamState> {
        let share = self.shares.level(self.room_pages());
        self.files.iter().flat_map(move |(&file, known)| known.readahead.states(file, share))
    }

    /// The storage's time that what was read ahead for stream `id` of `file` was charged with, in
    /// ns. Begins anew for a stream that has not asked for anything for long.
    pub fn served_ns(&self, file: FileId, id: u64) -> u64 {
        self.queue.served_ns(Owner { file, stream: Some(id) })
    }

    /// How many streams there are.
    pub fn streams_len(&self) -> usize {
        self.files.iter().map(|(&file, known)| known.readahead.states(file, 0).count()).sum()
    }

    /// The storage's time that was spent so far, and on what.
    pub fn service(&self) -> Service {
        self.queue.service()
    }

    /// What was read ahead and dropped unread, the last of it, the oldest first.
    pub fn wasted(&self) -> impl Iterator<Item = &Wasted> {
        self.waste.last()
    }

    /// Pages of `file` that were read ahead and dropped unread so far.
    pub fn wasted_pages(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |known| known.wasted_pages)
    }

    /// What is known of the way to the storage.
    pub fn link(&self) -> LinkState {
        self.link.state(self.queue.limit(), self.queue.started())
    }

    /// A reader has touched a folio.
    fn referenced(&mut self, file: FileId, start: u64, request: RequestId, touch: Touch) {
        if !self.budget.is_from(file, start, request) {
            // It was given another one, which began there as well and is gone.
            return;
        }
        if let Some((pages, ahead_for)) = self.budget.untouched(file, start) {
            let file_pages = self.files.get(&file).map_or(u64::MAX, |known| known.pages);
            self.whole.touched(pages, file_pages, ahead_for == Some(Ahead::Whole));
            self.offer(file, Extent::new(start, start + pages));
        }
        if self.budget.referenced(file, start, touch) {
            self.actions.push_back(Action::Clear { file, start });
        }
    }

    /// The tier is offered a folio that a reader has touched, unless it has it.
    fn offer(&mut self, file: FileId, folio: Extent) {
        if self.options.tier && self.files.get(&file).is_some_and(|known| !known.cached.covers(folio)) {
            self.actions.push_back(Action::Cache { file, folio });
        }
    }

    /// What the tier has of a file changes.
    fn cached(&mut self, file: FileId, change: impl FnOnce(&mut Cached)) {
        if let Some(known) = self.files.get_mut(&file) {
            self.cached_bytes -= known.cached.bytes();
            change(&mut known.cached);
            self.cached_bytes += known.cached.bytes();
        }
    }

    /// The tier does not have `extent` any more: the storage is asked for what it was asked for.
    fn uncached(&mut self, file: FileId, extent: Extent) {
        self.cached(file, |cached| cached.remove(extent));
        for request in self.budget.requests_in(file, extent) {
            if self.requests.left_disk(request) {
                self.disk.passed();
            }
        }
    }

    /// Abandons a request in flight, and tells the driver.
    fn cancel(&mut self, request: RequestId) {
        if let Some((Request { file, extent, .. }, _)) = self.finish(request) {
            self.counters.cancelled += 1;
            self.actions.push_back(Action::Cancel { request });
            self.abandon(file, extent, request);
        }
    }

    /// Drops the folios of an ended request that no reader has touched.
    fn abandon(&mut self, file: FileId, extent: Extent, request: RequestId) {
        let gone = self.budget.abandoned(file, extent, request);
        self.gone(gone);
    }

    /// Folios are no longer resident or in flight.
    fn gone(&mut self, gone: Vec<Evicted>) {
        for gone in gone {
            self.note_waste(gone, false);
            self.actions.push_back(Action::Drop { file: gone.file, folio: gone.folio });
            self.rests(gone.file);
        }
    }

    /// If `gone` was read ahead and not touched, that is counted. It was `thrashed` if it went for
    /// want of memory.
    fn note_waste(&mut self, gone: Evicted, thrashed: bool) {
        let pages = wasted(gone);
        if pages == 0 {
            return;
        }
        self.counters.pages_wasted += pages;
        self.waste.note(Wasted { file: gone.file, extent: gone.folio, at: self.now, thrashed });
        if let Some(known) = self.files.get_mut(&gone.file) {
            known.wasted_pages += pages;
        }
    }

    /// If `file` is closed and has no folio, it is among the next to be forgotten.
    fn rests(&mut self, file: FileId) {
        if let Some(known) = self.files.get_mut(&file)
            && !known.is_open
            && !known.is_empty
            && self.budget.is_empty(file)
        {
            known.is_empty = true;
            self.empty.push_back(file);
        }
    }

    /// Forgets closed files without folios, the oldest first, until few are left. Those few are
    /// kept since the names of folios that were evicted name their files.
    fn forget_empty(&mut self) {
        let most = self.options.capacity_bytes / BYTES_PER_EMPTY_FILE;
        while self.empty.len() as u64 > most {
            let Some(file) = self.empty.pop_front() else { return };
            if self.files.get(&file).is_some_and(|known| known.is_empty) {
                self.forget(file);
                self.actions.push_back(Action::Forget { file });
            }
        }
    }

    /// Gives pages what is left of the budget, and at least their least share. What does not fit
    /// is evicted; folios in flight leave once they have arrived.
    fn share_memory(&mut self) {
        let own = self.files.len() as u64 * FILE_BYTES
            + self.streams_bytes
            + self.cached_bytes
            + self.told.bytes()
            + self.waits.len() as u64 * WAIT_BYTES;
        let taken = self.reserved_bytes + self.tier_bytes + own / BOOKKEEPING_STEP * BOOKKEEPING_STEP;
        let least = self.options.capacity_bytes / PAGES_SHARE_MIN;
        let pages = self.options.capacity_bytes.saturating_sub(taken).max(least);
        if pages != self.budget.capacity_bytes() {
            self.budget.set_capacity(pages);
        }
        if self.budget.charged_bytes() > pages {
            self.make_room(0, true);
        }
    }

    /// A reader waits for pages that are in flight: their requests are demand now.
    fn promote(&mut self, file: FileId, extent: Extent) {
        for request in self.budget.requests_in(file, extent) {
            self.requests.promote(request);
            self.queue.promote(request);
        }
    }

    /// Whether a read waits for some of `request`.
    fn is_waited_for(&self, request: RequestId) -> bool {
        self.requests.get(request).is_some_and(|Request { file, extent, .. }| self.waits.has_within(file, extent))
    }

    /// A request has ended in any way. Returns it, and whether it was the last of those that the
    /// storage was asked for together.
    fn finish(&mut self, request: RequestId) -> Option<(Request, bool)> {
        let finished = self.requests.finish(request)?;
        if finished.has_begun() {
            self.budget.disconnect(connection(finished.extent));
        }
        if finished.is_at_disk {
            self.disk.passed();
        }
        self.changed.extend(self.waits.over(request));
        Some((finished, self.queue.finish(request)))
    }
}

/// Bytes of the budget for each request at the storage at a time: 16 KiB. Lower: connections and
/// their buffers, which are not charged, take more beside the budget. Higher: many readers of
/// small records wait for each other in a small budget. Source: derived: four pages, so that 4,096
/// readers of single pages have a request each in 64 MiB.
const CONNECTION_SHARE_BYTES: u64 = 16 << 10;

/// The part of the budget that pages keep whatever else is reserved, a half. Lower: what is known
/// of directories may leave reads no memory. Higher: less is known of directories. Source: a
/// guess, not measured.
const PAGES_SHARE_MIN: u64 = 2;

/// Memory that a file takes beside its pages, in bytes, here and in the driver. Lower: more is
/// held than is charged. Higher: fewer small files stay. Source: measured with an allocator that
/// counts (`crates/engine/tests/memory.rs`).
const FILE_BYTES: u64 = 1600;

/// Memory that a read takes while it waits, in bytes, here and in the driver. Lower: more is held
/// than is charged. Higher: many readers have fewer pages. Source: a guess, not measured.
const WAIT_BYTES: u64 = 1024;

/// Steps in which the memory of files, streams and waiting reads is charged, 256 KiB. Lower: the
/// budget of pages changes with each open. Higher: more is held than is charged. Source: a guess,
/// not measured.
const BOOKKEEPING_STEP: u64 = 256 << 10;

/// Bytes of the budget for each closed file without a folio that is remembered: 4,096 in 256 MiB.
/// Lower: more memory for them. Higher: a file that comes back is new, and what is known of its
/// folios that were evicted does not count. Source: a guess, not measured.
const BYTES_PER_EMPTY_FILE: u64 = 64 << 10;
