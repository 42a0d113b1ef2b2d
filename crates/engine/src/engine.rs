//! The engine: what a program opens files and directories with, and what owns the threads.
//!
//! ```text
//!   Engine ──> Driver        reads: pages, requests, policy
//!     ├──────> Directories   listings, names, small files fetched ahead
//!     └──────> runtime       threads for requests; ends with the last engine
//! ```

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foreread_backend::lock::Mutex;
use foreread_backend::{Backend, Key, ListPage, Object, Submitter, return_free_memory};
use foreread_policy::{DirShares, Event, Replacement};
use foreread_tier::{Secret, Tier};
use futures::FutureExt;
use tokio::runtime::{Handle, Runtime};

use crate::directories::driver::Directories;
use crate::driver::{Driver, LAST_WRITE};
use crate::error::{Error, ErrorKind};
use crate::file::File;
use crate::observer::{self, Observer};
use crate::options::{Cache, MEMORY_BYTES_MIN, Options};
use crate::pages::pinned::Pages;
use crate::planted::Planted;
use crate::records::recorder::Recorder;
use crate::records::tap::Recorded;
use crate::requests::storage::{Cursor, Storage};
use crate::shard::Shard;
use crate::shard::lives::Lives;
use crate::stats::Stats;
use crate::watch::{Wanted, Watched};

/// Reads objects of one backend ahead of their readers, within one memory budget. Clones share
/// everything.
#[derive(Clone)]
pub struct Engine {
    driver: Arc<Driver>,
    directories: Arc<Directories>,
    /// One change of the budget at a time: pages and directories are told of the same one last.
    setting: Arc<Mutex<()>>,
    /// Held until it is dropped.
    #[expect(dead_code, reason = "what it does, it does when it is dropped")]
    owned: Arc<Owned>,
}

/// Memory that a front door needs beside the engine. Pages have so much less of the budget, but at
/// least half of it. Given back when it is dropped.
pub struct Reserved {
    directories: Arc<Directories>,
    bytes: AtomicU64,
}

impl Reserved {
    /// The front door needs so many bytes from now on. Not for every few bytes: it takes the
    /// engine's locks, and policy may evict pages.
    pub fn set(&self, bytes: u64) {
        self.directories.reserve_names(self.bytes.swap(bytes, Relaxed), bytes);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl std::fmt::Debug for Reserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reserved").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// What ends with the last clone of an engine, on the thread that drops it.
struct Owned {
    driver: Arc<Driver>,
    runtime: Option<Runtime>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.driver.shut_down();
        // Without waiting for storage: the thread may be one of the runtime's own.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Engine {
    /// An engine in front of `backend`. Starts its threads: fork before, not after.
    ///
    /// Errors: [`ErrorKind::Invalid`] for a budget below 16 MiB; [`ErrorKind::Io`] when threads or
    /// the record cannot be made.
    pub fn new(backend: Arc<dyn Backend>, options: &Options) -> Result<Self, Error> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(THREADS_MAX);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("foreread-io")
            .enable_all()
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start threads: {e}")))?;
        let handle = runtime.handle().clone();
        Self::on(&handle, Some(runtime), backend, options)
    }

    /// The same on a runtime of the caller's, which has its timers and sockets enabled and
    /// outlives the engine. On a runtime of one thread with a paused clock, an engine is
    /// deterministic.
    ///
    /// Errors: [`ErrorKind::Invalid`] for a budget below 16 MiB; [`ErrorKind::Io`] when the record
    /// cannot be made.
    pub fn on_runtime_of(runtime: &Handle, backend: Arc<dyn Backend>, options: &Options) -> Result<Self, Error> {
        Self::on(runtime, None, backend, options)
    }

    /// An engine on a runtime, which is `own` if the engine has to end it.
    fn on(runtime: &Handle, own: Option<Runtime>, backend: Arc<dyn Backend>, options: &Options) -> Result<Self, Error> {
        check_memory(options.memory_bytes)?;
        // The engine's clock is the runtime's from the start, also where that one stands still.
        let _entered = runtime.enter();
        let capabilities = backend.capabilities();
        let tier = options.cache.as_ref().map(|cache| open_tier(cache, options.memory_bytes)).transpose()?;
        let policy = foreread_policy::Options {
            capacity_bytes: options.memory_bytes,
            readahead: options.readahead,
            replacement: Replacement::default(),
            rotational: capabilities.rotational,
            fair_queue: options.fair_queue,
            tier: tier.is_some(),
            bypass: options.cache.as_ref().is_some_and(|cache| cache.bypass),
        };
        let recorder = match &options.record {
            Some(path) => Some(
                Recorder::create(path, policy)
                    .map_err(|e| Error::new(ErrorKind::Io, format!("cannot record to {}: {e}", path.display())))?,
            ),
            None => None,
        };
        let planted = Arc::new(Planted::new(&options.panics));
        let storage = Storage::new(backend, tier, options, Arc::clone(&planted));
        let lives = Lives::new(policy, options.events_folder.clone(), planted, Arc::clone(&storage.stats));
        let shard = Shard::new(lives, recorder);
        let driver = Driver::new(storage, runtime.clone(), shard);
        let directories = Directories::new(&driver, options, capabilities.list_after);
        let owned = Arc::new(Owned { driver: Arc::clone(&driver), runtime: own });
        Ok(Self { driver, directories, setting: Arc::default(), owned })
    }

    /// The runtime that carries requests; front doors spawn on it.
    pub fn runtime(&self) -> &Handle {
        &self.driver.runtime
    }

    /// The storage.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.driver.storage.backend
    }

