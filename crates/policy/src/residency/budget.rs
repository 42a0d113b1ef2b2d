//! The memory budget: what each folio is charged, and what is evicted when room is needed.
//!
//! ```text
//!   submit       grant: charged until dropped               room needed
//!   ──> pending ──> InFlight ──> Unread ──> Partly ──> Used ──────────> evicted
//!          │            │                              1. Used, in the order of `replacement`
//!          └────────────┴── failed, cancelled          2. Unread, if their readers have stopped
//!                           ──> dropped                3. Partly, oldest first   demand
//!                                                      4. Unread, by `unread`    only
//!
//!   budget  |<------------ ahead, at most ------------->|<- reserve of demand ->|
//! ```
//!
//! A folio is charged when its arrival is granted, and released when it is dropped. A request is
//! granted 256 KiB when it starts and the rest piece by piece as it arrives: a large request takes
//! a tenth of a second to come, and charging all of it from the start would halve the number of
//! requests that the same memory carries. So more may be in flight than there is memory for. A
//! request without a grant waits in its connection, and demand is granted first.
//!
//! Folios that have been read are evicted before those that have not: a program that reads through
//! a mount has them in the kernel's cache already. A Partly folio counts as Used once five seconds
//! have passed since its first touch and room is needed, an Unread one twelve seconds after its
//! arrival: otherwise what streams leave behind when they stop would fill the part for speculation
//! in the end, and nothing would be read ahead any more. What waits for a reader that is silent
//! for longer than it ever was goes before that, if others need the memory. An evicted folio that
//! was read ahead for a stream is a thrash, and the caller tells the stream.
//!
//! *Invariants:* the budget is exceeded only after it was reduced, by folios in flight.
//! Speculation evicts only Used folios and those of stopped readers, and leaves the reserve. The
//! charge of a folio covers what driver and policy keep beside its bytes.
//!
//! The file does not order Used folios (`replacement`) or grants (`queue::requests`), and does not
//! cancel requests (`read::path::room`). Its read-only questions are in `budget::lookup`. Source:
//! docs/decisions/0001, 0003, 0008, 0010, 0016.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::residency::folio::{Ahead, Evicted, Folio, State, charge, charges, charges_within};
use crate::residency::folio_map::FolioMap;
use crate::residency::replacement::{self, Key, Order, Replacement, Step, Uses};
use crate::residency::unread::{self, Unread};
use crate::units::{Extent, FileId, Nanos, Records, RequestId, Touch};

mod lookup;

/// All folios, by file and first page.
#[derive(Debug, Default)]
struct Folios(FolioMap<Folio>);

/// What is held of one file.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    /// Folios in flight or resident.
    folios: usize,
    /// Pages of folios that a reader has touched.
    read_pages: u64,
}

impl replacement::Folios for Folios {
    fn used(&mut self, (file, start, request): Key) -> Option<(&mut Uses, u64)> {
        let folio = self.0.get_mut(file, start)?;
        let bytes = charge(Extent::new(start, folio.end));
        if folio.request != request || folio.state() != State::Used {
            return None;
        }
        folio.passed_over |= folio.kept > 0;
        (folio.kept == 0).then_some((&mut folio.uses, bytes))
    }
}

/// Whether the folio at `start` still belongs to `request` and is in `state`.
fn is(folios: &FolioMap<Folio>, file: FileId, start: u64, request: RequestId, state: State) -> bool {
    folios.get(file, start).is_some_and(|folio| folio.request == request && folio.state() == state)
}

/// `extent`, from the start of the folio that holds its first page.
fn from_folio(folios: &Folios, file: FileId, extent: Extent) -> Extent {
    let first = folios.0.covering(file, extent.start).filter(|(_, folio)| folio.end > extent.start);
    Extent::new(first.map_or(extent.start, |(at, _)| at), extent.end)
}

/// What making room has led to.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The folios that were evicted.
    pub(crate) evicted: Vec<Evicted>,
    /// Folios that were spared: their reference bits are to be cleared.
    pub(crate) passed: Vec<(FileId, u64)>,
}

