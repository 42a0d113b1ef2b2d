//! Storage that takes so many requests a second, or so many at a time, and refuses the others, in
//! virtual time.
//!
//! No reader gets an error while the storage takes other requests, none waits for much longer than
//! its turn, and the storage is sent few more requests than it takes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foreread_backend::lock::Mutex;
use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_engine::{Engine, ErrorKind as Failed, Options};
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, poll, stream};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// What the storage takes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Requests a second, with a burst of a tenth of a second.
    per_second: u32,
    /// Requests at a time.
    at_a_time: usize,
    first_byte: Duration,
    /// What it asks a refused client to wait.
    retry_after: Option<Duration>,
}

#[derive(Debug, Default)]
struct Seen {
    taken: u64,
    refused: u64,
    used_until: Option<Instant>,
    /// Every request that is sent, by when.
    sent: Vec<(Instant, Range<u64>)>,
}

struct Store {
    limits: Mutex<Limits>,
    seen: Mutex<Seen>,
    /// Requests that are being answered.
    now: Arc<()>,
}

const SIZE: u64 = 1 << 40;

fn object(key: &str) -> Object {
    Object { key: Key::new(key), version: Version { size: SIZE, tag: Some("1".into()), modified: None } }
}

impl Store {
    fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits: Mutex::new(limits), seen: Mutex::default(), now: Arc::new(()) })
    }

    fn takes(&self, key: &Key, range: &Range<u64>) -> Result<Arc<()>, Error> {
        let (limits, now) = (*self.limits.lock(), Instant::now());
        let mut seen = self.seen.lock();
        seen.sent.push((now, range.clone()));
        let until = seen.used_until.map_or(now, |until| until.max(now));
        let crowded = Arc::strong_count(&self.now) > limits.at_a_time;
        if until - now > Duration::from_millis(100) || crowded || key.as_str() == "refused" {
            seen.refused += 1;
            let error = Error::new(ErrorKind::Throttled, Operation::Read, key.as_str(), "503: SlowDown");
            return Err(error.with_retry_after(limits.retry_after));
        }
        seen.used_until = Some(until + Duration::from_secs(1) / limits.per_second);
        seen.taken += 1;
        Ok(Arc::clone(&self.now))
    }

    /// The requests that were taken and refused since the last call.
    fn counts(&self) -> (u64, u64) {
        let mut seen = self.seen.lock();
        (std::mem::take(&mut seen.taken), std::mem::take(&mut seen.refused))
    }
}

