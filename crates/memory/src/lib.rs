//! Memory in user space that is larger than its budget, and objects of any storage as memory.
//!
//! ```text
//!   program ── touch ──> page there: nothing happens here
//!                  └──── page not there: the kernel tells the pager (userfaultfd), and the thread waits
//!                                             │ event
//!                                             v
//!                        policy::SwapPath: what to read, map, write back, drop
//!                                             │ actions
//!                                             v
//!                        spill file <── io_uring, past the page cache ──> frames ──> copied into the mapping: the thread goes on
//! ```
//!
//! [`Region::anonymous`] makes zeroed memory that spills; [`Region::map`] shows an object of an engine. `include/foreread.h` is the first for
//! other languages.
//!
//! *Invariant:* what to read ahead and what leaves memory first is decided in `policy`; only a [`View`], which has no policy of its own and whose
//! engine reads ahead, drops its oldest pages by itself.
//!
//! # Reading order
//!
//! `region.rs` (what a program sees), `pager.rs` (the one thread), `uffd.rs`, `carrier.rs` with `ring.rs` and `threads.rs`, `frames.rs`, `spill.rs`,
//! `view.rs`.

#![deny(unsafe_code)]

mod bare;
mod budget;
mod c_interface;
mod error;
mod kernel;
mod region;
mod view;

pub use bare::Bare;
pub use budget::BUDGET_BYTES_MIN;
pub use error::Error;
pub use foreread_policy::SwapCounters;
pub use region::spill::Spill;
pub use region::stats::{Gauges, Stats};
pub use region::{Advice, Region, RegionBuilder};
pub use view::{View, ViewBuilder, ViewStats};
