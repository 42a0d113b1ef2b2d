//! What a process has once: its engines, by store and credentials, and their one budget.
//!
//! ```text
//!   engine(spec) ──> STATE ── null: a new one ──> engines by spec ── absent: connect
//!                      ^                            each is this process's, or another one's
//!   fork, in the child: null, and the next generation
//! ```
//!
//! The threads of an engine do not live on in a child, and may have held any lock at the moment of
//! the fork. So the handler that runs in the child stores two atomics and nothing else: the
//! parent's state is leaked there, and whatever was made in an older generation is made anew when
//! it is next used ([`Fresh`]). The parent does not notice.
//!
//! An engine that nothing has used for a while ends: credentials that change would add engines for
//! as long as the process lives.
//!
//! *Invariant:* nothing of an older generation is used, dropped or locked.

#![allow(unsafe_code, reason = "fork handlers, and pointers to what a fork leaves behind")]

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use foreread::backend::lock::Mutex;
use foreread::backend::{ConnectOptions, Keys};
use foreread::shared::{Budget, Role, ShareOptions, Shared};
use foreread::{Cache, Engine, Error, ErrorKind, MEMORY_BYTES_MIN, Options, Storage};

/// Which process of a line of forks this is.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// What this process has; null until it is first used.
static STATE: AtomicPtr<State> = AtomicPtr::new(ptr::null_mut());

/// The budget of all engines together that the program has set, in bytes; zero if it has not. A
/// child keeps it.
static MEMORY_BYTES: AtomicU64 = AtomicU64::new(0);

/// The budget of a process that sets none, 256 MiB: the library's default. Lower: fewer streams
/// are read ahead at full speed. Higher: many workers on one machine run out of memory.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;

/// The cache of engines that are made from now on; null if there is none. A child keeps it. One
/// that has been stored is never freed: another thread may be reading it.
static CACHE: AtomicPtr<Cache> = AtomicPtr::new(ptr::null_mut());

/// Sets the cache of engines that are made from now on.
pub(crate) fn set_cache(cache: Option<Cache>) {
    let cache = cache.map_or(ptr::null_mut(), |cache| Box::into_raw(Box::new(cache)));
    CACHE.store(cache, Ordering::Release);
}

/// The cache of engines that are made now.
pub(crate) fn cache() -> Option<Cache> {
    // SAFETY: one that has been stored is never freed.
    unsafe { CACHE.load(Ordering::Acquire).as_ref() }.cloned()
}

/// How long an engine that nothing uses is kept, 60 s. Lower: a program that opens a file now and
/// then connects anew, and reads again what it had. Higher: threads and connections of credentials
/// that are no longer used stay longer. Source: a guess; the one that was used last stays anyway.
const IDLE: Duration = Duration::from_mins(1);

/// Engines that nothing uses, and that are kept before that time is over, 32. Lower: a program
/// that goes through many stores in turn connects anew. Higher: descriptors may run out, of which
/// many systems give a process 1,024. Source: each engine that has read takes five, and two
/// threads.
const IDLE_MAX: usize = 32;

/// How often it is looked for engines that nothing uses, 10 s: while there are two. Lower: a
/// process that does nothing wakes up more often. Higher: they end so much later.
const LOOKS_EVERY: Duration = Duration::from_secs(10);

/// An engine, and when it was last asked for or seen in use.
struct Known {
    engine: Shared,
    used: Instant,
}

#[derive(Default)]
struct Engines {
    by_spec: HashMap<Spec, Known>,
    /// A thread looks for those that nothing uses.
    looks: bool,
}

#[derive(Default)]
struct State {
    engines: Mutex<Engines>,
    /// What the engines share. Locked after `engines`.
    budget: OnceLock<Arc<Budget>>,
    /// While reads are recorded, every engine. Locked after `engines`.
    traced: Mutex<Option<Vec<Traced>>>,
}

/// An engine whose reads are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Traced {
    pub(crate) store: String,
    pub(crate) engine: Engine,
    /// Of its recording.
    pub(crate) number: u64,
}

impl Traced {
    /// `None` if the engine's reads are recorded already.
    fn new(store: &str, engine: &Engine) -> Option<Self> {
        let number = engine.start_recording()?;
        Some(Self { store: store.to_owned(), engine: engine.clone(), number })
    }
}

/// A store, and what it is connected with: equal ones share an engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    /// See `foreread::backend::Place`.
    pub(crate) store: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) anonymous: bool,
    pub(crate) keys: Option<Keys>,
    /// Whether other processes read through the same engine.
    pub(crate) share: bool,
    /// What the environment says about the rest.
    pub(crate) environment: Vec<Option<String>>,
}

/// How long threads of other libraries have to close files before the interpreter exits, 10 ms.
/// Lower: on a loaded machine one may not get to it. Higher: each program ends later. Source: with
/// 2 ms none of eight aborted, with none four of six.
const CLOSING: Duration = Duration::from_millis(10);

/// Variables that decide which server is asked, and as which user.
const VARIABLES: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "GOOGLE_APPLICATION_CREDENTIALS",
];

