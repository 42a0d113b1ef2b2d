//! Every decision of the read path: what to read ahead, how far, in which order, when to stop, and
//! what to drop.
//!
//! **Policy is pure; drivers execute.** Nothing here does I/O, reads a clock, holds a lock or
//! touches a byte of data. The engine runs this crate against real storage, the simulator runs it
//! against models, and a log of one replays in the other.
//!
//! # The contract
//!
//! Every event must be followed by a complete drain of the actions, and time never goes back.
//!
//! 1. [`ReadPath::handle`]`(now, event)` tells policy what happened. A debug build asserts that
//!    `now` is not before the last one and that no action is left over.
//! 2. [`ReadPath::poll_action`] until `None` tells the driver what to do. The driver executes the
//!    actions in order. Its page table holds what they say before it reports the next event, so
//!    policy knows what is resident without asking.
//! 3. Getters ([`ReadPath::counters`], [`ReadPath::memory`]) may be called at any time and change
//!    nothing.
//!
//! Directories ([`DirReadahead`]), regions ([`RegionPath`]) and views ([`ViewPath`]) are used in
//! the same way.
//!
//! A plain hit is no event. A driver reports a read only if it finds a page absent, in flight or
//! marked ([`Event::Read`]). It reports first touches of folios, touches of their last pages, and
//! later touches in batches ([`Event::Referenced`]), before the next event that could evict.
//!
//! # Folders
//!
//! - [`units`]: pages, extents, folios, identities, time.
//! - `read`: the contract of the read path, and its wiring.
//! - `files`: how reads become streams, and streams become requests.
//! - `residency`: the budget, what it is spent on, and what is evicted first.
//! - `queue`: which request starts next, which join it, and what they cost.
//! - `directories`: what is listed and which small files are fetched ahead; a contract of its own.
//! - `regions`: memory larger than its budget; a contract of its own.
//! - `views`: an object as memory; a contract of its own.
//! - `names`: which names a kernel is asked to forget; a contract of its own.
//! - `tier`: what a cache on a local disk keeps; a contract of its own.
//! - `collections`: maps that the folders above stand on.
//! - `credit`: what guesses may cost.
//! - `ends`: how much of a file is read from its start on, and up to its end.
//! - `division`: which part of a budget each engine of a process has; a contract of its own.
//!
//! The header of each file names the source of its rule. Each constant states its unit, what a
//! lower and a higher value do, and its source.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod collections;
mod credit;
mod directories;
mod division;
mod ends;
mod files;
mod names;
mod queue;
mod read;
mod regions;
mod residency;
mod tier;
pub mod units;
mod views;

pub use directories::event::{Child, DirAction, DirCounters, DirEvent, DirShares};
pub use directories::path::lookups::LEVELS_ABOVE;
pub use directories::path::renewals::is_in_first_half;
pub use directories::path::{DirOptions, DirReadahead};
pub use division::{Division, EngineUse, PartChange};
pub use ends::Ends;
pub use files::cached::Cached;
pub use files::kernel_window::{Chunks, Lengths, kernel_window_bytes, may_begin_call};
pub use files::window::state::{Bound, StreamState};
pub use files::window::{Pattern, REQUEST_PAGES_MAX};
pub use names::{NameId, Names, Next};
pub use queue::fair_queue::Service;
pub use queue::hedge::Hedge;
pub use queue::link::LinkState;
pub use queue::throttle::Throttle;
pub use read::event::{Action, Counters, Event};
pub use read::path::{Memory, Options, ReadPath};
pub use regions::event::{Advice, RegionAction, RegionCounters, RegionEvent};
pub use regions::path::cleaning::CLEAN_PAGES_MAX;
pub use regions::path::{RegionOptions, RegionPath};
pub use residency::replacement::Replacement;
pub use residency::waste::Wasted;
pub use tier::backlog::Backlog;
pub use tier::model::{TierCounts, TierModel};
pub use tier::write_pace::WritePace;
pub use tier::{TierBlock, TierPath, TierRoom};
pub use units::{
    Class, DirId, Extent, FOLIO_PAGES_MAX, FileId, Found, Nanos, PAGE_BYTES, PAGE_PARTS, ReadId, Records, RequestId,
    Source, Touch,
};
pub use views::event::{ViewAction, ViewCounters, ViewEvent};
pub use views::path::{ViewOptions, ViewPath};
