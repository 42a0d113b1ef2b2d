//! The driver of directories: tells policy of them what happened, and executes its actions.
//!
//! ```text
//!   enter: lock, f: tell policy, execute ── List ──────> go_on: a task a page, then listed
//!              │                         ├─ ListFrom ──> the same, for one that begins there
//!              │                         ├─ Renew ─────> a task a page, which takes its own place
//!              │                         ├─ ListBelow ─> a task a subtree, many listings
//!              │                         ├─ Fetch ─────> an errand
//!              │                         ├─ Discard ───> an errand
//!              │                         └─ Drop ──────> the table forgets it; readers keep it
//!              └─ unlock ──> errands: files' pages, by the shard's driver
//! ```
//!
//! A panic in here ends no reader's wait for ever: see `anew`.
//!
//! *Invariant:* the shard is never locked while the directories are, and no reader is woken: one
//! may run in the call that wakes it, under an executor of its own.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foreread_backend::lock::Mutex;
use foreread_backend::{Entry, Key, Object};
use foreread_policy::{
    Child, DirAction, DirCounters, DirEvent, DirId, DirOptions, DirReadahead, DirShares, Ends, Event, Found, Nanos,
    is_in_first_half,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::directories::brought::{Bringing, Brought, Unheard};
use crate::directories::chain::Chain;
use crate::directories::listing::{Listing, Node, Taken};
use crate::directories::name::identity_bytes;
use crate::directories::prefetch::{Prefetched, discard, prefetch};
use crate::directories::renewing::Renewing;
use crate::directories::segments::SegmentId;
use crate::directories::subtree;
use crate::directories::table::DirectoryTable;
use crate::driver::Driver;
use crate::live::LiveTime;
use crate::options::Options;
use crate::planted::Panic;
use crate::records::replay::panic_text;
use crate::requests::storage::Cursor;
use crate::survival::Lately;

/// Executes the actions of policy for directories.
pub(crate) struct Directories {
    pub(crate) driver: Arc<Driver>,
    ttl: LiveTime,
    state: Mutex<State>,
    /// A file is no longer being fetched.
    fetched: Notify,
    pub(super) unheard: Unheard,
    /// Memory that front doors need for names, in bytes.
    pub(crate) names_bytes: AtomicU64,
}

/// What the lock protects.
pub(crate) struct State {
    pub(super) options: DirOptions,
    pub(crate) policy: DirReadahead,
    /// What policies before it, which have panicked, have counted.
    pub(super) counters: DirCounters,
    pub(super) lately: Lately,
    pub(super) table: DirectoryTable,
    /// Files that policy has had fetched, and that have not come yet.
    pub(super) fetching: HashSet<(DirId, u32)>,
    /// Pages that are asked for again.
    pub(super) renewing: Renewing,
    /// What the shard's policy was last told that directories and names take.
    reserved_bytes: u64,
    errands: VecDeque<Errand>,
    /// Files are no longer being fetched.
    pub(super) settled: bool,
}

/// What is left to do when the lock is free.
enum Errand {
    Fetch { dir: DirId, place: u32, object: Option<Object>, ends: Option<Ends> },
    Discard(Object),
}

/// One request for the directories `chains`, among the entries of `dir` from `from` on.
struct Below {
    dir: DirId,
    from: u32,
    prefix: Arc<str>,
    chains: Vec<Arc<Chain>>,
}

impl Directories {
    /// `divisible` tells whether the storage can be asked for what follows a key.
    pub(crate) fn new(driver: &Arc<Driver>, options: &Options, divisible: bool) -> Arc<Self> {
        let ttl = options.metadata_ttl;
        let policy = DirOptions {
            shares: DirShares::of_budget(options.memory_bytes),
            ttl: nanos(ttl),
            readahead: options.readahead,
            below: divisible,
        };
        let state = State {
            options: policy,
            policy: DirReadahead::new(policy),
            counters: DirCounters::default(),
            lately: Lately::default(),
            table: DirectoryTable::new(ttl, divisible),
            fetching: HashSet::new(),
            renewing: Renewing::default(),
            reserved_bytes: 0,
            errands: VecDeque::new(),
            settled: false,
        };
        driver.storage.backend.keep_at_most(options.memory_bytes / KEPT_SHARE);
        let (state, fetched, names_bytes) = (Mutex::new(state), Notify::new(), AtomicU64::new(0));
        let (driver, unheard) = (Arc::clone(driver), Unheard::default());
        Arc::new(Self { driver, ttl: LiveTime::new(ttl), state, fetched, unheard, names_bytes })
    }

    /// What policy has counted, and the memory that it charges.
    pub(crate) fn counters(&self) -> (DirCounters, u64) {
        let state = self.state.lock();
        (state.counters + state.policy.counters(), state.policy.charged_bytes())
    }

    /// The engine's budget is so many bytes from now on. What does not fit goes a part at a time:
    /// readers go on in between.
    pub(crate) fn set_memory(self: &Arc<Self>, bytes: u64) {
        self.driver.storage.backend.keep_at_most(bytes / KEPT_SHARE);
        while self.enter(|state| {
            state.options.shares = DirShares::of_budget(bytes);
            self.tell(state, DirEvent::Capacity(state.options.shares));
            state.policy.is_over()
        }) {}
    }

    /// How long what is known may be believed.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.get()
    }

    /// Changes how long what is known may be believed, also what is known already.
    pub(crate) fn set_ttl(self: &Arc<Self>, ttl: Duration) {
        self.enter(|state| {
            self.ttl.set(ttl);
            state.options.ttl = nanos(ttl);
            state.table.set_ttl(ttl);
            self.tell(state, DirEvent::Ttl(nanos(ttl)));
        });
    }

    /// Locks the state for a look that tells policy nothing.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.state.lock())
    }

    /// Locks the state for `f`, then, without the lock, wakes readers, keeps the budget and runs
    /// the errands.
    pub(super) fn enter<R>(self: &Arc<Self>, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, left) = {
            let state = &mut *self.state.lock();
            self.tell_unheard(state);
            let result = catch_unwind(AssertUnwindSafe(|| f(state)));
            (result, state.leave(self.reserved_names()))
        };
        // What is owed to others is done even if `f` has panicked.
        self.run(left);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn run(self: &Arc<Self>, left: Left) {
        let Left { woken, settled, reserved, mut errands } = left;
        // A reader may run at once, on this thread.
        for listing in woken {
            listing.wake();
        }
        if settled {
            self.fetched.notify_waiters();
        }
        if let Some(bytes) = reserved {
            self.driver.enter(|shard| self.driver.tell(shard, Event::Reserve { bytes }));
        }
        while let Some(errand) = errands.pop_front() {
            match errand {
                Errand::Fetch { dir, place, object, ends } => {
                    errands.append(&mut self.fetch((dir, place), object, ends));
                }
                Errand::Discard(object) => discard(&self.driver, &object),
            }
        }
        while self.sweep() {}
    }

    /// Lets numbers of directories go, some at a time. Returns whether there are more.
    fn sweep(&self) -> bool {
        let State { table, policy, .. } = &mut *self.state.lock();
        table.sweep(SWEPT_MAX, |dir| policy.knows(dir))
    }

    /// A front door needs so many bytes for names, and no longer `before`.
    pub(crate) fn reserve_names(self: &Arc<Self>, before: u64, bytes: u64) {
        // The sum wraps around, as the difference does.
        self.names_bytes.fetch_add(bytes.wrapping_sub(before), Relaxed);
        self.enter(|_| ());
    }

    /// Memory that names take beside directories: those of front doors, and what a listing of the
    /// storage's keeps from page to page, in bytes.
    fn reserved_names(&self) -> u64 {
        self.names_bytes.load(Relaxed) + self.driver.storage.backend.kept_bytes()
    }

    /// Tells policy of `event` and executes its actions, then of listings that take more or less
    /// by now. Files to fetch become errands. If that panics, policy begins anew.
    pub(super) fn tell(self: &Arc<Self>, state: &mut State, event: DirEvent<'_>) {
        let tell = |state: &mut State| {
            self.told(state, event);
            self.told_older(state);
        };
        self.survive(state, tell);
    }

    /// Tells policy of listings that are not the latest of their directories.
    pub(super) fn tell_older(self: &Arc<Self>, state: &mut State) {
        self.survive(state, |state| self.told_older(state));
    }

    fn survive(self: &Arc<Self>, state: &mut State, tell: impl FnOnce(&mut State)) {
        // Whatever a panic leaves half done is dropped or made anew.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| tell(state))) {
            self.begin_anew(state, &panic_text(&*panic));
        }
    }

    fn told_older(self: &Arc<Self>, state: &mut State) {
        while let Some((listing, bytes)) = state.table.next_changed() {
            self.told(state, DirEvent::Older { listing, bytes });
        }
    }

    pub(super) fn told(self: &Arc<Self>, state: &mut State, event: DirEvent<'_>) {
        state.policy.handle(self.driver.now(), event);
        self.driver.storage.planted.pass(Panic::Directory);
        while let Some(action) = state.policy.poll_action() {
            match action {
                DirAction::List { dir, restarts, parallel, .. } => {
                    let unasked = |chain: &Arc<Chain>| chain.is_unasked() && chain.began.elapsed() <= self.ttl();
                    match state.table.chain(dir).filter(|chain| !restarts || unasked(chain)) {
                        Some(chain) => self.go_on(&chain, parallel),
                        None => _ = self.restart(state, dir),
                    }
                }
                DirAction::ListFrom { dir, from } => {
                    if let Some(chain) = state.table.begin_from(dir, from) {
                        self.go_on(&chain, 1);
                    }
                }
                DirAction::Renew { dir, from, to } => self.renew(state, dir, from, to),
                DirAction::ListBelow { dir, from, to } => self.list_below(state, dir, from, to),
                DirAction::Fetch { dir, entry: place, ends } => {
                    let object = state.table.chain(dir).and_then(|chain| match chain.entry(place) {
                        Some(Node::File(object)) => Some(object),
                        _ => None,
                    });
                    state.fetching.insert((dir, place));
                    state.errands.push_back(Errand::Fetch { dir, place, object, ends });
                }
                DirAction::Discard { dir, entry: place } => {
                    let chain = state.table.chain(dir);
                    if let Some(Node::File(object)) = chain.and_then(|chain| chain.entry_before(place)) {
                        state.errands.push_back(Errand::Discard(object));
                    }
                }
                DirAction::Trim { dir, to } => state.table.trim(dir, to),
                DirAction::Release { listing } => state.table.release(listing),
                DirAction::Drop { dir } => {
                    let State { table, policy, .. } = state;
                    table.drop(dir, |dir| policy.knows(dir));
                }
            }
        }
    }

    /// Begins to list `dir` anew.
    pub(super) fn restart(self: &Arc<Self>, state: &mut State, dir: DirId) -> Arc<Chain> {
        let chain = state.table.begin(dir, false);
        self.go_on(&chain, 1);
        chain
    }

    /// Asks for more of a listing, so that `parallel` requests are in flight, if that many are
    /// possible.
    pub(crate) fn go_on(self: &Arc<Self>, chain: &Arc<Chain>, parallel: u32) {
        for (segment, cursor) in chain.ask(parallel) {
            let (directories, chain) = (Arc::clone(self), Arc::clone(chain));
            let bringing = self.bringing(Brought::More(Arc::clone(&chain)));
            self.driver.runtime.spawn(async move {
                directories.bring(&chain, segment, cursor).await;
                bringing.end();
            });
        }
    }

    pub(super) fn bringing(&self, what: Brought) -> Bringing {
        Bringing::new(what, &self.unheard, &self.driver.storage.stats)
    }

    async fn bring(self: Arc<Self>, chain: &Arc<Chain>, segment: SegmentId, cursor: Cursor) {
        match chain.bring(&self.driver.storage, segment, &cursor).await {
            Ok(true) => self.listed(chain),
            Ok(false) => self.go_on(chain, 1),
            Err(error) => {
                self.enter(|state| {
                    if state.table.is_latest(chain) {
                        self.tell(state, DirEvent::Failed { dir: chain.dir });
                    }
                });
                chain.listing.fail(error);
            }
        }
    }

    /// Pages of `chain` have come.
    fn listed(self: &Arc<Self>, chain: &Arc<Chain>) {
        while self.listed_next(chain) {}
    }

    /// Tells policy of the next page of `chain`. Returns whether there was one.
    fn listed_next(self: &Arc<Self>, chain: &Arc<Chain>) -> bool {
        self.enter(|state| {
            let Some(taken) = chain.next_untold() else { return false };
            if !state.table.is_latest(chain) {
                state.table.changed(chain);
                self.tell_older(state);
                return true;
            }
            let same = chain.is_like_before(&taken);
            let Taken { children, from, last, bytes } = taken;
            let end = from + children.len() as u32;
            let children: Vec<Child> = children.iter().map(|child| state.table.child(child)).collect();
            let event = DirEvent::Listed { dir: chain.dir, first: from == 0, same, children: &children, last, bytes };
            self.tell(state, event);
            chain.has_told(end);
            state.settled = true;
            if last || !same {
                state.table.replaced(chain);
                self.tell_older(state);
            }
            true
        })
    }

    /// Asks, by one request, for the subtrees of the directories among entries `[from, to)` of
    /// `dir`.
    fn list_below(self: &Arc<Self>, state: &mut State, dir: DirId, from: u32, to: u32) {
        let (mut prefixes, mut prefix) = (Vec::new(), Arc::from(""));
        if let Some(above) = state.table.chain(dir) {
            prefix = above.listing.shared_prefix();
            prefixes = above.directories(from, to);
        }
        let chains = prefixes.iter().map(|prefix| {
            let (dir, _) = state.table.identify(prefix);
            state.table.begin(dir, true)
        });
        let below = Below { dir, from, prefix, chains: chains.collect() };
        let directories = Arc::clone(self);
        let bringing = self.bringing(Brought::Below { dir, from, chains: below.chains.clone() });
        self.driver.runtime.spawn(async move {
            directories.bring_below(below).await;
            bringing.end();
        });
    }

    async fn bring_below(self: Arc<Self>, below: Below) {
        let requested = Instant::now();
        let asked: Vec<String> = below.chains.iter().map(|chain| chain.listing.prefix().to_owned()).collect();
        let mut listings = BTreeMap::new();
        if let Some(first) = asked.first() {
            match self.driver.storage.list_below(&below.prefix, first).await {
                Ok(page) => {
                    self.driver.storage.planted.pass(Panic::List);
                    listings = subtree::whole(&below.prefix, first, page, &asked);
                }
                // Each of them is listed by itself when a reader comes to it.
                Err(error) => tracing::debug!(%error, "no listing of the subtree"),
            }
        }
        let came = |chain: &Arc<Chain>| Some((Arc::clone(chain), listings.remove(chain.listing.prefix())?));
        let came: Vec<_> = below.chains.iter().filter_map(came).collect();
        // The others first: a reader that waits for one that was asked for comes to them next.
        for (prefix, entries) in listings {
            if let Some(chain) = self.begin_along(&prefix, requested) {
                self.listed_whole(&chain, entries, requested);
            }
        }
        for (chain, entries) in came {
            self.listed_whole(&chain, entries, requested);
        }
        // What did not come may be listed by itself from here on: policy has that done if a reader
        // waits for a name.
        let left: Vec<_> = below.chains.iter().filter(|chain| chain.leave()).collect();
        self.enter(|state| self.tell(state, DirEvent::ListedBelow { dir: below.dir, from: below.from }));
        for chain in left {
            chain.listing.wake();
        }
    }

    /// The listing of a directory that comes with others, or with a look-up of its name, although
    /// no reader asked for it, unless it is known. One in the second half of its time is replaced:
    /// what came by one request is renewed by one.
    fn begin_along(self: &Arc<Self>, prefix: &str, requested: Instant) -> Option<Arc<Chain>> {
        self.enter(|state| {
            let (dir, new) = state.table.identify(prefix);
            if new {
                self.tell(state, DirEvent::Met { dir, bytes: identity_bytes(prefix.len()) });
            }
            let is_early = |chain: &Chain| {
                let at = chain.listing.requested().unwrap_or(chain.began);
                state.table.is_fresh(at) && is_in_first_half(nanos(at.elapsed()), state.options.ttl)
            };
            if state.table.chain(dir).is_some_and(|chain| chain.is_busy() || is_early(&chain)) {
                return None;
            }
            let chain = state.table.begin(dir, true);
            self.tell(state, DirEvent::Along { dir, requested: self.driver.at(requested) });
            Some(chain)
        })
    }

    /// All entries of a directory have come with the answer to a look-up of its name.
    pub(crate) fn came_whole(self: &Arc<Self>, prefix: &str, entries: Vec<Entry>, requested: Instant) {
        if self.ttl().is_zero() {
            return;
        }
        if let Some(chain) = self.begin_along(prefix, requested) {
            self.listed_whole(&chain, entries, requested);
        }
    }

    /// All of `chain` has come, with others.
    fn listed_whole(self: &Arc<Self>, chain: &Arc<Chain>, entries: Vec<Entry>, requested: Instant) {
        chain.take_whole(entries, requested);
        self.listed(chain);
    }

    /// Has a file fetched. Returns the errands that follow.
    fn fetch(
        self: &Arc<Self>,
        (dir, place): (DirId, u32),
        object: Option<Object>,
        ends: Option<Ends>,
    ) -> VecDeque<Errand> {
        let asked = Instant::now();
        let (directories, read, resident) = (Arc::clone(self), object.clone(), object.clone());
        let done = move |came| {
            directories.enter(|state| {
                if let Some(read) = read.as_ref().filter(|_| came) {
                    state.table.confirm(dir, place, read, asked);
                }
                directories.settle(state, dir, place, came);
            });
        };
        let mut errands = VecDeque::new();
        let cut = |ends| {
            let cut = DirEvent::Cut { dir, entry: place, ends };
            errands = self.with_errands_left(|state| self.tell(state, cut));
        };
        let prefetched = object.map(|object| prefetch(&self.driver, &object, ends, cut, done));
        if prefetched == Some(Prefetched::Coming) {
            return errands;
        }
        let came = prefetched == Some(Prefetched::Resident);
        let mut settled = self.with_errands_left(|state| {
            self.settle(state, dir, place, came);
            // What is resident is of a version that nothing has confirmed lately: the next listing
            // will.
            if came && state.policy.renews_pages(dir) {
                let is_old =
                    |object: &Object| state.table.find(&object.key).is_none_or(|(_, at)| !state.table.is_fresh(at));
                if resident.as_ref().is_some_and(is_old) {
                    self.tell(state, DirEvent::Sought { dir, from: place, to: place + 1 });
                }
            } else if came && state.table.chain(dir).is_some_and(|chain| !state.table.is_fresh(chain.began)) {
                self.tell(state, DirEvent::Named { dir, entry: None, found: Found::Absent });
            }
        });
        errands.append(&mut settled);
        errands
    }

    /// Has `f` done. Returns the errands that follow, which the caller is to do after its own.
    fn with_errands_left(self: &Arc<Self>, f: impl FnOnce(&mut State)) -> VecDeque<Errand> {
        let mut left = {
            let state = &mut *self.state.lock();
            f(state);
            state.leave(self.reserved_names())
        };
        let errands = std::mem::take(&mut left.errands);
        self.run(left);
        errands
    }

    /// A file that was to be fetched has come, or will not.
    fn settle(self: &Arc<Self>, state: &mut State, dir: DirId, place: u32, came: bool) {
        state.fetching.remove(&(dir, place));
        state.settled = true;
        self.tell(state, DirEvent::Fetched { dir, entry: place, came });
    }

    /// Waits until policy knows of the listing that has `key`, if one has. What was told of a
    /// place before would be forgotten with the entries that policy had there.
    pub(crate) async fn heard(self: &Arc<Self>, key: &Key) {
        loop {
            let news = self.fetched.notified();
            tokio::pin!(news);
            // From here on no notification is missed.
            news.as_mut().enable();
            if !self.look(|state| state.table.is_untold(key)) {
                return;
            }
            if tokio::time::timeout(TOLD_WITHIN, news).await.is_err() {
                // The task that had to tell it may have panicked, which is noticed here.
                self.enter(|_| ());
            }
        }
    }

    /// Waits until a file that is being fetched, or the page that tells of it, has come, or will
    /// not.
    pub(crate) async fn settled(self: &Arc<Self>, dir: DirId, place: u32) {
        let mut was_renewed = false;
        loop {
            let news = self.fetched.notified();
            tokio::pin!(news);
            // From here on no notification is missed.
            news.as_mut().enable();
            // A page tells of the name whether the file has come or not.
            let (fetches, renews) =
                self.look(|state| (state.fetching.contains(&(dir, place)), state.is_renewing(dir, place)));
            if !renews && (!fetches || was_renewed) {
                return;
            }
            was_renewed |= renews;
            if tokio::time::timeout(TOLD_WITHIN, news).await.is_err() {
                // The task that had to tell it may have panicked, which is noticed here.
                self.enter(|_| ());
            }
        }
    }
}