/// Everything resident or in flight, within one budget.
#[derive(Debug)]
pub(crate) struct Budget {
    folios: Folios,
    files: BTreeMap<FileId, Held>,
    /// Folios that have been read to the end.
    used: Order,
    /// Folios in the order of their first touch, and its time. May name folios that are gone or
    /// Used by now.
    partly: VecDeque<(FileId, u64, RequestId, Nanos)>,
    /// Folios that have arrived and were not touched.
    unread: Unread,
    /// The budget.
    capacity_bytes: u64,
    /// Of folios that are granted, and of connections.
    charged_bytes: u64,
    /// Of those, of folios read ahead that no reader has touched.
    ahead_bytes: u64,
    /// Charged and Used: can be evicted at once.
    used_bytes: u64,
    /// Charged and Partly: readers are in the middle of them.
    partly_bytes: u64,
    /// In flight and not granted yet.
    pending_bytes: u64,
    /// The part of the bytes ahead or in flight that takes no memory yet, averaged, per mille.
    on_the_way: u64,
    now: Nanos,
}

impl Budget {
    pub(crate) fn new(capacity_bytes: u64, replacement: Replacement) -> Self {
        Self {
            folios: Folios::default(),
            files: BTreeMap::new(),
            used: Order::new(replacement),
            partly: VecDeque::new(),
            now: Nanos(0),
            unread: Unread::default(),
            capacity_bytes,
            charged_bytes: 0,
            ahead_bytes: 0,
            used_bytes: 0,
            partly_bytes: 0,
            pending_bytes: 0,
            on_the_way: ON_THE_WAY_MAX,
        }
    }

    /// Sets the time. What no reader came for is ahead of no reader any more. `stops_at` says when
    /// the reader of a stream of a file counts as stopped, `patience` how long it may be silent;
    /// nothing of a stream that is forgotten.
    pub(crate) fn pass(
        &mut self,
        now: Nanos,
        stops_at: impl Fn(FileId, u64) -> Option<Nanos>,
        patience: impl Fn(FileId, u64) -> Option<Nanos>,
    ) {
        self.now = now;
        self.unread.look(now, stops_at);
        while let Some((file, start, request)) = self.unread.pop_overdue(now, &patience) {
            if self.is(file, start, request, State::Unread) && self.may_go(file, start) {
                self.give_up(file, start);
            }
        }
    }

    /// The reader of a stream has gone through `passed`, and reads no more of it: what it has not
    /// read up to there is ahead of no reader.
    pub(crate) fn passed_by(&mut self, file: FileId, stream: u64, passed: Extent) {
        self.finish_in(file, passed);
        for (file, start, request) in self.unread.take_before(file, stream, passed.end) {
            if self.is(file, start, request, State::Unread) && self.may_go(file, start) {
                self.give_up(file, start);
                if let Some(folio) = self.folios.0.get_mut(file, start) {
                    folio.ahead_for = Some(Ahead::Nearby);
                }
            }
        }
    }

    /// No reader reads on in the folios of `passed` that were read in part.
    pub(crate) fn finish_in(&mut self, file: FileId, passed: Extent) {
        let within = self.folios.0.range(file, passed);
        let partly: Vec<u64> = within.filter(|(_, f)| f.state() == State::Partly).map(|(start, _)| start).collect();
        for start in partly {
            self.finish(file, start);
        }
    }

    /// The unread folio at `start` is evicted like one that was read from now on.
    fn give_up(&mut self, file: FileId, start: u64) {
        let Some(&Folio { end, charged, ahead_for, .. }) = self.folios.0.get(file, start) else { return };
        let extent = Extent::new(start, end);
        match ahead_for {
            Some(_) if charged => self.ahead_bytes -= charge(extent),
            Some(_) => {}
            // A read that gave up had asked for it: it counts as that read's.
            None => self.files.entry(file).or_default().read_pages += extent.pages(),
        }
        self.finish(file, start);
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// Bytes of the folios that readers have touched.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.used_bytes + self.partly_bytes
    }

