//! One engine for the processes of a user that read the same storage.
//!
//! ```text
//!   process 1: Shared ── elected ──> Engine <── served on a socket ──┐
//!   process 2: Shared ── joined ── frames ──────────────────────────>┤
//!                          └ shared memory <── bytes of folios ──────┘
//!   process 1 ends ──> process 2 or 3 is elected; what waits is asked for again
//! ```
//!
//! What one process has fetched, the others find in memory, and one budget holds for all: the
//! largest that one of them was told. [`Shared`] is the same on either side: reads, listings,
//! look-ups, orders, counters. Processes of another version, of another user, or with other
//! credentials have engines of their own.
//!
//! # Reading order
//!
//! ```text
//!   budget                          the engines of a process that reads several stores
//!   shared  options  identity       what a program uses
//!     └── link                      which engine it is at the moment, and elections
//!           ├── orders              what a successor is told again
//!           ├── server              the engine here, for clients
//!           │     └── answer        calls, executed
//!           ├── connection          the engine there
//!           └── place               the lock and the socket where processes meet
//!   pages  area  wire  socket  kept       what lies below all of them
//! ```
//!
//! *Invariants:* no rule about what to read, keep or drop. A reader never sees that a process that
//! served has ended. Nothing that comes over the socket is believed, and no thread of an engine
//! waits for a client.

#![deny(unsafe_code)]

mod answer;
mod area;
mod budget;
mod connection;
mod identity;
mod kept;
mod link;
mod options;
mod orders;
mod pages;
mod place;
mod server;
mod shared;
mod socket;
mod wire;

pub use budget::Budget;
pub use identity::Identity;
pub use options::ShareOptions;
pub use pages::SharedPages;
pub use shared::{Helped, Helps, Role, Shared, SharedFile, SharedStats};
