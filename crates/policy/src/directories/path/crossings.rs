//! Crossings: files that are opened by name in the order of the listings, from one directory into
//! the next.
//!
//! ```text
//!   listings   a/ 1 2 3   b/ 1 2   c/ d/ 1 2   e        depth first, as keys are sorted
//!                   ^ walk  ^ opened: among the next few files of the walk ──> the walk is here
//!
//!   the walk   directories behind it are listed ahead, as those of a reader that enters them
//!              files in its own directory: fetched on its confidence alone
//!              files in the next ones:     and on credit (`credit`)
//! ```
//!
//! A version control system goes through its index, which is sorted as keys are, and an archiver
//! through a list. Such a program enters no directory. Only the files that it opens say where it
//! is. At the end of each directory policy guesses that the program goes on into the next one. So
//! files there are bought with credit, and pay it back when they are opened.
//!
//! *Invariant:* what is fetched across directories and never opened is bounded by its credit.
//!
//! A directory that is not known yet stops the search for files: what is behind it comes later.
//! Readers that read directories are followed by `lookups`. Source: docs/decisions/0063.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::DirReadahead;
use crate::directories::directory::Opens;
use crate::directories::next_files::next_files;
use crate::directories::open_order::FileRef;
use crate::directories::strays::Strays;
use crate::directories::walk::{Frame, Order, Walk};
use crate::units::{DirId, Found};

impl DirReadahead {
    /// A file is opened in a directory that no walk is in. Returns the walk that follows it there:
    /// one whose next files include it. If there is none, and the open before also came from one
    /// directory into the next, a new walk is made. Without that, a tree with one file in each
    /// directory would have no walk, since no two files are opened in one directory.
    pub(super) fn crossing(&mut self, file @ (dir, entry): FileRef) -> Option<usize> {
        if !self.options.readahead || self.walks.iter().any(|walk| walk.frames().any(|frame| frame.dir == dir)) {
            return None;
        }
        let latest = self.walks.len().checked_sub(1);
        let leads = |at: &usize| {
            let walk = &self.walks[*at];
            let goes_on = walk.by_name || (Some(*at) == latest && walk.contents.is_open());
            let front = walk.frames().next().filter(|_| goes_on && walk.order == Order::Depth && !walk.backward);
            let near = if walk.by_name { NEAR_FILES } else { NEXT_FILES };
            front.is_some_and(|front| self.leads_to(front, file, near))
        };
        if let Some(at) = (0..self.walks.len()).rev().find(leads) {
            return Some(at);
        }
        if self.left_behind(file).is_some() {
            return None;
        }
        let here = Frame { dir, next: entry + 1 };
        let Some(Strays { place, crossings, behind }) = self.strays else {
            self.strays = Some(Strays { place: here, crossings: 0, behind: 0 });
            return None;
        };
        let (crosses, is_behind) = (self.leads_to(place, file, NEXT_FILES), self.is_before(here, place));
        self.strays = Some(match (crosses, is_behind) {
            (true, _) => Strays { place: here, crossings: crossings + 1, behind: 0 },
            (_, true) if behind < BEHIND_MAX => Strays { place, crossings, behind: behind + 1 },
            _ => Strays { place: here, crossings: 0, behind: 0 },
        });
        if !crosses || crossings + 1 < CROSSINGS_MIN {
            return None;
        }
        self.strays = None;
        self.add_walk(Walk::new(dir, 0));
        Some(self.walks.len() - 1)
    }

    /// Whether `file` is among the next `near` files after a place.
    fn leads_to(&self, place: Frame, file: FileRef, near: u32) -> bool {
        let mut from = Walk::new(place.dir, place.next);
        from.move_to(self.way(place.dir, place.next));
        let (mut left, mut leads) = (near, false);
        next_files(
            &self.dirs,
            |_| true,
            &from,
            NEAR_PLACES,
            |next, state, _| {
                leads = next == file;
                left -= u32::from(state.opens != Opens::Since);
                !leads && left > 0
            },
        );
        leads
    }

    /// A file is opened where no walk is. Returns a walk by name that has been in its directory:
    /// the reader lags behind others.
    pub(super) fn left_behind(&self, (dir, entry): FileRef) -> Option<usize> {
        let &(parent, _) = self.parents.get(&dir)?;
        let here = Frame { dir, next: entry + 1 };
        self.walks.iter().rposition(|walk| {
            let is_below = walk.by_name && walk.frames().any(|frame| frame.dir == parent);
            is_below && walk.frames().next().is_some_and(|front| self.is_before(here, front))
        })
    }

