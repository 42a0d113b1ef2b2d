//! Views: an object as memory that is only read.
//!
//! ```text
//!   Away ──(fault)──> Arriving ──(read)──> mapped ──(room is needed, or lost)──> Away
//!                        └──(failed)──> Away: the waiting threads get an error
//! ```
//!
//! `event` is the contract, `path` the wiring.
//!
//! *Invariant:* a view never maps more than its budget.
//!
//! A view reads nothing ahead: the engine below it does. It uses the page records and the
//! replacement of `regions`, with a block in place of a page. Source: docs/decisions/0039.

pub(crate) mod event;
pub(crate) mod path;
