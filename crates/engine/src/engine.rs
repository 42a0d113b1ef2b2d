//! The engine: owns the runtime, the shard and the files, and retries what has no shard to protect (stat, list).

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use foreread_backend::{Backend, Key, ListPage, Object, Submitter, Version};
use foreread_policy::{Event, Extent, FileId, Found, Nanos, PAGE_BYTES, ReadPath, Replacement};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Handle, Runtime};

use crate::directories::{Directories, Prefetched};
use crate::error::{Error, ErrorKind};
use crate::fetch::{Backoff, Held, attempt};
use crate::file::{File, Opened};
use crate::in_place::InPlace;
use crate::numbers::Numbers;
use crate::options::{Options, Patience};
use crate::page_table::{Lookup, Pages};
use crate::record::Recorder;
use crate::segments::From;
use crate::shard::Shard;
use crate::stats::{Counters, Stats};
use crate::tap::{Recorded, Tap};
use crate::waiting::Waiting;

/// Reads objects of one backend ahead of their readers, within one memory budget. Clones share everything.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    runtime: Arc<Owned>,
}

/// The runtime, ended without waiting for storage: the last engine may be dropped on one of its own threads.
struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// What the engine's parts share.
pub(crate) struct Inner {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: Handle,
    shard: Mutex<Shard>,
    /// First touches since the last event, in order.
    referenced: Mutex<Vec<Event>>,
    /// Requests in place that have been answered, and after how long.
    completed: Mutex<Vec<(Arc<InPlace>, Nanos)>>,
    pub(crate) stats: Counters,
    pub(crate) tap: Tap,
    next_reader: AtomicU64,
    pub(crate) patience: Patience,
    pub(crate) directories: Directories,
    pub(crate) metadata_ttl: Duration,
    started: Instant,
    pub(crate) read_bytes_max: u64,
}

