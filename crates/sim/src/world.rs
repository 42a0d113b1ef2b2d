//! The driver for reads of files: virtual time, readers, the page table. It executes policy's
//! actions on a device model, as the engine does on storage.
//!
//! ```text
//!           agenda of readers       deadlines of device and policy
//!                 └───────── the earliest ────────┘
//!                                  │
//!  reader ── read ──> pages ── absent, in flight, marked ──> policy ── Submit ... Drop ──> pages
//!    ^                                                         ^                          storage
//!    └───────────── the pages that it waits for are there ─────┴─────── Delivery ───────────┘
//! ```
//!
//! One thread, one clock; ties are served in the order of arrival: the same scenario gives the
//! same events, bit for bit.
//!
//! `reading.rs` steps the readers, `requests.rs` executes actions, `faults.rs` makes attempts fail
//! and gives orders, `serve.rs` makes a world the storage of another, `tier.rs` puts a tier in
//! front of it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

mod cached;
pub(crate) mod fate;
mod faults;
pub(crate) mod front;
mod in_flight;
pub(crate) mod orders;
mod page;
pub(crate) mod reader;
mod reading;
mod requests;
mod serve;
pub(crate) mod tier;
pub(crate) mod together;

use foreread_policy::{Event, FileId, ReadId, RequestId};

use crate::outcome::course::Watch;
use crate::outcome::picture::Picture;
use crate::outcome::tally::Tally;
use crate::outcome::violation::Violation;
use crate::page_map::PageMap;
use crate::policy::{Grain, Policy};
use crate::scenario::busy::Busy;
use crate::scenario::change::Change;
use crate::scenario::chunk::Chunk;
use crate::storage::Storage;
use crate::storage::delivery::Delivery;
use fate::Faults;
use front::Front;
use in_flight::InFlight;
use orders::Orders;
use page::Page;
use reader::{Reader, Start};
use tier::Tier;
use together::Together;

/// Most reads that wait for their readers. Lower: a slow reader delays the others; higher: more
/// memory.
const QUEUED_MAX: usize = 1 << 16;

/// One simulation.
pub(crate) struct World<'w> {
    policy: Box<dyn Policy + 'w>,
    grain: Grain,
    front: Front,
    storage: Storage,
    tier: Option<Tier>,
    /// Where the chunks of each file lie.
    chunks: Vec<Chunk>,
    busy: Option<Busy>,
    /// Bytes of each file.
    sizes: Vec<u64>,
    /// The file number that policy knows, by the index of the file.
    ids: Vec<u64>,
    opened: Vec<bool>,
    /// Files that were released, and not opened since.
    closed: Vec<bool>,
    faults: Option<Faults>,
    /// Attempts that fail, and when.
    trouble: BinaryHeap<Reverse<(u64, RequestId)>>,
    /// Requests, and when each is late without an answer.
    late: BinaryHeap<Reverse<(u64, RequestId)>>,
    /// The reads that wait, by their readers, and how many of them are not ready.
    reads: HashMap<ReadId, usize>,
    lacking: usize,
    next_read: u64,
    /// Pages of each file that are resident or in flight; `held` counts the resident ones of all
    /// files.
    known: HashMap<FileId, u64>,
    held: u64,
    budget: u64,
    /// Pages that are still charged since the budget was reduced: what readers are about to be
    /// given stays.
    beyond: u64,
    orders: Option<Orders>,
    /// Pages that ever arrived.
    arrived: u64,
    /// How many times the memory may arrive before a read has some.
    patience: u64,
    /// The quickest first byte.
    quickest_ns: u64,
    now_ns: u64,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    entered: u64,
    pages: PageMap<Page>,
    requests: HashMap<RequestId, InFlight>,
    /// Requests merged into another one, and that one.
    joined: HashMap<RequestId, RequestId>,
    /// Refused requests, and when each is made again.
    refused: VecDeque<(u64, RequestId)>,
    /// No read starts at this time or later.
    until_ns: u64,
    /// The last page of the last read through each descriptor.
    prevs: HashMap<u32, u64>,
    readers: Vec<Reader<'w>>,
    /// Readers that are not idle; `beside` counts those beside among them.
    reading: usize,
    beside: usize,
    together: Option<Together<'w>>,
    /// Reads of `together` that wait in the queues of their readers.
    queued: usize,
    /// Folios referenced and reads answered since policy was last told.
    answered: Vec<Event>,
    /// Requests that got grants while actions were executed.
    granted: VecDeque<RequestId>,
    /// The bytes of these are being taken in.
    takes_in: bool,
    woken: VecDeque<usize>,
    /// Idle readers of a mount, and the requests that readers have served.
    resting: Vec<usize>,
    served: VecDeque<Delivery>,
    /// Changes of the storage that are to come.
    changes: VecDeque<Change>,
    watch: Option<Watch>,
    tally: Tally,
}

