//! The content of synthetic objects: every byte is a function of key, generation and offset, so an
//! object of any size needs no memory and a reader can verify each byte.
//!
//! ```text
//!  object:  | block 0 | block 1 | block 2 | ...      64 KiB each
//!                │         │         └──────────┐
//!                └─────────┼──────┐             │     where a block starts in the pool: a hash of
//!                     ┌────┘      │             │     (key, generation, index of the block)
//!  pool:    ..........[=======]...[=======]...[=======]......   4 MiB and a block of noise
//! ```
//!
//! A block is a piece of one pool of noise, so a response refers to memory that stays in the
//! cache, and [`fill`] and [`verify`] run at the speed of `memcpy` and `memcmp`. The cost: two
//! blocks are equal with a probability of 2^-22, so a mix-up of blocks, objects or generations
//! goes unseen that rarely.

use std::sync::LazyLock;

use bytes::Bytes;
use foreread_device::Random;

/// Content is made of blocks of this size; [`Content::chunk`] never crosses from one to the next.
pub const BLOCK_BYTES: u64 = 64 << 10;

/// The content of one generation of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

impl Content {
    /// The content that `key` has in its `generation`.
    pub fn new(key: &str, generation: u64) -> Self {
        Self { seed: Random::new(hash(key.as_bytes()) ^ generation).next_u64() }
    }

    /// A piece of the content from `offset` on: at least a byte and at most `bytes_max` (not 0),
    /// up to the end of the block. No copy is made.
    pub fn chunk(&self, offset: u64, bytes_max: u64) -> Bytes {
        let (start, end) = self.place(offset, bytes_max);
        POOL.slice(start..end)
    }

    /// Writes the content from `offset` on into all of `out`.
    pub fn fill(&self, mut offset: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (start, end) = self.place(offset, out.len() as u64);
            let (piece, rest) = out.split_at_mut(end - start);
            piece.copy_from_slice(&POOL[start..end]);
            offset += piece.len() as u64;
            out = rest;
        }
    }

    /// Compares `bytes` with the content from `offset` on. The error names the first byte that
    /// differs.
    pub fn verify(&self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Mismatch> {
        while !bytes.is_empty() {
            let (start, end) = self.place(offset, bytes.len() as u64);
            let (piece, rest) = bytes.split_at(end - start);
            let expected = &POOL[start..end];
            if piece != expected {
                let at = piece.iter().zip(expected).position(|(found, expected)| found != expected).unwrap_or(0);
                return Err(Mismatch { offset: offset + at as u64, found: piece[at], expected: expected[at] });
            }
            offset += piece.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Where in the pool the content from `offset` on lies, up to the end of the block or
    /// `bytes_max`.
    fn place(self, offset: u64, bytes_max: u64) -> (usize, usize) {
        let (block, within) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let position = Random::new(self.seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(POOL_POSITIONS);
        let start = position + within;
        (start as usize, (start + bytes_max.min(BLOCK_BYTES - within)) as usize)
    }
}

/// Makes the pool now, which takes 4 ms, instead of with the first byte: for measurements.
pub fn prepare() {
    LazyLock::force(&POOL);
}

/// A hash that is the same in every build: FNV-1a, then mixed, since neighbouring keys must not
/// give neighbouring seeds.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Random::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)).next_u64()
}

/// Writes what `key` has in its `generation` from `offset` on into all of `out`.
pub fn fill(key: &str, generation: u64, offset: u64, out: &mut [u8]) {
    Content::new(key, generation).fill(offset, out);
}

/// Compares `bytes` with what `key` has in its `generation` from `offset` on.
pub fn verify(key: &str, generation: u64, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
    Content::new(key, generation).verify(offset, bytes)
}

/// The first wrong byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the byte at offset {offset} is {found:#04x} instead of {expected:#04x}")]
pub struct Mismatch {
    /// Where in the object.
    pub offset: u64,
    /// The byte found.
    pub found: u8,
    /// The expected byte.
    pub expected: u8,
}

/// At how many places of the pool a block can start. 4 Mi of them keep the pool in a last-level
/// cache; fewer would make equal blocks likely enough to hide a fault.
const POOL_POSITIONS: u64 = 4 << 20;

static POOL: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = Random::new(0x666f_7265_7265_6164);
    let words = (POOL_POSITIONS + BLOCK_BYTES) / 8;
    (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect::<Vec<u8>>().into()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_agree_with_the_whole() {
        let mut whole = vec![0; 300_000];
        fill("a key", 3, 0, &mut whole);
        for (offset, len) in [(0, 1), (65_535, 2), (65_536, 65_536), (1, 299_999), (131_071, 0)] {
            let mut piece = vec![0; len];
            fill("a key", 3, offset as u64, &mut piece);
            assert_eq!(piece, whole[offset..offset + len]);
        }
        let content = Content::new("a key", 3);
        let mut offset = 0;
        while offset < 200_000 {
            let chunk = content.chunk(offset, 50_000);
            assert_eq!(chunk, whole[offset as usize..][..chunk.len()]);
            offset += chunk.len() as u64;
        }
    }

    #[test]
    fn key_generation_and_offset_all_matter() {
        let page = |key: &str, generation, offset| {
            let mut page = vec![0; 4096];
            fill(key, generation, offset, &mut page);
            page
        };
        let pages = [page("a", 1, 0), page("b", 1, 0), page("a", 2, 0), page("a", 1, 4096), page("a", 1, 65_536)];
        for (index, one) in pages.iter().enumerate() {
            assert!(pages[..index].iter().all(|other| other != one));
        }
    }

    #[test]
    fn verify_names_the_first_wrong_byte() {
        let mut bytes = vec![0; 200_000];
        fill("k", 1, 1 << 40, &mut bytes);
        assert_eq!(verify("k", 1, 1 << 40, &bytes), Ok(()));
        bytes[150_000] ^= 1;
        bytes[150_001] ^= 1;
        assert_eq!(verify("k", 1, 1 << 40, &bytes).unwrap_err().offset, (1 << 40) + 150_000);
        assert!(verify("k", 2, 1 << 40, &bytes).is_err());
    }

    #[test]
    fn the_pool_looks_like_noise() {
        let mut counts = [0u32; 256];
        for &byte in POOL.iter() {
            counts[usize::from(byte)] += 1;
        }
        let expected = POOL.len() as u32 / 256;
        assert!(counts.iter().all(|count| count.abs_diff(expected) < expected / 20));
    }
}
