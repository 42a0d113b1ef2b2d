//! `--cache`: what was read once is local, across restarts, whatever became of the folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use foreread_testbed::{Config, ObjectSpec, content};
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{Mount, Store, expected, foreread, run, until};

const MIB: u64 = 1 << 20;

/// A large object and many small ones.
const LARGE: u64 = 24 * MIB;
const SMALL: usize = 200;
const SMALL_BYTES: u64 = 9000;

fn store() -> Store {
    let small = (0..SMALL).map(|nth| ObjectSpec::new(format!("small/{nth:03}"), SMALL_BYTES));
    let objects = small.chain([ObjectSpec::new("large", LARGE)]).collect();
    Store::start(Config { objects, ..Config::default() })
}

/// A mount that never asks the storage for what is in the folder, however busy this machine's
/// disk.
fn mount(store: &Store, folder: &Path) -> Mount {
    mount_with(store, folder, &["--cache-no-bypass"])
}

fn mount_with(store: &Store, folder: &Path, options: &[&str]) -> Mount {
    let folder = folder.to_str().expect("a path");
    let options = [&["--memory", "64M", "--cache", folder], options].concat();
    Mount::foreground(store.foreread(), "s3://testbed", &options)
}

/// Unmounts, and waits for the end of the process: what it has is written then.
fn end(mut mounted: Mount) {
    mounted.signal(Signal::TERM);
    assert!(mounted.ended().success());
}

fn cache(mounted: &Mount) -> Value {
    mounted.stats()["cache"].clone()
}

/// Reads all of it, and compares each byte.
fn read_all(mounted: &Mount) {
    assert!(fs::read(mounted.file("large")).expect("the file") == expected("large", 0, LARGE as usize));
    for nth in 0..SMALL {
        let key = format!("small/{nth:03}");
        assert!(fs::read(mounted.file(&key)).expect("a file") == expected(&key, 0, SMALL_BYTES as usize), "{key}");
    }
}

/// Waits until the folder has all of it.
fn until_kept(mounted: &Mount, bytes: u64) {
    until("all of it is in the folder", || cache(mounted)["kept_bytes"].as_u64() >= Some(bytes));
}

/// Reads all of it through a first mount, which ends when the folder has it.
fn fill(store: &Store, folder: &Path) {
    let mounted = mount(store, folder);
    read_all(&mounted);
    until_kept(&mounted, LARGE + SMALL as u64 * SMALL_BYTES);
    end(mounted);
}

#[test]
fn what_was_read_once_asks_for_no_content_again() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    fill(&store, folder.path());
    store.testbed.reset_counters();
    let mounted = mount(&store, folder.path());
    read_all(&mounted);
    // Backward and at random as well, through descriptors of their own.
    let file = File::open(mounted.file("large")).expect("the file");
    for at in (0..LARGE / 65_536).rev().chain((0..500).map(|nth| nth * 7919 % (LARGE / 65_536))) {
        let mut bytes = vec![0; 4096];
        file.read_exact_at(&mut bytes, at * 65_536).expect("a read");
        assert!(bytes == expected("large", at * 65_536, 4096));
    }
    assert_eq!(store.testbed.counters().get, 0, "{:?}", store.testbed.requests());
    let stats = cache(&mounted);
    assert!(stats["read_bytes"].as_u64() >= Some(LARGE) && stats["wrong"] == 0, "{stats}");
}

#[test]
fn an_object_that_was_replaced_shows_no_former_byte() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    fill(&store, folder.path());
    store.testbed.set_object(&ObjectSpec { key: "large".into(), size: LARGE, generation: 2 });
    let mounted = mount(&store, folder.path());
    let (bytes, mut wanted) = (fs::read(mounted.file("large")).expect("the file"), vec![0; LARGE as usize]);
    content::fill("large", 2, 0, &mut wanted);
    assert!(bytes == wanted);
}

