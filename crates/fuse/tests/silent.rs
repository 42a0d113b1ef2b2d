//! What a program waits for while the storage is silent: its patience, once. The kernel asks again
//! for a page whose readahead has failed, and for a name that it could not confirm.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_engine::{Engine, Options, Patience};
use foreread_fuse::{MountOptions, mount};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

/// One object of a page, whose storage may be silent.
#[derive(Default)]
struct Store {
    is_silent: AtomicBool,
    stats: AtomicU64,
    reads: AtomicU64,
}

impl Store {
    async fn answer(&self) {
        if self.is_silent.load(Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a store that falls silent".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_conditional_read(true).with_range(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            self.stats.fetch_add(1, Relaxed);
            self.answer().await;
            match key.as_str() {
                "a" => {
                    let version = Version { size: 4096, tag: Some("1".into()), modified: None };
                    Ok(Object { key: key.clone(), version })
                }
                other => Err(Error::new(ErrorKind::NotFound, Operation::Stat, other, "no such object")),
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, _: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            self.reads.fetch_add(1, Relaxed);
            self.answer().await;
            let bytes = vec![7u8; (range.end - range.start) as usize];
            Ok(futures::stream::iter([Ok(bytes.into())]).boxed() as Body)
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let error = Error::new(ErrorKind::Unsupported, Operation::List, prefix, "no listings");
        async move { Err(error) }.boxed()
    }
}

#[test]
fn a_program_waits_for_a_silent_storage_once() {
    let store = Arc::new(Store::default());
    let second = Duration::from_secs(1);
    let patience = Patience::default().with_first_byte(second).with_idle(second).with_total(second);
    let options = Options::default().with_metadata_ttl(Duration::ZERO).with_patience(patience);
    let engine = Engine::new(Arc::clone(&store) as _, &options).expect("an engine");
    let dir = tempfile::tempdir().expect("a folder");
    let mounted = mount(engine, "", dir.path(), &MountOptions::default()).expect("/dev/fuse");
    let file = File::open(dir.path().join("a")).expect("it is there");
    let asked = || (store.stats.load(Relaxed), store.reads.load(Relaxed));

    let (stats, reads) = asked();
    store.is_silent.store(true, Relaxed);
    file.read_exact_at(&mut [0; 4096], 0).expect_err("the storage is silent");
    assert_eq!(asked(), (stats, reads + 1), "patience is for one attempt");
    File::open(dir.path().join("a")).expect_err("the storage is silent");
    assert_eq!(asked(), (stats + 1, reads + 1));

    // Once it is back, what failed is asked for again, after a moment.
    store.is_silent.store(false, Relaxed);
    let mut bytes = [0; 4096];
    while file.read_exact_at(&mut bytes, 0).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(bytes, [7; 4096]);
    while File::open(dir.path().join("a")).is_err() {
        std::thread::yield_now();
    }
    drop(mounted);
}
