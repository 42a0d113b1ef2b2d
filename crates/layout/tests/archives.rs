//! Directories of zip archives that were written by others, and ones that are broken.
//!
//! `members.directory` is what stands behind the members of an archive of Python's `zipfile`: 100,
//! 70, .2, .3, 65, .4 and 90 kB, stored. `members64.directory` is that of one with 100 and 70 kB
//! whose writer takes anything above 50 kB for too long for fields of four bytes.

use std::ops::Range;

use foreread_layout::{Access, DIRECTORY_BYTES_MAX, Directory, Layout, access, look};

const DIRECTORY: &[u8] = include_bytes!("members.directory");
const FILE_BYTES: u64 = 326_482;

const DIRECTORY_64: &[u8] = include_bytes!("members64.directory");
const FILE_64_BYTES: u64 = 170_346;

/// The directory of an archive with this `end`, looked at from its last bytes on. Returns how many
/// looks that took.
fn directory(end: &[u8], file_bytes: u64) -> Option<(Directory, u32)> {
    let (mut len, mut looks) = (end.len().min(22), 1);
    loop {
        match look(&end[end.len() - len..], file_bytes, "a.zip") {
            Layout::Archive(directory) => return Some((directory, looks)),
            Layout::Needs(needed) if len < end.len() => {
                assert!(needed > len as u64, "{needed} after {len}");
                (len, looks) = (end.len().min(needed as usize), looks + 1);
            }
            _ => return None,
        }
    }
}

/// The members of an archive with this `end`, read in pieces of so many bytes.
fn members_in(end: &[u8], file_bytes: u64, piece: usize, most: usize) -> Vec<Range<u64>> {
    let (directory, _) = directory(end, file_bytes).expect("it is one");
    let mut directory = directory.with_members_max(most);
    while directory.left() > 0 {
        let at = (directory.at() + end.len() as u64 - file_bytes) as usize;
        directory.read(&end[at..end.len().min(at + piece)]);
    }
    directory.members().collect()
}

fn members(end: &[u8], file_bytes: u64) -> Vec<Range<u64>> {
    let members = members_in(end, file_bytes, usize::MAX / 2, usize::MAX);
    for piece in [1, 2, 45, 46, 47, 1000] {
        assert_eq!(members_in(end, file_bytes, piece, usize::MAX), members, "in pieces of {piece}");
    }
    members
}

#[test]
fn a_directory_says_where_the_members_lie() {
    let end = FILE_BYTES - DIRECTORY.len() as u64;
    let expected = [
        0..100_032,
        100_032..170_064,
        170_064..170_296,
        170_296..170_628,
        170_628..235_660,
        235_660..236_092,
        236_092..end,
    ];
    assert_eq!(members(DIRECTORY, FILE_BYTES), expected);
}

#[test]
fn one_of_a_long_archive_is_read_as_well() {
    let end = FILE_64_BYTES - DIRECTORY_64.len() as u64;
    assert_eq!(members(DIRECTORY_64, FILE_64_BYTES), [0..100_052, 100_052..end]);
}

#[test]
fn its_last_bytes_say_where_a_directory_is() {
    for (end, file_bytes, bytes) in [(DIRECTORY, FILE_BYTES, 22), (DIRECTORY_64, FILE_64_BYTES, 22 + 20 + 56)] {
        let (directory, looks) = directory(end, file_bytes).expect("it is one");
        assert_eq!(directory.bytes(), end.len() as u64 - bytes);
        assert!(looks <= 2, "{looks}");
    }
}

#[test]
fn an_archive_may_end_with_a_comment_and_stand_behind_other_content() {
    for (of, file_bytes) in [(DIRECTORY, FILE_BYTES), (DIRECTORY_64, FILE_64_BYTES)] {
        for comment in [1, 700, 65_535_u16] {
            let mut end = of.to_vec();
            let last = end.len() - 2;
            end[last..].copy_from_slice(&comment.to_le_bytes());
            end.resize(end.len() + usize::from(comment), b'P');
            assert_eq!(members(&end, file_bytes + u64::from(comment)), members(of, file_bytes), "{comment}");
            assert_eq!(look(&end, file_bytes + u64::from(comment), "a.iso"), Layout::Unknown, "by its name");
        }
        let behind = members(of, file_bytes + 1_000_000);
        let moved = members(of, file_bytes).into_iter().map(|member| member.start + 1_000_000..member.end + 1_000_000);
        assert_eq!(behind, moved.collect::<Vec<_>>());
    }
}

/// A directory of so many members of so many bytes each.
fn directory_of(members: u32, bytes: u32) -> Vec<u8> {
    let mut directory = Vec::new();
    for nth in 0..members {
        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0");
        directory.extend([0; 4]);
        directory.extend([bytes - 31; 2].map(u32::to_le_bytes).concat());
        directory.extend(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0");
        directory.extend((nth * bytes).to_le_bytes());
        directory.push(b'm');
    }
    let [count, len, at] = [members, directory.len() as u32, members * bytes];
    let count = [count as u16; 2].map(u16::to_le_bytes).concat();
    directory.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &len.to_le_bytes(), &at.to_le_bytes(), &[0; 2]].concat());
    directory
}

