//! A driver that executes every action of the read path, and checks the invariants after each
//! event.
//!
//! Time goes on by 1 ms an event. Bytes arrive, requests fail and reads are answered only as the
//! tests say.

use std::collections::{BTreeMap, BTreeSet};

use foreread_policy::{
    Action, Event, Extent, FOLIO_PAGES_MAX, FileId, Found, Nanos, Options, PAGE_BYTES, REQUEST_PAGES_MAX, ReadId,
    ReadPath, Records, RequestId, Source, Touch,
};

/// The most pages that coalesced requests ask for together.
const COALESCED_PAGES_MAX: u64 = 128;

/// Up to this many requests start at once, whatever the storage.
const CONCURRENCY_MIN: usize = 8;

/// Pieces of waste that are kept to be shown.
const WASTED_MAX: usize = 256;

/// Pages of a grant of memory to a request, at most.
const GRANT_PAGES: u64 = 64;

/// `read::path::release`'s time for which the requests of a closed file go on.
const FETCHED_NS: u64 = 100_000_000;

/// A driver: what its page table would hold, and the checks of every action.
pub(super) struct Driver {
    pub(super) policy: ReadPath,
    options: Options,
    now: u64,
    pub(super) files: BTreeMap<FileId, u64>,
    pub(super) folios: BTreeMap<(FileId, u64), (u64, RequestId, bool)>,
    /// File, extent, and the page up to which it is granted.
    pub(super) requests: BTreeMap<RequestId, (FileId, Extent, u64)>,
    marks: BTreeSet<(FileId, u64)>,
    referenced: Vec<(FileId, u64, RequestId, Touch)>,
    /// The reference bits: folios read to their end, and those of them with a next touch that is
    /// not reported.
    finished: BTreeSet<(FileId, u64)>,
    again: BTreeSet<(FileId, u64)>,
    pub(super) submitted_pages: u64,
    /// What the tier has, page by page, and the requests that it is asked for.
    pub(super) cached: BTreeSet<(FileId, u64)>,
    of_tier: BTreeSet<RequestId>,
    /// How many requests the tier was asked for, and what it was offered.
    pub(super) asked_tier: u64,
    pub(super) offered: Vec<(FileId, Extent)>,
    /// Requests that are reported when they are late, those that were hedged, and how many have
    /// completed.
    may_be_late: BTreeSet<RequestId>,
    pub(super) hedged: Vec<RequestId>,
    completed: u64,
    /// The requests that were started together, by their lead request, until the storage has
    /// answered. Cancelled ones included.
    together: BTreeMap<RequestId, Vec<RequestId>>,
    /// Requests joined to a lead request that is to start next.
    joining: Vec<(RequestId, RequestId)>,
    pub(super) joined: u64,
    /// The reads that wait: the part of the file, and whether they are ready.
    pub(super) reads: BTreeMap<ReadId, (FileId, Extent, bool)>,
    next_read: u64,
    /// Requests of which all that was granted has arrived.
    drained: BTreeSet<RequestId>,
    /// Files that were released and not opened since, and when, in ns.
    pub(super) closed: BTreeMap<FileId, u64>,
    pub(super) capacity_bytes: u64,
    charged_bytes: u64,
    /// Requests that were made in this step and not started, though the storage had a place: they
    /// wait for memory.
    without_memory: Vec<(FileId, Extent)>,
}

impl Driver {
    pub(super) fn new(options: Options) -> Self {
        Self {
            policy: ReadPath::new(options),
            options,
            now: 0,
            files: BTreeMap::new(),
            folios: BTreeMap::new(),
            requests: BTreeMap::new(),
            marks: BTreeSet::new(),
            referenced: Vec::new(),
            finished: BTreeSet::new(),
            again: BTreeSet::new(),
            submitted_pages: 0,
            cached: BTreeSet::new(),
            of_tier: BTreeSet::new(),
            asked_tier: 0,
            offered: Vec::new(),
            may_be_late: BTreeSet::new(),
            hedged: Vec::new(),
            completed: 0,
            together: BTreeMap::new(),
            joining: Vec::new(),
            joined: 0,
            reads: BTreeMap::new(),
            next_read: 0,
            drained: BTreeSet::new(),
            closed: BTreeMap::new(),
            capacity_bytes: options.capacity_bytes,
            charged_bytes: 0,
            without_memory: Vec::new(),
        }
    }

