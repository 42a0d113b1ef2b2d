//! The engine under a schedule: its own code, on one thread, in virtual time, in front of storage
//! whose behaviour follows from a seed.
//!
//! ```text
//!   seed ──> files, budgets, readers, faults, panics
//!   readers ── File, Directory, look_up, expect ──> engine ──> Store: sleeps, fails
//!              └─ compare every byte and name        one thread, paused clock
//!   keeper  ── set_memory_bytes, Reserved ──────────>
//! ```
//!
//! Each run checks that every byte and every listing is right, that each call ends, each read
//! within [`LONGEST`], and has no error that its faults do not allow. At the end nothing is left
//! in flight, all memory can be given back, and storage that has calmed down is read as if nothing
//! had been. The same seed gives the same run.
//!
//! `FOREREAD_SEEDS=1..100000` runs other seeds than CI does, on as many threads as there are
//! processors.

mod reader;
mod store;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::time::Duration;

use foreread_backend::Backend;
use foreread_backend::lock::Mutex;
use foreread_device::Random;
use foreread_engine::{Cache, Engine, Options, Panic, Patience};
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use reader::{Outcome, Reader, World};
use store::{Disk, Nature, Rates, Store, TOO_LATE};

/// The objects of a run, and their lengths.
fn objects(random: &mut Random) -> Vec<(String, u64)> {
    let (small, big) = (1 + random.below(256 << 10), 1 + random.below(64 << 20));
    let directories = 1 + random.below(24);
    let small = |nth: u64| (format!("t/d{:02}/f{nth:03}", nth % directories), small);
    let big = |nth: u64| (format!("big{nth}"), big);
    match random.below(4) {
        0 => (0..=random.below(4)).map(big).collect(),
        1 => (0..20 + random.below(200)).map(small).collect(),
        2 => (0..=random.below(3)).map(big).chain((0..random.below(100)).map(small)).collect(),
        _ => [big(0)].into(),
    }
}

/// The directories that objects are in, each with its names.
fn directories(keys: &[String]) -> Vec<(String, BTreeSet<String>)> {
    let below = |prefix: &str| {
        let rest = keys.iter().filter_map(|key| key.strip_prefix(prefix));
        let name = |rest: &str| rest.split_inclusive('/').next().unwrap_or_default().to_owned();
        (prefix.to_owned(), rest.map(name).collect::<BTreeSet<_>>())
    };
    let mut prefixes: BTreeSet<&str> = [""].into();
    for key in keys {
        prefixes.extend(key.match_indices('/').map(|(at, _)| &key[..=at]));
    }
    prefixes.into_iter().map(below).collect()
}

/// The panics that are planted in a run, early or late.
fn panics(random: &mut Random) -> Vec<Panic> {
    let late = [100, 500, 5_000][random.below(3) as usize];
    let mut number = |most: u64| 1 + random.below(most);
    let place = number(16);
    match place {
        1 => vec![Panic::Policy(number(late))],
        2 => vec![Panic::Policy(number(late)), Panic::Action(number(late))],
        3 => {
            // Three in a row: readahead ends.
            let first = number(late);
            (first..first + 3).map(Panic::Policy).collect()
        }
        4 => vec![Panic::Action(number(late))],
        5 => vec![Panic::Task(number(late)), Panic::Task(number(late))],
        6 => vec![Panic::Answer(number(late)), Panic::Answer(number(100))],
        7 => vec![Panic::List(number(20)), Panic::List(number(20))],
        8 => vec![Panic::Directory(number(late)), Panic::Directory(number(50))],
        9 => {
            let all = [Panic::Policy, Panic::Action, Panic::Task, Panic::Answer, Panic::List, Panic::Directory];
            all.map(|place| place(number(late))).into()
        }
        _ => Vec::new(),
    }
}

