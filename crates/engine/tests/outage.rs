//! Storage that dies and comes back, and a process that is stopped, in virtual time.
//!
//! ```text
//!   Up ──> Refuses   its process is killed: connections break, new ones are refused ──> Up
//!    └───> Swallows  the network is a black hole: nothing comes ──> Up, and what was under way
//!                    goes on, or is lost for ever
//! ```
//!
//! While it is gone, each read ends within patience. Once it is back, each read that begins has
//! its bytes, as soon as before, and nothing of the outage is left in flight or charged.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::lock::Mutex;
use foreread_backend::{
    Backend, Body, Capabilities, Entry, Error, ErrorKind, Key, ListPage, Object, Operation, Version,
};
use foreread_engine::{Engine, ErrorKind as Failed, Options, Stats};
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, stream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, advance, sleep, sleep_until, timeout};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Up,
    Refuses,
    Swallows,
}

/// What becomes of a request that was under way when the storage went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Breaks,
    GoesOn,
    IsLost,
}

/// The line now, how often it has gone down, and what became of the requests under way then.
#[derive(Debug, Clone, Copy)]
struct State {
    line: Line,
    outages: u64,
    fate: Fate,
}

/// Objects that are never stored: a byte follows from its place.
struct Store {
    state: watch::Sender<State>,
    /// From it follow waits before the first byte.
    asked: Mutex<u64>,
}

const SIZE: u64 = 1 << 30;
const FIRST_BYTE: Duration = Duration::from_millis(20);
const BYTES_PER_S: u64 = 50 << 20;
const PIECE: u64 = 16 << 10;

