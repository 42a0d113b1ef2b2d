//! Traces of `src/files`: how reads become streams, and streams requests.

use foreread_policy::{Event, FileId};

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
fn headers() {
    let mut reader = Reader::new(STORE, &[1_300]);
    for start in (0..60).map(|header| header * 20_992) {
        reader.get(1, start / 4096, (start + 512_u64).div_ceil(4096));
    }
    reader.settle();
    reader.trace.check(
        "files_headers",
        "A reader takes headers of 512 bytes of a file of 5 MiB, 20,992 from one to the next, until the rest comes.",
    );
}

#[test]
fn uneven() {
    let mut reader = Reader::new(STORE, &[10_000]);
    for start in (0..12).map(|record| record * 1_000_000) {
        reader.get(1, start / 4096, (start + 65_536_u64).div_ceil(4096));
    }
    reader.trace.check("files_uneven", "A reader takes records of 64 KiB, a million bytes from one start to the next.");
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

#[test]
fn whole() {
    let mut reader = Reader::new(STORE, &[60, 60, 60, 60]);
    reader.get(1, 0, 4);
    reader.get(1, 4, 60);
    for file in [2, 3, 4] {
        reader.get(file, 0, 4);
    }
    reader.settle();
    reader.trace.check(
        "files_whole",
        "Four files of 240 KiB in a budget of 16 MiB: the first is read whole, of the others the heads.",
    );
}

#[test]
fn cut_read() {
    let mut reader = Reader::new(STORE, &[10_000]);
    for start in [1_000, 4_000] {
        // A program reads 384 KiB at once: its kernel asks for each piece while the first waits.
        for piece in 0..3 {
            reader.read(1, start + piece * 32, start + piece * 32 + 32);
        }
        reader.settle();
    }
    // The program has had an answer, and goes on: now it is a stream.
    reader.get(1, 4_096, 4_128);
    reader.settle();
    reader.trace.check(
        "files_cut_read",
        "A program reads 384 KiB at two places; a kernel with windows of 128 KiB cuts each read in three.",
    );
}

#[test]
fn overtaken() {
    let mut reader = Reader::new(STORE, &[10_000]);
    reader.hidden("a stream of 6 MiB in requests of 1 MiB", |reader| {
        (0..6).for_each(|nth| reader.get(1, nth * 256, nth * 256 + 256));
    });
    // The requests of one window overtake each other on their way.
    for nth in [8, 6, 9, 7] {
        reader.read(1, nth * 256, nth * 256 + 256);
    }
    reader
        .trace
        .check("files_overtaken", "A kernel with windows of 4 MiB: the four requests of one come in any order.");
}

#[test]
fn tail() {
    let mut reader = Reader::new(STORE, &[5_000, 5_000]);
    reader.get(1, 4_960, 4_992);
    reader.get(1, 4_992, 5_000);
    reader.get(2, 4_930, 4_962);
    reader.trace.check(
        "files_tail",
        "The end of a file comes with a read that is near it, and not with one that is further away than it is long.",
    );
}

/// Sixty-four pieces of 128 KiB of a file, which is opened for each and closed after it where it
/// `closes`; each takes the program so long.
fn pieces(closes: bool, takes_ms: u64) -> Reader {
    let mut reader = Reader::new(STORE, &[10_000]);
    for piece in 0..64 {
        if closes {
            reader.tell(Event::Open { file: FileId(1), pages: 10_000 });
        }
        reader.get(1, 1_000 + piece * 32, 1_032 + piece * 32);
        if closes {
            reader.tell(Event::Release { file: FileId(1) });
        }
        reader.pause(takes_ms);
    }
    reader
}

#[test]
fn opened_for_each_piece() {
    for takes_ms in [0, 1, 5, 50, 500] {
        let (open, reopened) = (pieces(false, takes_ms).now, pieces(true, takes_ms).now);
        let (took, held) = (reopened.0 / 1_000_000, open.0 / 1_000_000);
        // Some round trips more: that the file is opened again has to be seen.
        assert!(took <= held + 200, "{took} ms for {held} ms where each piece takes {takes_ms} ms");
    }
    pieces(true, 0).trace.check(
        "files_opened_for_each_piece",
        "A program opens a file for each of 64 pieces of 128 KiB from its middle, and closes it after each.",
    );
}

#[test]
fn looked_at() {
    let mut reader = Reader::new(STORE, &[10_000, 10_000]);
    reader.get(1, 0, 32);
    reader.tell(Event::Release { file: FileId(1) });
    reader.pause(11);
    reader.get(2, 0, 32);
    reader.trace.check(
        "files_looked_at",
        "A program reads the first 128 KiB of a file, closes it, and reads another one 11 ms later.",
    );
}

/// A reader goes on where it had closed its file, so long after it. Returns whether something is
/// read ahead for it; it has read too little for context to show it.
fn read_on_after(ms: u64) -> bool {
    let mut reader = Reader::new(STORE, &[10_000]);
    for piece in 0..4 {
        reader.get(1, 1_000 + piece * 32, 1_032 + piece * 32);
    }
    reader.settle();
    reader.tell(Event::Release { file: FileId(1) });
    reader.pause(ms);
    reader.tell(Event::Open { file: FileId(1), pages: 10_000 });
    let before = reader.requests_len();
    reader.read(1, 1_128, 1_160);
    reader.requests_len() > before
}

#[test]
fn closed_streams_are_kept_for_two_seconds() {
    assert!(read_on_after(0));
    assert!(read_on_after(1_900));
    assert!(!read_on_after(2_100), "though no event came before it was opened");
}
