//! `--log`: what is written to it, and in which form.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use foreread_testbed::{Config, ObjectSpec};
use serde_json::Value;

use crate::fixture::{Mount, Store, directory};

/// The events of a log in JSON.
fn events(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("the log");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Reads the first bytes of an object through a mount whose storage answers after 150 ms, and
/// returns the events of its log.
fn events_of_a_read(options: &[&str]) -> (Vec<Value>, u64) {
    let first_byte = Duration::from_millis(150);
    let objects = vec![ObjectSpec::new("dir/a", 1 << 20)];
    let store = Store::start(Config { objects, first_byte, jitter: Duration::ZERO, ..Config::default() });
    let folder = directory();
    let log = folder.path().join("log");
    let options = [&["--log", log.to_str().expect("UTF-8"), "--log-format", "json"], options].concat();
    let mount = Mount::background(store.foreread(), "s3://testbed", &options);
    let mut file = fs::File::open(mount.file("dir/a")).expect("the file");
    file.read_exact(&mut [0; 4096]).expect("a read");
    let slow = mount.stats()["slow_reads"].as_u64().expect("a number");
    drop((file, mount));
    (events(&log), slow)
}

#[test]
fn a_read_that_waited_long_is_told_of_with_what_it_waited_for() {
    let (events, slow) = events_of_a_read(&["--slow", "100ms"]);
    let event = events.iter().find(|event| event["message"] == "a slow read").expect("an event of it");
    assert_eq!((&event["key"], &event["level"]), (&Value::from("dir/a"), &Value::from("WARN")), "{event}");
    assert!(slow >= 1);
    assert_eq!((&event["offset"], &event["attempts"]), (&Value::from(0), &Value::from(1)), "{event}");
    let ms = |name: &str| event[name].as_u64().expect("a number");
    assert!(ms("waited_ms") >= 150 && ms("first_byte_ms") >= 150 && ms("bytes_ms") <= ms("waited_ms"), "{event}");
    assert!(event["cause"].as_str().is_some_and(|cause| !cause.is_empty()), "{event}");
}

#[test]
fn a_read_that_did_not_wait_long_is_no_event() {
    let (events, slow) = events_of_a_read(&["--slow", "1h"]);
    assert_eq!(slow, 0);
    assert!(events.iter().all(|event| event["message"] != "a slow read"), "{events:?}");
    let mounted = events.iter().find(|event| event["message"] == "mounted").expect("the mount");
    assert!(mounted["source"] == "s3://testbed" && mounted["timestamp"].is_string(), "{mounted}");
}
