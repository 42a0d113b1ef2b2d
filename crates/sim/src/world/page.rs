//! What the page table knows of a page: whether it is there, its folio, and what became of it.

/// What is known of a page; folios are known by each of their pages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Page {
    /// The request that fetches or fetched it, its lower bits.
    pub(super) request: u32,
    /// Pages between the start of its folio and it.
    pub(super) back: u8,
    /// Pages of its folio.
    pub(super) pages: u8,
    pub(super) flags: u8,
}

/// It is there or in flight.
pub(super) const KNOWN: u8 = 1;
pub(super) const THERE: u8 = 2;
/// Kept at the first page of a folio.
pub(super) const MARKED: u8 = 4;
pub(super) const TOUCHED: u8 = 8;
pub(super) const FINISHED: u8 = 16;
/// The reference bit that policy clears.
pub(super) const AGAIN: u8 = 32;

impl Page {
    /// Whether it is there and nobody has read any of it; to be asked of the first page of a folio.
    pub(super) fn is_unread(self) -> bool {
        self.is(THERE) && self.flags & (TOUCHED | FINISHED) == 0
    }

    pub(super) fn is(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