/// The bytes of a range of whole words: each word follows from its place.
fn content(range: Range<u64>) -> Vec<u8> {
    let words = range.start / 8..range.end / 8;
    words.flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

fn error(key: &str) -> Error {
    Error::new(ErrorKind::Transient, Operation::Read, key, "the storage is gone")
}

impl Store {
    fn new() -> Arc<Self> {
        let state = watch::Sender::new(State { line: Line::Up, outages: 0, fate: Fate::Breaks });
        Arc::new(Self { state, asked: Mutex::new(0) })
    }

    fn go_down(&self, line: Line, fate: Fate) {
        self.state.send_modify(|state| *state = State { line, outages: state.outages + 1, fate });
    }

    fn come_back(&self) {
        // Requests of meanwhile are old as well.
        self.state.send_modify(|state| *state = State { line: Line::Up, outages: state.outages + 1, ..*state });
    }

    /// Something of a request that began after so many outages may pass now, or never will.
    async fn pass(mut state: watch::Receiver<State>, began: u64, key: &str) -> Result<(), Error> {
        loop {
            let now = *state.borrow_and_update();
            let is_old = now.outages != began;
            match now.line {
                Line::Up if is_old && now.fate == Fate::IsLost => std::future::pending().await,
                Line::Up if is_old && now.fate == Fate::Breaks => return Err(error(key)),
                Line::Up => return Ok(()),
                Line::Refuses => return Err(error(key)),
                Line::Swallows => state.changed().await.map_err(|_| error(key))?,
            }
        }
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a store that goes and comes back".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_conditional_read(true).with_range(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            let began = self.state.borrow().outages;
            sleep(FIRST_BYTE).await;
            Self::pass(self.state.subscribe(), began, key.as_str()).await?;
            Ok(object(key.as_str()))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            let (states, began) = (self.state.subscribe(), self.state.borrow().outages);
            let wait = {
                let mut asked = self.asked.lock();
                *asked += 1;
                FIRST_BYTE + Duration::from_micros(*asked * 7_919 % 5_000)
            };
            sleep(wait).await;
            Self::pass(states.clone(), began, key.as_str()).await?;
            let pause = Duration::from_nanos(PIECE * 1_000_000_000 / BYTES_PER_S);
            let key = key.to_string();
            let pieces = stream::iter(range.clone().step_by(PIECE as usize)).then(move |start| {
                let (states, key) = (states.clone(), key.clone());
                async move {
                    sleep(pause).await;
                    Self::pass(states, began, &key).await?;
                    Ok(Bytes::from(content(start..range.end.min(start + PIECE))))
                }
            });
            Ok(pieces.boxed())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let error = Error::new(ErrorKind::Unsupported, Operation::List, prefix, "no listings");
        async move { Err(error) }.boxed()
    }
}

fn object(key: &str) -> Object {
    Object { key: Key::new(key), version: Version { size: SIZE, tag: Some("1".into()), modified: None } }
}

/// A read: when it began, how long it took, and whether it had its bytes.
#[derive(Debug, Clone, Copy)]
struct Read {
    began: Instant,
    took: Duration,
    right: bool,
}

/// Reads a file in order, or here and there, until `until`. A read that fails is made again.
async fn read(engine: Engine, nth: u64, until: Instant) -> Vec<Read> {
    let (mut reads, mut at) = (Vec::new(), nth * (32 << 20));
    let file = engine.open(&object(&format!("f{}", nth % 4)));
    while Instant::now() < until {
        let len = 16 << 10;
        let began = Instant::now();
        let result = file.read_at(at, len as usize).await;
        let right = match &result {
            Ok(bytes) => {
                assert!(*bytes == content(at..at + len), "wrong bytes at {at}");
                true
            }
            Err(error) => {
                assert!(matches!(error.kind(), Failed::Io | Failed::TimedOut), "{error}");
                false
            }
        };
        reads.push(Read { began, took: began.elapsed(), right });
        if right {
            at = if nth.is_multiple_of(3) { (at * 31 + len * 977) % (SIZE - len) } else { (at + len) % (SIZE - len) };
        }
        sleep(PAUSE).await;
    }
    reads
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

fn engine(runtime: &Runtime, store: &Arc<Store>, seed: u64) -> Engine {
    let options = Options::default().with_memory_bytes(32 << 20).with_seed(seed);
    Engine::on_runtime_of(runtime.handle(), Arc::clone(store) as _, &options).expect("an engine")
}

/// Once all readers are gone, nothing is in flight, and what is charged fits.
async fn settled(engine: &Engine) -> Stats {
    sleep(Duration::from_secs(1)).await;
    let stats = engine.stats();
    assert_eq!(stats.in_flight, 0, "{stats:?}");
    assert!(stats.memory_charged_bytes <= stats.memory_budget_bytes, "{stats:?}");
    stats
}

const READERS: u64 = 8;
const PAUSE: Duration = Duration::from_millis(100);
const GOES: Duration = Duration::from_secs(10);
const GOES_ON: Duration = Duration::from_secs(30);

/// Patience is 30 s; the attempt under way when it ends may take 10 s, and so may the one before.
const LONGEST: Duration = Duration::from_secs(45);

/// The storage comes back while a request is under way that was lost, and has not much patience
/// left. A read of the same bytes that begins now has patience of its own.
#[test]
fn a_read_that_joins_a_request_of_before_the_outage_has_its_bytes() {
    for gone in [5, 12, 22, 26, 28, 29] {
        let (runtime, store) = (runtime(), Store::new());
        let engine = engine(&runtime, &store, gone);
        runtime.block_on(async {
            store.go_down(Line::Swallows, Fate::IsLost);
            let file = engine.open(&object("f"));
            let read = |file: foreread_engine::File| async move {
                let began = Instant::now();
                (file.read_at(1 << 20, 4096).await, began.elapsed())
            };
            let early = tokio::spawn(read(file.clone()));
            sleep(Duration::from_secs(gone)).await;
            store.come_back();
            let (late, took) = read(file).await;
            let bytes = late.unwrap_or_else(|error| panic!("back after {gone} s, failed after {took:?}: {error}"));
            assert!(bytes == content(1 << 20..(1 << 20) + 4096) && took <= LONGEST, "{gone}: {took:?}");
            let (_, took) = early.await.expect("it ends");
            assert!(took <= LONGEST, "{gone}: {took:?}");
            settled(&engine).await;
        });
    }
}

/// Reads wait for pages at the end of a request that has no memory yet, since nothing of it comes.
/// They end with it, within their own patience: not with a second request of their own.
#[test]
fn a_read_behind_the_grants_of_a_silent_request_ends_within_patience() {
    for since in [1, 11, 15, 20, 25] {
        let (runtime, store) = (runtime(), Store::new());
        let engine = engine(&runtime, &store, since);
        runtime.block_on(async {
            store.go_down(Line::Swallows, Fate::IsLost);
            let file = engine.open(&object("f"));
            let read = |at: u64, len: usize| {
                let file = file.clone();
                tokio::spawn(async move {
                    let began = Instant::now();
                    assert!(file.read_at(at, len).await.is_err(), "the storage is gone");
                    began.elapsed()
                })
            };
            let first = read(0, 190 << 12);
            sleep(Duration::from_secs(since)).await;
            let behind: Vec<_> = (180..400).step_by(4).map(|page| read(page << 12, 4096)).collect();
            for took in join_all([first].into_iter().chain(behind)).await {
                let took = took.expect("it ends");
                assert!(took <= LONGEST, "{since}: {took:?}");
            }
            settled(&engine).await;
        });
    }
}

/// The same store, which lists its one object.
struct Listed(Arc<Store>);

impl Backend for Listed {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities().with_list(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        self.0.stat(key)
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        self.0.read(key, version, range)
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        async move {
            let began = self.0.state.borrow().outages;
            sleep(FIRST_BYTE).await;
            Store::pass(self.0.state.subscribe(), began, prefix).await?;
            let entries = if prefix.is_empty() { vec![Entry::Object(object("f"))] } else { Vec::new() };
            Ok(ListPage { entries, ..ListPage::default() })
        }
        .boxed()
    }
}

/// A look-up that waits for a listing of its directory does not begin anew when patience with that
/// has ended. Where the listing was older, it has an attempt of its own.
#[test]
fn a_look_up_of_a_silent_storage_ends_within_patience() {
    for lookups in 1..4 {
        let (runtime, store) = (runtime(), Store::new());
        let options = Options::default().with_memory_bytes(32 << 20);
        let backend = Arc::new(Listed(Arc::clone(&store)));
        let engine = Engine::on_runtime_of(runtime.handle(), backend as _, &options).expect("an engine");
        runtime.block_on(async {
            for _ in 0..lookups {
                engine.look_up("", "f").await.expect("it is there");
                sleep(Duration::from_secs(2)).await;
            }
            store.go_down(Line::Swallows, Fate::IsLost);
            let began = Instant::now();
            engine.look_up("", "f").await.expect_err("the storage is gone");
            let took = began.elapsed();
            assert!(took <= LONGEST, "after {lookups} look-ups: {took:?}");
            sleep(Duration::from_secs(2)).await;
            store.come_back();
            sleep(Duration::from_secs(11)).await;
            engine.look_up("", "f").await.expect("the storage is back");
        });
    }
}

/// All reads of a run in which the storage goes after [`GOES`], for `gone`.
fn outage(line: Line, fate: Fate, gone: Duration, seed: u64) {
    let what = format!("{line:?}, {fate:?}, {gone:?}, seed {seed}");
    let ends = GOES + gone + GOES_ON;
    let (runtime, store) = (runtime(), Store::new());
    let engine = engine(&runtime, &store, seed);
    runtime.block_on(async {
        let start = Instant::now();
        let readers = (0..READERS).map(|nth| tokio::spawn(read(engine.clone(), nth, start + ends)));
        let readers: Vec<_> = readers.collect();
        sleep_until(start + GOES).await;
        store.go_down(line, fate);
        sleep(gone).await;
        store.come_back();
        let back = Instant::now();
        let ended = timeout(Duration::from_hours(1), join_all(readers)).await;
        let ended = ended.unwrap_or_else(|_| panic!("{what}: reads wait for ever: {:?}", engine.stats()));
        let reads: Vec<Read> = ended.into_iter().flat_map(|reads| reads.expect("a reader")).collect();
        let count = |from: Duration, to: Duration| {
            let span = start + from..start + to;
            reads.iter().filter(|read| read.right && span.contains(&read.began)).count()
        };
        for read in &reads {
            assert!(read.took <= LONGEST, "{what}: {read:?}");
            let lacks_storage = read.began + read.took >= start + GOES && read.began <= back;
            assert!(read.right || lacks_storage, "{what}: back at {back:?}: {read:?}");
        }
        // An attempt that was swallowed ends after 10 s. Then all is as it was.
        let later = back + Duration::from_secs(15);
        for read in reads.iter().filter(|read| read.began >= later) {
            assert!(read.took < Duration::from_secs(1), "{what}: back at {back:?}: {read:?}");
        }
        let (first, last) = (count(GOES / 2, GOES), count(GOES / 2 + gone + GOES_ON, ends));
        assert!(last * 10 >= first * 9, "{what}: {last} reads where there were {first}");
        let after = settled(&engine).await;
        assert_eq!(after.panics, 0, "{what}");
    });
    // The same bytes, and others, come as soon as before.
    runtime.block_on(async {
        for nth in [0, 20] {
            let until = Instant::now() + GOES;
            let reads = join_all((nth..nth + READERS).map(|nth| read(engine.clone(), nth, until))).await;
            assert!(reads.iter().flatten().all(|read| read.right && read.took < Duration::from_secs(1)), "{what}");
            settled(&engine).await;
        }
    });
    // All that is charged can be given back: nothing is kept for a request that was lost.
    runtime.block_on(async {
        let full = settled(&engine).await.memory_charged_bytes;
        assert!(full > LEAST, "{what}: {full} bytes, which say nothing");
        engine.set_memory_bytes(LEAST).expect("enough");
        let left = settled(&engine).await.memory_charged_bytes;
        assert!(left <= LEAST, "{what}: {left} bytes stay charged");
    });
}

/// The least budget.
const LEAST: u64 = 16 << 20;

#[test]
fn storage_that_dies_and_comes_back_leaves_nothing_behind() {
    for (gone, seed) in [3, 25, 60].into_iter().zip(1..) {
        let gone = Duration::from_secs(gone);
        outage(Line::Refuses, Fate::Breaks, gone, seed);
        outage(Line::Swallows, Fate::GoesOn, gone, seed);
        outage(Line::Swallows, Fate::IsLost, gone, seed);
        outage(Line::Swallows, Fate::Breaks, gone, seed);
    }
}

/// The process is stopped for ten minutes: no code runs, and the clock goes on.
fn stopped(fate: Fate, at: Duration, seed: u64) {
    let what = format!("{fate:?} at {at:?}, seed {seed}");
    let (runtime, store) = (runtime(), Store::new());
    let engine = engine(&runtime, &store, seed);
    runtime.block_on(async {
        let start = Instant::now();
        let until = start + STOPPED + GOES_ON;
        let readers: Vec<_> = (0..READERS).map(|nth| tokio::spawn(read(engine.clone(), nth, until))).collect();
        sleep_until(start + at).await;
        // The storage has closed its side meanwhile, has forgotten the requests, or has answered.
        store.go_down(Line::Up, fate);
        advance(STOPPED).await;
        let goes_on = Instant::now();
        let ended = timeout(Duration::from_hours(1), join_all(readers)).await;
        let ended = ended.unwrap_or_else(|_| panic!("{what}: reads wait for ever: {:?}", engine.stats()));
        for read in ended.into_iter().flat_map(|reads| reads.expect("a reader")) {
            assert!(read.right, "{what}: {read:?}");
            let ended_after = (read.began + read.took).saturating_duration_since(goes_on);
            let waited = if read.began < goes_on { ended_after } else { read.took };
            // Requests that were forgotten are made again when the storage is silent for too long.
            assert!(waited <= Duration::from_secs(12), "{what}: {read:?}");
        }
        settled(&engine).await;
    });
}

const STOPPED: Duration = Duration::from_mins(10);

#[test]
fn a_process_that_was_stopped_goes_on_without_an_error() {
    for fate in [Fate::Breaks, Fate::GoesOn, Fate::IsLost] {
        for (millis, seed) in [0, 10, 25, 1_003, 5_017].into_iter().zip(1..) {
            stopped(fate, Duration::from_millis(millis), seed);
        }
    }
}