#[test]
fn mounts_share_a_folder_and_stores_do_not_mix_in_it() {
    let (one, other, folder) = (store(), store(), tempfile::tempdir().expect("a folder"));
    other.testbed.set_object(&ObjectSpec { key: "large".into(), size: LARGE, generation: 3 });
    let mut wanted = vec![0; LARGE as usize];
    content::fill("large", 3, 0, &mut wanted);
    let mounts = [mount(&one, folder.path()), mount(&one, folder.path()), mount(&other, folder.path())];
    std::thread::scope(|scope| {
        for (nth, mounted) in mounts.iter().enumerate() {
            let wanted = &wanted;
            scope.spawn(move || match nth {
                2 => assert!(fs::read(mounted.file("large")).expect("the file") == *wanted),
                _ => read_all(mounted),
            });
        }
    });
    mounts.into_iter().for_each(end);
    run(foreread().args(["cache", "verify"]).arg(folder.path())).ok();
    for store in [&one, &other] {
        store.testbed.reset_counters();
    }
    read_all(&mount(&one, folder.path()));
    assert!(fs::read(mount(&other, folder.path()).file("large")).expect("the file") == wanted);
    let fetched = |store: &Store| store.testbed.counters().object_bytes_sent;
    assert!(fetched(&one) + fetched(&other) < LARGE / 2, "{} and {}", fetched(&one), fetched(&other));
}

/// SIGKILL in the middle of reading, at other moments each time. `FOREREAD_COUNT` says how often.
#[test]
fn a_mount_that_is_killed_leaves_no_wrong_byte() {
    let count = std::env::var("FOREREAD_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(5_u64);
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    for round in 0..count {
        let mut mounted = mount(&store, folder.path());
        let path = mounted.file("large");
        let reader = std::thread::spawn(move || {
            let Ok(file) = File::open(path) else { return };
            let mut bytes = vec![0; 1 << 20];
            for at in 0..LARGE / MIB {
                // It ends with the mount.
                if file.read_exact_at(&mut bytes, at * MIB).is_err() {
                    return;
                }
                assert!(bytes == expected("large", at * MIB, 1 << 20), "MiB {at}");
            }
        });
        let some = (round * 37 + 11) % (LARGE / MIB);
        until("it has read some", || mounted.stats()["read_bytes"].as_u64() >= Some(some * MIB / 2));
        mounted.process().kill().expect("the signal");
        mounted.ended();
        reader.join().expect("right bytes");
    }
    read_all(&mount(&store, folder.path()));
    run(foreread().args(["cache", "verify"]).arg(folder.path())).ok();
}

/// Bytes of the files are changed, and files cut.
#[test]
fn a_damaged_folder_is_found_and_fetched_again() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    fill(&store, folder.path());
    for (nth, entry) in fs::read_dir(folder.path()).expect("the folder").enumerate() {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-")) {
            let file = File::options().write(true).open(&path).expect("a segment");
            let len = file.metadata().expect("its length").len();
            for at in (20_000..len).step_by(700_001) {
                file.write_all_at(&[0x5a; 3], at).expect("a write");
            }
            if nth % 2 == 0 {
                file.set_len(len / 3 * 2).expect("a cut");
            }
        }
    }
    run(foreread().args(["cache", "verify"]).arg(folder.path()))
        .failed_saying(&["pages are wrong", "no program is given"]);
    let mounted = mount(&store, folder.path());
    read_all(&mounted);
    assert!(cache(&mounted)["wrong"].as_u64() > Some(0), "{}", cache(&mounted));
}

#[test]
fn a_folder_that_goes_is_no_harm() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    let inner = folder.path().join("cache");
    let mounted = mount(&store, &inner);
    read_all(&mounted);
    until_kept(&mounted, LARGE);
    fs::remove_dir_all(&inner).expect("it is removed");
    fs::read(mounted.file("large")).expect("the file");
    end(mounted);
    let mounted = mount(&store, &inner);
    read_all(&mounted);
    // Else what waits is written after the folder was cleared.
    until_kept(&mounted, LARGE + SMALL as u64 * SMALL_BYTES);
    run(foreread().args(["cache", "clear"]).arg(&inner)).ok();
    until("it is known to be gone", || cache(&mounted)["kept_bytes"] == 0);
    read_all(&mounted);
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_before_anything_is_mounted() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    let refused = |path: &Path, words: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = store.foreread();
        command.args(["mount", "s3://testbed"]).arg(dir.path()).arg("--cache").arg(path);
        run(&mut command).failed_saying(words);
    };
    fs::write(folder.path().join("thesis.txt"), "years").expect("a file");
    refused(folder.path(), &["is not a cache and not empty", "choose an empty"]);
    refused(&folder.path().join("thesis.txt"), &["is not a folder"]);
    let newer = folder.path().join("newer");
    fs::create_dir(&newer).expect("a folder");
    fs::write(newer.join("FORMAT"), "foreread cache 99\n").expect("a file");
    refused(&newer, &["unknown format", "nothing was changed"]);
    if rustix::process::geteuid().is_root() {
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("a folder");
        std::os::unix::fs::chown(&other, Some(65_534), None).expect("root may");
        refused(&other, &["belongs to user 65534"]);
    }
    run(foreread().args(["cache", "stats"]).arg(folder.path().join("nothing"))).failed_saying(&["not a cache"]);
}

