//! The driver: tells policy what happened and executes its actions, one thread at a time.
//!
//! ```text
//!   a read that missed ─┐                                ┌─> begin: requests in place
//!   a task: wants, late ├─> enter: lock the shard, tell, ├─> wait_for: reads that are ready
//!   a request is over ──┘   execute, unlock ─────────────┴─> drop: folios that left their table
//!                              ^
//!   answered in place ── completed ── shard busy: the thread that has it tells policy on leaving
//!   a read is answered ── answered ─┘
//!
//!   a hit ──> reference: first touches, kept in order until the next event
//! ```
//!
//! The driver starts requests (`requests/`) and is told what happens to them, as their [`Owner`].
//! Files, directories and submissions lie above it and call it.
//!
//! *Invariant:* policy's clock never goes back: the time is taken with the shard held.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use foreread_backend::lock::{Mutex, MutexGuard};
use foreread_backend::{Key, Object, Submitter};
use foreread_policy::{Chunks, DirReadahead, Ends, Event, Extent, Found, Nanos, PAGE_BYTES, ReadId, RequestId, Source};
use foreread_tier::{ObjectId, Watch};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::error::Error;
use crate::offers::Offers;
use crate::pages::opened::Opened;
use crate::pages::pinned::Pages;
use crate::pages::request::Request;
use crate::pages::table::Lookup;
use crate::pages::waiting::Missed;
use crate::records::tap::Tap;
use crate::requests::attempt::{silence, was_stopped};
use crate::requests::carrier::{Carrier, InPlace};
use crate::requests::fetch::fetch;
use crate::requests::filling::shut_down;
use crate::requests::from_tier::TIER_PATIENCE;
use crate::requests::in_place::begin;
use crate::requests::joint::{End, Joint};
use crate::requests::owner::{Broken, InFlight, Owner};
use crate::requests::storage::Storage;
use crate::shard::Shard;
use crate::survival::failed_itself;

/// Executes policy's actions.
pub(crate) struct Driver {
    pub(crate) storage: Storage,
    pub(crate) runtime: Handle,
    pub(crate) tap: Tap,
    shard: Mutex<Shard>,
    /// First touches and answered reads since the last event, in order.
    answered: Mutex<Vec<Event>>,
    /// Reads that policy has been told of and that lack memory.
    lacking: AtomicUsize,
    news: Mutex<News>,
    offers: Arc<Offers>,
    /// The memory of the tier that policy knows of, in bytes.
    tier_bytes: AtomicU64,
    next_reader: AtomicU64,
    /// Files that were closed, and what was read of their ends: the last ones.
    closed: Mutex<Vec<(Key, Ends)>>,
    /// The chunks of the file whose footer was read last.
    pub(crate) latest_chunks: Mutex<Option<Chunks>>,
    started: Instant,
}

/// What policy is told of by the thread that has the shard, on leaving it.
#[derive(Default)]
struct News {
    /// Requests in place that have been answered, and after how long.
    completed: Vec<(Arc<InPlace>, Nanos)>,
    broken: Vec<Broken>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.completed.is_empty() && self.broken.is_empty()
    }
}

impl Driver {
    pub(crate) fn new(storage: Storage, runtime: Handle, shard: Shard) -> Arc<Self> {
        let driver = Arc::new(Self {
            storage,
            runtime,
            tap: Tap::default(),
            shard: Mutex::new(shard),
            answered: Mutex::new(Vec::new()),
            lacking: AtomicUsize::new(0),
            news: Mutex::default(),
            offers: Arc::default(),
            tier_bytes: AtomicU64::new(0),
            next_reader: AtomicU64::new(1 << 32),
            closed: Mutex::default(),
            latest_chunks: Mutex::default(),
            started: Instant::now(),
        });
        if let Some(tier) = &driver.storage.tier {
            tier.watch(Arc::new(Watching(Arc::downgrade(&driver))));
        }
        if driver.storage.backend.submission().is_some() || driver.storage.tier.is_some() {
            driver.watch();
        }
        driver
    }

