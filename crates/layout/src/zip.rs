//! Zip: members behind each other, and a directory behind them that says where each begins.
//!
//! ```text
//!   |header|data|header|data| .. |header|data| directory | .. | where it begins, 22 bytes
//!    ^ a member  ^ one more
//! ```
//!
//! A member reaches to the start of the next one: what stands in between is its own.
//!
//! The directory is decoded by the `rawzip` crate, also of archives that are longer than 4 GiB.
//! It reads the archive at any place; where the bytes that are there do not reach as far back,
//! more are needed. An archive that ends with a comment is not known for one. The file does not
//! know other formats. Source: APPNOTE 6.3.10, 4.3; docs/decisions/0114.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use rawzip::{ReaderAt, ZipLocator};

use crate::told::{DIRECTORY_BYTES_MAX, Layout, TAIL_BYTES};

pub(crate) fn look(end: &[u8], file_bytes: u64) -> Layout {
    let Some((_, &[b'P', b'K', 5, 6, .., 0, 0])) = end.split_last_chunk::<{ TAIL_BYTES as usize }>() else {
        return Layout::Unknown;
    };
    let tail = Tail { bytes: end, file_bytes, missing: Cell::new(file_bytes) };
    let members = members(&tail);
    let needed = file_bytes - tail.missing.get();
    match members {
        _ if needed > DIRECTORY_BYTES_MAX => Layout::Unknown,
        _ if needed > 0 => Layout::Needs(needed),
        Some(members) => Layout::Members(members),
        None => Layout::Unknown,
    }
}

/// The members that the directory of the archive names. Nothing if it is broken, or is not all
/// there.
fn members(tail: &Tail<'_>) -> Option<Vec<Range<u64>>> {
    let mut buffer = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
    let locator = ZipLocator::new().max_search_space(TAIL_BYTES);
    let archive = locator.locate_in_reader(tail, &mut buffer, tail.file_bytes).ok()?;
    let mut starts = Vec::new();
    let directory = archive.directory_offset();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().ok()? {
        starts.push(entry.local_header_offset());
    }
    starts.sort_unstable();
    starts.dedup();
    starts.push(directory);
    let members: Vec<_> = starts.windows(2).map(|bounds| bounds[0]..bounds[1]).collect();
    let lies = |member: &Range<u64>| member.start < member.end && member.end <= tail.file_bytes;
    members.iter().all(lies).then_some(members)
}

/// A file of which the last bytes are known.
struct Tail<'a> {
    bytes: &'a [u8],
    file_bytes: u64,
    /// The first byte that was asked for and is not known.
    missing: Cell<u64>,
}

impl ReaderAt for &Tail<'_> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let begins = self.file_bytes - self.bytes.len() as u64;
        let Some(from) = offset.checked_sub(begins) else {
            self.missing.set(self.missing.get().min(offset));
            return Err(io::ErrorKind::Other.into());
        };
        let known = self.bytes.get(from as usize..).unwrap_or_default();
        let len = known.len().min(into.len());
        into[..len].copy_from_slice(&known[..len]);
        Ok(len)
    }
}

/// How names of archives end of which programs read some members. Source: arrays of Python, models
/// of Torch and Keras, packages of Python and Java, documents of offices.
pub(crate) const ENDINGS: [&str; 9] = ["zip", "npz", "pt", "pth", "keras", "whl", "jar", "docx", "xlsx"];
