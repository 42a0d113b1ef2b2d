//! Steps: from one file to another in the order of the listings, across directories.
//!
//! ```text
//!   a/ 1 2 3   b/ c/ 1 2   4   d/ 1 2          depth first, as keys are sorted
//!      ^─────────+5────────^                  a/2, a/3, c/1, c/2, b/4
//! ```
//!
//! Files between two subdirectories of one directory are counted at once. So a step costs as much
//! as the directories that it passes, not as the files. Files that are far from each other are
//! told by the directory that both are in.
//!
//! *Invariant:* a step passes [`DIRECTORIES_MAX`] directories at most, and none that was never
//! listed. A listing that has expired is as good: it only says where to look.
//!
//! This file does not know which files are opened (`open_stride`) or fetched (`path/contents`).
//! Source: docs/decisions/0100.

use alloc::collections::BTreeMap;

use crate::directories::directory::Dir;
use crate::directories::event::Child;
use crate::directories::open_order::FileRef;
use crate::units::DirId;

/// The tree as far as it is known.
pub(crate) struct Listings<'a> {
    pub(crate) dirs: &'a BTreeMap<DirId, Dir>,
    pub(crate) parents: &'a BTreeMap<DirId, (DirId, u32)>,
}

/// A way through the tree, in one direction: before or behind an entry of a directory.
struct Way {
    dir: DirId,
    /// The entries `[from, to)` of the directory come next, the nearest first.
    from: u32,
    to: u32,
    forward: bool,
}

impl Listings<'_> {
    /// The file that is `step` files behind another one, or before it if `step` is negative. Each
    /// directory that it passes is one of `passes`.
    pub(crate) fn file_after(&self, file: FileRef, step: i64, passes: &mut usize) -> Option<FileRef> {
        let mut left = u32::try_from(step.unsigned_abs()).ok()?.checked_sub(1)?;
        let mut way = self.way_from(file, step > 0)?;
        for _ in 0..DIRECTORIES_MAX {
            let (start, end) = self.files_next(&way);
            if left < end - start {
                return Some((way.dir, if way.forward { start + left } else { end - 1 - left }));
            }
            left -= end - start;
            *passes = passes.checked_sub(1)?;
            way = self.pass(&way)?;
        }
        None
    }

    /// How many files `to` is behind `from`, negative if it is before it. `None` if it is more
    /// than [`DIRECTORIES_MAX`] directories away, or not known.
    pub(crate) fn files_between(&self, from: FileRef, to: FileRef) -> Option<i64> {
        if from == to {
            return Some(0);
        }
        let forward = self.is_behind(to, from)?;
        let mut passed = 0_i64;
        let mut way = self.way_from(from, forward)?;
        for _ in 0..DIRECTORIES_MAX {
            let (start, end) = self.files_next(&way);
            if way.dir == to.0 && (start..end).contains(&to.1) {
                let here = if forward { to.1 - start } else { end - 1 - to.1 };
                passed += i64::from(here) + 1;
                return Some(if forward { passed } else { -passed });
            }
            passed += i64::from(end - start);
            way = self.pass(&way)?;
        }
        None
    }

    /// Whether a file is behind another one. `None` if more than [`DIRECTORIES_MAX`] directories
    /// of one directory lie between them, or nothing says.
    fn is_behind(&self, file: FileRef, other: FileRef) -> Option<bool> {
        let ways = |from: FileRef| {
            core::iter::successors(Some(from), |(dir, _)| self.parents.get(dir).copied()).take(LEVELS_MAX)
        };
        // The directory that both are in, and their entries there.
        let (at, entry, before) = ways(file).find_map(|(dir, entry)| {
            let (_, before) = ways(other).find(|&(above, _)| above == dir)?;
            Some((dir, entry, before))
        })?;
        let subdirs = &self.dirs.get(&at)?.subdirs;
        let place = |entry: u32| subdirs.partition_point(|&subdir| subdir < entry);
        (place(entry).abs_diff(place(before)) <= DIRECTORIES_MAX && entry != before).then_some(entry > before)
    }

    fn way_from(&self, (dir, entry): FileRef, forward: bool) -> Option<Way> {
        let known = self.dirs.get(&dir)?;
        if !(known.gone..known.end()).contains(&entry) {
            return None;
        }
        let (from, to) = if forward { (entry + 1, known.end()) } else { (known.gone, entry) };
        Some(Way { dir, from, to, forward })
    }

    /// The files up to the next subdirectory.
    fn files_next(&self, way: &Way) -> (u32, u32) {
        match (self.subdir_next(way), way.forward) {
            (Some(subdir), true) => (way.from, subdir),
            (Some(subdir), false) => (subdir + 1, way.to),
            (None, _) => (way.from, way.to),
        }
    }

    fn subdir_next(&self, way: &Way) -> Option<u32> {
        let subdirs = &self.dirs.get(&way.dir)?.subdirs;
        let before = |bound: u32| subdirs.partition_point(|&entry| entry < bound);
        let at = if way.forward { before(way.from) } else { before(way.to).checked_sub(1)? };
        subdirs.get(at).copied().filter(|entry| (way.from..way.to).contains(entry))
    }

    /// Passes over the files next: into the subdirectory that follows them, or up.
    fn pass(&self, way: &Way) -> Option<Way> {
        let known = self.dirs.get(&way.dir)?;
        let forward = way.forward;
        if let Some(subdir) = self.subdir_next(way) {
            let Child::Directory(dir) = known.get(subdir)?.child else { return None };
            let below = self.dirs.get(&dir).filter(|below| !below.pages.is_empty() && below.gone == 0)?;
            return (forward || has_all(below)).then_some(Way { dir, from: 0, to: below.end(), forward });
        }
        if (forward && !has_all(known)) || (!forward && known.gone > 0) {
            return None;
        }
        let &(parent, at) = self.parents.get(&way.dir)?;
        self.way_from((parent, at), forward)
    }
}

/// Whether all entries of a directory have come, by its latest listing or the one before.
fn has_all(dir: &Dir) -> bool {
    dir.complete || dir.listed < dir.end()
}

/// Directories above a file that are compared with those above another one, its own included.
/// Lower: files deep in a tree have no distance. Higher: each open looks at more of them. Source:
/// a guess, not measured.
const LEVELS_MAX: usize = 16;

/// Directories that a step passes at most. Lower: in a tree of small directories, files that are
/// far apart make no stride. Higher: an open somewhere else takes longer. Source: a guess, not
/// measured.
const DIRECTORIES_MAX: usize = 64;
