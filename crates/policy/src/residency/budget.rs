//! The memory budget and what it is spent on. What has been read leaves first (`replacement` says in which order).
//!
//! ```text
//!   submit          complete           first touch       last page         room needed
//!   ------> InFlight -------> Unread ------------> Partly --------> Used ----------------> dropped
//!            | granted           |                   |                ^           ^
//!            | = charged         |                   +- nobody came --+           |
//!            |                   |                         back                   |
//!            |                   +------------------------ only for demand -------+   (thrash: fed back to the stream)
//!            +-- failed, cancelled --> absent
//! ```
//!
//! A folio is charged when its arrival is granted and released when it is dropped. A request is granted its first megabyte with its
//! submission and the rest piece by piece, as it arrives: a large request takes a tenth of a second to come, and holding
//! memory for all of it from the start would halve what the same memory carries (docs/decisions/0003). So more may be
//! in flight than there is memory for; what waits for a grant waits in the connection, and a reader that waits
//! is granted before anybody.
//!
//! Pages that have been read leave before pages that have not: whoever reads through a mount has them in the kernel's cache
//! already. Speculation never evicts what is unread, and leaves a reserve to demand. The charge of a folio covers what both
//! driver and policy keep beside its bytes.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::residency::folio::{Ahead, Evicted, Folio, State, charge, charges, connection};
use crate::residency::folio_map::FolioMap;
use crate::residency::replacement::{self, Key, Order, Replacement, Step, Uses};
use crate::units::{Extent, FileId, Nanos, RequestId, Touch};

mod lookup;

/// The folios by file and first page.
#[derive(Debug, Default)]
struct Folios(FolioMap<Folio>);

/// How much of a file is there.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    folios: usize,
    /// Pages that have been read.
    read_pages: u64,
}

impl replacement::Folios for Folios {
    fn used(&mut self, (file, start, request): Key) -> Option<(&mut Uses, u64)> {
        let folio = self.0.get_mut(file, start)?;
        let bytes = charge(Extent::new(start, folio.end));
        (folio.request == request && folio.state() == State::Used).then_some((&mut folio.uses, bytes))
    }
}

/// What making room has led to.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// What had to go.
    pub(crate) evicted: Vec<Evicted>,
    /// What was passed by: its reference bit is to be cleared.
    pub(crate) passed: Vec<(FileId, u64)>,
}

/// Everything resident or in flight, within one budget.
#[derive(Debug)]
pub(crate) struct Resident {
    folios: Folios,
    files: BTreeMap<FileId, Held>,
    /// Folios that have been read to the end.
    used: Order,
    /// Folios in the order in which they were first read, and when. May name folios that are gone or finished by now.
    partly: VecDeque<(FileId, u64, RequestId, Nanos)>,
    /// Folios in the order in which they arrived. May name folios that are gone or read by now.
    unread: VecDeque<(FileId, u64, RequestId)>,
    capacity_bytes: u64,
    charged_bytes: u64,
    /// Of those, read ahead and not read yet.
    ahead_bytes: u64,
    /// Charged and read: what can go at once.
    used_bytes: u64,
    /// Charged and read in part: what readers are in the middle of.
    partly_bytes: u64,
    /// In flight and not granted yet.
    pending_bytes: u64,
    /// How much of what is in flight or unread takes no memory yet, averaged, in thousandths.
    on_the_way: u64,
    now: Nanos,
}

impl Resident {
    pub(crate) fn new(capacity_bytes: u64, replacement: Replacement) -> Self {
        Self {
            folios: Folios::default(),
            files: BTreeMap::new(),
            used: Order::new(replacement),
            partly: VecDeque::new(),
            now: Nanos(0),
            unread: VecDeque::new(),
            capacity_bytes,
            charged_bytes: 0,
            ahead_bytes: 0,
            used_bytes: 0,
            partly_bytes: 0,
            pending_bytes: 0,
            on_the_way: ON_THE_WAY_MAX,
        }
    }

