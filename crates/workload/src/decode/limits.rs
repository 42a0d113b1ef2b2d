//! Bounds that several tables share.

/// Threads at most: a thread is a real one when the workload runs in real time.
pub(super) const THREADS_MAX: u64 = 4096;

/// Files at most: every one is an object of the testbed, and its name an argument.
pub(super) const FILES_MAX: u64 = 100_000;

/// Files of a tree at most: it exists in virtual time only.
pub(super) const TREE_FILES_MAX: u64 = 10_000_000;
