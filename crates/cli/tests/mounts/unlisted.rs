//! A bucket that lets its names be read and forbids its listing: known names open, directories
//! cannot be read, and nothing else notices.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use foreread_testbed::{Config, Fault, Kind, ObjectSpec};
use rustix::io::Errno;

use crate::fixture::{Mount, Store, directory, expected, is_mounted, run, until};

/// How storages forbid a listing: Azure's still tell that an object is missing, S3's do not.
const FORBIDDEN: [&[&str]; 2] = [&["status=403,kind=list"], &["status=403,kind=list", "forbid-missing,kind=get+head"]];

fn objects() -> Vec<ObjectSpec> {
    let small = (0..20).map(|nth| ObjectSpec::new(format!("a/b/small{nth}"), 1_000 + nth));
    let others = [("flat", (1 << 20) + 3), ("empty", 0), ("a/empty", 0), ("a/b/deep", 300_001)];
    small.chain(others.map(|(key, size)| ObjectSpec::new(key, size))).collect()
}

fn faults(specs: &[&str]) -> Vec<Fault> {
    specs.iter().map(|spec| spec.parse().expect("a fault")).collect()
}

fn store(forbidden: &[&str]) -> Store {
    Store::start(Config { objects: objects(), faults: faults(forbidden), ..Config::default() })
}

#[track_caller]
fn denied<T>(result: io::Result<T>, what: &str) {
    let errno = result.err().and_then(|error| error.raw_os_error());
    assert_eq!(errno, Some(Errno::ACCESS.raw_os_error()), "{what}");
}

fn list(dir: &Path) -> io::Result<usize> {
    fs::read_dir(dir)?.try_fold(0, |count, entry| entry.map(|_| count + 1))
}

/// What holds of a mount of which nothing may be listed.
fn check(mounted: &Mount, store: &Store, forbidden: &[&str]) {
    for pass in 0..2 {
        for ObjectSpec { key, size, .. } in objects() {
            let bytes = fs::read(mounted.file(&key)).unwrap_or_else(|error| panic!("{forbidden:?}, {key}: {error}"));
            assert!(bytes == expected(&key, 0, size as usize), "{forbidden:?}, {key}, pass {pass}");
        }
        for dir in ["", "a", "a/b"] {
            denied(list(&mounted.file(dir)), &format!("{forbidden:?}: ls {dir:?}"));
        }
        // It cannot be told whether something lies below a name that no object has.
        for missing in ["missing", "a/missing", "a/b/missing", "missing/missing"] {
            let metadata = fs::metadata(mounted.file(missing)).unwrap_or_else(|error| panic!("{missing}: {error}"));
            assert!(metadata.is_dir(), "{missing}");
            denied(File::open(mounted.file(missing)), &format!("{forbidden:?}: open {missing}"));
            denied(list(&mounted.file(missing)), &format!("{forbidden:?}: ls {missing}"));
        }
        let below_file = File::open(mounted.file("flat/name")).expect_err("a file has no names");
        assert_eq!(below_file.raw_os_error(), Some(Errno::NOTDIR.raw_os_error()));
    }
    run(store.foreread().args(["stats", "--json"]).arg(mounted.path())).ok();
    // A program that opens many files of one directory does not ask for a listing each time.
    store.testbed.reset_counters();
    for nth in 0..20 {
        let key = format!("a/b/small{nth}");
        assert!(fs::read(mounted.file(&key)).expect("it is known") == expected(&key, 0, 1_000 + nth));
    }
    let asked = store.testbed.requests();
    let of = |kind: Kind| asked.iter().filter(|request| request.kind == kind).count();
    assert_eq!(of(Kind::Get), 0, "the bytes are in memory");
    // Two directories lead there. Each of them is asked for again when it is no longer believed,
    // and so is a file whose open comes, on a loaded machine, long after its look-up.
    assert!(of(Kind::Head) <= 80 && of(Kind::List) <= 40, "{forbidden:?}: {asked:?}");
}

#[test]
fn known_names_of_an_unlisted_bucket_open_and_nothing_can_be_listed() {
    for forbidden in FORBIDDEN {
        let store = store(forbidden);
        let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "64M", "--unlisted"]);
        check(&mounted, &store, forbidden);
        let inner = Mount::background(store.foreread(), "s3://testbed/a/b", &["--memory", "64M", "--unlisted"]);
        assert!(fs::read(inner.file("deep")).expect("it is known") == expected("a/b/deep", 0, 300_001));
        denied(list(inner.path()), "ls of a prefix");
        // When it may be listed, it is.
        store.testbed.set_faults(Vec::new());
        until("the root is listed", || list(mounted.path()).is_ok_and(|count| count == 3));
        until("a directory is listed", || list(&mounted.file("a/b")).is_ok_and(|count| count == 21));
        until("a missing name is missing", || {
            File::open(mounted.file("missing")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        });
    }
}

#[test]
fn a_bucket_that_loses_its_listing_while_mounted_goes_on() {
    for forbidden in FORBIDDEN {
        let store = store(&[]);
        let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "64M", "--metadata-ttl", "0s"]);
        assert_eq!(list(mounted.path()).expect("it may be listed"), 3);
        store.testbed.set_faults(faults(forbidden));
        check(&mounted, &store, forbidden);
    }
}

#[test]
fn an_unlisted_bucket_is_mounted_only_if_that_is_said() {
    let store = store(FORBIDDEN[1]);
    let dir = directory();
    let finished = run(store.foreread().args(["mount", "s3://testbed"]).arg(dir.path()));
    assert!(!is_mounted(dir.path()));
    finished.failed_saying(&["may not be listed", "--unlisted", "--profile"]);
    // A single object needs no listing.
    let mounted = Mount::background(store.foreread(), "s3://testbed/a/b/deep", &["--memory", "64M"]);
    assert!(fs::read(mounted.file("deep")).expect("it is known") == expected("a/b/deep", 0, 300_001));
    // Wrong credentials are no lack of a right.
    let mut wrong = store.foreread();
    wrong.env("AWS_SECRET_ACCESS_KEY", "wrong");
    store.testbed.set_faults(Vec::new());
    run(wrong.args(["mount", "s3://testbed", "--unlisted"]).arg(dir.path())).failed_saying(&["access denied"]);
    assert!(!is_mounted(dir.path()));
}