    /// Reports an event, and checks what follows from it.
    pub(super) fn tell(&mut self, event: Event) {
        self.report(event);
        self.check();
    }

    /// Reports where all chunks of a file lie, and checks what follows.
    pub(super) fn tell_chunks(&mut self, chunks: impl Iterator<Item = Event>) {
        chunks.for_each(|chunk| self.report(chunk));
        self.check();
    }

    fn report(&mut self, event: Event) {
        self.now += 1_000_000;
        self.report_with_touches(Some(event));
    }

    /// Reports what was touched since the last event, and then `event`.
    fn report_with_touches(&mut self, event: Option<Event>) {
        let touches = std::mem::take(&mut self.referenced).into_iter();
        let touches = touches.map(|(file, start, request, touch)| Event::Referenced { file, start, request, touch });
        for event in touches.chain(event) {
            match event {
                Event::Cached { file, extent } => {
                    self.cached.extend((extent.start..extent.end).map(|page| (file, page)));
                }
                Event::Uncached { file, extent } => {
                    self.cached.retain(|&(of, page)| of != file || !extent.contains(page));
                }
                _ => {}
            }
            self.policy.handle(Nanos(self.now), event);
            while let Some(action) = self.policy.poll_action() {
                self.execute(action);
            }
            assert!(self.joining.is_empty(), "joined to a request that does not start: {:?}", self.joining);
        }
    }

    fn check(&mut self) {
        let is_left = |file| self.closed.get(file).is_some_and(|at| self.now >= at + FETCHED_NS);
        assert!(self.requests.values().all(|(file, ..)| !is_left(file)), "a closed file is still fetched");
        let granted = |request, start| self.requests.get(request).is_none_or(|r| start < r.2);
        let held = self.folios.iter().filter(|(k, f)| f.2 || granted(&f.1, k.1));
        let held: u64 = held.map(|(&(_, start), &(end, ..))| (end - start) * PAGE_BYTES).sum();
        let waiting = || self.requests.values().filter(|(_, extent, granted)| *granted == extent.start);
        let works = self.requests.iter().any(|(id, (_, extent, granted))| {
            *granted > extent.start && !(self.drained.contains(id) && *granted < extent.end)
        });
        let memory = self.policy.memory();
        // Of the budget, or of the part that speculation may have: no room for a grant, nor for a
        // connection of a long request, if one waits.
        let long = waiting().any(|(_, extent, _)| extent.pages() * PAGE_BYTES >= 1 << 20);
        let first_bytes = (300 << 10) + if long { 256 << 10 } else { 0 };
        let is_full_with = |bytes, capacity| bytes + first_bytes > capacity;
        let capacity = self.capacity_bytes;
        let is_charged_full = is_full_with(memory.charged_bytes, memory.pages_bytes);
        let is_ahead_full = is_full_with(memory.ahead_bytes, memory.pages_bytes / 8 * 7);
        let full = is_charged_full || is_ahead_full;
        // Memory goes to one read after the other, for all that the read lacks at once.
        let lacks = self.reads.values().filter(|(.., ready)| !ready).map(|&(file, read, _)| self.lacks(file, read));
        let lacks = lacks.max().unwrap_or(0);
        let mut waits = core::mem::take(&mut self.without_memory);
        // A read is given so much at once; the rest of it may wait as what is read ahead does.
        waits.retain(|&(file, extent)| {
            let is_read = self.reads.values().any(|&(of, read, _)| of == file && read.overlaps(extent));
            (is_read || !is_ahead_full) && !self.reads.values().any(|&read| self.is_far(read, extent))
        });
        // A request that no read waits for leaves a grant to each older one that is not granted
        // whole.
        let is_older = |(_, extent, granted): &&(FileId, Extent, u64)| extent.start < *granted && *granted < extent.end;
        let left = |(_, extent, granted): &(FileId, Extent, u64)| (extent.end - granted).min(GRANT_PAGES) * PAGE_BYTES;
        let left: u64 = self.requests.values().filter(is_older).map(left).sum();
        let is_full = is_full_with(memory.charged_bytes + lacks.max(left), memory.pages_bytes);
        assert!(waits.is_empty() || is_full, "{waits:?} wait although there is a place and memory: {memory:?}");
        let answers = self.reads.values().any(|(.., ready)| *ready);
        assert!(
            works || full || answers || self.requests.is_empty(),
            "requests wait, and the storage is idle: {memory:?}"
        );
        assert!(works || answers || self.reads.is_empty(), "reads wait for ever: {:?}", self.reads);
        for (read, &(file, extent, _)) in self.reads.iter().filter(|(_, (.., ready))| *ready) {
            let folios = self.overlapping(file, extent);
            let covered: u64 = folios.iter().map(|&(s, e, _)| e.min(extent.end) - s.max(extent.start)).sum();
            assert_eq!(covered, extent.pages(), "a page of {read:?} is gone");
            for (start, _, there) in folios {
                assert!(there || granted(&self.folios[&(file, start)].1, start), "{read:?} has no memory for {start}");
            }
        }
        // After the budget was reduced, what readers are about to be given stays for so long.
        let most = capacity.max(self.charged_bytes);
        assert!(memory.charged_bytes >= held && memory.charged_bytes <= most, "{memory:?} for {held}");
        self.charged_bytes = memory.charged_bytes;
        self.check_what_is_shown();
    }

