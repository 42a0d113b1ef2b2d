//! Every decision of the read path: what to read ahead, how far, in which order, when to stop, what to drop.
//!
//! **Policy is pure; drivers execute.** Nothing here does I/O, knows a clock, holds a lock or touches a byte of data. The
//! engine runs this crate against real storage, a simulator runs it against models, and a log of one replays in the other.
//!
//! # The contract
//!
//! [`ReadPath`] has three kinds of method. A driver uses them in this order, always:
//!
//! 1. [`ReadPath::handle`]`(now, event)` tells what happened. `now` never goes back.
//! 2. [`ReadPath::poll_action`] until `None` tells what to do. Actions are executed in order; the page table holds what they
//!    say before the next event is handled, so policy knows what is resident without asking.
//! 3. Getters ([`ReadPath::counters`], [`ReadPath::memory`]) may be called at any time and change nothing.
//!
//! A plain hit is no event: only a read that finds a page absent, in flight or marked is ([`Event::Read`]). First touches of
//! folios, of their last pages, and after that, arrive in batches ([`Event::Referenced`]), before the next event that could evict.
//!
//! # Reading order
//!
//! [`mod@units`] (pages, extents, folios), [`event`](Event) (the driver's side), `read_path` (the wiring), then the mechanisms, one file
//! each: `file_readahead` (streams of one file), `outline` (what of each a read is compared with), `stream` (one stream's window), `pace` (when its next part is due), `stride`
//! (arithmetic progressions), `read_around` (what comes
//! along with a random read), `share` (how far each of many may go), `resident` (the budget and what it is spent on), `replacement` (what leaves it
//! first), `requests` (what is in flight and is granted memory next), `link` (what the storage costs),
//! `fair_queue` (whose turn it is), `coalesce` (what goes with it), `concurrency` (how many requests at a time), `hedge` (what is late).
//!
//! Memory larger than its budget has a contract of its own ([`SwapEvent`], [`SwapAction`]): `swap_path` (the wiring), `swap_page` (what is known of
//! a page), `swap_readahead` (what comes along with a fault), `swap_cost` (what a read costs), `swap_replacement` (what leaves), `swap_slots` (where to),
//! `swap_writes` (what is mapped as if it had been written to). An object that is mapped has another: `view_path`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod collections;
mod directories;
mod files;
mod queue;
mod read;
mod regions;
mod residency;
pub mod units;
mod views;

pub use directories::event::{Child, DirAction, DirCounters, DirEvent};
pub use directories::path::{DirOptions, DirReadahead};
pub use read::event::{Action, Counters, Event};
pub use read::path::{Memory, Options, ReadPath};
pub use regions::event::{Advice, SwapAction, SwapCounters, SwapEvent};
pub use regions::path::cleaning::CLEAN_PAGES_MAX;
pub use regions::path::{SwapOptions, SwapPath};
pub use residency::replacement::Replacement;
pub use units::{Class, DirId, Extent, FOLIO_PAGES_MAX, FileId, Found, Nanos, PAGE_BYTES, RequestId, Touch};
pub use views::event::{ViewAction, ViewCounters, ViewEvent};
pub use views::path::{ViewOptions, ViewPath};