    /// Bytes in flight that are not granted yet.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Bytes of the folios that readers are in the middle of.
    pub(crate) fn partly_bytes(&self) -> u64 {
        self.partly_bytes
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Sets the budget. What is held may be more, until room is made.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity_bytes = bytes;
    }

    /// Gives back the memory that its queues needed for a larger budget.
    pub(crate) fn shrink(&mut self) {
        self.forget_stale();
        self.partly.shrink_to_fit();
        self.unread.shrink_to_fit();
    }

    /// Bytes that speculation may hold granted and untouched, at most.
    pub(crate) fn ahead_bytes_max(&self) -> u64 {
        self.capacity_bytes - (self.capacity_bytes / DEMAND_SHARE).min(DEMAND_BYTES_MAX)
    }

    /// Takes a sample of the part of the bytes ahead or in flight that takes no memory yet.
    /// `held_up_bytes` have come and wait for memory. Called every 10 ms at most.
    pub(crate) fn measure(&mut self, held_up_bytes: u64) {
        let all = self.pending_bytes + self.ahead_bytes;
        if let Some(sample) = (self.pending_bytes.saturating_sub(held_up_bytes) * PER_MILLE).checked_div(all) {
            self.on_the_way = (self.on_the_way * (SAMPLES - 1) + sample.min(ON_THE_WAY_MAX)) / SAMPLES;
        }
    }

    /// That part, averaged over the last samples, per mille; a half at most. Where storage is the
    /// limit, half of each request has come on average; where readers are slow, everything has
    /// come and waits for them (docs/decisions/0008).
    pub(crate) fn on_the_way_per_mille(&self) -> u64 {
        self.on_the_way
    }

    /// Whether it pays to fetch hot blocks: while half of the budget is free, or where their pages
    /// are used clearly more than the pages that would be evicted for them.
    pub(crate) fn prefers_nearby(&self) -> bool {
        self.charged_bytes < self.capacity_bytes / 2 || self.used.prefers_nearby()
    }

    /// Bytes that are free, or can be at once.
    pub(crate) fn free_bytes(&self) -> u64 {
        (self.capacity_bytes + self.used_bytes + self.unread.stopped_bytes()).saturating_sub(self.charged_bytes)
    }

    /// Whether speculation may have `extent` in flight as well, or the `records` in it. What is
    /// ahead or in flight counts less the part that takes no memory yet.
    pub(crate) fn admits(&self, extent: Extent, records: Option<Records>) -> bool {
        let bytes = charges_within(records, extent);
        let ahead = self.ahead_bytes - self.unread.stopped_bytes().min(self.ahead_bytes);
        (ahead + self.pending_bytes + bytes) / PER_MILLE * (PER_MILLE - self.on_the_way) <= self.ahead_bytes_max()
    }

    /// Makes room for `bytes` by evicting Used folios and, for `demand`, others. Reports in `room`
    /// what that led to. `false` if there is still no room.
    pub(crate) fn make_room(&mut self, bytes: u64, demand: bool, room: &mut Room) -> bool {
        while !demand && self.ahead_bytes + bytes > self.ahead_bytes_max() {
            let Some((file, start)) = self.next_unread(Unread::pop_stopped) else { return false };
            room.evicted.extend(self.remove(file, start));
        }
        if self.charged_bytes + bytes > self.capacity_bytes {
            self.retire();
        }
        while self.charged_bytes + bytes > self.capacity_bytes {
            let victim = match self.used.next(&mut self.folios) {
                Some(Step::Evict((file, start, _))) => Some((file, start)),
                Some(Step::Clear((file, start, _))) => {
                    room.passed.push((file, start));
                    continue;
                }
                None => {
                    let stopped = self.next_unread(Unread::pop_stopped);
                    stopped.or_else(|| if demand { self.next_in_use() } else { None })
                }
            };
            let Some((file, start)) = victim else { return false };
            room.evicted.extend(self.remove(file, start));
        }
        true
    }

    /// Whether the folio at `start` still belongs to `request` and is in `state`.
    fn is(&self, file: FileId, start: u64, request: RequestId, state: State) -> bool {
        is(&self.folios.0, file, start, request, state)
    }

