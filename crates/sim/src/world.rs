//! The driver: virtual time, readers, the page table. It executes what a policy decides, on a device model, as the engine does on
//! storage.
//!
//! ```text
//!            agenda: readers and when they go on        deadlines of device and policy
//!                               └──────────── the earliest ─────────────┘
//!                                                │
//!   reader ── read ──> pages ── absent, in flight, marked ──> policy ── Submit, Grant, ... Drop ──> pages, storage
//!     ^                                                         ^                                    │
//!     └───────────────── the pages that it waits for are there ─┴───────────── Delivery ─────────────┘
//! ```
//!
//! One thread, one clock, ties in the order in which they came about: the same scenario gives the same events, bit for bit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use foreread_policy::{Action, Event, Extent, FileId, Found, Nanos, PAGE_BYTES, RequestId, Touch};
use foreread_workload::{Op, Pattern};

use crate::page_map::PageMap;
use crate::policy::{Grain, Policy, Reading};
use crate::storage::{Delivery, Storage};
use crate::tally::Tally;

/// How reads get to the policy, and what they cost besides storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Front {
    /// A read arrives in pieces of at most this many pages, one after the other; `None` for whole.
    pub(crate) piece_pages: Option<u64>,
    /// Copying a page, in ns.
    pub(crate) page_ns: u64,
}

/// What holds for all readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readers {
    pub(crate) pattern: Pattern,
    /// No read starts at this time or later.
    pub(crate) until_ns: u64,
}

/// One reader before it starts.
pub(crate) struct Start<'w> {
    pub(crate) operations: Box<dyn Iterator<Item = Op> + 'w>,
    /// The descriptor of its first file; the next file has the next one. `None`: a file's number is its descriptor.
    pub(crate) own_descriptors: Option<u32>,
}

/// A policy that broke the contract, or readers that nobody will ever wake.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A page was asked for while it was there or on its way.
    #[error("page {page} of file {file} was submitted twice (at {at_ns} ns)")]
    SubmittedTwice {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// Pages beyond the end of the file were asked for.
    #[error("{extent:?} of file {file} ends after its {pages} pages (at {at_ns} ns)")]
    PastTheEnd {
        /// The file.
        file: u64,
        /// What was asked for.
        extent: Extent,
        /// The length of the file.
        pages: u64,
        /// When.
        at_ns: u64,
    },
    /// A page that a reader waits for is not coming.
    #[error("nobody fetches page {page} of file {file}, which a reader needs (at {at_ns} ns)")]
    NotFetched {
        /// The file.
        file: u64,
        /// The page.
        page: u64,
        /// When.
        at_ns: u64,
    },
    /// Readers wait and nothing will happen any more.
    #[error("{readers} readers wait for ever (since {at_ns} ns)")]
    Stuck {
        /// How many.
        readers: usize,
        /// When the last event was.
        at_ns: u64,
    },
}

/// What is known of a page; folios are known by each of their pages.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// The request that fetches or fetched it, its lower bits.
    request: u32,
    /// Pages between the start of its folio and it.
    back: u8,
    /// Pages of its folio.
    pages: u8,
    flags: u8,
}

/// It is there or in flight.
const KNOWN: u8 = 1;
const THERE: u8 = 2;
/// Kept at the first page of a folio.
const MARKED: u8 = 4;
const TOUCHED: u8 = 8;
const FINISHED: u8 = 16;
/// The reference bit that policy clears.
const AGAIN: u8 = 32;

/// Looks at a page before it is found to be nowhere: missed, marked, missed again.
const LOOKS_MAX: u32 = 3;

