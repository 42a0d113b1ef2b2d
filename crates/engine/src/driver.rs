//! The driver: tells policy what happened and executes its actions, one thread at a time.
//!
//! ```text
//!   a read that missed ─┐                                ┌─> begin: requests in place
//!   a task: wants, late ├─> enter: lock the shard, tell, ├─> wait_for: reads with known folios
//!   a request is over ──┘   execute, unlock ─────────────┴─> drop: folios that left their table
//!                              ^
//!   answered in place ── completed ── shard busy: the thread that has it tells policy on leaving
//!
//!   a hit ──> reference: first touches, kept in order until the next event
//! ```
//!
//! The driver starts requests (`requests/`) and is told what happens to them, as their [`Owner`].
//! Files, directories and submissions lie above it and call it.
//!
//! *Invariant:* policy's clock never goes back: the time is taken with the shard held.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::{Duration, Instant};

use foreread_backend::{Object, Submitter};
use foreread_policy::{Event, Extent, Found, Nanos, PAGE_BYTES, RequestId};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::pages::table::Lookup;
use crate::pages::waiting::Missed;
use crate::records::tap::Tap;
use crate::requests::attempt::silence;
use crate::requests::carrier::{Carrier, InPlace};
use crate::requests::fetch::fetch;
use crate::requests::filling::shut_down;
use crate::requests::in_place::begin;
use crate::requests::joint::{End, Joint};
use crate::requests::owner::{InFlight, Owner};
use crate::requests::storage::Storage;
use crate::shard::Shard;

/// Executes policy's actions.
pub(crate) struct Driver {
    pub(crate) storage: Storage,
    pub(crate) runtime: Handle,
    pub(crate) tap: Tap,
    /// The longest piece of a read that is fetched at once.
    pub(crate) read_bytes_max: u64,
    shard: Mutex<Shard>,
    /// First touches since the last event, in order.
    referenced: Mutex<Vec<Event>>,
    /// Requests in place that have been answered, and after how long.
    completed: Mutex<Vec<(Arc<InPlace>, Nanos)>>,
    next_reader: AtomicU64,
    started: Instant,
}

impl Driver {
    pub(crate) fn new(storage: Storage, runtime: Handle, shard: Shard, read_bytes_max: u64) -> Arc<Self> {
        let driver = Arc::new(Self {
            storage,
            runtime,
            tap: Tap::default(),
            read_bytes_max,
            shard: Mutex::new(shard),
            referenced: Mutex::new(Vec::new()),
            completed: Mutex::new(Vec::new()),
            next_reader: AtomicU64::new(0),
            started: Instant::now(),
        });
        if driver.storage.backend.submission().is_some() {
            driver.watch();
        }
        driver
    }

    /// Locks the shard for `f`, then does what is deferred: begins requests in place, completes
    /// reads, drops what is gone.
    pub(crate) fn enter<R>(self: &Arc<Self>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let result = self.with(self.shard.lock(), f);
        self.tell_completed();
        result
    }

    fn with<R>(self: &Arc<Self>, mut shard: MutexGuard<'_, Shard>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let result = f(&mut shard);
        let deferred = std::mem::take(&mut shard.deferred);
        shard.knows_touches = false;
        drop(shard);
        let plug = if deferred.begun.len() > 1 { self.storage.backend.submission().map(Submitter::plug) } else { None };
        for in_place in deferred.begun {
            begin(&in_place, InFlight::new(self));
        }
        drop(plug);
        for (pages, read) in deferred.ready {
            read.wait_for(pages);
        }
        result
    }

    /// Tells policy of `event`, after first touches that came before it, and executes its actions.
    pub(crate) fn tell(self: &Arc<Self>, shard: &mut Shard, event: Event) {
        let spawn = |joint| self.spawn(joint);
        let now = self.now();
        // No thread that holds the shard answers reads, so all touches came before it was locked.
        if !std::mem::replace(&mut shard.knows_touches, true) {
            let mut referenced = std::mem::take(&mut shard.referenced);
            std::mem::swap(&mut referenced, &mut self.referenced.lock());
            for event in referenced.drain(..) {
                shard.handle(now, event, &spawn);
            }
            shard.referenced = referenced;
        }
        shard.handle(now, event, &spawn);
        shard.retry_starved(|| self.now(), &spawn);
    }

