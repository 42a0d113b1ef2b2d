//! Executes the policy against real storage, in bounded memory.
//!
//! # Data flow of one read
//!
//! ```text
//!   File::read ── all folios resident ──────────────> done(pages)   on the caller's thread
//!        │                 └─ one is marked ──┐
//!        └── absent or in flight ─────────────┴──> driver: Event::Read ──> policy
//!                      │                                                     │ actions
//!                      │           a task, or the storage in place <─ Submit ┘
//!                      └─ wait on the folios <──┘  each folio as it fills
//!                             └─ the last one ─────> done(pages)   on the thread that fills it
//! ```
//!
//! The *shard* is policy and the right to change the page tables, behind one lock. The *driver*
//! locks it, tells policy what happened and executes its actions. Look-ups, pins and first-touch
//! bits do not take the lock. A caller never waits for storage: another thread completes a read
//! that misses.
//!
//! A program that wants many operations in flight, of any kind, submits them ([`Submissions`]).
//!
//! # Reading order
//!
//! ```text
//!   engine  directory  submission     what a program calls
//!     └── directories/                listings, names, files fetched ahead
//!           └── file                  one open object: hit, or miss
//!                 └── driver          tells policy, executes its actions
//!                       └── shard     policy and what its actions change, behind the lock
//!                             ├── requests/   executed to their end, told to their owner
//!                             │     └── pages/    folios, page tables, waiting reads
//!                             └── records/    log, replay, recording
//! ```
//!
//! Each row may use those below it, and none above.
//!
//! *Invariant:* no rule about what to read or drop lives here, and no byte reaches a reader that
//! was not fetched on condition of the version that its [`File`] pins.

mod context;
mod detail;
mod directories;
mod directory;
mod driver;
mod engine;
mod error;
mod failures;
mod file;
mod layouts;
mod live;
mod numbers;
mod observer;
mod offers;
mod options;
mod pages;
mod planted;
mod records;
mod requests;
mod shard;
mod slow;
mod stats;
mod submission;
mod survival;
mod sync;
mod watch;

pub use detail::{Detail, FileUse, Service, WastedRange};
pub use directories::listing::Node;
pub use directories::name::NAME_BYTES_MAX;
pub use directories::table::Named;
pub use directory::Directory;
pub use engine::{Engine, Reserved};
pub use error::{Error, ErrorKind};
pub use failures::Failed;
pub use file::File;
pub use foreread_backend::{
    Backend, Capabilities, Entry, Key, ListPage, Mechanism, Object, Version, return_free_memory,
};
pub use foreread_tier::Stats as CacheStats;
pub use observer::Observer;
pub use options::{Cache, MEMORY_BYTES_MIN, Options, Patience};
pub use pages::pinned::Pages;
pub use planted::Panic;
pub use records::replay::{ReplayError, Replayed, replay};
pub use records::tap::{Recorded, RecordedFile, RecordedRead};
pub use slow::{SlowCause, SlowRead, SlowRequest};
pub use stats::{Latencies, Latency, Stats, Times};
pub use submission::{Busy, Call, Completion, May, Operation, Outcome, Submissions, Ticket};
pub use watch::{Link, Order, Stream, Wanted, Watched};
