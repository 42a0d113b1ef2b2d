//! Versions, faults, sizes and names: what a program reads of a difficult store.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use foreread_testbed::{Config, Fault, ObjectSpec, content};
use rustix::io::Errno;

use crate::fixture::{Mount, Store, expected, run, until};

const MIB: u64 = 1 << 20;

/// The bytes of a generation of an object.
fn generation(key: &str, generation: u64, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    content::fill(key, generation, offset, &mut bytes);
    bytes
}

fn faulty(objects: &[(&str, u64)], faults: &[&str]) -> Store {
    Store::start(Config {
        objects: objects.iter().map(|(key, size)| ObjectSpec::new(*key, *size)).collect(),
        faults: faults.iter().map(|spec| spec.parse::<Fault>().expect("a fault")).collect(),
        ..Config::default()
    })
}

#[test]
fn an_object_replaced_under_an_open_file_is_stale_never_mixed() {
    let store = Store::with(&[("key", 64 * MIB)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "16M"]);
    let old = File::open(mounted.file("key")).expect("the first version");
    let mut bytes = vec![0; 1000];
    old.read_exact_at(&mut bytes, 0).expect("a read of the first version");
    assert_eq!(bytes, generation("key", 1, 0, 1000));

    store.testbed.set_object(&ObjectSpec { key: "key".into(), size: 48 * MIB, generation: 2 });
    let new = File::open(mounted.file("key")).expect("the second version");
    assert_ne!(
        old.metadata().expect("attributes of the first").ino(),
        new.metadata().expect("attributes of the second").ino(),
        "each version is an inode of its own"
    );
    assert_eq!(new.metadata().expect("attributes").len(), 48 * MIB);
    new.read_exact_at(&mut bytes, 40 * MIB).expect("a read of the second version");
    assert_eq!(bytes, generation("key", 2, 40 * MIB, 1000));

    // Bytes of the first version that the kernel or the engine still holds may be read; the others
    // are ESTALE.
    let stale = old.read_at(&mut bytes, 40 * MIB).expect_err("the first version is gone from the store");
    assert_eq!(stale.raw_os_error(), Some(Errno::STALE.raw_os_error()));
    new.read_exact_at(&mut bytes, 0).expect("the second version is not disturbed");
    assert_eq!(bytes, generation("key", 2, 0, 1000));
    if old.read_exact_at(&mut bytes, 0).is_ok() {
        assert_eq!(bytes, generation("key", 1, 0, 1000));
    }
}

/// At once where nothing is believed; else when what the storage said earlier is no longer
/// believed.
#[test]
fn a_removed_object_is_gone_for_the_next_open() {
    for options in [&["--metadata-ttl", "0s"][..], &[]] {
        let store = Store::with(&[("dir/key", 10), ("dir/other", 10)]);
        let mounted = Mount::background(store.foreread(), "s3://testbed", options);
        assert!(fs::read(mounted.file("dir/key")).is_ok());
        assert!(store.testbed.remove_object("dir/key"));
        let open = || File::open(mounted.file("dir/key")).map_err(|error| error.raw_os_error());
        if options.is_empty() {
            until("it was removed", || open().is_err());
        }
        assert_eq!(open().expect_err("it was removed"), Some(Errno::NOENT.raw_os_error()));
        assert!(fs::read(mounted.file("dir/other")).is_ok());
    }
}

#[test]
fn transient_faults_are_not_visible() {
    let size = 24 * MIB + 11;
    for faults in [
        &["status=503,every=3"][..],
        &["status=500,every=4"],
        &["reset,every=4"],
        &["reset-body=64KiB,every=3"],
        &["truncate=64KiB,every=3"],
        &["short=100,every=3"],
        &["wrong-range,every=3"],
        &["wrong-etag,every=3"],
        &["status=503,every=5,kind=head+list", "reset-body=1,every=5", "truncate=1MiB,every=4"],
    ] {
        let store = faulty(&[("key", size)], faults);
        let mounted = Mount::of(&store);
        let bytes = fs::read(mounted.file("key")).unwrap_or_else(|error| panic!("{faults:?}: {error}"));
        assert!(bytes == expected("key", 0, size as usize), "{faults:?}");
    }
}

