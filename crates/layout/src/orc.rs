//! ORC: column chunks in stripes, each with a footer of its own.
//!
//! ```text
//!   ORC |stripe|stripe| .. |stripe| metadata | footer | postscript | its length, 1 byte
//!         └─ |index|column 1|column 2| .. |column n| stripe's footer: the length of each stream
//! ```
//!
//! The file's footer says where the stripes lie, and each stripe's footer where its columns do. So
//! two looks are needed: [`look`] tells the footers of the stripes, and [`Stripes::chunks`] what
//! these say. The streams of one column lie side by side and are one chunk; files whose writers
//! order them otherwise are not known. Those of the index are
//! none: few readers ask for them, and they are short. A stripe's footer is the last chunk of its
//! group, of a column of its own: a reader of some columns reads it first.
//!
//! Footers are messages of Protocol Buffers, decoded by the `prost` crate, and most are
//! compressed: with zlib (`flate2`), Snappy (`snap`) or Zstandard (`ruzstd`). Those with LZO or
//! LZ4 are not known. The file does not know other formats. Source: the specification of ORC v1;
//! docs/decisions/0114.

use std::io::Read;
use std::ops::Range;

use prost::Message;
use ruzstd::decoding::StreamingDecoder;

use crate::told::{CHUNKS_MAX, Chunk, DIRECTORY_BYTES_MAX, Layout, Stripe, Stripes};

impl Stripes {
    /// Where the footers lie, in the order of the file.
    pub fn footers(&self) -> impl ExactSizeIterator<Item = Range<u64>> {
        self.stripes.iter().map(|stripe| stripe.footer.clone())
    }

    /// The chunks that `footers` name, the bytes of all stripes' footers in their order. Nothing
    /// if one of them cannot be, or there are too many.
    pub fn chunks<'a>(&self, footers: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<Chunk>> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut last_column = 0;
        for ((group, stripe), footer) in (0..).zip(&self.stripes).zip(footers) {
            let footer = StripeFooter::decode(&*decompressed(footer, self.compression)?).ok()?;
            let (mut at, first) = (stripe.data - stripe.index_bytes, chunks.len());
            for stream in footer.streams {
                let start = at;
                at = start.checked_add(stream.length).filter(|&end| end <= stripe.footer.start)?;
                if start < stripe.data || start == at {
                    continue;
                }
                last_column = last_column.max(stream.column);
                match chunks.last_mut() {
                    Some(last) if (last.group, last.column) == (group, stream.column) => last.bytes.end = at,
                    _ => chunks.push(Chunk { bytes: start..at, group, column: stream.column }),
                }
            }
            let mut columns: Vec<u32> = chunks[first..].iter().map(|chunk| chunk.column).collect();
            columns.sort_unstable();
            let is_apart = columns.windows(2).any(|pair| pair[0] == pair[1]);
            if is_apart || chunks.len() >= CHUNKS_MAX || last_column as usize >= CHUNKS_MAX {
                return None;
            }
            chunks.push(Chunk { bytes: stripe.footer.clone(), group, column: FOOTER });
        }
        for footer in chunks.iter_mut().filter(|chunk| chunk.column == FOOTER) {
            footer.column = last_column + 1;
        }
        Some(chunks)
    }
}

pub(crate) fn look(end: &[u8], file_bytes: u64) -> Layout {
    let Some((before, &[b'O', b'R', b'C', postscript_bytes])) = end.split_last_chunk::<4>() else {
        return Layout::Unknown;
    };
    // The magic number is the end of the postscript.
    let Some(rest) = usize::from(postscript_bytes).checked_sub(3) else { return Layout::Unknown };
    let tail = 1 + u64::from(postscript_bytes);
    let Some(from) = before.len().checked_sub(rest) else { return needs(tail, file_bytes) };
    let postscript = &end[from..end.len() - 1];
    let Ok(postscript) = PostScript::decode(postscript) else { return Layout::Unknown };
    let Some(needed) = tail.checked_add(postscript.footer_length) else { return Layout::Unknown };
    let Some(at) = (end.len() as u64).checked_sub(needed) else { return needs(needed, file_bytes) };
    let footer = &end[at as usize..from];
    stripes(footer, postscript.compression, file_bytes - needed).map_or(Layout::Unknown, Layout::Stripes)
}

fn needs(bytes: u64, file_bytes: u64) -> Layout {
    if bytes > DIRECTORY_BYTES_MAX || bytes > file_bytes { Layout::Unknown } else { Layout::Needs(bytes) }
}