impl Page {
    fn is(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

#[derive(Debug)]
struct InFlight {
    file: FileId,
    extent: Extent,
    bytes: u64,
    since_ns: u64,
    first_byte_ns: Option<u64>,
    /// Bytes that have come, and those that were taken in.
    came: u64,
    taken: u64,
    /// The next page to be taken in, and the first that must not be yet.
    next: u64,
    granted: u64,
    wants: bool,
    /// Who waits for which folio (its first page).
    waiting: Vec<(u64, usize)>,
}

struct Reader<'w> {
    operations: Box<dyn Iterator<Item = Op> + 'w>,
    own_descriptors: Option<u32>,
    by: Reading,
    /// By how much later than planned its reads are due.
    delay_ns: u64,
    /// The read that it is at.
    op: Option<Op>,
    file: Option<u32>,
    /// Of the read: the next page to look at, the end of the piece, the end.
    at: u64,
    piece_end: u64,
    end: u64,
    began_ns: u64,
    announced: bool,
    /// Folios that it waits for.
    missing: u32,
    finished: bool,
}

/// One simulation.
pub(crate) struct World<'w> {
    policy: &'w mut dyn Policy,
    grain: Grain,
    front: Front,
    storage: Storage,
    /// Bytes of each file.
    sizes: Vec<u64>,
    opened: Vec<bool>,
    now_ns: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    entered: u64,
    pages: PageMap<Page>,
    requests: HashMap<RequestId, InFlight>,
    /// Refused requests, and when they are made again.
    refused: VecDeque<(u64, RequestId)>,
    rules: Readers,
    /// The last page of the last read through each descriptor.
    prevs: HashMap<u32, u64>,
    readers: Vec<Reader<'w>>,
    reading: usize,
    /// Folios that were referenced since the policy was last told.
    referenced: Vec<(FileId, u64, Touch)>,
    /// Requests that were granted more while policy was being heard.
    granted: VecDeque<RequestId>,
    woken: Vec<usize>,
    tally: Tally,
}

impl<'w> World<'w> {
    pub(crate) fn new(
        policy: &'w mut dyn Policy,
        storage: Storage,
        front: Front,
        rules: Readers,
        sizes: Vec<u64>,
    ) -> Self {
        Self {
            grain: policy.grain(),
            policy,
            front,
            storage,
            opened: vec![false; sizes.len()],
            sizes,
            now_ns: 0,
            agenda: BinaryHeap::new(),
            entered: 0,
            pages: PageMap::default(),
            requests: HashMap::new(),
            refused: VecDeque::new(),
            rules,
            prevs: HashMap::new(),
            readers: Vec::new(),
            reading: 0,
            referenced: Vec::new(),
            granted: VecDeque::new(),
            woken: Vec::new(),
            tally: Tally::new(rules.pattern.period_ns()),
        }
    }

    /// Runs all of `readers` to their ends.
    pub(crate) fn run(mut self, readers: Vec<Start<'w>>) -> Result<Tally, Violation> {
        self.reading = readers.len();
        self.tally.readers(readers.len());
        for (number, start) in readers.into_iter().enumerate() {
            self.readers.push(Reader {
                operations: start.operations,
                own_descriptors: start.own_descriptors,
                by: Reading { descriptor: start.own_descriptors.unwrap_or(0), prev: None },
                delay_ns: 0,
                op: None,
                file: None,
                at: 0,
                piece_end: 0,
                end: 0,
                began_ns: 0,
                announced: false,
                missing: 0,
                finished: false,
            });
            self.enter(0, number);
        }
        while self.reading > 0 {
            let reader_ns = self.agenda.peek().map(|Reverse((at_ns, ..))| *at_ns);
            let policy_ns = self.policy.next_deadline().map(|at| at.0);
            let refused_ns = self.refused.front().map(|&(at_ns, _)| at_ns);
            let next = [reader_ns, self.storage.next_deadline(), policy_ns, refused_ns].into_iter().flatten().min();
            let Some(next_ns) = next else {
                return Err(Violation::Stuck { readers: self.reading, at_ns: self.now_ns });
            };
            self.now_ns = self.now_ns.max(next_ns);
            self.deliver()?;
            while let Some(&Reverse((at_ns, _, reader))) = self.agenda.peek() {
                if at_ns > self.now_ns {
                    break;
                }
                self.agenda.pop();
                self.go_on(reader)?;
            }
        }
        self.tally.end(self.now_ns);
        Ok(self.tally)
    }

