//! `foreread stats`: the figures of a mount.

use std::fs;
use std::path::Path;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Mount, Store, foreread, run, shell};

#[test]
fn counters_follow_what_is_read() {
    let store = Store::with(&[("file", 20 << 20)]);
    let mounted = Mount::of(&store);
    let before = mounted.stats();
    fs::read(mounted.file("file")).expect("the file");
    let after = mounted.stats();
    let grown = |name: &str| after[name].as_u64().unwrap_or_default() - before[name].as_u64().unwrap_or_default();
    assert_eq!(grown("read_bytes"), 20 << 20);
    assert_eq!(grown("fetched_bytes"), 20 << 20, "a sequential reader fetches each byte once");
    assert!(grown("requests") > 0);
    assert_eq!(after["memory_budget_bytes"], 64 << 20);
    assert!(after["memory_charged_bytes"].as_u64().unwrap_or(u64::MAX) <= 64 << 20);
}

#[test]
fn the_table_shows_the_counters() {
    let store = Store::with(&[("file", 20 << 20)]);
    let mounted = Mount::of(&store);
    fs::read(mounted.file("file")).expect("the file");
    let text = run(foreread().arg("stats").arg(mounted.path())).ok().text();
    for word in ["requests per GiB", "amp", "hits", "waits", "thrash", "waste", "memory", "in flight", "p50", "20 MiB"]
    {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
}

#[test]
fn any_directory_of_the_mount_answers() {
    let store = Store::with(&[("a/b/file", 1)]);
    let mounted = Mount::of(&store);
    run(foreread().arg("stats").arg(mounted.file("a/b"))).ok();
}

/// No question reaches the storage: not for the name, not for what is in it. The same holds for a
/// way there over a symbolic link.
#[test]
fn a_directory_that_the_storage_is_silent_about_answers() {
    let faults = vec!["stall,key=a/*".parse().expect("a fault")];
    let objects = vec![ObjectSpec::new("a/b/file", 1)];
    let store = Store::start(Config { objects, faults, ..Config::default() });
    let mounted = Mount::of(&store);
    let links = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(mounted.file("a"), links.path().join("there")).expect("a link");
    for dir in [mounted.file("a/b"), mounted.file("a"), links.path().join("there/b")] {
        let text = run(foreread().args(["stats", "--json"]).arg(&dir)).ok().text();
        assert!(text.contains("memory_budget_bytes"), "{text}");
    }
    let asked: Vec<_> = store.testbed.requests().into_iter().filter(|request| request.key.starts_with('a')).collect();
    assert!(asked.is_empty(), "{asked:?}");
    run(foreread().arg("stats").arg(links.path().join("nowhere"))).failed_saying(&["no statistics"]);
}

#[test]
fn watching_ends_when_the_pipe_is_closed() {
    let store = Store::with(&[("file", 1)]);
    let mounted = Mount::of(&store);
    let script = r#""$1" stats --watch --json "$2" | head -n 2 | wc -l"#;
    let script = format!("set +o pipefail; {script}");
    let finished = shell(&script, &[Path::new(env!("CARGO_BIN_EXE_foreread")), mounted.path()]).ok();
    assert_eq!(finished.text().trim(), "2");
}
