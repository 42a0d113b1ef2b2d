//! Storage whose behaviour follows from a seed: objects in memory that are never stored.
//!
//! ```text
//!   read, list ── sleeps ──> refused │ silent for ever │ replaced meanwhile │ bytes, in pieces
//!                                                            └─ breaks off, or ends early
//!   in place (a local disk) ── at once │ later ──> bytes │ refused │ never │ forgotten
//! ```
//!
//! The bytes of an object follow from its generation and their place. Names never change, so each
//! listing has all of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::lock::Mutex;
use foreread_backend::{
    Backend, Body, Buffers, Capabilities, Entry, Error, ErrorKind, InPlace, Key, ListPage, Mechanism, Object,
    Operation, Positioned, Submitter, Version,
};
use foreread_device::Random;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, sleep};

/// How often an attempt fails in each way, in millionths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rates {
    pub(crate) refused: u32,
    pub(crate) broken: u32,
    pub(crate) silent: u32,
    pub(crate) replaced: u32,
}

/// What the storage is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nature {
    pub(crate) rates: Rates,
    pub(crate) first_byte: Duration,
    /// Of one connection.
    pub(crate) bytes_per_s: u64,
    /// Entries of one page of a listing.
    pub(crate) page: usize,
    /// It can list what follows a key.
    pub(crate) list_after: bool,
    /// It is a local disk: short reads are made in place.
    pub(crate) local: bool,
}

/// The storage.
pub(crate) struct Store {
    pub(crate) nature: Nature,
    random: Mutex<Random>,
    /// Length and generation.
    objects: Mutex<BTreeMap<String, (u64, u64)>>,
    /// When bytes of each object last came.
    came: Arc<Mutex<BTreeMap<String, Instant>>>,
    /// Nothing fails any more.
    calm: AtomicBool,
    pub(crate) reads: AtomicU64,
    pub(crate) lists: AtomicU64,
}

/// Bytes after which an object repeats itself: a prime, so that no whole number of pages away are
/// the same bytes.
const PERIOD: u64 = 1_048_583;

/// The bytes of an object follow from generation and place. They are cut from one buffer, since
/// to make them takes longer than all that the engine does with them.
pub(crate) fn content(generation: u64, range: Range<u64>) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = Random::new(1);
        let period: Vec<u8> = (0..PERIOD).map(|_| random.below(256) as u8).collect();
        [&period[..], &period[..], &period[..]].concat()
    });
    let start = (range.start + generation * 12_345) % PERIOD;
    &BYTES[start as usize..(start + range.end.saturating_sub(range.start)) as usize]
}

fn version(size: u64, generation: u64) -> Version {
    Version { size, tag: Some(generation.to_string().into()), modified: None }
}

fn error(kind: ErrorKind, operation: Operation, key: &str) -> Error {
    Error::new(kind, operation, key, "as the seed has it")
}

/// What becomes of an attempt.
enum Fate {
    Goes,
    Refused,
    Silent,
}

impl Store {
    pub(crate) fn new(nature: Nature, objects: impl Iterator<Item = (String, u64)>, random: Random) -> Arc<Self> {
        let objects = objects.map(|(key, size)| (key, (size, 1))).collect();
        Arc::new(Self {
            nature,
            random: Mutex::new(random),
            objects: Mutex::new(objects),
            came: Arc::default(),
            calm: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            lists: AtomicU64::new(0),
        })
    }

    /// How long a reader of `key` has waited at `end` since it `began`, or since bytes of it last
    /// came: patience counts from then.
    pub(crate) fn waited(&self, key: &str, began: Instant, end: Instant) -> Duration {
        let came = self.came.lock().get(key).copied();
        end.saturating_duration_since(came.map_or(began, |came| came.max(began)))
    }