#[test]
fn a_directory_of_any_length_is_read() {
    let end = directory_of(500_000, 100);
    let file_bytes = 50_000_000 + end.len() as u64;
    let members = members_in(&end, file_bytes, 128 << 10, usize::MAX);
    assert_eq!(members.len(), 500_000);
    assert!(members.windows(2).all(|pair| pair[0].end == pair[1].start), "without gaps");
    assert_eq!(members_in(&end, file_bytes, 128 << 10, 1_000), members[..999], "the first, without an end");
}

#[test]
fn records_may_have_another_order_than_members() {
    let (in_order, mut end) = (directory_of(1_000, 100), directory_of(1_000, 100));
    let file_bytes = 100_000 + end.len() as u64;
    let records = end.len() - 22;
    end[..records].rotate_left(47 * 300);
    assert_eq!(members(&end, file_bytes), members(&in_order, file_bytes));
    assert_eq!(members_in(&end, file_bytes, 100, 900), [], "some of these may lie between others");
}

/// Behind its records a directory may be signed. A piece of it may end anywhere.
#[test]
fn a_signature_in_several_pieces_is_one() {
    let unsigned = directory_of(50, 100);
    let records = unsigned.len() - 22;
    for bytes in [0, 20, 44, 300_u16] {
        let signature = [&b"PK\x05\x05"[..], &bytes.to_le_bytes(), &vec![b's'; usize::from(bytes)]].concat();
        let mut end = [&unsigned[..records], &signature, &unsigned[records..]].concat();
        let at = records + signature.len() + 12;
        end[at..at + 4].copy_from_slice(&((records + signature.len()) as u32).to_le_bytes());
        let file_bytes = 5_000 + end.len() as u64;
        for piece in (1..60).chain(records - 4..records + 8) {
            let found = members_in(&end, file_bytes, piece, usize::MAX);
            assert_eq!(found.len(), 50, "{bytes} bytes in pieces of {piece}");
        }
    }
    let mut broken = unsigned[..records].to_vec();
    broken.extend([&b"PK\x05"[..], &unsigned[records..]].concat());
    let at = records + 3 + 12;
    broken[at..at + 4].copy_from_slice(&(records as u32 + 3).to_le_bytes());
    assert_eq!(members(&broken, 5_000 + broken.len() as u64), [], "a part of one");
}

#[test]
fn what_cannot_be_is_not_told() {
    assert_eq!(look(b"PK\x05\x06", 4, "a.zip"), Layout::Unknown);
    assert_eq!(look(&[DIRECTORY, b"x"].concat(), FILE_BYTES + 1, "a.iso"), Layout::Unknown, "something behind it");
    let mut far = DIRECTORY.to_vec();
    let at = far.len() - 10;
    far[at..at + 8].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(look(&far, FILE_BYTES, "a.zip"), Layout::Unknown, "a directory of 2 GiB");
    let mut broken = DIRECTORY.to_vec();
    broken[0] = 0;
    assert_eq!(members(&broken, FILE_BYTES), [], "no record");
    let mut beyond = DIRECTORY.to_vec();
    beyond[42..46].copy_from_slice(&u32::to_le_bytes(FILE_BYTES as u32));
    assert_eq!(members(&beyond, FILE_BYTES), [], "a member behind the directory");
}

#[test]
fn names_say_how_their_files_are_read() {
    let names = ["a/b.parquet", "c.PQ", "x.npz", "deep/model.Pt", "a.zip/file", "zip", "a.csv"];
    let [whole, pieces] = [Some(Access::Whole), Some(Access::Pieces)];
    assert_eq!(names.map(access), [whole, whole, pieces, pieces, None, None, None]);
}

#[test]
fn fuzz_directories() {
    let words = ["PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "PK\x05\x05", "\x7f\x7f\x7f\x7f"];
    foreread_fuzz::fuzz("directories", &[DIRECTORY, DIRECTORY_64, &DIRECTORY[60..]], &words, |input| {
        for file_bytes in [FILE_BYTES, FILE_64_BYTES, input.len() as u64] {
            let file_bytes = file_bytes.max(input.len() as u64);
            match look(input, file_bytes, "a.zip") {
                Layout::Unknown | Layout::Stripes(_) | Layout::Chunks(_) => {}
                Layout::Needs(bytes) => {
                    assert!(bytes > input.len() as u64 && bytes <= DIRECTORY_BYTES_MAX.min(file_bytes));
                }
                Layout::Archive(directory) => {
                    assert!(directory.at() + directory.left() <= file_bytes);
                    let read = |piece: usize| {
                        // Its bytes may be anything, and lie before those that were looked at.
                        let mut directory = directory.clone().with_members_max(1_000);
                        while directory.left() > 0 {
                            let (at, left) = (directory.at() as usize % input.len(), directory.left());
                            let len = piece - at % piece;
                            directory.read(&input[at..input.len().min(at + len)]);
                            assert!(directory.left() < left);
                        }
                        directory.members().collect::<Vec<_>>()
                    };
                    let members = read(1 << 20);
                    assert_eq!(read(7), members);
                    assert!(members.iter().all(|member| member.start < member.end && member.end <= file_bytes));
                    assert!(members.windows(2).all(|pair| pair[0].end <= pair[1].start));
                }
            }
        }
    });
}
