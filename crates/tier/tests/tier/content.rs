//! What was offered comes back, and the calls that the other tests use for it.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, mpsc};

use foreread_tier::{Answer, Frames, Missing, ObjectId, Options, Tier};

/// A small cache: 32 segments of 1 MiB.
pub(crate) fn small() -> Options {
    Options::default().with_bytes(32 << 20).with_min_free_bytes(0)
}

pub(crate) fn object(number: u64) -> ObjectId {
    ObjectId::of("store", &format!("key {number}"), "version")
}

/// The bytes of an object from `offset` on: a function of object and offset.
pub(crate) fn bytes(object: ObjectId, offset: u64, len: usize) -> Vec<u8> {
    let seed = u64::from_le_bytes(object.0[..8].try_into().expect("8 bytes"));
    let word = |at: u64| {
        let z = (seed ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)).to_le_bytes()
    };
    assert_eq!(offset % 8, 0);
    (offset / 8..).flat_map(word).take(len).collect()
}

/// Offers bytes of an object.
pub(crate) fn offer(tier: &Tier, object: ObjectId, first_page: u64, len: usize) -> bool {
    tier.offer(object, first_page, Box::new(bytes(object, first_page * 4096, len)), Box::new(|_| {})) == Answer::Taken
}

/// Reads, and waits for it.
pub(crate) fn read(tier: &Arc<Tier>, object: ObjectId, pages: Range<u64>, len: usize) -> Result<Frames, Missing> {
    let (told, result) = mpsc::channel();
    tier.read(object, pages, len, Box::new(move |read| told.send(read).expect("it is waited for")));
    result.recv().expect("every read ends")
}

/// Reads from `first` on. Whether the bytes came; wrong ones panic.
pub(crate) fn is_kept(tier: &Arc<Tier>, object: ObjectId, first: u64, len: usize) -> bool {
    match read(tier, object, first..first + len.div_ceil(4096) as u64, len) {
        Ok(frames) => {
            assert!(frames[..] == bytes(object, first * 4096, len)[..], "wrong bytes of {object:?} at {first}");
            true
        }
        Err(Missing) => false,
    }
}

/// Opens a cache and waits until its segments are loaded.
pub(crate) fn open(folder: &Path, options: Options) -> Arc<Tier> {
    let tier = Tier::open(folder, options).expect("it opens");
    until(|| tier.stats().segments as usize == segments(folder).len());
    tier
}

/// Waits for something that happens in time.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not happen in a minute");
}

/// The segment files of a folder.
pub(crate) fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.path());
    let is_segment =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("segment-"));
    let mut found: Vec<_> = names.filter(is_segment).collect();
    found.sort();
    found
}

/// Their bytes.
pub(crate) fn total(folder: &Path) -> u64 {
    let lengths = segments(folder).into_iter().map(|path| std::fs::metadata(path).map_or(0, |file| file.len()));
    lengths.sum()
}

const LENGTHS: [usize; 5] = [1, 4095, 4096, 4097, 131_072];

#[test]
fn what_was_offered_comes_back_after_a_flush_and_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |tier: &Arc<Tier>| {
        for (number, len) in LENGTHS.into_iter().enumerate() {
            let object = object(number as u64);
            assert!(is_kept(tier, object, 0, len), "{len}");
            let pages = len.div_ceil(4096) as u64;
            assert_eq!(tier.kept(object), [0..pages, 100..100 + pages]);
            assert!(is_kept(tier, object, 100, len), "{len}");
            for first in 0..pages.min(5) {
                assert!(is_kept(tier, object, first, len - first as usize * 4096), "{len} from {first}");
                assert!(is_kept(tier, object, first, (len - first as usize * 4096).min(4096)), "{len} at {first}");
            }
            // The last page is read in part, and a byte more than there is.
            assert!(is_kept(tier, object, pages - 1, 1));
            if len % 4096 != 0 {
                assert!(!is_kept(tier, object, 0, len + 1));
            }
            assert!(!is_kept(tier, object, 0, (pages as usize + 1) * 4096));
            assert!(!is_kept(tier, object, 99, 4096));
        }
        let other = ObjectId::of("store", "key 0", "another version");
        assert!(!is_kept(tier, other, 0, 1) && tier.kept(other).is_empty());
        assert!(read(tier, object(0), 0..2, 1).is_err() && read(tier, object(0), 0..0, 0).is_ok());
    };
    let tier = open(folder.path(), small());
    for (number, len) in LENGTHS.into_iter().enumerate() {
        assert!(offer(&tier, object(number as u64), 0, len) && offer(&tier, object(number as u64), 100, len));
    }
    tier.flush();
    check(&tier);
    drop(tier);
    let tier = open(folder.path(), small());
    check(&tier);
    let stats = tier.stats();
    assert_eq!((stats.entries, stats.wrong, stats.read_errors), (11, 0, 0), "one of ten crosses a multiple of 32");
    assert_eq!(stats.kept_bytes, 2 * LENGTHS.iter().sum::<usize>() as u64);
}

