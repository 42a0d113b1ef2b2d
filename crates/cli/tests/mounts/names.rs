//! Names that the kernel remembers: their memory stays within its share of the budget, and files
//! that it was asked to forget are as they were.
//!
//! Each test runs as newer kernels allow, and as kernels before Linux 6.18 need it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use foreread_testbed::{Config, ObjectSpec};
use rustix::io::Errno;

use crate::fixture::{Mount, Store, expected, foreread, is_mounted, run, until};

const BUDGET: u64 = 16 << 20;
/// The part of the budget that names may take.
const SHARE: u64 = BUDGET / 8;
const DIRECTORIES: u64 = 16;
const FILES: u64 = 1000;
const BYTES: u64 = 100;

/// The ways of asking. Listings hold for long, so that a loaded machine does not list all anew.
const WAYS: [&[&str]; 2] =
    [&["--memory", "16M", "--metadata-ttl", "20s"], &["--memory", "16M", "--metadata-ttl", "20s", "--forget-by-name"]];

fn key(directory: u64, file: u64) -> String {
    format!("d{directory:02}/{file:0200}")
}

/// Files in directories, and one large file.
fn store() -> Store {
    let keys = (0..DIRECTORIES * FILES).map(|n| key(n / FILES, n % FILES));
    let large = ObjectSpec::new("large", 8 << 20);
    Store::start(Config {
        objects: keys.map(|key| ObjectSpec::new(key, BYTES)).chain([large]).collect(),
        ..Config::default()
    })
}

fn names_bytes(mounted: &Mount) -> u64 {
    mounted.stats()["memory_names_bytes"].as_u64().expect("a figure")
}

/// Asks for the attributes of all files: by readers of directories and by name. Returns the most
/// that names took meanwhile.
fn stat_all(mounted: &Mount) -> u64 {
    let mut most = 0;
    for directory in 0..DIRECTORIES {
        let entries = fs::read_dir(mounted.file(&format!("d{directory:02}"))).expect("a directory");
        assert_eq!(
            entries.map(|entry| entry.expect("an entry").metadata().expect("its attributes").len()).sum::<u64>(),
            FILES * BYTES
        );
        for file in (0..FILES).step_by(100) {
            assert_eq!(fs::metadata(mounted.file(&key(directory, file))).expect("a file").len(), BYTES);
        }
        if directory % 4 == 0 {
            most = most.max(names_bytes(mounted));
        }
    }
    most
}

/// The kernel forgets what it was asked to: that comes when it comes.
fn within_the_share(mounted: &Mount) {
    until("names take no more than their share", || names_bytes(mounted) <= SHARE);
}

/// Those of some of the files.
fn numbers(mounted: &Mount) -> Vec<u64> {
    let some = (0..DIRECTORIES * FILES).step_by(100).map(|n| mounted.file(&key(n / FILES, n % FILES)));
    some.map(|path| fs::metadata(path).expect("a file").ino()).collect()
}

/// A program that stands in a directory.
fn shell_in(dir: &Path) -> Child {
    let script = "read -r line; pwd -P && cat *0500";
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash")
}

#[test]
fn names_stay_within_their_share_and_files_are_as_they_were() {
    let store = store();
    let mut before = None;
    for way in WAYS {
        let mounted = Mount::background(store.foreread(), "s3://testbed", way);
        let open = File::open(mounted.file(&key(0, 7))).expect("a file");
        let number = open.metadata().expect("its attributes").ino();
        let shell = shell_in(&mounted.file("d01"));
        // An inode takes more than the key, the tag of its version, and 100 bytes.
        const { assert!(DIRECTORIES * FILES * 330 > 2 * SHARE, "names would not fit, if none were forgotten") };
        for _ in 0..2 {
            let most = stat_all(&mounted);
            assert!(most < 2 * SHARE, "{way:?}: {most} bytes of names at a time, of {SHARE}");
            within_the_share(&mounted);
            let numbers = numbers(&mounted);
            assert!(before.get_or_insert_with(|| numbers.clone()) == &numbers, "{way:?}: files have other numbers");
        }
        let mut bytes = vec![0; BYTES as usize];
        open.read_exact_at(&mut bytes, 0).expect("an open file is read");
        assert_eq!(bytes, expected(&key(0, 7), 0, BYTES as usize));
        assert_eq!(
            fs::metadata(mounted.file(&key(0, 7))).expect("it is there").ino(),
            number,
            "{way:?}: an open file keeps its number"
        );
        let mut shell = shell;
        drop(shell.stdin.take());
        let said = shell.wait_with_output().expect("its end");
        let text = [
            mounted.file("d01").to_str().expect("UTF-8").as_bytes(),
            b"\n",
            &expected(&key(1, 500), 0, BYTES as usize),
        ]
        .concat();
        assert!(said.status.success() && said.stdout == text, "{way:?}: {said:?}");
        for n in (0..DIRECTORIES * FILES).step_by(997) {
            let key = key(n / FILES, n % FILES);
            assert_eq!(fs::read(mounted.file(&key)).expect("a file"), expected(&key, 0, BYTES as usize), "{key}");
        }
    }
}

