//! A local copy, and a storage that does not give what was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_engine::{Cache, Completion, Engine, Operation as Submitted, Options, Outcome};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};

use crate::patience;

/// A storage with objects of 1 MiB, whose bytes tell their places. It answers, or refuses.
struct Store {
    refuses: bool,
    asked: AtomicU64,
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a store".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        (can.range, can.conditional_read) = (true, true);
        can
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        let version = Version { size: 1 << 20, tag: Some("1".into()), modified: None };
        std::future::ready(Ok(Object { key: key.clone(), version })).boxed()
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        self.asked.fetch_add(1, SeqCst);
        let answer = if self.refuses {
            Err(Error::new(ErrorKind::Transient, Operation::Read, "a", "no"))
        } else {
            Ok(stream::iter([Ok(Bytes::from(content(range)))]).boxed())
        };
        std::future::ready(answer).boxed()
    }

    fn list<'a>(&'a self, _: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        std::future::pending().boxed()
    }
}

fn content(range: Range<u64>) -> Vec<u8> {
    range.map(|at| (at / 4096 * 7 + at % 251) as u8).collect()
}

fn engine(folder: &Path, refuses: bool) -> (Engine, Arc<Store>) {
    let store = Arc::new(Store { refuses, asked: AtomicU64::new(0) });
    // Without a bypass: a disk of a machine that is busy would be helped by the storage.
    let cache = Cache::new(folder).with_bytes(64 << 20).with_min_free_bytes(0).with_bypass(false);
    let patience = patience().with_total(Duration::from_secs(30));
    let options = Options::default().with_memory_bytes(32 << 20).with_patience(patience).with_cache(Some(cache));
    (Engine::new(Arc::clone(&store) as Arc<dyn Backend>, &options).expect("an engine"), store)
}

/// Reads all of the object, and has it written to the disk.
fn fill(engine: &Engine) {
    engine.runtime().block_on(async {
        let file = engine.open(&engine.stat(&Key::new("a")).await.expect("it is there"));
        file.read_at(0, 1 << 20).await.expect("the storage answers this one");
        drop(file);
        engine.flush_cache().await;
    });
}

/// The read was asked of the storage before another process had the bytes on the disk.
#[test]
fn what_the_storage_does_not_give_comes_from_the_disk_once_it_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let ((deaf, refusing), (other, _)) = (engine(folder.path(), true), engine(folder.path(), false));
    let key = Key::new("a");
    let runtime = deaf.runtime().clone();
    let object = runtime.block_on(deaf.stat(&key)).expect("it is there");
    let file = deaf.open(&object);
    let waiting = runtime.spawn(async move { file.read_at(100, 1 << 20).await });
    while refusing.asked.load(SeqCst) < 2 {
        std::thread::yield_now();
    }
    fill(&other);
    // Its segment is sealed, and read by the other.
    drop(other);
    let bytes = runtime.block_on(waiting).expect("a task").expect("the disk has it");
    assert!(bytes[..] == content(100..1 << 20)[..]);
    assert_eq!(deaf.stats().read_errors, 0);
}

/// Another process has filled the disk, so nothing of it is in memory. The thread that waits takes
/// what the disk has read.
#[test]
fn reads_that_are_submitted_come_from_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(&engine(folder.path(), false).0);
    let key = Key::new("a");

    let (deaf, refusing) = engine(folder.path(), true);
    let file = deaf.open(&deaf.runtime().block_on(deaf.stat(&key)).expect("it is there"));
    let page = |nth: u64| Submitted::Read { file: file.clone(), offset: nth * 37 % 256 * 4096, len: 4096 };
    let submissions = deaf.submissions(16);
    let (mut waiting, mut completed) = ((0..256).map(page).collect::<VecDeque<_>>(), Vec::<Completion>::new());
    let mut offsets = BTreeMap::new();
    while completed.len() < 256 {
        let from = 256 - waiting.len() as u64;
        let tickets = submissions.submit_all(&mut waiting, None);
        offsets.extend(tickets.into_iter().zip((from..).map(|nth| nth * 37 % 256 * 4096)));
        assert!(submissions.wait_all(&mut completed, Duration::from_mins(1)) > 0);
    }
    for Completion { ticket, outcome, .. } in completed {
        let Outcome::Read(pages) = outcome.expect("the disk has it") else { panic!("a read") };
        assert_eq!(pages.as_slice(), Some(&content(offsets[&ticket]..offsets[&ticket] + 4096)[..]));
    }
    assert_eq!((refusing.asked.load(SeqCst), deaf.stats().read_errors), (0, 0));
}

/// Those in flight are given up; another reader of the same pages has them.
#[test]
fn submissions_to_the_disk_may_be_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(&engine(folder.path(), false).0);
    let key = Key::new("a");
    for _ in 0..20 {
        let (deaf, _) = engine(folder.path(), true);
        let file = deaf.open(&deaf.runtime().block_on(deaf.stat(&key)).expect("it is there"));
        let submissions = deaf.submissions(16);
        for nth in 0..16 {
            let read = Submitted::Read { file: file.clone(), offset: nth * 13 * 4096, len: 4096 };
            assert!(submissions.submit(read, None).is_ok());
        }
        drop(submissions);
        let bytes = deaf.runtime().block_on(file.read_at(13 * 4096, 4096)).expect("the disk has it");
        assert!(bytes[..] == content(13 * 4096..14 * 4096)[..]);
    }
}
