//! Zip: members behind each other, and a directory behind them that says where each begins.
//!
//! ```text
//!   |header|data|header|data| .. |header|data| record | record | .. | where they begin, 22 bytes
//!    ^ a member  ^ one more                   └ the directory ─────┘ | and a comment
//! ```
//!
//! A member reaches to the start of the next one: what stands in between is its own. So does what
//! stands before the archive, if it is the end of another file: places in it count from its start.
//!
//! The end says how long the directory is, which may be some tens of megabytes: it is read as its
//! bytes come (`directory`).
//!
//! The file does not know other formats. Source: APPNOTE 6.3.10, 4.3; docs/decisions/0114, 0129.

use crate::directory::{Directory, u16_at, u32_at, u64_at};
use crate::told::{Layout, TAIL_BYTES};

/// What the last bytes of a file tell. One that is `named` as an archive may end with a comment.
pub(crate) fn look(end: &[u8], file_bytes: u64, named: bool) -> Layout {
    let Some(at) = end_record(end, named) else {
        let searched = END_BYTES_MAX.min(file_bytes);
        return if named && (end.len() as u64) < searched { Layout::Needs(searched) } else { Layout::Unknown };
    };
    // Behind a directory of an archive that is longer than 4 GiB stand two more records.
    let (behind, probed) = ((end.len() - at) as u64, end.len() - at + LOCATOR_BYTES + END_64_BYTES);
    if end.len() < probed && file_bytes >= probed as u64 {
        return Layout::Needs(probed as u64);
    }
    let (record, before) = (&end[at..], &end[..at]);
    let known = match long_record(before) {
        Some(long) => Some((behind + (LOCATOR_BYTES + END_64_BYTES) as u64, u64_at(long, 40), u64_at(long, 48))),
        None => Some((behind, u32_at(record, 12).map(u64::from), u32_at(record, 16).map(u64::from))),
    };
    let directory = known.and_then(|(behind, len, at)| Directory::new(file_bytes.checked_sub(behind)?, len?, at?));
    directory.map_or(Layout::Unknown, Layout::Archive)
}

/// Where the last record of an archive begins, which its comment follows.
fn end_record(end: &[u8], named: bool) -> Option<usize> {
    let last = end.len().checked_sub(TAIL_BYTES as usize)?;
    let first = if named { end.len().saturating_sub(END_BYTES_MAX as usize) } else { last };
    let is_end = |&at: &usize| {
        end[at..].starts_with(b"PK\x05\x06")
            && u16_at(&end[at..], 20).is_some_and(|comment| usize::from(comment) == last - at)
    };
    (first..=last).rev().find(is_end)
}

/// The record of a long archive that stands at the end of what is `before` its last one.
fn long_record(before: &[u8]) -> Option<&[u8]> {
    let (before, locator) = before.split_last_chunk::<LOCATOR_BYTES>()?;
    let (_, record) = before.split_last_chunk::<END_64_BYTES>()?;
    (locator.starts_with(b"PK\x06\x07") && record.starts_with(b"PK\x06\x06")).then_some(record)
}

/// Bytes of the records of a long archive, before its last one. Source: APPNOTE 4.3.14, 4.3.15.
const END_64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;

/// Bytes behind a directory, at most: the last record, and a comment. Source: APPNOTE 4.3.16.
const END_BYTES_MAX: u64 = TAIL_BYTES + u16::MAX as u64;

/// How names of archives end of which programs read some members. Source: arrays of Python, models
/// of Torch and Keras, packages of Python and Java, documents of offices.
pub(crate) const ENDINGS: [&str; 9] = ["zip", "npz", "pt", "pth", "keras", "whl", "jar", "docx", "xlsx"];
