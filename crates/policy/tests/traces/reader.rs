//! A driver of the read path: readers that wait, a page table, and storage that takes a fixed
//! time.
//!
//! Not shown are events without a decision: first touches that cause nothing, and a request that
//! wants its next pages and is granted them.

use std::collections::BTreeMap;

use foreread_policy::{
    Action, Event, Extent, FileId, Found, Nanos, Options, PAGE_BYTES, PAGE_PARTS, ReadId, ReadPath, Records,
    Replacement, RequestId, Source, Touch,
};

use crate::trace::{self, Trace};

/// 16 MiB in front of a store that works on many requests at a time.
pub(crate) const STORE: Options = Options {
    capacity_bytes: 16 << 20,
    readahead: true,
    replacement: Replacement::S3Fifo,
    rotational: false,
    fair_queue: true,
    tier: false,
    bypass: true,
};

/// The same in front of a disk.
pub(crate) const DISK: Options = Options { rotational: true, ..STORE };

/// From asking the storage to the first byte: 30 ms of a store, 10 ms of a disk.
const FIRST_BYTE_NS: u64 = 30_000_000;
const POSITIONING_NS: u64 = 10_000_000;

/// A page at 100 MB/s.
pub(crate) const PAGE_NS: u64 = PAGE_BYTES * 10;