    /// What is there to be looked at agrees with the counters.
    fn check_what_is_shown(&self) {
        let wasted = self.policy.counters().pages_wasted;
        let last: Vec<_> = self.policy.wasted().collect();
        let told: u64 = last.iter().map(|piece| piece.extent.pages()).sum();
        // The oldest pieces are forgotten.
        assert!(told == wasted || (told < wasted && last.len() == WASTED_MAX), "{told} of {wasted}: {last:?}");
        for piece in last {
            let pages = self.files.get(&piece.file).copied().unwrap_or(u64::MAX);
            assert!(piece.extent.end <= pages && piece.at <= Nanos(self.now), "{piece:?} of {pages}");
        }
        let of_files: u64 = self.files.keys().map(|&file| self.policy.wasted_pages(file)).sum();
        assert!(of_files <= wasted, "{of_files} of {wasted}");
        let (mut ids, mut served) = (BTreeSet::new(), 0);
        for stream in self.policy.streams() {
            assert!(ids.insert((stream.file, stream.id)), "two streams are {stream:?}");
            served += self.policy.served_ns(stream.file, stream.id);
        }
        let service = self.policy.service();
        assert!(served <= service.demand_ns + service.readahead_ns, "{served} of {service:?}");
        assert_eq!(ids.len(), self.policy.streams_len());
    }

    /// The bytes that a read of `read` needs before it is ready: of each request that brings some
    /// of it, all up to the end of its last folio, and a connection.
    fn lacks(&self, file: FileId, read: Extent) -> u64 {
        let until = read.end.div_ceil(FOLIO_PAGES_MAX) * FOLIO_PAGES_MAX;
        let brings = |&&(of, extent, granted): &&(FileId, Extent, u64)| {
            of == file && extent.overlaps(read) && granted < extent.end.min(until)
        };
        let requests = self.requests.values().filter(brings);
        requests.map(|(_, extent, granted)| (extent.end.min(until) - granted) * PAGE_BYTES + (256 << 10)).sum()
    }

