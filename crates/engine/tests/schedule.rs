//! The engine under a schedule: its own code, on one thread, in virtual time, in front of storage
//! whose behaviour follows from a seed.
//!
//! ```text
//!   seed ──> files, budget, readers, faults, panics
//!   readers ── File::read ──> engine: driver, requests, retries, hedges ──> Store: sleeps, fails
//!              └─ compares every byte           one thread, paused clock
//! ```
//!
//! Each run checks that every byte is right, that each read ends and has no error that its faults
//! do not allow, and that nothing is left in flight at the end. The same seed gives the same run.
//!
//! `FOREREAD_SEEDS=1..100000` runs other seeds than CI does, on as many threads as there are
//! processors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::lock::Mutex;
use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_device::Random;
use foreread_engine::{Engine, ErrorKind as Failed, File, Options, Panic, Patience};
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

/// How often an attempt fails in each way, in millionths.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    refused: u32,
    broken: u32,
    silent: u32,
    replaced: u32,
}

/// Objects in memory that are never stored: the bytes follow from generation and place.
struct Store {
    random: Mutex<Random>,
    rates: Rates,
    first_byte: Duration,
    /// Of one connection.
    bytes_per_s: u64,
    /// Length and generation.
    objects: Mutex<BTreeMap<String, (u64, u64)>>,
    reads: AtomicU64,
}

/// Bytes after which an object repeats itself: a prime, so that no whole number of pages away are
/// the same bytes.
const PERIOD: u64 = 1_048_583;

/// The bytes of an object follow from generation and place. They are cut from one buffer, since
/// to make them takes longer than all that the engine does with them.
fn content(generation: u64, range: Range<u64>) -> &'static [u8] {
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

impl Store {
    fn object(&self, key: &str) -> Object {
        let (size, generation) = self.objects.lock()[key];
        Object { key: Key::new(key), version: version(size, generation) }
    }

    fn error(kind: ErrorKind, key: &Key) -> Error {
        Error::new(kind, Operation::Read, key.as_str(), "as the seed has it")
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a seeded store".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_conditional_read(true).with_range(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move { Ok(self.object(key.as_str())) }.boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, wanted: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            self.reads.fetch_add(1, Relaxed);
            let (refused, breaks, silent, late, piece) = {
                let random = &mut *self.random.lock();
                if random.chance(self.rates.replaced)
                    && let Some(object) = self.objects.lock().get_mut(key.as_str())
                {
                    object.1 += 1;
                }
                let len = range.end - range.start;
                let breaks = random.chance(self.rates.broken).then(|| random.below(len));
                let late = self.first_byte * (if random.chance(20_000) { 20 } else { 1 });
                let piece = 1 << (10 + random.below(8));
                (random.chance(self.rates.refused), breaks, random.chance(self.rates.silent), late, piece)
            };
            sleep(late).await;
            if silent {
                std::future::pending::<()>().await;
            }
            if refused {
                return Err(Self::error(ErrorKind::Transient, key));
            }
            let (size, generation) = self.objects.lock()[key.as_str()];
            if version(size, generation) != *wanted {
                return Err(Self::error(ErrorKind::Changed, key));
            }
            let end = breaks.map_or(range.end, |after| range.start + after);
            let starts = (range.start..end).step_by(piece);
            let pause = Duration::from_nanos(piece as u64 * 1_000_000_000 / self.bytes_per_s);
            let pieces = stream::iter(starts).then(move |start| async move {
                sleep(pause).await;
                Ok(Bytes::from_static(content(generation, start..end.min(start + piece as u64))))
            });
            // A body that breaks off ends with an error, or early.
            let broken = breaks.filter(|after| after % 2 == 0).map(|_| Err(Self::error(ErrorKind::Transient, key)));
            Ok(pieces.chain(stream::iter(broken)).boxed())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let error = Error::new(ErrorKind::Unsupported, Operation::List, prefix, "no listings");
        async move { Err(error) }.boxed()
    }
}

/// What one run did.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    reads: u64,
    bytes: u64,
    errors: u64,
    /// Reads whose readers did not wait for the answer.
    abandoned: u64,
    requests: u64,
    panics: u64,
    took: Duration,
    longest: Duration,
}