impl State {
    /// Whether the page with this entry is asked for again.
    pub(super) fn is_renewing(&self, dir: DirId, place: u32) -> bool {
        self.renewing.has(dir, place)
    }

    /// Whether the file at this place, or the page that it is in, is in flight.
    pub(super) fn is_coming(&self, dir: DirId, place: u32) -> bool {
        self.fetching.contains(&(dir, place)) || self.is_renewing(dir, place)
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// What is left to do when the lock is free.
struct Left {
    /// Listings whose readers are to look again.
    woken: Vec<Arc<Listing>>,
    settled: bool,
    reserved: Option<u64>,
    errands: VecDeque<Errand>,
}

impl State {
    fn leave(&mut self, names_bytes: u64) -> Left {
        Left {
            woken: std::mem::take(&mut self.table.woken),
            settled: std::mem::take(&mut self.settled),
            reserved: self.reserve(names_bytes),
            errands: std::mem::take(&mut self.errands),
        }
    }

    /// What the shard's policy is to be told that directories and names of front doors take, if
    /// that has changed enough.
    fn reserve(&mut self, names_bytes: u64) -> Option<u64> {
        let bytes = self.policy.charged_bytes() + names_bytes;
        let differs = bytes.abs_diff(self.reserved_bytes) >= RESERVE_BYTES;
        differs.then(|| {
            self.reserved_bytes = bytes;
            bytes
        })
    }
}

/// Divisor of the budget: what the storage's client may keep for listings, an eighth. Lower: less
/// memory for pages. Higher: listings side by side have an index page read again.
const KEPT_SHARE: u64 = 8;

/// Entries of forgotten listings that are gone through at a time. Lower: the lock is taken more
/// often. Higher: readers wait for longer when a large directory is forgotten.
const SWEPT_MAX: usize = 1024;

/// The shard's policy is told of the memory that directories take in steps of 1 MiB. Lower tells
/// it more often; higher lets the budget be exceeded by more meanwhile.
const RESERVE_BYTES: u64 = 1 << 20;

/// How long an order waits for policy to hear of a page that readers have, before it looks whether
/// the task that does both has panicked in between. Lower: it looks more often. Higher: an order
/// waits for longer after a panic.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