impl Engine {
    /// An engine in front of `backend`. Starts its threads: fork before, not after.
    ///
    /// Errors: [`ErrorKind::Invalid`] for a budget below 16 MiB; [`ErrorKind::Io`] when threads or the record cannot be made.
    pub fn new(backend: Arc<dyn Backend>, options: &Options) -> Result<Self, Error> {
        if options.memory_bytes < MEMORY_BYTES_MIN {
            let text =
                format!("a memory budget of {} bytes is below the least of {MEMORY_BYTES_MIN}", options.memory_bytes);
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let policy = foreread_policy::Options {
            capacity_bytes: options.memory_bytes,
            readahead: options.readahead,
            replacement: Replacement::default(),
            rotational: backend.capabilities().rotational,
            fair_queue: options.fair_queue,
        };
        let recorder = match &options.record {
            Some(path) => Some(
                Recorder::create(path, policy)
                    .map_err(|e| Error::new(ErrorKind::Io, format!("cannot record to {}: {e}", path.display())))?,
            ),
            None => None,
        };
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(THREADS_MAX);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("foreread-io")
            .enable_all()
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start threads: {e}")))?;
        let (memory_bytes, list_after) = (options.memory_bytes, backend.capabilities().list_after);
        let inner = Inner {
            backend,
            runtime: runtime.handle().clone(),
            shard: Mutex::new(Shard::new(ReadPath::new(policy), recorder)),
            referenced: Mutex::new(Vec::new()),
            completed: Mutex::new(Vec::new()),
            stats: Counters::default(),
            tap: Tap::default(),
            next_reader: AtomicU64::new(0),
            patience: options.patience,
            directories: Directories::new(memory_bytes, options.metadata_ttl, options.readahead, list_after),
            metadata_ttl: options.metadata_ttl,
            started: Instant::now(),
            read_bytes_max: options.memory_bytes / 8,
        };
        let inner = Arc::new(inner);
        if inner.backend.submission().is_some() {
            inner.watch();
        }
        Ok(Self { inner, runtime: Arc::new(Owned(Some(runtime))) })
    }

    /// The runtime that carries requests; front doors spawn on it.
    pub fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// The storage.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// Describes an object, retrying within [`Patience`]. Under any executor; without one, see [`Engine::block_on`].
    pub async fn stat(&self, key: &Key) -> Result<Object, Error> {
        self.on_runtime(self.inner.stat(key)).await
    }

    /// One page of the direct children of `prefix`, retrying within [`Patience`]. Under any executor.
    pub async fn list(&self, prefix: &str, continuation: Option<&str>) -> Result<ListPage, Error> {
        let from = continuation.map_or(From::Start, |token| From::Token(token.to_owned()));
        self.on_runtime(self.inner.list(prefix, &from)).await
    }

    /// Opens an object, pinned to the version that `object` says. No I/O.
    pub fn open(&self, object: &Object) -> File {
        let file = self.inner.open(object);
        self.inner.directories.opened(&self.inner, object, file.found());
        file
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Starts to record what is read. `false` if somebody else is at it.
    pub fn start_recording(&self) -> bool {
        self.inner.tap.start()
    }

    /// What has been read since this was last called, as much as fits into `bytes` of JSON; `last` ends the recording. Whoever does not
    /// call for five seconds has ended it as well.
    pub fn recorded(&self, bytes: usize, last: bool) -> Recorded {
        self.inner.tap.take(bytes, last)
    }

    /// Whether it has opened `file`.
    pub(crate) fn has(&self, file: &File) -> bool {
        Arc::ptr_eq(&self.inner, &file.engine)
    }

    /// Reads of its files that did not find all their pages resident.
    pub(crate) fn read_missing(&self, reads: impl IntoIterator<Item = Arc<Waiting>>) {
        self.inner.read_missing(reads);
    }

    /// What it has done so far and holds now.
    pub fn stats(&self) -> Stats {
        let (counters, memory) = self.inner.enter(|shard| (shard.policy.counters(), shard.policy.memory()));
        let mechanism = self.inner.backend.submission().map(Submitter::mechanism);
        self.inner.stats.snapshot(counters, memory, self.inner.directories.counters(), mechanism)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("backend", &self.inner.backend.describe()).finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if Arc::strong_count(&self.runtime) == 1 {
            let waiting = self.inner.enter(|shard| {
                shard.flush_record();
                shard.give_up_waiting()
            });
            let error = Error::new(ErrorKind::Io, "the engine has been shut down");
            for folio in waiting {
                folio.fill(Err(error.clone()));
            }
        }
    }
}

impl Inner {
    /// Describes an object.
    async fn stat(&self, key: &Key) -> Result<Object, Error> {
        self.stats.stats.fetch_add(1, Relaxed);
        let mut backoff = Backoff::new(self.patience.total);
        loop {
            match attempt(self.patience.first_byte, "stat", key.as_str(), self.backend.stat(key)).await {
                Ok(object) => return Ok(object),
                Err(failure) => backoff.wait(failure).await?,
            }
            self.stats.retries.fetch_add(1, Relaxed);
        }
    }

    /// One page of the direct children of `prefix`.
    pub(crate) async fn list(&self, prefix: &str, from: &From) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, ?from, "listing");
        let mut backoff = Backoff::new(self.patience.total);
        loop {
            let list = match from {
                From::Start => self.backend.list(prefix, None),
                From::Token(token) => self.backend.list(prefix, Some(token)),
                From::After(after) => self.backend.list_after(prefix, after),
            };
            match attempt(self.patience.first_byte, "list", prefix, list).await {
                Ok(page) => return Ok(page),
                Err(failure) => backoff.wait(failure).await?,
            }
            self.stats.retries.fetch_add(1, Relaxed);
        }
    }

