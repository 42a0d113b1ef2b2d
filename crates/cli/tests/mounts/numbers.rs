//! Inode numbers: those of the last mount, in whatever order names are met.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_testbed::{Config, ObjectSpec};

use crate::fixture::{Mount, Store, run};

/// What an entry without attributes has.
const UNKNOWN: u64 = 0xffff_ffff;

/// Files of the large directory: a reader is given their names in several answers, the later of
/// which are names alone.
const FILES: u64 = 600;

fn store() -> Store {
    let large = (0..FILES).map(|n| ObjectSpec::new(format!("large/{n:0100}"), n));
    let nested = ["a", "b", "c"]
        .into_iter()
        .flat_map(|dir| ["one", "two", "a/a", "a/b/c"].map(|name| ObjectSpec::new(format!("{dir}/{name}"), 100)));
    Store::start(Config { objects: large.chain(nested).collect(), ..Config::default() })
}

/// All paths below the root.
fn paths(dir: &Path) -> Vec<PathBuf> {
    let found = run(Command::new("find").arg(dir).args(["-mindepth", "1", "-printf", "%P\\n"])).ok();
    found.text().lines().map(PathBuf::from).collect()
}

/// What a backup compares of each path, asked for in this order: number, seconds and nanoseconds
/// of the last changes, of a directory only the number.
fn known<'p>(mounted: &Mount, paths: impl Iterator<Item = &'p PathBuf>) -> BTreeMap<&'p Path, [i64; 5]> {
    let of = |path: &'p PathBuf| {
        let found = fs::symlink_metadata(mounted.path().join(path)).expect("it is there");
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        let [a, b, c, d] = if found.is_dir() { [0; 4] } else { times };
        (path.as_path(), [found.ino() as i64, a, b, c, d])
    };
    paths.map(of).collect()
}

#[test]
fn numbers_and_times_are_the_same_at_the_next_mount_in_any_order() {
    let store = store();
    let first = Mount::of(&store);
    let mut paths = paths(first.path());
    assert_eq!(paths.len() as u64, FILES + 12 + 10);
    paths.sort();
    let before = known(&first, paths.iter());
    drop(first);
    let numbers: BTreeSet<i64> = before.values().map(|known| known[0]).collect();
    assert_eq!(numbers.len(), paths.len(), "no two names have one number");
    assert!(numbers.iter().all(|number| (1 << 52..1 << 53).contains(number)));

    let second = Mount::of(&store);
    for (path, known) in known(&second, paths.iter().rev()) {
        assert_eq!(known, before[path], "{}", path.display());
    }
    assert_eq!(fs::metadata(second.path()).expect("the root").ino(), 1);
}

/// What a listing tells without attributes is no number: it is not one of another file either.
#[test]
fn a_listing_tells_the_numbers_that_stat_tells_or_none() {
    let store = store();
    let mounted = Mount::of(&store);
    for dir in ["large", "a", "a/a", "."] {
        let dir = mounted.file(dir);
        let listed: Vec<_> = fs::read_dir(&dir)
            .expect("a directory")
            .map(|entry| entry.map(|entry| (entry.ino(), entry.path())).expect("an entry"))
            .collect();
        for (number, path) in listed {
            let found = fs::symlink_metadata(&path).expect("it is there").ino();
            assert!(number == found || number == UNKNOWN, "{number}, not {found}: {}", path.display());
        }
    }
    let listed = run(Command::new("ls").args(["-1aiU"]).arg(mounted.file("a/a"))).ok().text();
    for line in listed.lines() {
        let (number, name) = line.trim_start().split_once(' ').expect("a number and a name");
        let found = fs::metadata(mounted.file("a/a").join(name)).expect("it is there");
        assert_eq!(number, found.ino().to_string(), "{name}");
    }
    assert_eq!(listed.lines().count(), 4, "{listed}");
}

/// Whether a mount has seen the object replaced, or met it afterwards.
#[test]
fn each_version_has_one_number() {
    let store = store();
    let version = |generation| ObjectSpec { generation, ..ObjectSpec::new("a/one", 100) };
    let ask = |generation| {
        store.testbed.set_object(&version(generation));
        let mounted = Mount::background(store.foreread(), "s3://testbed", &["--metadata-ttl", "0s"]);
        let number = fs::metadata(mounted.file("a/one")).expect("it is there").ino();
        store.testbed.set_object(&version(generation + 1));
        let next = fs::metadata(mounted.file("a/one")).expect("it is there").ino();
        (number, next)
    };
    let (one, two) = ask(1);
    assert_ne!(one, two);
    assert_eq!(ask(2).0, two, "replaced while mounted, or before: it is the same version");
}
