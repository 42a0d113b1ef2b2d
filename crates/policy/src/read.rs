//! The read path: the contract between policy and a driver, and the wiring of its mechanisms.
//!
//! ```text
//!   driver                       read::path                          mechanisms
//!   handle(now, event) ───────>  note the read ───────────────────>  files: which stream, how far ahead
//!                                submit what it lacks ────────────>  residency: is there room, what is evicted
//!                                  a turn, a grant ───────────────>  queue: whose request starts, and when
//!   poll_action() until None <─  Submit, Join, Grant, Hedge, Cancel, Clear, Drop
//! ```
//!
//! `event` is the contract: what a driver reports and what it is told to do. `path` holds the
//! state and forwards each event; below it lie the rules that need several mechanisms at once:
//! `plan` (what a read calls for), `limits` (how far each stream may go), `submit` (how a request
//! is made and starts) and `room` (what is granted memory, and what is evicted or cancelled for
//! it).

pub(crate) mod event;
pub(crate) mod path;
