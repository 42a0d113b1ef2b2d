//! Regions: memory larger than its budget. Pages that are evicted go to a spill file, and come
//! back, if possible, before a thread touches them.
//!
//! ```text
//!          fault, or readahead         read           mapped          written to
//!   Away ─────────────────────> Arriving ───> Staged ────────> Clean ──────────> Dirty
//!    ^                             │            │               │ ^                │
//!    └──────── read failed ────────┴── dropped ─┴─── dropped ───┘ └──── cleaned ───┘
//! ```
//!
//! A page of zeroes is mapped without a read. A page that is written to, or expected to be, is
//! mapped dirty at once. Cleaning writes a dirty page to the spill file.
//!
//! `event` is the contract and `path` the wiring. Below `path` lie `faults` (what a fault finds),
//! `reads` (which pages are read with it) and `cleaning` (which pages are written and dropped).
//! `page` holds the state of each page, `readahead` decides the size of a cluster, `runs` how much
//! is read where a thread begins, `replacement` which page is evicted, `slots` its place in the
//! spill file, `cost` what a read of that file costs, and `writes` whether a page is mapped
//! writable at once.
//!
//! *Invariants:* pages mapped, staged and arriving never exceed the budget, unless the budget was
//! just made smaller. A dirty page is dropped only when the program has given it up.
//!
//! Touches of mapped pages are not seen, so nothing here uses recency or counts. The pages hold no
//! bytes: the driver moves, checks and encrypts them. Source: docs/decisions/0032, 0038.

pub(crate) mod cost;
pub(crate) mod event;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod readahead;
pub(crate) mod replacement;
pub(crate) mod runs;
pub(crate) mod slots;
pub(crate) mod writes;
