//! Directories: what is known of them, how they are listed, and which small files come ahead.
//!
//! ```text
//!   Directory, look_up, open ── readers ──> events ──> policy (DirReadahead)
//!                                  │                      │ List       a page of one listing
//!                                  v                      │ ListBelow  one request for a subtree
//!        DirectoryTable ── Chain ── Listing               │ Fetch      a small file's pages
//!          by prefix         │        names, versions     │ Drop
//!                         Segments <── driver <───────────┘
//!                           cuts, by key_space
//! ```
//!
//! The driver of directories is to `DirReadahead` what the shard's driver is to `ReadPath`, with a
//! lock of its own. It prefetches files and reserves memory through the shard's driver; nothing
//! there knows of directories.
//!
//! *Freshness:* a listing counts for [`Options::metadata_ttl`](crate::Options) from the moment at
//! which it was requested, read ahead or not. A prefetch of a file confirms that version for as
//! long. Anything older is asked for again.
//!
//! *Invariant:* one chain of requests lists a directory at a time; a listing that was replaced
//! while a reader still reads it is carried to its end for that reader, or where memory is short,
//! listed anew from there on.

pub(crate) mod again;
pub(crate) mod anew;
pub(crate) mod brought;
pub(crate) mod chain;
pub(crate) mod driver;
pub(crate) mod key_space;
pub(crate) mod listing;
pub(crate) mod marks;
pub(crate) mod moment;
pub(crate) mod name;
pub(crate) mod parted;
pub(crate) mod prefetch;
pub(crate) mod readers;
pub(crate) mod renewing;
pub(crate) mod segments;
pub(crate) mod subtree;
pub(crate) mod table;
