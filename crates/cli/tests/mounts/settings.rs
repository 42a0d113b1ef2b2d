//! `foreread set`: options that change while mounted, one by one and to what the configuration
//! says.

use std::fs;
use std::path::Path;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Finished, Mount, Store, directory, foreread, run, until};

fn set(mounted: &Mount, settings: &[&str]) -> Finished {
    run(foreread().arg("set").arg(mounted.path()).args(settings))
}

fn logged(options: &[&str], log: &Path, store: &Store) -> Mount {
    let options = [&["--log", log.to_str().expect("UTF-8"), "--memory", "64M"], options].concat();
    Mount::background(store.foreread(), "s3://testbed", &options)
}

/// Whether this kernel asks for names again that it was told are valid: Linux 6.16.
fn asks_again() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(16))
}

#[test]
fn a_shorter_ttl_holds_for_names_that_are_known_already() {
    let store = Store::with(&[("dir/a", 10)]);
    let folder = directory();
    let mounted = logged(&["--metadata-ttl", "10h"], &folder.path().join("log"), &store);
    let size = || fs::metadata(mounted.file("dir/a")).expect("the file").len();
    assert_eq!(size(), 10);
    store.testbed.set_object(&ObjectSpec { key: "dir/a".into(), size: 20, generation: 2 });
    store.testbed.reset_counters();
    assert_eq!((size(), store.testbed.counters().list), (10, 0), "ten hours are not over");
    set(&mounted, &["metadata-ttl=0s"]).ok();
    if asks_again() {
        assert_eq!(size(), 20);
    }
    // A longer one holds as well.
    set(&mounted, &["metadata-ttl=10h"]).ok();
    until("the name is believed again", || {
        size();
        store.testbed.reset_counters();
        size();
        store.testbed.counters().list + store.testbed.counters().head == 0
    });
}

#[test]
fn what_is_logged_changes_while_mounted() {
    let store = Store::start(Config {
        objects: vec![ObjectSpec::new("a", 10), ObjectSpec::new("b", 10), ObjectSpec::new("c", 10)],
        ..Config::default()
    });
    let folder = directory();
    let log = folder.path().join("log");
    let mounted = logged(&[], &log, &store);
    let events = |word: &str| fs::read_to_string(&log).expect("the log").matches(word).count();
    fs::read(mounted.file("a")).expect("a file");
    assert_eq!((events("a slow read"), events(" DEBUG ")), (0, 0));
    set(&mounted, &["slow=0s", "log-level=debug"]).ok();
    fs::read(mounted.file("b")).expect("a file");
    until("the read is told of", || events("a slow read") > 0);
    assert!(events("an option was changed") >= 1);
    set(&mounted, &["log-level=off"]).ok();
    let before = fs::read_to_string(&log).expect("the log");
    fs::read(mounted.file("c")).expect("a file");
    assert_eq!(fs::read_to_string(&log).expect("the log"), before);
    for (wrong, words) in
        [("log-level=loud", "one of off, error"), ("slow=quick", "invalid value"), ("ttl=1s", "metadata-ttl")]
    {
        let finished = set(&mounted, &[wrong]);
        assert_eq!(finished.status.code(), Some(2), "{wrong}");
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let silent = Mount::background(store.foreread(), "s3://testbed", &["--memory", "64M"]);
    set(&silent, &["log-level=info"]).failed_saying(&["writes no log", "--log FILE"]);
}

#[test]
fn a_mount_takes_what_the_configuration_says_by_now() {
    let store = Store::with(&[("a", 10)]);
    let folder = directory();
    let (log, file) = (folder.path().join("log"), folder.path().join("config.toml"));
    let write = |options: &str| {
        fs::write(&file, format!("[stores.work]\nurl = \"s3://testbed\"\n{options}")).expect("a file");
    };
    let mounted = logged(&[], &log, &store);
    let reload =
        || run(foreread().env("FOREREAD_CONFIG", &file).arg("set").arg(mounted.path()).args(["--store", "work"]));
    write("memory = \"32MiB\"\nslow = \"0s\"\nlog-level = \"warn\"\n");
    reload().ok();
    assert_eq!(mounted.stats()["memory_budget_bytes"], 32 << 20);
    fs::read(mounted.file("a")).expect("a file");
    until("the read is told of", || fs::read_to_string(&log).expect("the log").contains("a slow read"));
    // What is wrong changes nothing.
    write("memory = \"48MiB\"\nslow = \"never\"\n");
    reload().failed_saying(&["slow", "never"]);
    assert_eq!(mounted.stats()["memory_budget_bytes"], 32 << 20);
    write("memory = \"1MiB\"\n");
    reload().failed_saying(&["too little"]);
    // What is not there any more has its default.
    write("");
    reload().ok();
    assert!(mounted.stats()["memory_budget_bytes"].as_u64() > Some(32 << 20));
    run(foreread().env("FOREREAD_CONFIG", &file).arg("set").arg(mounted.path()).args(["--store", "wrok"]))
        .failed_saying(&["wrok", "work"]);
}
