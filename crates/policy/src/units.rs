//! Pages, extents, folios and identities: the units that every mechanism counts in.
//!
//! ```text
//!   file   |--------|--------|--------|--------|----      pages of 4 KiB, numbered from 0
//!   extent          [start . . . . . . end)               a run of pages, half open
//!   folio  |<-- 32 pages -->|<-- 32 pages -->|            an extent is held in pieces that never
//!                   [a . . .|b . . . . end)               cross a multiple of 32: here a and b
//! ```
//!
//! *Invariant:* the folios of an extent lie side by side, and none crosses a multiple of 32 pages.
//!
//! Source: pages and folios as a kernel's page cache has them; the sizes, at their constants.

use core::fmt;

/// Bytes of a page, the unit in which residency is known. Lower: the same memory takes more
/// entries. Higher: a read of 4 KiB fetches bytes that it did not ask for. Source: the kernel's
/// `PAGE_SIZE` on x86-64.
pub const PAGE_BYTES: u64 = 4096;

/// Pages of the longest folio: 128 KiB. Lower: an aligned read of 128 KiB costs more allocations
/// and look-ups. Higher: a folio of which only a part is read holds more memory in vain. Source:
/// the largest read that the kernel sends to a FUSE mount by default, so that one folio answers an
/// aligned read.
pub const FOLIO_PAGES_MAX: u64 = 32;

/// One version of one object, from [`Event::Open`](crate::Event::Open) to
/// [`Event::Forget`](crate::Event::Forget).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// One directory, for as long as anything is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DirId(pub u64);

/// One request to the storage. Numbered from 0 in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// One read that a driver has told policy of. Numbered in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// A point in time, or a length of it: nanoseconds since the driver started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The time that has passed since `earlier`, or zero.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Whether the length is zero.
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

    /// Whether the two have a page in common.
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

/// Runs of pages at a constant distance, of which an extent has some.
///
/// ```text
///   extent    [##....##....##....##)      `pages` 2, `delta` 6: pages between them are not kept
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Records {
    /// First page of one of them that no other lies before.
    pub start: u64,
    /// Pages of each: at least one.
    pub pages: u64,
    /// Whole pages from the start of one to the start of the next: at least `pages`.
    pub delta: u64,
    /// What the distance is longer than that, in parts of a page ([`PAGE_PARTS`]).
    pub fraction: u32,
}

impl Records {
    /// What of `extent` lies in records, in order; all of it, if there are none.
    pub fn within(records: Option<Self>, extent: Extent) -> impl Iterator<Item = Extent> {
        let all = Self { start: extent.start, pages: extent.pages(), delta: extent.pages().max(1), fraction: 0 };
        let Self { start, pages, delta, fraction } = records.unwrap_or(all);
        let distance = (u128::from(delta) << PAGE_PARTS.ilog2()) + u128::from(fraction);
        let at = move |number: u64| start + ((u128::from(number) * distance) >> PAGE_PARTS.ilog2()) as u64;
        let first = u128::from(extent.start.saturating_sub(start)) << PAGE_PARTS.ilog2();
        let starts = ((first / distance) as u64..).map(at).take_while(move |&start| start < extent.end);
        let cut = move |at: u64| Extent::new(at.max(extent.start), (at + pages).min(extent.end));
        starts.map(cut).filter(|record| !record.is_empty())
    }
}

/// `START+PAGES/DELTA`, and `.FRACTION` where there is one.
impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, pages, delta, fraction } = self;
        write!(f, "{start}+{pages}/{delta}")?;
        if *fraction > 0 { write!(f, ".{fraction}") } else { Ok(()) }
    }
}

/// Parts of a page in which distances are told that are no whole number of pages. Lower: places of
/// records are wrong by a page after as many of them. Higher: distances of long files leave 64
/// bits. Source: derived; a file of 4 TiB has fewer records.
pub const PAGE_PARTS: u64 = 1 << 20;

/// The state in which a read found its pages. The worst page decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// At least one page is neither resident nor in flight.
    Absent,
    /// None is absent, but the read must wait for at least one that is in flight.
    InFlight,
    /// All are resident; the read is an event only because it touched a mark.
    Resident,
}

/// Why a request is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A read waits for at least one of its pages.
    Demand,
    /// No read waits for it: it gives way to demand.
    Speculative,
}

/// Where the bytes of a request come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The storage.
    Storage,
    /// The tier: a local copy of what was read once.
    Tier,
}

/// Which touch of a folio is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The first touch, not of the last page.
    First,
    /// The first touch of the last page.
    Finished,
    /// The first touch after [`Touch::Finished`], or the first since
    /// [`Action::Clear`](crate::Action::Clear).
    Again {
        /// Pages of the folio that the reader was given.
        pages: u64,
    },
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
    fn records_are_cut_at_the_ends_of_an_extent() {
        let records = Some(Records { start: 10, pages: 2, delta: 6, fraction: 0 });
        let within = |start, end| Records::within(records, Extent::new(start, end)).collect::<Vec<_>>();
        assert_eq!(within(10, 24), [Extent::new(10, 12), Extent::new(16, 18), Extent::new(22, 24)]);
        assert_eq!(within(11, 17), [Extent::new(11, 12), Extent::new(16, 17)]);
        assert_eq!(within(12, 16), []);
        assert_eq!(within(0, 11), [Extent::new(10, 11)]);
        let records = Some(Records { start: 10, pages: 2, delta: 6, fraction: PAGE_PARTS as u32 / 2 });
        let halves: Vec<_> = Records::within(records, Extent::new(15, 31)).map(|record| record.start).collect();
        assert_eq!(halves, [16, 23, 29], "six pages and a half from one to the next");
        assert_eq!(Records::within(None, Extent::new(3, 9)).collect::<Vec<_>>(), [Extent::new(3, 9)]);
    }

    #[test]
    fn bytes_round_out_to_pages() {
        assert_eq!(Extent::of_bytes(4095, 2), Extent::new(0, 2));
        assert_eq!(Extent::of_bytes(8192, 4096), Extent::new(2, 3));
    }
}
