//! Parquet: column chunks in groups of rows, named by a footer.
//!
//! The footer is decoded by the `parquet` crate, without statistics and without codecs. The file
//! does not know other formats. Source: the format of Parquet; docs/decisions/0094.

use parquet::file::metadata::{
    ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};

use crate::told::{CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout};

/// What `end`, the last bytes of a file of `file_bytes` bytes, tells of it.
pub(crate) fn look(end: &[u8], file_bytes: u64) -> Layout {
    let Some((before, &[a, b, c, d, b'P', b'A', b'R', b'1'])) = end.split_last_chunk::<8>() else {
        return Layout::Unknown;
    };
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let needed = footer_bytes + TAIL_BYTES;
    if footer_bytes == 0 || footer_bytes > DIRECTORY_BYTES_MAX || needed + MAGIC_BYTES > file_bytes {
        return Layout::Unknown;
    }
    let Some(from) = before.len().checked_sub(footer_bytes as usize) else { return Layout::Needs(needed) };
    chunks(&before[from..], file_bytes - needed).map_or(Layout::Unknown, Layout::Chunks)
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
pub(crate) const ENDINGS: [&str; 3] = ["parquet", "parq", "pq"];

/// Bytes behind the footer: its length, and the magic number.
const TAIL_BYTES: u64 = 8;

/// Bytes of the magic number at the start of a file.
const MAGIC_BYTES: u64 = 4;