    /// Locks the shard for `f`, then does what is deferred: begins requests in place, completes
    /// reads, drops what is gone.
    pub(crate) fn enter<R>(self: &Arc<Self>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let within = Within::new(self);
        let result = self.with(self.shard.lock(), f);
        if within.is_outermost {
            self.catch_up();
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// If `f` panics, what it has left to do for others is done nevertheless.
    fn with<R>(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        f: impl FnOnce(&mut Shard) -> R,
    ) -> thread::Result<R> {
        let result = catch_unwind(AssertUnwindSafe(|| f(&mut shard)));
        let deferred = std::mem::take(&mut shard.deferred);
        shard.knows_answers = false;
        // Stored before the shard is free: see `catch_up`.
        self.lacking.store(shard.lacking(), SeqCst);
        let offering = self.offers.begin(deferred.offered);
        drop(shard);
        let plug = if deferred.begun.len() > 1 { self.storage.backend.submission().map(Submitter::plug) } else { None };
        let stats = &self.storage.stats;
        for in_place in deferred.begun {
            stats.survive("a read in place", || begin(&in_place, InFlight::new(self)));
        }
        drop(plug);
        if let Some(offering) = offering {
            offering.offer();
        }
        for (pages, read) in deferred.ready {
            read.wait_for(pages);
        }
        for (error, read) in deferred.failed {
            read.fail(error);
        }
        for folio in deferred.gone.iter().filter(|folio| folio.request.is_given_up()) {
            folio.fill(Err(shut_down()));
        }
        stats.survive("the end of a request", || drop((deferred.over, deferred.gone)));
        result
    }

    /// Tells policy of `event`, after what was answered before it, and executes its actions.
    pub(crate) fn tell(self: &Arc<Self>, shard: &mut Shard, event: Event) {
        self.tell_what_came_before(shard);
        shard.handle(self.now(), event, &|joint| self.spawn(joint));
    }

    fn tell_what_came_before(self: &Arc<Self>, shard: &mut Shard) {
        // No thread that holds the shard answers reads: all answers came before it was locked.
        if !std::mem::replace(&mut shard.knows_answers, true) {
            self.tell_answered(shard);
        }
    }

    fn tell_answered(self: &Arc<Self>, shard: &mut Shard) {
        let now = self.now();
        let mut answered = std::mem::take(&mut shard.answered);
        std::mem::swap(&mut answered, &mut self.answered.lock());
        for event in answered.drain(..) {
            shard.handle(now, event, &|joint| self.spawn(joint));
        }
        shard.answered = answered;
        if self.storage.tier.is_some() {
            for event in self.offers.take_written() {
                shard.handle(now, event, &|joint| self.spawn(joint));
                self.tell_tier(shard, now);
            }
        }
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

    /// `joint` has failed with `error` when patience ended. So do the reads that wait for pages of
    /// it that had no memory yet, if they have waited for so long that they would not be made anew
    /// (`Reader::begins_anew`): else they would have a request of their own now, and patience once
    /// more.
    fn fail(self: &Arc<Self>, shard: &mut Shard, joint: &Joint, end: End, error: &Error) {
        let (file, longest) = (joint.opened.id, self.storage.patience.first_byte);
        for extent in joint.lacking(end.arrived) {
            for (read, missed) in shard.take_lacking(file, extent, longest) {
                missed.untold();
                self.tell(shard, Event::Answered { read });
                shard.deferred.failed.push((error.clone(), missed));
            }
        }
        self.settle(shard, joint, end);
    }

    /// Tells policy of requests that were answered in place, and, while reads lack memory, of
    /// reads that were answered; unless another thread has the shard: that one does, when it
    /// leaves it.
    ///
    /// No answer is left untold while a read lacks memory: the thread that has the shard stores
    /// `lacking` before it looks for answers here, and the thread that answers a read leaves word
    /// of it before it looks at `lacking`.
    fn catch_up(self: &Arc<Self>) {
        let _within = Within::new(self);
        while !self.news.lock().is_empty() || (self.lacking.load(SeqCst) > 0 && !self.answered.lock().is_empty()) {
            let Some(shard) = self.shard.try_lock() else { return };
            let mut told = std::mem::take(&mut *self.news.lock());
            let caught_up = self.with(shard, |shard| {
                for (in_place, took) in &told.completed {
                    let end = End { arrived: u64::MAX, first_byte: *took, silence: *took, total: *took };
                    self.settle(shard, &in_place.joint, end);
                }
                for broken in &told.broken {
                    self.settle(shard, &broken.joint, End::of_nothing());
                }
                if told.is_empty() {
                    self.tell_answered(shard);
                }
            });
            for broken in told.broken {
                let error = if broken.panicked { failed_itself() } else { shut_down() };
                broken.unfilled.iter().for_each(|folio| folio.fill(Err(error.clone())));
            }
            // What they hold is dropped without the shard, and their list is used again.
            told.completed.clear();
            let mut next = self.news.lock();
            if next.completed.capacity() == 0 {
                next.completed = told.completed;
            }
            drop(next);
            if let Err(panic) = caught_up {
                resume_unwind(panic);
            }
        }
    }

    /// When policy's clock began.
    pub(crate) fn started(&self) -> Instant {
        self.started
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
            if let Some((opened, was_idle)) = shard.files.revive(object) {
                opened.handles.fetch_add(1, AcqRel);
                if was_idle {
                    let pages = opened.size().div_ceil(PAGE_BYTES);
                    self.tell(shard, Event::Open { file: opened.id, pages });
                }
                return opened;
            }
            let positioned = self.storage.backend.positioned(object);
            let opened = Opened::new(shard.files.next(), object.clone(), positioned, self.storage.kept(object));
            shard.files.add(&opened);
            let pages = opened.size().div_ceil(PAGE_BYTES);
            self.tell(shard, Event::Open { file: opened.id, pages });
            if opened.is_named_for_parts() {
                self.tell(shard, Event::Parts { file: opened.id });
            }
            for event in opened.cached() {
                self.tell(shard, event);
            }
            self.tell_tier(shard, self.now());
            opened
        })
    }

    /// Tells policy of the memory that the tier takes, if that has changed by a step.
    fn tell_tier(self: &Arc<Self>, shard: &mut Shard, now: Nanos) {
        let Some(tier) = &self.storage.tier else { return };
        let bytes = tier.memory_bytes() + shard.files.kept_bytes();
        if bytes.abs_diff(self.tier_bytes.load(Relaxed)) >= TIER_STEP {
            self.tier_bytes.store(bytes, Relaxed);
            shard.handle(now, Event::Tier { bytes }, &|joint| self.spawn(joint));
        }
    }

    /// Waits until the tier has what was read so far, or will not have it, but no longer than this
    /// for each time that its queue was full.
    pub(crate) fn flush_tier(self: &Arc<Self>, longest: Duration) {
        let Some(tier) = &self.storage.tier else { return };
        let _entered = self.runtime.enter();
        let mut before = usize::MAX;
        loop {
            // First touches are told of with the next event, which may not come.
            self.enter(|shard| self.tell_what_came_before(shard));
            let later = self.offers.settle();
            let is_written = tier.flush_within(longest);
            // While writing pauses, there is never room for them.
            if later == 0 || later >= before || !is_written {
                return;
            }
            before = later;
        }
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
            shard.files.rest(opened);
            opened.rest();
            self.tell(shard, Event::Release { file: opened.id });
            let ends = opened.uses.take_ends();
            if !ends.is_empty() && DirReadahead::reads_ends(opened.size()) {
                let mut closed = self.closed.lock();
                if closed.len() == CLOSED_MAX {
                    closed.remove(0);
                }
                closed.push((opened.object.key.clone(), ends));
            }
        });
    }

    /// The files that were closed since this was asked last, and what was read of their ends.
    pub(crate) fn take_closed(&self) -> Vec<(Key, Ends)> {
        std::mem::take(&mut self.closed.lock())
    }

    /// A reader is about to be given `pages`, which were resident.
    pub(crate) fn reference(&self, opened: &Opened, pages: &Pages) {
        let mut news = touches(opened, pages).peekable();
        if news.peek().is_some() {
            self.answered.lock().extend(news);
        }
    }

    /// A reader that waited is about to be given `pages`, or an error. Policy knows the read as
    /// `read`, if it was told of it.
    pub(crate) fn answered(self: &Arc<Self>, opened: &Opened, pages: Option<&Pages>, read: Option<ReadId>) {
        let touched = pages.into_iter().flat_map(|pages| touches(opened, pages));
        let answered = read.map(|read| Event::Answered { read });
        self.answered.lock().extend(touched.chain(answered));
        if self.lacking.load(SeqCst) > 0 && !Within::is_inside(self) {
            self.catch_up();
        }
    }

    /// A read hit a marked folio.
    pub(crate) fn marked(self: &Arc<Self>, opened: &Opened, extent: Extent) {
        self.enter(|shard| {
            let read = shard.next_read();
            self.tell(shard, Event::Read { read, file: opened.id, extent, found: Found::Resident, marked: true });
        });
    }

    /// Reads that did not find all their pages resident.
    pub(crate) fn read_missing(self: &Arc<Self>, reads: impl IntoIterator<Item = Arc<dyn Missed>>) {
        self.enter(|shard| {
            for read in reads {
                let same = Arc::clone(&read);
                if self.storage.stats.survive("a read that misses", || self.miss(shard, read)).is_none() {
                    shard.deferred.failed.push((failed_itself(), same));
                }
            }
        });
    }

    fn miss(self: &Arc<Self>, shard: &mut Shard, missed: Arc<dyn Missed>) {
        let (file, extent) = (missed.file(), missed.extent());
        let (mut found, mut marked) = (Found::Absent, false);
        if let Lookup::Present(pages) = missed.look_up(u64::MAX) {
            marked = pages.take_marks();
            found = if pages.is_resident() { Found::Resident } else { Found::InFlight };
            if found == Found::Resident {
                // They have come meanwhile. The read has them, whatever policy decides at a mark.
                shard.deferred.ready.push((pages, Arc::clone(&missed)));
            }
        }
        if found != Found::Resident {
            // If policy panics over what came before, its successor must not know the read yet.
            self.tell_what_came_before(shard);
            let read = shard.wait_for(missed);
            self.tell(shard, Event::Read { read, file, extent, found, marked });
        } else if marked {
            let read = shard.next_read();
            self.tell(shard, Event::Read { read, file, extent, found, marked });
        }
    }

    /// Gives up on requests in place that have no answer when patience ends, counted anew after
    /// the process was stopped. Runs until the engine is gone.
    fn watch(self: &Arc<Self>) {
        let (driver, patience) = (Arc::downgrade(self), self.storage.patience.total);
        let step = (patience / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        self.runtime.spawn(async move {
            let mut awake_since = Instant::now();
            loop {
                let began = Instant::now();
                tokio::time::sleep(step).await;
                if was_stopped(began, step) {
                    awake_since = Instant::now();
                }
                let Some(driver) = driver.upgrade() else { return };
                if awake_since.elapsed() >= TIER_PATIENCE {
                    driver.pass_silent_tier();
                }
                if awake_since.elapsed() >= patience {
                    driver.give_up_silent(patience);
                }
            }
        });
    }

    /// What the tier does not answer, the storage is asked for.
    fn pass_silent_tier(self: &Arc<Self>) {
        let Some(tier) = &self.storage.tier else { return };
        let is_silent =
            |in_place: &Arc<InPlace>| in_place.joint.source == Source::Tier && in_place.age() >= TIER_PATIENCE;
        let silent: Vec<_> = self.enter(|shard| shard.in_place().filter(is_silent).collect());
        for in_place in silent {
            if in_place.take() {
                tier.fell_silent();
                Self::carry_by_task(InFlight::new(self), &in_place.joint);
            }
        }
    }

    fn give_up_silent(self: &Arc<Self>, patience: Duration) {
        let error = |in_place: &InPlace| silence("read", in_place.joint.opened.object.key.as_str(), patience);
        let silent: Vec<Arc<InPlace>> = self.enter(|shard| {
            let known: Vec<_> = shard.in_place().filter(|in_place| in_place.age() >= patience).collect();
            for in_place in &known {
                let end = End::of_nothing();
                self.fail(shard, &in_place.joint, end, &error(in_place));
            }
            known.into_iter().chain(shard.take_outlived(patience)).collect()
        });
        for in_place in silent {
            self.storage.stats.demand_failed.fetch_add(1, Relaxed);
            in_place.fail(&error(&in_place));
        }
    }

    /// The engine is shut down: the record is written out, and requests that wait for their turn
    /// fail, as do reads that wait for memory.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        // On any thread: policy's clock is the runtime's.
        let _entered = self.runtime.enter();
        let (waiting, lacking) = self.enter(|shard| {
            shard.flush_record();
            (shard.give_up_waiting(), shard.give_up_lacking())
        });
        let error = shut_down();
        for read in lacking {
            read.fail(error.clone());
        }
        for folio in waiting {
            folio.fill(Err(error.clone()));
        }
        // The process may end before the last of this driver does.
        self.flush_tier(LAST_WRITE);
    }
}

