//! Programs that read parts of large files at a time, through a kernel: the requests and the bytes
//! that they cost the store.

use std::fs::File;
use std::os::unix::fs::FileExt;

use foreread_testbed::{Kind, LoggedRequest};

use crate::fixture::{Mount, Store, expected};

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
