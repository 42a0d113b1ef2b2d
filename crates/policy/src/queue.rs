//! Queue: which request starts next at the storage, which requests start with it, and what it
//! costs.
//!
//! ```text
//!   made ──> waits for its turn ──> started ──> granted piece by piece ──> complete, or failed
//!               │        │             │
//!               │        │             └─ late: hedge sends a second request
//!               │        └─ coalesce: adjacent demand requests start with the lead request
//!               └─ cancelled, here or in any later state
//! ```
//!
//! - `requests`: the requests in flight, and the order in which they are granted memory.
//! - `link`: the time that a request keeps the storage busy, measured from completions.
//! - `disk`: the same for the tier, which has a queue of its own.
//! - `fair_queue`: gives each stream the same part of the storage's time, in the unit of `link`.
//! - `coalesce`: finds adjacent demand requests that can start as one.
//! - `concurrency`: finds by trials how many requests at a time the storage makes use of.
//! - `hedge`: says when a request is late, and whether a second request may be sent.
//! - `throttle`: says how many requests a second storage is given that has refused some.
//!
//! *Invariants:* a request starts once. Before that it holds no memory for its bytes, and then
//! only what it was granted.
//!
//! The folder does not choose what to fetch (`files`), does not charge memory (`residency`), and
//! does not retry (the engine, docs/decisions/0004). It does not know where files lie on a disk.
//! Source: docs/decisions/0003, 0017, 0021, 0022, 0023, 0026, 0027, 0127.

pub(crate) mod arm;
pub(crate) mod coalesce;
pub(crate) mod concurrency;
pub(crate) mod disk;
pub(crate) mod fair_queue;
pub(crate) mod hedge;
pub(crate) mod link;
pub(crate) mod probe;
pub(crate) mod requests;
pub(crate) mod throttle;
pub(crate) mod throughput;
