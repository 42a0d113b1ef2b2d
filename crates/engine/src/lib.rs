//! Executes the policy against real storage, in bounded memory.
//!
//! # Data flow of one read
//!
//! ```text
//!   File::read ── all folios resident ──────────────────────────────> done(pages)     on the caller's thread
//!        │                     └─ one of them marked ──> shard: Event::Read ─┐
//!        └── absent or in flight ──> shard: Event::Read ─> policy ─> actions │
//!                                      │                        Submit ──> a task: backend.read, bytes into folios; or, for a small
//!                                      │                                   │ read of a local file, no task: in place (`in_place.rs`)
//!                                      └─ wait on the folios <───────────────┘   each folio as it fills
//!                                             └─ the last one ──────> done(pages)     on the task's thread
//! ```
//!
//! The *shard* (`shard.rs`) is policy and the right to change the page table, behind one lock. Look-ups, pins and first-touch
//! bits do not take it. A caller never waits for storage: what misses is completed from elsewhere.
//!
//! A program that wants many operations in flight, of any kind, submits them ([`Submissions`]).
//!
//! *Invariant:* no rule about what to read or drop lives here, and no byte reaches a reader that was not fetched on condition of the
//! version that its [`File`] pins.

mod directories;
mod directory;
mod driver;
mod engine;
mod error;
mod file;
mod numbers;
mod options;
mod pages;
mod records;
mod requests;
mod shard;
mod stats;
mod submission;

pub use directories::listing::Node;
pub use directories::name::NAME_BYTES_MAX;
pub use directories::table::Named;
pub use directory::Directory;
pub use engine::Engine;
pub use error::{Error, ErrorKind};
pub use file::File;
pub use foreread_backend::{Backend, Capabilities, Entry, Key, ListPage, Mechanism, Object, Version};
pub use options::{MEMORY_BYTES_MIN, Options, Patience};
pub use pages::pinned::Pages;
pub use records::replay::{ReplayError, Replayed, replay};
pub use records::tap::{Recorded, RecordedFile, RecordedRead};
pub use stats::{Latency, Stats};
pub use submission::{Busy, Call, Completion, May, Operation, Outcome, Submissions, Ticket};
