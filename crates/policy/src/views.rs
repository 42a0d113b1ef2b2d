//! Views: an object as memory that is only read.
//!
//! ```text
//!   Away ──(fault)──> Arriving ──(came)──> Clean ──(room is needed)──> Away
//!                        └──(failed)──> Away: the threads that wait are told
//! ```
//!
//! `event` is the contract, `path` the wiring. A view reads nothing ahead: the engine below it
//! does. It stands on the page states and the replacement of `regions`.

pub(crate) mod event;
pub(crate) mod path;
