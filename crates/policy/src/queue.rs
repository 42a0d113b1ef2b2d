//! Queue: which request the storage is asked for next, what goes with it, and what it costs.
//!
//! ```text
//!   made ──> waits for its turn ──> started ──> granted piece by piece ──> complete
//!               │        │             │
//!               │        │             └─ late: hedge asks a second time
//!               │        └─ coalesce: adjacent demand requests start with the lead request
//!               └─ cancelled
//! ```
//!
//! `requests` keeps what is in flight and orders the grants of memory. `fair_queue` gives each
//! stream the same part of the storage's time, in the unit that `link` measures: the time that a
//! request keeps the storage busy. `concurrency` tries how many requests at a time the storage
//! makes use of.

pub(crate) mod coalesce;
pub(crate) mod concurrency;
pub(crate) mod fair_queue;
pub(crate) mod hedge;
pub(crate) mod link;
pub(crate) mod requests;
