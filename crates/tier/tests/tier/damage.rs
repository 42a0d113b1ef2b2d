//! Damage to the files: every read is right or missing.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use foreread_tier::Tier;
use proptest::prelude::*;

use crate::content::{is_kept, object, offer, open, segments, small};

/// Tests that try many seeds try so many.
pub(crate) fn seeds(default: u64) -> u64 {
    std::env::var("FOREREAD_SEEDS").map_or(default, |seeds| seeds.parse().expect("a number"))
}

/// A cache of three segments: objects of several lengths.
fn filled(folder: &Path) {
    let tier = open(folder, small());
    for number in 0..12 {
        offer(&tier, object(number), number * 3, 200_000 + number as usize * 1000);
    }
    for number in 12..60 {
        offer(&tier, object(number), 0, 4000 + number as usize * 10);
    }
    tier.flush();
}

/// Reads everything: wrong bytes panic. Returns how many reads were right.
fn read_all(tier: &Arc<Tier>) -> usize {
    let mut right = 0;
    for number in 0..60 {
        for range in tier.kept(object(number)) {
            right += (range.start..range.end - 1).filter(|&page| is_kept(tier, object(number), page, 4096)).count();
            let pages = range.end - range.start - 1;
            _ = is_kept(tier, object(number), range.start, pages as usize * 4096);
        }
        right += usize::from(is_kept(tier, object(number), 0, 4000 + number as usize * 10));
    }
    right
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("room");
    }
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn flipped_bytes_are_never_read(flips in proptest::collection::vec((any::<u64>(), any::<u64>(), 1..=255_u8), 1..40)) {
        let folder = tempfile::tempdir().expect("a folder");
        filled(folder.path());
        let files = segments(folder.path());
        for (file, at, with) in flips {
            let file = &files[(file % files.len() as u64) as usize];
            let file = OpenOptions::new().read(true).write(true).open(file).expect("it is there");
            let (mut byte, at) = ([0], at % file.metadata().expect("it is there").len());
            file.read_exact_at(&mut byte, at).expect("it is there");
            file.write_all_at(&[byte[0] ^ with], at).expect("room");
        }
        read_all(&open(folder.path(), small()));
    }
}

#[test]
fn a_wrong_page_is_a_miss_and_is_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let tier = open(folder.path(), small());
    offer(&tier, object(1), 0, 131_072);
    tier.flush();
    let file = OpenOptions::new().write(true).open(&segments(folder.path())[0]).expect("it is there");
    // In the content of the fourth page, behind the headers of segment and record.
    file.write_all_at(&[1, 2, 3, 4, 5], 4096 + 64 + 3 * 4104 + 500).expect("room");
    assert!(is_kept(&tier, object(1), 4, 8192));
    assert!(!is_kept(&tier, object(1), 3, 4096));
    assert_eq!((tier.stats().wrong, tier.kept(object(1))), (1, vec![]));
    assert!(offer(&tier, object(1), 0, 131_072));
    tier.flush();
    assert!(is_kept(&tier, object(1), 0, 131_072));
}

#[test]
fn files_with_each_others_names_are_misses() {
    // Before it is opened, and while it is.
    for is_open in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        filled(folder.path());
        let (files, other) = (segments(folder.path()), folder.path().join("other"));
        let tier = is_open.then(|| open(folder.path(), small()));
        fs::rename(&files[0], &other).expect("it is there");
        fs::rename(&files[1], &files[0]).expect("it is there");
        fs::rename(&other, &files[1]).expect("it is there");
        read_all(&tier.unwrap_or_else(|| open(folder.path(), small())));
    }
}

/// What unsynced writes leave: blocks of zeroes, a file that ends early, a file that is empty.
#[test]
fn what_a_crash_loses_is_missing() {
    let source = tempfile::tempdir().expect("a folder");
    filled(source.path());
    let (mut right, seeds) = (0, seeds(200));
    for seed in 0..seeds {
        let folder = tempfile::tempdir().expect("a folder");
        copy(source.path(), folder.path());
        let mut state = seed;
        for path in segments(folder.path()) {
            let file = OpenOptions::new().write(true).open(path).expect("it is there");
            let len = file.metadata().expect("it is there").len();
            for _ in 0..random(&mut state) % 8 {
                let at = random(&mut state) % (len / 4096) * 4096;
                file.write_all_at(&[0; 4096], at).expect("room");
            }
            match random(&mut state) % 4 {
                0 => file.set_len(random(&mut state) % len).expect("room"),
                // Its length is there, its end is not.
                1 => {
                    file.set_len(random(&mut state) % len).expect("room");
                    file.set_len(len).expect("room");
                }
                _ => {}
            }
        }
        let tier = open(folder.path(), small());
        right += read_all(&tier);
        assert!(offer(&tier, object(1000), 0, 10_000));
        tier.flush();
        assert!(is_kept(&tier, object(1000), 0, 10_000));
    }
    println!("{seeds} crashes: {right} reads were right");
    assert!(right > 0);
}