    /// Whether a place comes before another one, in the order of the listings.
    fn is_before(&self, place: Frame, other: Frame) -> bool {
        let entries = |Frame { dir, next }| self.way(dir, next).into_iter().rev().map(|frame| frame.next);
        entries(place).lt(entries(other))
    }

    /// The walk is at a file, which it has come to from another directory. Other walks by name
    /// that would come to it next are of the same program, and end.
    pub(super) fn cross(&mut self, walk: &mut Walk, file @ (dir, entry): FileRef) {
        let comes = |at: &usize| {
            let front = self.walks[*at].frames().next().filter(|_| self.walks[*at].by_name);
            front.is_some_and(|front| front.dir == dir || self.leads_to(front, file, NEAR_FILES))
        };
        let same: Vec<_> = (0..self.walks.len()).filter(comes).collect();
        for at in same.into_iter().rev() {
            let other = self.walks.remove(at);
            if other.contents.size() > walk.contents.size() {
                (walk.contents, walk.listings) = (other.contents, other.listings);
            }
        }
        walk.move_to(self.way(dir, entry + 1));
        if !self.options.ttl.is_zero() {
            walk.listings.open(LISTINGS_FIRST);
        }
    }

    /// A place in a directory, and where the directories above it go on.
    fn way(&self, dir: DirId, next: u32) -> VecDeque<Frame> {
        let mut way = VecDeque::from([Frame { dir, next }]);
        let mut at = dir;
        while let Some(&(parent, entry)) = self.parents.get(&at).filter(|_| way.len() < LEVELS_MAX) {
            way.push_back(Frame { dir: parent, next: entry + 1 });
            at = parent;
        }
        way
    }

    /// A name in `dir` was looked up, and its listing answers or is in flight. One that was listed
    /// ahead of a walk by name is used now.
    pub(super) fn used_by_name(&mut self, dir: DirId, found: Found) {
        let Some(walk) = self.walks.iter_mut().rev().find(|walk| walk.by_name) else { return };
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        if core::mem::take(&mut known.ahead) {
            walk.listings.hit(found == Found::InFlight);
            self.counters.lists_hit += 1;
        }
    }
}

/// Files after the place of a walk among which an open in another directory continues it. Lower:
/// threads that take the next file each lose the walk where a directory ends. Higher: readers that
/// follow no order are taken for a walk by chance, in trees of small directories. Source: as many
/// as in one directory (`open_run`).
const NEAR_FILES: u32 = 32;

/// The same for opens that have not crossed from one directory into the next yet. Lower: threads
/// side by side have no walk where directories have few files. Higher: a program that opens one
/// file of each directory is taken for a walk. Source: the threads of a version control system's
/// search.
const NEXT_FILES: u32 = 8;

/// Entries that are searched for those files. Lower: a walk is lost behind large files and empty
/// directories. Higher: an open in a directory where no walk is takes longer. Source: as in one
/// directory (`open_run`).
const NEAR_PLACES: usize = 128;

/// Opens in turn behind the furthest one that do not end an order: threads that take the next file
/// each overtake one another. Lower: as many threads are no walk. Higher: opens at random seem to
/// go on more often. Source: the threads of a version control system's search.
const BEHIND_MAX: u32 = 8;

/// Opens in turn, each in a directory after the one before, that make a walk. Lower: readers that
/// follow no order are taken for a walk by chance. Higher: where each directory has one file, the
/// reader waits for more of them. Source: a guess; of opens at random in a tree of four hundred
/// files, one in a hundred and fifty comes after two such steps.
const CROSSINGS_MIN: u32 = 2;

/// Directories ahead that are listed when a walk crosses into another one. Lower: the reader waits
/// more often until the number has doubled. Higher: more listings in vain where it ends, or is
/// none. Source: docs/decisions/0063.
const LISTINGS_FIRST: u32 = 2;

/// Directories above a walk at which it may go on. Lower: a walk ends at the end of a deep
/// subtree. Higher: each crossing looks at more of them. Source: a guess, not measured.
const LEVELS_MAX: usize = 32;
