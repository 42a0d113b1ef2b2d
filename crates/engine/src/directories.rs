//! What is known of directories, and policy for them, behind one lock.
//!
//! ```text
//!   Directory::read, look_up, open ──> events ──> policy ──> List  ──> a task: backend.list, entries into the listing, Event::Listed
//!                                                       ├──> ListBelow ──> a task: backend.list_below, entries into many listings
//!                                                       ├──> Fetch, Discard ──> the file's pages, as a prefetch of the shard
//!                                                       └──> Drop  ──> the listing is let go of; who reads it keeps it
//! ```
//!
//! *Freshness:* what a listing says counts for [`Options::metadata_ttl`](crate::Options) from the moment at which it was asked for, read
//! ahead or not; what a prefetch has read of a file confirms that version for as long. Whatever is older is asked for again.
//!
//! *Invariant:* a directory is listed by one chain of requests at a time; a listing that was replaced while somebody still reads it is
//! carried to its end for him.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use foreread_backend::{Entry, Key, ListPage, Object};
use foreread_policy::{Child, DirAction, DirCounters, DirEvent, DirId, DirOptions, DirReadahead, Event, Found, Nanos};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::below;
use crate::engine::Inner;
use crate::error::{Error, ErrorKind};
use crate::listing::{Listing, Node, Said, Taken, TakenChild};
use crate::name;
use crate::segments::{From, SegmentId, Segments};

/// See the module's text.
pub(crate) struct Directories {
    ttl: Duration,
    state: Mutex<State>,
    /// A file that was being fetched is not any more.
    fetched: Notify,
}

struct State {
    policy: DirReadahead,
    by_prefix: HashMap<Arc<str>, DirId>,
    known: HashMap<DirId, Known>,
    next: u64,
    /// Files that policy has had fetched, and that have not come yet.
    fetching: HashSet<(DirId, u32)>,
    ttl: Duration,
    /// What pages have been told that directories take.
    reserved_bytes: u64,
}

/// One directory that has an identity.
struct Known {
    prefix: Arc<str>,
    /// The latest listing.
    chain: Option<Arc<Chain>>,
    /// When files of the listing were last read under the version that it tells, by their places.
    confirmed: HashMap<u32, Instant>,
}

/// A listing and the requests that bring it.
pub(crate) struct Chain {
    pub(crate) dir: DirId,
    pub(crate) listing: Arc<Listing>,
    began: Instant,
    /// It is on its way with others, by one request for all of them.
    along: AtomicBool,
    segments: Mutex<Segments>,
    /// What has asked for pages of each segment so far: one that comes back leads nowhere.
    asked: Mutex<Asked>,
    /// The one that it replaces, until it is known whether it says the same.
    before: Mutex<Option<Arc<Listing>>>,
}

#[derive(Default)]
struct Asked {
    seeds: RandomState,
    tokens: HashSet<u64>,
    empty: u32,
}

/// Why it is not known what a name is.
pub(crate) enum Unknown {
    /// The storage has to be asked.
    Nothing,
    /// This listing is on its way, and will tell.
    Listing(Arc<Chain>),
    /// It was this entry when that was believed last. The file may be on its way, and will tell.
    Old(DirId, u32),
}

/// What a name is now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Named {
    /// What it stands for.
    pub node: Node,
    /// How long that may still be believed; not at all where the storage was asked for this name alone.
    pub believed: Duration,
}

/// What is to be done once the lock is free.
enum Errand {
    Fetch { dir: DirId, place: u32, object: Option<Object> },
    Discard(Object),
}

impl Directories {
    pub(crate) fn new(memory_bytes: u64, ttl: Duration, readahead: bool, below: bool) -> Self {
        let (capacity_bytes, contents_bytes) = (memory_bytes / 2, memory_bytes / 4);
        let options = DirOptions { capacity_bytes, contents_bytes, ttl: nanos(ttl), readahead, below };
        let policy = DirReadahead::new(options);
        let (by_prefix, known) = (HashMap::new(), HashMap::new());
        let state = State { policy, by_prefix, known, next: 0, fetching: HashSet::new(), ttl, reserved_bytes: 0 };
        Self { ttl, state: Mutex::new(state), fetched: Notify::new() }
    }