impl<'w> World<'w> {
    pub(crate) fn new(
        policy: Box<dyn Policy + 'w>,
        storage: Storage,
        front: Front,
        until_ns: u64,
        sizes: Vec<u64>,
    ) -> Self {
        Self {
            grain: policy.grain(),
            policy,
            front,
            storage,
            tier: None,
            chunks: Vec::new(),
            busy: None,
            opened: vec![false; sizes.len()],
            closed: vec![false; sizes.len()],
            ids: (0..sizes.len() as u64).collect(),
            faults: None,
            trouble: BinaryHeap::new(),
            late: BinaryHeap::new(),
            reads: HashMap::new(),
            lacking: 0,
            next_read: 0,
            known: HashMap::new(),
            held: 0,
            budget: u64::MAX,
            beyond: 0,
            orders: None,
            arrived: 0,
            patience: u64::MAX,
            quickest_ns: u64::MAX,
            sizes,
            now_ns: 0,
            agenda: BinaryHeap::new(),
            entered: 0,
            pages: PageMap::default(),
            requests: HashMap::new(),
            joined: HashMap::new(),
            refused: VecDeque::new(),
            until_ns,
            prevs: HashMap::new(),
            readers: Vec::new(),
            reading: 0,
            beside: 0,
            together: None,
            queued: 0,
            answered: Vec::new(),
            granted: VecDeque::new(),
            takes_in: false,
            woken: VecDeque::new(),
            resting: Vec::new(),
            served: VecDeque::new(),
            changes: VecDeque::new(),
            watch: None,
            tally: Tally::default(),
        }
    }

    /// Keeps the dots and curves of pictures.
    pub(crate) fn with_picture(mut self) -> Self {
        self.tally.picture = Some(Picture::default());
        self
    }

    /// On a machine that may be busy with other work.
    pub(crate) fn on(self, busy: Option<Busy>) -> Self {
        Self { busy, ..self }
    }

    /// Adds changes of the storage, and keeps the course of the run.
    pub(crate) fn with_changes(self, changes: Vec<Change>, watch: Option<Watch>) -> Self {
        Self { changes: changes.into(), watch, ..self }
    }

    /// Adds faults, and a budget in pages that resident pages must never exceed.
    pub(crate) fn with_faults(self, faults: Faults, budget: u64) -> Self {
        Self { faults: Some(faults), budget, ..self }
    }

    /// A read must have memory before so many times the memory, and what waits, has arrived.
    pub(crate) fn with_patience(self, patience: u64) -> Self {
        Self { patience, ..self }
    }

    /// Adds what the driver tells policy besides reads.
    pub(crate) fn with_orders(self, orders: Orders) -> Self {
        Self { orders: Some(orders), ..self }
    }

