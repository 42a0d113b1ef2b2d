//! Panics of the engine's own code: the engine goes on, and at most one read has an error.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use foreread_engine::{ErrorKind, Options, Panic, replay};
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
    assert!(stats.requests_speculative > 0, "readahead goes on: {stats:?}");
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
