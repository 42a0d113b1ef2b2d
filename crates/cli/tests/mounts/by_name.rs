//! Programs that open files by name, without reading directories for it: the requests and the
//! bytes that they cost the store.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use foreread_testbed::{Config, Kind, LoggedRequest};

use crate::fixture::{Mount, Store, directory, have, run, shell};

/// A package of eight packages of twelve modules each, which are imported in an order of their
/// own, and of as many tests, which are not. Compiled so that no module is read as source.
const PACKAGES: &str = r#"
import compileall, os, py_compile, sys
root = os.path.join(sys.argv[1], "site", "made")
def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
order = [n * 5 % 12 for n in range(12)]
packages = [n * 3 % 8 for n in range(8)]
write(root + "/__init__.py", "".join(f"from . import p{n}\n" for n in packages))
for p in range(8):
    write(f"{root}/p{p}/__init__.py", "".join(f"from . import m{n}\n" for n in order))
    for n in range(12):
        write(f"{root}/p{p}/m{n}.py", f"VALUE = {p * 100 + n}\nTEXT = {'x' * 3000!r}\n")
for n in range(100):
    write(f"{root}/tests/test_{n}.py", f"TEXT = {'y' * 3000!r}\n")
compileall.compile_dir(root, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"#;

/// What was asked of the store since it had `from` requests.
fn since(store: &Store, from: usize) -> Vec<LoggedRequest> {
    store.testbed.requests().split_off(from)
}

fn count(requests: &[LoggedRequest], kind: Kind) -> usize {
    requests.iter().filter(|request| request.kind == kind).count()
}

/// The bytes below `dir` of files with this ending.
fn compiled_bytes(dir: &Path, files: &BTreeSet<String>) -> u64 {
    files.iter().map(|key| fs::metadata(dir.join(key)).expect("a file of the store").len()).sum()
}

#[test]
fn an_import_asks_for_listings_of_subtrees_and_for_siblings() {
    if !have("python3") {
        return;
    }
    let made = directory();
    run(Command::new("python3").args(["-c", PACKAGES]).arg(made.path())).ok();
    let config = Config { dir: Some(made.path().to_owned()), request_log: 1 << 16, ..Config::default() };
    let store = Store::start(config);
    // What is listed holds for as long as the test takes, on any machine.
    let options = ["--memory", "64M", "--metadata-ttl", "10m"];
    let mounted = Mount::background(store.foreread(), "s3://testbed", &options);
    let import = |program: &str| {
        let mut command = Command::new("python3");
        command.args(["-S", "-c", program]).env("PYTHONPATH", mounted.file("site"));
        run(command.env("PYTHONDONTWRITEBYTECODE", "1")).ok().text()
    };
    let before = store.testbed.requests().len();
    assert_eq!(import("import made; print(made.p3.m7.VALUE)"), "307\n");
    let requests = since(&store, before);
    let opened = 1 + 8 * 13;
    let (gets, lists, heads) = (Kind::Get, Kind::List, Kind::Head);
    let [gets, lists, heads] = [gets, lists, heads].map(|kind| count(&requests, kind));
    // Eight packages and their caches, by one listing each, would be 17 listings.
    assert!(lists + heads <= 10, "{lists} listings and {heads} descriptions");
    assert!(gets * 10 <= opened * 13, "{gets} requests for {opened} files");
    let keys: BTreeSet<String> =
        requests.iter().filter(|request| request.kind == Kind::Get).map(|request| request.key.clone()).collect();
    assert_eq!(keys.len(), gets, "nothing is fetched twice");
    let opened: BTreeSet<String> =
        keys.iter().filter(|key| key.contains("/__pycache__/") && !key.contains("/tests/")).cloned().collect();
    let (fetched, read) = (compiled_bytes(made.path(), &keys), compiled_bytes(made.path(), &opened));
    assert!(fetched * 10 <= read * 13, "{fetched} bytes for {read}");

    // The same program again: nothing of it is asked for.
    let before = store.testbed.requests().len();
    assert_eq!(import("import made; print(made.p7.m1.VALUE)"), "701\n");
    assert_eq!(since(&store, before).len(), 0);
}

/// A version control system opens the files of its index, which is sorted as keys are, and reads
/// no directory.
#[test]
fn files_opened_in_the_order_of_keys_come_before_they_are_opened() {
    let mut objects: Vec<_> = (0..600).map(|n| (format!("d/e{:02}/g{}/f{n:03}", n / 12, n / 4 % 3), 5_000)).collect();
    objects.sort();
    let objects: Vec<_> = objects.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "256M", "--metadata-ttl", "10m"]);
    for (key, size) in &objects {
        let bytes = fs::read(mounted.file(key)).expect("a file");
        assert_eq!(bytes.len() as u64, *size);
    }
    let stats = mounted.stats();
    let ahead = stats["files_ahead_used"].as_u64();
    assert!(ahead >= Some(560), "{ahead:?} of 600 files were fetched before they were opened: {stats}");
    // What a busy machine answers late is asked for again.
    let hedged = stats["requests_hedged"].as_u64().expect("a count") as usize;
    let gets = count(&store.testbed.requests(), Kind::Get);
    assert!(gets <= 600 + hedged, "{gets} requests, nothing is fetched twice: {stats}");
}

