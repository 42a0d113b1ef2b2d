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

mod below;
mod coalesce;
mod concurrency;
mod dir;
mod dir_event;
mod dir_readahead;
mod epoch;
mod event;
mod fair_queue;
mod file_readahead;
mod follow;
mod hedge;
mod link;
mod numbered;
mod outline;
mod pace;
mod places;
mod read_around;
mod read_path;
mod replacement;
mod requests;
mod resident;
mod share;
mod stream;
mod stride;
mod swap_cost;
mod swap_event;
mod swap_page;
mod swap_path;
mod swap_readahead;
mod swap_replacement;
mod swap_slots;
mod swap_writes;
mod table;
pub mod units;
mod view_path;
mod walk;
mod window;

pub use dir_event::{Child, DirAction, DirCounters, DirEvent};
pub use dir_readahead::{DirOptions, DirReadahead};
pub use event::{Action, Class, Counters, Event, Found, Touch};
pub use read_path::{Memory, Options, ReadPath};
pub use replacement::Replacement;
pub use swap_event::{Advice, SwapAction, SwapCounters, SwapEvent};
pub use swap_path::{CLEAN_PAGES_MAX, SwapOptions, SwapPath};
pub use units::{DirId, Extent, FOLIO_PAGES_MAX, FileId, Nanos, PAGE_BYTES, RequestId};
pub use view_path::{ViewAction, ViewCounters, ViewEvent, ViewOptions, ViewPath};