/// The folder is full long before all is read: what does not fit is fetched, and the limit holds.
#[test]
fn a_small_folder_stays_within_its_bytes_and_the_mount_within_its_memory() {
    let (store, folder) = (Store::with(&[("huge", 192 * MIB)]), tempfile::tempdir().expect("a folder"));
    let at = folder.path().to_str().expect("a path");
    let options = ["--memory", "32M", "--cache", at, "--cache-size", "40MiB", "--cache-min-free", "1MiB"];
    let read = |mounted: &Mount| {
        assert!(fs::read(mounted.file("huge")).expect("the file") == expected("huge", 0, 192 << 20));
    };
    let first = Mount::foreground(store.foreread(), "s3://testbed", &options);
    read(&first);
    end(first);
    let mut mounted = Mount::foreground(store.foreread(), "s3://testbed", &options);
    read(&mounted);
    let taken = || -> u64 {
        let entries = fs::read_dir(folder.path()).expect("the folder").flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
    };
    assert!(taken() <= 40 * MIB, "{} bytes", taken());
    let stats = cache(&mounted);
    assert!(stats["read_bytes"].as_u64() > Some(0) && stats["refused_bytes"].as_u64() > Some(0), "{stats}");
    let most = mounted.most_resident_bytes();
    assert!(most <= (32 + 64) * MIB, "{} MiB resident", most >> 20);
}

/// `cache warm` fetches each byte once, also after it was ended half-way; a mount then asks for
/// none.
#[test]
fn a_folder_that_was_warmed_has_all_of_it() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    let all = LARGE + SMALL as u64 * SMALL_BYTES;
    let warm = |url: &str, more: &[&str]| {
        let mut command = store.foreread();
        command.args(["cache", "warm"]).arg(folder.path()).args([url, "--memory", "64M"]).args(more);
        run(&mut command)
    };
    warm("s3://testbed/small", &[]).ok();
    store.testbed.reset_counters();
    let said = warm("s3://testbed", &[]).ok().text();
    assert!(said.contains("of 201 objects are kept") && said.contains("24 MiB of it read now"), "{said}");
    assert!(store.testbed.counters().object_bytes_sent < LARGE + LARGE / 50);
    store.testbed.reset_counters();
    assert!(warm("s3://testbed/large", &[]).ok().text().contains(" 0 B of it read now"));
    warm("s3://testbed", &[]).ok();
    let mounted = mount(&store, folder.path());
    read_all(&mounted);
    assert_eq!(store.testbed.counters().get, 0, "{:?}", store.testbed.requests());
    assert_eq!(cache(&mounted)["kept_bytes"].as_u64(), Some(all));

    warm("s3://testbed/none", &[]).failed_saying(&["neither an object nor a prefix"]);
    let small = tempfile::tempdir().expect("a folder");
    let mut command = store.foreread();
    command.args(["cache", "warm"]).arg(small.path()).args(["s3://testbed", "--cache-size", "8MiB"]);
    run(&mut command).failed_saying(&["no room for more", "of 25.7 MiB are kept", "--cache-size"]);
}

