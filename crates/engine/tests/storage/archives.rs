//! Archives whose directory is long: readers of members in no order.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use foreread_engine::{File, Options};
use foreread_testbed::Config;

use super::{Rig, rig_of};

const MEMBERS: u64 = 20_000;
const MEMBER_BYTES: u64 = 20_000;
const NAME_BYTES: usize = 100;
const MEMORY: u64 = 32 << 20;

/// How a program reads the directory.
#[derive(Debug, Clone, Copy)]
enum Reads {
    /// In pieces of so many bytes, one after the other.
    InOrder(u64),
    /// In such pieces, all of them asked for at once, the last one first.
    Backwards(u64),
    /// As the first one does, but a part of it before the end.
    PartFirst(u64),
}

/// An archive of 400 MB, of which only the directory is written: its members are holes. It ends
/// with a comment of so many bytes. Returns where its directory begins.
fn write(path: &Path, comment: u16) -> u64 {
    let mut directory = Vec::new();
    for nth in 0..MEMBERS {
        let [at, len] = [nth * MEMBER_BYTES, MEMBER_BYTES - 30].map(|number| (number as u32).to_le_bytes());
        directory.extend([&b"PK\x01\x02"[..], &[0; 16], &len, &len].concat());
        directory.extend((NAME_BYTES as u16).to_le_bytes());
        directory.extend([&[0; 12][..], &at, &[b'n'; NAME_BYTES]].concat());
    }
    let begins = MEMBERS * MEMBER_BYTES;
    let [at, len] = [begins as u32, directory.len() as u32].map(u32::to_le_bytes);
    let count = [MEMBERS as u16; 2].map(u16::to_le_bytes).concat();
    directory.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &len, &at, &comment.to_le_bytes()].concat());
    directory.resize(directory.len() + usize::from(comment), b'c');
    let archive = std::fs::File::create(path).expect("an archive");
    archive.write_all_at(&directory, begins).expect("a directory");
    begins
}

fn config() -> Config {
    Config {
        first_byte: Duration::from_millis(2),
        jitter: Duration::ZERO,
        connection_rate: None,
        total_rate: None,
        anonymous: true,
        ..Config::default()
    }
}

fn open(directory: &Path) -> (Rig, File) {
    let config = Config { dir: Some(directory.to_owned()), ..config() };
    let rig = rig_of(config, &Options::default().with_memory_bytes(MEMORY));
    let file = rig.open("a.zip");
    (rig, file)
}