    /// It is `now`.
    pub(crate) fn pass(&mut self, now: Nanos) {
        self.now = now;
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// What readers are in the middle of.
    pub(crate) fn partly_bytes(&self) -> u64 {
        self.partly_bytes
    }

    /// There is this much to spend from now on. What is held may be more, until room is made.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity_bytes = bytes;
    }

    /// The most that speculation may hold in flight and unread.
    pub(crate) fn ahead_bytes_max(&self) -> u64 {
        self.capacity_bytes - (self.capacity_bytes / DEMAND_SHARE).min(DEMAND_BYTES_MAX)
    }

    /// Looks how much of what is in flight or unread takes no memory yet. To be called now and then.
    pub(crate) fn measure(&mut self) {
        let all = self.pending_bytes + self.ahead_bytes;
        if let Some(sample) = (self.pending_bytes * PER_MILLE).checked_div(all) {
            self.on_the_way = (self.on_the_way * (SAMPLES - 1) + sample.min(ON_THE_WAY_MAX)) / SAMPLES;
        }
    }

    /// The same, averaged over the last looks, in thousandths; a half at most. Where storage is the limit half of each request has come
    /// on average; where readers are slow all has, and waits for them.
    pub(crate) fn on_the_way_per_mille(&self) -> u64 {
        self.on_the_way
    }

    /// Whether it pays to fetch what nobody has asked for along with what was: while there is room, or where that is used more than what
    /// would have to go for it.
    pub(crate) fn prefers_nearby(&self) -> bool {
        self.charged_bytes < self.capacity_bytes / 2 || self.used.prefers_nearby()
    }

