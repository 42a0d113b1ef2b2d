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
        match look(&file[file.len() - len..], file.len() as u64, "a.orc") {
            Layout::Needs(needed) => {
                assert!(needed > len as u64 && needed <= file.len() as u64, "{needed} after {len}");
                len = needed as usize;
            }
            Layout::Stripes(stripes) => return Some(stripes),
            Layout::Unknown => return None,
            Layout::Chunks(_) | Layout::Archive(_) => panic!("no other format"),
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
    assert_eq!(look(b"ORC\x19", 100, "a.orc"), Layout::Needs(26), "a postscript that is not there");
    assert_eq!(look(b"ORC\x19", 20, "a.orc"), Layout::Unknown, "longer than its file");
    assert_eq!(look(b"ORC\x03", 100, "a.orc"), Layout::Unknown, "a postscript without a length");
    assert_eq!(look(b"OORC\x02", 5, "a.orc"), Layout::Unknown, "shorter than its magic number");
    let all = stripes(UNCOMPRESSED).expect("it is one");
    let broken = all.footers().map(|_| &b"\x0a\xff"[..]);
    assert_eq!(all.chunks(broken), None);
    // One stream that is longer than its stripe.
    let long = all.footers().map(|_| &b"\x0a\x06\x10\x01\x18\xff\xff\x7f"[..]);
    assert_eq!(all.chunks(long), None);
}

/// A frame of Zstandard that says that it has a window of 128 MiB, and repeats a byte for long.
#[test]
fn a_footer_that_would_take_much_memory_is_refused() {
    let mut block = b"\x28\xb5\x2f\xfd\x00\x88".to_vec();
    for nth in 0..1_025_u32 {
        let is_last = u32::from(nth == 1_024);
        block.extend(&(((128 << 10) << 3) | 2 | is_last).to_le_bytes()[..3]);
        block.push(0);
    }
    let mut file = (block.len() as u32 * 2).to_le_bytes()[..3].to_vec();
    file.extend(&block);
    let footer_bytes = file.len() as u32;
    let mut postscript = vec![0x08];
    postscript.extend([footer_bytes as u8 | 128, (footer_bytes >> 7) as u8, 0x10, 5]);
    postscript.extend(b"\x82\xf4\x03\x03ORC");
    file.extend(&postscript);
    file.push(postscript.len() as u8);
    let before = resident_bytes();
    assert_eq!(look(&file, 1 << 30, "a.orc"), Layout::Unknown);
    assert!(resident_bytes() < before + (32 << 20));
}

/// The most memory that the process has had.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Of a file with one stripe, the footer of that.
fn footer_of(file: &[u8]) -> &[u8] {
    let at = stripes(file).expect("it is one").footers().next().expect("a stripe");
    &file[at.start as usize..at.end as usize]
}

#[test]
fn fuzz_footers_of_stripes() {
    for (nth, file) in [UNCOMPRESSED, ZLIB, SNAPPY, ZSTD].into_iter().enumerate() {
        let all = stripes(file).expect("it is one");
        foreread_fuzz::fuzz(&format!("footers of stripes {nth}"), &[footer_of(file)], &["\x7f\x7f"], |input| {
            let chunks = all.chunks(all.footers().map(|_| input)).unwrap_or_default();
            assert!(chunks.len() <= CHUNKS_MAX);
            assert!(chunks.iter().all(|chunk| chunk.bytes.end <= file.len() as u64), "{chunks:?}");
            assert!(chunks.windows(2).all(|pair| pair[0].bytes.end <= pair[1].bytes.start));
        });
    }
}

#[test]
fn fuzz_stripes() {
    let seeds = [UNCOMPRESSED, ZLIB, SNAPPY, ZSTD].map(|file| &file[file.len() - 400..]);
    foreread_fuzz::fuzz("stripes", &seeds, &["ORC", "\x7f\x7f\x7f"], |input| {
        for file_bytes in [UNCOMPRESSED.len() as u64, 1 << 40] {
            match look(input, file_bytes.max(input.len() as u64), "a.orc") {
                Layout::Needs(bytes) => assert!(bytes > input.len() as u64 && bytes <= DIRECTORY_BYTES_MAX),
                Layout::Stripes(stripes) => {
                    let footers: Vec<_> = stripes.footers().collect();
                    assert!(footers.windows(2).all(|pair| pair[0].end <= pair[1].start));
                    assert!(footers.iter().all(|footer| footer.end <= file_bytes.max(input.len() as u64)));
                }
                Layout::Unknown | Layout::Chunks(_) | Layout::Archive(_) => {}
            }
        }
    });
}