/// The `nth` number of a sequence without an order.
pub(crate) fn scattered(nth: u64) -> u64 {
    let mixed = (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// A folio of the page table.
struct Folio {
    end: u64,
    request: RequestId,
    there: bool,
    marked: bool,
    /// The last touch that was told.
    touched: Option<Touch>,
}

/// A request that is not over.
struct Request {
    file: FileId,
    extent: Extent,
    granted: u64,
    /// When the storage was asked, when its first byte comes, and when all that is granted has
    /// come.
    asked: Nanos,
    first_byte: Nanos,
    due: Option<Nanos>,
    late: Option<Nanos>,
    /// Requests that joined it.
    joined: Vec<RequestId>,
}

/// The driver.
pub(crate) struct Reader {
    policy: ReadPath,
    rotational: bool,
    pub(crate) now: Nanos,
    folios: BTreeMap<(FileId, u64), Folio>,
    requests: BTreeMap<RequestId, Request>,
    /// The reads that wait, and whether they are ready.
    reads: BTreeMap<ReadId, (FileId, Extent, bool)>,
    next_read: u64,
    /// A disk serves one request after the other, and a link transfers one.
    busy_until: Nanos,
    /// What all requests share, as the time of a page; without it each request of a store has its
    /// own rate.
    pub(crate) link_page_ns: Option<u64>,
    /// How much later than usual the next request has its first byte.
    pub(crate) delay_ns: u64,
    pub(crate) trace: Trace,
}

impl Reader {
    /// With files of so many pages, numbered from 1.
    pub(crate) fn new(options: Options, files: &[u64]) -> Self {
        let mut reader = Self {
            policy: ReadPath::new(options),
            rotational: options.rotational,
            now: Nanos(0),
            folios: BTreeMap::new(),
            requests: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_read: 0,
            busy_until: Nanos(0),
            link_page_ns: None,
            delay_ns: 0,
            trace: Trace::default(),
        };
        for (file, &pages) in (1..).map(FileId).zip(files) {
            reader.tell(Event::Open { file, pages });
        }
        reader
    }

    /// Tells an event, and executes what follows.
    pub(crate) fn tell(&mut self, event: Event) {
        self.policy.handle(self.now, event);
        let actions: Vec<Action> = std::iter::from_fn(|| self.policy.poll_action()).collect();
        let shown = match (event, &actions[..]) {
            (Event::Referenced { .. } | Event::Answered { .. }, []) => false,
            (Event::Wants { request }, &[Action::Grant { request: granted, .. }]) => request != granted,
            _ => true,
        };
        if shown {
            self.trace.event(self.now, &event_text(event), &action_texts(&actions));
        }
        for action in actions {
            self.execute(action);
        }
    }

    fn execute(&mut self, action: Action) {
        match action {
            Action::Submit { request, file, extent, records, mark, granted, late, .. } => {
                for kept in Records::within(records, extent) {
                    let mut at = kept.start;
                    while at < kept.end {
                        if let Some(folio) = self.folio_at(file, at) {
                            at = folio.1;
                            continue;
                        }
                        let end = Extent::new(at, kept.end).folios().next().map_or(kept.end, |folio| folio.end);
                        let end = (at + 1..end).find(|&page| self.folio_at(file, page).is_some()).unwrap_or(end);
                        let marked = mark.is_some_and(|mark| (at..end).contains(&mark));
                        let folio = Folio { end, request, there: false, marked, touched: None };
                        self.folios.insert((file, at), folio);
                        at = end;
                    }
                }
                let now = self.now;
                let made = Request {
                    file,
                    extent,
                    granted: extent.start,
                    asked: now,
                    first_byte: now,
                    due: None,
                    late,
                    joined: Vec::new(),
                };
                self.requests.insert(request, made);
                if granted > extent.start {
                    self.grant(request, granted);
                }
            }
            Action::Hedge { request } => {
                // The second request is answered as quickly as usual.
                let now = self.now;
                if let Some(of) = self.requests.get_mut(&request) {
                    of.due = Some(Nanos(now.0 + FIRST_BYTE_NS + of.extent.pages() * PAGE_NS));
                }
            }
            Action::Grant { request, granted } => self.grant(request, granted),
            Action::Ready { read, end } => {
                let wait = self.reads.get_mut(&read).expect("a read that waits");
                (wait.1.end, wait.2) = (end, true);
            }
            Action::Join { request, with } => {
                self.requests.get_mut(&with).expect("a lead request").joined.push(request);
            }
            Action::Cancel { request } => drop(self.requests.remove(&request)),
            Action::Clear { file, start } => {
                self.folios.get_mut(&(file, start)).expect("a folio").touched = Some(Touch::Finished);
            }
            Action::Mark { file, start } => {
                self.folios.get_mut(&(file, start)).expect("a folio").marked = true;
            }
            Action::Drop { file, folio } => drop(self.folios.remove(&(file, folio.start))),
            Action::Forget { .. } | Action::ForgetParts { .. } | Action::Cache { .. } => {}
        }
    }

    /// The storage sends the pages of `request` before `granted`, and those of the requests that
    /// joined it.
    fn grant(&mut self, request: RequestId, granted: u64) {
        let now = self.now;
        let of = self.requests.get_mut(&request).expect("a request");
        let starts = of.granted == of.extent.start;
        let mut pages = granted - std::mem::replace(&mut of.granted, granted);
        let joined = std::mem::take(&mut of.joined);
        pages += joined.iter().map(|other| self.requests[other].extent.pages()).sum::<u64>();
        let begin = if self.rotational { now.max(self.busy_until) } else { now };
        let first_byte_ns = match (starts, self.rotational) {
            (false, _) => 0,
            (true, true) => POSITIONING_NS,
            (true, false) => FIRST_BYTE_NS + std::mem::take(&mut self.delay_ns),
        };
        let mut first_byte = Nanos(begin.0 + first_byte_ns);
        if self.link_page_ns.is_some() {
            first_byte = first_byte.max(self.busy_until);
        }
        let due = Nanos(first_byte.0 + pages * self.link_page_ns.unwrap_or(PAGE_NS));
        self.busy_until = due;
        for id in joined.into_iter().chain([request]) {
            let of = self.requests.get_mut(&id).expect("a request");
            if starts {
                (of.asked, of.first_byte) = (now, first_byte);
            }
            of.granted = if id == request { granted } else { of.extent.end };
            of.due = Some(due);
        }
    }

    fn folio_at(&self, file: FileId, page: u64) -> Option<(u64, u64)> {
        let (&(_, start), folio) = self.folios.range((file, 0)..=(file, page)).next_back()?;
        (page < folio.end).then_some((start, folio.end))
    }

    /// In which state a read of `extent` finds its pages, and the folios that hold them.
    fn find(&self, file: FileId, extent: Extent) -> (Found, Vec<u64>) {
        let (mut at, mut folios, mut found) = (extent.start, Vec::new(), Found::Resident);
        while at < extent.end {
            let Some((start, end)) = self.folio_at(file, at) else { return (Found::Absent, folios) };
            if !self.folios[&(file, start)].there {
                found = Found::InFlight;
            }
            folios.push(start);
            at = end;
        }
        (found, folios)
    }

    /// A read of pages `[start, end)` of a file, which does not wait for what it lacks.
    pub(crate) fn read(&mut self, file: u64, start: u64, end: u64) {
        let (file, extent) = (FileId(file), Extent::new(start, end));
        let (found, folios) = self.find(file, extent);
        let mut marked = false;
        for start in folios.iter().filter(|_| found != Found::Absent) {
            let folio = self.folios.get_mut(&(file, *start)).expect("a folio");
            marked |= std::mem::take(&mut folio.marked);
        }
        let read = ReadId(self.next_read);
        self.next_read += 1;
        if found != Found::Resident {
            self.reads.insert(read, (file, extent, false));
        }
        if found != Found::Resident || marked {
            self.tell(Event::Read { read, file, extent, found, marked });
        }
        if found == Found::Resident {
            self.touch(file, extent, &folios);
        }
        self.answer();
    }

    /// The same, and the reader waits until it has all pages.
    pub(crate) fn get(&mut self, file: u64, start: u64, end: u64) {
        self.read(file, start, end);
        let read = ReadId(self.next_read - 1);
        while self.reads.contains_key(&read) && self.step() {
            self.pause(0);
        }
    }

    /// Reads that are ready are given what has come.
    fn answer(&mut self) {
        for (read, (file, extent, ready)) in self.reads.clone() {
            let (found, folios) = self.find(file, extent);
            if ready && found == Found::Resident {
                self.reads.remove(&read);
                self.touch(file, extent, &folios);
                self.tell(Event::Answered { read });
            }
        }
    }

    fn touch(&mut self, file: FileId, extent: Extent, folios: &[u64]) {
        for &start in folios {
            let Some(folio) = self.folios.get_mut(&(file, start)) else { continue };
            let again = Touch::Again { pages: folio.end.min(extent.end).saturating_sub(start.max(extent.start)) };
            let touch = match folio.touched {
                Some(Touch::Finished) => again,
                None | Some(Touch::First) if extent.end >= folio.end => Touch::Finished,
                None => Touch::First,
                Some(Touch::First | Touch::Again { .. }) => continue,
            };
            folio.touched = Some(touch);
            let request = folio.request;
            self.tell(Event::Referenced { file, start, request, touch });
        }
    }

    /// What happens next at the storage. `false` if nothing does.
    pub(crate) fn step(&mut self) -> bool {
        let late = |of: &Request| {
            of.late.map(|late| Nanos(of.asked.0 + late.0)).filter(|&at| of.due.is_some() && at < of.first_byte)
        };
        let next = self.requests.iter().flat_map(|(&id, of)| {
            [late(of).map(|at| (at, id, true)), of.due.map(|at| (at, id, false))].into_iter().flatten()
        });
        let Some((at, id, is_late)) = next.min() else { return false };
        self.now = self.now.max(at);
        let of = self.requests.get_mut(&id).expect("a request");
        if is_late {
            of.late = None;
            let (now, asked) = (self.now, of.asked);
            self.tell(Event::Late { request: id, silence: now.since(asked) });
            return true;
        }
        of.due = None;
        let (file, arrived, whole) = (of.file, Extent::new(of.extent.start, of.granted), of.granted == of.extent.end);
        let (first_byte, total) = (of.first_byte.since(of.asked), self.now.since(of.asked));
        for (_, folio) in self.folios.range_mut((file, arrived.start)..(file, arrived.end)) {
            folio.there |= folio.request == id;
        }
        self.answer();
        if whole {
            self.requests.remove(&id);
            self.tell(Event::Completed { request: id, first_byte, silence: first_byte, total });
        } else {
            self.tell(Event::Wants { request: id });
        }
        true
    }

    /// All that is in flight arrives, until nothing more happens.
    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    /// How many requests are not over.
    pub(crate) fn requests_len(&self) -> usize {
        self.requests.len()
    }

    /// The reader does something else for so long; what arrives meanwhile is told.
    pub(crate) fn pause(&mut self, ms: u64) {
        let until = Nanos(self.now.0 + ms * 1_000_000);
        while self.requests.values().any(|of| of.due.is_some_and(|due| due <= until)) {
            self.step();
        }
        self.now = until;
    }

    /// Does something that is not shown but for `text`.
    pub(crate) fn hidden(&mut self, text: &str, what: impl FnOnce(&mut Self)) {
        self.trace.hide(text);
        what(self);
        self.trace.show();
    }
}

fn event_text(event: Event) -> String {
    match event {
        Event::Open { file, pages } => format!("Open f{} of {pages}", file.0),
        Event::Release { file } => format!("Release f{}", file.0),
        Event::Forget { file } => format!("Forget f{}", file.0),
        Event::Read { read, file, extent, found, marked } => {
            let marked = if marked { ", marked" } else { "" };
            format!("Read n{} f{} {} {found:?}{marked}", read.0, file.0, trace::pages(extent))
        }
        Event::Answered { read } => format!("Answered n{}", read.0),
        Event::Prefetch { file } => format!("Prefetch f{}", file.0),
        Event::PrefetchEnds { file, ends } => format!("PrefetchEnds f{} {}+{}", file.0, ends.head, ends.tail),
        Event::Discard { file } => format!("Discard f{}", file.0),
        Event::Parts { file } => format!("Parts f{}", file.0),
        Event::Directory { file, bytes } => format!("Directory f{} {bytes}", file.0),
        Event::Member { file, extent } => format!("Member f{} {}", file.0, trace::pages(extent)),
        Event::Chunk { file, extent, group, column } => {
            format!("Chunk f{} {} group {group} column {column}", file.0, trace::pages(extent))
        }
        Event::Cached { file, extent } => format!("Cached f{} {}", file.0, trace::pages(extent)),
        Event::Uncached { file, extent } => format!("Uncached f{} {}", file.0, trace::pages(extent)),
        Event::Capacity { bytes } => format!("Capacity {bytes}"),
        Event::Tier { bytes } => format!("Tier {bytes}"),
        Event::Reserve { bytes } => format!("Reserve {bytes}"),
        Event::Referenced { file, start, touch, .. } => format!("Referenced f{} {start} {touch:?}", file.0),
        Event::Wants { request } => format!("Wants r{}", request.0),
        Event::Late { request, .. } => format!("Late r{}", request.0),
        Event::Completed { request, .. } => format!("Completed r{}", request.0),
        Event::Failed { request } => format!("Failed r{}", request.0),
    }
}

/// The actions as they are shown: folios side by side that are dropped one after the other are
/// one.
fn action_texts(actions: &[Action]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut dropped: Option<(FileId, Extent)> = None;
    for &action in actions {
        if let Action::Drop { file, folio } = action {
            match &mut dropped {
                Some((of, run)) if *of == file && run.end == folio.start => {
                    run.end = folio.end;
                    texts.pop();
                }
                _ => dropped = Some((file, folio)),
            }
            texts.extend(dropped.map(|(file, run)| format!("Drop f{} {}", file.0, trace::pages(run))));
        } else {
            dropped = None;
            texts.push(action_text(action));
        }
    }
    texts
}

fn action_text(action: Action) -> String {
    match action {
        Action::Submit { request, file, extent, records, class, source, mark, granted, late } => {
            let mark = mark.map_or(String::new(), |mark| format!(", mark {mark}"));
            // Two seconds are late before enough is known.
            let known = late.filter(|late| late.0 != 2_000_000_000);
            let late = known.map_or(String::new(), |late| format!(", late after {:.1} ms", late.0 as f64 / 1e6));
            let granted = match granted {
                _ if granted == extent.start => ", waits".to_owned(),
                _ if granted == extent.end => String::new(),
                _ => format!(", granted {granted}"),
            };
            let (request, file, extent) = (request.0, file.0, trace::pages(extent));
            let records = records.map_or(String::new(), |Records { start, pages, delta, fraction }| {
                let delta = delta as f64 + f64::from(fraction) / PAGE_PARTS as f64;
                format!(", {pages} of every {delta} from {start}")
            });
            let source = if source == Source::Tier { " from the tier" } else { "" };
            format!("Submit r{request} f{file} {extent}{records}{source} {}{mark}{granted}{late}", trace::class(class))
        }
        Action::Ready { read, end } => format!("Ready n{} {end}", read.0),
        Action::Hedge { request } => format!("Hedge r{}", request.0),
        Action::Grant { request, granted } => format!("Grant r{} {granted}", request.0),
        Action::Join { request, with } => format!("Join r{} with r{}", request.0, with.0),
        Action::Cancel { request } => format!("Cancel r{}", request.0),
        Action::Clear { file, start } => format!("Clear f{} {start}", file.0),
        Action::Mark { file, start } => format!("Mark f{} {start}", file.0),
        Action::Forget { file } => format!("Forget f{}", file.0),
        Action::ForgetParts { file } => format!("ForgetParts f{}", file.0),
        Action::Cache { file, folio } => format!("Cache f{} {}", file.0, trace::pages(folio)),
        Action::Drop { file, folio } => format!("Drop f{} {}", file.0, trace::pages(folio)),
    }
}