    /// Describes an object, retrying within [`Patience`](crate::Patience). Under any
    /// executor; without one, see [`Engine::block_on`].
    pub async fn stat(&self, key: &Key) -> Result<Object, Error> {
        self.on_runtime(self.driver.storage.stat(key)).await
    }

    /// One page of the direct children of `prefix`, retrying within [`Patience`](crate::Patience).
    /// Under any executor.
    pub async fn list(&self, prefix: &str, continuation: Option<&str>) -> Result<ListPage, Error> {
        let cursor = continuation.map_or(Cursor::Start, |token| Cursor::Token(token.to_owned()));
        self.on_runtime(self.driver.storage.list(prefix, &cursor)).await
    }

    /// Opens an object, pinned to the version that `object` says. No I/O.
    pub fn open(&self, object: &Object) -> File {
        let file = File::open(&self.driver, object);
        self.directories.opened(object, file.opened());
        file
    }

    /// Reads several ranges, of which policy is told together: adjacent ones share requests, and
    /// all are in flight before any is waited for. Each is (file, offset in bytes, bytes, what is
    /// called with its bytes), and reads as [`File::read`] does, errors and length included.
    ///
    /// ```no_run
    /// # use foreread_engine::{Engine, Error, File, Pages};
    /// # fn read(engine: &Engine, file: &File) {
    /// let print = |pages: Result<Pages, Error>| println!("{:?}", pages.map(|p| p.len()));
    /// engine.read_together([(file.clone(), 0, 4096, print), (file.clone(), 1 << 20, 9, print)]);
    /// # }
    /// ```
    pub fn read_together<D>(&self, reads: impl IntoIterator<Item = (File, u64, usize, D)>)
    where
        D: FnOnce(Result<Pages, Error>) + Send + 'static,
    {
        let mut missing = Vec::new();
        for (file, offset, len, done) in reads {
            let Err((len, done)) = file.read_resident(file.reader(), offset, len, done) else { continue };
            let driver = Arc::clone(file.driver());
            let missed = file.missed(offset, len, done);
            if Arc::ptr_eq(&self.driver, &driver) {
                missing.push(missed);
            } else {
                // A file of another engine.
                driver.read_missing([missed]);
            }
        }
        if !missing.is_empty() {
            let _plug = self.backend().submission().map(Submitter::plug);
            self.driver.read_missing(missing);
        }
    }

    /// When the clock of recorded reads began.
    pub fn started(&self) -> std::time::Instant {
        self.driver.started().into()
    }

