//! Files whose directory names others: readers of columns of an ORC file.

use std::time::Duration;

use foreread_engine::File;
use foreread_policy::Chunks;

use super::{Rig, rig_of_directory};

const STRIPES: u64 = 12;
const COLUMNS: u64 = 6;
const COLUMN_BYTES: u64 = 500_000;
const PAGE: u64 = 4096;

/// How a program reads a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Pieces,
    /// The same, of a file whose footers of stripes are broken.
    PiecesOfBroken,
    Mapped,
}

/// Appends a number as messages of Protocol Buffers have it.
fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        message.push(value as u8 | 128);
        value >>= 7;
    }
    message.push(value as u8);
}

/// Appends a field of such a message: a number.
fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    varint(message, field << 3);
    varint(message, value);
}

/// The same: bytes.
fn bytes(message: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(message, field << 3 | 2);
    varint(message, value.len() as u64);
    message.extend(value);
}

/// A file of 12 stripes of six columns of 500 kB, and where its stripes begin and their footers
/// lie. Of a broken one, the footers of stripes are no messages.
fn file(is_broken: bool) -> (Vec<u8>, Vec<(u64, u64, usize)>) {
    let (mut file, mut stripes, mut footer) = (b"ORC".to_vec(), Vec::new(), Vec::new());
    for stripe in 0..STRIPES {
        let begins = file.len() as u64;
        let mut streams = Vec::new();
        for column in 0..COLUMNS {
            file.extend((0..COLUMN_BYTES).map(|at| (at * 7 + column * 13 + stripe * 31) as u8));
            let mut stream = Vec::new();
            number(&mut stream, 1, 1);
            number(&mut stream, 2, column + 1);
            number(&mut stream, 3, COLUMN_BYTES);
            bytes(&mut streams, 1, &stream);
        }
        if is_broken {
            streams.fill(0xff);
        }
        stripes.push((begins, file.len() as u64, streams.len()));
        let mut information = Vec::new();
        for (field, value) in [(1, begins), (2, 0), (3, COLUMNS * COLUMN_BYTES), (4, streams.len() as u64)] {
            number(&mut information, field, value);
        }
        bytes(&mut footer, 3, &information);
        file.extend(streams);
    }
    let mut postscript = Vec::new();
    number(&mut postscript, 1, footer.len() as u64);
    number(&mut postscript, 2, 0);
    bytes(&mut postscript, 8000, b"ORC");
    file.extend(footer);
    file.extend(&postscript);
    file.push(postscript.len() as u8);
    (file, stripes)
}

/// The file behind a store, open, and its end read as programs do.
fn open(rig: &Rig, original: &[u8]) -> File {
    let file = rig.open("table");
    let end = get(rig, &file, original, (original.len() as u64 - (16 << 10), 16 << 10));
    assert!(end[..end.len() - 1].ends_with(b"ORC"));
    file
}

fn store(original: &[u8]) -> (tempfile::TempDir, Rig) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("table"), original).expect("a file");
    let rig = rig_of_directory(directory.path());
    (directory, rig)
}

fn get(rig: &Rig, file: &File, original: &[u8], (at, len): (u64, usize)) -> Vec<u8> {
    let bytes = rig.engine.runtime().block_on(file.read_at(at, len)).expect("bytes of the file");
    assert!(bytes == original[at as usize..at as usize + len], "other bytes at {at}");
    bytes.into()
}

/// Reads two columns of each stripe, its footer first: through a mapping with windows of 132 KiB,
/// or in pieces. Returns the bytes that were sent, the bytes that were asked for, and the reads
/// that found not all.
fn read_columns(rig: &Rig, original: &[u8], stripes: &[(u64, u64, usize)], reads: Reads) -> (u64, u64, u64) {
    let file = open(rig, original);
    // The footers of the other stripes are on their way, and what they say is told after that.
    let is_broken = reads == Reads::PiecesOfBroken;
    let has_come = || rig.testbed.counters().get >= STRIPES && (is_broken || file.chunks() != Chunks::None);
    for _ in 0..60_000 {
        if has_come() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(has_come(), "{} requests", rig.testbed.counters().get);
    let (before, misses) = (rig.testbed.counters(), rig.engine.stats().misses);
    let mut asked = 0;
    for &(begins, footer, len) in stripes {
        let columns = [1, 4].map(|column| (begins + column * COLUMN_BYTES, COLUMN_BYTES as usize));
        for (start, len) in [(footer, len)].into_iter().chain(columns) {
            let end = start + len as u64;
            // A fault is read around; the windows behind it follow one another.
            let is_mapped = reads == Reads::Mapped;
            let (mut at, piece) =
                if is_mapped { (start / PAGE * PAGE - 16 * PAGE, 33 * PAGE) } else { (start, 128 << 10) };
            while at < end {
                let last = if is_mapped { original.len() as u64 } else { end };
                let len = piece.min(last - at);
                get(rig, &file, original, (at, len as usize));
                (at, asked) = (at + len, asked + len);
            }
        }
    }
    let sent = rig.testbed.counters().object_bytes_sent - before.object_bytes_sent;
    (sent, asked, rig.engine.stats().misses - misses)
}

#[test]
fn a_reader_of_columns_waits_for_two_stripes_and_has_no_more_fetched() {
    let (original, stripes) = file(false);
    let (_directory, rig) = store(&original);
    let (sent, asked, misses) = read_columns(&rig, &original, &stripes, Reads::Pieces);
    assert!(sent * 100 <= asked * 105, "{sent} bytes for {asked}");
    assert!(misses <= 10, "{misses}: four pieces of each column of the first stripe, and then few");
}

#[test]
fn a_reader_of_a_mapping_waits_for_two_stripes_and_has_what_its_kernel_asks_for() {
    let (original, stripes) = file(false);
    let (_directory, rig) = store(&original);
    let (sent, asked, misses) = read_columns(&rig, &original, &stripes, Reads::Mapped);
    assert!(sent * 100 <= asked * 110, "{sent} bytes for {asked}");
    assert!(misses <= 5, "{misses}: the first stripe, and the footer of the second");
}

#[test]
fn stripes_whose_footers_are_broken_are_read_as_other_files_are() {
    let (original, stripes) = file(true);
    let (_directory, rig) = store(&original);
    let (sent, asked, _) = read_columns(&rig, &original, &stripes, Reads::PiecesOfBroken);
    assert_eq!(rig.open("table").chunks(), Chunks::None);
    assert!(sent <= asked * 3, "{sent} bytes for {asked}");
}
