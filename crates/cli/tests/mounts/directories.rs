//! Directories: which names are shown, the requests that they cost the store, and listings that
//! fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use foreread_testbed::{Config, Fault, Kind, ObjectSpec};
use rustix::io::Errno;

use crate::fixture::{Mount, Store, expected, run, shell, until};

/// How long a listing is valid, as `docs/semantics.md` says.
const BELIEVED: Duration = Duration::from_secs(1);

/// Directories from `d000` on, each with files from `f000` on.
fn tree(directories: u32, files: u32, size: u64) -> Vec<ObjectSpec> {
    let key = |number| format!("d{:03}/f{:03}", number / files, number % files);
    (0..directories * files).map(|number| ObjectSpec::new(key(number), size)).collect()
}

fn store(objects: Vec<ObjectSpec>, faults: &[&str]) -> Store {
    let faults = faults.iter().map(|spec| spec.parse::<Fault>().expect("a fault")).collect();
    Store::start(Config { objects, faults, request_log: 1 << 20, ..Config::default() })
}

/// The result of an attempt that ends while listings from its beginning are still valid. A busy
/// machine may need several attempts. The attempt's mount is dropped after it.
fn in_time<T, M>(attempt: impl Fn() -> (Instant, T, M)) -> T {
    let mut result = None;
    until("it is done in time", || {
        let (began, done, _mounted) = attempt();
        let is_believed = began.elapsed() < BELIEVED;
        result = Some(done);
        is_believed
    });
    result.expect("the last attempt")
}

/// Every path below `dir`, directories with a slash after them.
fn walk(dir: &Path, prefix: &str, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{prefix:?}: {error}")) {
        let entry = entry.unwrap_or_else(|error| panic!("{prefix:?}: {error}"));
        let path = format!("{prefix}{}", entry.file_name().into_string().expect("UTF-8"));
        if entry.file_type().expect("a listing tells kinds").is_dir() {
            let path = format!("{path}/");
            walk(&entry.path(), &path, into);
            assert!(into.insert(path.clone()), "{path:?} twice");
        } else {
            assert!(into.insert(path.clone()), "{path:?} twice");
        }
    }
}

/// What a mount must show of these objects, from the rules of `docs/semantics.md`, by a path at a
/// time.
fn shown(objects: &[ObjectSpec]) -> BTreeSet<String> {
    let possible = |name: &str| !name.is_empty() && name != "." && name != ".." && name.len() <= 1024;
    let (mut files, mut directories) = (BTreeMap::new(), BTreeSet::new());
    for object in objects {
        let names: Vec<&str> = object.key.split('/').collect();
        let (last, above) = names.split_last().expect("a name");
        let fit = above.iter().take_while(|name| possible(name)).count();
        directories.extend((1..=fit).map(|depth| above[..depth].join("/")));
        if fit == above.len() && possible(last) {
            files.insert(object.key.clone(), object.size);
        }
    }
    // An object hides the paths below its name, unless it is empty.
    files.retain(|path, size| *size > 0 || !directories.contains(path));
    let hidden = |path: &str| path.match_indices('/').any(|(at, _)| files.contains_key(&path[..at]));
    let names = directories.iter().filter(|path| !files.contains_key(*path)).map(|path| format!("{path}/"));
    names.chain(files.keys().cloned()).filter(|path| !hidden(path)).collect()
}

