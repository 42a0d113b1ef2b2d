//! A local copy, and a storage that does not give what was asked for.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_engine::{Cache, Engine, Options};
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
    let cache = Cache::new(folder).with_bytes(64 << 20).with_min_free_bytes(0);
    let patience = patience().with_total(Duration::from_secs(30));
    let options = Options::default().with_memory_bytes(32 << 20).with_patience(patience).with_cache(Some(cache));
    (Engine::new(Arc::clone(&store) as Arc<dyn Backend>, &options).expect("an engine"), store)
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
    runtime.block_on(async {
        let file = other.open(&other.stat(&key).await.expect("it is there"));
        file.read_at(0, 1 << 20).await.expect("the storage answers this one");
        drop(file);
        other.flush_cache().await;
    });
    // Its segment is sealed, and read by the other.
    drop(other);
    let bytes = runtime.block_on(waiting).expect("a task").expect("the disk has it");
    assert!(bytes[..] == content(100..1 << 20)[..]);
    assert_eq!(deaf.stats().read_errors, 0);
}
