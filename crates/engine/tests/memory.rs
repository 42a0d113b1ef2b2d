//! Memory under loads that grow without end: names, directories, files and opens by the hundred
//! thousand within the least budget, counted by the allocator.
//!
//! ```text
//!   Names: a storage that makes its listings up ──> engine, 16 MiB ──> readers
//!                                                     └─ allocated: never more than the budget
//! ```
//!
//! One thread, virtual time: the figures are the same each time. `FOREREAD_NAMES=5000000` runs as
//! many names as that instead.

use std::alloc::System;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use cap::Cap;
use foreread_backend::{
    Backend, Body, Capabilities, Entry, Error, ErrorKind, Frames, Key, ListPage, Object, Operation, Version,
};
use foreread_engine::{Directory, Engine, ErrorKind as Failed, Node, Options};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// `flat/f<n>`: so many files. `part/f<n>`: some of them. `dirs/d<n>/data`: as many directories
/// with one file each.
struct Names(u64);

/// What the storage's client says that it keeps, in bytes.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// Requests that the storage was sent, of every kind.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

const PAGE: u64 = 1000;
const FILE_BYTES: u64 = 8192;
const BUDGET: u64 = 16 << 20;
const LARGE: u64 = 96 << 20;

/// Names of each kind.
const NAMES: u64 = 100_000;

/// Names in a directory that is kept whole.
const PART: u64 = 12_000;

/// What the engine has besides its budget: threads of the runtime, tables that are empty.
const SLACK: u64 = 4 << 20;

impl Names {
    fn object(key: String) -> Object {
        let tag = format!("\"{:032x}\"", key.len());
        Object { key: Key::new(key), version: Version { size: FILE_BYTES, tag: Some(tag.into()), modified: None } }
    }

    fn entry(prefix: &str, n: u64) -> Entry {
        match prefix {
            "dirs/" => Entry::Prefix(format!("dirs/d{n:08}/")),
            "flat/" | "part/" => Entry::Object(Self::object(format!("{prefix}f{n:08}"))),
            inside => Entry::Object(Self::object(format!("{inside}data"))),
        }
    }

    /// The page of `prefix` from entry `from` on.
    fn page(&self, prefix: &str, from: u64) -> ListPage {
        let count = match prefix {
            "dirs/" | "flat/" => self.0,
            "part/" => PART,
            inside => u64::from(inside.starts_with("dirs/d")),
        };
        let to = (from + PAGE).min(count);
        let continuation = (to < count).then(|| to.to_string());
        ListPage { entries: (from..to).map(|n| Self::entry(prefix, n)).collect(), continuation }
    }

    fn error(operation: Operation, name: &str) -> Error {
        Error::new(ErrorKind::NotFound, operation, name, "there is no such name")
    }
}

async fn first_byte() {
    REQUESTS.fetch_add(1, Relaxed);
    tokio::time::sleep(Duration::from_millis(5)).await;
}

impl Backend for Names {
    fn describe(&self) -> String {
        "made up".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_conditional_read(true).with_range(true).with_list_after(true)
    }

    fn kept_bytes(&self) -> u64 {
        KEPT.load(Relaxed)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            first_byte().await;
            let name = key.as_str();
            let is_file = name.starts_with("flat/f") || name.ends_with("/data");
            is_file.then(|| Self::object(name.to_owned())).ok_or_else(|| Self::error(Operation::Stat, name))
        }
        .boxed()
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            first_byte().await;
            let bytes = vec![7; (range.end - range.start) as usize];
            Ok(stream::iter([Ok(Bytes::from(bytes))]).boxed())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, from: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        async move {
            first_byte().await;
            Ok(self.page(prefix, from.map_or(0, |from| from.parse().expect("a token"))))
        }
        .boxed()
    }

    fn list_after<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        async move {
            first_byte().await;
            let (mut low, mut high) = (0, if prefix == "part/" { PART } else { self.0 });
            while low < high {
                let middle = u64::midpoint(low, high);
                if Self::entry(prefix, middle).key() <= after { low = middle + 1 } else { high = middle }
            }
            Ok(self.page(prefix, low))
        }
        .boxed()
    }

    fn list_below<'a>(&'a self, prefix: &'a str, after: &'a str) -> BoxFuture<'a, Result<ListPage, Error>> {
        async move {
            first_byte().await;
            let from = after.trim_start_matches("dirs/d").trim_end_matches('/').parse().unwrap_or(0);
            let to = (from + PAGE).min(self.0);
            let entries = (from..to).map(|n| Entry::Object(Self::object(format!("{prefix}d{n:08}/data")))).collect();
            Ok(ListPage { entries, continuation: (to < self.0).then(|| to.to_string()) })
        }
        .boxed()
    }
}

