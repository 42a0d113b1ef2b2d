//! Pages, extents, folios and identities: the units that every mechanism counts in.
//!
//! ```text
//!   file   |--------|--------|--------|--------|----      pages of 4 KiB, numbered from 0
//!   extent          [start . . . . . . end)               a run of pages, half open
//!   folio  |<-- 32 pages -->|<-- 32 pages -->|            an extent is held in pieces that never
//!                   [a . . .|b . . . . end)               cross a multiple of 32 pages: here a and b
//! ```

use core::fmt;

/// Bytes of a page. The unit in which residency is known.
pub const PAGE_BYTES: u64 = 4096;

/// The longest folio, in pages: 128 KiB, the largest read that a FUSE mount is sent by default, so
/// an aligned request is answered from one piece. Shorter costs an allocation and a look-up more;
/// longer keeps memory that only a part of is used.
pub const FOLIO_PAGES_MAX: u64 = 32;

/// One version of one object, as long as anybody has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// One directory, as long as anything is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirId(pub u64);

/// One request to the storage. Numbered from 0 in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A point in time, or a length of it: nanoseconds since the driver started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time that has passed since `earlier`, or zero.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Whether it is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// A length of time in milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }
}

/// A run of pages `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// Index of the first page.
    pub start: u64,
    /// Index after the last page.
    pub end: u64,
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

impl Extent {
    /// `[start, end)`; empty where `end` is not after `start`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// The pages that hold bytes `[offset, offset + len)`.
    pub const fn of_bytes(offset: u64, len: u64) -> Self {
        Self { start: offset / PAGE_BYTES, end: (offset + len).div_ceil(PAGE_BYTES) }
    }

    /// How many pages.
    pub const fn pages(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no page.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether a page is common to both.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether `page` is in it.
    pub const fn contains(self, page: u64) -> bool {
        self.start <= page && page < self.end
    }

    /// The folios that hold it, in order: cut at every multiple of [`FOLIO_PAGES_MAX`].
    pub fn folios(self) -> impl Iterator<Item = Self> {
        let mut start = self.start;
        core::iter::from_fn(move || {
            if start >= self.end {
                return None;
            }
            let end = ((start / FOLIO_PAGES_MAX + 1) * FOLIO_PAGES_MAX).min(self.end);
            let folio = Self { start, end };
            start = end;
            Some(folio)
        })
    }
}

/// In which state a read found its pages. The worst page decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// At least one page is neither resident nor in flight.
    Absent,
    /// None is absent, but the reader must wait for at least one that is in flight.
    InFlight,
    /// All are resident; the read is an event only because it touched a mark.
    Resident,
}

/// Why a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A reader waits for at least one of its pages.
    Demand,
    /// Nobody has asked for it yet: the first thing to go without.
    Speculative,
}

/// Which touch of a folio it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The first, not of its last page.
    First,
    /// The first of its last page.
    Finished,
    /// The first after that; or the first since [`Action::Clear`](crate::Action::Clear).
    Again,
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn folios_tile_an_extent_and_never_cross_a_boundary() {
        let folios: Vec<_> = Extent::new(30, 100).folios().collect();
        assert_eq!(folios, [Extent::new(30, 32), Extent::new(32, 64), Extent::new(64, 96), Extent::new(96, 100)]);
        assert_eq!(Extent::new(5, 5).folios().count(), 0);
    }

    #[test]
    fn bytes_round_out_to_pages() {
        assert_eq!(Extent::of_bytes(4095, 2), Extent::new(0, 2));
        assert_eq!(Extent::of_bytes(8192, 4096), Extent::new(2, 3));
    }
}