/// What a reader does, and what it may see.
struct Reader {
    random: Random,
    keys: Arc<[String]>,
    reads: u64,
    longest_read: u64,
    /// Between two reads, at most.
    pause: Duration,
    /// Errors of the storage, and of the engine's own, are to be expected.
    faulty: bool,
    fragile: bool,
}

impl Reader {
    async fn read(mut self, engine: Engine, store: Arc<Store>, outcome: Arc<Mutex<Outcome>>) {
        let (mut file, mut at, mut step) = (None::<File>, 0_u64, 0_i64);
        for _ in 0..self.reads {
            if file.is_none() || self.random.chance(50_000) {
                let key = &self.keys[self.random.below(self.keys.len() as u64) as usize];
                let opened = engine.open(&store.object(key));
                at = self.random.below(opened.size());
                step = [1, 1, -1, 3, 0][self.random.below(5) as usize];
                file = Some(opened);
            }
            let Some(opened) = file.clone() else { continue };
            let len = 1 + self.random.below(self.longest_read.min(opened.size()));
            at = match step {
                0 => self.random.below(opened.size()),
                step => at.wrapping_add_signed(step * len as i64) % opened.size(),
            };
            let began = Instant::now();
            let read = opened.read_at(at, len as usize);
            // Some readers give up before the answer comes.
            let result = if self.random.chance(30_000) {
                let Ok(result) = timeout(Duration::from_millis(self.random.below(50)), read).await else {
                    outcome.lock().abandoned += 1;
                    continue;
                };
                result
            } else {
                read.await
            };
            if !self.note(&opened, at..at + len, result, began.elapsed(), &store, &mut outcome.lock()) {
                file = None;
            }
            let pause = self.random.below(self.pause.as_nanos() as u64 + 1);
            sleep(Duration::from_nanos(pause)).await;
        }
    }

    /// Notes how a read of `range` ended, and checks it. Returns whether it had its bytes.
    fn note(
        &self,
        file: &File,
        range: Range<u64>,
        result: Result<Bytes, foreread_engine::Error>,
        took: Duration,
        store: &Store,
        outcome: &mut Outcome,
    ) -> bool {
        outcome.longest = outcome.longest.max(took);
        outcome.reads += 1;
        match result {
            Ok(bytes) => {
                outcome.bytes += bytes.len() as u64;
                let tag = file.object().version.tag.as_deref().unwrap_or_default();
                let expected = content(tag.parse().expect("a number"), range.start..range.end.min(file.size()));
                assert_eq!(bytes.len(), expected.len(), "a short read of {range:?}");
                assert!(bytes == expected, "wrong bytes of {range:?}");
                true
            }
            Err(error) => {
                outcome.errors += 1;
                let allowed = match error.kind() {
                    Failed::Changed => store.rates.replaced > 0,
                    Failed::Io | Failed::TimedOut => self.faulty || self.fragile,
                    _ => false,
                };
                assert!(allowed, "{error}");
                false
            }
        }
    }
}