/// Memory of the process, in bytes: of the allocator, and of pages in use or kept for the next
/// use.
fn allocated() -> u64 {
    let (used, idle) = Frames::process_bytes();
    ALLOCATOR.allocated() as u64 + used + idle
}

/// An engine in front of so many names, and the most that was allocated since it began.
struct Rig {
    runtime: Runtime,
    engine: Engine,
    names: u64,
    before: u64,
    peak: u64,
}

impl Rig {
    /// Runs `test` with a new one, in its virtual time.
    fn with(budget: u64, test: fn(&mut Self)) {
        let before = allocated();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let handle = runtime.handle().clone();
        let _entered = handle.enter();
        let options = Options::default().with_memory_bytes(budget).with_metadata_ttl(Duration::from_hours(1));
        let names = std::env::var("FOREREAD_NAMES").map_or(NAMES, |names| names.parse().expect("a number of names"));
        let engine = Engine::on_runtime_of(&handle, Arc::new(Names(names)), &options).expect("an engine");
        test(&mut Self { runtime, engine, names, before, peak: 0 });
    }

    fn allocated(&mut self) -> u64 {
        let bytes = allocated().saturating_sub(self.before);
        self.peak = self.peak.max(bytes);
        bytes
    }

    /// The next entries of an open directory, from `place` on.
    fn next(&mut self, directory: &Directory, place: u32, most: usize) -> Vec<(String, Node)> {
        let mut found = Vec::new();
        self.runtime.block_on(async {
            loop {
                if !directory.wait(place).await.expect("a listing") {
                    return;
                }
                let visited = directory.visit(place, |_, name, node, _| {
                    found.push((name.to_owned(), node));
                    found.len() < most
                });
                if visited {
                    return;
                }
            }
        });
        self.allocated();
        found
    }

    /// Reads a directory to its end, checks that its names are those of `0..count`, each once.
    fn read_all(&mut self, prefix: &str, letter: char, count: u64) {
        let directory = self.engine.open_directory(prefix);
        let mut place = 0;
        loop {
            let found = self.next(&directory, place, 700);
            for (n, (name, _)) in (u64::from(place)..).zip(&found) {
                assert_eq!(*name, format!("{letter}{n:08}"));
            }
            place += found.len() as u32;
            if found.is_empty() {
                break;
            }
        }
        assert_eq!(u64::from(place), count);
    }

    fn check(&mut self, what: &str, budget: u64) {
        self.allocated();
        let charged = self.engine.stats().memory_directories_bytes;
        println!("{what}: at most {} KiB allocated, {} KiB charged to directories", self.peak >> 10, charged >> 10);
        assert!(self.peak <= budget + SLACK, "{what}: {} bytes allocated with a budget of {budget}", self.peak);
    }