    /// Whether a read of `extent` waits for a request that has begun, and is several grants before
    /// the read: the read is given memory once that has come near, and its other requests start
    /// then.
    fn is_far(&self, (file, read, ready): (FileId, Extent, bool), extent: Extent) -> bool {
        let comes_near = |&(of, brings, granted): &(FileId, Extent, u64)| {
            let next = (granted + GRANT_PAGES) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
            of == file && brings.overlaps(read) && granted > brings.start && next <= read.start
        };
        !ready && read.overlaps(extent) && self.requests.values().any(comes_near)
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::Submit { request, file, extent, records, mark, granted, source, late, .. } => {
                if late.is_some() {
                    self.may_be_late.insert(request);
                }
                assert!(granted >= extent.start && granted <= extent.end, "{granted} of {extent:?}");
                let of_tier = source == Source::Tier;
                let at_storage = self.requests.iter().filter(|(id, _)| !self.of_tier.contains(id));
                let started = at_storage.filter(|(_, (_, extent, granted))| *granted > extent.start).count();
                let may_wait =
                    !of_tier && self.options.fair_queue && (self.options.rotational || started >= CONCURRENCY_MIN);
                if granted == extent.start && !may_wait {
                    self.without_memory.push((file, extent));
                }
                if granted > extent.start {
                    self.together.insert(request, vec![request]);
                }
                assert!(!extent.is_empty() && extent.end <= self.files[&file], "{extent:?} of {:?}", self.files[&file]);
                assert!(extent.pages() <= REQUEST_PAGES_MAX, "{extent:?} is one request");
                assert!(mark.is_none_or(|m| extent.contains(m)), "{mark:?} outside {extent:?}");
                self.submitted_pages += extent.pages();
                let kept: Vec<Extent> = Records::within(records, extent).collect();
                assert_eq!(kept.first().map(|kept| kept.start), Some(extent.start), "{records:?} of {extent:?}");
                assert_eq!(kept.last().map(|kept| kept.end), Some(extent.end), "{records:?} of {extent:?}");
                let holes = kept.into_iter().flat_map(|kept| self.holes(file, kept));
                let holes: Vec<Extent> = holes.collect();
                let is_cached = |page| self.cached.contains(&(file, page));
                let mut pages = holes.iter().flat_map(|hole| hole.start..hole.end);
                // Whose disk may take longer than the storage.
                let is_tier_busy = || self.requests.keys().any(|id| self.of_tier.contains(id));
                if of_tier {
                    assert!(pages.all(is_cached), "the tier does not have {extent:?}");
                } else if !is_tier_busy() {
                    // Short runs of cached pages are fetched with those around them.
                    let ends = [extent.start, extent.end - 1];
                    assert!(!ends.into_iter().any(is_cached), "{extent:?} ends in what the tier has");
                    let pages: Vec<u64> = pages.collect();
                    let longest = pages.split(|&page| !is_cached(page)).map(<[u64]>::len).max();
                    assert!(longest < Some(32), "{extent:?} is not all of {source:?}");
                }
                if of_tier {
                    assert!(late.is_none() && records.is_none(), "{request:?} of the tier is late, or of records");
                    assert!(granted == extent.start || granted == extent.end, "a part of {extent:?} is granted");
                    self.of_tier.insert(request);
                    self.asked_tier += 1;
                }
                for folio in holes.into_iter().flat_map(Extent::folios).collect::<Vec<_>>() {
                    self.folios.insert((file, folio.start), (folio.end, request, false));
                    if mark.is_some_and(|m| folio.contains(m)) {
                        self.marks.insert((file, folio.start));
                    }
                }
                assert!(self.requests.insert(request, (file, extent, granted)).is_none());
            }
            Action::Hedge { request } => {
                assert!(self.requests.contains_key(&request), "hedged a request that is not in flight");
                self.hedged.push(request);
            }
            Action::Cancel { request } => {
                assert!(self.requests.remove(&request).is_some(), "cancelled a request that is not in flight");
            }
            Action::Grant { request, granted } => {
                let of = self.requests.get_mut(&request).expect("granted to a request that is not in flight");
                assert!(
                    granted > of.2 && granted <= of.1.end,
                    "{request:?} of {:?} had {}, and is granted {granted}",
                    of.1,
                    of.2
                );
                let starts = std::mem::replace(&mut of.2, granted) == of.1.start;
                assert!(!self.of_tier.contains(&request) || granted == of.1.end, "{request:?} is granted in parts");
                self.drained.remove(&request);
                if starts {
                    self.start(request);
                }
            }
            Action::Ready { read, end } => {
                let wait = self.reads.get_mut(&read).expect("ready, and it does not wait");
                assert!(!std::mem::replace(&mut wait.2, true), "{read:?} is ready twice");
                assert!(end > wait.1.start && end <= wait.1.end, "{read:?} is ready up to {end}");
                wait.1.end = end;
            }
            Action::Join { request, with } => {
                assert_ne!(request, with);
                for waits in [request, with] {
                    assert!(!self.of_tier.contains(&waits), "the tier's {waits:?} is joined");
                    let (_, extent, granted) = self.requests[&waits];
                    let is_joined = self.joining.iter().any(|&(joined, _)| joined == waits);
                    assert!(granted == extent.start && !is_joined, "{waits:?} does not wait");
                }
                self.joining.push((request, with));
                self.joined += 1;
            }
            Action::Cache { file, folio } => {
                assert_eq!(self.folios.get(&(file, folio.start)).map(|folio| folio.0), Some(folio.end));
                let lacks = (folio.start..folio.end).any(|page| !self.cached.contains(&(file, page)));
                assert!(self.options.tier && lacks, "the tier is offered {folio:?}, which it has");
                self.offered.push((file, folio));
            }
            Action::Clear { file, start } => {
                assert!(self.again.remove(&(file, start)), "cleared a bit that is not set");
            }
            Action::Mark { file, start } => {
                assert!(self.folios.contains_key(&(file, start)), "marked a folio that is not there");
                self.marks.insert((file, start));
            }
            Action::Drop { file, folio } => {
                self.finished.remove(&(file, folio.start));
                self.again.remove(&(file, folio.start));
                let gone = self.folios.remove(&(file, folio.start));
                assert_eq!(gone.map(|(end, ..)| end), Some(folio.end), "dropped a folio that is not there");
                self.marks.remove(&(file, folio.start));
            }
            Action::ForgetParts { file } => {
                assert!(self.closed.contains_key(&file), "the parts of {file:?} are forgotten while it is open");
            }
            Action::Forget { file } => {
                assert!(self.closed.remove(&file).is_some(), "{file:?} is forgotten while it is open");
                assert!(self.folios.keys().all(|key| key.0 != file), "{file:?} is forgotten, and pages of it are left");
                self.files.remove(&file);
                self.cached.retain(|&(of, _)| of != file);
            }
        }
    }

    /// `request` starts with the requests that joined it: one short run of pages of one file.
    fn start(&mut self, request: RequestId) {
        let mut run = vec![request];
        for (joined, with) in std::mem::take(&mut self.joining) {
            assert_eq!(with, request, "joined to a request that is not started next");
            run.push(joined);
        }
        let mut extents: Vec<Extent> = run.iter().map(|id| self.requests[id].1).collect();
        extents.sort_unstable();
        assert!(extents.windows(2).all(|pair| pair[0].end == pair[1].start), "a gap, or a page twice: {extents:?}");
        assert!(run.iter().all(|id| self.requests[id].0 == self.requests[&request].0), "of two files");
        if run.len() > 1 {
            assert!(
                extents.iter().map(|extent| extent.pages()).sum::<u64>() <= COALESCED_PAGES_MAX,
                "too long a run: {extents:?}"
            );
            // Coalesced requests take in all their pages without another grant.
            for id in &run[1..] {
                let of = self.requests.get_mut(id).unwrap();
                of.2 = of.1.end;
            }
            assert_eq!(self.requests[&request].2, self.requests[&request].1.end, "no memory for all of it");
        }
        self.together.insert(request, run);
    }

    /// The absent pages of `extent`. It begins and ends with such pages, and none of it is in
    /// flight.
    fn holes(&self, file: FileId, extent: Extent) -> Vec<Extent> {
        let mut holes = Vec::new();
        let mut from = extent.start;
        for (start, end, there) in self.overlapping(file, extent) {
            assert!(
                start > extent.start && end < extent.end && there,
                "requested twice: [{start}, {end}) in {extent:?}"
            );
            holes.push(Extent::new(from, start));
            from = end;
        }
        holes.push(Extent::new(from, extent.end));
        holes
    }

    fn overlapping(&self, file: FileId, extent: Extent) -> Vec<(u64, u64, bool)> {
        // No folio crosses a multiple of the largest one.
        let first = extent.start / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
        let folios = self.folios.range((file, first)..(file, extent.end));
        folios.filter(|(_, f)| f.0 > extent.start).map(|(&(_, start), &(end, _, there))| (start, end, there)).collect()
    }

    fn touch(&mut self, file: FileId, start: u64, pages: u64, to_the_end: bool) {
        let touch = if self.finished.contains(&(file, start)) {
            if !self.again.insert((file, start)) {
                return;
            }
            Touch::Again { pages }
        } else if to_the_end {
            self.finished.insert((file, start));
            Touch::Finished
        } else {
            Touch::First
        };
        let request = self.folios[&(file, start)].1;
        self.referenced.push((file, start, request, touch));
    }

    pub(super) fn read(&mut self, file: FileId, extent: Extent) {
        let folios = self.overlapping(file, extent);
        let covered: u64 = folios.iter().map(|&(s, e, _)| e.min(extent.end) - s.max(extent.start)).sum();
        let found = if covered < extent.pages() {
            Found::Absent
        } else if folios.iter().all(|f| f.2) {
            Found::Resident
        } else {
            Found::InFlight
        };
        let mut marked = false;
        for &(start, end, there) in &folios {
            marked |= found != Found::Absent && self.marks.remove(&(file, start));
            if there && found == Found::Resident {
                self.touch(file, start, end.min(extent.end) - start.max(extent.start), extent.end >= end);
            }
        }
        let read = ReadId(self.next_read);
        self.next_read += 1;
        if found != Found::Resident {
            self.reads.insert(read, (file, extent, false));
        }
        if found != Found::Resident || marked {
            self.tell(Event::Read { read, file, extent, found, marked });
        }
    }

    /// Answers the reads that have everything.
    pub(super) fn answer(&mut self) {
        let has_all = |&&(file, extent, ready): &&(FileId, Extent, bool)| {
            ready && self.overlapping(file, extent).iter().all(|folio| folio.2)
        };
        let all = self.reads.iter().filter(|(_, wait)| has_all(wait));
        for (read, (file, extent, _)) in all.map(|(&read, &wait)| (read, wait)).collect::<Vec<_>>() {
            for (start, end, _) in self.overlapping(file, extent) {
                self.touch(file, start, end.min(extent.end) - start.max(extent.start), extent.end >= end);
            }
            self.reads.remove(&read);
            self.tell(Event::Answered { read });
        }
    }

    /// The reads of `file` are given up.
    pub(super) fn end_reads(&mut self, file: FileId) {
        let of_file = self.reads.iter().filter(|(_, wait)| wait.0 == file).map(|(&read, _)| read);
        for read in of_file.collect::<Vec<_>>() {
            self.reads.remove(&read);
            self.tell(Event::Answered { read });
        }
    }

    /// The last program closes `file`.
    pub(super) fn release(&mut self, file: FileId) {
        self.tell(Event::Release { file });
        self.closed.entry(file).or_insert(self.now);
    }

    /// Nothing happens for so long.
    pub(super) fn pause(&mut self, ms: u64) {
        self.now += ms * 1_000_000;
    }

    /// The `nth` of the requests that may be late has been silent for so long.
    pub(super) fn late(&mut self, nth: usize, silence: Nanos) {
        let late = self.may_be_late.iter().filter(|request| self.requests.contains_key(request)).copied();
        let late: Vec<RequestId> = late.collect();
        let Some(&request) = late.get(nth % late.len().max(1)) else { return };
        let hedged = self.hedged.len();
        let is_waited_for = self.is_waited_for(request);
        self.tell(Event::Late { request, silence });
        let done = self.completed;
        assert!(self.hedged.len() as u64 <= 3 + done / 20, "{} of {done} requests hedged", self.hedged.len());
        assert!(hedged == self.hedged.len() || is_waited_for, "hedged, and no reader waits for it");
    }

    /// Whether a read waits for some of `request`.
    fn is_waited_for(&self, request: RequestId) -> bool {
        let Some(&(file, extent, _)) = self.requests.get(&request) else { return false };
        let waits = |&(of, read, _): &(FileId, Extent, bool)| of == file && read.overlaps(extent);
        self.reads.values().any(waits)
    }

    pub(super) fn complete(&mut self, nth: usize, failed: bool) {
        // A request that has not started can neither complete nor fail.
        let started: Vec<_> = self.requests.iter().filter(|(_, r)| r.2 > r.1.start).map(|(&id, _)| id).collect();
        let Some(&request) = started.get(nth % started.len().max(1)) else { return };
        let (&lead, _) = self.together.iter().find(|(_, run)| run.contains(&request)).expect("it was started");
        if self.together[&lead].len() == 1 {
            self.settle(request, failed);
        } else {
            // The storage fails after some of the run has arrived.
            let mut run: Vec<RequestId> = self.together[&lead].clone();
            run.sort_unstable_by_key(|id| self.requests.get(id).map(|r| r.1.start));
            let come = if failed { nth % run.len() } else { run.len() };
            for (at, &request) in run.iter().enumerate() {
                // Cancelled requests get no event, and do not hold up the others.
                if self.requests.contains_key(&request) {
                    self.settle(request, at >= come);
                    assert!(!self.requests.contains_key(&request), "{request:?} has arrived, and has not ended");
                }
            }
        }
        if !self.requests.contains_key(&request) {
            self.together.remove(&lead);
        }
    }

    /// Reports the end of `request`, if it is granted memory for all of it.
    fn settle(&mut self, request: RequestId, failed: bool) {
        // Until policy hears of the end it may grant the request more, or cancel it.
        self.report_with_touches(None);
        if !self.requests.contains_key(&request) {
            return;
        }
        if failed {
            let stands_on = |this: &Self, file, extent: Extent| {
                let mut folios = this.folios.range((file, 0)..(file, extent.end)).filter(|(_, f)| f.0 > extent.start);
                folios.any(|(_, folio)| folio.1 == request && !folio.2)
            };
            let over: Vec<ReadId> =
                self.reads.iter().filter(|(_, w)| w.2 && stands_on(self, w.0, w.1)).map(|r| *r.0).collect();
            for read in &over {
                self.reads.remove(read);
            }
            self.requests.remove(&request);
            self.tell(Event::Failed { request });
            for read in over {
                self.tell(Event::Answered { read });
            }
            return;
        }
        while let Some(&(_, extent, granted)) = self.requests.get(&request) {
            if granted == extent.end {
                break;
            }
            let file = self.requests[&request].0;
            for (_, folio) in self.folios.range_mut((file, extent.start)..(file, granted)) {
                folio.2 |= folio.1 == request;
            }
            self.drained.insert(request);
            self.tell(Event::Wants { request });
            if self.requests.get(&request).is_some_and(|r| r.2 == granted) {
                return;
            }
        }
        let Some((file, extent, _)) = self.requests.remove(&request) else { return };
        for (_, folio) in self.folios.range_mut((file, extent.start)..(file, extent.end)) {
            folio.2 |= folio.1 == request;
        }
        self.completed += 1;
        self.tell(Event::Completed {
            request,
            first_byte: Nanos::from_millis(30),
            silence: Nanos::from_millis(30),
            total: Nanos::from_millis(40),
        });
    }
}