    /// Folios that were first touched a while ago and not read to their end count as read.
    fn retire(&mut self) {
        while let Some(&(file, start, request, since)) = self.partly.front()
            && self.now.since(since) >= PARTLY_KEPT
        {
            self.partly.pop_front();
            if self.is(file, start, request, State::Partly) {
                self.finish(file, start);
            }
        }
    }

    /// The folio that goes first of those that readers are about to read.
    fn next_in_use(&mut self) -> Option<(FileId, u64)> {
        self.next_partly().or_else(|| self.next_unread(Unread::pop))
    }

    /// The Partly folio that was touched first.
    fn next_partly(&mut self) -> Option<(FileId, u64)> {
        while let Some((file, start, request, _)) = self.partly.pop_front() {
            if self.is(file, start, request, State::Partly) && self.may_go(file, start) {
                return Some((file, start));
            }
        }
        None
    }

    /// The Unread folio that goes first, by `pop`.
    fn next_unread(&mut self, pop: fn(&mut Unread) -> Option<unread::Key>) -> Option<(FileId, u64)> {
        while let Some((file, start, request)) = pop(&mut self.unread) {
            if self.is(file, start, request, State::Unread) && self.may_go(file, start) {
                return Some((file, start));
            }
        }
        None
    }

    /// Whether no read keeps the folio at `start`. If one does, the folio is in no queue until it
    /// is not kept any more.
    fn may_go(&mut self, file: FileId, start: u64) -> bool {
        let Some(folio) = self.folios.0.get_mut(file, start) else { return false };
        folio.passed_over |= folio.kept > 0;
        folio.kept == 0
    }

    /// A read keeps the folios that hold `extent`. Calls `of` with the request that brought each.
    pub(crate) fn keep(&mut self, file: FileId, extent: Extent, mut of: impl FnMut(RequestId)) {
        let within = from_folio(&self.folios, file, extent);
        self.folios.0.for_each_mut(file, within, |_, folio| {
            folio.kept += 1;
            of(folio.request);
        });
    }

    /// The reverse of [`Budget::keep`]: a folio that no read keeps any more may be evicted.
    pub(crate) fn unkeep(&mut self, file: FileId, extent: Extent, mut of: impl FnMut(RequestId)) {
        let (unread, partly, used, now) = (&mut self.unread, &mut self.partly, &mut self.used, self.now);
        let within = from_folio(&self.folios, file, extent);
        self.folios.0.for_each_mut(file, within, |start, folio| {
            folio.kept -= 1;
            of(folio.request);
            if folio.kept > 0 || !core::mem::take(&mut folio.passed_over) {
                return;
            }
            match folio.state() {
                State::InFlight => {}
                State::Unread => {
                    let bytes = charge(Extent::new(start, folio.end));
                    unread.insert(now, (file, start, folio.request), bytes, folio.ahead_for);
                }
                State::Partly => partly.push_back((file, start, folio.request, now)),
                State::Used => used.put_back((file, start, folio.request), folio.uses),
            }
        });
    }

    /// The absent pages of `extent` are in flight from now on: those in `records`, if there are
    /// any.
    pub(crate) fn insert(
        &mut self,
        file: FileId,
        extent: Extent,
        records: Option<Records>,
        request: RequestId,
        ahead_for: Option<Ahead>,
    ) {
        for kept in Records::within(records, extent) {
            let mut from = kept.start;
            while let Some(hole) = self.next_hole(file, Extent::new(from, kept.end)) {
                self.insert_hole(file, hole, request, ahead_for);
                from = hole.end;
            }
        }
    }

    fn insert_hole(&mut self, file: FileId, hole: Extent, request: RequestId, ahead_for: Option<Ahead>) {
        self.pending_bytes += charges(hole);
        for folio in hole.folios() {
            let entry = Folio::in_flight(folio.end, request, ahead_for);
            let before = self.folios.0.insert(file, folio.start, entry);
            debug_assert!(before.is_none(), "submitted twice: {folio:?}");
            self.files.entry(file).or_default().folios += 1;
        }
    }