/// Changes the budget, and what a front door takes of it, until the readers have ended.
async fn keep(mut random: Random, world: Arc<World>, over: Arc<AtomicBool>) {
    let (reserved, step) = (world.engine.reserve(), Duration::from_millis(1 << random.below(14)));
    for _ in 0..BUDGETS {
        if over.load(Relaxed) {
            return;
        }
        sleep(Duration::from_nanos(random.below(step.as_nanos() as u64))).await;
        if random.chance(300_000) {
            reserved.set(random.below(2 << 20));
        } else {
            let bytes = LEAST + random.below(3) * random.below(LEAST);
            world.engine.set_memory_bytes(bytes).expect("enough");
            assert_eq!(world.engine.memory_bytes(), bytes);
        }
        world.outcome.lock().budgets += 1;
    }
}

/// The threads of a cache run by the clock of the machine: virtual time does not leap while they
/// may have something to answer.
async fn brake(world: Arc<World>) {
    loop {
        if world.engine.stats().in_flight > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(250)).await;
    }
}

thread_local! {
    /// Panics on this thread that were planted.
    static PLANTED: Cell<u64> = const { Cell::new(0) };
}

/// Panics that were not planted, on any thread.
static OTHERS: AtomicU64 = AtomicU64::new(0);

/// Counts panics that are planted, and says nothing of them.
fn count_planted() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let shows = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str().is_some_and(|text| text.starts_with("planted: ")) {
                PLANTED.set(PLANTED.get() + 1);
            } else {
                OTHERS.fetch_add(1, Relaxed);
                shows(panic);
            }
        }));
    });
    PLANTED.set(0);
}