    pub(crate) fn counters(&self) -> (DirCounters, u64) {
        let state = self.state.lock();
        (state.policy.counters(), state.policy.charged_bytes())
    }

    /// Opens a directory for reading: what is known and fresh, or a listing that begins now.
    pub(crate) fn open(&self, engine: &Arc<Inner>, prefix: &str) -> Arc<Chain> {
        let mut errands = VecDeque::new();
        let chain = {
            let state = &mut *self.state.lock();
            let dir = state.identify(prefix);
            let found =
                match state.chain(dir) {
                    Some(chain) if self.is_fresh(chain.began) && !chain.listing.has_failed() => {
                        if chain.listing.has(0) { Found::Resident } else { Found::InFlight }
                    }
                    _ => Found::Absent,
                };
            state.tell(engine, DirEvent::Read { dir, entry: 0, found }, &mut errands);
            // Policy begins a listing for whoever waits, always. Without one there would be nothing to read.
            state.chain(dir).unwrap_or_else(|| state.restart(engine, dir))
        };
        self.run(engine, errands);
        chain
    }

    /// A reader of `chain` wants what is at `place`, and what follows.
    pub(crate) fn read(&self, engine: &Arc<Inner>, chain: &Arc<Chain>, place: u32) {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            let is_current = state.chain(chain.dir).is_some_and(|current| Arc::ptr_eq(&current, chain));
            let found = match chain.listing.has(place) {
                true => Found::Resident,
                false if chain.is_busy() => Found::InFlight,
                false => Found::Absent,
            };
            if is_current {
                state.tell(engine, DirEvent::Read { dir: chain.dir, entry: place, found }, &mut errands);
            }
            if found == Found::Absent && !chain.is_busy() && !chain.listing.is_over() {
                chain.go_on(engine, 1);
            }
        }
        self.run(engine, errands);
    }

    /// What `name` in `prefix` is, as far as what is known tells that.
    pub(crate) fn look_up(
        &self,
        engine: &Arc<Inner>,
        prefix: &str,
        name: &str,
        again: bool,
    ) -> Result<Option<Named>, Unknown> {
        let mut errands = VecDeque::new();
        let said = {
            let state = &mut *self.state.lock();
            let dir = state.identify(prefix);
            let said = match state.known.get(&dir).and_then(|known| Some((known, known.chain.as_ref()?))) {
                None => Err(Unknown::Nothing),
                Some((known, chain)) => match chain.look_up(name) {
                    Said::Absent(at) if self.is_fresh(at) => Ok(None),
                    Said::Present(node, place, at) => {
                        let confirmed = known.confirmed(place).max(state.seen_inside(&node));
                        let at = confirmed.map_or(at, |confirmed| at.max(confirmed));
                        let believed = self.ttl.saturating_sub(at.elapsed());
                        match believed.is_zero() {
                            false => Ok(Some(Named { node, believed })),
                            // What it holds is on its way: that will tell whether it is there.
                            true if !again => match state.inside(&node) {
                                Some(below)
                                    if below.is_busy() && !below.listing.has(0) && self.is_fresh(below.began) =>
                                {
                                    Err(Unknown::Listing(below))
                                }
                                _ => Err(Unknown::Old(dir, place)),
                            },
                            true => Err(Unknown::Nothing),
                        }
                    }
                    Said::Nothing if !again && !chain.listing.has(0) && self.is_fresh(chain.began) => {
                        Err(Unknown::Listing(Arc::clone(chain)))
                    }
                    Said::Absent(_) | Said::Nothing => Err(Unknown::Nothing),
                },
            };
            if !again {
                let (found, entry) = match &said {
                    Ok(_) => (Found::Resident, None),
                    Err(Unknown::Listing(_)) => (Found::InFlight, None),
                    Err(Unknown::Old(_, place)) => (Found::Absent, Some(*place)),
                    Err(Unknown::Nothing) => (Found::Absent, None),
                };
                state.tell(engine, DirEvent::Named { dir, entry, found }, &mut errands);
            }
            // A listing that begins now answers as soon as the storage would for this name.
            let began = || state.chain(dir).filter(|chain| !chain.listing.has(0) && self.is_fresh(chain.began));
            match said {
                Err(Unknown::Old(dir, place)) if state.fetching.contains(&(dir, place)) => {
                    Err(Unknown::Old(dir, place))
                }
                Err(Unknown::Nothing | Unknown::Old(..)) if !again => {
                    Err(began().map_or(Unknown::Nothing, Unknown::Listing))
                }
                said => said,
            }
        };
        self.run(engine, errands);
        said
    }

    /// Waits until a file that is being fetched has come, or does not.
    pub(crate) async fn settled(&self, dir: DirId, place: u32) {
        loop {
            let news = self.fetched.notified();
            tokio::pin!(news);
            // From here on nothing is missed.
            news.as_mut().enable();
            if !self.state.lock().fetching.contains(&(dir, place)) {
                return;
            }
            news.await;
        }
    }

    /// Whether `object` was the current version a moment ago, as far as is known.
    pub(crate) fn is_current(&self, object: &Object) -> bool {
        let state = self.state.lock();
        state.find(&object.key).is_some_and(|(known, node, place, at)| {
            let confirmed = known.confirmed(place);
            node == Node::File(object.clone()) && self.is_fresh(confirmed.map_or(at, |confirmed| at.max(confirmed)))
        })
    }

    /// A reader opens `object`, of whose contents this much is there.
    pub(crate) fn opened(&self, engine: &Arc<Inner>, object: &Object, found: Found) {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            let Some((dir, place)) = state.place(&object.key) else { return };
            state.tell(engine, DirEvent::Opened { dir, entry: place, found }, &mut errands);
        }
        self.run(engine, errands);
    }

    /// `key` will be read after the one named before it. Whether there is one.
    pub(crate) fn expect(&self, engine: &Arc<Inner>, key: &Key) -> bool {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            let Some((dir, place)) = state.place(key) else { return false };
            state.tell(engine, DirEvent::Expected { dir, entry: place }, &mut errands);
        }
        self.run(engine, errands);
        true
    }

    /// A page of `chain` has come.
    fn listed(&self, engine: &Arc<Inner>, chain: &Chain, taken: Taken) {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            if !state.chain(chain.dir).is_some_and(|current| std::ptr::eq(&raw const *current, chain)) {
                return;
            }
            let Taken { children, from, last, bytes } = taken;
            let count = children.len() as u32;
            let before = chain.before.lock().clone();
            let same = before.is_some_and(|before| chain.listing.is_like(&before, from, count));
            let mut subdirs = 0;
            let children: Vec<Child> = children
                .iter()
                .map(|child| match child {
                    TakenChild::Directory(prefix) => {
                        subdirs += 1;
                        Child::Directory(state.identify(prefix))
                    }
                    TakenChild::File(pages) => Child::File { pages: *pages },
                })
                .collect();
            if !same && let Some(known) = state.known.get_mut(&chain.dir) {
                known.confirmed = HashMap::new();
            }
            let bytes = bytes + subdirs * IDENTITY_BYTES;
            let event = DirEvent::Listed { dir: chain.dir, first: from == 0, same, children: &children, last, bytes };
            state.tell(engine, event, &mut errands);
            if last || !same {
                *chain.before.lock() = None;
            }
        }
        self.run(engine, errands);
    }

    /// All of `chain` has come, with others.
    fn listed_whole(&self, engine: &Arc<Inner>, chain: &Chain, entries: Vec<Entry>, requested: Instant) {
        let taken = chain.listing.take(ListPage { entries, continuation: None }, requested);
        chain.along.store(false, Relaxed);
        self.listed(engine, chain, taken);
    }

    /// The listing of a directory that comes with others although nobody asked for it, unless it is known.
    fn begin_along(&self, engine: &Arc<Inner>, prefix: &str, requested: Instant) -> Option<Arc<Chain>> {
        let mut errands = VecDeque::new();
        let chain = {
            let state = &mut *self.state.lock();
            let dir = state.identify(prefix);
            if state.chain(dir).is_some_and(|chain| chain.is_busy() || self.is_fresh(chain.began)) {
                return None;
            }
            let chain = state.begin(engine, dir, true);
            state.tell(engine, DirEvent::Along { dir, requested: engine.at(requested) }, &mut errands);
            chain
        };
        self.run(engine, errands);
        Some(chain)
    }

    fn listed_below(&self, engine: &Arc<Inner>, dir: DirId, from: u32) {
        let mut errands = VecDeque::new();
        self.state.lock().tell(engine, DirEvent::ListedBelow { dir, from }, &mut errands);
        self.run(engine, errands);
    }

    fn failed(&self, engine: &Arc<Inner>, chain: &Chain) {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            if state.chain(chain.dir).is_some_and(|current| std::ptr::eq(&raw const *current, chain)) {
                state.tell(engine, DirEvent::Failed { dir: chain.dir }, &mut errands);
            }
        }
        self.run(engine, errands);
    }

    /// Without the lock: keeps the budget, has files fetched that nobody has asked for, and lets go of what nobody came for.
    fn run(&self, engine: &Arc<Inner>, mut errands: VecDeque<Errand>) {
        let reserved = {
            let state = &mut *self.state.lock();
            let bytes = state.policy.charged_bytes();
            let differs = bytes.abs_diff(state.reserved_bytes) >= RESERVE_BYTES;
            differs.then(|| std::mem::replace(&mut state.reserved_bytes, bytes)).map(|_| bytes)
        };
        if let Some(bytes) = reserved {
            engine.enter(|shard| engine.tell(shard, Event::Reserve { bytes }));
        }
        while let Some(errand) = errands.pop_front() {
            match errand {
                Errand::Fetch { dir, place, object } => self.fetch(engine, dir, place, object, &mut errands),
                Errand::Discard(object) => engine.discard(&object),
            }
        }
    }

    fn fetch(
        &self,
        engine: &Arc<Inner>,
        dir: DirId,
        place: u32,
        object: Option<Object>,
        errands: &mut VecDeque<Errand>,
    ) {
        let asked = Instant::now();
        let inner = Arc::clone(engine);
        let prefetched = object.map(|object| {
            engine.prefetch(&object, move |came| inner.directories.fetched(&inner, dir, place, asked, came))
        });
        if prefetched == Some(Prefetched::Coming) {
            return;
        }
        let state = &mut *self.state.lock();
        let came = prefetched == Some(Prefetched::Resident);
        state.fetching.remove(&(dir, place));
        self.fetched.notify_waiters();
        state.tell(engine, DirEvent::Fetched { dir, entry: place, came }, errands);
        // What is there is of a version that nothing has confirmed lately: the next listing will.
        if came && state.chain(dir).is_some_and(|chain| !self.is_fresh(chain.began)) {
            state.tell(engine, DirEvent::Named { dir, entry: None, found: Found::Absent }, errands);
        }
    }

    /// A file that was asked for at `asked` is there, or is not.
    fn fetched(&self, engine: &Arc<Inner>, dir: DirId, place: u32, asked: Instant, came: bool) {
        let mut errands = VecDeque::new();
        {
            let state = &mut *self.state.lock();
            if came && let Some(known) = state.known.get_mut(&dir) {
                let confirmed = &mut known.confirmed;
                if confirmed.len() >= CONFIRMED_MAX {
                    confirmed.retain(|_, at| self.is_fresh(*at));
                }
                confirmed.insert(place, asked);
            }
            state.fetching.remove(&(dir, place));
            self.fetched.notify_waiters();
            state.tell(engine, DirEvent::Fetched { dir, entry: place, came }, &mut errands);
        }
        self.run(engine, errands);
    }

    fn is_fresh(&self, at: Instant) -> bool {
        !self.ttl.is_zero() && at.elapsed() <= self.ttl
    }
}

