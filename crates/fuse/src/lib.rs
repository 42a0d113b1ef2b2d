//! The mount: FUSE requests in, reads of the engine out.
//!
//! ```text
//!   LOOKUP  ─> engine.look_up: a fresh listing, or the storage ─> an inode:
//!              one *version* of one object, or one directory
//!   READDIR ─> entries as they arrive, with inode and attributes
//!   OPEN    ─> is that version current? the LOOKUP or listing before it has just asked
//!              no: ESTALE, and the kernel looks up again
//!   READ    ─> engine.read: a hit is answered on this thread, a miss on the engine's
//!              the first window of a longer read: all of that, and the rest is stored (`calls`)
//! ```
//!
//! The kernel caches pages by inode. Each version has an inode number of its own, so the kernel's
//! cache is right without further checks: pages may stay after a close, and one number never holds
//! pages of two versions.
//!
//! What the kernel remembers takes memory here. It is counted in the budget, and beyond its share
//! the kernel is asked to forget (`forgetting`), by a rule of policy.
//!
//! *Invariant:* this crate translates. The engine and policy decide what to fetch, when and how
//! much; a heuristic here is a bug. A FUSE thread never waits for storage.

mod attributes;
mod calls;
mod errno;
mod error;
mod failed;
mod filesystem;
mod forgetting;
mod guarded;
mod index;
mod inode;
mod kernel_window;
mod killed;
mod mount;
pub mod mount_table;
mod number;
mod options;
mod question;
mod record;
mod setting;

pub use error::Error;
pub use mount::{Mounted, Unmounter, mount, serve, unmount};
pub use options::MountOptions;
pub use question::{change, expect_files, query_recorded, query_stats, query_watched, start_recording};
pub use setting::Setting;
