//! The driver's side of a region of memory that spills: what it reports and what it is told to do.
//!
//! ```text
//!              Zero, or Read .. Completed .. Map          first write
//!   unmapped ------------------------------------> clean -------------> dirty
//!      ^                                             | ^                  |
//!      +---------------------- Drop -----------------+ +-- Clean .. Cleaned
//! ```
//!
//! A page is *unmapped* (its contents are zeroes, or in the spill file), *staged* (read, and held by the driver, not yet in the mapping),
//! or *mapped*: clean (the spill file holds the same, the page is protected so that a write is told) or dirty. A page that is not dirty
//! and has no copy in the spill file, because it was never written to or held nothing but zeroes when it was cleaned, is zeroes.

use crate::event::Class;
use crate::units::{Extent, RequestId};

/// What a program says of pages that it is going to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: what was said before does not hold any more.
    Normal,
    /// In order, once.
    Sequential,
    /// In no order: nothing is worth reading that was not asked for.
    Random,
    /// Soon: to be read now, as far as there is room.
    WillNeed,
    /// Not any more, and their contents neither: zeroes from now on. What is on its way is dropped when that is over, if nobody has written to
    /// it since; who advises waits until [`crate::SwapPath::discarding`] is 0.
    DontNeed,
}

/// Something that happened. Pages are numbered from the start of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapEvent {
    /// A thread touched a page that is not mapped, and waits for it: until it is told by [`SwapAction::Map`], [`SwapAction::Zero`] or
    /// [`SwapAction::Fail`]. Where it has been mapped meanwhile nothing is decided: the driver lets the thread go on.
    Fault {
        /// The page.
        page: u64,
        /// Which thread, by a number of its own.
        thread: u32,
        /// It writes: where the page is mapped, it is dirty from the start.
        write: bool,
    },
    /// A thread writes to a page that was clean. The driver has taken the protection away: the page is dirty.
    Written {
        /// The page.
        page: u64,
    },
    /// What [`SwapAction::Read`] asked for has been read, and is staged; or could not be, and nothing of it is.
    Completed {
        /// The request.
        request: RequestId,
        /// It came.
        came: bool,
    },
    /// Of the pages of a [`SwapAction::Clean`] these hold nothing but zeroes, and need not be written. Told before [`SwapEvent::Cleaned`].
    Zeroes {
        /// The pages.
        pages: Extent,
    },
    /// What [`SwapAction::Clean`] asked for is over. Pages written to since then ([`SwapEvent::Written`]) are dirty all the same.
    Cleaned {
        /// The request.
        request: RequestId,
        /// The spill file holds them, or they are zeroes. Otherwise they are dirty as before, and may stay protected.
        came: bool,
    },
    /// The program says something of `pages`.
    Advised {
        /// Which.
        pages: Extent,
        /// What.
        advice: Advice,
    },
    /// So many pages may be mapped or staged or on their way from now on.
    Budget {
        /// How many.
        pages: u64,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapAction {
    /// Map zeroes.
    Zero {
        /// The pages; none has a copy in the spill file.
        pages: Extent,
        /// Protected, so that the first write to each is told. Otherwise they are dirty.
        protect: bool,
    },
    /// Read from the spill file. Answered by [`SwapEvent::Completed`].
    Read {
        /// The request's identity in that event.
        request: RequestId,
        /// The pages. Each has a copy in the spill file and is neither mapped nor staged nor on its way.
        pages: Extent,
        /// Where the first of them lies in the spill file, in pages; the others follow it there too.
        slot: u64,
        /// Whether a thread waits for one of them.
        class: Class,
    },
    /// Map what is staged; threads that wait for it go on.
    Map {
        /// The pages, all staged.
        pages: Extent,
        /// Protected, so that the first write to each is told. Otherwise they are dirty.
        protect: bool,
    },
    /// Protect dirty pages and write them to the spill file. Answered by [`SwapEvent::Cleaned`].
    Clean {
        /// The request's identity in that event.
        request: RequestId,
        /// The pages, all mapped and dirty, none in another such request; [`crate::CLEAN_PAGES_MAX`] at most.
        pages: Extent,
        /// Where the first of them is to lie in the spill file, in pages; the others follow it there too. No request that is not over has any of these
        /// slots. What is cleaned next often goes on where this ends, and can be written with it.
        slot: u64,
    },
    /// Unmap clean pages, or forget staged ones. Dirty ones only where the program has said [`Advice::DontNeed`]. None is in a request that is not
    /// over.
    Drop {
        /// The pages.
        pages: Extent,
    },
    /// The pages could not be read: who waits for them is told so.
    Fail {
        /// The pages.
        pages: Extent,
    },
}

/// What has been decided so far. All counts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwapCounters {
    /// Faults on pages whose contents were in the spill file.
    pub faults_major: u64,
    /// Faults on pages that were staged, or already on their way.
    pub faults_minor: u64,
    /// Faults on pages never written to.
    pub faults_zero: u64,
    /// Requests that a thread waited for from the start.
    pub reads_demand: u64,
    /// The same ahead of any thread.
    pub reads_speculative: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Pages written to the spill file.
    pub pages_cleaned: u64,
    /// Pages read ahead and dropped before anybody was seen to use them.
    pub pages_wasted: u64,
}
