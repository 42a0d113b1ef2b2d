//! Every future of the library makes progress under any executor, here one of its own without a
//! runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use foreread::{ContactError, ErrorKind, Key, Storage, Target};
use foreread_testbed::{Config, ObjectSpec, Testbed};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread, which has entered no runtime.
fn wait_for<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn storage(testbed: &Testbed, url: &str) -> Storage {
    Storage::builder(url).endpoint(testbed.endpoint()).anonymous(true).connect().expect("an engine")
}

#[test]
fn no_call_needs_a_runtime() {
    let objects = ["a/1", "a/b/2"].map(|key| ObjectSpec::new(key, 100_000)).to_vec();
    let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed");
    let storage = storage(&testbed, "s3://testbed/a");
    let engine = storage.engine();

    assert_eq!(wait_for(storage.locate()).expect("it answers"), Target::Prefix("a/".to_owned()));
    assert_eq!(wait_for(storage.stat("1")).expect("it is there").version.size, 100_000);
    let file = wait_for(storage.open("b/2")).expect("it is there");
    assert_eq!(wait_for(file.read_at(90_000, 20_000)).expect("bytes").len(), 10_000);
    assert_eq!(wait_for(engine.list("a/", None)).expect("a listing").entries.len(), 2);
    assert!(wait_for(engine.look_up("a/", "b")).is_ok());
    assert_eq!(wait_for(engine.expect(vec![Key::new("a/1")])).expect("a listing"), 1);
    let mut walk = storage.walk("");
    let mut keys = Vec::new();
    while let Some(object) = wait_for(walk.next()) {
        keys.push(object.expect("a listing").key.to_string());
    }
    assert_eq!(keys, ["a/1", "a/b/2"]);
}

#[test]
fn errors_keep_their_cause_and_their_key() {
    let objects = vec![ObjectSpec::new("a", 10)];
    let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed");
    let missing = wait_for(storage(&testbed, "s3://testbed").stat("b")).expect_err("it is not there");
    assert_eq!((missing.kind(), missing.key(), missing.is_retryable()), (ErrorKind::NotFound, Some("b"), false));
    let source = std::error::Error::source(&missing).expect("what the storage says");
    assert!(source.is::<foreread::backend::Error>());

    let bucket = wait_for(storage(&testbed, "s3://nosuchbucket").locate()).expect_err("no such bucket");
    assert!(matches!(&bucket, ContactError::Failed(cause) if cause.kind() == foreread::backend::ErrorKind::NotFound));
}

#[test]
fn a_trailing_slash_names_a_prefix() {
    let objects = ["a", "a/b"].map(|key| ObjectSpec::new(key, 10)).to_vec();
    let testbed = Testbed::start(Config { objects, anonymous: true, ..Config::default() }).expect("a testbed");
    let located = |url: &str| wait_for(storage(&testbed, url).locate()).expect("it answers");
    assert!(matches!(located("s3://testbed/a"), Target::Object(object) if object.key.as_str() == "a"));
    assert_eq!(located("s3://testbed/a/"), Target::Prefix("a/".to_owned()));
    let slashed = storage(&testbed, "s3://testbed/a/");
    assert_eq!((slashed.key("b").as_str(), &*slashed.prefix("c")), ("a/b", "a/c/"));
    assert_eq!((slashed.prefix(""), storage(&testbed, "s3://testbed").prefix("")), ("a/".to_owned(), String::new()));
}
