//! Wires the mechanisms: matches each event, forwards it, and turns what they want into actions. Holds no rule of its own but
//! the order: demand is submitted before speculation, and room is made before anything is submitted.

use alloc::collections::{BTreeMap, VecDeque};

use crate::event::{Action, Class, Counters, Event, Found, Touch};
use crate::fair_queue::{FairQueue, Owner};
use crate::file_readahead::{FileReadahead, Read, Shown};
use crate::hedge::Hedge;
use crate::link::Link;
use crate::read_around::{self, FileRead};
use crate::replacement::Replacement;
use crate::requests::{Met, Request, Requests};
use crate::resident::{Ahead, PER_MILLE, Resident, Room, charges, connection, wasted};
use crate::share::{Round, Shares};
use crate::stream::{Limits, PART_PAGES_MAX, Part};
use crate::units::{Extent, FileId, Nanos, PAGE_BYTES, RequestId};

/// What a read calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// The next parts of this stream.
    Stream(u64),
    /// What is around it, if anything.
    Random,
}

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

    /// When to call [`ReadPath::handle`] even if nothing happens: never, so far. What a mechanism holds back for a while goes on with
    /// the next event of its file.
    pub fn next_deadline(&self) -> Option<Nanos> {
        None
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

    fn read(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found, marked: bool) {
        self.counters.misses += u64::from(found == Found::Absent);
        self.counters.waits += u64::from(found == Found::InFlight);
        self.counters.marks += u64::from(marked);
        if found != Found::Resident {
            self.promote(file, extent);
        }
        let next = if self.options.readahead { self.observe(now, file, extent, found) } else { Next::Nothing };
        let pages = self.files.get(&file).map_or(0, |f| f.pages);
        // The first part of a stream may hold what the reader waits for: one request then serves both.
        if let Next::Stream(stream) = next {
            self.plan(now, file, stream, extent, pages);
        }
        if found == Found::Absent {
            self.demand(file, extent);
            if next == Next::Random {
                self.read_around(file, extent, pages);
            }
        }
    }

    /// Takes note of a read. Says what it calls for.
    fn observe(&mut self, now: Nanos, file: FileId, extent: Extent, found: Found) -> Next {
        let Some(File { pages, readahead, .. }) = self.files.get_mut(&file) else { return Next::Nothing };
        let file_pages = *pages;
        let (before, skipped) = self.resident.before(file, extent.start, CONTEXT_PAGES_MAX);
        let absent = (found == Found::Absent).then(|| self.resident.next_hole(file, extent)).flatten();
        let (absent, stalled) = (absent.map(|hole| hole.start), found != Found::Resident);
        let (stream, shown) = readahead.observe(now, Read { extent, absent, stalled, before, file_pages, skipped });
        self.counters.streams_forward += u64::from(shown == Shown::Forward);
        self.counters.streams_strided += u64::from(shown == Shown::Strided);
        stream.map_or(Next::Random, Next::Stream)
    }

    /// What is worth having along with a random read.
    fn read_around(&mut self, file: FileId, read: Extent, file_pages: u64) {
        let Some(File { random_pages, .. }) = self.files.get_mut(&file) else { return };
        *random_pages += read.pages();
        if !self.resident.prefers_around() {
            return;
        }
        let in_file = FileRead { pages: file_pages, read_pages: self.resident.read_pages(file) };
        let read_in = |extent| self.resident.read_in(file, extent);
        if let Some(block) = read_around::block(read, in_file, read_in, |pages| self.link.cost_ns(pages)) {
            self.sieve(file, block);
        }
    }

    /// Submits what `block` lacks, with as few requests as there can be: what is resident in between is fetched once more.
    fn sieve(&mut self, file: FileId, block: Extent) {
        let mut from = block.start;
        while let Some(sieve) = self.resident.next_sieve(file, Extent::new(from, block.end)) {
            let left = self.files.get(&file).and_then(|f| f.random_pages.checked_sub(sieve.pages()));
            let Some(left) = left else { return };
            let full = self.requests.is_speculation_full() || !self.resident.admits(sieve);
            if full || !self.make_room(first_bytes(file, sieve), false) {
                return;
            }
            self.submit(file, sieve, Class::Speculative, Some(Ahead::Around), None);
            if let Some(f) = self.files.get_mut(&file) {
                f.random_pages = left;
            }
            from = sieve.end;
        }
    }

    /// Submits what `file` lacks, as far as there is room for what nobody waits for.
    fn prefetch(&mut self, file: FileId) {
        let Some(&File { pages, .. }) = self.files.get(&file) else { return };
        let mut from = 0;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, pages)) {
            let hole = Extent::new(hole.start, hole.end.min(hole.start + DEMAND_PAGES_MAX));
            let full = self.requests.is_speculation_full() || !self.resident.admits(hole);
            if full || !self.make_room(first_bytes(file, hole), false) {
                return;
            }
            self.submit(file, hole, Class::Speculative, Some(Ahead::File), None);
            from = hole.end;
        }
    }

    /// A folio has been read.
    fn referenced(&mut self, file: FileId, start: u64, touch: Touch) {
        if self.resident.referenced(file, start, touch) {
            self.actions.push_back(Action::Clear { file, start });
        }
    }

    /// Goes on with a stream of `file` whose next part was held back until now.
    fn resume(&mut self, now: Nanos, file: FileId) {
        if let Some(stream) = self.files.get_mut(&file).and_then(|f| f.readahead.due(now)) {
            self.plan_ahead(now, file, stream);
        }
    }

    /// Plans for the streams that had to wait until less is in flight: first whoever has had least of the storage's time.
    fn take_turns(&mut self, now: Nanos) {
        while !self.requests.is_speculation_full() {
            let tag = |&(at, &(file, stream)): &(usize, &(FileId, u64))| {
                (self.queue.tag(Owner { file, stream: Some(stream) }), at)
            };
            let Some((at, &(file, stream))) = self.turns.iter().enumerate().min_by_key(tag) else { return };
            self.turns.remove(at);
            self.plan_ahead(now, file, stream);
        }
    }

    /// Starts what waits for the storage, as far as it may be and there is memory.
    fn start_waiting(&mut self) {
        while let Some(id) = self.queue.next(self.now, self.requests.wanting()) {
            let Some(request) = self.requests.get(id) else { return };
            if !self.has_room(charges(request.next_grant()), request.class) {
                self.requests.wants(id);
            } else if !self.coalesce(id, request) {
                self.give(id);
            }
        }
    }

    /// Starts `id` with what touches it and is waited for as well, if there is any and memory for all of it. Nothing in flight is given up
    /// for that.
    fn coalesce(&mut self, id: RequestId, request: Request) -> bool {
        if request.class != Class::Demand {
            return false;
        }
        let around = self.queue.around(request.file, request.extent);
        let bytes_of = |&id: &RequestId| self.requests.get(id).map_or(0, |r| charges(r.extent));
        let bytes = charges(request.extent) + around.iter().map(bytes_of).sum::<u64>();
        if around.is_empty() || !self.make_room(bytes, true) {
            return false;
        }
        for &other in &around {
            self.queue.join(other, id);
            self.grant_all(other);
            self.counters.requests_coalesced += 1;
            self.actions.push_back(Action::Join { request: other, with: id });
        }
        self.grant_all(id);
        self.actions.push_back(Action::Grant { request: id, granted: request.extent.end });
        true
    }

    /// Submits what `stream` wants next where no reader waits for it.
    fn plan_ahead(&mut self, now: Nanos, file: FileId, stream: u64) {
        if let Some(&File { pages, .. }) = self.files.get(&file) {
            self.plan(now, file, stream, Extent::new(pages, pages), pages);
        }
    }

    /// Submits what `stream` wants next; `read` is what its reader waits for.
    fn plan(&mut self, now: Nanos, file: FileId, stream: u64, read: Extent, file_pages: u64) {
        if self.requests.demanded() >= CROWD && self.files.get(&file).is_some_and(|f| f.readahead.is_new(stream)) {
            // Many wait for their first bytes: what comes after this one's would be in their way.
            return;
        }
        let limits = self.limits(now, file, stream, file_pages);
        let guess = self.files.get(&file).is_some_and(|f| f.readahead.is_guess(stream));
        let ahead = if guess { Ahead::Around } else { Ahead::Stream(stream) };
        while let Some(part) = self.files.get_mut(&file).and_then(|f| f.readahead.next_part(now, stream, limits)) {
            if !self.submit_part(file, ahead, part, read) {
                break;
            }
            if let Some(f) = self.files.get_mut(&file) {
                f.readahead.planned(now, stream, part);
            }
        }
    }

    /// How far `stream` may go. Among many streams each needs fewer parts in parallel, and smaller ones, of which less is worth
    /// having.
    fn limits(&mut self, now: Nanos, file: FileId, stream: u64, file_pages: u64) -> Limits {
        let room = self.room_pages().min(self.ahead_pages_max(PART_PAGES_MAX));
        let most = if self.options.rotational { room.min(AHEAD_PAGES_ROTATIONAL) } else { room };
        if self.shares_at.is_none_or(|at| now.since(at) >= SHARES_INTERVAL) {
            let since = Nanos(now.0.saturating_sub(ACTIVE.0));
            self.shares.set(self.files.values().flat_map(|f| f.readahead.wanted(since)).map(|want| want.min(most)));
            self.shares_at = Some(now);
            self.resident.measure();
            let (level, round) = (self.shares.level(room), self.round.number);
            let contending = self.files.values_mut().flat_map(|f| f.readahead.contending(since, level, round));
            self.round.observe(contending);
        }
        let own = self.files.get(&file).map_or(0, |f| f.readahead.ahead(stream)).clamp(1, most);
        let streams = self.shares.like(own);
        let shared = if self.options.rotational { PART_PAGES_MAX } else { PART_PAGES_SHARED };
        let part_pages_max = (PART_PAGES_MAX / streams).max(shared);
        let room = room.min(self.ahead_pages_max(part_pages_max));
        let read = self.files.get(&file).map_or(0, |f| f.readahead.standing(stream));
        let ahead_pages_max = own.min(self.round.share(self.shares.level(room), read)).max(1);
        Limits { file_pages, ahead_pages_max, part_pages_max, streams, rotational: self.options.rotational }
    }

    /// The most pages that are worth having ahead in requests of `part_pages`. No number is too large where each request keeps all others
    /// waiting: the larger they are, the fewer.
    fn ahead_pages_max(&self, part_pages: u64) -> u64 {
        if self.options.rotational { u64::MAX } else { self.link.ahead_pages_max(part_pages) }
    }

    /// How far ahead all streams together may be, in pages: what fits into memory, and what takes none because it is on its way.
    fn room_pages(&self) -> u64 {
        let bytes = self.resident.ahead_bytes_max().saturating_sub(self.resident.partly_bytes());
        bytes * PER_MILLE / (PER_MILLE - self.resident.on_the_way_per_mille()) / PAGE_BYTES
    }

    /// Submits what `part` lacks. `false` if there is no room or enough is in flight.
    fn submit_part(&mut self, file: FileId, ahead: Ahead, part: Part, read: Extent) -> bool {
        let mut from = part.extent.start;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, part.extent.end)) {
            let class = if hole.overlaps(read) { Class::Demand } else { Class::Speculative };
            if class == Class::Speculative && self.requests.is_speculation_full() {
                if let Ahead::Stream(stream) = ahead
                    && !self.turns.contains(&(file, stream))
                {
                    self.turns.push_back((file, stream));
                }
                return false;
            }
            if !self.resident.admits(hole) || !self.make_room(first_bytes(file, hole), false) {
                return false;
            }
            let mark = matches!(ahead, Ahead::Stream(_)).then(|| part.mark.clamp(hole.start, hole.end - 1));
            self.submit(file, hole, class, Some(ahead), mark);
            from = hole.end;
        }
        true
    }

    /// Submits what a reader waits for, whatever must go for it.
    fn demand(&mut self, file: FileId, extent: Extent) {
        let mut from = extent.start;
        while let Some(hole) = self.resident.next_hole(file, Extent::new(from, extent.end)) {
            let hole = Extent::new(hole.start, hole.end.min(hole.start + DEMAND_PAGES_MAX));
            let first = first_bytes(file, hole);
            if !self.make_room(first, true) && !self.cancel_speculation(first) {
                self.waiting.push_back((file, Extent::new(hole.start, extent.end)));
                return;
            }
            self.submit(file, hole, Class::Demand, None, None);
            from = hole.end;
        }
    }

    /// Demand that found no room, in order.
    fn retry_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            if let Some((file, extent)) = self.waiting.pop_front()
                && self.files.contains_key(&file)
            {
                self.demand(file, extent);
            }
        }
    }

    fn submit(&mut self, file: FileId, extent: Extent, class: Class, ahead_for: Option<Ahead>, mark: Option<u64>) {
        let request = self.requests.make(file, extent, class);
        self.resident.connect(extent);
        self.resident.insert(file, extent, request, ahead_for);
        self.counters.pages_submitted += extent.pages();
        match class {
            Class::Demand => self.counters.requests_demand += 1,
            Class::Speculative => self.counters.requests_speculative += 1,
        }
        let stream = if let Some(Ahead::Stream(stream)) = ahead_for { Some(stream) } else { None };
        let (owner, cost) = (Owner { file, stream }, self.link.cost(extent.pages()));
        let granted = if self.queue.holds() {
            self.queue.enter(self.now, request, owner, extent, class, cost);
            extent.start
        } else {
            self.queue.start_now(request, owner, extent, cost);
            self.grant_next(request).unwrap_or(extent.start)
        };
        // A disk that is late is late because others are served, and a second request is one more of those.
        let hedges = class == Class::Demand && self.options.readahead && !self.options.rotational;
        let late = self.hedge.late_after().filter(|_| hedges);
        self.actions.push_back(Action::Submit { request, file, extent, class, mark, granted, late });
    }

    /// Grants what is wanted, as far as there is memory.
    fn grant(&mut self) {
        while let Some((id, request)) = self.requests.first_wanting() {
            let bytes = charges(request.next_grant());
            let demand = request.class == Class::Demand;
            let left = self.requests.left_to_older(id) * PAGE_BYTES;
            if !demand && self.resident.free_bytes() < left + bytes {
                return;
            }
            if !self.has_room(bytes, request.class) {
                return;
            }
            self.give(id);
        }
    }

    /// Makes room for `bytes`, whatever must go for them where a reader waits.
    fn has_room(&mut self, bytes: u64, class: Class) -> bool {
        let demand = class == Class::Demand;
        self.make_room(bytes, demand) || (demand && self.cancel_speculation(bytes))
    }

    /// Grants a request its next pages.
    fn give(&mut self, id: RequestId) {
        if let Some(granted) = self.grant_next(id) {
            self.actions.push_back(Action::Grant { request: id, granted });
        }
    }

    /// Charges for the next pages of a request. Room has been made. Up to where it is granted now.
    fn grant_next(&mut self, id: RequestId) -> Option<u64> {
        let request = self.requests.get(id)?;
        let next = request.next_grant();
        self.resident.grant(request.file, next, id);
        self.requests.grant(id, next.end, self.met_by(request));
        Some(next.end)
    }

    /// Charges for all pages of a request. Room has been made.
    fn grant_all(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get(id) {
            self.resident.grant(request.file, request.extent, id);
            self.requests.grant(id, request.extent.end, self.met_by(request));
        }
    }

    /// What a request meets that comes to the storage now.
    fn met_by(&self, request: Request) -> Met {
        // What was joined waits for no first byte of its own.
        let there = self.requests.demanded().saturating_sub(self.queue.demanded() + self.queue.joined());
        let demanded = there.saturating_sub(usize::from(request.class == Class::Demand));
        Met { demanded, nobody: self.queue.started() <= 1, came: 0 }
    }

    fn make_room(&mut self, bytes: u64, demand: bool) -> bool {
        let mut room = core::mem::take(&mut self.room);
        let made = self.resident.make_room(bytes, demand, &mut room);
        // Cleared first: what was passed by may have had to go all the same.
        self.actions.extend(room.passed.drain(..).map(|(file, start)| Action::Clear { file, start }));
        for gone in room.evicted.drain(..) {
            self.actions.push_back(Action::Drop { file: gone.file, folio: gone.folio });
            self.counters.pages_wasted += wasted(gone);
            let Some(file) = self.files.get_mut(&gone.file) else { continue };
            match gone.wasted_for {
                Some(Ahead::Stream(stream)) => {
                    self.counters.pages_thrashed += gone.folio.pages();
                    file.readahead.wasted(stream, true);
                }
                Some(Ahead::File | Ahead::Around) | None => {}
            }
        }
        self.room = room;
        made
    }

    /// Gives up speculation in flight, the latest first, until there is room for `bytes`. `false` if that is not enough.
    fn cancel_speculation(&mut self, bytes: u64) -> bool {
        loop {
            let Some(latest) = self.requests.latest_speculative() else { return false };
            self.cancel(latest);
            if self.make_room(bytes, true) {
                return true;
            }
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

/// What a request for `extent` needs to begin, in bytes.
fn first_bytes(file: FileId, extent: Extent) -> u64 {
    let request = Request { file, extent, class: Class::Demand, granted: extent.start, met: Met::default() };
    charges(request.next_grant()) + connection(extent)
}

/// The largest part where many streams share a link: 2 MiB, which takes about as long to come as its first byte.
const PART_PAGES_SHARED: u64 = 512;

/// The furthest that a stream is ahead on a disk: two of the largest parts. One of them takes fifteen times as long as going there,
/// and a disk serves no two at a time.
const AHEAD_PAGES_ROTATIONAL: u64 = 2 * PART_PAGES_MAX;

/// The largest demand request, 1 MiB: a large read is fetched in parallel.
const DEMAND_PAGES_MAX: u64 = 256;

/// Readers that wait at once, from which on a stream that begins is given what it asks for and no more until it reads again. Two hundred
/// that begin together have their first bytes a third sooner; sixteen are no crowd.
const CROWD: usize = 32;

/// How far back pages that were read count as context: the largest window of the kernel's form, 1 MiB.
const CONTEXT_PAGES_MAX: u64 = 256;

/// A stream counts among those that share memory until it has not been read for this long.
const ACTIVE: Nanos = Nanos::from_millis(5_000);

/// What all streams want is looked at anew at most this often.
const SHARES_INTERVAL: Nanos = Nanos::from_millis(10);
