//! What readers do: each step follows from their seed, and what it returns is checked.
//!
//! ```text
//!   reads of one file, in some order ── one at a time, or several together
//!      ├─ now and then: another file, by its name or as it is known
//!      ├─ now and then: a directory, to its end or not
//!      └─ now and then: an order of files is told, taken back; names are forgotten
//! ```

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::lock::Mutex;
use foreread_backend::{Key, Object};
use foreread_device::Random;
use foreread_engine::{Engine, Error, ErrorKind, File, Node, Pages};
use futures::channel::oneshot;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use crate::store::{Store, content};

/// What one run did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    /// Reads and listings whose readers did not wait for the answer.
    pub(crate) abandoned: u64,
    /// Listings to the end of a directory, names looked up, orders told.
    pub(crate) listings: u64,
    pub(crate) names: u64,
    pub(crate) orders: u64,
    /// Other budgets.
    pub(crate) budgets: u64,
    /// What the storage was asked for.
    pub(crate) requests: u64,
    pub(crate) panics: u64,
    /// Reads that the cache answered.
    pub(crate) cache_hits: u64,
    pub(crate) took: Duration,
    /// The longest wait of a read for its next bytes, and the longest one for a name or an entry.
    pub(crate) longest: Duration,
    pub(crate) longest_name: Duration,
}

impl Outcome {
    /// What happened: calls, and requests for them.
    pub(crate) fn events(&self) -> u64 {
        let calls = self.reads + self.abandoned + self.listings + self.names + self.orders + self.budgets;
        calls + self.requests + self.errors
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.abandoned += other.abandoned;
        self.listings += other.listings;
        self.names += other.names;
        self.orders += other.orders;
        self.budgets += other.budgets;
        self.requests += other.requests;
        self.panics += other.panics;
        self.cache_hits += other.cache_hits;
        self.took += other.took;
        self.longest = self.longest.max(other.longest);
        self.longest_name = self.longest_name.max(other.longest_name);
    }
}

/// When a call began, and when it ended.
type Span = (Instant, Instant);

/// What all readers of a run share.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<Store>,
    pub(crate) keys: Vec<String>,
    /// Directories, each with its names: those of directories end in a slash.
    pub(crate) directories: Vec<(String, BTreeSet<String>)>,
    pub(crate) outcome: Mutex<Outcome>,
    /// Errors of the storage, and of the engine's own, are to be expected.
    pub(crate) faulty: bool,
    pub(crate) fragile: bool,
}

impl World {
    /// Checks how a call ended that has nothing to do with a version.
    fn allows(&self, error: &Error) -> bool {
        match error.kind() {
            ErrorKind::Changed => self.store.nature.rates.replaced > 0,
            ErrorKind::Io | ErrorKind::TimedOut => self.faulty || self.fragile,
            _ => false,
        }
    }

    /// Notes how a read of `range` ended, and checks it. Returns whether it had its bytes.
    fn note(&self, object: &Object, range: Range<u64>, result: Result<Bytes, Error>, (began, end): Span) -> bool {
        let waited = self.store.waited(object.key.as_str(), began, end);
        let outcome = &mut *self.outcome.lock();
        outcome.longest = outcome.longest.max(waited);
        outcome.reads += 1;
        match result {
            Ok(bytes) => {
                outcome.bytes += bytes.len() as u64;
                let tag = object.version.tag.as_deref().unwrap_or_default();
                let end = range.end.min(object.version.size);
                let expected = content(tag.parse().expect("a number"), range.start..end);
                assert_eq!(bytes.len(), expected.len(), "a short read of {range:?}");
                assert!(bytes == expected, "wrong bytes of {range:?}");
                true
            }
            Err(error) => {
                outcome.errors += 1;
                assert!(self.allows(&error), "a read of {range:?}: {error}");
                false
            }
        }
    }

    fn failed(&self, what: &str, error: &Error) {
        self.outcome.lock().errors += 1;
        assert!(self.allows(error), "{what}: {error}");
    }

