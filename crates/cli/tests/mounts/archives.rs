//! Programs that read members of archives in pieces, through a kernel: the bytes that they cost
//! the store.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use foreread_testbed::Kind;
use rawzip::ZipArchiveWriter;

use crate::fixture::{Mount, Store, directory};

const MEMBER: usize = 3_000_000;
const MEMBERS: u64 = 20;

/// Writes an archive of members of 3 MB, stored. Returns where each begins.
fn write(path: &Path) -> Vec<u64> {
    let mut archive = ZipArchiveWriter::new(File::create(path).expect("a file"));
    for nth in 0..MEMBERS {
        let name = format!("member-{nth:02}");
        let (mut entry, config) = archive.new_file(&name).start().expect("a member");
        let mut writer = config.wrap(&mut entry);
        let bytes: Vec<u8> = (0..MEMBER as u64 / 8).flat_map(|at| (at * 31 + nth).to_le_bytes()).collect();
        writer.write_all(&bytes).expect("its bytes");
        let (_, data) = writer.finish().expect("its length");
        entry.finish(data).expect("a member");
    }
    archive.finish().expect("a directory");
    let bytes = std::fs::read(path).expect("it");
    let starts = bytes.windows(4).enumerate().filter(|(_, window)| *window == b"PK\x03\x04");
    starts.map(|(at, _)| at as u64).collect()
}

/// As Python's `zipfile` and `numpy` do: the end of the archive, its directory, and then each
/// member in pieces of its buffer.
#[test]
fn a_member_that_is_read_in_pieces_brings_little_behind_it() {
    let source = directory();
    let written = source.path().join("arrays.npz");
    let starts = write(&written);
    assert_eq!(starts.len(), MEMBERS as usize);
    let original = std::fs::read(&written).expect("it");
    let store = Store::of_directory(source.path());
    let mounted = Mount::background(store.foreread(), "s3://testbed", &["--memory", "256M"]);
    let mut file = File::open(mounted.file("arrays.npz")).expect("the file");
    let size = file.metadata().expect("its size").len();
    for back in [22, 4096] {
        file.seek(SeekFrom::Start(size - back)).expect("its end");
        file.read_exact(&mut vec![0; back as usize]).expect("its end");
    }
    let asked = || {
        let gets = store.testbed.requests().into_iter().filter(|request| request.kind == Kind::Get);
        gets.filter_map(|request| request.range).map(|(start, end)| end - start).sum::<u64>()
    };
    let before = asked();
    let mut read = 0;
    for nth in [3, 9, 15, 6, 12] {
        file.seek(SeekFrom::Start(starts[nth])).expect("a member");
        let mut member: Vec<u8> = Vec::new();
        let mut piece = vec![0; 128 << 10];
        while member.len() < MEMBER {
            let len = piece.len().min(MEMBER - member.len());
            file.read_exact(&mut piece[..len]).expect("a piece");
            member.extend(&piece[..len]);
        }
        let start = starts[nth] as usize;
        assert!(member == original[start..start + MEMBER], "other bytes");
        read += MEMBER as u64;
    }
    let fetched = asked() - before;
    // A kernel reads up to two windows past the end of each.
    let most = read + 5 * (3 * (128 << 10));
    assert!(fetched <= most, "{fetched} bytes for {read}");
}