    fn enter(&mut self, at_ns: u64, reader: usize) {
        self.entered += 1;
        self.agenda.push(Reverse((at_ns, self.entered, reader)));
    }

    // Readers.

    /// `reader` reads until it must wait.
    fn go_on(&mut self, number: usize) -> Result<(), Violation> {
        let reader = &mut self.readers[number];
        if reader.finished {
            return Ok(());
        }
        if reader.op.is_none() {
            let until_ns = self.rules.until_ns;
            reader.op =
                reader.operations.next().filter(|op| self.now_ns.max(op.not_before_ns + reader.delay_ns) < until_ns);
            let Some(op) = reader.op else {
                reader.finished = true;
                self.reading -= 1;
                return Ok(());
            };
            let due_ns = op.not_before_ns + reader.delay_ns;
            reader.began_ns = 0;
            if due_ns > self.now_ns {
                self.enter(due_ns, number);
                return Ok(());
            }
        }
        if self.readers[number].began_ns == 0 {
            self.begin(number)?;
        }
        while self.look(number)? {
            let reader = &mut self.readers[number];
            if reader.at < reader.end {
                self.next_piece(number);
                continue;
            }
            self.complete(number);
            return Ok(());
        }
        Ok(())
    }

    fn begin(&mut self, number: usize) -> Result<(), Violation> {
        let now_ns = self.now_ns;
        let reader = &mut self.readers[number];
        let Some(op) = reader.op else { return Ok(()) };
        if reader.file != Some(op.file) {
            reader.by.descriptor = match reader.own_descriptors.as_mut() {
                Some(next) => std::mem::replace(next, *next + 1),
                None => op.file,
            };
            reader.file = Some(op.file);
        }
        let extent = Extent::of_bytes(op.offset, u64::from(op.len));
        (reader.at, reader.end) = (extent.start, extent.end);
        // Zero says that it has not begun.
        reader.began_ns = now_ns.max(1);
        self.next_piece(number);
        let file = FileId(u64::from(op.file));
        if !std::mem::replace(&mut self.opened[file.0 as usize], true) {
            let pages = self.sizes[file.0 as usize].div_ceil(PAGE_BYTES);
            self.tell(Reading::default(), Event::Open { file, pages })?;
        }
        self.tally.asked(extent.pages());
        Ok(())
    }

    fn next_piece(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let piece_end = self.front.piece_pages.map_or(reader.end, |pages| (reader.at / pages + 1) * pages);
        reader.piece_end = piece_end.min(reader.end);
        reader.announced = false;
    }

    /// The read of `number` is done.
    fn complete(&mut self, number: usize) {
        let reader = &mut self.readers[number];
        let Some(op) = reader.op.take() else { return };
        self.prevs.insert(reader.by.descriptor, reader.end.saturating_sub(1));
        let pages = Extent::of_bytes(op.offset, u64::from(op.len)).pages();
        let done_ns = self.now_ns + pages * self.front.page_ns;
        let due_ns = op.not_before_ns + reader.delay_ns;
        reader.delay_ns += self.rules.pattern.delay_ns(done_ns.saturating_sub(due_ns));
        self.tally.read(number, u64::from(op.len), due_ns, done_ns);
        self.enter(done_ns, number);
    }

    /// Looks at the pages of a piece. `false` if the reader has to wait for some.
    fn look(&mut self, number: usize) -> Result<bool, Violation> {
        let reader = &self.readers[number];
        let (Some(op), extent, by) = (reader.op, Extent::new(reader.at, reader.piece_end), reader.by) else {
            return Ok(false);
        };
        let by = Reading { prev: self.prevs.get(&by.descriptor).copied(), ..by };
        let file = FileId(u64::from(op.file));
        if self.policy.hears_every_read() && !std::mem::replace(&mut self.readers[number].announced, true) {
            self.tell(by, Event::Read { file, extent, found: Found::Resident, marked: false })?;
        }
        match self.grain {
            Grain::Page => self.look_page_by_page(number, file, extent, by),
            Grain::Folio => self.look_at_once(number, file, extent, by),
        }
    }