/// What has become of a wish to have a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefetched {
    /// It is on its way, and will be told of.
    Coming,
    /// It is there already.
    Resident,
    /// There is no room.
    Refused,
}

impl Known {
    fn confirmed(&self, place: u32) -> Option<Instant> {
        self.confirmed.get(&place).copied()
    }
}

impl State {
    /// The identity of a directory.
    fn identify(&mut self, prefix: &str) -> DirId {
        if let Some(&dir) = self.by_prefix.get(prefix) {
            return dir;
        }
        self.next += 1;
        let (dir, prefix) = (DirId(self.next), Arc::<str>::from(prefix));
        self.by_prefix.insert(Arc::clone(&prefix), dir);
        self.known.insert(dir, Known { prefix, chain: None, confirmed: HashMap::new() });
        dir
    }

    fn chain(&self, dir: DirId) -> Option<Arc<Chain>> {
        self.known.get(&dir)?.chain.clone()
    }

    /// The latest listing of a directory.
    fn inside(&self, node: &Node) -> Option<Arc<Chain>> {
        let Node::Directory(prefix) = node else { return None };
        self.chain(*self.by_prefix.get(prefix.as_str())?)
    }

    /// When a directory was last seen to have something in it, by its own listing: it is there.
    fn seen_inside(&self, node: &Node) -> Option<Instant> {
        let mut seen = None;
        self.inside(node)?.listing.visit(0, |_, _, _, at| {
            seen = Some(at);
            false
        });
        seen
    }