    /// One page of all that lies below `prefix`, after `after`. Nobody waits for it, so it is asked for once.
    pub(crate) async fn list_below(&self, prefix: &str, after: &str) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, after, "listing all that lies below");
        let list = self.backend.list_below(prefix, after);
        attempt(self.patience.first_byte, "list", prefix, list).await.map_err(|failure| failure.error)
    }

    /// Has all of `object` fetched, which nobody has asked for. If it comes, `done` is told whether it has.
    pub(crate) fn prefetch(
        self: &Arc<Self>,
        object: &Object,
        done: impl FnOnce(bool) + Send + Sync + 'static,
    ) -> Prefetched {
        let file = self.open(object);
        let len = object.version.size as usize;
        if file.found() == Found::Resident {
            return Prefetched::Resident;
        }
        self.enter(|shard| self.tell(shard, Event::Prefetch { file: file.opened.id }));
        let Lookup::Present(pages) = file.opened.table.look_up(0, len) else { return Prefetched::Refused };
        let prefetch: Held = Arc::new(Prefetch { file: Some(file), done: Some(Box::new(done)) });
        self.enter(|shard| {
            for folio in pages.folios() {
                if shard.counts(folio.fetch.request()) {
                    folio.fetch.hold(Arc::clone(&prefetch));
                }
            }
        });
        Prefetched::Coming
    }

    /// Lets go of what was fetched of `object` for whoever did not come.
    pub(crate) fn discard(self: &Arc<Self>, object: &Object) {
        self.enter(|shard| {
            if let Some(file) = shard.idle_file(&(object.key.clone(), object.version.clone())) {
                self.tell(shard, Event::Discard { file });
            }
        });
    }

    /// Opens an object.
    fn open(self: &Arc<Self>, object: &Object) -> File {
        let opened = self.enter(|shard| {
            let identity = (object.key.clone(), object.version.clone());
            if let Some(opened) = shard.revive(&identity) {
                opened.handles.fetch_add(1, AcqRel);
                return opened;
            }
            let opened = Arc::new(Opened {
                id: shard.next_file(),
                object: object.clone(),
                table: crate::page_table::PageTable::default(),
                positioned: self.backend.positioned(object),
                handles: AtomicUsize::new(1),
            });
            shard.add(identity, &opened);
            let pages = object.version.size.div_ceil(PAGE_BYTES);
            self.tell(shard, Event::Open { file: opened.id, pages });
            opened
        });
        let reader = self.next_reader.fetch_add(1, Relaxed);
        File { engine: Arc::clone(self), opened, reader }
    }
    /// Runs `f` with the shard; then, without it, begins the requests that are answered in place and completes the reads that this has
    /// readied.
    pub(crate) fn enter<R>(self: &Arc<Self>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let result = self.with(self.shard.lock(), f);
        self.tell_completed();
        result
    }

    /// A request in place has been answered, `took` after it was submitted. Policy is told of it when it was the `last` of those that were over
    /// together. Does not wait for the shard: whoever has it tells.
    pub(crate) fn complete(self: &Arc<Self>, in_place: Arc<InPlace>, took: Nanos, last: bool) {
        self.completed.lock().push((in_place, took));
        if last {
            self.tell_completed();
        }
    }

    /// Tells policy of what has been answered in place, unless somebody else has the shard, who will when he has left it.
    fn tell_completed(self: &Arc<Self>) {
        while !self.completed.lock().is_empty() {
            let Some(shard) = self.shard.try_lock() else { return };
            let mut completed = self.with(shard, |shard| {
                let completed = std::mem::take(&mut *self.completed.lock());
                for (in_place, took) in &completed {
                    in_place.joint().settle(self, shard, u64::MAX, *took, *took);
                }
                completed
            });
            // What they held is given back without the shard, and their list is used again.
            completed.clear();
            let mut next = self.completed.lock();
            if next.capacity() == 0 {
                *next = completed;
            }
        }
    }

    fn with<R>(self: &Arc<Self>, mut shard: MutexGuard<'_, Shard>, f: impl FnOnce(&mut Shard) -> R) -> R {
        let result = f(&mut shard);
        let (begun, ready) = (std::mem::take(&mut shard.begun), std::mem::take(&mut shard.ready));
        shard.knows_touches = false;
        let (over, gone) = (std::mem::take(&mut shard.over), std::mem::take(&mut shard.gone));
        drop(shard);
        let plug = if begun.len() > 1 { self.backend.submission().map(Submitter::plug) } else { None };
        for (in_place, in_flight) in begun {
            in_place.begin(in_flight);
        }
        drop(plug);
        for (pages, read) in ready {
            read.wait_for(pages);
        }
        drop((over, gone));
        result
    }

    /// Tells policy of `event`, first touches before it first, and does what it says.
    pub(crate) fn tell(self: &Arc<Self>, shard: &mut Shard, event: Event) {
        // Taken with the shard held: time never goes back for policy.
        let now = self.now();
        // No read is answered by whoever has the shard, so what was touched before he entered is all that there is to tell.
        if !std::mem::replace(&mut shard.knows_touches, true) {
            let mut referenced = std::mem::take(&mut shard.referenced);
            std::mem::swap(&mut referenced, &mut self.referenced.lock());
            for event in referenced.drain(..) {
                shard.handle(now, event);
                shard.execute(self);
            }
            shard.referenced = referenced;
        }
        shard.handle(now, event);
        shard.execute(self);
        shard.retry_starved(self);
    }

    /// Policy's clock.
    pub(crate) fn now(&self) -> Nanos {
        self.at(Instant::now())
    }

    /// A moment on policy's clock.
    pub(crate) fn at(&self, moment: Instant) -> Nanos {
        Nanos(moment.saturating_duration_since(self.started).as_nanos() as u64)
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

    /// A read did more than hit.
    pub(crate) fn touched(self: &Arc<Self>, opened: &Opened, extent: Extent, found: Found, marked: bool) {
        self.enter(|shard| self.tell(shard, Event::Read { file: opened.id, extent, found, marked }));
    }

    /// Reads that did not find all their pages resident.
    pub(crate) fn read_missing(self: &Arc<Self>, reads: impl IntoIterator<Item = Arc<Waiting>>) {
        self.enter(|shard| reads.into_iter().for_each(|read| self.miss(shard, read)));
    }

    fn miss(self: &Arc<Self>, shard: &mut Shard, read: Arc<Waiting>) {
        let (offset, len) = (read.offset, read.len);
        let extent = Extent::of_bytes(offset, len as u64);
        let opened = &read.file.opened;
        let (mut found, mut marked) = (Found::Absent, false);
        // What is there, or on its way, is held: what policy does next may be to drop a part of it.
        let held = opened.table.look_up(offset, len);
        if let Lookup::Present(pages) = &held {
            marked = pages.take_marks();
            found = Found::Resident;
            for folio in pages.folios().iter().filter(|f| !f.is_resident()) {
                folio.fetch.demand();
                found = Found::InFlight;
            }
        }
        if found != Found::Resident || marked {
            self.tell(shard, Event::Read { file: opened.id, extent, found, marked });
        }
        let held = if matches!(held, Lookup::Absent) { opened.table.look_up(offset, len) } else { held };
        match held {
            Lookup::Present(pages) => {
                pages.folios().iter().for_each(|f| f.fetch.demand());
                shard.ready.push((pages, read));
            }
            Lookup::Absent => shard.starved.push_back(read),
        }
    }

    /// The last handle of a file is gone.
    pub(crate) fn release(self: &Arc<Self>, opened: &Arc<Opened>) {
        self.enter(|shard| {
            if opened.handles.load(Relaxed) > 0 {
                return;
            }
            self.tell(shard, Event::Release { file: opened.id });
            for file in shard.idle(opened) {
                self.tell(shard, Event::Forget { file });
                shard.forget(file);
            }
        });
    }
}

/// A file that is fetched whole, until its requests are over.
struct Prefetch {
    file: Option<File>,
    done: Option<Box<dyn FnOnce(bool) + Send + Sync>>,
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        let came = self.file.take().is_some_and(|file| file.found() == Found::Resident);
        if let Some(done) = self.done.take() {
            done(came);
        }
    }
}

/// An object and the version of it that is read.
pub(crate) type Identity = (Key, Version);

/// Every file that is open, or was lately.
pub(crate) type Files = Numbers<FileId, (Identity, Arc<Opened>)>;

/// The least memory budget, 16 MiB: two of the largest requests. With less, parts of one window and a page for each of a few
/// readers do not fit, and every reader waits for every other one.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// Threads for requests. Four carry more than a 10 Gbit/s link.
const THREADS_MAX: usize = 4;