#[test]
fn a_read_that_cannot_succeed_is_an_error_and_others_continue() {
    let store = faulty(&[("bad", 8 * MIB), ("good", 8 * MIB)], &["status=500,key=bad"]);
    let mounted = Mount::of(&store);
    let failed = fs::read(mounted.file("bad")).expect_err("every request for it fails");
    assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(fs::read(mounted.file("good")).expect("the other object") == expected("good", 0, 8 * MIB as usize));
    store.testbed.set_faults(Vec::new());
    assert!(fs::read(mounted.file("bad")).expect("once it passes") == expected("bad", 0, 8 * MIB as usize));
}

#[test]
fn an_object_of_five_tebibytes_is_read_at_any_offset() {
    let size = 5 << 40;
    let store = Store::with(&[("huge", size)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "32M"]);
    let file = File::open(mounted.file("huge")).expect("the file");
    assert_eq!(file.metadata().expect("attributes").len(), size);
    for offset in [0, (1 << 31) - 5, (1 << 32) + 1, 1 << 40, size - 777] {
        let mut bytes = vec![0; 777];
        file.read_exact_at(&mut bytes, offset).expect("a read");
        assert!(bytes == expected("huge", offset, 777), "at {offset}");
    }
    let mut bytes = [0; 10];
    assert_eq!(file.read_at(&mut bytes, size - 4).expect("a short read at the end"), 4);
    assert_eq!(file.read_at(&mut bytes, size).expect("the end"), 0);
}

#[test]
fn names_that_posix_can_express_are_served_and_none_escapes() {
    let long = "l".repeat(255);
    let longest = "m".repeat(1024);
    let deep = ["d".repeat(200), "e".repeat(200), "f".repeat(200), "g".repeat(200), "h".repeat(200)].join("/");
    let keys = [
        "plain",
        "with space",
        "üñí/çødé ✓",
        "quote'\"`$(x)",
        "dir/",
        "a//b",
        "x/../../escape",
        "./dot",
        "..",
        "trailing/slash/",
        &long,
        &longest,
        &deep,
        "line\nbreak",
    ];
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (*key, 100)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::of(&store);
    for key in ["plain", "with space", "üñí/çødé ✓", "quote'\"`$(x)", &long, &deep, "line\nbreak"] {
        let bytes = fs::read(mounted.file(key)).unwrap_or_else(|error| panic!("{key:?}: {error}"));
        assert!(bytes == expected(key, 0, 100), "{key:?}");
    }
    let names: BTreeSet<String> = fs::read_dir(mounted.path())
        .expect("a listing")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    assert!(names.contains("plain") && names.contains("with space") && names.contains(&long));
    assert!(!names.contains("..") && !names.contains("."), "{names:?}");
    assert!(names.iter().all(|name| !name.is_empty() && !name.contains('/')));
    let outside = mounted.path().parent().expect("the directory above").join("escape");
    assert!(!outside.exists());
    // Every listed name can be looked up.
    run(std::process::Command::new("ls").arg("-lR").arg(mounted.path())).ok();
}

#[test]
fn a_directory_of_many_pages_is_listed_whole() {
    let names: Vec<String> = (0..2500).map(|index| format!("many/file{index:05}")).collect();
    let objects: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let store = Store::with(&objects);
    let mounted = Mount::of(&store);
    let mut seen: Vec<String> = fs::read_dir(mounted.file("many"))
        .expect("a listing")
        .map(|entry| format!("many/{}", entry.expect("an entry").file_name().to_string_lossy()))
        .collect();
    seen.sort();
    assert_eq!(seen, names);
}
