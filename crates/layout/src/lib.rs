//! Where the parts of a file lie that its program reads, told by the file's own directory.
//!
//! ```text
//!   Parquet   PAR1 |chunk|chunk|chunk| .. |chunk| footer | its length, 4 bytes | PAR1
//!                   group 0, columns 0..n          ^ says where each chunk begins and ends
//!   ORC       ORC |stripe|stripe| .. |stripe| footer | postscript
//!                    └─ each has a footer of its own, which says where its columns lie
//!   zip       |member|member|member| .. |member| directory | where that begins, 22 bytes
//!
//!   the last bytes of a file ──> look ──┬─> Unknown    no such format, or its directory is
//!                                       │              too long, or broken
//!                                       ├─> Needs(n)   it begins n bytes before the end
//!                                       ├─> Stripes    where the footers lie that tell
//!                                       ├─> Chunks     where each lies, in the file's order
//!                                       └─> Archive    its directory, to be read piece by piece
//! ```
//!
//! A program that reads columns says with its first read of a chunk how much it will read, and
//! with the columns of one row group which it will read of the next. That can be guessed from
//! lengths and distances of reads; the footer says it. A member of a zip archive is read in
//! pieces, one after the other: the directory says how far.
//!
//! *Invariants:* bytes of any kind make no panic, and take some tens of MiB of memory at most, or
//! for each member of an archive 16 bytes. Chunks, or members, do not overlap, lie in the file,
//! and are told in the order in which they lie.
//!
//! The crate does no I/O, and does not decide what is fetched. Other crates decode the footers
//! (`parquet`, `prost`).
//! Source: the formats; docs/decisions/0094, 0114, 0129.

#![forbid(unsafe_code)]

mod directory;
mod orc;
mod parquet;
mod told;
mod zip;

pub use directory::Directory;
pub use told::{Access, CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, Stripes, TAIL_BYTES};

/// What `end`, the last bytes of the file `name` of `file_bytes` bytes, tells of it.
pub fn look(end: &[u8], file_bytes: u64, name: &str) -> Layout {
    let layout = [parquet::look, orc::look].iter().map(|look| look(end, file_bytes));
    let layout = layout.into_iter().find(|layout| *layout != Layout::Unknown);
    layout.unwrap_or_else(|| zip::look(end, file_bytes, is_named(name, &zip::ENDINGS)))
}

/// How programs read the parts of a file of this name, if it is likely to have a directory that
/// [`look`] knows.
pub fn access(name: &str) -> Option<Access> {
    if is_named(name, &parquet::ENDINGS) {
        return Some(Access::Whole);
    }
    (is_named(name, &orc::ENDINGS) || is_named(name, &zip::ENDINGS)).then_some(Access::Pieces)
}

fn is_named(name: &str, endings: &[&str]) -> bool {
    let ending = name.rsplit('/').next().and_then(|last| last.rsplit_once('.'));
    ending.is_some_and(|(_, ending)| endings.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}
