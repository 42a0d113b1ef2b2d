//! Bounds that several tables share.

/// Most threads: in real time each is a thread of the system.
pub(super) const THREADS_MAX: u64 = 4096;

/// Most files: each is an object of the testbed, and its name an argument.
pub(super) const FILES_MAX: u64 = 100_000;

/// Most files of a tree: it exists in virtual time only.
pub(super) const TREE_FILES_MAX: u64 = 10_000_000;