    /// Runs all `readers` to their ends, with the reads of `together`.
    pub(crate) fn run(mut self, readers: Vec<Start<'w>>, together: Option<Together<'w>>) -> Result<Tally, Violation> {
        self.reading = readers.len();
        self.beside = readers.iter().filter(|start| start.beside).count();
        self.tally.readers(readers.iter().map(|start| (start.pattern.period_ns(), start.beside)));
        if let Some(watch) = self.watch {
            self.tally.watch(watch);
        }
        self.together = together;
        if let Some(together) = &mut self.together {
            together.end_at(self.until_ns);
        }
        for (number, start) in readers.into_iter().enumerate() {
            self.readers.push(Reader::new(start));
            self.enter(0, number);
        }
        while self.reading > 0 || self.together.as_ref().is_some_and(Together::goes_on) {
            let Some(next_ns) = self.next_ns() else {
                return Err(Violation::Stuck { readers: self.reading, at_ns: self.now_ns });
            };
            self.step(next_ns)?;
        }
        self.tally.end(self.now_ns);
        if self.faults.is_some() {
            self.close_all()?;
        }
        if let Storage::Mount(mount) = &mut self.storage {
            mount.close()?;
        }
        Ok(self.told())
    }

    /// The tally of the run; resident pages that no read used are waste.
    fn told(mut self) -> Tally {
        let unread = self.pages.values().filter(|page| page.back == 0 && page.is_unread());
        unread.for_each(|page| self.tally.wasted(RequestId(u64::from(page.request)), u64::from(page.pages)));
        if let Some(course) = &mut self.tally.course {
            let ahead = self.pages.values().filter(|page| page.back == 0 && page.is_ahead());
            course.ended(ahead.map(|page| u64::from(page.pages)).sum());
        }
        if let Some(tier) = &self.tier {
            self.tally.with_tier(tier.counts());
        }
        if let Storage::Mount(mount) = self.storage {
            self.tally.through(mount.told());
        }
        self.tally
    }

    /// The time of the next event.
    fn next_ns(&self) -> Option<u64> {
        let coming_ns = self.together.as_ref().filter(|_| self.queued < QUEUED_MAX).and_then(Together::due_ns);
        let reader_ns = self.agenda.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let refused_ns = self.refused.front().map(|&(at_ns, _)| at_ns);
        let trouble_ns = self.trouble.peek().map(|Reverse((at_ns, _))| *at_ns);
        let late_ns = self.late.peek().map(|Reverse((at_ns, _))| *at_ns);
        let storage_ns = self.storage.next_deadline();
        let tier_ns = self.tier.as_ref().and_then(|tier| tier.storage.next_deadline());
        let change_ns = self.changes.front().map(|change| change.at_ns);
        let deadlines = [change_ns, reader_ns, storage_ns, tier_ns, refused_ns, coming_ns, trouble_ns, late_ns];
        deadlines.into_iter().flatten().min()
    }

    /// Does everything due at `next_ns`, or earlier.
    fn step(&mut self, next_ns: u64) -> Result<(), Violation> {
        self.now_ns = self.now_ns.max(self.busy.map_or(next_ns, |busy| busy.notices(next_ns)));
        while let Some(change) = self.changes.pop_front_if(|change| change.at_ns <= next_ns) {
            self.storage.change(self.now_ns, change.device);
        }
        self.deliver()?;
        self.in_trouble()?;
        self.tell_late()?;
        self.take_what_came()?;
        self.wake()?;
        while let Some(&Reverse((at_ns, _, reader))) = self.agenda.peek() {
            if at_ns > self.now_ns {
                break;
            }
            self.agenda.pop();
            self.go_on(reader)?;
            self.wake()?;
        }
        // While reads lack memory, policy hears at once of those that were answered.
        while self.lacking > 0 && !self.answered.is_empty() {
            self.tell_answered()?;
            self.wake()?;
        }
        Ok(())
    }

    /// Gives readers their due reads.
    fn take_what_came(&mut self) -> Result<(), Violation> {
        while self.queued < QUEUED_MAX
            && let Some(together) = &mut self.together
            && let Some((number, op)) = together.next(self.now_ns)
        {
            together.end_at(self.until_ns);
            self.readers[number].queued.push_back(op);
            self.queued += 1;
            if std::mem::take(&mut self.readers[number].idle) {
                self.reading += 1;
                self.go_on(number)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, at_ns: u64, reader: usize) {
        self.entered += 1;
        self.agenda.push(Reverse((at_ns, self.entered, reader)));
    }
}
