//! Programs that read parts of large files at a time, through a kernel: the requests and the bytes
//! that they cost the store.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use foreread_testbed::{Kind, LoggedRequest};
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::fixture::{Mount, Store, directory, expected};

const PAGE: u64 = 4096;

/// Reads `len` bytes at `offset`, as a program does by one call.
fn read(file: &File, offset: u64, len: u64) {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset).expect("the bytes");
    assert!(bytes == *expected("file", offset, len as usize), "other bytes at {offset}");
}

fn gets(store: &Store) -> Vec<LoggedRequest> {
    store.testbed.requests().into_iter().filter(|request| request.kind == Kind::Get).collect()
}

fn bytes(requests: &[LoggedRequest]) -> u64 {
    requests.iter().filter_map(|request| request.range).map(|(start, end)| end - start).sum()
}

/// A footer that is a little longer than the kernel's window: the kernel asks for its last pages
/// once the others have come.
#[test]
fn the_end_of_a_file_is_asked_for_once() {
    const SIZE: u64 = 40 << 20;
    for beyond in [1, 7, 31] {
        let store = Store::with(&[("file", SIZE)]);
        // The kernel's own windows, of 128 KiB.
        let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "64M"]);
        let file = File::open(mounted.file("file")).expect("the file");
        let len = (32 + beyond) * PAGE;
        read(&file, SIZE - len, len);
        let asked = gets(&store);
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(bytes(&asked), len);
    }
}

/// Column chunks of one file, each read by one call: no more than the chunks is fetched, with
/// windows of the kernel that hold a chunk.
#[test]
fn chunks_that_come_in_one_window_bring_nothing_behind_them() {
    let store = Store::with(&[("file", 600 << 20)]);
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "1G"]);
    let file = File::open(mounted.file("file")).expect("the file");
    let mut read_bytes = 0;
    for nth in 1..20 {
        let len = 900 * 1024;
        read(&file, nth * (17 << 20) + nth * nth * 131 * PAGE, len);
        read_bytes += len;
    }
    let fetched = bytes(&gets(&store));
    // Without root the kernel cuts what it asks for, and a chunk becomes a stream.
    let most = if rustix::process::geteuid().is_root() { read_bytes * 21 / 20 } else { read_bytes * 2 };
    assert!(fetched <= most, "{fetched} bytes for {read_bytes}");
}

/// Writes a Parquet file of four groups of three columns of 2.4 MB. Returns where the chunks of
/// the second column lie.
pub(crate) fn write(path: &Path) -> Vec<Range<u64>> {
    let schema = "message m { required int64 a; required int64 b; required int64 c; }";
    let schema = Arc::new(parse_message_type(schema).expect("a schema"));
    let properties = Arc::new(WriterProperties::builder().set_dictionary_enabled(false).build());
    let mut writer = SerializedFileWriter::new(File::create(path).expect("a file"), schema, properties).expect("one");
    let values: Vec<i64> = (0..300_000).collect();
    for _ in 0..4 {
        let mut columns = writer.next_row_group().expect("a group");
        while let Some(mut column) = columns.next_column().expect("a column") {
            column.typed::<Int64Type>().write_batch(&values, None, None).expect("values");
            column.close().expect("a column");
        }
        columns.close().expect("a group");
    }
    writer.close().expect("a footer");
    let reader = SerializedFileReader::new(File::open(path).expect("it")).expect("a footer");
    let groups = reader.metadata().row_groups().iter();
    groups.map(|group| group.column(1).byte_range()).map(|(at, len)| at..at + len).collect()
}

/// Chunks longer than the window of the mount, by a name that says that there are some, and after
/// a footer that did. Each is read by one call, and nothing behind it is asked for.
#[test]
fn a_file_of_columns_has_a_window_that_holds_a_chunk() {
    let source = directory();
    let written = source.path().join("named.parquet");
    let chunks = write(&written);
    std::fs::copy(&written, source.path().join("unnamed")).expect("a copy");
    let store = Store::of_directory(source.path());
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "128M"]);
    let open = |name| {
        let file = File::open(mounted.file(name)).expect("the file");
        let size = file.metadata().expect("its size").len();
        let mut footer = vec![0; 64 << 10];
        file.read_exact_at(&mut footer, size - (64 << 10)).expect("its end");
        file
    };
    let original = std::fs::read(&written).expect("it");
    for name in ["named.parquet", "unnamed"] {
        let file = open(name);
        // The first one has its name alone; the other one is opened again.
        let file = if name == "unnamed" { open(name) } else { file };
        let before = bytes(&gets(&store));
        for chunk in &chunks {
            let mut column = vec![0; (chunk.end - chunk.start) as usize];
            file.read_exact_at(&mut column, chunk.start).expect("the column");
            assert!(column == original[chunk.start as usize..chunk.end as usize], "{name}: other bytes");
        }
        let (asked, fetched) = (chunks.iter().map(|c| c.end - c.start).sum::<u64>(), bytes(&gets(&store)) - before);
        // Without root the kernel's windows reach past each chunk.
        let most = if rustix::process::geteuid().is_root() { asked * 102 / 100 } else { asked * 3 / 2 };
        assert!(fetched <= most, "{name}: {fetched} bytes for {asked}");
    }
}
