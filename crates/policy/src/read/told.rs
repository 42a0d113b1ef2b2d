//! The memory that is taken by what files have told of their parts, and which closed file gives
//! that up first.
//!
//! ```text
//!   open files     stay known: their programs do not read their directories again
//!   closed files   | closed first .. closed last |     together with those: the share
//!                    ^ given up where another one needs the room
//!   directories    read in part: held by the driver, as much again
//! ```
//!
//! *Invariants:* the sum is that of the layouts that were added and not removed. A file is in it
//! once.
//!
//! The file does not know what is told (`files::layout`), and gives nothing up itself
//! (`read::path::columns`). Source: docs/decisions/0130.

use alloc::collections::BTreeMap;

use crate::files::layout::Layout;
use crate::read::closed::Closed;
use crate::units::{Extent, FileId};

/// Memory of layouts, and of directories that are read, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Told {
    bytes: u64,
    /// Closed files that have told of their parts, and the memory of these.
    closed: Closed,
    closed_bytes: u64,
    /// What drivers hold of directories that they have not read to the end.
    directories: BTreeMap<FileId, u64>,
    directories_bytes: u64,
}

impl Told {
    /// The `layout` of `file` counts as it is now.
    pub(crate) fn add(&mut self, file: FileId, layout: &Layout) {
        self.bytes += layout.bytes();
        if let Some(at) = layout.closed_at() {
            self.closed.insert(at, file);
            self.closed_bytes += layout.bytes();
        }
    }

    /// The `layout` of `file` does not count any more, or is about to change.
    pub(crate) fn remove(&mut self, file: FileId, layout: &Layout) {
        self.bytes -= layout.bytes();
        if let Some(at) = layout.closed_at() {
            self.closed.remove(at, file);
            self.closed_bytes -= layout.bytes();
        }
    }

    /// So many `bytes` are held of the directory of `file`.
    pub(crate) fn reads_directory(&mut self, file: FileId, bytes: u64) {
        let before = if bytes > 0 { self.directories.insert(file, bytes) } else { self.directories.remove(&file) };
        self.directories_bytes = self.directories_bytes - before.unwrap_or(0) + bytes;
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes + self.directories_bytes
    }

    /// The closed file whose parts are to be given up, where what is known takes more than its
    /// share of `capacity_bytes`.
    pub(crate) fn in_the_way(&self, capacity_bytes: u64) -> Option<FileId> {
        if self.bytes <= capacity_bytes / SHARE { None } else { self.closed.first() }
    }

    /// How many more members may be told, at most.
    pub(crate) fn members_max(&self, capacity_bytes: u64) -> usize {
        members_in((capacity_bytes / SHARE).saturating_sub(self.bytes - self.closed_bytes))
    }

    /// How many more members directories may be held of, at most.
    pub(crate) fn directory_members_max(&self, capacity_bytes: u64) -> usize {
        members_in((capacity_bytes / SHARE).saturating_sub(self.directories_bytes))
    }
}

fn members_in(bytes: u64) -> usize {
    (bytes / size_of::<Extent>() as u64) as usize
}

/// The part of the budget that is taken at most by what is known of the parts of files, before
/// members of archives are told no more: an eighth. Directories that are read take as much at
/// most. Lower: of an archive of many members, or of many archives, fewer are known. Higher: less
/// is left for pages. Source: chosen here; a member takes 25 to 60 bytes, so that 64 MiB hold what
/// is known of 200,000.
const SHARE: u64 = 8;