    /// Charges for the connection of a request.
    pub(crate) fn connect(&mut self, bytes: u64) {
        self.charged_bytes += bytes;
    }

    /// The reverse of [`Budget::connect`].
    pub(crate) fn disconnect(&mut self, bytes: u64) {
        self.charged_bytes -= bytes;
    }

    /// `extent` of `request`, for which room was made, may arrive.
    pub(crate) fn grant(&mut self, file: FileId, extent: Extent, request: RequestId) {
        self.folios.0.for_each_mut(file, extent, |start, folio| {
            if folio.request == request && !folio.charged {
                folio.charged = true;
                let bytes = charge(Extent::new(start, folio.end));
                self.pending_bytes -= bytes;
                self.charged_bytes += bytes;
                if folio.ahead_for.is_some() {
                    self.ahead_bytes += bytes;
                }
            }
        });
    }

    /// The pages `extent` of the request have arrived.
    pub(crate) fn arrived(&mut self, file: FileId, extent: Extent, request: RequestId) {
        self.folios.0.for_each_mut(file, extent, |start, folio| {
            if folio.request != request || folio.state() != State::InFlight {
                return;
            }
            if folio.ahead_for == Some(Ahead::Nearby) {
                let bytes = charge(Extent::new(start, folio.end));
                self.ahead_bytes -= bytes;
                self.used_bytes += bytes;
                folio.to(State::Used);
                self.used.insert((file, start, request), &mut folio.uses, bytes, true);
            } else {
                folio.to(State::Unread);
                let bytes = charge(Extent::new(start, folio.end));
                self.unread.insert(self.now, (file, start, request), bytes, folio.ahead_for);
            }
        });
        self.forget_stale();
    }

    /// The pages of the folio at `start`, if no reader has touched it, and what it is read ahead
    /// for.
    pub(crate) fn untouched(&self, file: FileId, start: u64) -> Option<(u64, Option<Ahead>)> {
        let folio = self.folios.0.get(file, start).filter(|folio| !folio.is_read())?;
        Some((folio.end - start, folio.ahead_for))
    }

    /// Whether there is a folio of `request` at `start`, and memory for it.
    pub(crate) fn is_from(&self, file: FileId, start: u64, request: RequestId) -> bool {
        self.folios.0.get(file, start).is_some_and(|folio| folio.charged && folio.request == request)
    }

    /// A reader has touched the folio at `start`. Returns whether its reference bit is to be
    /// cleared, so that its next touch is reported as well.
    pub(crate) fn referenced(&mut self, file: FileId, start: u64, touch: Touch) -> bool {
        let Some(folio) = self.folios.0.get_mut(file, start) else { return false };
        let extent = Extent::new(start, folio.end);
        if !folio.is_read() {
            self.files.entry(file).or_default().read_pages += extent.pages();
        }
        if folio.state() == State::Unread {
            self.unread.touched((file, start, folio.request), folio.ahead_for);
        }
        let ahead_for = folio.ahead_for.take();
        match (folio.state(), touch) {
            (State::Used, _) => {
                let key = (file, start, folio.request);
                if let Touch::Again { pages } = touch {
                    return self.used.touch(key, &mut folio.uses, pages, extent.pages());
                }
                if ahead_for.is_some() {
                    self.used.touch(key, &mut folio.uses, extent.pages(), extent.pages());
                }
                return false;
            }
            (State::InFlight | State::Unread, Touch::First) => {
                folio.to(State::Partly);
                self.partly_bytes += if folio.charged { charge(extent) } else { 0 };
                self.partly.push_back((file, start, folio.request, self.now));
            }
            (State::InFlight | State::Unread | State::Partly, Touch::Finished) => self.finish(file, start),
            _ => {}
        }
        if ahead_for.is_some() && self.folios.0.get(file, start).is_some_and(|folio| folio.charged) {
            self.ahead_bytes -= charge(extent);
        }
        false
    }