    /// What is known of an object: its directory, what that says, where, and since when.
    fn find(&self, key: &Key) -> Option<(&Known, Node, u32, Instant)> {
        let (prefix, name) = name::split(key.as_str());
        let known = self.known.get(self.by_prefix.get(prefix)?)?;
        match known.chain.as_ref()?.look_up(name) {
            Said::Present(node, place, at) => Some((known, node, place, at)),
            Said::Nothing | Said::Absent(_) => None,
        }
    }

    fn place(&self, key: &Key) -> Option<(DirId, u32)> {
        let (_, _, place, _) = self.find(key)?;
        let (prefix, _) = name::split(key.as_str());
        Some((*self.by_prefix.get(prefix)?, place))
    }

    /// Tells policy, and does what it says; files to fetch are left for when the lock is free.
    fn tell(&mut self, engine: &Arc<Inner>, event: DirEvent<'_>, errands: &mut VecDeque<Errand>) {
        self.policy.handle(engine.now(), event);
        while let Some(action) = self.policy.poll_action() {
            match action {
                DirAction::List { dir, restarts, parallel, .. } => {
                    let unasked = |chain: &Arc<Chain>| chain.is_unasked() && chain.began.elapsed() <= self.ttl;
                    match self.chain(dir).filter(|chain| !restarts || unasked(chain)) {
                        Some(chain) => chain.go_on(engine, parallel),
                        None => _ = self.restart(engine, dir),
                    }
                }
                DirAction::ListBelow { dir, from, to } => self.list_below(engine, dir, from, to),
                DirAction::Fetch { dir, entry: place } => {
                    let object = self.chain(dir).and_then(|chain| match chain.entry(place) {
                        Some(Node::File(object)) => Some(object),
                        _ => None,
                    });
                    self.fetching.insert((dir, place));
                    errands.push_back(Errand::Fetch { dir, place, object });
                }
                DirAction::Discard { dir, entry: place } => {
                    if let Some(Node::File(object)) = self.chain(dir).and_then(|chain| chain.entry_before(place)) {
                        errands.push_back(Errand::Discard(object));
                    }
                }
                DirAction::Drop { dir } => self.drop(dir),
            }
        }
    }

