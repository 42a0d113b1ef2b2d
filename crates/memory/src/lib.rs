//! Memory in user space that is larger than its budget, and objects of any storage as memory.
//!
//! ```text
//!   program ── touch ──> page in memory: no code runs here
//!                  └───> page absent: the thread waits, the kernel tells the pager (userfaultfd)
//!                                              │ event
//!                                              v
//!                        policy::RegionPath: which pages to read, map, clean, drop
//!                                              │ actions
//!                                              v
//!                        spill file <── io_uring, past the page cache ──> frames
//!                                                                           │ copied
//!                                                                           v
//!                                                       the mapping; the thread goes on
//! ```
//!
//! [`Region::anonymous`] makes zeroed memory that spills to a file; [`Region::map`] shows an
//! object of an engine as memory. [`Allocator`] makes blocks in a region. `include/foreread.h`
//! offers the first to other languages.
//!
//! *Invariant:* this crate has no rule about which pages to read ahead or which leave memory
//! first. `policy::RegionPath` decides that for regions, `policy::ViewPath` for views.
//!
//! # Reading order
//!
//! `region.rs` (the program's side), `region/pager.rs` (the thread that answers faults),
//! `region/resident.rs` (pages in memory), `region/carrier.rs` with `ring.rs` and `threads.rs`
//! (transfers), `region/spill.rs`; `view.rs`; `kernel/uffd.rs`, `kernel/mapping.rs`,
//! `kernel/frames.rs`. `bare.rs` is a yardstick for measurements.

#![deny(unsafe_code)]

mod allocator;
mod bare;
mod budget;
mod c_interface;
mod error;
mod kernel;
mod region;
mod view;

pub use allocator::{Allocator, AllocatorBuilder, AllocatorStats};
pub use bare::Bare;
pub use budget::{BUDGET_BYTES_MIN, ROOM_BESIDE_BYTES};
pub use error::Error;
pub use foreread_policy::RegionCounters;
pub use region::spill::Spill;
pub use region::stats::{Gauges, Stats};
pub use region::{Advice, Region, RegionBuilder};
pub use view::{View, ViewBuilder, ViewStats};
