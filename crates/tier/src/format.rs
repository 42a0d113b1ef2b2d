//! What lies in a segment file.
//!
//! ```text
//!   | header | record | record | ... | index block | footer |
//!     4,096    64 bytes, then for each page: 16 bytes of its guard, up to 4,096 of content
//! ```
//!
//! All numbers are little-endian. A record holds at most 32 pages of one object and crosses no
//! multiple of 32 pages. What lies beside a page is in `guard`. The checksums of headers are
//! XXH3-64, with the segment's number for a seed.
//!
//! *Invariant:* what is parsed here may be any bytes: every length is checked before it is used.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::guard::{Guard, Salt};
use crate::object::ObjectId;
use crate::record::{CHECK, PAGE, RECORD_HEADER, Record};

/// Bytes of a record in the index block.
pub(crate) const INDEX_RECORD: usize = 32;
/// Bytes of the footer.
pub(crate) const FOOTER: usize = 64;

const SEGMENT_MAGIC: [u8; 8] = *b"FRSEGM01";
const RECORD_MAGIC: [u8; 8] = *b"FRRECD01";
const FOOTER_MAGIC: [u8; 8] = *b"FRFOOT01";
const VERSION: u32 = 2;

/// The first block of a segment.
pub(crate) fn header(number: u64, segment_bytes: u64, salt: &Salt) -> Vec<u8> {
    let mut block = vec![0; PAGE];
    block[..8].copy_from_slice(&SEGMENT_MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    block[16..24].copy_from_slice(&number.to_le_bytes());
    block[24..32].copy_from_slice(&segment_bytes.to_le_bytes());
    block[32..48].copy_from_slice(salt);
    let check = xxh3_64_with_seed(&block[..48], number);
    block[48..56].copy_from_slice(&check.to_le_bytes());
    block
}

/// The salt of the segment of this number, if `block` begins it.
pub(crate) fn salt(block: &[u8], number: u64) -> Option<Salt> {
    let is_header = block.len() >= 56
        && block[..8] == SEGMENT_MAGIC
        && block[8..12] == VERSION.to_le_bytes()
        && u64_at(block, 16) == number
        && u64_at(block, 48) == xxh3_64_with_seed(&block[..48], number);
    is_header.then(|| bytes_at(block, 32))
}

/// Writes a record to `to`, which is as long as [`Record::file_bytes`] says. Its `offset` is not
/// written: it is where it lies.
pub(crate) fn put_record(to: &mut [u8], number: u64, guard: &Guard, record: &Record, content: &[u8]) {
    let (header, pages) = to.split_at_mut(RECORD_HEADER);
    header.fill(0);
    header[..8].copy_from_slice(&RECORD_MAGIC);
    header[8..24].copy_from_slice(&record.object.0);
    header[24..32].copy_from_slice(&record.first_page.to_le_bytes());
    header[32..36].copy_from_slice(&record.bytes.to_le_bytes());
    let check = xxh3_64_with_seed(&header[..56], number);
    header[56..].copy_from_slice(&check.to_le_bytes());
    for ((at, content), place) in (0..).zip(content.chunks(PAGE)).zip(pages.chunks_mut(CHECK + PAGE)) {
        guard.put(record, at, content, place);
    }
}

/// Appends a record to `to`.
#[cfg(test)]
pub(crate) fn append_record(to: &mut Vec<u8>, number: u64, record: &Record, content: &[u8]) {
    let begin = to.len();
    to.resize(begin + record.file_bytes() as usize, 0);
    put_record(&mut to[begin..], number, &Guard::Checked, record, content);
}

/// The record whose header these bytes are, at `offset` of the segment.
pub(crate) fn record(bytes: &[u8], number: u64, offset: u32) -> Option<Record> {
    let bytes = bytes.get(..RECORD_HEADER)?;
    if bytes[..8] != RECORD_MAGIC || u64_at(bytes, 56) != xxh3_64_with_seed(&bytes[..56], number) {
        return None;
    }
    let object = ObjectId(bytes_at(bytes, 8));
    let record = Record { object, first_page: u64_at(bytes, 24), bytes: u32_at(bytes, 32), offset };
    record.is_possible().then_some(record)
}

/// The index block and the footer of a segment whose records end at `end`.
pub(crate) fn index(number: u64, records: &[Record], end: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * INDEX_RECORD + FOOTER);
    for record in records {
        bytes.extend(record.object.0);
        bytes.extend(record.first_page.to_le_bytes());
        bytes.extend(record.bytes.to_le_bytes());
        bytes.extend(record.offset.to_le_bytes());
    }
    let check = xxh3_64_with_seed(&bytes, number);
    let begin = bytes.len();
    bytes.extend(FOOTER_MAGIC);
    bytes.extend(number.to_le_bytes());
    bytes.extend(end.to_le_bytes());
    bytes.extend((records.len() as u64).to_le_bytes());
    bytes.extend(check.to_le_bytes());
    bytes.extend([0; 16]);
    let check = xxh3_64_with_seed(&bytes[begin..], number);
    bytes.extend(check.to_le_bytes());
    bytes
}