#[test]
fn long_reads_come_from_many_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    let (told, pages) = mpsc::channel();
    // Pieces of different lengths, in an order of their own, some of them twice.
    for first in [64, 0, 37, 32, 33, 0, 41, 96] {
        let len = if first == 33 { 4 * 4096 } else { 55 * 4096 };
        let (told, content) = (told.clone(), bytes(object(1), first * 4096, len));
        let told = Box::new(move |pages| told.send(pages).expect("it is waited for"));
        assert_eq!(tier.offer(object(1), first, Box::new(content), told), Answer::Taken);
    }
    tier.flush();
    assert_eq!(pages.iter().take(8).map(|pages| pages.start).collect::<Vec<_>>(), [64, 0, 37, 32, 33, 0, 41, 96]);
    assert_eq!(tier.kept(object(1)).first(), Some(&(0..151)));
    for (first, end) in [(0, 151), (1, 150), (31, 33), (36, 99), (150, 151)] {
        assert!(is_kept(&tier, object(1), first, (end - first) as usize * 4096));
    }
    assert_eq!(tier.stats().admitted_bytes, 151 * 4096, "no page is written twice");
    let summary = foreread_tier::summary(folder.path()).expect("it is a cache");
    assert_eq!((summary.objects, summary.segments), (1, 1));
    let verified = foreread_tier::verify(folder.path(), None, |_| {}).expect("it is a cache");
    assert_eq!((verified.good, verified.wrong, verified.objects), (151, 0, 1));
}

/// What is offered again before it is written is not written twice, whatever lies in the queue.
#[test]
fn a_page_that_waits_to_be_written_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    let (free, freed) = mpsc::channel::<()>();
    let hold = Box::new(move |_| freed.recv().expect("it is let go"));
    assert_eq!(tier.offer(object(9), 0, Box::new(bytes(object(9), 0, 4096)), hold), Answer::Taken);
    for first in [0, 0, 8, 24, 0] {
        assert!(offer(&tier, object(1), first, 16 * 4096));
    }
    free.send(()).expect("it waits");
    tier.flush();
    assert_eq!(tier.stats().admitted_bytes, 41 * 4096);
    assert!(is_kept(&tier, object(1), 0, 40 * 4096));
}

#[test]
fn reads_from_many_threads_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let tier = &tier;
            scope.spawn(move || {
                for number in 0..200 {
                    let object = object(number % 20);
                    if !is_kept(tier, object, (number * 7 + thread) % 64, 40_000) {
                        offer(tier, object, (number * 7 + thread) % 64, 40_000);
                    }
                }
            });
        }
    });
    let stats = tier.stats();
    assert!(stats.hits > 100 && stats.wrong == 0, "{stats:?}");
}

#[test]
fn a_page_that_ended_short_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    for len in [5000, 9000, 9000] {
        assert!(offer(&tier, object(1), 0, len));
        tier.flush();
        assert!(is_kept(&tier, object(1), 0, len));
    }
    drop(tier);
    assert!(is_kept(&open(folder.path(), small()), object(1), 0, 9000));
}

/// Where the file system can, segments are read past the kernel's page cache.
#[test]
fn what_the_kernel_does_not_cache_comes_back() {
    let program = std::env::current_exe().expect("this is a program");
    let folder = tempfile::tempdir_in(program.parent().expect("it lies somewhere")).expect("a folder on a disk");
    let tier = open(folder.path(), small());
    for at in 0..40 {
        assert!(offer(&tier, object(at % 3), at / 3 * 32, 131_072 - (at as usize % 5) * 700));
    }
    drop(tier);
    for path in segments(folder.path()) {
        let file = std::fs::File::open(path).expect("it is there");
        file.sync_all().expect("it is written");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
    }
    let tier = open(folder.path(), small());
    for at in 0..40 {
        assert!(is_kept(&tier, object(at % 3), at / 3 * 32, 131_072 - (at as usize % 5) * 700));
        assert!(is_kept(&tier, object(at % 3), at / 3 * 32 + 5, 3 * 4096));
    }
    assert_eq!((tier.stats().misses, tier.stats().wrong), (0, 0));
}
