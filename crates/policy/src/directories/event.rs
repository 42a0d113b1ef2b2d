//! The contract of directory readahead: what the driver reports, and what policy tells it to do.
//!
//! ```text
//!   Read, Named, Opened, Expected ──> policy ──┬─> List ──────> Listed, once a page, or Failed
//!   Sought, Met, Capacity, Ttl, Closed ──>     ├─> ListFrom ──> the same
//!                                              ├─> Renew ─────> Renewed
//!                                              ├─> ListBelow ─> Listed and Along, any number,
//!                                              │                then ListedBelow
//!                                              ├─> Fetch ─────> Fetched
//!                                              └─> Discard, Trim, Drop: no answer
//!   Older ───────────────────────> policy ──────> Release: no answer
//! ```
//!
//! *Invariants:* an entry is identified by its place in the listing, from 0 on. `ListBelow` ends
//! with one `ListedBelow`, even if the storage fails; `Fetch` with one `Fetched`. An entry keeps
//! its place until a `Listed` says that its names changed.
//!
//! Names, sizes in bytes, versions and requests for segments are the driver's; so are retries.
//! Source: docs/decisions/0029 and 0034.

use crate::ends::Ends;
use crate::units::{Class, Found};
use crate::units::{DirId, Nanos};

/// One entry of a directory, in the order of the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// A subdirectory, by the identity that it has from now on.
    Directory(DirId),
    /// A file.
    File {
        /// Its length in pages, the last one counted whole.
        pages: u64,
        /// A number that files whose names end alike have in common, such as those in `.so`.
        kind: u8,
        /// A number that files whose names begin alike, up to their first dot, have in common,
        /// such as `a.c` and `a.h`; 0 if it is not known.
        stem: u32,
    },
}

/// The name of a file, as far as a listing tells it: its kind and its stem.
pub(crate) type Name = (u8, u32);

/// What directories may take of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirShares {
    /// All that is known of directories.
    pub known_bytes: u64,
    /// Files that were fetched and not opened yet. Pages of the budget hold them.
    pub contents_bytes: u64,
}

impl DirShares {
    /// The shares of a budget: pages keep a half of it, and names that a kernel remembers may take
    /// the last eighth.
    pub const fn of_budget(bytes: u64) -> Self {
        Self { known_bytes: bytes / 8 * KNOWN_EIGHTHS, contents_bytes: bytes / CONTENTS_SHARE }
    }

    /// The least budget in whose shares so much may be known of directories.
    pub const fn budget_of(known_bytes: u64) -> u64 {
        known_bytes.div_ceil(KNOWN_EIGHTHS) * 8
    }
}

/// What may be known of directories, in eighths of the budget. Lower: less than a million names is
/// known in 1 GiB. Higher: pages, which have what is left, are evicted earlier. Source:
/// docs/decisions/0046.
const KNOWN_EIGHTHS: u64 = 3;

/// Divisor of the budget: files fetched and not opened may take a quarter of it. Lower: pages are
/// evicted for them. Higher: less is fetched ahead. Source: a guess, not measured.
const CONTENTS_SHARE: u64 = 4;

