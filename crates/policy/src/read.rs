//! The read path: the contract between policy and a driver, and the wiring of its mechanisms.
//!
//! ```text
//!   driver                       read::path                      mechanisms
//!   handle(now, event) ───────>  note the read ───────────────>  files: which stream, how far
//!                                submit the pages it lacks ───>  residency: room, eviction
//!                                  a turn, a grant ───────────>  queue: which request starts
//!   poll_action() until None <─  Submit, Join, Grant, Hedge, Cancel, Clear, Drop
//! ```
//!
//! `event` is the contract: what a driver reports and what it is told to do. `path` holds the
//! state and forwards each event. Below it lie the rules that need several mechanisms at once:
//! `plan` (what a read calls for), `limits` (how far each stream may go), `submit` (how a request
//! is made and starts) and `room` (which request is granted memory, and what is evicted or
//! cancelled for it).
//!
//! *Invariants:* every page of a read is resident, in flight or kept as waiting demand after the
//! event. No page is in flight twice. The same events give the same actions.
//!
//! The folder does not detect streams (`files`), order requests (`queue`) or choose a victim
//! (`residency`). Source: docs/decisions/0001 for the contract; each rule names its own.

pub(crate) mod event;
pub(crate) mod path;