    /// From now on nothing fails.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Relaxed);
    }

    fn rates(&self) -> Rates {
        if self.calm.load(Relaxed) { Rates::default() } else { self.nature.rates }
    }

    pub(crate) fn object(&self, key: &str) -> Object {
        let (size, generation) = self.objects.lock()[key];
        Object { key: Key::new(key), version: version(size, generation) }
    }

    /// How long an answer takes, and what it is.
    fn fate(&self) -> (Duration, Fate) {
        let (random, rates) = (&mut *self.random.lock(), self.rates());
        let late = self.nature.first_byte * (if random.chance(20_000) { 20 } else { 1 });
        let fate = match random.chance(rates.refused) {
            true => Fate::Refused,
            false if random.chance(rates.silent) => Fate::Silent,
            false => Fate::Goes,
        };
        (late, fate)
    }

    /// Sleeps, and fails as the seed has it.
    async fn answer(&self, operation: Operation, key: &str) -> Result<(), Error> {
        let (late, fate) = self.fate();
        sleep(late).await;
        match fate {
            Fate::Goes => Ok(()),
            Fate::Refused => Err(error(ErrorKind::Transient, operation, key)),
            Fate::Silent => std::future::pending().await,
        }
    }

    /// May replace the object.
    fn disturb(&self, key: &str) {
        if self.random.lock().chance(self.rates().replaced)
            && let Some(object) = self.objects.lock().get_mut(key)
        {
            object.1 += 1;
        }
    }

    /// The generation of an object, if it is still the version that is wanted.
    fn generation(&self, key: &str, wanted: &Version) -> Result<u64, Error> {
        let (size, generation) = self.objects.lock()[key];
        let same = version(size, generation) == *wanted;
        same.then_some(generation).ok_or_else(|| error(ErrorKind::Changed, Operation::Read, key))
    }

    /// A page of what is below `prefix` and comes after `after`: children, or all objects.
    fn page(&self, prefix: &str, after: &str, children: bool) -> ListPage {
        let objects = self.objects.lock();
        let mut entries: Vec<Entry> = Vec::new();
        let below = objects.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        for (key, &(size, generation)) in below {
            let entry = match key[prefix.len()..].split_once('/').filter(|_| children) {
                Some((name, _)) => Entry::Prefix(format!("{prefix}{name}/")),
                None => Entry::Object(Object { key: Key::new(key.as_str()), version: version(size, generation) }),
            };
            if entry.key() <= after || entries.last().is_some_and(|last| last.key() == entry.key()) {
                continue;
            }
            if entries.len() == self.nature.page {
                let continuation = entries.last().map(|last| last.key().to_owned());
                return ListPage { entries, continuation };
            }
            entries.push(entry);
        }
        ListPage { entries, continuation: None }
    }

    async fn list_page(&self, prefix: &str, after: &str, children: bool) -> Result<ListPage, Error> {
        self.lists.fetch_add(1, Relaxed);
        self.answer(Operation::List, prefix).await?;
        Ok(self.page(prefix, after, children))
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a seeded store".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let list_after = self.nature.list_after;
        Capabilities::default().with_conditional_read(true).with_range(true).with_list(true).with_list_after(list_after)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            self.answer(Operation::Stat, key.as_str()).await?;
            let known = self.objects.lock().contains_key(key.as_str());
            let found = known.then(|| self.object(key.as_str()));
            found.ok_or_else(|| error(ErrorKind::NotFound, Operation::Stat, key.as_str()))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, wanted: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            self.reads.fetch_add(1, Relaxed);
            self.disturb(key.as_str());
            let (breaks, piece) = {
                let random = &mut *self.random.lock();
                let len = range.end - range.start;
                (random.chance(self.rates().broken).then(|| random.below(len)), 1 << (10 + random.below(8)))
            };
            self.answer(Operation::Read, key.as_str()).await?;
            let generation = self.generation(key.as_str(), wanted)?;
            let end = breaks.map_or(range.end, |after| range.start + after);
            let starts = (range.start..end).step_by(piece);
            let pause = Duration::from_nanos(piece as u64 * 1_000_000_000 / self.nature.bytes_per_s);
            let (came, name) = (Arc::clone(&self.came), key.as_str().to_owned());
            let pieces = stream::iter(starts).then(move |start| {
                let (came, name) = (Arc::clone(&came), name.clone());
                async move {
                    sleep(pause).await;
                    came.lock().insert(name, Instant::now());
                    Ok(Bytes::from_static(content(generation, start..end.min(start + piece as u64))))
                }
            });
            // A body that breaks off ends with an error, or early.
            let broken = breaks.filter(|after| after % 2 == 0);
            let broken = broken.map(|_| Err(error(ErrorKind::Transient, Operation::Read, key.as_str())));
            Ok(pieces.chain(stream::iter(broken)).boxed())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, from: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list_page(prefix, from.unwrap_or_default(), true).boxed()
    }

    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list_page(prefix, after, true).boxed()
    }

    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.list_page(prefix, after, false).boxed()
    }
}

/// The storage as a local disk, of which an object is read in place.
pub(crate) struct Disk(pub(crate) Arc<Store>);

impl Backend for Disk {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        self.0.stat(key)
    }

    fn read<'a>(&'a self, key: &'a Key, wanted: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        self.0.read(key, wanted, range)
    }

    fn list<'a>(&'a self, prefix: &'a str, from: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.0.list(prefix, from)
    }

    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.0.list_after(prefix, after)
    }

    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        self.0.list_below(prefix, after)
    }

    fn positioned(&self, object: &Object) -> Option<Arc<dyn Positioned>> {
        Some(Arc::new(Place { store: Arc::clone(&self.0), object: object.clone() }))
    }

    fn submission(&self) -> Option<&Submitter> {
        static UNUSED: LazyLock<Submitter> = LazyLock::new(|| Submitter::new(Mechanism::Threads));
        Some(&UNUSED)
    }
}

/// After so long a disk that was silent answers.
pub(crate) const TOO_LATE: Duration = Duration::from_secs(100);

/// One version of an object on the disk.
struct Place {
    store: Arc<Store>,
    object: Object,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Place").field(&self.object.key).finish()
    }
}

impl Positioned for Place {
    fn read(&self, offset: u64, mut buffers: Buffers, done: InPlace) {
        let (store, object) = (Arc::clone(&self.store), self.object.clone());
        store.reads.fetch_add(1, Relaxed);
        store.disturb(object.key.as_str());
        let (late, fate) = store.fate();
        let odds = store.random.lock().below(8);
        // One that is silent is forgotten, or answers when no reader waits for it any more.
        let late = if matches!(fate, Fate::Silent) { TOO_LATE } else { late };
        let answer = move || {
            let key = object.key.as_str();
            match (fate, store.generation(key, &object.version)) {
                // It never calls back: the read is forgotten.
                (Fate::Silent, _) if odds < 4 => drop(done),
                (Fate::Refused, _) => done(Err(error(ErrorKind::Throttled, Operation::Read, key)).into()),
                (_, Err(error)) => done(Err(error).into()),
                (_, Ok(generation)) => {
                    let mut at = offset;
                    for buffer in &mut buffers {
                        let len = buffer.len() as u64;
                        buffer.copy_from_slice(content(generation, at..at + len));
                        at += len;
                    }
                    done(Ok(buffers).into());
                }
            }
        };
        // What the kernel remembers is answered at once.
        if odds == 0 {
            return answer();
        }
        tokio::spawn(async move {
            sleep(late).await;
            answer();
        });
    }
}