#[test]
fn a_forgotten_name_leads_to_the_current_version_and_an_open_file_stays_its_own() {
    let store = store();
    for (way, version) in WAYS.into_iter().zip([1, 3]) {
        store.testbed.set_object(&ObjectSpec { generation: version, ..ObjectSpec::new("large", 8 << 20) });
        let options = [way, &["--readahead", "off"]].concat();
        let mounted = Mount::background(store.foreread(), "s3://testbed", &options);
        let open = File::open(mounted.file("large")).expect("a file");
        let mut bytes = vec![0; 4096];
        open.read_exact_at(&mut bytes, 0).expect("its beginning");
        let before = bytes.clone();
        stat_all(&mounted);
        within_the_share(&mounted);
        store.testbed.set_object(&ObjectSpec { generation: version + 1, ..ObjectSpec::new("large", 8 << 20) });
        let mut new = None;
        until("the version of now is opened", || {
            let opened = File::open(mounted.file("large")).expect("the file");
            opened.read_exact_at(&mut bytes, 0).expect("its beginning");
            new = Some(opened);
            bytes != before
        });
        let new = new.expect("a file");
        assert_ne!(new.metadata().expect("its attributes").ino(), open.metadata().expect("its attributes").ino());
        stat_all(&mounted);
        within_the_share(&mounted);
        open.read_exact_at(&mut bytes, 0).expect("what is in memory");
        assert_eq!(bytes, before, "{way:?}: never another version");
        let error = open.read_exact_at(&mut bytes, 4 << 20).expect_err("the storage has another version");
        assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()), "{way:?}: {error}");
        new.read_exact_at(&mut bytes, 4 << 20).expect("the new one has all of it");
    }
}

#[test]
fn directories_that_nothing_uses_are_forgotten_as_well() {
    // One takes 360 bytes, its file 620.
    let count = 3000;
    let keys = (0..count).map(|n| format!("{}/{n:0250}/{n:0200}", n % 10));
    let store =
        Store::start(Config { objects: keys.map(|key| ObjectSpec::new(key, 1)).collect(), ..Config::default() });
    for way in WAYS {
        let mounted = Mount::background(store.foreread(), "s3://testbed", way);
        let found = run(Command::new("find").arg(mounted.path()).args(["-type", "f", "-size", "1c"])).ok();
        assert_eq!(found.text().lines().count(), count, "{way:?}");
        within_the_share(&mounted);
    }
}

#[test]
fn an_unmount_amid_forgetting_ends_the_mount() {
    let store = store();
    for way in WAYS {
        for lazy in [true, false] {
            let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", way);
            let dir = mounted.path().to_owned();
            let mut reader =
                Command::new("du").arg(&dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("du");
            let mut taken = 0;
            until("names take almost their share", || {
                taken = taken.max(names_bytes(&mounted));
                let ended = reader.try_wait().expect("a child of this process");
                assert!(ended.is_none() || taken > SHARE / 2, "{way:?}: {ended:?} with {taken} bytes of names");
                taken > SHARE / 4 * 3 || ended.is_some()
            });
            if lazy {
                run(foreread().args(["umount", "--lazy"]).arg(&dir)).ok();
            }
            reader.kill().expect("a child of this process");
            reader.wait().expect("its end");
            if !lazy {
                run(foreread().arg("umount").arg(&dir)).ok();
            }
            assert!(!is_mounted(&dir));
            assert!(mounted.ended().success(), "{way:?}");
        }
    }
}
