//! Panics of what lists directories: no reader waits for ever, and the next listing is whole.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use foreread_engine::{Directory, Engine, Error, ErrorKind, Node, Options, Panic};
use tokio::time::timeout;

use crate::directories::names;
use crate::{Rig, patience, rig_after};

/// A tree of small directories and one large one, in front of an engine that panics in these
/// places.
fn fragile(panics: &[Panic]) -> Rig {
    fragile_with(&Options::default().with_panics(panics))
}

fn fragile_with(options: &Options) -> Rig {
    let small = (0..24).flat_map(|dir| (0..5).map(move |file| (format!("t/d{dir:02}/f{file}"), 4096)));
    let large = (0..2_500).map(|file| (format!("large/f{file:04}"), 1));
    let keys: Vec<(String, u64)> = small.chain(large).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    let options = options.clone().with_memory_bytes(16 << 20).with_patience(patience());
    rig_after(Duration::from_millis(2), &objects, &options)
}

/// Reads a directory to its end.
async fn read(engine: &Engine, prefix: &str) -> Result<BTreeMap<String, Node>, Error> {
    let (directory, mut found, mut next) = (engine.open_directory(prefix), BTreeMap::new(), 0);
    while timeout(LONG, directory.wait(next)).await.unwrap_or_else(|_| panic!("{prefix} is never listed"))? {
        let _ = directory.visit(next, |_, name, node, _| {
            found.insert(name.to_owned(), node);
            next += 1;
            true
        });
    }
    Ok(found)
}

/// Walks the tree: reads each directory, and looks each name up and reads it. Returns how many
/// calls failed, each with an error of the engine's own.
fn walk(rig: &Rig) -> usize {
    let engine = &rig.engine;
    let mut failed = 0;
    let mut check = |error: Error| {
        assert!(error.kind() == ErrorKind::Io && error.to_string().contains("engine itself"), "{error}");
        failed += 1;
    };
    engine.runtime().block_on(async {
        match read(engine, "t/").await {
            Ok(found) => assert_eq!(found.len(), 24),
            Err(error) => check(error),
        }
        for dir in 0..24 {
            let prefix = format!("t/d{dir:02}/");
            match read(engine, &prefix).await {
                Ok(found) => assert_eq!(found.len(), 5, "{prefix}"),
                Err(error) => check(error),
            }
            for file in 0..5 {
                let name = format!("f{file}");
                let named = timeout(LONG, engine.look_up(&prefix, &name)).await.expect("a look-up ends");
                match named.map(|named| named.node) {
                    Ok(Node::File(object)) => {
                        let file = engine.open(&object);
                        let bytes =
                            timeout(LONG, file.read_at(0, 4096)).await.expect("a read ends").expect("its bytes");
                        assert_eq!(bytes.len(), 4096);
                    }
                    Ok(Node::Directory(prefix)) => panic!("{prefix} is a file"),
                    Err(error) => check(error),
                }
            }
        }
        match read(engine, "large/").await {
            Ok(found) => assert_eq!(found.len(), 2_500),
            Err(error) => check(error),
        }
    });
    failed
}

#[test]
fn a_listing_whose_task_panics_is_an_error_and_the_next_one_is_whole() {
    for at in 1..=7 {
        let rig = fragile(&[Panic::List(at)]);
        let failed = walk(&rig);
        // A look-up that waits for a listing asks the storage if that fails.
        assert!(failed <= 1, "page {at}: {failed} calls failed");
        assert_eq!((rig.engine.stats().panics, walk(&rig)), (1, 0), "page {at}");
    }
}

#[test]
fn policy_of_directories_is_started_anew_and_no_call_notices() {
    for at in (1..20).chain([30, 31, 60, 61, 90, 150, 250]) {
        let rig = fragile(&[Panic::Directory(at)]);
        assert_eq!((walk(&rig), walk(&rig)), (0, 0), "event {at}");
        let stats = rig.engine.stats();
        assert_eq!((stats.panics, stats.plain_after_panics), (1, false), "event {at}: {stats:?}");
    }
}

#[test]
fn policy_of_directories_that_panics_again_and_again_lists_nothing_ahead() {
    let rig = fragile(&(10..200).map(Panic::Directory).collect::<Vec<_>>());
    assert_eq!((walk(&rig), walk(&rig)), (0, 0));
    let before = rig.engine.stats();
    assert!(before.panics > 100 && before.plain_after_panics, "{before:?}");
    assert_eq!(walk(&rig), 0);
    let after = rig.engine.stats();
    assert_eq!((before.lists_ahead, before.files_ahead), (after.lists_ahead, after.files_ahead), "{after:?}");
}

/// A page that is asked for again, whose task panics: names in it are asked for alone, and the
/// next listing is whole.
#[test]
fn a_page_that_is_renewed_by_a_task_that_panics_leaves_no_name_waiting() {
    let mut in_renewals = 0;
    for at in 3..=8 {
        // No name stops waiting since that has taken too long.
        let options = Options::default().with_panics(&[Panic::List(at)]);
        let rig = fragile_with(&options.with_metadata_ttl(Duration::from_hours(1)));
        let engine = &rig.engine;
        engine.runtime().block_on(async {
            let listed = read(engine, "large/").await.is_ok();
            let before = engine.stats().panics;
            for pass in 0..2 {
                engine.forget_names();
                for file in (0..2_500).step_by(50) {
                    let name = format!("f{file:04}");
                    let named = timeout(LONG, engine.look_up("large/", &name)).await.expect("a look-up ends");
                    assert!(matches!(named.expect("it is there").node, Node::File(_)), "{name} in pass {pass}");
                }
            }
            in_renewals += u64::from(listed) * (engine.stats().panics - before);
            let found = read(engine, "large/").await.expect("all of it");
            assert_eq!((found.len(), engine.stats().panics), (2_500, 1), "page {at}");
        });
    }
    assert!(in_renewals >= 3, "{in_renewals} panics in renewals");
}

/// Runs the reader in the call that wakes it, as some executors do.
struct AtOnce {
    directory: Arc<Directory>,
    engine: Engine,
    told: Sender<bool>,
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        // What a reader does when it is woken, and another one's open.
        let ended = ready(&self.directory, &Waker::noop().clone());
        self.engine.open_directory("large/");
        let _ = self.told.send(ended);
    }
}

/// Polls for the last entry.
fn ready(directory: &Directory, waker: &Waker) -> bool {
    let poll = pin!(directory.wait(2_499)).as_mut().poll(&mut Context::from_waker(waker));
    matches!(poll, Poll::Ready(Ok(true)))
}

#[test]
fn a_reader_of_a_directory_may_run_in_the_call_that_wakes_it() {
    let rig = fragile(&[]);
    let directory = Arc::new(rig.engine.open_directory("large/"));
    let (told, ends) = channel();
    let waker = Waker::from(Arc::new(AtOnce { directory: Arc::clone(&directory), engine: rig.engine.clone(), told }));
    loop {
        // The future is kept while it waits.
        let mut wait = pin!(directory.wait(2_499));
        if wait.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            break;
        }
        ends.recv_timeout(LONG).expect("the thread that wakes the reader goes on");
    }
    let found = rig.engine.runtime().block_on(names(&directory));
    assert_eq!(found.len(), 2_500);
}

const LONG: Duration = Duration::from_secs(30);
