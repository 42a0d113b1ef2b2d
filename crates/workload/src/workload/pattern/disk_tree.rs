//! Trees of directories that programs walk, instead of files that threads read.
//!
//! In virtual time only: such a workload measures where blocks and inodes of directories lie on a
//! disk.

use serde::Serialize;

/// The tree, and the programs that walk it. [`crate::Files`] has the number of files and their
/// size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DiskTree {
    /// Number of directories without the root. 0: all files are in the root.
    pub directories: u32,
    /// The nesting and the sizes of directories.
    pub shape: Shape,
    /// Bytes of each name.
    pub name_bytes: u32,
    /// The tree was copied: entries were made in the order in which they are listed.
    pub copied: bool,
    /// `Some`: beside `find`, `grep -r` walks a second such tree, and `cp` reads a file of this
    /// many bytes.
    pub copy_bytes: Option<u64>,
}

/// The nesting and the sizes of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Shape {
    /// Side by side, with the same number of files in each.
    Flat,
    /// As on an installed system: nested, most of them small, a few large.
    System,
}
