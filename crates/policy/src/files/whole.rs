//! Whole: a file of a few megabytes that is read from its start comes whole, on credit.
//!
//! ```text
//!   a first read, at the start of a file of up to 4 MiB, that has to wait
//!     |rrrr|------------------------------|    bought: a request each 1 MiB, side by side
//!          folio by folio, as readers touch them: paid back
//! ```
//!
//! The first read of a file says little of how much follows. A stream is trusted eight times as
//! far, and then waits for a second round trip. Mapped libraries, pictures and records of a data
//! set are read to their end, or nearly, so each would cost that round trip. Where only heads are
//! read (types of files, tags of pictures) the credit is soon spent, and reads fetch what they did
//! before.
//!
//! *Invariant:* what is fetched so and not read is bounded by the credit (`credit`).
//!
//! Larger files are the streams'; a small file that is expected is fetched before it is opened
//! (`directories`). Longer ones that are expected are bought here as well. What random reads of a
//! file bring of it is another rule's (`scattered`). Source: docs/decisions/0064 and 0086.

use crate::credit::Credit;
use crate::units::{Extent, PAGE_BYTES};

/// Parts that together have the first so many pages.
pub(crate) fn parts_of(pages: u64) -> impl Iterator<Item = Extent> {
    (0..pages).step_by(PART_PAGES as usize).map(move |start| Extent::new(start, (start + PART_PAGES).min(pages)))
}

/// What fetching files whole has gained lately, and how much more it may cost.
#[derive(Debug)]
pub(crate) struct Whole {
    credit: Credit,
}

impl Whole {
    /// For a budget of so many bytes.
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        Self { credit: Credit::new((capacity_bytes / BUDGET_SHARE).min(CREDIT_FIRST)) }
    }

    /// The parts of a file of so many pages that come with its first `read`, if that is at its
    /// start and the rest may be bought.
    pub(crate) fn parts(read: Extent, file_pages: u64) -> impl Iterator<Item = Extent> {
        let is_whole = read.start == 0 && read.end < file_pages && Self::may_be_whole(file_pages);
        parts_of(if is_whole { file_pages } else { 0 })
    }

    /// Whether a file of so many pages that is expected to be opened is bought, too: a small one
    /// is fetched on the credit of `directories` alone.
    pub(crate) fn is_bought(file_pages: u64) -> bool {
        file_pages > SMALL_PAGES && Self::may_be_whole(file_pages)
    }

    /// Buys `part`. Returns `false` if the credit does not suffice.
    pub(crate) fn buys(&mut self, part: Extent) -> bool {
        self.credit.spend(part.pages() * PAGE_BYTES)
    }

    /// It is not fetched.
    pub(crate) fn refused(&mut self, part: Extent) {
        self.credit.refused(part.pages() * PAGE_BYTES);
    }

    /// A reader touches pages of a file of so many pages for the first time; `bought`, and they
    /// were.
    pub(crate) fn touched(&mut self, pages: u64, file_pages: u64, bought: bool) {
        if bought {
            self.credit.hit(pages * PAGE_BYTES);
        } else if Self::may_be_whole(file_pages) {
            self.credit.used(pages * PAGE_BYTES);
        }
    }

    fn may_be_whole(file_pages: u64) -> bool {
        file_pages <= FILE_PAGES_MAX
    }
}

/// The longest file that comes whole, in pages: 4 MiB. Lower: larger libraries cost two round
/// trips or more. Higher: one head of a large file spends all credit. Source: docs/decisions/0064.
const FILE_PAGES_MAX: u64 = (4 << 20) / PAGE_BYTES;

/// The longest file that is fetched before it is opened without credit for what is read of it, in
/// pages: 256 KiB. Lower: small files of programs that read heads use up the credit. Higher: more
/// of files is fetched of which only heads are read. Source: `directories`, which fetches these.
const SMALL_PAGES: u64 = (256 << 10) / PAGE_BYTES;

/// A part of it, in pages: 1 MiB. Lower: more requests. Higher: one connection carries all of it,
/// and takes longer. Source: the size from which on a connection counts as busy
/// (`residency::folio`).
const PART_PAGES: u64 = (1 << 20) / PAGE_BYTES;

/// Credit of a mount at its start, in bytes. Lower: the first files cost more round trips. Higher:
/// more is fetched in vain for programs that read heads. Source: docs/decisions/0064.
const CREDIT_FIRST: u64 = 4 << 20;

/// Divisor of the budget for the first credit. Lower: in a small budget, heads of a few files push
/// much out. Higher: a small budget has no file whole. Source: a guess, not measured; 256 KiB of
/// 16 MiB.
const BUDGET_SHARE: u64 = 64;
