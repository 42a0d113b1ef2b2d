//! A recorded engine replays through policy to the same actions.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;

use foreread_engine::{Options, ReplayError, replay};

use crate::{patience, rig};

#[test]
fn a_record_replays_to_the_same_actions() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("record.log");
    std::fs::write(&path, "what was there").expect("room for it");
    let options = Options::default().with_memory_bytes(16 << 20).with_record(path.clone()).with_patience(patience());
    let rig = rig(&[("a", 100 << 20), ("b", 3 << 20)], &options);
    rig.testbed.set_faults(vec!["status=500,every=11".parse().expect("a fault")]);
    std::thread::scope(|threads| {
        for (key, step) in [("a", 1u64 << 20), ("a", 3 << 20), ("b", 64 << 10)] {
            let rig = &rig;
            threads.spawn(move || {
                let file = rig.open(key);
                for i in 0..30 {
                    rig.read(&file, (i * step) % file.size(), 128 << 10, 1).expect("a read");
                }
            });
        }
    });
    drop(rig);
    assert_eq!(path.metadata().expect("the record").permissions().mode() & 0o777, 0o600, "its owner's alone");
    let replayed = replay(BufReader::new(File::open(&path).expect("the record"))).expect("the same actions");
    assert!(replayed.events > 50 && replayed.actions > 50, "{replayed:?}");
}

/// The first line of a log, which ends with `fields`.
fn head(fields: &str) -> String {
    format!("foreread-log 19 capacity_bytes=67108864 readahead=true replacement=s3-fifo {fields}\n")
}

/// Two long reads far apart, and what policy does about the first.
const FIRST: &str =
    "@1 open 1 2000\n@2 read 1 1 500 700 absent -\n! submit 0 1 500 700 - demand storage - 700 -\n! ready 1 700\n";
const SECOND: &str = "@3 read 2 1 1500 1700 absent -\n";

#[test]
fn a_record_replays_with_the_fair_queue_as_recorded() {
    let on = head("rotational=true fair_queue=true tier=false bypass=false");
    let off = head("rotational=true fair_queue=false tier=false bypass=false");
    let waits = FIRST.to_owned() + SECOND + "! submit 1 1 1500 1700 - demand storage - 1500 -\n";
    let starts = FIRST.to_owned() + SECOND + "! submit 1 1 1500 1700 - demand storage - 1700 -\n! ready 2 1700\n";
    for (head, actions, same) in
        [(&on, &waits, true), (&off, &starts, true), (&on, &starts, false), (&off, &waits, false)]
    {
        let log = head.clone() + actions;
        let replayed = replay(log.as_bytes());
        assert_eq!(replayed.is_ok(), same, "{log}{replayed:?}");
    }
    assert!(matches!(replay(head("rotational=true").as_bytes()), Err(ReplayError::Malformed { line: 1, .. })));
}

#[test]
fn a_record_that_was_changed_does_not_replay() {
    let log = head("rotational=true fair_queue=true tier=false bypass=false")
        + FIRST
        + SECOND
        + "! submit 1 1 50 99 - demand storage -\n";
    assert!(matches!(replay(log.as_bytes()), Err(ReplayError::Differs { line: 7, .. })));
    let garbage = head("rotational=true fair_queue=true tier=false bypass=false") + "nonsense\n";
    assert!(matches!(replay(garbage.as_bytes()), Err(ReplayError::Malformed { line: 2, .. })));
    assert!(matches!(replay("".as_bytes()), Err(ReplayError::Malformed { line: 1, .. })));
}