#[test]
fn the_names_are_those_of_the_store() {
    let mut objects: Vec<ObjectSpec> = (0..20_000)
        .map(|number: u32| {
            // Up to four levels, some with thousands of names, so that pages end at any place.
            let (a, b, c) = (number % 7, number / 7 % 11, number % 3);
            let key = match number % 5 {
                0 => format!("big/{number}"),
                1 => format!("a{a}/b {b}/c{c}/{number}"),
                2 => format!("a{a}/ü{b}/{number}.bin"),
                3 => format!("a{a}/{number}"),
                _ => format!("a{a}/b {b}/{number}/x"),
            };
            ObjectSpec::new(key, u64::from(number % 4))
        })
        .collect();
    let long = |letter: &str, bytes: usize| letter.repeat(bytes);
    let odd = [
        // Names that are a file and a directory at once, the file empty or not, and names that
        // sort between the two.
        ("both", 5),
        ("both-", 1),
        ("both.txt", 1),
        ("both/below", 1),
        ("both/deep/below", 1),
        ("both0", 1),
        ("empty", 0),
        ("empty!", 0),
        ("empty/below", 1),
        // Markers of directories, empty ones and others.
        ("marked/", 0),
        ("marked/below", 1),
        ("alone/", 0),
        ("alone/in/alone/", 0),
        ("heavy marker/", 7),
        // Names that another part of the system could misread.
        (" leading and trailing ", 1),
        ("line\nbreak/line\nbreak", 1),
        ("tab\t/\"quotes\" 'and' `more`", 1),
        ("per%20cent/%2e%2e", 1),
        ("plus+and&ampersand;<xml>/]]>", 1),
        ("back\\slash/*?[]{}~#$|", 1),
        ("unicode/日本語/e\u{301}", 1),
        ("unicode/日本語/\u{e9}", 1),
        ("unicode/\u{1f600}\u{10ffff}", 1),
        ("...", 1),
        ("..a/.b", 1),
        // Names that no path can express.
        ("a//b", 1),
        ("x/../escape", 1),
        ("./dot", 1),
        ("..", 1),
        ("double//", 0),
    ];
    objects.extend(odd.map(|(key, size)| ObjectSpec::new(key, size)));
    for bytes in [255, 256, 700, 1024, 1025] {
        objects.push(ObjectSpec::new(long("n", bytes), 1));
    }
    // A real store takes keys of 1,024 bytes at most; this one takes longer ones.
    objects.push(ObjectSpec::new(format!("{}/{}/file", long("d", 256), long("é", 200)), 1));
    let wanted = shown(&objects);
    assert!(wanted.len() > 20_000 && wanted.contains("both") && wanted.contains("empty/below"));

    let store = store(objects, &[]);
    let mounted = Mount::of(&store);
    for attempt in ["the first walk", "the second one, of which much is known"] {
        let mut found = BTreeSet::new();
        walk(mounted.path(), "", &mut found);
        let missing: Vec<_> = wanted.difference(&found).take(20).collect();
        let strange: Vec<_> = found.difference(&wanted).take(20).collect();
        assert!(missing.is_empty() && strange.is_empty(), "{attempt}: missing {missing:?}, strange {strange:?}");
    }
    // Each listed name can be looked up, and is of the listed kind.
    for path in wanted.iter().filter(|path| !path.starts_with(['a', 'b'])) {
        let about = fs::symlink_metadata(mounted.file(path)).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(about.is_dir(), path.ends_with('/'), "{path:?}");
    }
}

#[test]
fn a_walk_asks_for_no_directory_twice_and_for_no_attributes() {
    // Directories that are listed by a request each, and small ones that share a request.
    for (directories, files, lists) in [(15, 130, 16..=18), (100, 20, 2..=25)] {
        for (program, arguments) in [("find", &[][..]), ("ls", &["-lR"])] {
            let counters = in_time(|| {
                let store = store(tree(directories, files, 100), &[]);
                let mounted = Mount::of(&store);
                store.testbed.reset_counters();
                let began = Instant::now();
                let finished = run(Command::new(program).args(arguments).arg(mounted.path())).ok();
                // The path of the mount, which comes in each line, may have such letters as well.
                let is_number = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
                let name =
                    |line: &str| line.rsplit(['/', ' ']).next().and_then(|name| name.strip_prefix('f').map(is_number));
                let found = finished.text().lines().filter(|line| name(line) == Some(true)).count();
                assert_eq!(found, (directories * files) as usize, "{program}");
                (began, store.testbed.counters(), mounted)
            });
            assert!(lists.contains(&counters.list), "{program}: {} lists of {directories} directories", counters.list);
            assert_eq!((counters.head, counters.get), (0, 0), "{program}");
        }
    }
}

