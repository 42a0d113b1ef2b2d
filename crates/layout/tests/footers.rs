//! Footers that were written by others, and ones that are broken.
//!
//! `small.footer` is the end of a file of pyarrow 26: three groups of a hundred rows, with a
//! column of integers, one of floats and one of text in a dictionary, neither compressed nor
//! with an Arrow schema.

use foreread_layout::{CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, look};

const SMALL: &[u8] = include_bytes!("small.footer");

/// Bytes of the file that it belongs to.
const SMALL_FILE_BYTES: u64 = 6_614;

#[test]
fn a_footer_says_where_the_chunks_lie() {
    let Layout::Chunks(chunks) = look(SMALL, SMALL_FILE_BYTES, "a.parquet") else { panic!("it is one") };
    let lie = |at: usize| (chunks[at].group, chunks[at].column, chunks[at].bytes.clone());
    assert_eq!(chunks.len(), 9);
    assert_eq!(lie(0), (0, 0, 4..877));
    assert_eq!(lie(2), (0, 2, 1_750..1_886), "from its dictionary on");
    assert_eq!(lie(3), (1, 0, 1_886..2_759));
    assert_eq!(lie(8), (2, 2, 5_514..5_650));
}

#[test]
fn less_than_a_footer_says_how_much_is_needed() {
    let tail = &SMALL[SMALL.len() - 8..];
    assert_eq!(look(tail, SMALL_FILE_BYTES, "a.parquet"), Layout::Needs(SMALL.len() as u64));
    assert_eq!(look(&SMALL[1..], SMALL_FILE_BYTES, "a.parquet"), Layout::Needs(SMALL.len() as u64));
    assert!(matches!(look(SMALL, SMALL_FILE_BYTES, "a.parquet"), Layout::Chunks(..)));
}

#[test]
fn what_cannot_be_is_not_told() {
    assert_eq!(look(b"", 0, "a.parquet"), Layout::Unknown);
    assert_eq!(look(b"PAR1", 4, "a.parquet"), Layout::Unknown);
    assert_eq!(look(b"....\x10\0\0\0PARE", 1 << 20, "a.parquet"), Layout::Unknown, "an encrypted footer");
    assert_eq!(look(b"\xff\xff\xff\xffPAR1", 1 << 40, "a.parquet"), Layout::Unknown, "a footer of 4 GiB");
    assert_eq!(look(SMALL, SMALL.len() as u64, "a.parquet"), Layout::Unknown, "longer than its file");
    assert_eq!(look(SMALL, 2_000, "a.parquet"), Layout::Unknown, "chunks behind the footer");
}

/// A footer with such a length in front of such bytes.
fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend((bytes.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    bytes
}

#[test]
fn a_list_that_claims_two_thousand_million_elements_is_refused() {
    // The version, and a schema of so many elements.
    let footer = with_length(vec![0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    assert_eq!(look(&footer, 1 << 30, "a.parquet"), Layout::Unknown);
}

#[test]
fn fuzz_footers() {
    foreread_fuzz::fuzz("footers", &[SMALL, &SMALL[..SMALL.len() - 8]], &["PAR1"], |input| {
        for end in [input.to_vec(), with_length(input.to_vec())] {
            match look(&end, SMALL_FILE_BYTES, "a.parquet") {
                Layout::Unknown | Layout::Stripes(_) | Layout::Archive(_) => {}
                Layout::Needs(bytes) => assert!(bytes > end.len() as u64 && bytes <= DIRECTORY_BYTES_MAX + 8),
                Layout::Chunks(chunks) => {
                    assert!(chunks.len() <= CHUNKS_MAX);
                    assert!(
                        chunks
                            .iter()
                            .all(|Chunk { bytes, .. }| bytes.start < bytes.end && bytes.end < SMALL_FILE_BYTES)
                    );
                    assert!(chunks.windows(2).all(|pair| pair[0].bytes.end <= pair[1].bytes.start));
                }
            }
        }
    });
}