    fn spawn(self: &Arc<Self>, joint: Joint) -> AbortHandle {
        self.runtime.spawn(fetch(InFlight::new(self), joint)).abort_handle()
    }

    /// `joint` is over: policy is told of each of its requests that has not been given up.
    fn settle(self: &Arc<Self>, shard: &mut Shard, joint: &Joint, end: End) {
        for (request, event) in joint.ends(end) {
            // What policy does about one may have given up another.
            if shard.finished(request) {
                self.tell(shard, event);
            }
        }
    }

    /// Tells policy of the requests that were answered in place, unless another thread has the
    /// shard: that one does, when it leaves it.
    fn tell_completed(self: &Arc<Self>) {
        while !self.completed.lock().is_empty() {
            let Some(shard) = self.shard.try_lock() else { return };
            let mut completed = self.with(shard, |shard| {
                let completed = std::mem::take(&mut *self.completed.lock());
                for (in_place, took) in &completed {
                    let end = End { arrived: u64::MAX, first_byte: *took, total: *took };
                    self.settle(shard, &in_place.joint, end);
                }
                completed
            });
            // What they hold is dropped without the shard, and their list is used again.
            completed.clear();
            let mut next = self.completed.lock();
            if next.capacity() == 0 {
                *next = completed;
            }
        }
    }

    /// Policy's clock.
    pub(crate) fn now(&self) -> Nanos {
        self.at(Instant::now())
    }

    /// A moment on policy's clock.
    pub(crate) fn at(&self, moment: Instant) -> Nanos {
        Nanos(moment.saturating_duration_since(self.started).as_nanos() as u64)
    }

    /// Opens an object. The file has one handle more.
    pub(crate) fn open(self: &Arc<Self>, object: &Object) -> Arc<Opened> {
        self.enter(|shard| {
            if let Some(opened) = shard.files.revive(object) {
                opened.handles.fetch_add(1, AcqRel);
                return opened;
            }
            let positioned = self.storage.backend.positioned(object);
            let opened = Opened::new(shard.files.next(), object.clone(), positioned);
            shard.files.add(&opened);
            let pages = opened.size().div_ceil(PAGE_BYTES);
            self.tell(shard, Event::Open { file: opened.id, pages });
            opened
        })
    }

    /// A number for an open, by which a recording tells it apart.
    pub(crate) fn next_reader(&self) -> u64 {
        self.next_reader.fetch_add(1, Relaxed)
    }

    /// The last handle of a file is gone.
    pub(crate) fn release(self: &Arc<Self>, opened: &Opened) {
        self.enter(|shard| {
            if opened.handles.load(Relaxed) > 0 {
                return;
            }
            self.tell(shard, Event::Release { file: opened.id });
            for file in shard.files.rest(opened) {
                self.tell(shard, Event::Forget { file });
                shard.files.forget(file);
            }
        });
    }

    /// A reader is about to be given `pages`.
    pub(crate) fn reference(&self, opened: &Opened, pages: &Pages) {
        let file = opened.id;
        let mut news = pages.reference().peekable();
        if news.peek().is_some() {
            let events = news.map(|(folio, touch)| Event::Referenced { file, start: folio.extent.start, touch });
            self.referenced.lock().extend(events);
        }
    }

    /// A read hit a marked folio.
    pub(crate) fn marked(self: &Arc<Self>, opened: &Opened, extent: Extent) {
        let event = Event::Read { file: opened.id, extent, found: Found::Resident, marked: true };
        self.enter(|shard| self.tell(shard, event));
    }