    /// What is free, or can be at once.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity_bytes - self.charged_bytes + self.used_bytes
    }

    /// Whether speculation may have `extent` in flight as well. What is not granted yet counts for a quarter: of a request that takes
    /// its time to arrive half is there on average, and by the time that it is, what came before has been read.
    pub(crate) fn admits(&self, extent: Extent) -> bool {
        self.ahead_bytes + u64::midpoint(self.pending_bytes, charges(extent)) <= self.ahead_bytes_max()
    }

    /// Makes room for `bytes`, evicting what has been read and, if `demand`, what has not. Says what that led to in `room`; `false` if
    /// there is none all the same.
    pub(crate) fn make_room(&mut self, bytes: u64, demand: bool, room: &mut Room) -> bool {
        if !demand && self.ahead_bytes + bytes > self.ahead_bytes_max() {
            return false;
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
                None if demand => self.next_partly().or_else(|| self.next_unread()),
                None => None,
            };
            let Some((file, start)) = victim else { return false };
            room.evicted.extend(self.remove(file, start));
        }
        true
    }

    fn is(&self, file: FileId, start: u64, request: RequestId, state: State) -> bool {
        self.folios.0.get(file, start).is_some_and(|f| f.request == request && f.state() == state)
    }

    /// What was read in part and nobody has come back to for a while counts as read.
    fn retire(&mut self) {
        while let Some(&(file, start, request, since)) = self.partly.front()
            && self.now.since(since) >= LEFT
        {
            self.partly.pop_front();
            if self.is(file, start, request, State::Partly) {
                self.finish(file, start);
            }
        }
    }

    fn next_partly(&mut self) -> Option<(FileId, u64)> {
        while let Some((file, start, request, _)) = self.partly.pop_front() {
            if self.is(file, start, request, State::Partly) {
                return Some((file, start));
            }
        }
        None
    }

    fn next_unread(&mut self) -> Option<(FileId, u64)> {
        while let Some((file, start, request)) = self.unread.pop_front() {
            if self.is(file, start, request, State::Unread) {
                return Some((file, start));
            }
        }
        None
    }

    /// What is absent of `extent` is on its way.
    pub(crate) fn insert(&mut self, file: FileId, extent: Extent, request: RequestId, ahead_for: Option<Ahead>) {
        let mut from = extent.start;
        while let Some(hole) = self.next_hole(file, Extent::new(from, extent.end)) {
            self.insert_hole(file, hole, request, ahead_for);
            from = hole.end;
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

    /// A request for `extent` is on its way, or is no longer.
    pub(crate) fn connect(&mut self, extent: Extent) {
        self.charged_bytes += connection(extent);
    }

    /// The reverse of [`Resident::connect`].
    pub(crate) fn disconnect(&mut self, extent: Extent) {
        self.charged_bytes -= connection(extent);
    }

    /// `extent` of `request`, for which there is room, may arrive.
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

    /// The request for `extent` has completed.
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
                self.unread.push_back((file, start, request));
            }
        });
        self.forget_stale();
    }

    /// The folio at `start` has been read. Whether its reference bit is to be cleared: its next touch matters as well.
    pub(crate) fn referenced(&mut self, file: FileId, start: u64, touch: Touch) -> bool {
        let Some(folio) = self.folios.0.get_mut(file, start) else { return false };
        let extent = Extent::new(start, folio.end);
        if !folio.is_read() {
            self.files.entry(file).or_default().read_pages += extent.pages();
        }
        let ahead_for = folio.ahead_for.take();
        match (folio.state(), touch) {
            (State::Used, _) => {
                let again = touch == Touch::Again;
                let counts = again || ahead_for.is_some();
                return counts && self.used.touch((file, start, folio.request), &mut folio.uses) && again;
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

    /// `request` for `extent` was given up: what nobody has read of it goes.
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

    /// Whoever was expected to open `file`, which has `pages` pages, does not come: what was fetched for him and not read goes.
    pub(crate) fn discarded(&mut self, file: FileId, pages: u64) -> Vec<Evicted> {
        let is_for_him = |folio: &Folio| folio.state() == State::Unread && folio.ahead_for == Some(Ahead::File);
        let all = self.folios.0.range(file, Extent::new(0, pages));
        let gone: Vec<u64> = all.filter(|(_, folio)| is_for_him(folio)).map(|(start, _)| start).collect();
        gone.into_iter().filter_map(|start| self.remove(file, start)).collect()
    }

    /// Nobody has `file` open, which has `pages` pages: everything of it goes.
    pub(crate) fn close(&mut self, file: FileId, pages: u64) -> Vec<Evicted> {
        let all = self.files.get(&file).map_or_else(Vec::new, |held| self.folios.0.starts_of(file, pages, held.folios));
        let gone = all.into_iter().filter_map(|start| self.remove(file, start)).collect();
        self.files.remove(&file);
        gone
    }

    fn remove(&mut self, file: FileId, start: u64) -> Option<Evicted> {
        let folio = self.folios.0.remove(file, start)?;
        let extent = Extent::new(start, folio.end);
        if let Some(held) = self.files.get_mut(&file) {
            held.folios -= 1;
            held.read_pages -= if folio.is_read() { extent.pages() } else { 0 };
        }
        if folio.state() == State::Used {
            self.used.remove(folio.uses, charge(extent));
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

    /// The queues may name folios that are gone; they stay in proportion to what is there.
    fn forget_stale(&mut self) {
        let most = 2 * self.folios.0.len() + 1024;
        let folios = &self.folios.0;
        let is = |file, start, request, state| {
            folios.get(file, start).is_some_and(|f: &Folio| f.request == request && f.state() == state)
        };
        if self.unread.len() > most {
            self.unread.retain(|&(file, start, request)| is(file, start, request, State::Unread));
        }
        if self.partly.len() > most {
            self.partly.retain(|&(file, start, request, _)| is(file, start, request, State::Partly));
        }
        let names = (self.capacity_bytes / BYTES_PER_NAME) as usize;
        self.used.forget_stale(self.folios.0.len(), names, &mut self.folios);
    }
}

/// Thousandths in one.
pub(crate) const PER_MILLE: u64 = 1000;

/// Half of what is asked for may be on its way: more would be asked for than there is room for when it comes.
const ON_THE_WAY_MAX: u64 = PER_MILLE / 2;

/// Looks that are averaged: a sixth of a second, longer than a request takes.
const SAMPLES: u64 = 16;

/// How long a folio that was read in part is kept from speculation: longer than a slow stream takes from one read to the next
/// (100 KB/s through a mount: 1.3 s).
const LEFT: Nanos = Nanos::from_millis(5_000);

/// Demand keeps at least an eighth of the memory, but no more than 4 MiB: a hundred reads of 32 KiB.
const DEMAND_SHARE: u64 = 8;
const DEMAND_BYTES_MAX: u64 = 4 << 20;

/// Memory for each name of a folio that is gone, in bytes: so many of 128 KiB that a loop over four times the memory is known for one, in
/// less than a five-hundredth of it. Fewer leave larger loops to LRU's fate: each round misses everything.
const BYTES_PER_NAME: u64 = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::folio::FOLIO_OVERHEAD_BYTES;
    use crate::units::PAGE_BYTES;

    const FILE: FileId = FileId(1);

    fn resident(pages: u64) -> Resident {
        Resident::new(pages * (PAGE_BYTES + FOLIO_OVERHEAD_BYTES), Replacement::default())
    }

    #[test]
    fn holes_are_what_is_neither_resident_nor_in_flight() {
        let mut r = resident(100);
        r.insert(FILE, Extent::new(4, 8), RequestId(0), None);
        r.insert(FILE, Extent::new(8, 10), RequestId(1), None);
        assert_eq!(r.next_hole(FILE, Extent::new(0, 20)), Some(Extent::new(0, 4)));
        assert_eq!(r.next_hole(FILE, Extent::new(5, 20)), Some(Extent::new(10, 20)));
        assert_eq!(r.next_hole(FILE, Extent::new(5, 9)), None);
        assert_eq!(r.before(FILE, 10, 100), (0, 6));
        assert_eq!(r.before(FILE, 11, 100), (0, 0));
        assert_eq!(r.before(FILE, 10, 3), (0, 3));
        r.referenced(FILE, 8, Touch::Finished);
        assert_eq!(r.before(FILE, 10, 100), (2, 0));
    }

    #[test]
    fn read_pages_leave_first_and_unread_ones_only_for_demand() {
        let mut r = resident(16);
        let mut room = Room::default();
        for page in 0..14 {
            assert!(r.make_room(charges(Extent::new(page, page + 1)), false, &mut room));
            r.insert(FILE, Extent::new(page, page + 1), RequestId(page), Some(Ahead::Stream(7)));
            r.grant(FILE, Extent::new(page, page + 1), RequestId(page));
            r.arrived(FILE, Extent::new(page, page + 1), RequestId(page));
        }
        assert!(!r.make_room(charges(Extent::new(20, 21)), false, &mut room), "the reserve is demand's");
        r.referenced(FILE, 5, Touch::Finished);
        assert!(r.make_room(charges(Extent::new(20, 22)), true, &mut room));
        assert!(room.evicted.is_empty());
        assert!(r.make_room(charges(Extent::new(20, 23)), true, &mut room));
        assert_eq!(room.evicted.pop(), Some(Evicted { file: FILE, folio: Extent::new(5, 6), wasted_for: None }));
        r.insert(FILE, Extent::new(20, 23), RequestId(99), None);
        r.grant(FILE, Extent::new(20, 23), RequestId(99));
        assert!(r.make_room(charges(Extent::new(30, 31)), true, &mut room));
        assert_eq!(
            room.evicted.pop(),
            Some(Evicted { file: FILE, folio: Extent::new(0, 1), wasted_for: Some(Ahead::Stream(7)) })
        );
    }

    #[test]
    fn abandoning_a_request_keeps_what_was_read_of_it() {
        let mut r = resident(1000);
        r.insert(FILE, Extent::new(0, 64), RequestId(3), Some(Ahead::Stream(1)));
        r.referenced(FILE, 0, Touch::Finished);
        assert_eq!(r.abandoned(FILE, Extent::new(0, 64), RequestId(3)).len(), 1);
        assert_eq!(r.next_hole(FILE, Extent::new(0, 64)), Some(Extent::new(32, 64)));
    }
}
