//! Regions: memory larger than its budget, which spills to a file and comes back before it is
//! touched.
//!
//! ```text
//!   Away ──(fault, or ahead of one)──> Arriving ──> Staged ──(touched)──> Clean <──> Dirty
//!    ^                                                 │                    │   cleaned
//!    └─────────────────────────────────────────────────┴────────────────────┘ dropped: only when the
//!                                                                             spill file holds the same
//! ```
//!
//! `event` is the contract, `path` the wiring; below it lie `faults` (what a fault finds), `reads`
//! (which pages come with it) and `cleaning` (which pages are written and dropped). `page` is what
//! is known of a page, `readahead` how large a cluster is, `replacement` which page leaves,
//! `slots` where in the spill file it lies, `cost` what a read of that file takes, `writes`
//! whether a page is mapped writable at once.

pub(crate) mod cost;
pub(crate) mod event;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod readahead;
pub(crate) mod replacement;
pub(crate) mod slots;
pub(crate) mod writes;