    fn check_requests(&self, what: &str, before: u64, most: u64) {
        let requests = REQUESTS.load(Relaxed) - before;
        println!("{what}: {requests} requests for {} names", self.names);
        assert!(requests <= most, "{what}: {requests} requests, {most} at most");
    }
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn what_grows_with_use_stays_within_the_budget() {
    let tests: [fn(&mut Rig); 10] = [
        what_the_storages_client_keeps_is_charged,
        open_directories_keep_their_share_of_what_was_listed,
        a_flat_directory_is_read_to_its_end,
        readers_far_apart_see_each_name_once,
        directories_with_a_file_each_are_walked,
        directories_that_do_not_fit_are_found_in_order,
        files_that_do_not_fit_are_looked_up_in_order,
        a_reader_seeks_back_to_what_is_gone,
        names_are_looked_up_in_many_directories,
        files_are_opened_and_read,
    ];
    for test in tests {
        Rig::with(BUDGET, test);
    }
    Rig::with(LARGE, the_budget_changes);
    Rig::with(LARGE, tables_shrink_with_the_budget);
    Rig::with(LARGE, files_that_fit_are_fetched_once);
}

fn a_flat_directory_is_read_to_its_end(rig: &mut Rig) {
    let count = rig.names;
    rig.read_all("flat/", 'f', count);
    rig.check("a flat directory", BUDGET);
    let lists = rig.engine.stats().lists;
    assert!(lists <= count / PAGE * 5 / 4 + 64, "{lists} requests for {} pages", count / PAGE);
    // Its names are found all the same.
    let found = rig.runtime.block_on(rig.engine.look_up("flat/", "f00000001")).expect("it is there");
    assert!(matches!(found.node, Node::File(object) if object.key.as_str() == "flat/f00000001"));
}

fn readers_far_apart_see_each_name_once(rig: &mut Rig) {
    let count = rig.names;
    let directory = rig.engine.open_directory("flat/");
    let mut seen = rig.next(&directory, 0, 300);
    // Meanwhile others read on, and beyond what is kept.
    rig.read_all("flat/", 'f', count);
    loop {
        let found = rig.next(&directory, seen.len() as u32, 900);
        if found.is_empty() {
            break;
        }
        seen.extend(found);
        let (last, _) = &seen[seen.len() - 1];
        assert_eq!(*last, format!("f{:08}", seen.len() - 1));
        if seen.len() > 20_000 {
            break;
        }
    }
    // From the start again, and from a place that it was not at lately.
    assert_eq!(rig.next(&directory, 0, 1)[0].0, "f00000000");
    assert_eq!(rig.next(&directory, 5_000, 1)[0].0, "f00005000");
    rig.check("readers far apart", BUDGET + (4 << 20));
}

/// Each of them is in the middle of a listing that no other one has: the directory was listed anew
/// in between.
fn open_directories_keep_their_share_of_what_was_listed(rig: &mut Rig) {
    let mut open = Vec::new();
    for nth in 0..100 {
        let directory = rig.engine.open_directory("part/");
        let place = 100 + nth * 7;
        assert_eq!(rig.next(&directory, 0, place).len(), place);
        rig.read_all("part/", 'f', PART);
        rig.engine.forget_names();
        open.push((directory, place));
    }
    rig.check("100 open directories", BUDGET);
    let charged = rig.engine.stats().memory_directories_bytes;
    assert!(charged > 4 << 20, "{charged} bytes are charged, listings of readers included");
    // Side by side, and each reads its rest once.
    while !open.is_empty() {
        open.retain_mut(|(directory, place)| {
            let found = rig.next(directory, *place as u32, 3000);
            for (n, (name, _)) in (*place..).zip(&found) {
                assert_eq!(*name, format!("f{n:08}"));
            }
            *place += found.len();
            assert!(!found.is_empty() || *place as u64 == PART, "{place}");
            !found.is_empty()
        });
    }
    rig.check("100 open directories, read to their ends", BUDGET);
    // Nothing is held for them any more.
    rig.read_all("part/", 'f', PART);
    let charged = rig.engine.stats().memory_directories_bytes;
    assert!(charged < 3 << 20, "{charged} bytes are charged to one directory");
}

fn directories_with_a_file_each_are_walked(rig: &mut Rig) {
    let count = rig.names;
    rig.read_all("dirs/", 'd', count);
    rig.check("a directory of directories", BUDGET);
    for n in 0..count {
        let directory = rig.engine.open_directory(&format!("dirs/d{n:08}/"));
        let found = rig.next(&directory, 0, 10);
        assert_eq!(found.len(), 1, "directory {n}");
        assert_eq!(found[0].0, "data");
    }
    rig.check("directories with a file each", BUDGET);
}

/// As `find` does: a part of the directory is read, each directory of it is looked up and read,
/// then the next part.
fn directories_that_do_not_fit_are_found_in_order(rig: &mut Rig) {
    let (count, before) = (rig.names, REQUESTS.load(Relaxed));
    let above = rig.engine.open_directory("dirs/");
    let mut n = 0;
    while n < count {
        let part = (n + count / 3 + 1).min(count);
        let mut place = n;
        while place < part {
            let found = rig.next(&above, place as u32, 700.min((part - place) as usize));
            assert_eq!(found[0].0, format!("d{place:08}"));
            place += found.len() as u64;
        }
        for n in n..part {
            let name = format!("d{n:08}");
            let named = rig.runtime.block_on(rig.engine.look_up("dirs/", &name)).expect("it is there");
            assert_eq!(named.node, Node::Directory(format!("dirs/{name}/")));
            let directory = rig.engine.open_directory(&format!("dirs/{name}/"));
            let found = rig.next(&directory, 0, 10);
            assert_eq!((found.len(), &*found[0].0), (1, "data"), "directory {n}");
        }
        n = part;
    }
    assert!(rig.next(&above, count as u32, 1).is_empty());
    rig.check("directories found in order", BUDGET);
    rig.check_requests("directories found in order", before, count / 20);
}

fn files_that_do_not_fit_are_looked_up_in_order(rig: &mut Rig) {
    let count = rig.names;
    rig.read_all("flat/", 'f', count);
    let before = REQUESTS.load(Relaxed);
    for n in 0..count {
        let name = format!("f{n:08}");
        let named = rig.runtime.block_on(rig.engine.look_up("flat/", &name)).expect("it is there");
        assert!(matches!(named.node, Node::File(object) if object.key.as_str() == format!("flat/{name}")));
        if n % 100 == 0 {
            rig.allocated();
        }
    }
    rig.check("files looked up in order", BUDGET);
    rig.check_requests("files looked up in order", before, count / PAGE * 5 / 4 + 64);
}

/// Places that a reader seeks back to.
const SEEKS: u64 = 50;

/// A `seekdir` to any place that was gone by then takes a page or two, wherever it is.
fn a_reader_seeks_back_to_what_is_gone(rig: &mut Rig) {
    let count = rig.names;
    let directory = rig.engine.open_directory("flat/");
    let mut place = 0;
    while place < count {
        place += rig.next(&directory, place as u32, 5000).len() as u64;
    }
    let before = REQUESTS.load(Relaxed);
    for seek in 0..SEEKS {
        let place = seek * 7919 * 31 % (count - 1000);
        for place in [place, place + 300, place + 600] {
            assert_eq!(rig.next(&directory, place as u32, 300)[0].0, format!("f{place:08}"));
        }
    }
    rig.check("a reader that seeks back", BUDGET);
    rig.check_requests("a reader that seeks back", before, SEEKS * 3);
}

fn names_are_looked_up_in_many_directories(rig: &mut Rig) {
    let count = rig.names;
    for n in 0..count {
        let prefix = format!("elsewhere/{n:08}/some/deep/directory/");
        let found = rig.runtime.block_on(rig.engine.look_up(&prefix, "no"));
        assert_eq!(found.expect_err("there is no such name").kind(), Failed::NotFound);
        if n % 100 == 0 {
            rig.allocated();
        }
    }
    rig.check("names in directories that are not listed", BUDGET);
}

fn files_are_opened_and_read(rig: &mut Rig) {
    let count = rig.names;
    for n in 0..count {
        let file = rig.engine.open(&Names::object(format!("flat/f{n:08}")));
        if n % 8 == 0 {
            let bytes = rig.runtime.block_on(file.read_at(0, 4096)).expect("bytes");
            assert_eq!(bytes.len(), 4096);
        }
        rig.allocated();
    }
    rig.check("opens", BUDGET);
}

fn what_the_storages_client_keeps_is_charged(rig: &mut Rig) {
    const KEEPS: u64 = 6 << 20;
    KEPT.store(KEEPS, Relaxed);
    for n in 0..2_000 {
        let file = rig.engine.open(&Names::object(format!("flat/f{n:08}")));
        rig.runtime.block_on(file.read_at(0, FILE_BYTES as usize)).expect("bytes");
    }
    let stats = rig.engine.stats();
    assert_eq!(stats.memory_names_bytes, KEEPS);
    let charged = stats.memory_charged_bytes;
    assert!(charged <= BUDGET - KEEPS + (1 << 20), "{charged} bytes are charged for files and pages");
    KEPT.store(0, Relaxed);
}

fn the_budget_changes(rig: &mut Rig) {
    let fill = |rig: &mut Rig| {
        rig.read_all("flat/", 'f', rig.names);
        for n in 0..10_000 {
            let file = rig.engine.open(&Names::object(format!("flat/f{n:08}")));
            rig.runtime.block_on(file.read_at(0, 8192)).expect("bytes");
        }
        rig.allocated()
    };
    let before = fill(rig);
    assert!(before > 60 << 20, "{before} bytes are allocated");
    rig.check("a large budget", LARGE);
    rig.engine.set_memory_bytes(BUDGET).expect("a budget");
    let after = rig.allocated();
    assert!(after <= BUDGET + SLACK, "{after} bytes are allocated at once, with a budget of {BUDGET}");
    assert_eq!(rig.engine.stats().memory_budget_bytes, BUDGET);
    fill(rig);
    let after = rig.allocated();
    assert!(after <= BUDGET + SLACK, "{after} bytes are allocated later, with a budget of {BUDGET}");
    rig.engine.set_memory_bytes(LARGE).expect("a budget");
    let again = fill(rig);
    assert!(again > 60 << 20, "{again} bytes are allocated");
    let error = rig.engine.set_memory_bytes(1 << 20).expect_err("too little");
    assert_eq!(error.kind(), Failed::Invalid);
}

/// As many directories as fit, in a small budget, in one where all of them fit, and in the small
/// one again: no table keeps the room that it once had.
fn tables_shrink_with_the_budget(rig: &mut Rig) {
    let empty = rig.allocated();
    let mut names = 0..;
    let mut filled = |rig: &mut Rig, budget| {
        rig.engine.set_memory_bytes(budget).expect("a budget");
        for n in names.by_ref().take(50_000) {
            let prefix = format!("elsewhere/{n:08}/some/deep/directory/");
            let found = rig.runtime.block_on(rig.engine.look_up(&prefix, "no"));
            assert_eq!(found.expect_err("there is no such name").kind(), Failed::NotFound);
        }
        rig.allocated() - empty
    };
    let (small, large) = (filled(rig, BUDGET), filled(rig, 512 << 20));
    assert!(large > 6 * small, "{large} bytes, {small} in the small budget");
    rig.engine.set_memory_bytes(BUDGET).expect("a budget");
    let again = rig.allocated() - empty;
    println!("tables: {} KiB, {} KiB with a large budget, then {} KiB", small >> 10, large >> 10, again >> 10);
    assert!(again <= small + (256 << 10), "{again} bytes are allocated at once, {small} before");
    let charged = rig.engine.stats().memory_directories_bytes;
    assert!(charged <= BUDGET * 3 / 8, "{charged} bytes are charged");
    let later = filled(rig, BUDGET);
    assert!(later <= small + (256 << 10), "{later} bytes are allocated later, {small} before");
}

/// An epoch over small files, and two more: what is closed stays known as long as it is resident.
fn files_that_fit_are_fetched_once(rig: &mut Rig) {
    const FILES: u64 = 8_000;
    for epoch in 0..3 {
        for n in 0..FILES {
            let file = rig.engine.open(&Names::object(format!("flat/f{n:08}")));
            let bytes = rig.runtime.block_on(file.read_at(0, FILE_BYTES as usize)).expect("bytes");
            assert_eq!(bytes.len(), FILE_BYTES as usize);
        }
        let stats = rig.engine.stats();
        assert_eq!((stats.requests, stats.fetched_bytes), (FILES, FILES * FILE_BYTES), "epoch {epoch}");
    }
    rig.check("files that fit", LARGE);
}