/// Where an index block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    check: u64,
}

/// The footer at the end of a file of `file_bytes`.
pub(crate) fn footer(bytes: &[u8], number: u64, file_bytes: u64) -> Option<Footer> {
    let bytes = bytes.get(..FOOTER)?;
    let is_right = bytes[..8] == FOOTER_MAGIC
        && u64_at(bytes, 8) == number
        && u64_at(bytes, 56) == xxh3_64_with_seed(&bytes[..56], number);
    let (offset, count) = (u64_at(bytes, 16), u64_at(bytes, 24));
    let length = count.checked_mul(INDEX_RECORD as u64)?;
    let fits = offset.checked_add(length)?.checked_add(FOOTER as u64)? == file_bytes;
    (is_right && fits).then_some(Footer { offset, bytes: length as usize, check: u64_at(bytes, 32) })
}

/// The records of an index block, if it is whole.
pub(crate) fn index_records(bytes: &[u8], number: u64, footer: &Footer) -> Option<Vec<Record>> {
    if xxh3_64_with_seed(bytes, number) != footer.check {
        return None;
    }
    let record = |bytes: &[u8]| Record {
        object: ObjectId(bytes_at(bytes, 0)),
        first_page: u64_at(bytes, 16),
        bytes: u32_at(bytes, 24),
        offset: u32_at(bytes, 28),
    };
    let records: Vec<_> = bytes.chunks_exact(INDEX_RECORD).map(record).collect();
    let is_inside =
        |record: &Record| record.is_possible() && u64::from(record.offset) + record.file_bytes() <= footer.offset;
    records.iter().all(is_inside).then_some(records)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[at..at + N]);
    found
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use crate::record::HEADER;

    use super::*;

    fn example() -> Record {
        Record { object: ObjectId([7; 16]), first_page: 33, bytes: 5000, offset: HEADER as u32 }
    }

    #[test]
    fn what_is_written_is_parsed_with_the_same_number_alone() {
        let mut bytes = Vec::new();
        append_record(&mut bytes, 5, &example(), &[1; 5000]);
        assert_eq!(bytes.len() as u64, example().file_bytes());
        assert_eq!(record(&bytes, 5, HEADER as u32), Some(example()));
        assert_eq!(record(&bytes, 6, HEADER as u32), None);
        let block = header(5, 1 << 20, &[9; 16]);
        assert_eq!((salt(&block, 5), salt(&block, 6)), (Some([9; 16]), None));

        let end = HEADER + bytes.len() as u64;
        let block = index(5, &[example()], end);
        let found = footer(&block[block.len() - FOOTER..], 5, end + block.len() as u64).expect("a footer");
        assert_eq!(index_records(&block[..found.bytes], 5, &found), Some(vec![example()]));
        assert_eq!(footer(&block[block.len() - FOOTER..], 6, end + block.len() as u64), None);
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let mut bytes = Vec::new();
        append_record(&mut bytes, 5, &example(), &[1; 5000]);
        for bit in 0..RECORD_HEADER * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(record(&wrong, 5, HEADER as u32), None);
        }
        let block = index(5, &[example()], 10_000);
        for bit in 0..block.len() * 8 {
            let mut wrong = block.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let found = footer(&wrong[wrong.len() - FOOTER..], 5, 10_000 + block.len() as u64);
            assert_eq!(found.and_then(|found| index_records(&wrong[..found.bytes], 5, &found)), None);
        }
    }
}
