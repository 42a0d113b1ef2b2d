//! What the driver itself keeps of each page: two bits. And which pages were ever used, which is
//! what the tables of all pages take memory for.
//!
//! ```text
//!   mapped      the page is in the mapping
//!   protected   .. and the first write to it is a fault; never set without `mapped`
//! ```
//!
//! Everything else about a page is policy's.

use foreread_policy::Extent;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct PageStates {
    mapped: Bits,
    protected: Bits,
    mapped_pages: u64,
    /// A bit for each [`CHUNK_PAGES`]: one of them was mapped.
    used: Bits,
    used_chunks: u64,
}

#[derive(Debug)]
struct Bits(Vec<u64>);

impl PageStates {
    /// `pages` pages, none of them mapped.
    pub(crate) fn new(pages: u64) -> Self {
        let bits = |count: u64| Bits(vec![0; count.div_ceil(64) as usize]);
        let used = bits(pages.div_ceil(CHUNK_PAGES));
        Self { mapped: bits(pages), protected: bits(pages), mapped_pages: 0, used, used_chunks: 0 }
    }

    /// Memory that the tables of all pages take, here and in policy, for those that were used.
    pub(crate) fn tables_bytes(&self) -> u64 {
        self.used_chunks * CHUNK_PAGES * PAGE_TABLES_BYTES
    }

    pub(crate) fn is_mapped(&self, page: u64) -> bool {
        self.mapped.has(page)
    }

    pub(crate) fn is_protected(&self, page: u64) -> bool {
        self.protected.has(page)
    }

    /// How many pages are mapped.
    pub(crate) fn mapped_pages(&self) -> u64 {
        self.mapped_pages
    }

    pub(crate) fn map(&mut self, pages: Extent, protected: bool) {
        for chunk in pages.start / CHUNK_PAGES..pages.end.div_ceil(CHUNK_PAGES) {
            self.used_chunks += u64::from(!self.used.put(chunk, true));
        }
        for page in pages.start..pages.end {
            self.mapped_pages += u64::from(!self.mapped.put(page, true));
            self.protected.put(page, protected);
        }
    }

    /// Whether any was mapped.
    pub(crate) fn unmap(&mut self, pages: Extent) -> bool {
        let before = self.mapped_pages;
        for page in pages.start..pages.end {
            self.mapped_pages -= u64::from(self.mapped.put(page, false));
            self.protected.put(page, false);
        }
        self.mapped_pages < before
    }

    /// Changes the protection of those of `pages` that are mapped.
    pub(crate) fn protect(&mut self, pages: Extent, protected: bool) {
        for page in pages.start..pages.end {
            self.protected.put(page, protected && self.mapped.has(page));
        }
    }
}

/// Pages whose records in policy share a page of memory: 16 bytes each. Lower: memory is charged
/// that is not used yet. Higher: memory is used that is not charged. Source: the size of a record.
const CHUNK_PAGES: u64 = 256;

/// Memory that the tables take for a page of the region, in bytes: a record and a slot in policy,
/// two bits here, one for the slot. Lower: more is used than is charged. Higher: less of a budget
/// is left for pages. Source: the sizes, and `tests/bookkeeping.rs`.
const PAGE_TABLES_BYTES: u64 = 21;

impl Bits {
    fn has(&self, index: u64) -> bool {
        self.0[(index / 64) as usize] & (1 << (index % 64)) != 0
    }

    /// The bit's old value.
    fn put(&mut self, index: u64, value: bool) -> bool {
        let (word, bit) = (&mut self.0[(index / 64) as usize], 1 << (index % 64));
        let was = *word & bit != 0;
        if value {
            *word |= bit;
        } else {
            *word &= !bit;
        }
        was
    }
}

/// Splits `pages` into the longest runs on which `is` has one value, in order, each with that
/// value.
pub(crate) fn runs(pages: Extent, mut is: impl FnMut(u64) -> bool) -> impl Iterator<Item = (Extent, bool)> {
    let mut start = pages.start;
    std::iter::from_fn(move || {
        if start >= pages.end {
            return None;
        }
        let what = is(start);
        let end = (start..pages.end).find(|page| is(*page) != what).unwrap_or(pages.end);
        let run = Extent::new(start, end);
        start = end;
        Some((run, what))
    })
}

/// Splits `pages` into pieces of at most `most` pages.
pub(crate) fn pieces(pages: Extent, most: u64) -> impl Iterator<Item = Extent> {
    (pages.start..pages.end).step_by(most as usize).map(move |start| Extent::new(start, (start + most).min(pages.end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_mapped_twice_is_counted_once() {
        let mut states = PageStates::new(100);
        states.map(Extent::new(60, 70), true);
        states.map(Extent::new(65, 75), false);
        assert_eq!(states.mapped_pages(), 15);
        assert!(states.is_protected(64) && !states.is_protected(65));
        assert!(states.unmap(Extent::new(0, 65)));
        assert!(!states.unmap(Extent::new(0, 65)));
        assert_eq!(states.mapped_pages(), 10);
        states.protect(Extent::new(0, 66), true);
        assert!(states.is_protected(65) && !states.is_protected(0));
    }

    #[test]
    fn runs_and_pieces_tile_an_extent() {
        let found: Vec<_> = runs(Extent::new(2, 9), |page| (4..7).contains(&page)).collect();
        let want = [(Extent::new(2, 4), false), (Extent::new(4, 7), true), (Extent::new(7, 9), false)];
        assert_eq!(found, want);
        let found: Vec<_> = pieces(Extent::new(1, 6), 2).collect();
        assert_eq!(found, [Extent::new(1, 3), Extent::new(3, 5), Extent::new(5, 6)]);
    }
}