    /// Starts to record reads, and returns the recording's number. `None` if another one is under
    /// way.
    pub fn start_recording(&self) -> Option<u64> {
        self.driver.tap.start()
    }

    /// The reads of a recording since this was last called, as many as fit into `bytes` of JSON,
    /// and at least one file or read. A name that does not fit is cut. `last` ends it. A recording
    /// also ends when this is not called for five seconds and another read or recording comes:
    /// then this is `None`.
    pub fn recorded(&self, recording: u64, bytes: usize, last: bool) -> Option<Recorded> {
        self.driver.tap.take(recording, bytes, last)
    }

    /// Ends a recording, if it is under way: another one can be started.
    pub fn end_recording(&self, recording: u64) {
        self.driver.tap.end(recording);
    }

    /// Changes the budget, up or down. What does not fit any more goes at once, but for what
    /// readers are about to be given.
    ///
    /// Errors: [`ErrorKind::Invalid`] for a budget below 16 MiB.
    pub fn set_memory_bytes(&self, bytes: u64) -> Result<(), Error> {
        check_memory(bytes)?;
        let _one = self.setting.lock();
        self.driver.enter(|shard| {
            self.driver.tell(shard, Event::Capacity { bytes });
            shard.files.shrink();
        });
        self.directories.set_memory(bytes);
        return_free_memory();
        Ok(())
    }

    /// Gives back the pages that no reader keeps, and what is known of files that are closed, for
    /// an engine that is not read: what is read ahead counts as read in vain. The budget stays as
    /// it is.
    pub fn give_memory_back(&self) {
        let _one = self.setting.lock();
        self.driver.enter(|shard| {
            let bytes = shard.decided().1.capacity_bytes;
            for bytes in [0, bytes] {
                self.driver.tell(shard, Event::Capacity { bytes });
            }
            shard.files.shrink();
        });
        return_free_memory();
    }

    /// Changes how long a listing is believed: as
    /// [`Options::metadata_ttl`], also for listings that are known already.
    pub fn set_metadata_ttl(&self, ttl: Duration) {
        self.directories.set_ttl(ttl);
    }

    /// Changes for how long a read has to wait until it counts as slow: as [`Options::slow`].
    pub fn set_slow(&self, slow: Duration) {
        self.driver.storage.slow.set(slow);
    }

    /// A part of the budget, for memory that a front door needs for names: nothing yet.
    pub fn reserve(&self) -> Reserved {
        Reserved { directories: Arc::clone(&self.directories), bytes: AtomicU64::new(0) }
    }

    /// The budget for everything, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.driver.enter(|shard| shard.decided()).1.capacity_bytes
    }

    /// The least budget that has room for what is held now, in bytes: for pages and what they may
    /// not take, and for what is known of directories within its share.
    pub fn needed_bytes(&self) -> u64 {
        let memory = self.driver.enter(|shard| shard.decided()).1;
        let bytes = memory.charged_bytes + memory.capacity_bytes.saturating_sub(memory.pages_bytes);
        bytes.max(DirShares::budget_of(self.directories.counters().1))
    }

    /// A number that grows with each read, and each request to the storage for a name.
    pub fn work(&self) -> u64 {
        let stats = self.stats();
        stats.reads + stats.stats + stats.lists + stats.requests
    }

    /// What it has done so far and holds now.
    pub fn stats(&self) -> Stats {
        observer::stats(&self.driver, &self.directories)
    }

    /// Looks at it for as long as it is there, and does not keep it.
    pub fn observer(&self) -> Observer {
        Observer::new(&self.driver, &self.directories)
    }

    /// Waits until what was read before is in the folder of [`Options::cache`], or will not be.
    pub async fn flush_cache(&self) {
        let driver = Arc::clone(&self.driver);
        let flushed = self.runtime().spawn_blocking(move || driver.flush_tier(Duration::MAX)).await;
        if flushed.is_err() {
            tracing::debug!("the engine ends");
        }
    }

    /// The same for a process that is about to end: waits on this thread, about two seconds at
    /// most.
    pub fn flush_cache_at_exit(&self) {
        self.driver.flush_tier(LAST_WRITE);
    }

    /// What it is doing just now: the streams that are wanted, and the way to the storage.
    pub fn watch(&self, wanted: &Wanted<'_>) -> Watched {
        observer::watch(&self.driver, wanted)
    }

    /// Runs `f` of a front door, which does `what`. If it panics, that is logged and counted in
    /// [`Stats::panics`], and there is no result.
    pub fn survive<T>(&self, what: &str, f: impl FnOnce() -> T) -> Option<T> {
        self.driver.storage.stats.survive(what, f)
    }

    /// The same of what a front door does later, as a task of the runtime. The task does not keep
    /// the engine.
    pub fn survive_later(&self, what: &'static str, f: impl Future<Output = ()> + Send + 'static) {
        let driver = Arc::clone(&self.driver);
        self.runtime().spawn(async move {
            if let Err(panic) = AssertUnwindSafe(f).catch_unwind().await {
                driver.storage.stats.survive(what, || resume_unwind(panic));
            }
        });
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    pub(crate) fn directories(&self) -> &Arc<Directories> {
        &self.directories
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("backend", &self.backend().describe()).finish_non_exhaustive()
    }
}

