//! Zip: members behind each other, and a directory behind them that says where each begins.
//!
//! ```text
//!   |header|data|header|data| .. |header|data| directory | .. | where it begins, 22 bytes
//!    ^ a chunk   ^ one more, with those behind it that are short
//! ```
//!
//! A member reaches to the start of the next one: what stands in between is its own. Members that
//! are shorter than [`MEMBER_BYTES_MIN`] are told as one with those behind them, until it is as
//! long: so an archive of many small ones has few chunks, and no gaps between them.
//!
//! One that is longer than [`MEMBER_BYTES_MAX`] is not told.
//!
//! The directory is decoded by the `rawzip` crate, also of archives that are longer than 4 GiB.
//! It reads the archive at any place; where the bytes that are there do not reach as far back,
//! more are needed. An archive that ends with a comment is not known for one. The file does not
//! know other formats. Source: APPNOTE 6.3.10, 4.3; docs/decisions/0114.

use std::cell::Cell;
use std::io;

use rawzip::{ReaderAt, ZipLocator};

use crate::told::{Access, CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, TAIL_BYTES};

pub(crate) fn look(end: &[u8], file_bytes: u64) -> Layout {
    let Some((_, &[b'P', b'K', 5, 6, .., 0, 0])) = end.split_last_chunk::<{ TAIL_BYTES as usize }>() else {
        return Layout::Unknown;
    };
    let tail = Tail { bytes: end, file_bytes, missing: Cell::new(file_bytes) };
    let chunks = chunks(&tail);
    let needed = file_bytes - tail.missing.get();
    match chunks {
        _ if needed > DIRECTORY_BYTES_MAX => Layout::Unknown,
        _ if needed > 0 => Layout::Needs(needed),
        Some(chunks) => Layout::Chunks(chunks, Access::Pieces),
        None => Layout::Unknown,
    }
}

/// The members that the directory of the archive names. Nothing if it is broken, or is not all
/// there.
fn chunks(tail: &Tail<'_>) -> Option<Vec<Chunk>> {
    let mut buffer = vec![0; rawzip::RECOMMENDED_BUFFER_SIZE];
    let locator = ZipLocator::new().max_search_space(TAIL_BYTES);
    let archive = locator.locate_in_reader(tail, &mut buffer, tail.file_bytes).ok()?;
    let mut starts = Vec::new();
    let directory = archive.directory_offset();
    let mut members = archive.entries(&mut buffer);
    while let Some(member) = members.next_entry().ok()? {
        starts.push(member.local_header_offset());
    }
    starts.sort_unstable();
    starts.dedup();
    starts.push(directory);
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut is_short = false;
    for member in starts.windows(2) {
        let (start, end) = (member[0], member[1]);
        if end < start || end > tail.file_bytes {
            return None;
        }
        if end - start > MEMBER_BYTES_MAX {
            is_short = false;
            continue;
        }
        let was_short = std::mem::replace(&mut is_short, end - start < MEMBER_BYTES_MIN);
        let column = chunks.len() as u32;
        match chunks.last_mut().map(|last| &mut last.bytes) {
            Some(last) if was_short && is_short && last.end - last.start < MEMBER_BYTES_MIN => last.end = end,
            _ if column as usize == CHUNKS_MAX => return None,
            _ => chunks.push(Chunk { bytes: start..end, group: 0, column }),
        }
    }
    Some(chunks)
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

/// The shortest member that is a chunk of its own, in bytes: 64 KiB. Lower: archives of many
/// small files have more chunks. Higher: a reader of one short member has more fetched beside it.
/// Source: chosen here.
const MEMBER_BYTES_MIN: u64 = 64 << 10;

/// The longest member that is told, in bytes: 16 MiB. Lower: programs wait within more members,
/// and more is fetched behind their ends. Higher: one that reads the start of a member has more
/// fetched in vain. Longer ones are streams: what comes past their end is little for their length.
/// Source: chosen here; as the longest window of a kernel (`foreread-policy`).
const MEMBER_BYTES_MAX: u64 = 16 << 20;
