//! The budget of a mount: changed while it is mounted, and kept by directories that do not fit.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::Duration;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Mount, Store, expected, foreread, run, shell, until};

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
    heads_are_read(8_000, 128 << 10, 64, 16);
}

/// Folios that were read in part fill a small budget many times over.
#[test]
fn the_heads_of_20_000_files_are_read_in_the_least_budget() {
    heads_are_read(20_000, 8 << 10, 16, 64);
}

/// Reads the first bytes of so many files of a mount of `memory_mib`. What becomes resident
/// exceeds that by at most `more_mib`.
fn heads_are_read(files: usize, size: u64, memory_mib: u64, more_mib: u64) {
    let objects = (0..files).map(|n| ObjectSpec::new(format!("d/{n}"), size)).collect();
    let store = Store::start(Config { objects, first_byte: Duration::ZERO, ..Config::default() });
    let memory = format!("{memory_mib}M");
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--memory", &memory]);
    let before = mounted.resident_bytes();
    let dir = mounted.file("d");
    thread::scope(|scope| {
        for reader in 0..8 {
            let dir = &dir;
            scope.spawn(move || {
                for n in (reader..files).step_by(8) {
                    let mut head = [0; 1000];
                    let mut file = fs::File::open(dir.join(n.to_string())).expect("a file");
                    file.read_exact(&mut head).expect("its head");
                    assert!(head == *expected(&format!("d/{n}"), 0, 1000), "file {n}");
                }
            });
        }
    });
    let grown = mounted.resident_bytes().saturating_sub(before);
    assert!(grown <= (memory_mib + more_mib) << 20, "{} MiB became resident, budget {memory}", grown >> 20);
}

/// The budget goes down by much after names, directories and handles filled a large one: what is
/// resident follows, and reading goes on meanwhile.
#[test]
fn what_is_resident_follows_a_budget_that_is_made_small() {
    const DIRS: usize = 200;
    const FILES: usize = 1000;
    let of = |dir: usize, n: usize| format!("d{dir}/a-name-of-some-length-{n:06}");
    let objects = (0..DIRS).flat_map(|dir| (0..FILES).map(move |n| ObjectSpec::new(of(dir, n), 100)));
    let store = Store::start(Config { objects: objects.collect(), first_byte: Duration::ZERO, ..Config::default() });
    let options = ["--memory", "1GiB", "--metadata-ttl", "10m"];
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
    let before = mounted.resident_bytes();
    shell(r#"cd "$1"; find . -type f -size +0 | wc -l"#, &[mounted.path()]).ok();
    let full = mounted.resident_bytes() - before;
    assert!(full > 48 << 20, "{} MiB are resident for {} names", full >> 20, DIRS * FILES);
    let names = |mounted: &Mount| mounted.stats()["memory_names_bytes"].as_u64().unwrap_or_default();
    let most = names(&mounted);
    assert!(most > 24 << 20, "{most} bytes are charged for names");
    // From two programs at once, and the last one holds.
    thread::scope(|scope| {
        for memory in ["memory=16M", "memory=64M"] {
            let mounted = &mounted;
            scope.spawn(move || set(mounted, memory).ok());
        }
        assert_eq!(fs::read(mounted.file(&of(1, 1))).expect("a file"), expected(&of(1, 1), 0, 100));
    });
    set(&mounted, "memory=16M").ok();
    until("the kernel has forgotten names", || names(&mounted) <= 2 << 20);
    let stats = mounted.stats();
    assert!(stats["memory_directories_bytes"].as_u64() <= Some(6 << 20), "{stats}");
    assert!(stats["memory_charged_bytes"].as_u64() <= Some(16 << 20), "{stats}");
    until("it is given back to the kernel", || mounted.resident_bytes() <= before + (24 << 20));
    assert_eq!(fs::read(mounted.file(&of(2, 2))).expect("a file"), expected(&of(2, 2), 0, 100));
}

/// Programs that stand in the middle of a directory, each in a listing of its own: it was listed
/// anew for each.
#[test]
fn open_directories_keep_no_listings_beyond_the_budget() {
    const NAMES: usize = 12_000;
    let names = (0..NAMES).map(|n| format!("a-rather-long-name-of-a-file-{n:08}"));
    let objects = names.map(|name| ObjectSpec::new(format!("flat/{name}"), 1)).collect();
    let store = Store::start(Config { objects, first_byte: Duration::ZERO, ..Config::default() });
    let options = ["--memory", "16M", "--metadata-ttl", "0s"];
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
    let before = mounted.resident_bytes();
    let flat = mounted.file("flat");
    let mut open: Vec<_> = (0..60)
        .map(|_| {
            let mut entries = fs::read_dir(&flat).expect("a directory");
            entries.next().expect("an entry").expect("its name");
            assert_eq!(fs::read_dir(&flat).expect("a directory").count(), NAMES);
            entries
        })
        .collect();
    let grown = mounted.resident_bytes().saturating_sub(before);
    assert!(grown <= (16 + 64) << 20, "{} MiB became resident for open directories", grown >> 20);
    let directories = mounted.stats()["memory_directories_bytes"].as_u64();
    assert!(directories <= Some(6 << 20), "{directories:?} bytes are charged to directories");
    for entries in open.iter_mut().step_by(7) {
        assert_eq!(entries.count(), NAMES - 1, "the rest comes, each name once");
    }
}

/// A directory that takes several times what directories may: it is listed whole, each name once,
/// by readers side by side, and its files open.
#[test]
fn a_directory_larger_than_the_memory_is_listed_and_read() {
    let names: BTreeSet<String> = (0..120_000).map(|n| format!("a-rather-long-name-of-a-file-{n:08}")).collect();
    let objects = names.iter().map(|name| ObjectSpec::new(format!("flat/{name}"), 1)).collect();
    let store = Store::start(Config { objects, ..Config::default() });
    let options = ["--memory", "16M", "--metadata-ttl", "1h"];
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
    let before = mounted.resident_bytes();
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
    let grown = mounted.resident_bytes().saturating_sub(before);
    assert!(grown <= (16 + 64) << 20, "{} MiB became resident", grown >> 20);
    for name in names.iter().step_by(40_000) {
        let bytes = fs::read(mounted.file("flat").join(name)).expect("a file");
        assert_eq!(bytes, expected(&format!("flat/{name}"), 0, 1));
    }
}