    /// Reads that did not find all their pages resident.
    pub(crate) fn read_missing(self: &Arc<Self>, reads: impl IntoIterator<Item = Arc<dyn Missed>>) {
        self.enter(|shard| reads.into_iter().for_each(|read| self.miss(shard, read)));
    }

    fn miss(self: &Arc<Self>, shard: &mut Shard, read: Arc<dyn Missed>) {
        let (mut found, mut marked) = (Found::Absent, false);
        // What is resident or in flight is pinned: policy may decide to drop a part of it now.
        let mut pinned = read.look_up();
        if let Lookup::Present(pages) = &pinned {
            marked = pages.take_marks();
            found = Found::Resident;
            for folio in pages.folios().iter().filter(|folio| !folio.is_resident()) {
                folio.request.demand();
                found = Found::InFlight;
            }
        }
        if found != Found::Resident || marked {
            let (file, extent) = (read.file(), read.extent());
            self.tell(shard, Event::Read { file, extent, found, marked });
        }
        if matches!(pinned, Lookup::Absent) {
            pinned = read.look_up();
        }
        shard.wait_for(pinned, read);
    }

    /// Gives up on requests in place that have no answer when patience ends. Runs until the engine
    /// is gone.
    fn watch(self: &Arc<Self>) {
        let (driver, patience) = (Arc::downgrade(self), self.storage.patience.total);
        let step = (patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(step).await;
                let Some(driver) = driver.upgrade() else { return };
                driver.give_up_silent(patience);
            }
        });
    }

    fn give_up_silent(self: &Arc<Self>, patience: Duration) {
        let silent: Vec<(RequestId, Arc<InPlace>)> = self.enter(|shard| {
            let silent: Vec<_> = shard.in_place().filter(|(_, in_place)| in_place.age() >= patience).collect();
            for (request, _) in &silent {
                if shard.finished(*request) {
                    self.tell(shard, Event::Failed { request: *request });
                }
            }
            silent
        });
        for (_, in_place) in silent {
            self.storage.stats.demand_failed.fetch_add(1, Relaxed);
            let key = in_place.joint.opened.object.key.as_str();
            in_place.fail(&silence("read", key, patience));
        }
    }

    /// The engine is shut down: the record is written out, and requests that wait for their turn
    /// fail.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        let waiting = self.enter(|shard| {
            shard.flush_record();
            shard.give_up_waiting()
        });
        let error = shut_down();
        for folio in waiting {
            folio.fill(Err(error.clone()));
        }
    }
}

impl Owner for Driver {
    fn storage(&self) -> &Storage {
        &self.storage
    }

    fn wants(self: &Arc<Self>, request: RequestId) {
        self.enter(|shard| self.tell(shard, Event::Wants { request }));
    }

    fn late(self: &Arc<Self>, request: RequestId) {
        self.enter(|shard| {
            if shard.counts(request) {
                self.tell(shard, Event::Late { request });
            }
        });
    }

    fn over(self: &Arc<Self>, joint: &Joint, end: End) {
        self.enter(|shard| self.settle(shard, joint, end));
    }

    fn over_unless_demanded(self: &Arc<Self>, joint: &Joint, end: End) -> bool {
        self.enter(|shard| {
            let over = !joint.is_demanded(end.arrived);
            if over {
                self.storage.stats.speculation_failed.fetch_add(1, AcqRel);
                self.settle(shard, joint, end);
            }
            over
        })
    }

    fn completed(self: &Arc<Self>, in_place: Arc<InPlace>, took: Nanos, last: bool) {
        self.completed.lock().push((in_place, took));
        if last {
            self.tell_completed();
        }
    }

    fn carry_by_task(in_flight: InFlight<Self>, joint: &Joint) {
        let driver = Arc::clone(in_flight.owner());
        driver.enter(|shard| {
            if joint.members().iter().any(|member| shard.counts(member.id())) {
                let task = driver.runtime.spawn(fetch(in_flight, joint.clone()));
                shard.carry(joint.members(), &Carrier::Task(Arc::new(task.abort_handle())));
            }
        });
    }
}