impl Backend for Store {
    fn describe(&self) -> String {
        "a store that refuses what is too much".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_conditional_read(true).with_range(true)
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            let first_byte = self.limits.lock().first_byte;
            sleep(first_byte).await;
            match key.as_str() {
                "absent" => Err(Error::new(ErrorKind::NotFound, Operation::Stat, "absent", "404")),
                key => Ok(object(key)),
            }
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            // The refusal takes a way as well.
            let first_byte = self.limits.lock().first_byte;
            sleep(first_byte / 10).await;
            let being_answered = self.takes(key, &range)?;
            if key.as_str() == "silent" {
                std::future::pending::<()>().await;
            }
            sleep(first_byte).await;
            let body = stream::once(async move {
                drop(being_answered);
                Ok(Bytes::from(vec![1; (range.end - range.start) as usize]))
            });
            Ok(body.boxed())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let error = Error::new(ErrorKind::Unsupported, Operation::List, prefix, "no listings");
        async move { Err(error) }.boxed()
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

fn engine(runtime: &Runtime, store: &Arc<Store>) -> Engine {
    let options = Options::default().with_memory_bytes(16 << 20).with_seed(7);
    Engine::on_runtime_of(runtime.handle(), Arc::clone(store) as _, &options).expect("an engine")
}

/// A number without an order.
fn mixed(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// Each of `readers` reads so many single pages here and there. Returns the longest read.
async fn scattered(engine: &Engine, readers: u64, reads: u64) -> Duration {
    let file = engine.open(&object("f"));
    // Not the pages of before.
    let from = engine.stats().reads << 20;
    let reader = |nth: u64| {
        let file = file.clone();
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            for read in 0..reads {
                let at = mixed(from + nth * 1_000 + read) % (SIZE / 4096) * 4096;
                let began = Instant::now();
                file.read_at(at, 4096).await.unwrap_or_else(|error| panic!("reader {nth}, read {read}: {error}"));
                longest = longest.max(began.elapsed());
            }
            longest
        })
    };
    let longest = join_all((0..readers).map(reader)).await;
    longest.into_iter().map(|longest| longest.expect("a reader")).max().expect("readers")
}

#[test]
fn many_readers_share_what_a_store_takes_a_second() {
    for (readers, per_second, reads) in [(256, 100, 6), (1_000, 1_000, 8)] {
        for (millis, retry_after) in [(1, None), (30, Some(1)), (300, None)] {
            let retry_after = retry_after.map(Duration::from_secs);
            let first_byte = Duration::from_millis(millis);
            let store = Store::new(Limits { per_second, at_a_time: usize::MAX, first_byte, retry_after });
            let runtime = runtime();
            let engine = engine(&runtime, &store);
            runtime.block_on(async {
                // The limit is found.
                scattered(&engine, readers, 3).await;
                store.counts();
                let began = Instant::now();
                let longest = scattered(&engine, readers, reads).await;
                let (took, (taken, refused)) = (began.elapsed(), store.counts());
                let what = format!(
                    "{readers} readers, {per_second}/s, {first_byte:?}, {retry_after:?}: {taken} taken, {refused} \
                     refused in {took:?}, the longest {longest:?}, {:?}",
                    engine.stats()
                );
                assert!(refused * 10 <= taken, "{what}");
                let turn = Duration::from_secs(readers) / per_second + first_byte;
                let least = turn * reads as u32;
                assert!(took < least * 5 / 4 + turn / 2, "{least:?} {what}");
                assert!(longest < turn * 2 + Duration::from_secs(5), "{turn:?} {what}");
                assert_eq!(engine.stats().read_errors, 0, "{what}");
            });
        }
    }
}

#[test]
fn many_readers_share_what_a_store_serves_at_once() {
    for at_a_time in [4, 32] {
        let first_byte = Duration::from_millis(30);
        let store = Store::new(Limits { per_second: 1_000_000, at_a_time, first_byte, retry_after: None });
        let runtime = runtime();
        let engine = engine(&runtime, &store);
        runtime.block_on(async {
            scattered(&engine, 128, 4).await;
            store.counts();
            let began = Instant::now();
            scattered(&engine, 128, 16).await;
            let (took, (taken, refused)) = (began.elapsed(), store.counts());
            let what = format!("{at_a_time} at a time: {taken} taken, {refused} refused in {took:?}");
            assert!(refused * 10 <= taken, "{what}");
            let least = first_byte * 2_048 / at_a_time as u32;
            assert!(took < least * 3 / 2 + Duration::from_secs(2), "{least:?} {what}");
        });
    }
}

#[test]
fn what_a_store_always_refuses_is_an_error_in_time_and_disturbs_no_other() {
    let limits = Limits {
        per_second: 1_000_000,
        at_a_time: usize::MAX,
        first_byte: Duration::from_millis(30),
        retry_after: None,
    };
    let store = Store::new(limits);
    let runtime = runtime();
    let engine = engine(&runtime, &store);
    runtime.block_on(async {
        let refused = engine.open(&object("refused"));
        let began = Instant::now();
        let others = tokio::spawn({
            let engine = engine.clone();
            async move { scattered(&engine, 8, 200).await }
        });
        let error = refused.read_at(1 << 30, 4096).await.expect_err("it is always refused");
        assert_eq!(error.kind(), Failed::Throttled, "{error}");
        let virtually = began.elapsed();
        assert!(virtually < Duration::from_secs(45), "{virtually:?}");
        let longest = others.await.expect("readers");
        assert!(longest < Duration::from_secs(1), "{longest:?}");
        // Nothing is taken any more: all end, within patience.
        store.limits.lock().at_a_time = 0;
        let began = Instant::now();
        let file = engine.open(&object("f"));
        let reads = (0..200u64).map(|nth| file.read_at((nth << 24) + (3 << 20), 4096));
        for read in join_all(reads).await {
            assert_eq!(read.expect_err("nothing is taken").kind(), Failed::Throttled);
        }
        let virtually = began.elapsed();
        assert!(virtually < Duration::from_secs(75), "{virtually:?}");
    });
}

/// A store of so many requests a second, whose limit is known.
async fn limited(per_second: u32, store: &Arc<Store>, engine: &Engine) {
    store.limits.lock().per_second = per_second;
    scattered(engine, u64::from(per_second) * 2, 4).await;
    assert!(store.counts().1 >= 5, "some were refused");
}

#[test]
fn that_there_is_no_such_object_is_an_answer() {
    let first_byte = Duration::from_millis(30);
    let store = Store::new(Limits { per_second: 10, at_a_time: usize::MAX, first_byte, retry_after: None });
    let runtime = runtime();
    let engine = engine(&runtime, &store);
    runtime.block_on(async {
        limited(10, &store, &engine).await;
        // The limit is of reads: more and more are asked for, and none waits for patience's end.
        let began = Instant::now();
        let absent = Key::new("absent");
        let asked = (0..3_000).map(|_| engine.stat(&absent));
        for answer in join_all(asked).await {
            assert_eq!(answer.expect_err("absent").kind(), Failed::NotFound);
        }
        let virtually = began.elapsed();
        assert!(virtually < Duration::from_mins(1), "{virtually:?}");
    });
}

#[test]
fn a_request_that_its_caller_does_not_poll_holds_up_no_other() {
    let first_byte = Duration::from_millis(30);
    let store = Store::new(Limits { per_second: 100, at_a_time: usize::MAX, first_byte, retry_after: None });
    let runtime = runtime();
    let engine = engine(&runtime, &store);
    runtime.block_on(async {
        limited(100, &store, &engine).await;
        let readers = tokio::spawn({
            let engine = engine.clone();
            async move { scattered(&engine, 64, 8).await }
        });
        sleep(Duration::from_millis(20)).await;
        // These stand in the line, and nothing asks what becomes of them.
        let key = Key::new("f");
        let mut stats = (0..4).map(|_| Box::pin(engine.stat(&key))).collect::<Vec<_>>();
        for stat in &mut stats {
            assert!(poll!(stat).is_pending());
        }
        let longest = readers.await.expect("readers");
        assert!(longest < Duration::from_secs(3), "{longest:?}");
        for stat in stats {
            stat.await.expect("described");
        }
    });
}

#[test]
fn no_second_request_is_sent_while_the_store_asks_to_wait() {
    let retry_after = Some(Duration::from_secs(20));
    let first_byte = Duration::from_millis(30);
    let store = Store::new(Limits { per_second: 1_000, at_a_time: usize::MAX, first_byte, retry_after });
    let runtime = runtime();
    let engine = engine(&runtime, &store);
    runtime.block_on(async {
        scattered(&engine, 4, 50).await;
        let silent = engine.open(&object("silent"));
        let read = tokio::spawn(async move { silent.read_at(1 << 30, 4096).await });
        sleep(Duration::from_millis(50)).await;
        let refused = engine.open(&object("refused"));
        let other = tokio::spawn(async move { refused.read_at(1 << 30, 4096).await });
        sleep(Duration::from_secs(9)).await;
        assert_eq!(engine.stats().requests_hedged, 0, "{:?}", engine.stats());
        read.abort();
        other.abort();
    });
}