    /// The folio at `start` counts as read from now on.
    fn finish(&mut self, file: FileId, start: u64) {
        let Some(folio) = self.folios.0.get_mut(file, start) else { return };
        let bytes = charge(Extent::new(start, folio.end));
        let charged = if folio.charged { bytes } else { 0 };
        if folio.state() == State::Partly {
            self.partly_bytes -= charged;
        }
        folio.to(State::Used);
        self.used_bytes += charged;
        self.used.insert((file, start, folio.request), &mut folio.uses, bytes, false);
    }

    /// `request` for `extent` was abandoned: its folios that no reader has touched go.
    pub(crate) fn abandoned(&mut self, file: FileId, extent: Extent, request: RequestId) -> Vec<Evicted> {
        let gone: Vec<u64> = self
            .folios
            .0
            .range(file, extent)
            .filter(|(_, f)| f.request == request && f.state() == State::InFlight)
            .map(|(start, _)| start)
            .collect();
        gone.into_iter().filter_map(|start| self.remove(file, start)).collect()
    }

    /// The prefetched `file`, which has `pages` pages, was not opened: drops its unread pages.
    pub(crate) fn discarded(&mut self, file: FileId, pages: u64) -> Vec<Evicted> {
        let is_prefetch = |folio: &Folio| matches!(folio.ahead_for, Some(Ahead::File | Ahead::Whole));
        let goes = |folio: &Folio| folio.state() == State::Unread && is_prefetch(folio) && folio.kept == 0;
        let mut gone = self.starts_of(file, pages);
        gone.retain(|&start| self.folios.0.get(file, start).is_some_and(goes));
        gone.into_iter().filter_map(|start| self.remove(file, start)).collect()
    }

    /// `file`, which has `pages` pages, will not be read again: everything of it goes.
    pub(crate) fn close(&mut self, file: FileId, pages: u64) -> Vec<Evicted> {
        let all = self.starts_of(file, pages);
        let gone = all.into_iter().filter_map(|start| self.remove(file, start)).collect();
        self.files.remove(&file);
        gone
    }

    /// Where the folios of `file` start, in order. The file has `pages` pages.
    fn starts_of(&self, file: FileId, pages: u64) -> Vec<u64> {
        self.files.get(&file).map_or_else(Vec::new, |held| self.folios.0.starts_of(file, pages, held.folios))
    }

    /// Whether nothing of `file` is resident or in flight.
    pub(crate) fn is_empty(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(|held| held.folios == 0)
    }

    /// Removes the folio at `start`, and releases its charge.
    fn remove(&mut self, file: FileId, start: u64) -> Option<Evicted> {
        let folio = self.folios.0.remove(file, start)?;
        let extent = Extent::new(start, folio.end);
        if let Some(held) = self.files.get_mut(&file) {
            held.folios -= 1;
            held.read_pages -= if folio.is_read() { extent.pages() } else { 0 };
        }
        match folio.state() {
            State::Used => self.used.remove(folio.uses, charge(extent)),
            State::Unread => self.unread.remove((file, start, folio.request), folio.ahead_for),
            State::InFlight | State::Partly => {}
        }
        if folio.charged {
            self.charged_bytes -= charge(extent);
            match folio.state() {
                State::Used => self.used_bytes -= charge(extent),
                State::Partly => self.partly_bytes -= charge(extent),
                State::InFlight | State::Unread => {}
            }
            if folio.ahead_for.is_some() && folio.state() != State::Used {
                self.ahead_bytes -= charge(extent);
            }
        } else {
            self.pending_bytes -= charge(extent);
        }
        Some(Evicted { file, folio: extent, wasted_for: folio.ahead_for })
    }

    /// The queues may name folios that are gone: bounds those by the number of folios.
    fn forget_stale(&mut self) {
        let most = 2 * self.folios.0.len() + 1024;
        let folios = &self.folios.0;
        self.unread.forget_stale();
        if self.partly.len() > most {
            self.partly.retain(|&(file, start, request, _)| is(folios, file, start, request, State::Partly));
        }
        let names = (self.capacity_bytes / BYTES_PER_NAME) as usize;
        self.used.forget_stale(self.folios.0.len(), names, &mut self.folios);
    }
}

/// Thousandths in one, the unit of [`Budget::on_the_way_per_mille`]. Lower: the part is known
/// less exactly. Higher: more exactly. Source: the definition of the unit.
pub(crate) const PER_MILLE: u64 = 1000;