/// The members in no order.
fn shuffled() -> impl Iterator<Item = u64> {
    let mut members: Vec<_> = (0..MEMBERS).collect();
    members.sort_by_key(|member| (member + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ member >> 3);
    members.into_iter()
}

/// Reads these parts side by side, the last one first.
fn side_by_side(file: &File, parts: &[(u64, u64)]) {
    let (send, receive) = mpsc::channel();
    for &(offset, len) in parts.iter().rev() {
        let send = send.clone();
        file.read(offset, len as usize, move |result| send.send(result.is_ok()).expect("a receiver"));
    }
    assert!(parts.iter().all(|_| receive.recv() == Ok(true)));
}

impl Rig {
    fn bytes(&self, file: &File, offset: u64, len: u64) {
        let bytes = self.engine.runtime().block_on(file.read_at(offset, len as usize)).expect("its bytes");
        assert_eq!(bytes.len() as u64, len, "at {offset}");
    }

    /// Reads the header of a member, and then the member. Returns how many of the two found
    /// nothing under way.
    fn read_member(&self, file: &File, member: u64) -> u64 {
        let (at, before) = (member * MEMBER_BYTES, self.engine.stats().misses);
        self.bytes(file, at, 30);
        self.bytes(file, at + 30, MEMBER_BYTES - 30);
        self.engine.stats().misses - before
    }

    fn read_directory(&self, file: &File, begins: u64, comment: u16, reads: Reads) {
        let end = file.size();
        let parts = |piece: u64| {
            (begins..end).step_by(piece as usize).map(move |at| (at, piece.min(end - at))).collect::<Vec<_>>()
        };
        if let Reads::PartFirst(piece) = reads {
            self.bytes(file, begins + piece, piece);
        }
        self.bytes(file, end - 22, 22);
        if comment > 0 {
            self.bytes(file, end - 22 - (64 << 10), 22 + (64 << 10));
        }
        match reads {
            Reads::InOrder(piece) | Reads::PartFirst(piece) => {
                for (at, len) in parts(piece) {
                    self.bytes(file, at, len);
                }
            }
            Reads::Backwards(piece) => side_by_side(file, &parts(piece)),
        }
    }
}

/// Members come with their headers: but for a few, one read of two has to wait for storage.
#[test]
fn a_directory_of_any_length_tells_of_members_when_its_program_has_read_it() {
    let directory = tempfile::tempdir().expect("a directory");
    for (comment, reads) in [
        (0, Reads::InOrder(2 << 20)),
        (700, Reads::InOrder(128 << 10)),
        (0, Reads::InOrder(8 << 10)),
        (0, Reads::PartFirst(512 << 10)),
        (65_000, Reads::Backwards(128 << 10)),
    ] {
        let begins = write(&directory.path().join("a.zip"), comment);
        let (rig, file) = open(directory.path());
        rig.read_directory(&file, begins, comment, reads);
        let mut members = shuffled();
        // A long directory is decoded beside the answer that brings its end.
        let mut in_turn = 0;
        let is_told = members.by_ref().take(2_000).any(|member| {
            std::thread::sleep(Duration::from_millis(1));
            in_turn = if rig.read_member(&file, member) <= 1 { in_turn + 1 } else { 0 };
            in_turn == 6
        });
        let misses: u64 = members.take(40).map(|member| rig.read_member(&file, member)).sum();
        assert!(is_told && misses <= 46, "{misses} misses for 40 members, {reads:?}, a comment of {comment} bytes");
    }
}

const SHARD_MEMBERS: u64 = 2_000;

/// An archive of 40 MB of members that are holes. Returns where its directory begins.
fn write_shard(path: &Path) -> u64 {
    let record = |nth: u64| {
        let [at, len] = [nth * MEMBER_BYTES, MEMBER_BYTES - 30].map(|number| (number as u32).to_le_bytes());
        [&b"PK\x01\x02"[..], &[0; 16], &len, &len, &[6, 0], &[0; 12], &at, b"member"].concat()
    };
    let directory = (0..SHARD_MEMBERS).flat_map(record).collect::<Vec<_>>();
    let begins = SHARD_MEMBERS * MEMBER_BYTES;
    let [at, len] = [begins as u32, directory.len() as u32].map(u32::to_le_bytes);
    let count = [SHARD_MEMBERS as u16; 2].map(u16::to_le_bytes).concat();
    let end = [&b"PK\x05\x06\0\0\0\0"[..], &count, &len, &at, &[0; 2]].concat();
    let archive = std::fs::File::create(path).expect("an archive");
    archive.write_all_at(&[directory, end].concat(), begins).expect("a directory");
    begins
}

/// A store with so many archives.
fn shards(directory: &Path, count: u64, memory: u64) -> (Rig, u64) {
    let begins = write_shard(&directory.join("0.zip"));
    for shard in 1..count {
        std::fs::hard_link(directory.join("0.zip"), directory.join(format!("{shard}.zip")))
            .expect("the same archive under another name");
    }
    let config = Config { dir: Some(directory.to_owned()), ..config() };
    (rig_of(config, &Options::default().with_memory_bytes(memory)), begins)
}

/// A data set of many archives, read one after the other: what is known of all of them does not
/// fit. Each has its members come with their headers, and so has one that is opened again.
#[test]
fn archives_that_were_closed_make_room_for_others() {
    const SHARDS: u64 = 80;
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, begins) = shards(directory.path(), SHARDS, 16 << 20);
    // Requests, bytes and misses of 20 members in no order.
    let read = |shard: u64, pass: u64| {
        let file = rig.open(&format!("{shard}.zip"));
        rig.read_directory(&file, begins, 0, Reads::InOrder(128 << 10));
        let before = rig.engine.stats();
        let members = shuffled().map(|member| member % SHARD_MEMBERS).skip((shard * 40 + pass * 20) as usize).take(20);
        let misses = members.map(|member| rig.read_member(&file, member)).sum::<u64>();
        let after = rig.engine.stats();
        (after.requests - before.requests, (after.fetched_bytes - before.fetched_bytes) >> 10, misses)
    };
    let passes = (0..2).map(|pass| (0..SHARDS).map(|shard| read(shard, pass)).collect::<Vec<_>>());
    for (pass, shards) in passes.enumerate() {
        for (shard, &(_, _, misses)) in shards.iter().enumerate() {
            assert!(misses <= 30, "{misses} misses for 20 members of {shard} in pass {pass}");
        }
        for (nth, shards) in shards.chunks(20).enumerate() {
            let requests = shards.iter().map(|&(requests, ..)| requests).sum::<u64>();
            let kib = shards.iter().map(|&(_, kib, _)| kib).sum::<u64>();
            assert!(
                requests <= 20 * 30 && kib <= 20 * 1_400,
                "{requests} requests and {kib} KiB for 400 members from shard {} on, in pass {pass}",
                20 * nth
            );
        }
    }
}

/// Archives that are open are not given up. One for which they leave no room is recognised when it
/// is opened again and there is.
#[test]
fn an_archive_that_found_no_room_is_recognised_when_it_is_opened_again() {
    const SHARDS: u64 = 80;
    let directory = tempfile::tempdir().expect("a directory");
    let (rig, begins) = shards(directory.path(), SHARDS, 16 << 20);
    let open = |shard: u64| {
        let file = rig.open(&format!("{shard}.zip"));
        rig.read_directory(&file, begins, 0, Reads::InOrder(128 << 10));
        file
    };
    drop((0..SHARDS).map(open).collect::<Vec<_>>());
    for shard in [SHARDS - 1, SHARDS - 2] {
        let mut misses = Vec::new();
        let is_recognised = (0..5).any(|nth| {
            // Streams of so many files have no share of the memory any more when they have rested.
            std::thread::sleep(Duration::from_secs(2));
            let again = open(shard);
            // Other members each time: those that were read stay.
            let members = shuffled().map(|member| member % SHARD_MEMBERS).skip(20 * nth).take(20);
            misses.push(members.map(|member| rig.read_member(&again, member)).sum::<u64>());
            misses[nth] <= 30
        });
        assert!(is_recognised, "{misses:?} misses for 20 members each of {shard}");
    }
}
