//! Traces of `src/files`: how reads become streams, and streams requests.

use crate::reader::{Reader, STORE, scattered};

#[test]
fn forward() {
    let mut reader = Reader::new(STORE, &[1_280]);
    for start in (0..1_280).step_by(32) {
        reader.get(1, start, start + 32);
    }
    reader.settle();
    reader.trace.check(
        "files_forward",
        "A reader takes a file of 5 MiB from its start in reads of 128 KiB, as fast as they come.",
    );
}

#[test]
fn backward() {
    let mut reader = Reader::new(STORE, &[10_000]);
    for start in (4_800..=5_120).rev().step_by(32) {
        reader.get(1, start, start + 32);
    }
    reader.trace.check("files_backward", "A reader takes records of 128 KiB, each the one before the last.");
}

#[test]
fn backward_from_the_end() {
    let mut reader = Reader::new(STORE, &[10_016]);
    for start in (9_760..=9_984).rev().step_by(32) {
        reader.get(1, start, start + 32);
    }
    reader.trace.check("files_backward_from_the_end", "A reader takes records of 128 KiB from the end of a file on.");
}

#[test]
fn strided() {
    let mut reader = Reader::new(STORE, &[10_000]);
    for start in (0..10).map(|record| record * 160) {
        reader.get(1, start, start + 8);
    }
    reader.trace.check("files_strided", "A reader takes records of 32 KiB, 640 KiB from one start to the next.");
}

#[test]
fn interleaved() {
    let mut reader = Reader::new(STORE, &[10_000]);
    for start in (0..224).step_by(32) {
        reader.get(1, start, start + 32);
        reader.get(1, 5_000 + start, 5_032 + start);
    }
    reader
        .trace
        .check("files_interleaved", "Two readers of one file take turns, each forward from a place of its own.");
}

#[test]
fn hot_block() {
    let mut reader = Reader::new(STORE, &[100_000]);
    reader.hidden("lone pages all over the file: 64 reads", |reader| {
        (0..64).for_each(|nth| {
            let page = 1_000 + scattered(nth) % 90_000;
            reader.get(1, page, page + 1);
        });
    });
    for page in [40, 52, 45, 37, 58, 33, 61, 49, 47] {
        reader.get(1, page, page + 1);
    }
    reader.get(1, 55, 56);
    reader.settle();
    reader.trace.check(
        "files_hot_block",
        "Random reads of single pages; many of them fall into one block, and the rest of it is fetched.",
    );
}

#[test]
fn pace_and_share() {
    let mut reader = Reader::new(STORE, &[12_800, 12_800]);
    let turn = |reader: &mut Reader, nth: u64| {
        reader.get(1, nth * 32, nth * 32 + 32);
        // The second reader is four times as slow.
        if nth.is_multiple_of(4) {
            reader.get(2, nth * 8, nth * 8 + 32);
        }
        reader.pause(5);
    };
    reader.hidden("a second of both readers, 5 ms a read of the first", |reader| {
        (0..192).for_each(|nth| turn(reader, nth));
    });
    (192..240).for_each(|nth| turn(&mut reader, nth));
    reader.trace.check(
        "files_pace_and_share",
        "Two forward readers share memory and link; the second reads a quarter as fast.",
    );
}