    fn waited(&self, since: Instant) {
        let outcome = &mut *self.outcome.lock();
        outcome.longest_name = outcome.longest_name.max(since.elapsed());
    }

    /// Reads a directory to its end, with pauses, and checks that each name is there once. Returns
    /// whether it came.
    pub(crate) async fn list(&self, prefix: &str, names: &BTreeSet<String>, pause: Duration) -> bool {
        let (directory, mut found, mut next) = (self.engine.open_directory(prefix), BTreeSet::new(), 0);
        loop {
            let since = Instant::now();
            let waited = directory.wait(next).await;
            self.waited(since);
            match waited {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.failed(prefix, &error);
                    return false;
                }
            }
            let most = next + 7;
            // Entries that are gone meanwhile are waited for again.
            let _ = directory.visit(next, |place, name, node, _| {
                assert_eq!(place, next, "each entry of {prefix:?} in its place");
                let slash = if matches!(node, Node::Directory(_)) { "/" } else { "" };
                assert!(found.insert(format!("{name}{slash}")), "{name} comes twice in {prefix:?}");
                next += 1;
                next < most
            });
            sleep(pause).await;
        }
        assert_eq!(found, *names, "the names in {prefix:?}");
        self.outcome.lock().listings += 1;
        true
    }

    /// Looks a name up. Returns the object that has it.
    pub(crate) async fn look_up(&self, key: &str) -> Option<Object> {
        let (prefix, name) = key.rsplit_once('/').map_or(("", key), |(_, name)| (&key[..key.len() - name.len()], name));
        let since = Instant::now();
        let named = self.engine.look_up(prefix, name).await;
        self.waited(since);
        match named.map(|named| named.node) {
            Ok(Node::File(object)) => {
                self.outcome.lock().names += 1;
                assert_eq!(object.key.as_str(), key);
                Some(object)
            }
            Ok(Node::Directory(_)) => panic!("{key} is a file"),
            Err(error) => {
                self.failed(key, &error);
                None
            }
        }
    }

    /// Looks a name up that is a directory's, or that nothing has.
    async fn look_up_other(&self, prefix: &str, name: &str, exists: bool) {
        let since = Instant::now();
        let named = self.engine.look_up(prefix, name).await;
        self.waited(since);
        match named.map(|named| named.node) {
            Ok(Node::Directory(found)) if exists => assert_eq!(found, format!("{prefix}{name}/")),
            Err(error) if !exists && error.kind() == ErrorKind::NotFound => {}
            Ok(node) => panic!("{prefix}{name}: {node:?}"),
            Err(error) => return self.failed(name, &error),
        }
        self.outcome.lock().names += 1;
    }

    /// Reads a range, as one call.
    pub(crate) async fn read(&self, file: &File, range: Range<u64>) -> bool {
        let began = Instant::now();
        let result = file.read_at(range.start, (range.end - range.start) as usize).await;
        self.note(file.object(), range, result, (began, Instant::now()))
    }

    /// Reads several ranges, of which policy is told together. Each is answered with some of its
    /// bytes at least.
    async fn read_together(&self, file: &File, ranges: Vec<Range<u64>>) -> bool {
        let began = Instant::now();
        let (reads, ends): (Vec<_>, Vec<_>) = ranges
            .iter()
            .map(|range| {
                let (send, receive) = oneshot::channel();
                let done = move |result: Result<Pages, Error>| {
                    let bytes = result.map(|pages| Bytes::from(pages.slices().collect::<Vec<_>>().concat()));
                    // The reader waits for all of them.
                    let _ = send.send((bytes, Instant::now()));
                };
                ((file.clone(), range.start, (range.end - range.start) as usize, done), receive)
            })
            .unzip();
        self.engine.read_together(reads);
        let mut all = true;
        for (range, end) in ranges.into_iter().zip(join_all(ends).await) {
            let (result, at) = end.expect("each read ends");
            let end = result.as_ref().map_or(range.end, |bytes| range.start + bytes.len() as u64);
            assert!(end > range.start && end <= range.end, "{range:?} was answered up to {end}");
            all &= self.note(file.object(), range.start..end, result, (began, at));
        }
        all
    }
}