/// The stripes that `footer` names, all of which end before `footer_at`. Nothing if it is broken.
fn stripes(footer: &[u8], compression: i32, footer_at: u64) -> Option<Stripes> {
    let footer = Footer::decode(&*decompressed(footer, compression)?).ok()?;
    let (mut stripes, mut before, mut footers) = (Vec::new(), 0, 0);
    if footer.stripes.is_empty() || footer.stripes.len() > STRIPES_MAX {
        return None;
    }
    for stripe in footer.stripes {
        let data = stripe.offset.checked_add(stripe.index_length)?;
        let footer = data.checked_add(stripe.data_length)?;
        let end = footer.checked_add(stripe.footer_length)?;
        if stripe.offset < before || end > footer_at || stripe.footer_length > DIRECTORY_BYTES_MAX || footer == end {
            return None;
        }
        (before, footers) = (end, footers + stripe.footer_length);
        stripes.push(Stripe { data, index_bytes: stripe.index_length, footer: footer..end });
    }
    (footers <= DIRECTORY_BYTES_MAX).then_some(Stripes { compression, stripes })
}

/// What `bytes` are, which come in blocks if they are compressed: three bytes say how long one is,
/// and whether it is compressed after all. Nothing if they are more than a directory may have.
fn decompressed(mut bytes: &[u8], compression: i32) -> Option<Vec<u8>> {
    if compression == NONE {
        return Some(bytes.to_vec());
    }
    let (mut all, mut blocks) = (Vec::new(), 0);
    while let Some((&[a, b, c], rest)) = bytes.split_first_chunk::<3>() {
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (block, behind) = rest.split_at_checked((header >> 1) as usize)?;
        let most = DIRECTORY_BYTES_MAX.checked_sub(all.len() as u64)?;
        if header & 1 == 1 {
            all.extend_from_slice(block);
        } else {
            block_into(block, compression, most, &mut all)?;
        }
        (bytes, blocks) = (behind, blocks + 1);
        if blocks > BLOCKS_MAX {
            return None;
        }
    }
    (bytes.is_empty() && all.len() as u64 <= DIRECTORY_BYTES_MAX).then_some(all)
}

/// Appends what the compressed `block` is to `all`: at most `most` bytes.
fn block_into(block: &[u8], compression: i32, most: u64, all: &mut Vec<u8>) -> Option<()> {
    match compression {
        ZLIB => flate2::read::DeflateDecoder::new(block).take(most).read_to_end(all).ok().map(|_| ()),
        ZSTD => {
            // It holds back a window before it gives the first byte.
            let decoder = StreamingDecoder::new_with_max_window_size(block, DIRECTORY_BYTES_MAX).ok()?;
            decoder.take(most).read_to_end(all).ok().map(|_| ())
        }
        SNAPPY if snap::raw::decompress_len(block).ok()? as u64 <= most => {
            all.extend(snap::raw::Decoder::new().decompress_vec(block).ok()?);
            Some(())
        }
        _ => None,
    }
}

#[derive(Clone, PartialEq, Message)]
struct PostScript {
    #[prost(uint64, tag = "1")]
    footer_length: u64,
    #[prost(int32, tag = "2")]
    compression: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Footer {
    #[prost(message, repeated, tag = "3")]
    stripes: Vec<StripeInformation>,
}

#[derive(Clone, PartialEq, Message)]
struct StripeInformation {
    #[prost(uint64, tag = "1")]
    offset: u64,
    #[prost(uint64, tag = "2")]
    index_length: u64,
    #[prost(uint64, tag = "3")]
    data_length: u64,
    #[prost(uint64, tag = "4")]
    footer_length: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StripeFooter {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<Stream>,
}

#[derive(Clone, PartialEq, Message)]
struct Stream {
    #[prost(uint32, tag = "2")]
    column: u32,
    #[prost(uint64, tag = "3")]
    length: u64,
}

// `CompressionKind` of the specification.
const NONE: i32 = 0;
const ZLIB: i32 = 1;
const SNAPPY: i32 = 2;
const ZSTD: i32 = 5;

/// The most blocks of a compressed footer. Lower: long footers in short blocks are not known.
/// Higher: ones that are made to take long take longer. Source: chosen here; blocks have 64 KiB
/// and more, and a footer 2 MiB.
const BLOCKS_MAX: u32 = 256;

/// The column of footers, until the last one of the others is known.
const FOOTER: u32 = u32::MAX;

/// How names of such files end. Source: what Hive, Spark and pyarrow write.
pub(crate) const ENDINGS: [&str; 1] = ["orc"];

/// The most stripes whose footers are asked for. Lower: longer files are read as others are.
/// Higher: a program that reads one stripe of many has more fetched in vain, a page for each.
/// Source: chosen here; files of 8 GiB in stripes of 64 MiB.
const STRIPES_MAX: usize = 128;