    /// Begins to list `dir` anew.
    fn restart(&mut self, engine: &Arc<Inner>, dir: DirId) -> Arc<Chain> {
        let chain = self.begin(engine, dir, false);
        chain.go_on(engine, 1);
        chain
    }

    /// A listing of `dir` of which nothing has been asked for. `along`: it will come with others.
    fn begin(&mut self, engine: &Inner, dir: DirId, along: bool) -> Arc<Chain> {
        let known = self.known.get_mut(&dir);
        let prefix = known.as_ref().map_or_else(|| Arc::from(""), |known| Arc::clone(&known.prefix));
        let before = known.as_ref().and_then(|known| known.chain.as_ref()).map(|chain| Arc::clone(&chain.listing));
        let chain = Arc::new(Chain {
            dir,
            listing: Listing::new(&prefix),
            began: Instant::now(),
            along: AtomicBool::new(along),
            segments: Mutex::new(Segments::new(engine.backend.capabilities().list_after)),
            asked: Mutex::default(),
            before: Mutex::new(before),
        });
        if let Some(known) = known {
            known.chain = Some(Arc::clone(&chain));
        }
        chain
    }

    /// Asks for all that lies below the directories among entries `[from, to)` of `dir`.
    fn list_below(&mut self, engine: &Arc<Inner>, dir: DirId, from: u32, to: u32) {
        let (mut prefixes, mut prefix) = (Vec::new(), Arc::from(""));
        if let Some(above) = self.chain(dir) {
            prefix = above.listing.shared_prefix();
            above.listing.visit(from, |place, _, node, _| {
                prefixes.extend(match node {
                    Node::Directory(prefix) if place < to => Some(prefix),
                    _ => None,
                });
                place < to
            });
        }
        let chains = prefixes.iter().map(|prefix| {
            let dir = self.identify(prefix);
            self.begin(engine, dir, true)
        });
        let below = Below { dir, from, prefix, chains: chains.collect() };
        let inner = Arc::clone(engine);
        engine.runtime.spawn(async move { below.come(&inner).await });
    }

