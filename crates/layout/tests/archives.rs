//! Directories of zip archives that were written by others, and ones that are broken.
//!
//! `members.directory` is what stands behind the members of an archive of Python's `zipfile`: 100,
//! 70, .2, .3, 65, .4 and 90 kB, stored. `members64.directory` is that of one with 100 and 70 kB
//! whose writer takes anything above 50 kB for too long for fields of four bytes.

use std::ops::Range;

use foreread_layout::{Access, DIRECTORY_BYTES_MAX, Layout, access, look};

const DIRECTORY: &[u8] = include_bytes!("members.directory");
const FILE_BYTES: u64 = 326_482;

const DIRECTORY_64: &[u8] = include_bytes!("members64.directory");
const FILE_64_BYTES: u64 = 170_346;

fn members(end: &[u8], file_bytes: u64) -> Vec<Range<u64>> {
    let Layout::Members(members) = look(end, file_bytes) else { panic!("it is one") };
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

/// What is there grows by what is needed, until it is enough.
#[test]
fn less_than_a_directory_says_how_much_is_needed() {
    for (directory, file_bytes, most) in [(DIRECTORY, FILE_BYTES, 2), (DIRECTORY_64, FILE_64_BYTES, 3)] {
        let (mut len, mut looks) = (22, 0);
        while let Layout::Needs(needed) = look(&directory[directory.len() - len..], file_bytes) {
            assert!(needed > len as u64 && needed <= directory.len() as u64, "{needed} after {len}");
            (len, looks) = (needed as usize, looks + 1);
        }
        assert_eq!(len, directory.len());
        assert!(looks <= most, "{looks}");
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
fn all_members_of_the_longest_directory_are_told() {
    let directory = directory_of(40_000, 100);
    let members = members(&directory, 4_000_000 + directory.len() as u64);
    assert_eq!(members.len(), 40_000);
    assert!(members.windows(2).all(|pair| pair[0].end == pair[1].start), "without gaps");
    let directory = directory_of(50_000, 100);
    let (file_bytes, mut len) = (5_000_000 + directory.len() as u64, 22);
    while let Layout::Needs(needed) = look(&directory[directory.len() - len..], file_bytes) {
        len = needed as usize;
    }
    assert!(len as u64 <= DIRECTORY_BYTES_MAX, "one of {} bytes is not read", directory.len());
    assert_eq!(look(&directory[directory.len() - len..], file_bytes), Layout::Unknown);
}

#[test]
fn what_cannot_be_is_not_told() {
    assert_eq!(look(b"PK\x05\x06", 4), Layout::Unknown);
    assert_eq!(look(&[DIRECTORY, b"x"].concat(), FILE_BYTES + 1), Layout::Unknown, "something behind it");
    let mut far = DIRECTORY.to_vec();
    let at = far.len() - 10;
    far[at..at + 8].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f, 0, 0, 0, 0]);
    assert_eq!(look(&far, 1 << 40), Layout::Unknown, "a directory of 2 GiB at its start");
}

#[test]
fn names_say_how_their_files_are_read() {
    let names = ["a/b.parquet", "c.PQ", "x.npz", "deep/model.Pt", "a.zip/file", "zip", "a.csv"];
    let [whole, pieces] = [Some(Access::Whole), Some(Access::Pieces)];
    assert_eq!(names.map(access), [whole, whole, pieces, pieces, None, None, None]);
}

#[test]
fn fuzz_directories() {
    let words = ["PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "\x7f\x7f\x7f\x7f"];
    foreread_fuzz::fuzz("directories", &[DIRECTORY, DIRECTORY_64, &DIRECTORY[60..]], &words, |input| {
        for file_bytes in [FILE_BYTES, FILE_64_BYTES, input.len() as u64] {
            match look(input, file_bytes.max(input.len() as u64)) {
                Layout::Unknown | Layout::Stripes(_) | Layout::Chunks(_) => {}
                Layout::Needs(bytes) => assert!(bytes > input.len() as u64 && bytes <= DIRECTORY_BYTES_MAX),
                Layout::Members(members) => {
                    let most = file_bytes.max(input.len() as u64);
                    assert!(members.iter().all(|member| member.start < member.end && member.end <= most));
                    assert!(members.windows(2).all(|pair| pair[0].end <= pair[1].start));
                }
            }
        }
    });
}
