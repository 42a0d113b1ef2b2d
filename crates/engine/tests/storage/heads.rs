//! Ends of files that are not small, read of one after the other: what comes of the next ones.

use std::time::Duration;

use foreread_engine::{Node, Options};
use foreread_testbed::Kind;

use super::{Rig, rig_after};

const FILE_BYTES: u64 = 3 << 20;

/// Longer than files of which all comes with their siblings.
const LONG_BYTES: u64 = 20 << 20;

fn rig(files: u32, bytes: u64) -> Rig {
    let keys: Vec<String> = (0..files).map(|n| format!("d/f{n:04}.jpg")).collect();
    let objects: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), bytes)).collect();
    let rig =
        rig_after(Duration::from_millis(5), &objects, &Options::default().with_metadata_ttl(Duration::from_hours(1)));
    rig.engine.runtime().block_on(super::directories::names(&rig.engine.open_directory("d/")));
    rig
}

/// Opens a file, reads these ranges, checks them, and closes it.
fn read(rig: &Rig, n: u32, ranges: &[(u64, usize)]) {
    let named = rig.engine.runtime().block_on(rig.engine.look_up("d/", &format!("f{n:04}.jpg")));
    let Node::File(object) = named.expect("it is there").node else { panic!("{n} is a file") };
    let file = rig.engine.open(&object);
    for &(offset, len) in ranges {
        rig.read(&file, offset, len, 1).expect("its bytes");
    }
}

/// The files that the store was asked for, and the bytes of them.
fn asked(rig: &Rig) -> (usize, u64) {
    let gets: Vec<_> = rig.testbed.requests().into_iter().filter(|request| request.kind == Kind::Get).collect();
    let bytes = |range: Option<(u64, u64)>| range.map_or(FILE_BYTES, |(start, end)| end - start);
    let files: std::collections::BTreeSet<String> = gets.iter().map(|request| request.key.clone()).collect();
    (files.len(), gets.iter().map(|request| bytes(request.range)).sum())
}

#[test]
fn the_ends_that_are_read_of_some_files_come_of_the_next_ones_and_no_more() {
    let rig = rig(300, FILE_BYTES);
    let ends = [(0, 16 << 10), (FILE_BYTES - 4096, 4096)];
    for n in 0..200 {
        read(&rig, n, &ends);
    }
    let used = rig.engine.stats().files_ahead_used;
    assert!(used >= 190, "{used} of 200 came ahead");
    let (files, bytes) = asked(&rig);
    assert!((200..=264).contains(&files), "{files} files");
    // The first two files may come whole, and siblings of them.
    assert!(bytes <= 200 * (16 << 10) * 2 + (16 << 20), "{bytes} bytes");
}

/// What was read is told of at the next open, and bought at an open. A close may be noticed after
/// the open that follows it.
#[test]
fn one_head_brings_no_other_file_and_two_do() {
    let head = [(0, 16 << 10)];
    let several = [7, 8, 7, 9, 10, 11];
    for (opened, distinct, brings) in [(&[7, 100][..], 2, false), (&[7, 7, 7, 100], 2, false), (&several, 5, true)] {
        let rig = rig(300, LONG_BYTES);
        for &n in opened {
            read(&rig, n, &head);
        }
        // What is bought is asked for a moment later.
        for _ in 0..if brings { 1_000 } else { 10 } {
            if asked(&rig).0 > distinct {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let files = asked(&rig).0;
        assert_eq!(files > distinct, brings, "{files} files after {opened:?}");
        assert!(files <= distinct + 64, "{files} files after {opened:?}");
    }
}

#[test]
fn reads_in_the_middle_bring_no_other_file() {
    let rig = rig(60, LONG_BYTES);
    for n in 0..20 {
        read(&rig, n, &[(LONG_BYTES / 2, 16 << 10), (LONG_BYTES / 4, 4096)]);
    }
    assert_eq!(asked(&rig).0, 20);
}