#[test]
fn an_encrypted_folder_shows_nothing_without_its_key() {
    let (store, folder, keys) =
        (store(), tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let key = |name: &str, byte: u8, len: usize| {
        let path = keys.path().join(name);
        fs::write(&path, vec![byte; len]).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let (right, wrong, short) = (key("right", 1, 32), key("wrong", 2, 32), key("short", 1, 31));
    let at = folder.path().to_str().expect("a path");
    let options = ["--cache-encrypt", right.as_str(), "--cache-no-bypass"];
    let mounted = mount_with(&store, folder.path(), &options);
    read_all(&mounted);
    until_kept(&mounted, LARGE + SMALL as u64 * SMALL_BYTES);
    end(mounted);
    let page = expected("large", 8 * MIB, 64);
    for entry in fs::read_dir(folder.path()).expect("the folder").flatten() {
        let bytes = fs::read(entry.path()).expect("a file");
        assert!(!bytes.windows(page.len()).any(|window| window == page), "{:?}", entry.file_name());
    }
    store.testbed.reset_counters();
    let mounted = mount_with(&store, folder.path(), &options);
    read_all(&mounted);
    assert_eq!(store.testbed.counters().get, 0, "{:?}", store.testbed.requests());
    end(mounted);

    let refused = |key: &[&str], words: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = store.foreread();
        command.args(["mount", "s3://testbed"]).arg(dir.path()).args(["--cache", at]).args(key);
        run(&mut command).failed_saying(words);
    };
    refused(&[], &["is encrypted", "give the key file"]);
    refused(&["--cache-encrypt", &wrong], &["encrypted with another key"]);
    refused(&["--cache-encrypt", &short], &["32 to 4,096 bytes", "/dev/urandom"]);
    refused(&["--cache-encrypt", "/no/such/key"], &["cannot be read", "/no/such/key"]);
    run(foreread().args(["cache", "verify", at])).failed_saying(&["is encrypted"]);
    run(foreread().args(["cache", "verify", at, "--cache-encrypt", &right])).ok();
    run(foreread().args(["cache", "stats", at])).ok();
}

/// A group of processes whose reads of one disk are limited.
struct Throttle {
    group: PathBuf,
    device: String,
}

impl Throttle {
    /// A limit for the disk of `folder`; `None` where it cannot be set.
    fn new(folder: &Path, bytes_per_s: u64) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let device = fs::metadata(folder).expect("the folder").dev();
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let name = format!("foreread-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let throttle = Self { group: Path::new("/sys/fs/cgroup/blkio").join(name), device };
        if fs::create_dir(&throttle.group).and_then(|()| throttle.limit(bytes_per_s)).is_err() {
            eprintln!("skipped: the reads of {} cannot be throttled here", throttle.device);
            return None;
        }
        Some(throttle)
    }

    fn limit(&self, bytes_per_s: u64) -> io::Result<()> {
        fs::write(self.group.join("blkio.throttle.read_bps_device"), format!("{} {bytes_per_s}", self.device))
    }

    fn take(&self, mounted: &mut Mount) {
        fs::write(self.group.join("cgroup.procs"), mounted.process().id().to_string()).expect("root may");
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Its processes have ended.
        _ = fs::remove_dir(&self.group);
    }
}

/// A disk that carries 4 MB/s: what is in the folder comes from the storage nevertheless, unless
/// that is forbidden.
#[test]
fn a_disk_that_holds_readers_up_is_helped_by_the_storage() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    let Some(throttle) = Throttle::new(folder.path(), 4_000_000) else { return };
    fill(&store, folder.path());
    for is_helped in [true, false] {
        let options = if is_helped { &[][..] } else { &["--cache-no-bypass"] };
        let mut mounted = mount_with(&store, folder.path(), options);
        throttle.take(&mut mounted);
        store.testbed.reset_counters();
        read_all(&mounted);
        let (stats, from_disk) = (mounted.stats(), cache(&mounted)["read_bytes"].as_u64().expect("a number"));
        assert_eq!((store.testbed.counters().get > 0, stats["read_errors"].as_u64()), (is_helped, Some(0)), "{stats}");
        assert!(is_helped == (from_disk < LARGE / 2), "{from_disk} bytes came from the disk");
        end(mounted);
    }
}

/// A disk that does not answer, and does not fail either, is passed over.
#[test]
fn a_disk_that_hangs_is_passed_over() {
    let (store, folder) = (store(), tempfile::tempdir().expect("a folder"));
    let Some(throttle) = Throttle::new(folder.path(), 1) else { return };
    fill(&store, folder.path());
    let mut mounted = mount(&store, folder.path());
    throttle.take(&mut mounted);
    read_all(&mounted);
    let stats = cache(&mounted);
    assert!(stats["silences"].as_u64() >= Some(1) && stats["wrong"] == 0 && stats["read_errors"] == 0, "{stats}");
    assert_eq!(mounted.stats()["read_errors"], 0);
    throttle.limit(0).expect("it was set");
    until("the disk has answered", || {
        store.testbed.reset_counters();
        fs::read(mounted.file("small/000")).expect("a file");
        read_all(&mounted);
        store.testbed.counters().get == 0 && cache(&mounted)["hits"].as_u64() > stats["hits"].as_u64()
    });
    end(mounted);
}
