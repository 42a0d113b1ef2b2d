//! Trees of directories that programs go through, instead of files that threads read.
//!
//! They exist in virtual time only: where a directory's blocks and inodes lie on a disk is what such a workload is about.

use serde::Serialize;

/// What the tree is, and what goes through it. How many files there are and of what size is in [`crate::Files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiskTree {
    /// How many directories, the root not counted. 0: all files are in the root.
    pub directories: u32,
    /// Where they are, and what each holds.
    pub shape: Shape,
    /// Bytes of each name.
    pub name_bytes: u32,
    /// The tree was copied: entries were made in the order in which they are listed.
    pub copied: bool,
    /// Beside `find`, `grep -r` goes through a second such tree, and `cp` reads a file of so many bytes.
    pub copy_bytes: Option<u64>,
}

/// Where the directories of a tree are, and what each holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Shape {
    /// Side by side, with as many files in each.
    Flat,
    /// As a system is installed: in one another, most of them small, a few large.
    System,
}
