//! An entry of the page table: the state of a page and the folio that it belongs to.

use foreread_policy::RequestId;

/// One page. Every page of a folio has an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Page {
    /// Lower bits of the request that fetches or fetched it.
    pub(super) request: u32,
    /// Pages from the start of its folio to it.
    pub(super) back: u8,
    /// Pages of its folio.
    pub(super) pages: u8,
    pub(super) flags: u8,
}

/// It is resident or in flight.
pub(super) const KNOWN: u8 = 1;
/// It is resident.
pub(super) const THERE: u8 = 2;
/// Kept at the first page of a folio.
pub(super) const MARKED: u8 = 4;
/// A read used a part of it; of folios, kept at the first page.
pub(super) const TOUCHED: u8 = 8;
/// A read used all of it; of folios, kept at the first page.
pub(super) const FINISHED: u8 = 16;
/// The reference bit, which policy clears.
pub(super) const AGAIN: u8 = 32;

impl Page {
    /// The request that fetches or fetched it.
    pub(super) fn request(self) -> RequestId {
        RequestId(u64::from(self.request))
    }

    /// Whether its folio is resident and unread. For the first page of a folio only.
    pub(super) fn is_unread(self) -> bool {
        self.is(THERE) && self.flags & (TOUCHED | FINISHED) == 0
    }

    /// Whether its folio is resident or in flight, and unread. For the first page of a folio only.
    pub(super) fn is_ahead(self) -> bool {
        self.is(KNOWN) && self.flags & (TOUCHED | FINISHED) == 0
    }

    pub(super) fn is(self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}