    fn look_page_by_page(
        &mut self,
        number: usize,
        file: FileId,
        extent: Extent,
        by: Reading,
    ) -> Result<bool, Violation> {
        for page in extent.start..extent.end {
            let rest = Extent::new(page, extent.end);
            let mut entry = self.pages.get(file, page);
            // What is fetched ahead of a marked page may take its very place; then it is missed.
            for _ in 0..LOOKS_MAX {
                if !entry.is(KNOWN) {
                    self.tell(by, Event::Read { file, extent: rest, found: Found::Absent, marked: false })?;
                } else if entry.is(MARKED) {
                    self.pages.entry(file, page).flags &= !MARKED;
                    self.tell(by, Event::Read { file, extent: rest, found: Found::Resident, marked: true })?;
                } else {
                    break;
                }
                entry = self.pages.get(file, page);
            }
            if !entry.is(KNOWN) {
                return Err(Violation::NotFetched { file: file.0, page, at_ns: self.now_ns });
            }
            if !entry.is(THERE) {
                self.readers[number].at = page;
                return self.wait(number, entry, page).map(|()| false);
            }
            self.policy.handle(Nanos(self.now_ns), by, Event::Referenced { file, start: page, touch: Touch::Finished });
        }
        self.readers[number].at = extent.end;
        Ok(true)
    }

    fn look_at_once(&mut self, number: usize, file: FileId, extent: Extent, by: Reading) -> Result<bool, Violation> {
        let (mut absent, mut in_flight, mut marked) = (false, false, false);
        let mut page = extent.start;
        while page < extent.end {
            let entry = self.pages.get(file, page);
            absent |= !entry.is(KNOWN);
            in_flight |= !entry.is(THERE);
            page += if entry.is(KNOWN) { u64::from(entry.pages - entry.back) } else { 1 };
        }
        if !absent {
            let mut page = extent.start;
            while page < extent.end {
                let entry = self.pages.get(file, page);
                let head = self.pages.entry(file, page - u64::from(entry.back));
                marked |= head.is(MARKED);
                head.flags &= !MARKED;
                page += u64::from(entry.pages - entry.back);
            }
        }
        let found = match (absent, in_flight) {
            (true, _) => Found::Absent,
            (_, true) => Found::InFlight,
            _ => Found::Resident,
        };
        if found != Found::Resident || marked {
            self.tell(by, Event::Read { file, extent, found, marked })?;
        }
        let mut page = extent.start;
        while page < extent.end {
            let entry = self.pages.get(file, page);
            if !entry.is(KNOWN) {
                return Err(Violation::NotFetched { file: file.0, page, at_ns: self.now_ns });
            }
            let head = page - u64::from(entry.back);
            let finished = extent.end >= head + u64::from(entry.pages);
            if entry.is(THERE) {
                self.reference(file, head, finished);
            } else {
                self.wait(number, entry, head)?;
            }
            page = head + u64::from(entry.pages);
        }
        let reader = &mut self.readers[number];
        // Once all that it waits for is there the piece is read: it need not be looked at again.
        reader.at = extent.end;
        Ok(reader.missing == 0)
    }

    /// Says that the folio at `start` was read, if that is new.
    fn reference(&mut self, file: FileId, start: u64, finished: bool) {
        let head = self.pages.entry(file, start);
        let (bit, touch) = match (head.is(FINISHED), finished) {
            (true, _) => (AGAIN, Touch::Again),
            (false, true) => (FINISHED, Touch::Finished),
            (false, false) => (TOUCHED, Touch::First),
        };
        if !head.is(bit) {
            head.flags |= bit;
            self.referenced.push((file, start, touch));
        }
    }