    /// Lets go of what `dir` holds, and of identities that nothing leads to any more.
    fn drop(&mut self, dir: DirId) {
        let Some(known) = self.known.get_mut(&dir) else { return };
        let (chain, prefix) = (known.chain.take(), Arc::clone(&known.prefix));
        known.confirmed = HashMap::new();
        let mut below = Vec::new();
        if let Some(chain) = chain {
            chain.listing.visit(0, |_, _, node, _| {
                below.extend(if let Node::Directory(prefix) = node { Some(prefix) } else { None });
                true
            });
        }
        let (parent, _) = name::split(prefix.strip_suffix('/').unwrap_or(&prefix));
        let parent = self.by_prefix.get(parent).and_then(|parent| self.known.get(parent));
        if parent.is_none_or(|parent| parent.chain.is_none()) {
            below.push(prefix.to_string());
        }
        for prefix in below {
            if let Some(dir) = self.by_prefix.get(&*prefix)
                && self.known.get(dir).is_some_and(|known| known.chain.is_none())
            {
                self.known.remove(dir);
                self.by_prefix.remove(&*prefix);
            }
        }
    }
}

/// A request for all that lies below some directories of `dir`.
struct Below {
    dir: DirId,
    from: u32,
    prefix: Arc<str>,
    chains: Vec<Arc<Chain>>,
}

impl Below {
    async fn come(self, engine: &Arc<Inner>) {
        let requested = Instant::now();
        let asked: Vec<String> = self.chains.iter().map(|chain| chain.listing.prefix().to_owned()).collect();
        let mut listings = BTreeMap::new();
        if let Some(first) = asked.first() {
            match engine.list_below(&self.prefix, first).await {
                Ok(page) => listings = below::whole(&self.prefix, first, page, &asked),
                // Each of them is asked for by itself when a reader comes to it.
                Err(error) => tracing::debug!(%error, "no listing of all that lies below"),
            }
        }
        let directories = &engine.directories;
        for chain in &self.chains {
            if let Some(entries) = listings.remove(chain.listing.prefix()) {
                directories.listed_whole(engine, chain, entries, requested);
            }
        }
        for (prefix, entries) in listings {
            if let Some(chain) = directories.begin_along(engine, &prefix, requested) {
                directories.listed_whole(engine, &chain, entries, requested);
            }
        }
        directories.listed_below(engine, self.dir, self.from);
        for chain in self.chains.iter().filter(|chain| chain.along.swap(false, Relaxed)) {
            chain.listing.wake();
        }
    }
}

