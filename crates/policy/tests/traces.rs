//! Pinned traces: the events that a driver tells a mechanism, and the actions that each causes.
//!
//! ```text
//!   script (files.rs, queue.rs, ..) ──> driver ──> policy.handle(now, event)
//!                                          │       policy.poll_action() until None
//!                                          └─────> one line ──> snapshots/NAME.snap
//!
//!     30.3 ms  Completed r0                  -> Submit r1 f1 [32,96) ahead, mark 32
//!     when     what happened                    what policy wants
//! ```
//!
//! A change of one mechanism shows as a difference of its traces. A changed trace is reviewed and
//! written anew with `INSTA_UPDATE=always cargo test -p foreread-policy --test traces`.
//!
//! Drivers are as small as the contract allows: virtual time, a page table without bytes, storage
//! that takes a fixed time. They check nothing: `invariants.rs`, `directories.rs`, `regions.rs`
//! and `views.rs` do.

#[path = "traces/columns.rs"]
mod columns;
#[path = "traces/directories.rs"]
mod directories;
#[path = "traces/files.rs"]
mod files;
#[path = "traces/names.rs"]
mod names;
#[path = "traces/queue.rs"]
mod queue;
#[path = "traces/reader.rs"]
mod reader;
#[path = "traces/regions.rs"]
mod regions;
#[path = "traces/residency.rs"]
mod residency;
#[path = "traces/trace.rs"]
mod trace;
#[path = "traces/views.rs"]
mod views;