/// Runs a seed.
fn run(seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("it");
    let mut random = Random::new(seed);
    let keys: Arc<[String]> = match random.below(3) {
        0 => (0..=random.below(3)).map(|nth| format!("big{nth}")).collect(),
        1 => (0..20 + random.below(200)).map(|nth| format!("small{nth}")).collect(),
        _ => ["one".to_owned()].into(),
    };
    let size = if keys.len() > 3 { 1 + random.below(256 << 10) } else { 1 + random.below(64 << 20) };
    let objects = keys.iter().map(|key| (key.clone(), (size, 1))).collect();
    let mut rate = |most: u64| if random.chance(500_000) { 0 } else { random.below(most) as u32 };
    let rates = Rates { refused: rate(50_000), broken: rate(50_000), silent: rate(5_000), replaced: rate(2_000) };
    let faulty = rates.refused + rates.broken + rates.silent > 0;
    let store = Arc::new(Store {
        rates,
        first_byte: Duration::from_micros(1 << random.below(18)),
        bytes_per_s: 1 << (20 + random.below(8)),
        objects: Mutex::new(objects),
        reads: AtomicU64::new(0),
        random: Mutex::new(Random::new(random.next_u64())),
    });
    let panics: Vec<Panic> = match random.below(10) {
        0 => vec![Panic::Policy(1 + random.below(500))],
        1 => vec![Panic::Task(1 + random.below(100)), Panic::Task(1 + random.below(100))],
        _ => Vec::new(),
    };
    let options = Options::default()
        .with_memory_bytes(16 << 20 << random.below(2))
        .with_readahead(random.chance(900_000))
        .with_fair_queue(random.chance(800_000))
        .with_events_folder("/nowhere")
        .with_seed(random.next_u64())
        .with_panics(&panics);
    let readers = [1 + random.below(8), 1 + random.below(64)][random.below(2) as usize];
    let longest_read = 1 << (8 + random.below(13));
    let longest_pause = 2 << random.below(20);
    let pause = Duration::from_micros(random.below(longest_pause));
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let engine = Engine::on_runtime_of(runtime.handle(), Arc::clone(&store) as _, &options).expect("an engine");
    runtime.block_on(async {
        let began = Instant::now();
        let readers = (0..readers).map(|_| {
            let reader = Reader {
                random: Random::new(random.next_u64()),
                keys: Arc::clone(&keys),
                reads: 1 + (READS / readers).min(BYTES / readers / longest_read),
                longest_read,
                pause,
                faulty,
                fragile: panics.iter().any(|panic| matches!(panic, Panic::Task(_))),
            };
            tokio::spawn(reader.read(engine.clone(), Arc::clone(&store), Arc::clone(&outcome)))
        });
        let ended = timeout(HANGS, join_all(readers.collect::<Vec<_>>())).await;
        let stats = engine.stats();
        for reader in ended.unwrap_or_else(|_| panic!("seed {seed}: reads wait for ever: {stats:?}")) {
            reader.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        outcome.lock().took = began.elapsed();
        // Requests for files that no program has open are given up. Two kinds end by themselves,
        // within patience: a read has its file open until it ends, also if its reader does not
        // wait for it any more; and what policy asked for before a panic may have readers.
        let ends_by_itself = outcome.lock().abandoned > 0 || engine.stats().panics > 0;
        sleep(if ends_by_itself { Patience::default().total } else { Duration::from_secs(1) }).await;
        let stats = engine.stats();
        assert_eq!(stats.in_flight, 0, "seed {seed}: {stats:?}");
        assert!(stats.memory_charged_bytes <= stats.memory_budget_bytes, "seed {seed}: {stats:?}");
        let mut outcome = outcome.lock();
        (outcome.requests, outcome.panics) = (store.reads.load(Relaxed), stats.panics);
    });
    drop(engine);
    Arc::into_inner(outcome).expect("all readers have ended").into_inner()
}

/// What all readers of a run read together, about: this many times, or this many bytes if that is
/// less, which is more than the largest budget.
const READS: u64 = 600;
const BYTES: u64 = 48 << 20;

/// Virtual time after which a run counts as hung: far more than its patience and its bytes take.
const HANGS: Duration = Duration::from_hours(24);

/// The seeds to run: those of CI, or others.
fn seeds() -> Range<u64> {
    let given = std::env::var("FOREREAD_SEEDS").ok();
    given.map_or(1..100, |text| {
        let (first, last) = text.split_once("..").expect("FOREREAD_SEEDS is FIRST..LAST");
        first.parse().expect("a number")..last.parse().expect("a number")
    })
}

#[test]
fn no_seed_breaks_a_promise() {
    let (seeds, total) = (seeds(), Mutex::new(Outcome::default()));
    let next = AtomicU64::new(seeds.start);
    let broken = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            let Ok(outcome) = catch_unwind(|| run(seed)) else {
                broken.lock().push(seed);
                continue;
            };
            let mut total = total.lock();
            total.reads += outcome.reads;
            total.bytes += outcome.bytes;
            total.errors += outcome.errors;
            total.abandoned += outcome.abandoned;
            total.requests += outcome.requests;
            total.panics += outcome.panics;
            total.took += outcome.took;
            total.longest = total.longest.max(outcome.longest);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let total = total.into_inner();
    println!("seeds {seeds:?}: {total:?}");
    let broken = broken.into_inner();
    assert!(broken.is_empty(), "seeds that break a promise, each named with its cause above: {broken:?}");
    assert!(total.errors > 0 && total.panics > 0 && total.reads > 100 * (seeds.end - seeds.start), "{total:?}");
}

#[test]
fn a_seed_is_the_same_each_time() {
    for seed in 1..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