    fn wait(&mut self, number: usize, entry: Page, start: u64) -> Result<(), Violation> {
        let request = RequestId(u64::from(entry.request));
        let Some(in_flight) = self.requests.get_mut(&request) else {
            let file = self.readers[number].op.map_or(0, |op| u64::from(op.file));
            return Err(Violation::NotFetched { file, page: start, at_ns: self.now_ns });
        };
        in_flight.waiting.push((start, number));
        self.readers[number].missing += 1;
        Ok(())
    }

    // Storage.

    /// Takes what has come until now, and wakes who waited for it.
    fn deliver(&mut self) -> Result<(), Violation> {
        self.storage.advance(self.now_ns);
        while self.refused.front().is_some_and(|&(at_ns, _)| at_ns <= self.now_ns) {
            if let Some((_, request)) = self.refused.pop_front()
                && let Some(this) = self.requests.get(&request)
            {
                self.storage.read(self.now_ns, request, this.file, this.extent, this.bytes);
            }
        }
        while let Some(delivery) = self.storage.poll() {
            match delivery {
                Delivery::Head(request) => {
                    if let Some(this) = self.requests.get_mut(&request) {
                        this.first_byte_ns = Some(self.now_ns - this.since_ns);
                    }
                }
                Delivery::Bytes(request, bytes) => {
                    if let Some(this) = self.requests.get_mut(&request) {
                        this.came += bytes;
                        this.first_byte_ns.get_or_insert(self.now_ns - this.since_ns);
                        self.take_in(request)?;
                    }
                }
                Delivery::Refused(request, after_ns) => {
                    self.refused.push_back((self.now_ns + after_ns.max(1), request));
                    self.refused.make_contiguous().sort_unstable();
                }
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        for reader in woken.drain(..) {
            self.go_on(reader)?;
        }
        self.woken = woken;
        Ok(())
    }

    /// Takes in what has come of `request`, as far as it is granted.
    fn take_in(&mut self, request: RequestId) -> Result<(), Violation> {
        let Some(mut this) = self.requests.remove(&request) else { return Ok(()) };
        while this.next < this.extent.end && this.next < this.granted {
            let entry = self.pages.get(this.file, this.next);
            // A folio that was dropped meanwhile has gaps in its place, or others.
            let end = (this.next + u64::from(entry.pages - entry.back).max(1)).min(this.extent.end);
            let until = ((end - this.extent.start) * PAGE_BYTES).min(this.bytes);
            if this.came < until {
                break;
            }
            self.arrive(&mut this, request, end);
            self.storage.taken(self.now_ns, request, until - this.taken);
            this.taken = until;
        }
        let (ended, since_ns) = (this.next == this.extent.end, this.since_ns);
        let wants = !ended && this.next >= this.granted && this.came > this.taken && !this.wants;
        this.wants |= wants;
        if ended {
            let first_byte = Nanos(this.first_byte_ns.unwrap_or(0));
            let total = Nanos(self.now_ns - since_ns);
            self.tell(Reading::default(), Event::Completed { request, first_byte, total })
        } else {
            self.requests.insert(request, this);
            if wants { self.tell(Reading::default(), Event::Wants { request }) } else { Ok(()) }
        }
    }

    /// The pages of a request before `end` have come.
    fn arrive(&mut self, this: &mut InFlight, request: RequestId, end: u64) {
        for page in this.next..end {
            let entry = self.pages.entry(this.file, page);
            if entry.is(KNOWN) && u64::from(entry.request) == request.0 {
                entry.flags |= THERE;
            }
        }
        this.next = end;
        let mut waiting = std::mem::take(&mut this.waiting);
        waiting.retain(|&(start, number)| {
            if start >= end {
                return true;
            }
            if self.grain == Grain::Folio {
                let head = self.pages.get(this.file, start);
                let finished = self.readers[number].piece_end >= start + u64::from(head.pages);
                self.reference(this.file, start, finished);
            }
            let reader = &mut self.readers[number];
            reader.missing -= 1;
            if reader.missing == 0 {
                self.woken.push(number);
            }
            false
        });
        this.waiting = waiting;
    }

    // Policy.

    /// Tells the policy what happened, and does what it says.
    fn tell(&mut self, by: Reading, event: Event) -> Result<(), Violation> {
        let now = Nanos(self.now_ns);
        let mut referenced = std::mem::take(&mut self.referenced);
        let touches = referenced.drain(..).map(|(file, start, touch)| Event::Referenced { file, start, touch });
        for event in touches.chain([event]) {
            self.policy.handle(now, by, event);
            while let Some(action) = self.policy.poll_action() {
                self.act(action)?;
            }
        }
        self.referenced = referenced;
        // What has come already is taken in once policy has been heard to its end.
        while let Some(request) = self.granted.pop_front() {
            self.take_in(request)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Violation> {
        match action {
            Action::Submit { request, file, extent, mark, granted, .. } => {
                self.submit(request, file, extent, mark, granted)?;
            }
            Action::Grant { request, granted } => {
                if let Some(this) = self.requests.get_mut(&request) {
                    this.granted = granted;
                    this.wants = false;
                    self.granted.push_back(request);
                }
            }
            Action::Cancel { request } => {
                if self.requests.remove(&request).is_some() {
                    self.storage.cancel(self.now_ns, request);
                }
            }
            Action::Clear { file, start } => self.pages.entry(file, start).flags &= !AGAIN,
            Action::Drop { file, folio } => self.pages.fill(file, folio, Page::default()),
        }
        Ok(())
    }

    fn submit(
        &mut self,
        request: RequestId,
        file: FileId,
        extent: Extent,
        mark: Option<u64>,
        granted: u64,
    ) -> Result<(), Violation> {
        let size = self.sizes[file.0 as usize];
        let (pages, at_ns) = (size.div_ceil(PAGE_BYTES), self.now_ns);
        if extent.end > pages || extent.is_empty() {
            return Err(Violation::PastTheEnd { file: file.0, extent, pages, at_ns });
        }
        for page in extent.start..extent.end {
            let entry = self.pages.get(file, page);
            // What is resident in the middle is read past.
            let edge = page == extent.start || page + 1 == extent.end;
            if entry.is(KNOWN) && (edge || !entry.is(THERE)) {
                return Err(Violation::SubmittedTwice { file: file.0, page, at_ns });
            }
        }
        let mut start = extent.start;
        while start < extent.end {
            let absent = (start..extent.end).take_while(|&page| !self.pages.get(file, page).is(KNOWN)).count() as u64;
            let hole = Extent::new(start, start + absent);
            match self.grain {
                Grain::Folio => hole.folios().for_each(|folio| self.insert(request, file, folio, mark)),
                Grain::Page => (hole.start..hole.end)
                    .for_each(|page| self.insert(request, file, Extent::new(page, page + 1), mark)),
            }
            start = hole.end.max(start + 1);
        }
        let bytes = (extent.end * PAGE_BYTES).min(size) - extent.start * PAGE_BYTES;
        let in_flight = InFlight {
            file,
            extent,
            bytes,
            since_ns: at_ns,
            first_byte_ns: None,
            came: 0,
            taken: 0,
            next: extent.start,
            granted,
            wants: false,
            waiting: Vec::new(),
        };
        self.requests.insert(request, in_flight);
        self.storage.read(at_ns, request, file, extent, bytes);
        self.tally.submitted(at_ns, extent.pages());
        Ok(())
    }

    fn insert(&mut self, request: RequestId, file: FileId, folio: Extent, mark: Option<u64>) {
        let marked = if mark.is_some_and(|mark| folio.contains(mark)) { MARKED } else { 0 };
        for page in folio.start..folio.end {
            let back = (page - folio.start) as u8;
            let flags = KNOWN | if back == 0 { marked } else { 0 };
            *self.pages.entry(file, page) = Page { request: request.0 as u32, back, pages: folio.pages() as u8, flags };
        }
    }
}