/// Runs a seed, with a cache in `folder`.
fn run(seed: u64, folder: Option<&Path>) -> Outcome {
    count_planted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("it");
    let mut random = Random::new(seed);
    let objects = objects(&mut random);
    let keys: Vec<String> = objects.iter().map(|(key, _)| key.clone()).collect();
    let mut rate = |most: u64| if random.chance(500_000) { 0 } else { random.below(most) as u32 };
    let mut rates = Rates { refused: rate(50_000), broken: rate(50_000), silent: rate(5_000), replaced: rate(2_000) };
    // Now and then it hardly answers.
    let is_dead = random.chance(50_000);
    if is_dead {
        rates.silent = random.below(500_000) as u32;
        rates.refused = random.below(500_000) as u32;
    }
    let faulty = rates.refused + rates.broken + rates.silent > 0;
    let page = 1 << random.below(10);
    let nature = Nature {
        rates,
        first_byte: Duration::from_micros(1 << random.below(18)),
        bytes_per_s: 1 << (20 + random.below(8)),
        page: 1 + random.below(page) as usize,
        list_after: random.chance(700_000),
        local: random.chance(250_000),
    };
    let store = Store::new(nature, objects.into_iter(), Random::new(random.next_u64()));
    let backend: Arc<dyn Backend> =
        if nature.local { Arc::new(Disk(Arc::clone(&store))) } else { Arc::clone(&store) as _ };
    let panics = panics(&mut random);
    let options = Options::default()
        .with_memory_bytes(LEAST << random.below(2))
        .with_readahead(random.chance(900_000))
        .with_fair_queue(random.chance(800_000))
        .with_metadata_ttl(Duration::from_millis([0, 50, 1_000, 60_000][random.below(4) as usize]))
        .with_events_folder("/nowhere")
        .with_seed(random.next_u64())
        .with_panics(&panics);
    let bytes = (1 + random.below(64)) << 20;
    let cache = folder.map(|folder| Cache::new(folder).with_bytes(bytes).with_min_free_bytes(0));
    let options = options.with_cache(cache);
    let readers = [1 + random.below(8), 1 + random.below(64)][random.below(2) as usize];
    let longest_read = 1 << (8 + random.below(13));
    let longest_pause = 2 << random.below(20);
    let pause = Duration::from_micros(random.below(longest_pause));
    let engine = Engine::on_runtime_of(runtime.handle(), backend, &options).expect("an engine");
    let fragile =
        panics.iter().any(|panic| !matches!(panic, Panic::Policy(_) | Panic::Action(_) | Panic::Directory(_)));
    let (directories, outcome) = (directories(&keys), Mutex::default());
    let store_of = Arc::clone(&store);
    let world = Arc::new(World { engine, store: store_of, keys, directories, outcome, faulty, fragile });
    runtime.block_on(async {
        let began = Instant::now();
        let over = Arc::new(AtomicBool::new(false));
        let keeper = random.chance(300_000).then(|| Random::new(random.next_u64()));
        let keeper = keeper.map(|random| tokio::spawn(keep(random, Arc::clone(&world), Arc::clone(&over))));
        let readers = (0..readers).map(|_| {
            let reader = Reader {
                random: Random::new(random.next_u64()),
                reads: 1 + (if is_dead { READS / 8 } else { READS } / readers).min(BYTES / readers / longest_read),
                longest_read,
                pause,
            };
            tokio::spawn(reader.run(Arc::clone(&world)))
        });
        let brake = folder.map(|_| tokio::spawn(brake(Arc::clone(&world))));
        let ended = timeout(HANGS, join_all(readers.collect::<Vec<_>>())).await;
        let stats = world.engine.stats();
        let ended = ended.unwrap_or_else(|_| panic!("seed {seed}: calls wait for ever: {stats:?}"));
        over.store(true, Relaxed);
        if let Some(keeper) = keeper {
            keeper.await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        for reader in ended {
            reader.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let longest = {
            let outcome = &mut *world.outcome.lock();
            outcome.took = began.elapsed();
            (outcome.longest, outcome.longest_name)
        };
        assert!(longest.0 <= LONGEST && longest.1 <= LONGEST_NAME, "seed {seed}: too long: {longest:?}, {nature:?}");
        settle(&world, nature, seed).await;
        calm(&world, seed).await;
        if let Some(brake) = brake {
            brake.abort();
            assert!(brake.await.is_err_and(|ended| ended.is_cancelled()), "seed {seed}");
        }
        let mut outcome = world.outcome.lock();
        outcome.requests = store.reads.load(Relaxed) + store.lists.load(Relaxed);
        let stats = world.engine.stats();
        outcome.panics = stats.panics;
        outcome.cache_hits = stats.cache.map_or(0, |cache| cache.hits);
    });
    let world = Arc::into_inner(world).expect("all readers have ended");
    world.outcome.into_inner()
}

/// Nothing is left in flight, and all that is charged can be given back.
async fn settle(world: &World, nature: Nature, seed: u64) {
    // Requests for files that no program has open are given up. Others end by themselves, within
    // patience: a read has its file open until it ends, also if its reader does not wait for it
    // any more; what policy asked for before a panic may have readers; and files are fetched ahead
    // of a listing. A disk that was silent answers at last.
    sleep(2 * Patience::default().total).await;
    if nature.local && nature.rates.silent > 0 {
        sleep(TOO_LATE).await;
    }
    // The threads of a cache have their own time.
    let began = std::time::Instant::now();
    while world.engine.stats().cache.is_some() && world.engine.stats().in_flight > 0 && began.elapsed() < HANGS_REALLY {
        std::thread::sleep(Duration::from_millis(1));
        tokio::task::yield_now().await;
    }
    let stats = world.engine.stats();
    assert_eq!(stats.in_flight, 0, "seed {seed}: {stats:?}");
    assert!(stats.memory_charged_bytes <= stats.memory_budget_bytes, "seed {seed}: {stats:?}");
    world.engine.set_memory_bytes(LEAST).expect("enough");
    let stats = world.engine.stats();
    assert!(stats.memory_charged_bytes <= LEAST, "seed {seed}: kept for no reader: {stats:?}");
}

/// Once storage has calmed down, a listing and a read have no error.
async fn calm(world: &World, seed: u64) {
    world.store.calm_down();
    let check = async {
        for (prefix, names) in &world.directories {
            // A panic that was planted for later may come now.
            assert!(world.list(prefix, names, Duration::ZERO).await || world.fragile, "seed {seed}: {prefix:?}");
        }
        for key in world.keys.iter().take(3) {
            let Some(object) = world.look_up(key).await else {
                assert!(world.fragile, "seed {seed}: {key} is not found");
                continue;
            };
            let file = world.engine.open(&object);
            let right = world.read(&file, 0..file.size().min(1 << 20)).await;
            // A version that is believed for a minute may be another one by now.
            assert!(right || world.fragile || world.store.object(key) != object, "seed {seed}: {key} cannot be read");
        }
    };
    timeout(HANGS, check).await.unwrap_or_else(|_| panic!("seed {seed}: hangs: {:?}", world.engine.stats()));
    let stats = world.engine.stats();
    // With a cache, some are planted where its threads pass: those are counted by `OTHERS` alone.
    let planted = if stats.cache.is_some() { stats.panics } else { PLANTED.get() };
    assert_eq!((stats.panics, OTHERS.load(Relaxed)), (planted, 0), "seed {seed}: was not planted: {stats:?}");
}

/// The least budget.
const LEAST: u64 = 16 << 20;

/// What all readers of a run read together, about: this many times, or this many bytes if that is
/// less, which is more than the largest budget.
const READS: u64 = 600;
const BYTES: u64 = 48 << 20;

/// Other budgets of a run, at most: a run in front of silent storage takes hours.
const BUDGETS: u64 = 500;

/// Virtual time after which a run counts as hung: far more than its patience and its bytes take.
const HANGS: Duration = Duration::from_hours(24);

/// Time of the machine after which a read of a disk counts as hung.
const HANGS_REALLY: Duration = Duration::from_mins(1);

/// The longest that a read may wait for its next bytes: patience, which is 30 s, the attempt that
/// is under way when it ends, which may take 10 s, and 5 s for what others ask of the storage
/// meanwhile.
const LONGEST: Duration = Duration::from_secs(45);

/// The same of a name or an entry: up to three calls of the storage, one after the other.
const LONGEST_NAME: Duration = Duration::from_secs(135);

/// The seeds to run: those of CI, or others.
fn seeds() -> Range<u64> {
    let given = std::env::var("FOREREAD_SEEDS").ok();
    given.map_or(1..100, |text| {
        let (first, last) = text.split_once("..").expect("FOREREAD_SEEDS is FIRST..LAST");
        first.parse().expect("a number")..last.parse().expect("a number")
    })
}

/// Runs all seeds by `run`, on all processors.
fn run_all(run: impl Fn(u64) -> Outcome + Sync) -> Outcome {
    let (seeds, total) = (seeds(), Mutex::new(Outcome::default()));
    let next = AtomicU64::new(seeds.start);
    let broken = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| run(seed))) {
                Ok(outcome) => total.lock().add(&outcome),
                Err(_) => broken.lock().push(seed),
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let total = total.into_inner();
    let count = seeds.end - seeds.start;
    println!("seeds {seeds:?}, {} events a seed: {total:?}", total.events() / count);
    let broken = broken.into_inner();
    assert!(broken.is_empty(), "seeds that break a promise, each named with its cause above: {broken:?}");
    total
}

#[test]
fn no_seed_breaks_a_promise() {
    let (total, count) = (run_all(|seed| run(seed, None)), seeds().end - seeds().start);
    assert!(count < 50 || (total.errors > 0 && total.panics > 0 && total.events() > 500 * count), "{total:?}");
}

#[test]
fn a_seed_is_the_same_each_time() {
    for seed in 1..20 {
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

/// The same with a cache, and once more after a restart. Its threads run by the clock of the
/// machine, so a seed is another run each time. Where memory is the disk, reads of it are answered
/// at once, before virtual time goes on.
#[test]
fn no_seed_breaks_a_promise_with_a_cache() {
    let memory = Path::new("/dev/shm");
    let total = run_all(|seed| {
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.expect("a folder");
        let mut outcome = run(seed, Some(folder.path()));
        outcome.add(&run(seed, Some(folder.path())));
        outcome
    });
    assert!(total.cache_hits > 10 * (seeds().end - seeds().start), "{total:?}");
}
