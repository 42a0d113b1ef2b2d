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
//!                                       └─> Members    the same, of an archive
//! ```
//!
//! A program that reads columns says with its first read of a chunk how much it will read, and
//! with the columns of one row group which it will read of the next. That can be guessed from
//! lengths and distances of reads; the footer says it. A member of a zip archive is read in
//! pieces, one after the other: the directory says how far.
//!
//! *Invariants:* bytes of any kind make no panic, and take some tens of MiB of memory at most.
//! Chunks, or members, do not overlap, lie in the file, and are told in the order in which they
//! lie.
//!
//! The crate does no I/O, and does not decide what is fetched. Other crates decode the formats
//! (`parquet`, `rawzip`, `prost`).
//! Source: the formats; docs/decisions/0094, 0114.

#![forbid(unsafe_code)]

mod orc;
mod parquet;
mod told;
mod zip;

pub use told::{Access, CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, Stripes, TAIL_BYTES};

/// What `end`, the last bytes of a file of `file_bytes` bytes, tells of it.
pub fn look(end: &[u8], file_bytes: u64) -> Layout {
    let formats = [parquet::look, orc::look, zip::look];
    let looks = formats.iter().map(|look| look(end, file_bytes));
    looks.into_iter().find(|layout| *layout != Layout::Unknown).unwrap_or(Layout::Unknown)
}

/// How programs read the parts of a file of this name, if it is likely to have a directory that
/// [`look`] knows.
pub fn access(name: &str) -> Option<Access> {
    let (_, ending) = name.rsplit('/').next()?.rsplit_once('.')?;
    let is_of = |endings: &[&str]| endings.iter().any(|known| ending.eq_ignore_ascii_case(known));
    if is_of(&parquet::ENDINGS) {
        return Some(Access::Whole);
    }
    (is_of(&orc::ENDINGS) || is_of(&zip::ENDINGS)).then_some(Access::Pieces)
}
