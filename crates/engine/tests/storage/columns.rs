//! Files that say where their parts lie: readers of columns of a Parquet file.

use std::path::Path;
use std::sync::Arc;

use foreread_engine::File;
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::{Rig, rig_of_directory};

const GROUPS: usize = 12;
const COLUMNS: usize = 4;

/// Writes a file of 12 groups of four columns of 512 KB.
fn write(path: &Path) {
    let schema = "message m { required int64 a; required int64 b; required int64 c; required int64 d; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
    for group in 0..GROUPS {
        let mut columns = writer.next_row_group().expect("a group");
        while let Some(mut column) = columns.next_column().expect("a column") {
            let values: Vec<i64> = (0..64_000).map(|row| row * 1_000 + group as i64).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None).expect("values");
            column.close().expect("a column");
        }
        columns.close().expect("a group");
    }
    writer.close().expect("a footer");
}

/// The file behind a store, and where its chunks lie: by group and column, first byte and length.
fn store(directory: &Path) -> (Rig, Vec<Vec<(u64, usize)>>) {
    let path = directory.join("table");
    write(&path);
    let reader = SerializedFileReader::new(std::fs::File::open(&path).expect("it")).expect("a footer");
    let groups = reader.metadata().row_groups().iter();
    let bytes = |(at, len)| (at, len as usize);
    let chunks = groups.map(|group| group.columns().iter().map(|chunk| bytes(chunk.byte_range())).collect());
    (rig_of_directory(directory), chunks.collect())
}

/// Opens it, and reads its end, as programs do.
fn open(rig: &Rig) -> File {
    open_named(rig, "table")
}

fn open_named(rig: &Rig, name: &str) -> File {
    let file = rig.open(name);
    let end = get(rig, &file, (file.size() - (64 << 10), 64 << 10));
    assert!(end.ends_with(b"PAR1"));
    file
}

fn get(rig: &Rig, file: &File, (at, len): (u64, usize)) -> Vec<u8> {
    let bytes = rig.engine.runtime().block_on(file.read_at(at, len)).expect("bytes of the file");
    assert_eq!(bytes.len(), len);
    bytes.into()
}

#[test]
fn a_reader_of_columns_waits_for_two_groups_and_has_no_more_fetched() {
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, chunks) = store(directory.path());
    let file = open(&rig);
    let (before, misses) = (rig.testbed.counters(), rig.engine.stats().misses);
    let mut asked = 0;
    for chunk in chunks.iter().flat_map(|group| [group[1], group[3]]) {
        asked += get(&rig, &file, chunk).len() as u64;
    }
    let sent = rig.testbed.counters().object_bytes_sent - before.object_bytes_sent;
    assert!(sent * 100 <= asked * 105, "{sent} bytes for {asked}");
    // Both columns of the first group, and the first of the second.
    assert_eq!(rig.engine.stats().misses - misses, 3);
}

#[test]
fn a_reader_of_one_row_has_no_other_group_fetched() {
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, chunks) = store(directory.path());
    let file = open(&rig);
    let before = rig.testbed.counters();
    let mut asked = 0;
    for &(at, len) in &chunks[5] {
        // As through a kernel.
        for from in (0..len).step_by(128 << 10) {
            asked += get(&rig, &file, (at + from as u64, (128 << 10).min(len - from))).len() as u64;
        }
    }
    let after = rig.testbed.counters();
    let sent = after.object_bytes_sent - before.object_bytes_sent;
    assert!(sent * 100 <= asked * 105, "{sent} bytes for {asked}");
    assert_eq!(after.get - before.get, COLUMNS as u64 - 1, "one for each of two chunks, and one for both behind them");
}

/// A data set of five files with the same columns.
#[test]
fn columns_that_were_read_of_two_files_come_together_in_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, chunks) = store(directory.path());
    let names = ["f0", "f1", "f2", "f3", "f4"];
    for name in names {
        std::fs::copy(directory.path().join("table"), directory.path().join(name)).expect("a copy");
    }
    let mut waits = Vec::new();
    for name in names {
        let file = open_named(&rig, name);
        let (before, misses) = (rig.testbed.counters(), rig.engine.stats().misses);
        let mut asked = 0;
        for chunk in chunks.iter().flat_map(|group| [group[1], group[3]]) {
            asked += get(&rig, &file, chunk).len() as u64;
        }
        let sent = rig.testbed.counters().object_bytes_sent - before.object_bytes_sent;
        assert!(sent * 100 <= asked * 105, "{name}: {sent} bytes for {asked}");
        waits.push(rig.engine.stats().misses - misses);
    }
    // Of the first two, both columns of the first group, and the first of the second.
    assert_eq!(waits, [3, 3, 1, 1, 1]);
}

/// As Arrow reads a data set through a Python file system: its files are open at once, the columns
/// of a group are one read, and its threads take the groups of a file in any order.
#[test]
fn files_that_are_open_side_by_side_are_read_alike() {
    const ORDER: [usize; GROUPS] = [0, 8, 9, 3, 4, 1, 2, 10, 5, 11, 7, 6];
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, chunks) = store(directory.path());
    let names = ["f0", "f1", "f2", "f3"];
    for name in names {
        std::fs::copy(directory.path().join("table"), directory.path().join(name)).expect("a copy");
    }
    let files = names.map(|name| open_named(&rig, name));
    let (before, mut asked, mut waits) = (rig.testbed.counters(), 0, Vec::new());
    for file in &files {
        let misses = rig.engine.stats().misses;
        for group in ORDER.map(|group| &chunks[group]) {
            let ((from, _), (to, len)) = (group[1], group[2]);
            asked += get(&rig, file, (from, (to - from) as usize + len)).len() as u64;
        }
        waits.push(rig.engine.stats().misses - misses);
    }
    let sent = rig.testbed.counters().object_bytes_sent - before.object_bytes_sent;
    assert!(sent * 100 <= asked * 105, "{sent} bytes for {asked}");
    // Of the first, groups 0, 8 and 9, which show its columns, then 3 and 1, which they passed. Of
    // the others the first, and one that a reader on a busy machine asks for as it is planned.
    assert_eq!(waits[0], 5);
    assert!(waits[1..].iter().all(|waits| (1..=2).contains(waits)), "{waits:?}");
}
