//! The contract between the policy of a view and its driver: what the driver reports, and what it
//! is told to do.
//!
//! ```text
//!   Fault ──> Read .. Completed ──> Map       the threads that wait continue
//!     │                    │         └──> Lost ──> Fail
//!     │                    └──> Fail          they get an error; the next touch reads again
//!     └──> Wake                               the block was mapped meanwhile
//! ```
//!
//! A *block* is 128 KiB, aligned; the last one ends with the object.
//!
//! *Invariants:* each [`ViewAction::Read`] is answered by one [`ViewEvent::Completed`].
//! [`ViewAction::Map`] is the last action of its event, so [`ViewEvent::Lost`] can be the next
//! event.
//!
//! There is no time in this contract, and no write: a view is not changed. Source:
//! docs/decisions/0039.

use crate::units::Extent;

/// Something that happened. Pages are numbered from the object's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewEvent {
    /// A thread touched a page that was not mapped. It waits until [`ViewAction::Map`],
    /// [`ViewAction::Wake`] or [`ViewAction::Fail`].
    Fault {
        /// The page.
        page: u64,
    },
    /// A [`ViewAction::Read`] is over.
    Completed {
        /// The pages of that action.
        pages: Extent,
        /// Whether all of them were read.
        came: bool,
    },
    /// A [`ViewAction::Map`] could not be executed.
    Lost {
        /// The pages of that action.
        pages: Extent,
    },
}

/// Something to do. The driver executes actions in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewAction {
    /// Read from the object. Answered by [`ViewEvent::Completed`].
    Read {
        /// The pages: a block.
        pages: Extent,
    },
    /// Map what was read. Threads that wait for it continue.
    Map {
        /// The pages: the block that was just completed.
        pages: Extent,
    },
    /// The page is mapped already: threads that wait for it continue.
    Wake {
        /// The page.
        page: u64,
    },
    /// Unmap.
    Drop {
        /// The pages: a block that is mapped.
        pages: Extent,
    },
    /// The pages cannot be read or mapped: threads that wait for them get an error.
    Fail {
        /// The pages: a block that is not mapped.
        pages: Extent,
    },
}

/// What was decided so far. No count decreases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewCounters {
    /// Touches of pages that were not mapped.
    pub faults: u64,
    /// Blocks read from the object.
    pub reads: u64,
    /// Pages that could not be read or mapped.
    pub pages_failed: u64,
}