/// One reader.
pub(crate) struct Reader {
    pub(crate) random: Random,
    pub(crate) reads: u64,
    pub(crate) longest_read: u64,
    /// Between two reads, at most.
    pub(crate) pause: Duration,
}

impl Reader {
    fn key<'a>(&mut self, world: &'a World) -> &'a str {
        &world.keys[self.random.below(world.keys.len() as u64) as usize]
    }

    fn below(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.random.below(most.as_nanos() as u64 + 1))
    }

    /// Opens another file: as it is known, or by its name.
    async fn open(&mut self, world: &World) -> Option<File> {
        let key = self.key(world);
        let by_name = self.random.chance(300_000);
        let object = if by_name { world.look_up(key).await? } else { world.store.object(key) };
        Some(world.engine.open(&object))
    }

    /// Does something with names.
    async fn name(&mut self, world: &World) {
        let (prefix, names) = &world.directories[self.random.below(world.directories.len() as u64) as usize];
        match self.random.below(16) {
            0..=5 => {
                let pause = self.below(self.pause / 8);
                let list = world.list(prefix, names, pause);
                // Some readers do not wait for the end.
                let gives_up = self.random.chance(300_000);
                let waits = if gives_up { Duration::from_millis(self.random.below(100)) } else { FOR_EVER };
                if timeout(waits, list).await.is_err() {
                    world.outcome.lock().abandoned += 1;
                }
            }
            6..=9 => _ = world.look_up(self.key(world)).await,
            10 | 11 => {
                let nth = self.random.below(names.len() as u64) as usize;
                if let Some(name) = names.iter().nth(nth).and_then(|name| name.strip_suffix('/')) {
                    world.look_up_other(prefix, name, true).await;
                }
            }
            12 => world.look_up_other(prefix, "none", false).await,
            13 => {
                let keys = (0..=self.random.below(30)).map(|_| Key::new(self.key(world))).collect::<Vec<_>>();
                let count = keys.len();
                match world.engine.expect(keys).await {
                    Ok(known) => assert!(known <= count, "{known} of {count} files"),
                    Err(error) => world.failed("an order", &error),
                }
                world.outcome.lock().orders += 1;
            }
            14 => world.engine.expect_none(),
            _ => world.engine.forget_names(),
        }
    }

    pub(crate) async fn run(mut self, world: Arc<World>) {
        let (mut file, mut at, mut step) = (None::<File>, 0_u64, 0_i64);
        for _ in 0..self.reads {
            if self.random.chance(40_000) {
                self.name(&world).await;
            }
            if file.is_none() || self.random.chance(50_000) {
                file = self.open(&world).await;
                at = file.as_ref().map_or(0, |file| self.random.below(file.size()));
                step = [1, 1, -1, 3, 0][self.random.below(5) as usize];
            }
            let Some(opened) = file.clone() else { continue };
            let size = opened.size();
            let len = 1 + self.random.below(self.longest_read.min(size));
            at = match step {
                0 => self.random.below(size),
                step => at.wrapping_add_signed(step * len as i64) % size,
            };
            let range = at..(at + len).min(size);
            let right = match self.random.below(33) {
                0 => {
                    // Some readers give up before the answer comes.
                    let (read, began) = (opened.read_at(range.start, len as usize), Instant::now());
                    let waits = Duration::from_millis(self.random.below(50));
                    let Ok(result) = timeout(waits, read).await else {
                        world.outcome.lock().abandoned += 1;
                        continue;
                    };
                    world.note(opened.object(), range, result, (began, Instant::now()))
                }
                1 => {
                    let others = (0..=self.random.below(3)).map(|_| {
                        let at = self.random.below(size);
                        at..(at + len).min(size)
                    });
                    let ranges = [range].into_iter().chain(others.collect::<Vec<_>>()).collect();
                    world.read_together(&opened, ranges).await
                }
                _ => world.read(&opened, range).await,
            };
            if !right {
                file = None;
            }
            sleep(self.below(self.pause)).await;
        }
    }
}

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_hours(1000);
