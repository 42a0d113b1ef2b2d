//! Where the parts of a file lie that its program reads, told by the file's own directory.
//!
//! ```text
//!   Parquet   PAR1 |chunk|chunk|chunk| .. |chunk| footer | its length, 4 bytes | PAR1
//!                   group 0, columns 0..n          ^ says where each chunk begins and ends
//!
//!   the last bytes of a file ──> look ──┬─> Unknown    no such format, or its directory is
//!                                       │              too long, or broken
//!                                       ├─> Needs(n)   it begins n bytes before the end
//!                                       └─> Chunks     where each lies, in the file's order
//! ```
//!
//! A program that reads columns says with its first read of a chunk how much it will read, and
//! with the columns of one row group which it will read of the next. That can be guessed from
//! lengths and distances of reads; the footer says it.
//!
//! *Invariants:* bytes of any kind make no panic, and memory in proportion to the footer at most.
//! Chunks do not overlap, lie in the file, and are told in the order in which they lie.
//!
//! The crate does no I/O, and decides nothing about what to read. The footer is decoded by the
//! `parquet` crate, without statistics and without codecs. Source: the format of Parquet;
//! docs/decisions/0094.

#![forbid(unsafe_code)]

use std::ops::Range;

use parquet::file::metadata::{
    ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};

/// What the end of a file tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Nothing.
    Unknown,
    /// So many bytes at the end of the file are needed to tell.
    Needs(u64),
    /// Where its chunks lie, in the order of the file.
    Chunks(Vec<Chunk>),
}

/// The values of one column in one group of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its bytes in the file.
    pub bytes: Range<u64>,
    /// The number of the group of rows.
    pub group: u32,
    /// The number of the column, the same in each group.
    pub column: u32,
}

/// What `end`, the last bytes of a file of `file_bytes` bytes, tells of it.
pub fn look(end: &[u8], file_bytes: u64) -> Layout {
    let Some((before, &[a, b, c, d, b'P', b'A', b'R', b'1'])) = end.split_last_chunk::<8>() else {
        return Layout::Unknown;
    };
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let needed = footer_bytes + TAIL_BYTES;
    if footer_bytes == 0 || footer_bytes > FOOTER_BYTES_MAX || needed + MAGIC_BYTES > file_bytes {
        return Layout::Unknown;
    }
    let Some(from) = before.len().checked_sub(footer_bytes as usize) else { return Layout::Needs(needed) };
    chunks(&before[from..], file_bytes - needed).map_or(Layout::Unknown, Layout::Chunks)
}

/// Whether a file of this name is likely to have a directory that [`look`] knows.
pub fn is_named_so(name: &str) -> bool {
    let ending = name.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

/// The chunks that `footer` names, which begins at `footer_at`. Nothing if one of them cannot be.
fn chunks(footer: &[u8], footer_at: u64) -> Option<Vec<Chunk>> {
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let decoded = ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options)).ok()?;
    let groups = decoded.row_groups();
    if groups.iter().map(RowGroupMetaData::num_columns).sum::<usize>() > CHUNKS_MAX {
        return None;
    }
    let mut chunks = Vec::new();
    for (group, columns) in (0..).zip(groups) {
        for (column, chunk) in (0..).zip(columns.columns()) {
            // Columns may lie in files of their own.
            if chunk.file_path().is_some() {
                return None;
            }
            let dictionary = chunk.dictionary_page_offset().filter(|&at| at > 0);
            let start = dictionary.map_or(chunk.data_page_offset(), |at| at.min(chunk.data_page_offset()));
            let start = u64::try_from(start).ok()?;
            let end = start.checked_add(u64::try_from(chunk.compressed_size()).ok()?)?;
            if start < MAGIC_BYTES || end > footer_at {
                return None;
            }
            if start < end {
                chunks.push(Chunk { bytes: start..end, group, column });
            }
        }
    }
    chunks.sort_unstable_by_key(|chunk| chunk.bytes.start);
    let overlap = chunks.windows(2).any(|pair| pair[0].bytes.end > pair[1].bytes.start);
    (!overlap).then_some(chunks)
}

/// How names of such files end. Source: the registration of `application/vnd.apache.parquet`, and
/// what programs write.
const ENDINGS: [&str; 3] = ["parquet", "parq", "pq"];

/// Bytes behind the footer: its length, and the magic number.
pub const TAIL_BYTES: u64 = 8;

/// Bytes of the magic number at the start of a file.
const MAGIC_BYTES: u64 = 4;

/// The longest footer that is decoded, in bytes: 2 MiB. Lower: files with many row groups or
/// columns are read as others are. Higher: decoding takes longer, and more memory that nothing
/// accounts for. Source: a footer of 16,384 chunks, a hundred bytes each.
pub const FOOTER_BYTES_MAX: u64 = 2 << 20;

/// The most chunks of a file that are told. Lower: files with many row groups or columns are read
/// as others are. Higher: more memory for each such file, 24 bytes a chunk. Source: chosen here;
/// 384 KiB.
pub const CHUNKS_MAX: usize = 1 << 14;