/// Something that happened. An entry is identified by its place in the listing, from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirEvent<'a> {
    /// The budget has changed: the shares from now on. Reported again as long as more is known
    /// than may be ([`crate::DirReadahead::is_over`]).
    Capacity(DirShares),
    /// Listings are valid for so long from now on, also those that are known.
    Ttl(Nanos),
    /// The driver keeps the name of a directory that no listing names.
    Met {
        /// The directory.
        dir: DirId,
        /// Bytes that the driver keeps for it.
        bytes: u64,
    },
    /// A reader asks for the entries of `dir` from `entry` on.
    Read {
        /// The directory.
        dir: DirId,
        /// The first entry that the reader asks for.
        entry: u32,
        /// Whether it is known, or in flight.
        found: Found,
    },
    /// A reader looks up a name in `dir`.
    Named {
        /// The directory.
        dir: DirId,
        /// Which entry has the name, by the latest listing, however old that is; `None` if that
        /// tells nothing, or that there is no such name.
        entry: Option<u32>,
        /// Whether a valid listing answers it, or one is in flight.
        found: Found,
    },
    /// A reader reads a file in `dir` of whose name nothing is known. The read goes out at once,
    /// and its answer tells what the name is ([`crate::DirReadahead::reads_at_once`]).
    ReadByName {
        /// The directory.
        dir: DirId,
        /// The directories above it, the nearest first; none unless they are wanted
        /// ([`crate::DirReadahead::wants_above`]).
        above: &'a [DirId],
    },
    /// Such a read has been answered.
    AnsweredByName {
        /// Whether it has told of a file. It has not if there is none, or if it was refused.
        there: bool,
    },
    /// A reader looks up a name that the listing of `dir` does not tell, or enters the directory
    /// of that name: one that lies among entries which are forgotten ([`DirAction::Trim`]), or
    /// have not come again; or that would be there, in a page that has expired, where pages are
    /// renewed ([`crate::DirReadahead::renews_pages`]).
    Sought {
        /// The directory.
        dir: DirId,
        /// The first of these entries.
        from: u32,
        /// The entry after the last one; `u32::MAX` if that is not known.
        to: u32,
    },
    /// A reader opens a file.
    Opened {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// Whether its contents are resident, or in flight; of a file of which only ends were
        /// fetched ([`crate::DirReadahead::fetched_ends`]), whether these are.
        found: Found,
    },
    /// No reader has a file open any more, and some of its ends was read. Told of files of which
    /// ends may be fetched alone ([`crate::DirReadahead::reads_ends`]).
    Closed {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// What readers were given of it, from its start on and up to its end.
        ends: Ends,
    },
    /// Of the ends of a file that were to be fetched only these found room, and are in flight.
    /// When they have come, [`DirEvent::Fetched`] tells that as well.
    Cut {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// As many pages of each end as found room.
        ends: Ends,
    },
    /// A program said that files will be opened in this order. Several orders are followed side by
    /// side.
    Expected {
        /// The files: the directory of each, and which of its entries it is.
        files: &'a [(DirId, u32)],
        /// Bytes of files that were fetched in this order and not opened yet, at most; `None` has
        /// policy decide.
        ahead_bytes: Option<u64>,
        /// They come after those of the order that was told last, unless a file of that was opened
        /// since: then this is an order of its own.
        continues: bool,
    },
    /// Programs take back what they said of files that will be opened.
    Unexpected,
    /// The next entries of a listing have come.
    Listed {
        /// The directory.
        dir: DirId,
        /// They are the first: a new listing replaces the one before.
        first: bool,
        /// The one before had the same names at the same places.
        same: bool,
        /// The entries.
        children: &'a [Child],
        /// They are the last.
        last: bool,
        /// Bytes that the driver keeps for the listing so far.
        bytes: u64,
    },
    /// The answer to a [`DirAction::Renew`].
    Renewed {
        /// The directory.
        dir: DirId,
        /// The first entry of the action.
        from: u32,
        /// The entries of the action, if they have the names that they had; none if they have
        /// others, or the request failed.
        children: &'a [Child],
    },
    /// A listing that is not, or no longer, the latest of its directory is kept: for readers in
    /// the middle of it, or until the latest has come.
    Older {
        /// Its number: no other listing has the same.
        listing: u64,
        /// Bytes that the driver keeps for it; 0 if it is gone, or the latest.
        bytes: u64,
    },
    /// A listing failed.
    Failed {
        /// The directory.
        dir: DirId,
    },
    /// A subtree request also brought a directory that it was not made for. Its whole listing is
    /// the next event ([`DirEvent::Listed`]).
    Along {
        /// The directory.
        dir: DirId,
        /// When the storage was asked.
        requested: Nanos,
    },
    /// The request of a [`DirAction::ListBelow`] is over. Its directories that were not reported
    /// did not come whole, or the storage failed.
    ListedBelow {
        /// The directory.
        dir: DirId,
        /// The first entry of the action.
        from: u32,
    },
    /// The request of a [`DirAction::Fetch`] is over.
    Fetched {
        /// The directory of the file.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// Whether the file is resident. If not, there was no room, or the storage failed.
        came: bool,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirAction {
    /// List `dir` further, from where its listing ends. Each page is reported
    /// ([`DirEvent::Listed`]).
    List {
        /// The directory.
        dir: DirId,
        /// List it from its first entry: its listing has expired, or there is none.
        restarts: bool,
        /// Demand if a reader waits.
        class: Class,
        /// How many requests for different segments of it may be in flight, where the storage can
        /// list segments.
        parallel: u32,
    },
    /// List `dir` anew from one of its entries on, which is forgotten or expired, in place of what
    /// is kept of it. The entries have the places that they had. Each page is reported
    /// ([`DirEvent::Listed`]).
    ListFrom {
        /// The directory.
        dir: DirId,
        /// The first entry.
        from: u32,
    },
    /// Ask for a page of `dir` again, by one request, and keep everything else of its listing.
    /// Report what came of it ([`DirEvent::Renewed`]), once.
    Renew {
        /// The directory.
        dir: DirId,
        /// The first entry.
        from: u32,
        /// The entry after the last one.
        to: u32,
    },
    /// List, by one request, the subtrees of the directories among some entries of `dir`, ahead of
    /// any reader. Report those that come whole ([`DirEvent::Listed`]), other directories that
    /// come whole, further below or behind ([`DirEvent::Along`]), and at last
    /// [`DirEvent::ListedBelow`].
    ListBelow {
        /// The directory.
        dir: DirId,
        /// The first entry.
        from: u32,
        /// The entry after the last one.
        to: u32,
    },
    /// Fetch a file that no reader has opened. If its name is being looked up
    /// ([`DirEvent::Named`]), the fetch answers that, too.
    Fetch {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
        /// What of it; `None` for all.
        ends: Option<Ends>,
    },
    /// The file was fetched and is no longer expected: drop its unread pages.
    Discard {
        /// Its directory.
        dir: DirId,
        /// Which of its entries.
        entry: u32,
    },
    /// Forget the entries of `dir` before a place: they take more than their share of memory. The
    /// others keep their places.
    Trim {
        /// The directory.
        dir: DirId,
        /// The first entry to keep.
        to: u32,
    },
    /// Forget what is known of `dir`.
    Drop {
        /// The directory.
        dir: DirId,
    },
    /// Forget what is kept of an older listing ([`DirEvent::Older`]). Readers in the middle of it
    /// go on with listings of their own.
    Release {
        /// Its number.
        listing: u64,
    },
}

/// Counts of what directory readahead has decided. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirCounters {
    /// Listings begun or continued because a reader waited.
    pub lists_demand: u64,
    /// Listings begun or continued ahead of any reader.
    pub lists_speculative: u64,
    /// Requests for subtrees.
    pub lists_below: u64,
    /// Directories listed ahead that a reader then read.
    pub lists_hit: u64,
    /// Files fetched before they were opened.
    pub fetches: u64,
    /// Fetched files that a reader then opened.
    pub fetches_hit: u64,
    /// Walks recognised.
    pub walks: u64,
}

impl core::ops::Add for DirCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            lists_demand: self.lists_demand + other.lists_demand,
            lists_speculative: self.lists_speculative + other.lists_speculative,
            lists_below: self.lists_below + other.lists_below,
            lists_hit: self.lists_hit + other.lists_hit,
            fetches: self.fetches + other.fetches,
            fetches_hit: self.fetches_hit + other.fetches_hit,
            walks: self.walks + other.walks,
        }
    }
}
