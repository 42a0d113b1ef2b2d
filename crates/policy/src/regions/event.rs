//! The contract between the policy of a region and its driver: what the driver reports, and what
//! it is told to do.
//!
//! ```text
//!             Zero, or Read .. Completed .. Map                Written
//!   unmapped ──────────────────────────────────> clean ────────────────────> dirty
//!      ^                                          │ ^                          │
//!      └────────────────── Drop ──────────────────┘ └──── Clean .. Cleaned ────┘
//! ```
//!
//! An *unmapped* page has its contents in the spill file, or is zeroes. A *staged* page has been
//! read, and is held by the driver outside the mapping. A *clean* page is mapped, and the spill
//! file holds the same; it is protected, so that the first write is reported. A *dirty* page is
//! mapped and may differ; a page mapped without protection is dirty at once. A page that is not
//! dirty and has no copy in the spill file is zeroes: it was never written to, or held nothing but
//! zeroes when it was cleaned.
//!
//! *Invariants:* each [`RegionAction::Read`] is answered by one [`RegionEvent::Completed`], each
//! [`RegionAction::Clean`] by one [`RegionEvent::Cleaned`], in any order. No page is in two
//! requests.
//!
//! The contract has no cancellation: a request that was begun is completed. Source:
//! docs/decisions/0032; 0033 for the order of protection, write and unmapping.

use crate::units::Class;
use crate::units::{Extent, RequestId};

/// What a program says about its use of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No pattern: earlier advice for these pages no longer holds.
    Normal,
    /// They will be used in order, once.
    Sequential,
    /// They will be used in no order: nothing is read ahead.
    Random,
    /// They will be used soon: they are read now, as far as there is room, at most half of the
    /// budget.
    WillNeed,
    /// They are not used any more and their contents are given up: they are zeroes from now on. A
    /// page in a request is dropped when the request ends, unless it was written to since. The
    /// driver lets the program continue when [`crate::RegionPath::discarding`] is 0.
    DontNeed,
}

/// Something that happened. Pages are numbered from the start of the region, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionEvent {
    /// A thread touched a page that is not mapped. It waits until [`RegionAction::Map`],
    /// [`RegionAction::Zero`] or [`RegionAction::Fail`]. If the page has been mapped meanwhile
    /// there is no action: the driver lets the thread continue.
    Fault {
        /// The page.
        page: u64,
        /// The thread: any number that tells threads apart.
        thread: u32,
        /// The touch is a write: the page is mapped dirty.
        write: bool,
    },
    /// A thread writes to a clean page. The driver has removed the protection: the page is dirty.
    Written {
        /// The page.
        page: u64,
    },
    /// A [`RegionAction::Read`] is over: all its pages are staged, or none is.
    Completed {
        /// The request.
        request: RequestId,
        /// Whether the pages were read.
        came: bool,
    },
    /// These pages of a [`RegionAction::Clean`] hold nothing but zeroes and were not written.
    /// Reported before its [`RegionEvent::Cleaned`].
    Zeroes {
        /// The pages.
        pages: Extent,
    },
    /// A [`RegionAction::Clean`] is over. Pages written to since it began
    /// ([`RegionEvent::Written`]) stay dirty.
    Cleaned {
        /// The request.
        request: RequestId,
        /// Whether the spill file holds them, or they are zeroes. If not they are dirty as before,
        /// and may stay protected.
        came: bool,
    },
    /// The program gives advice for `pages`.
    Advised {
        /// The pages.
        pages: Extent,
        /// The advice.
        advice: Advice,
    },
    /// The budget changes: the number of pages that may be mapped, staged or arriving.
    Budget {
        /// The budget in pages; 0 counts as 1.
        pages: u64,
    },
    /// The spill file has room for other slots than it had; before the first of these events, for
    /// as many as there are pages. A page without a free slot stays in memory.
    Room {
        /// How many, from the first one on. Slots behind them that are in use stay in use:
        /// [`crate::RegionPath::slots`] says how many there must be room for.
        slots: u64,
    },
}

/// Something to do. The driver executes actions in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionAction {
    /// Map zeroes.
    Zero {
        /// The pages; none has a copy in the spill file.
        pages: Extent,
        /// Protect them, so that the first write to each is reported. Otherwise they are dirty.
        protect: bool,
    },
    /// Read from the spill file. Answered by [`RegionEvent::Completed`].
    Read {
        /// The request's identity in that event.
        request: RequestId,
        /// The pages. Each has a copy in the spill file and is neither mapped, staged nor
        /// arriving.
        pages: Extent,
        /// The slot of the first page in the spill file, in pages; the others follow it there too.
        slot: u64,
        /// Whether a thread waits for one of them.
        class: Class,
    },
    /// Map staged pages. Threads that wait for them continue.
    Map {
        /// The pages, all staged.
        pages: Extent,
        /// Protect them, so that the first write to each is reported. Otherwise they are dirty.
        protect: bool,
    },
    /// Protect dirty pages and write them to the spill file. Answered by [`RegionEvent::Cleaned`].
    Clean {
        /// The request's identity in that event.
        request: RequestId,
        /// The pages: all mapped and dirty, none in another request, at most
        /// [`crate::CLEAN_PAGES_MAX`].
        pages: Extent,
        /// The slot of the first page in the spill file, in pages; the others follow it there too.
        /// No other open request uses these slots. The next [`RegionAction::Clean`] often
        /// continues where this one ends, and can be written with it.
        slot: u64,
    },
    /// Unmap clean pages, or free staged ones. A dirty page is dropped only after
    /// [`Advice::DontNeed`]. None is in an open request.
    Drop {
        /// The pages.
        pages: Extent,
    },
    /// The pages could not be read, or no room could be made for them: the threads that wait for
    /// them get an error.
    Fail {
        /// The pages.
        pages: Extent,
    },
}

/// What was decided so far. No count decreases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionCounters {
    /// Faults on pages whose contents were in the spill file only.
    pub faults_major: u64,
    /// Faults on pages that were staged or arriving.
    pub faults_minor: u64,
    /// Faults on pages of zeroes.
    pub faults_zero: u64,
    /// Reads that a thread waited for from the start.
    pub reads_demand: u64,
    /// Reads ahead of any thread.
    pub reads_speculative: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Pages written to the spill file.
    pub pages_cleaned: u64,
    /// Pages read ahead and dropped before a use of them was seen.
    pub pages_wasted: u64,
}