/// The largest part that may count as taking no memory yet, per mille: a half, so that twice as
/// much is requested as there is room for. Lower: less in flight in the same memory. Higher: more
/// is requested than there is room for when it comes: with three quarters sixteen readers,
/// backward at 200 ms, fetched 12 % twice. Source: docs/decisions/0008 and 0085.
const ON_THE_WAY_MAX: u64 = PER_MILLE / 2;

/// Samples that the part is averaged over, at one in 10 ms: 160 ms. Lower: the part swings with
/// each request that arrives. Higher: it follows a change later, and memory is over-committed
/// until then. Source: a guess, not measured: longer than a request of 8 MiB takes (135 ms).
const SAMPLES: u64 = 16;

/// Time for which a folio that was touched and not finished is kept from speculation: 5 s. Lower:
/// a slow reader loses the folio that it is in the middle of. Higher: folios that readers have
/// left hold memory. Source: a guess, not measured: longer than a reader of 100 KB/s through a
/// mount takes from one read to the next (1.3 s).
const PARTLY_KEPT: Nanos = Nanos::from_millis(5_000);

/// Divisor of the budget: one part in this many is kept from speculation for demand, an eighth.
/// Lower: streams have less room in a small budget. Higher: demand must evict unread pages more
/// often. Source: a guess, not measured.
const DEMAND_SHARE: u64 = 8;

/// Bytes that are kept for demand at most: 4 MiB, 128 reads of 32 KiB. Lower: many random readers
/// evict unread pages. Higher: streams have less room, to no use. Source: a guess, not measured.
const DEMAND_BYTES_MAX: u64 = 4 << 20;