#[test]
fn small_files_in_the_order_of_the_listing_cost_a_get_each() {
    let wanted: Vec<u8> = (0..50).flat_map(|file| expected(&format!("d000/f{file:03}"), 0, 10_000)).collect();
    let requests = in_time(|| {
        let store = store(tree(1, 50, 10_000), &[]);
        let mounted = Mount::of(&store);
        store.testbed.reset_counters();
        let began = Instant::now();
        let finished = shell(r#"cat "$1"/*/*"#, &[mounted.path()]).ok();
        assert!(finished.stdout == wanted, "{} bytes", finished.stdout.len());
        (began, store.testbed.requests(), mounted)
    });
    let mut gets = BTreeMap::new();
    for request in requests {
        assert_ne!(request.kind, Kind::Head, "{request:?}");
        if request.kind == Kind::Get {
            *gets.entry(request.key).or_insert(0) += 1;
        }
    }
    assert_eq!(gets.len(), 50);
    assert!(gets.values().all(|count| *count == 1), "{gets:?}");
}

#[test]
fn a_reader_of_one_file_fetches_one_file() {
    let objects = tree(20, 50, 10_000);
    let of = |store: &Store, kind| {
        let requests = store.testbed.requests().into_iter();
        requests.filter(|request| request.kind == kind).map(|request| request.key).collect::<Vec<_>>()
    };
    let stat = store(objects.clone(), &[]);
    let mounted = Mount::of(&stat);
    stat.testbed.reset_counters();
    run(Command::new("stat").arg(mounted.file("d007/f020"))).ok();
    // After the end of the mount, no request follows.
    drop(mounted);
    assert_eq!(of(&stat, Kind::Get), Vec::<String>::new());
    let others =
        |lists: Vec<String>| lists.into_iter().filter(|key| !"d007/f020/".starts_with(&**key)).collect::<Vec<_>>();
    assert_eq!(others(of(&stat, Kind::List)), Vec::<String>::new());

    let cat = store(objects, &[]);
    let mounted = Mount::of(&cat);
    cat.testbed.reset_counters();
    let finished = run(Command::new("cat").arg(mounted.file("d007/f020"))).ok();
    assert!(finished.stdout == expected("d007/f020", 0, 10_000));
    drop(mounted);
    assert_eq!(of(&cat, Kind::Get), ["d007/f020"]);
    assert_eq!(others(of(&cat, Kind::List)), Vec::<String>::new());
}

#[test]
fn a_name_that_a_valid_listing_lacks_is_missing_without_a_request() {
    let store = store(tree(1, 50, 100), &[]);
    let mounted = Mount::of(&store);
    let missing = |file: u32| fs::symlink_metadata(mounted.file(&format!("d000/missing{file}"))).is_err();
    let requests = in_time(|| {
        let began = Instant::now();
        assert_eq!(fs::read_dir(mounted.file("d000")).expect("a listing").count(), 50);
        store.testbed.reset_counters();
        assert!((0..100).all(missing));
        (began, store.testbed.requests(), ())
    });
    assert_eq!(requests, []);
    store.testbed.set_object(&ObjectSpec::new("d000/missing7", 100));
    std::thread::sleep(BELIEVED + BELIEVED / 10);
    assert!(fs::read(mounted.file("d000/missing7")).expect("it is there now") == expected("d000/missing7", 0, 100));
    std::thread::sleep(BELIEVED + BELIEVED / 10);
    assert_eq!(fs::read_dir(mounted.file("d000")).expect("a listing").count(), 51);
}

/// Reads a directory to its end, or to its error.
fn list(dir: &Path) -> io::Result<usize> {
    fs::read_dir(dir)?.try_fold(0, |count, entry| entry.map(|_| count + 1))
}

#[test]
fn a_directory_that_may_not_be_listed_is_denied_and_no_other_is() {
    let mut objects = tree(6, 10, 100);
    objects.push(ObjectSpec::new("d003/below/file", 100));
    let store = store(objects, &["status=403,kind=list,key=d003/*"]);
    let mounted = Mount::of(&store);
    for _ in 0..2 {
        let denied = list(&mounted.file("d003")).expect_err("the store refuses");
        assert_eq!(denied.raw_os_error(), Some(Errno::ACCESS.raw_os_error()));
        for other in ["d000", "d002", "d004", "d005"] {
            assert_eq!(list(&mounted.file(other)).expect("it is allowed"), 10, "{other}");
        }
    }
    let finished = run(Command::new("find").arg(mounted.path()));
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    assert!(finished.stderr.contains("d003") && finished.stderr.contains("Permission denied"), "{}", finished.stderr);
    assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    assert_eq!(finished.text().lines().filter(|line| line.contains("/f0")).count(), 50);
    assert!(fs::read(mounted.file("d004/f004")).expect("the file") == expected("d004/f004", 0, 100));
}

#[test]
fn a_listing_that_does_not_end_is_an_error_of_its_directory_only() {
    for fault in ["repeat-token", "endless", "garbage"] {
        let store = store(tree(6, 10, 100), &[&format!("{fault},kind=list,key=d003/*")]);
        let mounted = Mount::of(&store);
        // The directory above has its name, so only its own listing is requested.
        let count = || store.testbed.requests().into_iter().filter(|request| request.key == "d003/").count();
        let (mut failed, mut before) = (None, 0);
        until("it is read while the one above is believed", || {
            assert_eq!(list(mounted.path()).expect("it is as it should be"), 6);
            before = count();
            failed = list(&mounted.file("d003")).err();
            failed.as_ref().is_none_or(|error| error.kind() != io::ErrorKind::NotFound)
        });
        let failed = failed.expect("it has no end");
        assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()), "{fault}");
        // Those of the attempt that found the name: one before it may have asked as often.
        let asked = count() - before;
        // An empty page is an error only after a thousand in a row.
        assert!(asked <= 2_000, "{fault}: {asked} requests for one page");
        for other in ["d000", "d002", "d004", "d005"] {
            assert_eq!(list(&mounted.file(other)).expect("it is as it should be"), 10, "{fault}: {other}");
        }
        assert!(fs::read(mounted.file("d004/f004")).expect("the file") == expected("d004/f004", 0, 100), "{fault}");
        // When the store answers again, so does the directory.
        store.testbed.set_faults(Vec::new());
        until("the directory can be read", || list(&mounted.file("d003")).is_ok_and(|count| count == 10));
    }
}