/// Has policy hear of what comes to the tier and leaves it without an offer of this engine.
struct Watching(Weak<Driver>);

impl Watch for Watching {
    fn changed(&self, pieces: &[(ObjectId, Range<u64>)], are_kept: bool) {
        let Some(driver) = self.0.upgrade() else { return };
        // A thread of the tier: policy's clock is the runtime's.
        let _entered = driver.runtime.enter();
        for pieces in pieces.chunks(PIECES_AT_ONCE) {
            driver.enter(|shard| {
                for (object, pages) in pieces {
                    let Some(file) = shard.files.kept(*object) else { continue };
                    let extent = Extent::new(pages.start, pages.end);
                    let event =
                        if are_kept { Event::Cached { file, extent } } else { Event::Uncached { file, extent } };
                    driver.tell(shard, event);
                }
            });
        }
    }

    fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// How long the end of an engine waits for the tier to write what was read last. Lower: of a slow
/// disk's queue, less is kept. Higher: a program hangs for longer at its end where a disk does.
/// Source: a guess; a disk of 10 MB/s writes a whole queue.
pub(crate) const LAST_WRITE: Duration = Duration::from_secs(2);

/// By so much the memory of the tier changes before policy is told, 256 KiB. Lower: more events.
/// Higher: more is held than is charged.
const TIER_STEP: u64 = 256 << 10;

/// Pieces that policy is told of in one go. Lower: the shard is locked more often. Higher: reads
/// wait for it longer. Source: a guess; the records of one segment of large files, .1 ms.
const PIECES_AT_ONCE: usize = 512;

/// The touches of a read of `pages` that policy does not know of.
fn touches(opened: &Opened, pages: &Pages) -> impl Iterator<Item = Event> {
    let file = opened.id;
    pages.reference().map(move |(folio, touch)| {
        let (start, request) = (folio.extent.start, folio.request.id());
        Event::Referenced { file, start, request, touch }
    })
}

thread_local! {
    /// The drivers that this thread is in, by their addresses.
    static INSIDE: RefCell<SmallVec<[usize; 2]>> = const { RefCell::new(SmallVec::new_const()) };
}

/// This thread is in a driver, and looks for news before it leaves it. So a request that is
/// answered while the thread begins it, or a read that is answered while it leaves the shard, is
/// told from a loop, however many there are: not from the stack of the one before.
struct Within {
    is_outermost: bool,
}

impl Within {
    fn new(driver: &Driver) -> Self {
        let is_outermost = !Self::is_inside(driver);
        INSIDE.with_borrow_mut(|inside| inside.push(std::ptr::from_ref(driver).addr()));
        Self { is_outermost }
    }