#[test]
fn a_lone_cat_and_a_lone_stat_fetch_no_other_content() {
    let objects: Vec<_> = (0..200).map(|n| (format!("d/e{}/f{n:03}", n % 10), 5_000)).collect();
    let objects: Vec<_> = objects.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::of(&store);
    shell("stat \"$1/d/e3/f013\" > /dev/null", &[mounted.path()]).ok();
    assert_eq!(count(&store.testbed.requests(), Kind::Get), 0);
    shell(
        "cat \"$1/d/e4/f044\" > /dev/null; sleep 1.2; cat \"$1/d/e4/f044\" \"$1/d/e5/f055\" > /dev/null",
        &[mounted.path()],
    )
    .ok();
    let gets: Vec<_> = store
        .testbed
        .requests()
        .into_iter()
        .filter(|request| request.kind == Kind::Get)
        .map(|request| request.key)
        .collect();
    assert_eq!(gets, ["d/e4/f044", "d/e5/f055"]);
}

/// Pictures of a viewer, libraries of a program: longer than what a walk fetches ahead.
#[test]
fn files_of_half_a_megabyte_come_with_their_siblings_and_not_where_only_heads_are_read() {
    const SIZE: u64 = 500_000;
    let objects: Vec<_> =
        (0..160).map(|n| (format!("{}/IMG_{n:03}.jpg", if n < 40 { "read" } else { "heads" }), SIZE)).collect();
    let objects: Vec<_> = objects.iter().map(|(key, size)| (key.as_str(), *size)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "128M", "--metadata-ttl", "10m"]);
    let sent = || store.testbed.counters().object_bytes_sent;
    for (key, _) in &objects[..40] {
        assert_eq!(fs::read(mounted.file(key)).expect("a file").len() as u64, SIZE);
    }
    let ahead = mounted.stats()["files_ahead_used"].as_u64();
    assert!(ahead >= Some(30), "{ahead:?} of 40 files were fetched before they were opened");
    let read = sent();
    assert!(read <= 40 * SIZE * 11 / 10, "{read} bytes");
    for (key, _) in &objects[40..] {
        let mut head = [0; 4096];
        let mut file = fs::File::open(mounted.file(key)).expect("a file");
        std::io::Read::read_exact(&mut file, &mut head).expect("a head");
    }
    // What follows the start of each file, and what the first credit and that of the files before
    // buy.
    let heads = sent() - read;
    let most = 120 * (256 << 10) + (2 << 20) + 40 * SIZE * 3 / 10;
    assert!(heads <= most, "{heads} bytes for 120 heads");
}
