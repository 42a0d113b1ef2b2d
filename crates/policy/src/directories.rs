//! Directory readahead: what is listed, and which small files are fetched, before a reader asks.
//!
//! ```text
//!   a directory   unknown ──(read, or its names looked up)──> listed ──(older than its time to live)──> stale
//!   a walk        two directories entered in order ──> open ──(four wrong predictions more than hits)──> closed
//!   a file        small, next in order ──> fetched ──> opened: a hit
//!                                             └──────> not opened: discarded
//! ```
//!
//! `event` is the contract, `path` the wiring; below it lie `lookups` (what readers do),
//! `listings` (what is listed, one directory or a subtree at a time) and `contents` (what is
//! fetched whole). `directory` is what is known of one directory, `walk` a reader that goes
//! through a tree, `open_order` the order of opens of an earlier epoch, `open_after_lookup`
//! whether a program opens the names it looks up, `subtree` whether a subtree is worth one
//! request, and `confidence` how much may be ahead.

pub(crate) mod confidence;
pub(crate) mod directory;
pub(crate) mod event;
pub(crate) mod open_after_lookup;
pub(crate) mod open_order;
pub(crate) mod path;
pub(crate) mod subtree;
pub(crate) mod walk;
