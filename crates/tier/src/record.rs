//! A record: up to 32 pages of one object, side by side in a segment.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::object::ObjectId;

/// Bytes of a page, and of a segment's header.
pub(crate) const PAGE: usize = 4096;
/// Pages of a block, and of the longest record.
pub(crate) const BLOCK_PAGES: u64 = 32;
/// Bytes before the first record.
pub(crate) const HEADER: u64 = PAGE as u64;
/// Bytes of a record's header.
pub(crate) const RECORD_HEADER: usize = 64;
/// Bytes beside each page, of its guard.
pub(crate) const CHECK: usize = 16;

/// A record: where it lies, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) object: ObjectId,
    pub(crate) first_page: u64,
    /// Bytes of content.
    pub(crate) bytes: u32,
    /// Where its header lies in the segment.
    pub(crate) offset: u32,
}

impl Record {
    pub(crate) fn pages(&self) -> u64 {
        u64::from(self.bytes).div_ceil(PAGE as u64)
    }

    /// The object, and its pages.
    pub(crate) fn piece(&self) -> (ObjectId, Range<u64>) {
        (self.object, self.first_page..self.first_page + self.pages())
    }

    /// Bytes in the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        RECORD_HEADER as u64 + u64::from(self.bytes) + self.pages() * CHECK as u64
    }

    /// Where the checksum of the page at place `at` of the record lies.
    pub(crate) fn page_offset(&self, at: u64) -> u64 {
        u64::from(self.offset) + RECORD_HEADER as u64 + at * (CHECK + PAGE) as u64
    }

    /// The bits of its pages in their block.
    pub(crate) fn bits(&self) -> u32 {
        page_bits(self.first_page, self.pages())
    }

    pub(crate) fn block(&self) -> u64 {
        block_number(self.object, self.first_page)
    }

    pub(crate) fn is_possible(&self) -> bool {
        self.bytes > 0
            && self.first_page < 1 << 52
            && self.first_page % BLOCK_PAGES + self.pages() <= BLOCK_PAGES
            && u64::from(self.offset) >= HEADER
    }
}

/// The bits of `pages` pages from `first` on, in the block of `first`.
pub(crate) fn page_bits(first: u64, pages: u64) -> u32 {
    (((1_u64 << pages) - 1) << (first % BLOCK_PAGES)) as u32
}

/// A number for the block of a page, as policy counts them.
pub(crate) fn block_number(object: ObjectId, page: u64) -> u64 {
    let [low, high] = object.halves();
    xxh3_64_with_seed(&(page / BLOCK_PAGES).to_le_bytes(), low ^ high.rotate_left(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_bits_in_their_block() {
        assert_eq!((page_bits(0, 32), page_bits(33, 2), page_bits(63, 1)), (u32::MAX, 6, 1 << 31));
    }
}