    fn is_inside(driver: &Driver) -> bool {
        INSIDE.with_borrow(|inside| inside.contains(&std::ptr::from_ref(driver).addr()))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(SmallVec::pop);
    }
}

impl Owner for Driver {
    fn storage(&self) -> &Storage {
        &self.storage
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn wants(self: &Arc<Self>, request: RequestId) {
        self.enter(|shard| self.tell(shard, Event::Wants { request }));
    }

    fn late(self: &Arc<Self>, request: RequestId, silence: Nanos) {
        self.enter(|shard| {
            if shard.counts(request) {
                self.tell(shard, Event::Late { request, silence });
            }
        });
    }

    fn over(self: &Arc<Self>, joint: &Joint, end: End) {
        self.enter(|shard| self.settle(shard, joint, end));
    }

    fn failed(self: &Arc<Self>, joint: &Joint, end: End, error: &Error) {
        self.enter(|shard| self.fail(shard, joint, end, error));
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
        self.news.lock().completed.push((in_place, took));
        if last && !Within::is_inside(self) {
            self.catch_up();
        }
    }

    fn broken(self: &Arc<Self>, broken: Broken) {
        self.storage.stats.panics.fetch_add(u64::from(broken.panicked), Relaxed);
        self.news.lock().broken.push(broken);
        if !Within::is_inside(self) {
            self.catch_up();
        }
    }

    fn carry_by_task(in_flight: InFlight<Self>, joint: &Joint) {
        let driver = Arc::clone(in_flight.owner());
        driver.enter(|shard| {
            if joint.source == Source::Tier {
                driver.tell(shard, Event::Uncached { file: joint.opened.id, extent: joint.extent() });
            }
            let is_needed = |member: &Arc<Request>| shard.counts(member.id()) || member.is_needed_still();
            if joint.members().iter().any(is_needed) {
                let task = driver.runtime.spawn(fetch(in_flight, joint.clone()));
                shard.carry(joint.members(), &Carrier::Task(Arc::new(task.abort_handle())));
            }
        });
    }
}

/// Files that were closed and of which policy is not told yet, at most: it is told at the next
/// open. Lower: some are not told of where many are closed at once. Higher: more memory.
const CLOSED_MAX: usize = 64;
