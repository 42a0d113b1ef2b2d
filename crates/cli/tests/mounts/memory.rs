//! The budget of a mount: changed while it is mounted, and kept by directories that do not fit.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::Duration;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Mount, Store, expected, foreread, run, shell};

fn set(mounted: &Mount, setting: &str) -> crate::fixture::Finished {
    run(foreread().arg("set").arg(mounted.path()).arg(setting))
}

#[test]
fn the_budget_changes_while_mounted() {
    let store = Store::with(&[("file", 60 << 20)]);
    let mounted = Mount::of(&store);
    let read = || assert!(fs::read(mounted.file("file")).expect("the file") == expected("file", 0, 60 << 20));
    read();
    let charged = mounted.stats()["memory_charged_bytes"].as_u64();
    assert!(charged > Some(32 << 20), "{charged:?} bytes are charged");
    set(&mounted, "memory=16M").ok();
    let less = mounted.stats();
    assert_eq!(less["memory_budget_bytes"], 16 << 20);
    assert!(less["memory_charged_bytes"].as_u64() <= Some(16 << 20), "{less}");
    read();
    set(&mounted, "memory=1GiB").ok();
    assert_eq!(mounted.stats()["memory_budget_bytes"], 1 << 30);
    read();
}

/// How far the kernel reads ahead in a mount, in KiB.
fn read_ahead_kib(mounted: &Mount) -> u64 {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the table of mounts");
    let point = mounted.path().to_str().expect("a path");
    let line = table.lines().find(|line| line.split(' ').nth(4) == Some(point)).expect("the mount");
    let device = line.split(' ').nth(2).expect("its device");
    let text = fs::read_to_string(format!("/sys/class/bdi/{device}/read_ahead_kb")).expect("its window");
    text.trim().parse().expect("a number")
}

/// As root. Others keep the kernel's window.
#[test]
fn the_kernels_window_follows_the_budget() {
    let store = Store::with(&[("dir/file", 1)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "256M"]);
    let is_root = rustix::process::geteuid().is_root();
    let has = |kib: u64| assert_eq!(read_ahead_kib(&mounted), if is_root { kib } else { 128 });
    has(1024);
    for (memory, kib) in [("4GiB", 4096), ("16MiB", 128), ("128MiB", 512)] {
        // Any directory in it will do.
        let setting = format!("memory={memory}");
        run(foreread().arg("set").arg(mounted.file("dir")).arg(setting)).ok();
        has(kib);
    }
}

#[test]
fn what_cannot_be_set_is_refused_and_changes_nothing() {
    let store = Store::with(&[("file", 1)]);
    let mounted = Mount::of(&store);
    set(&mounted, "memory=1M").failed_saying(&["1 MiB", "too little", "16 MiB"]);
    for (setting, words) in
        [("memory", "NAME=VALUE, such as memory=4GiB"), ("colour=red", "`colour` cannot be changed")]
    {
        let finished = set(&mounted, setting);
        assert_eq!(finished.status.code(), Some(2), "{setting}");
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    run(foreread().args(["set", "/", "memory=1G"])).failed_saying(&["nothing was changed", "grep fuse.foreread"]);
    if rustix::process::geteuid().is_root() {
        let other = Mount::background(store.foreread(), "s3://testbed", &["--allow-other", "--memory", "64M"]);
        // The command under test may lie where another user cannot run it: the ioctl is what
        // counts.
        let mut command = foreread();
        command.arg("set").arg(other.path()).arg("memory=32M").uid(65_534);
        if let Ok(output) = command.output() {
            assert!(!output.status.success(), "another user has changed the budget");
        }
        assert_eq!(other.stats()["memory_budget_bytes"], 64 << 20);
    }
    assert_eq!(mounted.stats()["memory_budget_bytes"], 64 << 20);
}

/// Heads of many files, as `file` and `head` read them, leave small pieces of memory in any order.
/// What of it goes is no longer resident.
#[test]
fn the_heads_of_many_files_leave_nothing_resident_beyond_the_budget() {
    const FILES: usize = 8_000;
    let objects = (0..FILES).map(|n| ObjectSpec::new(format!("d/{n}"), 128 << 10)).collect();
    let store = Store::start(Config { objects, first_byte: Duration::ZERO, ..Config::default() });
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--memory", "64M"]);
    let before = mounted.resident_bytes();
    let dir = mounted.file("d");
    thread::scope(|scope| {
        for reader in 0..8 {
            let dir = &dir;
            scope.spawn(move || {
                for n in (reader..FILES).step_by(8) {
                    let mut head = [0; 1000];
                    let mut file = fs::File::open(dir.join(n.to_string())).expect("a file");
                    file.read_exact(&mut head).expect("its head");
                    assert!(head == *expected(&format!("d/{n}"), 0, 1000), "file {n}");
                }
            });
        }
    });
    let grown = mounted.resident_bytes() - before;
    assert!(grown <= 80 << 20, "{} MiB became resident with a budget of 64 MiB", grown >> 20);
}

/// A directory that takes several times what directories may: it is listed whole, each name once,
/// by readers side by side, and its files open.
#[test]
fn a_directory_larger_than_the_memory_is_listed_and_read() {
    let names: BTreeSet<String> = (0..120_000).map(|n| format!("a-rather-long-name-of-a-file-{n:08}")).collect();
    let objects = names.iter().map(|name| ObjectSpec::new(format!("flat/{name}"), 1)).collect();
    let store = Store::start(Config { objects, ..Config::default() });
    let options = ["--memory", "16M", "--metadata-ttl", "1h"];
    let mounted = Mount::background(store.foreread(), "s3://testbed", &options);
    let script = r#"cd "$1"; for i in 1 2 3; do find . -type f | sort | md5sum & done; wait"#;
    let sums = shell(script, &[&mounted.file("flat")]).ok().text();
    let sums: BTreeSet<&str> = sums.lines().collect();
    assert_eq!(sums.len(), 1, "three readers have seen different names");
    let found = shell(r#"find "$1" -type f | sed 's|.*/|./|'"#, &[&mounted.file("flat")]).ok().text();
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let all = names.iter().map(|name| format!("./{name}"));
    assert!(found.iter().copied().eq(all), "{} names, and {} are there", found.len(), names.len());
    let directories = mounted.stats()["memory_directories_bytes"].as_u64();
    assert!(directories <= Some(6 << 20), "{directories:?} bytes are charged to directories");
    for name in names.iter().step_by(40_000) {
        let bytes = fs::read(mounted.file("flat").join(name)).expect("a file");
        assert_eq!(bytes, expected(&format!("flat/{name}"), 0, 1));
    }
}
