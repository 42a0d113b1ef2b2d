//! The driver's side of the contract of a view: what it reports and what it is told to do.

use crate::units::Extent;

/// Something that happened. Pages are numbered from the object's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewEvent {
    /// A thread touched a page that was not there, and waits for it: until it is told by [`ViewAction::Map`], [`ViewAction::Wake`] or
    /// [`ViewAction::Fail`].
    Fault {
        /// The page.
        page: u64,
    },
    /// What [`ViewAction::Read`] asked for is over.
    Completed {
        /// The pages, as they were asked for.
        pages: Extent,
        /// All of them came.
        came: bool,
    },
    /// What [`ViewAction::Map`] said could not be done.
    Lost {
        /// The pages, as they were to be mapped.
        pages: Extent,
    },
}

/// Something to do, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewAction {
    /// Read from the object. Answered by [`ViewEvent::Completed`].
    Read {
        /// The pages: a block.
        pages: Extent,
    },
    /// Map what came; threads that wait for it go on.
    Map {
        /// The pages: the block that was just completed.
        pages: Extent,
    },
    /// The page is mapped: threads that wait for it go on.
    Wake {
        /// The page.
        page: u64,
    },
    /// Unmap.
    Drop {
        /// The pages: a block that is mapped.
        pages: Extent,
    },
    /// The pages cannot be had: who waits for them is told so.
    Fail {
        /// The pages: a block that is not mapped.
        pages: Extent,
    },
}

/// What has been decided so far. All counts only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ViewCounters {
    /// Touches of pages that were not there.
    pub faults: u64,
    /// Blocks asked for.
    pub reads: u64,
    /// Pages that could not be had.
    pub pages_failed: u64,
}
