//! Panics of the engine's own code: the engine goes on, and at most one read has an error.

use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::{Backend, Body, Capabilities, ConnectOptions, Error, Key, ListPage, Object, Version, connect};
use foreread_engine::{Engine, ErrorKind, Options, Pages, Panic, Replayed, replay};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use tempfile::TempDir;

use crate::{Rig, patience, rig_after};

/// An engine that panics in these places, in 16 MiB, and the folder for its events.
fn fragile(panics: &[Panic]) -> (Rig, TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    let options = Options::default().with_memory_bytes(16 << 20).with_patience(patience());
    let options = options.with_events_folder(folder.path()).with_panics(panics);
    (rig_after(Duration::from_millis(2), &[("a", 64 << 20), ("b", 64 << 20)], &options), folder)
}

/// Eight threads read, in sequence and at random; returns how many reads had an error.
fn read_everywhere(rig: &Rig) -> u64 {
    let threads = 0..8_u64;
    let read = |thread: u64| {
        let file = rig.open(if thread.is_multiple_of(2) { "a" } else { "b" });
        let place =
            |nth: u64| if thread < 4 { nth * (128 << 10) } else { (nth * 7_919_777 + thread * 1_000_003) % (63 << 20) };
        let results = (0..60).map(|nth| rig.read(&file, place(nth), 100_000, 1));
        results.filter(Result::is_err).count() as u64
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = threads.map(|thread| scope.spawn(move || read(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a reader")).sum()
    })
}

#[test]
fn policy_is_started_anew_and_no_read_notices() {
    let (rig, folder) = fragile(&[Panic::Policy(100)]);
    assert_eq!(read_everywhere(&rig), 0);
    let stats = rig.engine.stats();
    assert_eq!((stats.panics, stats.read_errors), (1, 0), "{stats:?}");
    assert!(!stats.plain_after_panics && stats.requests_speculative > 0, "readahead goes on: {stats:?}");
    assert!(stats.memory_charged_bytes <= stats.memory_budget_bytes, "{stats:?}");
    let events: Vec<_> = folder.path().read_dir().expect("the folder").collect();
    let path = events.first().expect("the last events").as_ref().expect("an entry").path();
    assert_eq!(path.metadata().expect("the file").permissions().mode() & 0o777, 0o600);
    // The planted panic is not policy's, so its events can be told again.
    let replayed = replay(BufReader::new(File::open(&path).expect("the file"))).expect("events that policy takes");
    assert_eq!((events.len(), replayed.events), (1, 100), "{replayed:?}");
}

#[test]
fn policy_that_panics_again_and_again_ends_without_readahead() {
    let (rig, folder) = fragile(&[50, 100, 150, 200].map(Panic::Policy));
    assert_eq!(read_everywhere(&rig), 0);
    let stats = rig.engine.stats();
    assert_eq!((stats.panics, stats.read_errors), (4, 0), "{stats:?}");
    assert!(stats.plain_after_panics, "stats says so: {stats:?}");
    assert_eq!(folder.path().read_dir().expect("the folder").count(), 3, "files of events are bounded");
    let before = rig.engine.stats().requests_speculative;
    let file = rig.open("a");
    for nth in 0..50 {
        rig.read(&file, (32 << 20) + nth * (128 << 10), 128 << 10, 1).expect("a read");
    }
    assert_eq!(rig.engine.stats().requests_speculative, before, "plain demand reads only");
}

#[test]
fn a_task_that_panics_fails_its_reads_and_leaves_nothing_taken() {
    // More requests than fit into memory together: what they held must be free afterwards.
    let panics: Vec<Panic> = (1..=300).map(Panic::Task).collect();
    let (rig, _folder) = fragile(&panics);
    let file = rig.open("a");
    let failed = rig.read(&file, 40 << 20, 4096, 1).expect_err("its task panics");
    assert_eq!(failed.kind(), ErrorKind::Io, "{failed}");
    let mut failed = 1;
    while rig.engine.stats().panics < 300 {
        failed += read_everywhere(&rig);
    }
    let stats = rig.engine.stats();
    assert_eq!((stats.panics, stats.read_errors), (300, failed), "{stats:?}");
    assert_eq!(read_everywhere(&rig), 0);
}

/// Twenty reads wait for the same page, and the first one's reader panics as it is answered.
#[test]
fn a_panic_while_one_read_is_answered_leaves_the_others_their_bytes() {
    for in_place in [false, true] {
        let (rig, _folder) = fragile(&[]);
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        std::fs::write(dir.path().join("a"), vec![7; 64 << 20]).expect("room for it");
        let local = connect(dir.path().to_str().expect("a path"), &ConnectOptions::default()).expect("a backend");
        let options = Options::default().with_memory_bytes(16 << 20).with_patience(patience());
        let local = Engine::new(local.backend, &options).expect("an engine");
        let engine = if in_place { &local } else { &rig.engine };
        let object = engine.runtime().block_on(engine.stat(&Key::new("a"))).expect("it is there");
        let file = engine.open(&object);
        let (send, receive) = channel();
        let reads = (0..20_u64).map(|nth| {
            let send = send.clone();
            let done = move |read: Result<Pages, foreread_engine::Error>| {
                assert_ne!(nth, 0, "the first reader panics");
                let _ = send.send((nth, read.map(|pages| pages.len()).map_err(|error| error.kind())));
            };
            (file.clone(), 40 << 20, 4096, done)
        });
        engine.read_together(reads.collect::<Vec<_>>());
        drop(send);
        let mut ended = Vec::new();
        while let Ok(end) = receive.recv_timeout(LONG) {
            ended.push(end);
        }
        ended.sort_unstable_by_key(|(nth, _)| *nth);
        assert_eq!(ended, (1..20).map(|nth| (nth, Ok(4096))).collect::<Vec<_>>(), "in place: {in_place}");
        assert_eq!(engine.stats().panics, 1);
        // The request is over for policy, and its pages can be evicted.
        for at in 0..64 {
            let read = engine.runtime().block_on(file.read_at(at << 20, 1 << 20)).expect("bytes");
            assert_eq!(read.len(), 1 << 20);
        }
    }
}

#[test]
fn an_answer_that_panics_is_that_reads_error() {
    let (rig, _folder) = fragile(&[Panic::Answer(30), Panic::Answer(31), Panic::Answer(200)]);
    assert_eq!(read_everywhere(&rig), 3);
    let stats = rig.engine.stats();
    assert_eq!((stats.panics, stats.read_errors), (3, 3), "{stats:?}");
    assert_eq!(read_everywhere(&rig), 0);
}

#[test]
fn policy_is_started_anew_when_an_action_of_it_panics() {
    for at in [1, 2, 3, 50, 51, 52, 53, 700] {
        let (rig, _folder) = fragile(&[Panic::Action(at)]);
        assert_eq!(read_everywhere(&rig), 0, "action {at}");
        let stats = rig.engine.stats();
        assert_eq!((stats.panics, stats.read_errors), (1, 0), "action {at}: {stats:?}");
    }
}

/// The last two clones of an engine are dropped at the same moment: reads that wait for memory
/// end.
#[test]
fn an_engine_whose_last_clones_are_dropped_together_answers_all_reads() {
    for _ in 0..200 {
        let options = Options::default().with_memory_bytes(16 << 20).with_readahead(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let engine = Engine::on_runtime_of(runtime.handle(), Arc::new(Mute), &options).expect("an engine");
        let object = runtime.block_on(engine.stat(&Key::new("x"))).expect("it is there");
        let (file, (send, receive)) = (engine.open(&object), channel());
        for nth in 0..40 {
            let send = send.clone();
            file.read(nth << 20, 1 << 20, move |read| {
                let _ = send.send(read.is_err());
            });
        }
        let both = Arc::new(Barrier::new(2));
        let (other, meets) = (engine.clone(), Arc::clone(&both));
        let thread = std::thread::spawn(move || {
            meets.wait();
            drop(other);
        });
        both.wait();
        drop(engine);
        thread.join().expect("it drops");
        drop((file, send));
        let lacked = std::iter::from_fn(|| receive.recv_timeout(Duration::from_secs(0)).ok()).count();
        assert!(lacked > 10, "{lacked} reads that waited for memory were answered");
    }
}

/// Storage that never answers a read.
struct Mute;

impl Backend for Mute {
    fn describe(&self) -> String {
        "mute".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        let version = Version { size: 1 << 30, tag: None, modified: None };
        Box::pin(std::future::ready(Ok(Object { key: key.clone(), version })))
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, _: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        Box::pin(std::future::pending())
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        Box::pin(std::future::pending())
    }
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn events_are_kept_beside_files_that_are_there() {
    let (rig, folder) = fragile(&[Panic::Policy(100)]);
    // Of another engine of this process, or of one that had its number before.
    let taken = |number| folder.path().join(format!("foreread-{}-{number}.events", std::process::id()));
    for number in [1, 2] {
        std::fs::write(taken(number), "another's").expect("room for it");
    }
    assert_eq!(read_everywhere(&rig), 0);
    assert_eq!(folder.path().read_dir().expect("the folder").count(), 3);
    assert_eq!([1, 2].map(|number| std::fs::read_to_string(taken(number)).expect("it is there")), ["another's"; 2]);
    let events = File::open(taken(3)).expect("the next number");
    assert_eq!(replay(BufReader::new(events)).expect("events that policy takes").events, 100);
}

/// Storage that answers each read 5 ms after it was asked.
struct Steady;

impl Backend for Steady {
    fn describe(&self) -> String {
        "steady".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        Box::pin(async move { Mute.stat(key).await })
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let piece = Bytes::from(vec![0; 64 << 10]);
            let pieces = range.clone().step_by(64 << 10).map(move |start| {
                let len = (range.end - start).min(64 << 10) as usize;
                Ok(piece.slice(..len))
            });
            Ok(stream::iter(pieces).boxed())
        })
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        Box::pin(std::future::pending())
    }
}

/// What a replay of the last events does when policy panics over its `at`th event, and the events.
fn replayed_after(at: u64) -> (Replayed, String) {
    let folder = tempfile::tempdir().expect("a directory");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let options = Options::default().with_memory_bytes(16 << 20).with_seed(1);
    let options = options.with_events_folder(folder.path()).with_panics(&[Panic::Policy(at)]);
    let engine = Engine::on_runtime_of(runtime.handle(), Arc::new(Steady), &options).expect("an engine");
    runtime.block_on(async {
        let readers = (0..12_u64).map(|nth| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let object = engine.stat(&Key::new(format!("f{}", nth % 5))).await.expect("it is there");
                let (file, mut at) = (engine.open(&object), nth << 20);
                while engine.stats().panics == 0 {
                    file.read_at(at, 64 << 10).await.expect("bytes");
                    at = if nth % 2 == 0 { at + (64 << 10) } else { at * 7 + (nth << 16) } % ((1 << 30) - (64 << 10));
                }
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.expect("it ends");
        }
    });
    let path = folder.path().join(format!("foreread-{}-1.events", std::process::id()));
    let events = std::fs::read_to_string(path).expect("the last events");
    (replay(events.as_bytes()).expect("events that policy takes"), events)
}

/// The events begin in the middle of a run: a replay finds the files, the reads that waited and
/// the requests that they name.
#[test]
fn the_last_events_of_a_late_panic_replay() {
    for at in [10_000, 50_000, 130_000] {
        let (replayed, events) = replayed_after(at);
        let count = |name: &str| events.lines().filter(|line| line.split(' ').nth(1) == Some(name)).count() as u64;
        assert_eq!(count("open"), 5, "after {at}");
        assert!(replayed.events >= at.min(16_384), "after {at}: {replayed:?}");
        // Each read is asked for, or found, and answered.
        assert!(count("read") > 500 && replayed.unrecorded > count("read"), "after {at}: {replayed:?}");
    }
}
