//! The read path: the contract between policy and a driver, and the wiring of its mechanisms.
//!
//! ```text
//!   driver                       read::path                      mechanisms
//!   handle(now, event) ───────>  note the read ───────────────>  files: which stream, how far
//!                                submit the pages it lacks ───>  residency: room, eviction
//!                                  a turn, a grant ───────────>  queue: which request starts
//!                                memory for all of a read ────>  waits: which read is next
//!   poll_action() until None <─  Submit, Join, Grant, Ready, Hedge, Cancel, Clear, Drop
//! ```
//!
//! `event` is the contract: what a driver reports and what it is told to do. `path` holds the
//! state and forwards each event. `waits` knows the reads that wait, `closed` the files that
//! programs have left, `told` the memory of what files say of their parts. Below `path` lie the
//! rules that need several mechanisms at once: `plan` (what a read calls for), `limits` (how far
//! each stream may go), `submit` (how a request is made and starts), `answer` (when a read has
//! memory for all its pages), `room` (which request is granted memory, and what is evicted or
//! cancelled for it) and `release` (what becomes of a closed file).
//!
//! *Invariants:* while a read waits, a request that is not over will bring what it lacks. While
//! any read waits, one of them is ready, or a request at the storage has memory for its next
//! bytes. No page is in flight twice. The same events give the same actions.
//!
//! The folder does not detect streams (`files`), order requests (`queue`) or choose a victim
//! (`residency`). Source: docs/decisions/0001 for the contract; each rule names its own.

pub(crate) mod closed;
pub(crate) mod event;
pub(crate) mod path;
pub(crate) mod told;
pub(crate) mod turns;
pub(crate) mod waits;