impl Chain {
    /// What is said of `name`, by the listing before while this one has not come so far.
    fn look_up(&self, name: &str) -> Said {
        match (self.listing.look_up(name), &*self.before.lock()) {
            (Said::Nothing, Some(before)) => match before.look_up(name) {
                said @ Said::Present(..) => said,
                Said::Absent(_) | Said::Nothing => Said::Nothing,
            },
            (said, _) => said,
        }
    }

    /// The entry at `place`, in the same way.
    fn entry(&self, place: u32) -> Option<Node> {
        self.listing.entry(place).or_else(|| self.before.lock().as_ref()?.entry(place))
    }

    /// Whether more of it is on its way.
    fn is_busy(&self) -> bool {
        self.along.load(Relaxed) || self.segments.lock().in_flight() > 0
    }

    /// Whether nothing of it has come, and nothing is on its way.
    fn is_unasked(&self) -> bool {
        !self.is_busy() && !self.listing.is_over() && !self.listing.has(0)
    }

    /// The entry at `place`, by the listing before as long as that counts.
    fn entry_before(&self, place: u32) -> Option<Node> {
        let before = self.before.lock().as_ref().and_then(|before| before.entry(place));
        before.or_else(|| self.listing.entry(place))
    }

    /// Asks for more of it, so that as many as `parallel` requests are under way where that can be.
    pub(crate) fn go_on(self: &Arc<Self>, engine: &Arc<Inner>, parallel: u32) {
        if self.listing.is_over() || self.along.load(Relaxed) {
            return;
        }
        for (segment, from) in self.segments.lock().ask(parallel) {
            let (chain, inner) = (Arc::clone(self), Arc::clone(engine));
            engine.runtime.spawn(async move { chain.page(&inner, segment, from).await });
        }
    }

    async fn page(self: Arc<Self>, engine: &Arc<Inner>, segment: SegmentId, from: From) {
        let requested = Instant::now();
        let page = match engine.list(self.listing.prefix(), &from).await {
            Ok(page) => self.advances(segment, &page).map(|()| page),
            Err(error) => Err(error),
        };
        match page {
            Ok(page) => {
                // Pages are taken in the order in which they are given out.
                let mut segments = self.segments.lock();
                let pages = segments.arrived(segment, page, requested);
                let taken: Vec<_> = pages.into_iter().map(|(page, at)| self.listing.take(page, at)).collect();
                drop(segments);
                if taken.is_empty() {
                    self.go_on(engine, 1);
                }
                for taken in taken {
                    engine.directories.listed(engine, &self, taken);
                }
            }
            Err(error) => {
                engine.directories.failed(engine, &self);
                self.listing.fail(error);
            }
        }
    }

    /// Whether a page leads anywhere.
    fn advances(&self, segment: SegmentId, page: &foreread_backend::ListPage) -> Result<(), Error> {
        let Some(token) = &page.continuation else { return Ok(()) };
        let asked = &mut *self.asked.lock();
        asked.empty = if page.entries.is_empty() { asked.empty + 1 } else { 0 };
        let seed = asked.seeds.hash_one((segment, token));
        let what = if !asked.tokens.insert(seed) {
            "the storage names the same continuation twice"
        } else if asked.empty > EMPTY_MAX {
            "the storage answers with empty pages without end"
        } else {
            return Ok(());
        };
        let text = format!("list {}: {what}: the listing would never end", self.listing.prefix());
        Err(Error::new(ErrorKind::Io, text).with_key(self.listing.prefix()))
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// What the name and the identity of a directory take.
const IDENTITY_BYTES: u64 = 160;

/// Confirmations of a directory before those that count no more are removed.
const CONFIRMED_MAX: usize = 4096;

/// Pages without an entry, one after the other, before it is said that there will never be one.
pub(crate) const EMPTY_MAX: u32 = 1000;

/// Pages are told of what directories take in steps of this much.
const RESERVE_BYTES: u64 = 1 << 20;