/// Bytes of the budget for each name of an evicted folio that is remembered. Lower: more memory
/// for names; at 50 bytes each they take a 655th of the budget as it is, and twice as many give
/// the same figures. Higher: larger loops are not recognised, and each round misses everything, as
/// under LRU; as it is, a loop over four times the memory in folios of 128 KiB is recognised.
/// Source: docs/decisions/0016.
const BYTES_PER_NAME: u64 = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::folio::FOLIO_OVERHEAD_BYTES;
    use crate::units::PAGE_BYTES;

    const FILE: FileId = FileId(1);

    fn resident(pages: u64) -> Budget {
        Budget::new(pages * (PAGE_BYTES + FOLIO_OVERHEAD_BYTES), Replacement::default())
    }

    #[test]
    fn a_hole_is_neither_resident_nor_in_flight() {
        let mut r = resident(100);
        r.insert(FILE, Extent::new(4, 8), None, RequestId(0), None);
        r.insert(FILE, Extent::new(8, 10), None, RequestId(1), None);
        assert_eq!(r.next_hole(FILE, Extent::new(0, 20)), Some(Extent::new(0, 4)));
        assert_eq!(r.next_hole(FILE, Extent::new(5, 20)), Some(Extent::new(10, 20)));
        assert_eq!(r.next_hole(FILE, Extent::new(5, 9)), None);
        assert_eq!((r.read_before(FILE, 10, 100), r.unread_in(FILE, Extent::new(0, 10))), (0, 6));
        assert_eq!((r.read_before(FILE, 11, 100), r.unread_in(FILE, Extent::new(6, 11))), (0, 4));
        r.referenced(FILE, 8, Touch::Finished);
        assert_eq!((r.read_before(FILE, 10, 100), r.unread_in(FILE, Extent::new(0, 10))), (2, 4));
        assert_eq!((r.read_before(FILE, 10, 1), r.read_before(FILE, 11, 100)), (1, 0));
    }

    #[test]
    fn speculation_counts_less_what_takes_no_memory_yet_and_is_on_the_way() {
        let mut r = resident(1024);
        let part = |nth: u64| Extent::new(nth * 256, nth * 256 + 256);
        let stream = Some(Ahead::Stream(1));
        (0..4).for_each(|nth| r.insert(FILE, part(nth), None, RequestId(nth), stream));
        assert!(r.admits(part(4), None), "half of each has come on average");
        // A quarter of each has come, and the rest is on its way.
        (0..4).for_each(|nth| r.grant(FILE, Extent::new(nth * 256, nth * 256 + 64), RequestId(nth)));
        (0..200).for_each(|_| r.measure(0));
        assert!(r.admits(part(4), None));
        // It has all come, and waits for memory: what is there has to be read first.
        (0..200).for_each(|_| r.measure(r.pending_bytes()));
        assert!(!r.admits(part(4), None));
    }

    #[test]
    fn what_a_reader_has_gone_by_is_ahead_of_none_and_may_be_evicted() {
        let mut r = resident(150);
        let mut room = Room::default();
        for nth in 0..4 {
            let folio = Extent::new(nth * 32, nth * 32 + 32);
            r.insert(FILE, folio, None, RequestId(nth), Some(Ahead::Stream(7)));
            r.grant(FILE, folio, RequestId(nth));
            r.arrived(FILE, folio, RequestId(nth));
        }
        r.referenced(FILE, 32, Touch::First);
        let (ahead, folio_bytes) = (r.ahead_bytes(), charge(Extent::new(0, 32)));
        assert_eq!((ahead, r.partly_bytes()), (3 * folio_bytes, folio_bytes));
        // It jumped over the first folio, touched the second one, and stands in the third.
        r.passed_by(FILE, 7, Extent::new(0, 64));
        assert_eq!((r.ahead_bytes(), r.partly_bytes()), (2 * folio_bytes, 0));
        // Both may go for speculation. What was jumped over is waste, and no stream's.
        assert!(r.make_room(charges(Extent::new(200, 274)), false, &mut room));
        let gone: Vec<_> = room.evicted.iter().map(|gone| (gone.folio.start, gone.wasted_for)).collect();
        assert!(gone.contains(&(0, Some(Ahead::Nearby))), "{gone:?}");
        assert!(gone.iter().all(|(start, _)| *start < 64), "{gone:?}");
    }

    #[test]
    fn read_folios_are_evicted_first_and_what_a_reader_needs_last_only_for_demand() {
        let mut r = resident(16);
        let mut room = Room::default();
        for page in 0..14 {
            assert!(r.make_room(charges(Extent::new(page, page + 1)), false, &mut room));
            r.insert(FILE, Extent::new(page, page + 1), None, RequestId(page), Some(Ahead::Stream(7)));
            r.grant(FILE, Extent::new(page, page + 1), RequestId(page));
            r.arrived(FILE, Extent::new(page, page + 1), RequestId(page));
        }
        assert!(!r.make_room(charges(Extent::new(20, 21)), false, &mut room), "the reserve is kept for demand");
        r.referenced(FILE, 5, Touch::Finished);
        assert!(r.make_room(charges(Extent::new(20, 22)), true, &mut room));
        assert!(room.evicted.is_empty());
        assert!(r.make_room(charges(Extent::new(20, 23)), true, &mut room));
        assert_eq!(room.evicted.pop(), Some(Evicted { file: FILE, folio: Extent::new(5, 6), wasted_for: None }));
        r.insert(FILE, Extent::new(20, 23), None, RequestId(99), None);
        r.grant(FILE, Extent::new(20, 23), RequestId(99));
        assert!(r.make_room(charges(Extent::new(30, 31)), true, &mut room));
        assert_eq!(
            room.evicted.pop(),
            Some(Evicted { file: FILE, folio: Extent::new(13, 14), wasted_for: Some(Ahead::Stream(7)) })
        );
    }

    #[test]
    fn abandoning_a_request_keeps_the_folios_that_were_read() {
        let mut r = resident(1000);
        r.insert(FILE, Extent::new(0, 64), None, RequestId(3), Some(Ahead::Stream(1)));
        r.referenced(FILE, 0, Touch::Finished);
        assert_eq!(r.abandoned(FILE, Extent::new(0, 64), RequestId(3)).len(), 1);
        assert_eq!(r.next_hole(FILE, Extent::new(0, 64)), Some(Extent::new(32, 64)));
    }
}