fn check_memory(bytes: u64) -> Result<(), Error> {
    if bytes < MEMORY_BYTES_MIN {
        let text = format!("a memory budget of {bytes} bytes is below the least of {MEMORY_BYTES_MIN}");
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(())
}

fn open_tier(cache: &Cache, memory_bytes: u64) -> Result<Arc<Tier>, Error> {
    let invalid = |error: foreread_tier::Error| Error::new(ErrorKind::Invalid, error.to_string());
    let secret = cache.key_file.as_deref().map(Secret::from_file).transpose().map_err(invalid)?;
    let options = foreread_tier::Options::default()
        .with_secret(secret)
        .with_bytes(cache.bytes)
        .with_min_free_bytes(cache.min_free_bytes)
        .with_index_bytes_max(memory_bytes / INDEX_SHARE)
        .with_queue_bytes_max(memory_bytes / QUEUE_SHARE);
    let tier = Tier::open(&cache.folder, options).map_err(invalid)?;
    if !tier.wait_loaded(LOADING_MAX) {
        tracing::info!(folder = %cache.folder.display(), "the cache is large: what it holds is known by and by");
    }
    Ok(tier)
}

/// How long a new engine waits until it is known what the tier holds. Lower: files that are opened
/// first are fetched although they are there. Higher: a start with a large folder takes longer.
const LOADING_MAX: Duration = Duration::from_millis(500);

/// The part of the budget that the index of the tier may take: a quarter. Lower: less of a large
/// folder is known. Higher: less memory for pages.
const INDEX_SHARE: u64 = 4;

/// The part of the budget that waits to be written to the tier: a sixteenth. Lower: more of what
/// comes faster than the disk writes is not kept. Higher: less memory for pages.
const QUEUE_SHARE: u64 = 16;

/// Threads for requests. Four carry more than a 10 Gbit/s link; higher costs memory and switches
/// between threads, lower limits what one engine can fetch.
const THREADS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use foreread_backend::{ConnectOptions, connect};

    use super::*;

    /// Two threads set the budget at the same time, many times.
    #[test]
    fn of_two_budgets_set_at_once_one_holds_for_everything() {
        let connected = connect("/", &ConnectOptions::default()).expect("a local directory");
        let engine = Engine::new(connected.backend, &Options::default()).expect("an engine");
        for round in 0..3000 {
            std::thread::scope(|scope| {
                for mib in [32, 64] {
                    let engine = &engine;
                    scope.spawn(move || engine.set_memory_bytes(mib << 20).expect("a budget"));
                }
            });
            let shares = engine.directories.look(|state| state.policy.shares());
            assert_eq!(shares, DirShares::of_budget(engine.memory_bytes()), "round {round}");
        }
    }
}
