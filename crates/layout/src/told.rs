//! What directories of files tell.
//!
//! The file decodes no format. Source: docs/decisions/0094, 0114, 0129.

use std::ops::Range;

use crate::directory::Directory;

/// What the end of a file tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Nothing.
    Unknown,
    /// So many bytes at the end of the file are needed to tell.
    Needs(u64),
    /// Where the footers of its stripes lie, which tell more.
    Stripes(Stripes),
    /// Where its chunks lie, in the order of the file. Programs read one by one call, or a few.
    Chunks(Vec<Chunk>),
    /// It is an archive, whose directory says where its members lie.
    Archive(Directory),
}

/// How programs read a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By one call, or a few.
    Whole,
    /// In short pieces, one after the other.
    Pieces,
}

/// The values of one column in one group of rows, or what else is read as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its bytes in the file.
    pub bytes: Range<u64>,
    /// The number of the group of rows.
    pub group: u32,
    /// The number of the column, the same in each group.
    pub column: u32,
}

/// The stripes of a file, whose footers say where its chunks lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripes {
    /// How their footers are compressed, as the format numbers it.
    pub(crate) compression: i32,
    pub(crate) stripes: Vec<Stripe>,
}

/// A stripe of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// Where the streams of its columns begin.
    pub(crate) data: u64,
    /// Bytes of the index before them.
    pub(crate) index_bytes: u64,
    /// Where its footer lies.
    pub(crate) footer: Range<u64>,
}

/// Bytes at the end of a file that say whether it has a directory. Source: what stands behind the
/// directory of a zip archive; behind a footer of Parquet stand eight.
pub const TAIL_BYTES: u64 = 22;

/// The longest footer that is decoded, in bytes: 2 MiB. Lower: files with many row groups or
/// columns are read as others are. Higher: decoding takes longer, and more memory that nothing
/// accounts for. Source: a footer of 16,384 chunks, a hundred bytes each. The directory of an
/// archive is read as it comes, and may be of any length.
pub const DIRECTORY_BYTES_MAX: u64 = 2 << 20;

/// The most column chunks of a file that are told. Lower: files with many row groups or columns
/// are read as others are. Higher: more memory for each such file, 24 bytes a chunk. Source:
/// chosen here; 384 KiB.
pub const CHUNKS_MAX: usize = 1 << 14;