/// What [`VARIABLES`] are now.
pub(crate) fn environment() -> Vec<Option<String>> {
    VARIABLES.iter().map(|name| std::env::var(name).ok()).collect()
}

fn state() -> &'static State {
    let mut current = STATE.load(Ordering::Acquire);
    if current.is_null() {
        let new = Box::into_raw(Box::<State>::default());
        match STATE.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => current = new,
            Err(other) => {
                current = other;
                // SAFETY: it was made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
    // SAFETY: a state that has been stored is never freed.
    unsafe { &*current }
}

/// The engine of `spec`, made on first use. Sends nothing. Reads certificates and profiles: call
/// it without the GIL.
pub(crate) fn engine(spec: &Spec) -> Result<Shared, Error> {
    let mut ended = Vec::new();
    let engine = known_or_made(spec, &mut ended);
    // Without the lock.
    drop(ended);
    engine
}

fn known_or_made(spec: &Spec, ended: &mut Vec<Ended>) -> Result<Shared, Error> {
    let state = state();
    let mut engines = state.engines.lock();
    if let Some(known) = engines.by_spec.get_mut(spec) {
        known.used = Instant::now();
        return Ok(known.engine.clone());
    }
    *ended = end_unused(state, &mut engines, IDLE);
    let mut connect = ConnectOptions::default().with_anonymous(spec.anonymous);
    connect.endpoint.clone_from(&spec.endpoint);
    connect.region.clone_from(&spec.region);
    connect.profile.clone_from(&spec.profile);
    connect.keys.clone_from(&spec.keys);
    let budget = budget()?;
    let (told, default) = budget.part_of_next();
    let traced = &mut *state.traced.lock();
    // Another process's engine would not say which reads are this one's.
    let options = ShareOptions::default().with_share(spec.share && traced.is_none());
    let options = options.with_memory_bytes(told).with_default_memory_bytes(default);
    let builder = Storage::builder(spec.store.as_str()).storage(connect);
    let shared = builder.options(Options::default().with_cache(cache())).share(options)?;
    budget.add(shared.clone());
    if let Some(traced) = traced {
        traced.extend(Traced::new(&spec.store, &shared.own_engine()?));
    }
    engines.by_spec.insert(spec.clone(), Known { engine: shared.clone(), used: Instant::now() });
    if engines.by_spec.len() > 1 && !engines.looks {
        let looks = std::thread::Builder::new().name("foreread-idle".into()).spawn(move || look(state));
        engines.looks = looks.is_ok();
    }
    Ok(shared)
}

/// Looks for engines that nothing uses, until one is left.
fn look(state: &State) {
    loop {
        std::thread::sleep(LOOKS_EVERY);
        let mut engines = state.engines.lock();
        let ended = end_unused(state, &mut engines, IDLE);
        engines.looks = engines.by_spec.len() > 1;
        let goes_on = engines.looks;
        drop(engines);
        drop(ended);
        if !goes_on {
            return;
        }
    }
}

/// Takes out the engines that have not been used for so long, and those that were used longest ago
/// of more than [`IDLE_MAX`] that are not used; of these, not the one that was used last. They end
/// when they are dropped, which is done without the lock. What has a clone of an engine uses it:
/// stores, open files, maps, reads. So do other processes.
fn end_unused(state: &State, engines: &mut Engines, idle: Duration) -> Vec<Ended> {
    // While reads are recorded, none ends.
    if state.traced.lock().is_some() {
        return Vec::new();
    }
    let now = Instant::now();
    let mut unused = Vec::new();
    for (spec, known) in &mut engines.by_spec {
        // This table's clone, and the budget's.
        if known.engine.is_unused(2) {
            unused.push((known.used, spec.clone()));
        } else {
            known.used = now;
        }
    }
    unused.sort_by_key(|(used, _)| *used);
    unused.pop();
    let too_many = unused.len().saturating_sub(IDLE_MAX);
    let mut ended = Vec::new();
    for (nth, (used, spec)) in unused.into_iter().enumerate() {
        if (nth < too_many || now.duration_since(used) >= idle)
            && let Some(known) = engines.by_spec.remove(&spec)
        {
            if let Some(budget) = state.budget.get() {
                budget.remove(&known.engine);
            }
            ended.push(Ended(known.engine));
        }
    }
    ended
}

/// An engine that ends when this is dropped.
struct Ended(Shared);

impl Drop for Ended {
    fn drop(&mut self) {
        flush(&self.0);
    }
}

/// Ends the engines that have not been used for so long. Returns how many are left.
pub(crate) fn end_idle(idle: Duration) -> usize {
    let state = state();
    let mut engines = state.engines.lock();
    let ended = end_unused(state, &mut engines, idle);
    let left = engines.by_spec.len();
    drop(engines);
    drop(ended);
    left
}

/// The engine of `spec`, if there is one.
pub(crate) fn known_engine(spec: &Spec) -> Option<Shared> {
    state().engines.lock().by_spec.get(spec).map(|known| known.engine.clone())
}

/// What the engines share.
fn budget() -> Result<Arc<Budget>, Error> {
    let state = state();
    if let Some(budget) = state.budget.get() {
        return Ok(Arc::clone(budget));
    }
    let set = MEMORY_BYTES.load(Ordering::Relaxed);
    let made = Budget::start((set > 0).then_some(set), MEMORY_BYTES_DEFAULT)?;
    // Of two, one ends.
    Ok(Arc::clone(state.budget.get_or_init(|| made)))
}

/// The budget of all engines together, in bytes.
pub(crate) fn memory_bytes() -> u64 {
    match MEMORY_BYTES.load(Ordering::Relaxed) {
        0 => MEMORY_BYTES_DEFAULT,
        set => set,
    }
}

/// Changes the budget. Errors: as [`Engine::set_memory_bytes`].
pub(crate) fn set_memory_bytes(bytes: u64) -> Result<(), Error> {
    // One that is made meanwhile is told.
    let _engines = state().engines.lock();
    if bytes < MEMORY_BYTES_MIN {
        let text = format!("a memory budget of {bytes} bytes is below the least of {MEMORY_BYTES_MIN}");
        return Err(Error::told(ErrorKind::Invalid, &text, None, false));
    }
    MEMORY_BYTES.store(bytes, Ordering::Relaxed);
    if let Some(budget) = state().budget.get() {
        budget.set(bytes);
    }
    Ok(())
}

/// The engines that there are, by the name of their store.
pub(crate) fn engines() -> Vec<(String, Shared)> {
    let engines = state().engines.lock();
    engines.by_spec.iter().map(|(spec, known)| (spec.store.clone(), known.engine.clone())).collect()
}

/// Has the caches of this process's engines write what was read last: it is about to end. Without
/// the GIL: threads of other libraries that wait for it to close files have it meanwhile. They
/// cannot have it later, and an interpreter that exits ends such a thread, and thereby the process
/// of a library that is written in C++ (Arrow).
pub(crate) fn end_engines() {
    let engines = engines();
    if !engines.is_empty() {
        std::thread::sleep(CLOSING);
    }
    for (_, shared) in engines {
        flush(&shared);
    }
}

/// Has the cache of an engine of this process write what was read last.
fn flush(shared: &Shared) {
    // One that another process serves writes there.
    if shared.role() != Role::Joins
        && let Ok(engine) = shared.own_engine()
    {
        engine.flush_cache_at_exit();
    }
}

/// Records the reads of all engines from now on, those included that are made later. `false` if
/// they are recorded already.
pub(crate) fn trace() -> bool {
    let engines = state().engines.lock();
    let mut traced = state().traced.lock();
    let begins = traced.is_none();
    traced.get_or_insert_with(|| {
        let own = engines.by_spec.iter().filter_map(|(spec, known)| {
            // What another process reads for this one is not recorded there.
            known.engine.leave();
            Traced::new(&spec.store, &known.engine.own_engine().ok()?)
        });
        own.collect()
    });
    begins
}

/// The engines whose reads are recorded, in the order in which they were made.
pub(crate) fn traced() -> Vec<Traced> {
    state().traced.lock().clone().unwrap_or_default()
}

/// Records no engine any more. Returns those that were.
pub(crate) fn end_trace() -> Vec<Traced> {
    state().traced.lock().take().unwrap_or_default()
}

/// Has the children of forks begin anew.
pub(crate) fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        extern "C" fn in_child() {
            STATE.store(ptr::null_mut(), Ordering::Release);
            GENERATION.fetch_add(1, Ordering::AcqRel);
        }
        // SAFETY: the handler only stores atomics, which is allowed in a child of any fork.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// A value that is made once in each process that uses it.
#[derive(Debug)]
pub(crate) struct Fresh<T> {
    current: AtomicPtr<Made<T>>,
}

#[derive(Debug)]
struct Made<T> {
    generation: u64,
    value: T,
}

impl<T> Fresh<T> {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self { current: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value, if it has one.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: a pointer is stored once in each process and freed by `drop` alone.
        let made = unsafe { self.current.load(Ordering::Acquire).as_ref() }?;
        (made.generation == GENERATION.load(Ordering::Acquire)).then_some(&made.value)
    }

    /// This process's value, from `make` if it has none yet. If two threads make one, one is
    /// dropped.
    pub(crate) fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let known = self.current.load(Ordering::Acquire);
        let generation = GENERATION.load(Ordering::Acquire);
        // SAFETY: a pointer is stored once in each process and freed by `drop` alone.
        if let Some(made) = unsafe { known.as_ref() }.filter(|made| made.generation == generation) {
            return Ok(&made.value);
        }
        let new = Box::into_raw(Box::new(Made { generation, value: make()? }));
        let current = match self.current.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire) {
            // What an older generation left behind is leaked.
            Ok(_) => new,
            Err(other) => {
                // SAFETY: it was made above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: as above.
        Ok(unsafe { &(*current).value })
    }
}

impl<T> Drop for Fresh<T> {
    fn drop(&mut self) {
        let known = *self.current.get_mut();
        // SAFETY: as above, and no reference is left.
        let is_ours =
            unsafe { known.as_ref() }.is_some_and(|made| made.generation == GENERATION.load(Ordering::Acquire));
        if is_ours {
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(known) });
        }
    }
}
