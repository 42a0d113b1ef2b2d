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

mod below;
mod buffer;
mod context;
mod directories;
mod directory;
mod engine;
mod error;
mod fetch;
mod file;
mod in_place;
mod joint;
mod key_space;
mod listing;
mod name;
mod numbers;
mod options;
mod page_table;
mod record;
mod segments;
mod shard;
mod stats;
mod submission;
mod tap;
mod waiting;

pub use directories::Named;
pub use directory::Directory;
pub use engine::{Engine, MEMORY_BYTES_MIN};
pub use error::{Error, ErrorKind};
pub use file::File;
pub use foreread_backend::{Backend, Capabilities, Entry, Key, ListPage, Mechanism, Object, Version};
pub use listing::Node;
pub use name::NAME_BYTES_MAX;
pub use options::{Options, Patience};
pub use page_table::Pages;
pub use record::{ReplayError, Replayed, replay};
pub use stats::{Latency, Stats};
pub use submission::{Busy, Call, Completion, May, Operation, Outcome, Submissions, Ticket};
pub use tap::{Recorded, RecordedFile, RecordedRead};
