//! Footers of ORC that were written by others, and ones that are broken.
//!
//! `small-*.orc` are files of pyarrow 26: 600 rows of a column of integers, one of floats, each .5
//! more than the one before, and one of text. The one that is not compressed has three stripes of
//! 200 rows, the others have one.

use foreread_layout::{Access, CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, Stripes, access, look};

const UNCOMPRESSED: &[u8] = include_bytes!("small-uncompressed.orc");
const ZLIB: &[u8] = include_bytes!("small-zlib.orc");
const SNAPPY: &[u8] = include_bytes!("small-snappy.orc");
const ZSTD: &[u8] = include_bytes!("small-zstd.orc");

/// Looks at as many bytes at the end of `file` as are needed.
fn stripes(file: &[u8]) -> Option<Stripes> {
    let mut len = 22;
    loop {
        match look(&file[file.len() - len..], file.len() as u64) {
            Layout::Needs(needed) => {
                assert!(needed > len as u64 && needed <= file.len() as u64, "{needed} after {len}");
                len = needed as usize;
            }
            Layout::Stripes(stripes) => return Some(stripes),
            Layout::Unknown => return None,
            Layout::Chunks(..) => panic!("no other format"),
        }
    }
}

fn chunks(file: &[u8]) -> Vec<Chunk> {
    let stripes = stripes(file).expect("it is one");
    let footers = stripes.footers().map(|at| &file[at.start as usize..at.end as usize]);
    stripes.chunks(footers).expect("they name some")
}

#[test]
fn footers_of_stripes_say_where_the_columns_lie() {
    let chunks = chunks(UNCOMPRESSED);
    let named: Vec<_> = chunks.iter().map(|chunk| (chunk.group, chunk.column)).collect();
    assert_eq!(named, (0..3).flat_map(|group| (1..=4).map(move |column| (group, column))).collect::<Vec<_>>());
    for chunk in chunks.iter().filter(|chunk| chunk.column == 2) {
        let bytes = &UNCOMPRESSED[chunk.bytes.start as usize..chunk.bytes.end as usize];
        let values: Vec<f64> = bytes.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
        let expected: Vec<f64> = (0..200).map(|row| f64::from(chunk.group * 200 + row) * 0.5).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn footers_that_are_compressed_say_so_as_well() {
    for file in [ZLIB, SNAPPY, ZSTD] {
        let chunks = chunks(file);
        assert_eq!(chunks.iter().map(|chunk| chunk.column).collect::<Vec<_>>(), [1, 2, 3, 4], "the last is the footer");
        assert!(chunks.windows(2).all(|pair| pair[0].bytes.end == pair[1].bytes.start));
    }
    assert_eq!(access("a/b.orc"), Some(Access::Pieces));
}

#[test]
fn what_cannot_be_is_not_told() {
    assert_eq!(look(b"ORC\x19", 100), Layout::Needs(26), "a postscript that is not there");
    assert_eq!(look(b"ORC\x19", 20), Layout::Unknown, "longer than its file");
    assert_eq!(look(b"ORC\x03", 100), Layout::Unknown, "a postscript without a length");
    assert_eq!(look(b"OORC\x02", 5), Layout::Unknown, "shorter than its magic number");
    let all = stripes(UNCOMPRESSED).expect("it is one");
    let broken = all.footers().map(|_| &b"\x0a\xff"[..]);
    assert_eq!(all.chunks(broken), None);
    // One stream that is longer than its stripe.
    let long = all.footers().map(|_| &b"\x0a\x06\x10\x01\x18\xff\xff\x7f"[..]);
    assert_eq!(all.chunks(long), None);
}

#[test]
fn fuzz_stripes() {
    let seeds = [UNCOMPRESSED, ZLIB, SNAPPY, ZSTD].map(|file| &file[file.len() - 400..]);
    foreread_fuzz::fuzz("stripes", &seeds, &["ORC", "\x7f\x7f\x7f"], |input| {
        for file_bytes in [UNCOMPRESSED.len() as u64, 1 << 40] {
            match look(input, file_bytes.max(input.len() as u64)) {
                Layout::Needs(bytes) => assert!(bytes > input.len() as u64 && bytes <= DIRECTORY_BYTES_MAX),
                Layout::Stripes(stripes) => {
                    let footers: Vec<_> = stripes.footers().collect();
                    assert!(footers.windows(2).all(|pair| pair[0].end <= pair[1].start));
                    let chunks = stripes.chunks(footers.iter().map(|_| input)).unwrap_or_default();
                    assert!(chunks.len() <= CHUNKS_MAX);
                    assert!(chunks.windows(2).all(|pair| pair[0].bytes.end <= pair[1].bytes.start));
                }
                Layout::Unknown | Layout::Chunks(..) => {}
            }
        }
    });
}
