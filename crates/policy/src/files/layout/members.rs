//! Members of an archive, and which of them are chunks.
//!
//! ```text
//!   members  |======|===|.|.|.|=====|~~~~~~~~~~~~~~~~|===|
//!   chunks   |  0   | 1 |  2  |  3  |                | 4 |
//!                       short ones: as one           long ones: none, they are read as streams
//! ```
//!
//! An archive is one group, whose columns are its members. Short ones behind each other are one
//! chunk, until that is long enough: an archive of many files has few chunks, and no gaps between
//! them. In which pages of it they begin is kept as bits: a read in no order brings its own member
//! and none beside it (`member_of`). Of a long one it brings no more than it asks for.
//!
//! The file does not know what is read (`run`). Source: docs/decisions/0114, 0125.

use alloc::vec::Vec;

use super::chunk::Chunk;
use crate::units::Extent;

/// The members that were told.
#[derive(Debug, Default)]
pub(super) struct Members {
    count: u32,
    /// The last one was short, and is the end of the last chunk.
    was_short: bool,
    /// For each chunk, the pages of it in which a short member begins: the lowest bit is its first
    /// page. None where it is one long member.
    starts: Vec<u32>,
}

impl Members {
    /// How many were told.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// A `member` lies behind those that were told, of which the archive has these `chunks`.
    pub(super) fn push(&mut self, member: Extent, chunks: &mut Vec<Chunk>) {
        self.count = self.count.saturating_add(1);
        let is_short = member.pages() <= SHORT_PAGES_MAX;
        let was_short = core::mem::replace(&mut self.was_short, false);
        let column = chunks.last().map_or(0, |last| last.column.saturating_add(1));
        let chunk = Chunk { extent: member, group: 0, column };
        if member.pages() > CHUNK_PAGES_MAX || !chunk.is_next(chunks.last()) {
            return;
        }
        let is_more = |last: &&mut Chunk| was_short && is_short && last.extent.pages() <= SHORT_PAGES_MAX;
        if let Some(last) = chunks.last_mut().filter(is_more) {
            last.extent.end = member.end;
            self.was_short = true;
            if let (Some(starts), Ok(page)) = (self.starts.last_mut(), (member.start - last.extent.start).try_into()) {
                *starts |= 1_u32.checked_shl(page).unwrap_or(0);
            }
        } else {
            chunks.push(chunk);
            self.starts.push(u32::from(is_short));
            self.was_short = is_short;
        }
    }

    /// The short members that begin in the same page of the chunk `nth` of these `chunks` as
    /// `read`, to their ends: the next one may begin within their last page. Nothing where none
    /// begins there.
    pub(super) fn member_of(&self, read: Extent, nth: usize, chunks: &[Chunk]) -> Option<Extent> {
        let (starts, chunk) = (*self.starts.get(nth)?, chunks.get(nth)?.extent);
        let page = u32::try_from(read.start.checked_sub(chunk.start)?).ok()?;
        let own = starts.checked_shr(page)?;
        // The lowest bit is that of the read.
        let next = (own >> 1).trailing_zeros();
        let end = if own >> 1 == 0 { chunk.end } else { read.start + u64::from(next) + 2 };
        (own & 1 != 0).then_some(Extent::new(read.start, end.min(chunk.end)))
    }

    /// Memory that a driver takes to tell them again, in bytes.
    pub(super) fn told_bytes(&self) -> usize {
        u64::from(self.count).next_power_of_two() as usize * size_of::<Extent>()
    }

    /// Memory that it takes beside itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }
}

/// The longest member that is one chunk with those beside it, in pages: 64 KiB. Lower: archives of
/// many small files have more chunks. Higher: a reader of one short member has more fetched beside
/// it. Source: chosen here.
const SHORT_PAGES_MAX: u64 = 16;

/// The longest member that is a chunk, in pages: 16 MiB. Lower: programs wait within more members,
/// and more is fetched behind their ends. Higher: one that reads the start of a member has more
/// fetched in vain; of streams, what comes past the end is little for their length. Source: chosen
/// here; as the longest window of a kernel.
const CHUNK_PAGES_MAX: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks_of(members: impl Iterator<Item = (u64, u64)>) -> Vec<Chunk> {
        let (mut told, mut chunks) = (Members::default(), Vec::new());
        members.for_each(|(start, end)| told.push(Extent::new(start, end), &mut chunks));
        chunks
    }

    /// Where the chunks of members lie that have these bounds, and their columns.
    fn chunks(bounds: &[u64]) -> Vec<(u64, u64, u32)> {
        let chunks = chunks_of(bounds.windows(2).map(|pair| (pair[0], pair[1])));
        chunks.iter().map(|chunk| (chunk.extent.start, chunk.extent.end, chunk.column)).collect()
    }

    #[test]
    fn short_members_are_one_chunk_until_that_is_long_enough() {
        assert_eq!(
            chunks(&[0, 25, 42, 43, 44, 60, 61, 83]),
            [(0, 25, 0), (25, 42, 1), (42, 60, 2), (60, 61, 3), (61, 83, 4)]
        );
        let many: Vec<u64> = (0..=40_000).collect();
        let many = chunks(&many);
        assert!(many.len() < 2_400, "{}", many.len());
        assert!(many.windows(2).all(|pair| pair[0].1 == pair[1].0), "without gaps");
    }

    #[test]
    fn a_read_at_the_start_of_a_member_names_all_of_it() {
        let (mut told, mut chunks) = (Members::default(), Vec::new());
        // Each ends within the page in which the next one begins; two begin in the last one.
        for (start, end) in [(0, 6), (5, 11), (10, 16), (15, 16), (15, 17), (17, 60)] {
            told.push(Extent::new(start, end), &mut chunks);
        }
        let member = |start: u64, nth| {
            let found = told.member_of(Extent::new(start, start + 1), nth, &chunks)?;
            Some((found.start, found.end))
        };
        assert_eq!([member(0, 0), member(5, 0), member(10, 0)], [Some((0, 6)), Some((5, 11)), Some((10, 16))]);
        assert_eq!(member(15, 0), Some((15, 17)), "the last of a chunk");
        assert_eq!([member(3, 0), member(16, 0), member(59, 1), member(70, 1)], [None; 4], "within a member");
        assert_eq!(member(17, 1), None, "a long one");
    }

    #[test]
    fn however_many_are_told_their_memory_is_counted() {
        for (count, told_bytes) in [(0, 16), (5, 128), (u32::MAX, 16 << 32)] {
            assert_eq!(Members { count, ..Members::default() }.told_bytes(), told_bytes);
        }
    }

    #[test]
    fn members_that_are_streams_are_no_chunks_and_part_short_ones() {
        assert_eq!(chunks(&[0, 1, 5_001, 5_002, 5_003, 9_999]), [(0, 1, 0), (5_001, 5_003, 1)]);
    }
}
