//! The mount: FUSE requests in, reads of the engine out.
//!
//! ```text
//!   LOOKUP ─> engine.look_up: a listing that is fresh, or the storage ─> an inode: one *version* of one object, or one directory
//!   READDIR ─> an entry as it comes, its inode and attributes with it
//!   OPEN   ─> still that version? (the LOOKUP or the listing that came with it just asked) no: ESTALE, and the kernel looks up again
//!   READ   ─> engine.read: a hit is answered on this thread, anything else from the engine's
//! ```
//!
//! The kernel caches pages by inode. One inode number per version makes its cache right by construction: pages outlive a
//! close, and no two versions ever meet under one number.
//!
//! *Invariant:* this crate translates. What to fetch, when and how much is decided below; a heuristic here is a bug. A FUSE
//! thread never waits for storage.

mod errno;
mod error;
mod filesystem;
mod inode;
mod killed;
mod mount;
pub mod mount_table;
mod question;

pub use error::Error;
pub use mount::{MountOptions, Mounted, Unmounter, mount, unmount};
pub use question::{expect_files, query_recorded, query_stats, start_recording};
