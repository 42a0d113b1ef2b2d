//! A cache of object content on a local disk: what was read once is local, across restarts.
//!
//! ```text
//!   offer ──> policy ── admitted ──> queue ──> writer: appends to its active segment
//!                                                │ full, or the end
//!                                                v
//!   read ──> index ──> segments <── sealed: an index block at the end
//!              ^            └── room: policy says which leaves
//!              └── watcher: loads what is there, and what other processes sealed
//! ```
//!
//! One folder holds the content of objects of several stores, and several processes of one user
//! share it. Content is kept by [`ObjectId`], which stands for one version of one object. Each
//! page of 4,096 bytes has a checksum of its own, or is encrypted and has a tag, and is checked
//! when it is read.
//!
//! # Files
//!
//! - `format`: what lies in a segment; `record`: a piece of an object in it.
//! - `guard`: what is beside each page; `secret`: the keys of an encrypted folder.
//! - `folder`: the folder, its lock, and the names in it.
//! - `segment`: reading the records of a segment, and sealing one that was left.
//! - `index`: which records there are, in memory; `cold`: of segments whose records are not.
//! - `shared`: the state that reads, offers and the two threads share.
//! - `reading`, `writer`, `watcher`: what they do; `active`: the segment that is written to.
//! - `survey`: what a folder holds, for a user.
//!
//! *Invariant:* nothing depends on `fsync` or on an end in order: what a crash leaves is found
//! wrong page by page, and a wrong page is a miss. No rule about what to keep: `policy`. No caller
//! waits for the disk, but to open a segment file.

#![forbid(unsafe_code)]

mod active;
mod cold;
mod error;
mod files;
mod folder;
mod format;
mod guard;
mod index;
mod object;
mod options;
mod press;
mod queue;
mod reading;
mod record;
mod secret;
mod segment;
mod shared;
mod survey;
mod tier;
mod watcher;
mod writer;

pub use error::Error;
pub use foreread_local::{Frames, Submitter};
pub use object::ObjectId;
pub use options::{Options, Stats};
pub use queue::Bytes;
pub use reading::Missing;
pub use secret::Secret;
pub use shared::Watch;
pub use survey::{Summary, Verified, clear, summary, verify};
pub use tier::{Answer, Tier};
