//! Loads that are repeated by hand at any size: names, directories, opens and slow streams by as
//! many as `FOREREAD_COUNT` says. Without it they are small, for every run of the tests.
//!
//! What a mount of the least budget has had resident at most is within the budget and 64 MiB,
//! every name is seen once, and reading goes on. `docs/testing.md` has the commands.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Mount, Store, expected};

const BUDGET_MIB: u64 = 16;

/// How much a process may have beside the budget.
const BESIDE_MIB: u64 = 64;

fn count(default: usize) -> usize {
    let given = std::env::var("FOREREAD_COUNT").ok();
    given.map_or(default, |text| text.parse().expect("FOREREAD_COUNT is a number"))
}

/// Mounts `keys` and runs `load` beside a reader that compares every byte. The load returns how
/// many names it has seen, or files it has opened.
fn endured(what: &str, keys: impl Iterator<Item = String>, load: impl FnOnce(&Path) -> usize) {
    const LEN: u64 = 64 << 20;
    let mut objects: Vec<ObjectSpec> = keys.map(|key| ObjectSpec::new(key, 100)).collect();
    let wanted = objects.len();
    objects.push(ObjectSpec::new("beside", LEN));
    let store = Store::start(Config { objects, first_byte: Duration::ZERO, ..Config::default() });
    let memory = format!("{BUDGET_MIB}M");
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--memory", &memory]);
    let before = mounted.resident_bytes();
    let (over, beside) = (AtomicBool::new(false), mounted.file("beside"));
    let (began, seen) = (Instant::now(), AtomicU64::new(0));
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::open(&beside).expect("a file");
            while !over.load(Relaxed) {
                let mut bytes = vec![0; 64 << 10];
                let offset = seen.fetch_add(bytes.len() as u64, Relaxed) % LEN;
                file.read_exact_at(&mut bytes, offset).expect("bytes");
                assert!(bytes == expected("beside", offset, bytes.len()), "wrong at {offset}");
            }
        });
        let found = load(mounted.path());
        over.store(true, Relaxed);
        found
    });
    let most = mounted.most_resident_bytes().saturating_sub(before);
    let stats = mounted.stats();
    println!(
        "{what}: {found} in {:.0} s, {} MiB resident at most beyond the start, {} MiB read beside; directories {} KiB, \
         names {} KiB",
        began.elapsed().as_secs_f64(),
        most >> 20,
        seen.load(Relaxed) >> 20,
        stats["memory_directories_bytes"].as_u64().unwrap_or_default() >> 10,
        stats["memory_names_bytes"].as_u64().unwrap_or_default() >> 10,
    );
    assert_eq!(found, wanted, "{what}");
    assert!(seen.load(Relaxed) > 0, "{what}: nothing was read beside it");
    assert!(most <= (BUDGET_MIB + BESIDE_MIB) << 20, "{what}: {} MiB were resident", most >> 20);
}

/// The files below `dir`, as `find` counts them.
fn find(dir: &Path, depth: u32) -> usize {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let entry = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its kind").is_dir() {
            find(&entry.path(), depth + 1)
        } else {
            usize::from(depth > 0)
        }
    };
    entries.map(entry).sum()
}

#[test]
fn find_over_many_names() {
    let names = count(30_000);
    endured("find", (0..names).map(|n| format!("names/{:06}/{:03}", n / 1000, n % 1000)), |dir| find(dir, 0));
}

#[test]
fn directories_with_one_file_each() {
    let dirs = count(5_000);
    endured("directories", (0..dirs).map(|n| format!("dirs/{n:08}/file")), |dir| find(dir, 0));
}

#[test]
fn one_flat_directory() {
    let names = count(50_000);
    endured("a flat directory", (0..names).map(|n| format!("flat/{n:08}")), |dir| find(dir, 0));
}

#[test]
fn opens_of_many_files() {
    let files = count(5_000);
    let key = |n: usize| format!("files/{:04}/{:03}", n / 1000, n % 1000);
    endured("opens", (0..files).map(key), |dir| {
        for n in 0..files {
            let file = File::open(dir.join(key(n))).expect("a file");
            if n % 100 == 0 {
                let mut bytes = [0; 100];
                file.read_exact_at(&mut bytes, 0).expect("bytes");
                assert!(bytes == *expected(&key(n), 0, 100), "file {n}");
            }
        }
        files
    });
}

/// 200 readers of one file, 10 MiB apart, each slower than the storage by far, in 64 MiB. A start
/// is a mount of two seconds: as it begins, most is undecided.
#[test]
fn starts_of_200_slow_streams() {
    const STREAMS: u64 = 200;
    const APART: u64 = 10 << 20;
    let first_byte = Duration::from_millis(30);
    let longest = AtomicU64::new(0);
    let starts = count(2);
    for _ in 0..starts {
        let objects = vec![ObjectSpec::new("file", 2 << 30)];
        let store = Store::start(Config { objects, first_byte, ..Config::default() });
        let mounted = Mount::foreground(store.foreread(), "s3://testbed", &["--memory", "64M"]);
        let (path, until) = (mounted.file("file"), Instant::now() + Duration::from_secs(2));
        thread::scope(|scope| {
            for stream in 0..STREAMS {
                let (path, longest) = (&path, &longest);
                scope.spawn(move || {
                    let file = File::open(path).expect("a file");
                    let (mut bytes, mut offset) = (vec![0; 64 << 10], stream * APART);
                    while Instant::now() < until {
                        let asked = Instant::now();
                        file.read_exact_at(&mut bytes, offset).expect("bytes");
                        longest.fetch_max(asked.elapsed().as_millis() as u64, Relaxed);
                        assert!(bytes == expected("file", offset, bytes.len()), "wrong at {offset}");
                        offset += bytes.len() as u64;
                        // 100 KB/s.
                        thread::sleep(Duration::from_millis(655));
                    }
                });
            }
        });
    }
    println!("{starts} starts: the longest read took {} ms", longest.load(Relaxed));
}
