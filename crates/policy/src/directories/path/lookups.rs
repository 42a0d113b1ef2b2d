//! Lookups: what readers do with directories. They read them, enter them, and look up names in
//! them.
//!
//! ```text
//!   Read  absent, from entry 0 ──> list the directory, for the reader
//!         any entry ─────────────> go on with its listing
//!         from entry 0 ──────────> entered: the walk moves there
//!                                    listed ahead: a hit, or, if expired by now, a miss
//!                                    not listed ahead, and out of order: a miss
//!                                    in order: a walk opens, or stays open
//!
//!   Named  found ────────────────> counted: the page answers names
//!          any ──────────────────> its listing, and those above it, are made anew if they are
//!                                  used in both halves of their time
//!          absent, small file ───> contents: fetch it if opens follow lookups, and no more, but
//!                                  for a directory of pages that cost less than its names
//!          absent, directory ────> it was listed before: list it again, beside its name
//!          absent, otherwise ────> the directory is known by its parent's listing: list it with
//!                                  its subtree and those beside it, by one request
//!                                  else the second name: list the directory, or further
//!                                  expired, one page that answered two names: list it again
//!                                  more pages: up to the name, side by side, as far as earlier
//!                                  listings answered names
//!   ReadByName ──────────────────> the seventh one in a directory, and later ones: as Named
//!          the first in one ─────> the second directory in another one: list that
//!                                  known by that: list its subtree and those behind it
//!   Sought, or Named expired, in a directory that was trimmed, or is long:
//!          in order ──────────────> list it from there (`relisting`)
//!          found, or entered ─────> go on with that listing
//! ```
//!
//! *In order*, in a directory that was read, is its first subdirectory, or the neighbour on either
//! side of the one entered last. A page lists a thousand names, so one listing replaces many
//! lookups.
//!
//! *Invariant:* at most [`WALKS_MAX`] walks are followed; the one used least recently is dropped.
//!
//! This file does not decide how far a walk is ahead (`confidence`) or what is listed for it
//! (`listings`). Opens are in `contents`. Source: docs/decisions/0029 (names) and 0034 (an open
//! and a read of a directory are one step of a walk).

use super::{DirOptions, DirReadahead};
use crate::directories::directory::Dir;
use crate::directories::event::Child;
use crate::directories::open_order::FileRef;
use crate::directories::walk::{Frame, Walk};
use crate::units::{Class, DirId, Found};

impl DirReadahead {
    /// A reader asks for the entries of `dir` from `entry` on.
    pub(super) fn read(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        let known = self.dirs.entry(dir).or_default();
        let is_first = entry == 0;
        let ahead = core::mem::take(&mut known.ahead);
        if is_first && found == Found::Absent {
            // The listing has expired, or there is none.
            self.list(dir, Class::Demand, true);
        }
        self.counters.lists_hit += u64::from(ahead && found != Found::Absent);
        let known = self.dirs.entry(dir).or_default();
        known.pages_read = known.pages_read.max(known.pages_to(entry));
        self.go_on(dir, found != Found::Resident);
        if is_first && let Some(&(parent, at)) = self.parents.get(&dir) {
            self.entered(dir, parent, at, ahead, found);
        }
    }

    /// A reader enters `dir`, which is entry `at` of `parent`.
    fn entered(&mut self, dir: DirId, parent: DirId, at: u32, ahead: bool, found: Found) {
        self.touch(parent);
        if !ahead && self.dirs.get(&parent).is_some_and(|above| above.entered == Some(at)) {
            // The same directory is read again, as by an open and a read of it: no step of a walk.
            // The reader has not left what is in it.
            return;
        }
        let dirs = &self.dirs;
        let has_unread = |frame: Frame| {
            dirs.get(&frame.dir).is_some_and(|dir| dir.subdirs.last().is_some_and(|&last| last >= frame.next))
        };
        // A program that opens files by name may look what a directory holds. It walks through
        // none.
        let enters = |walk: &mut Walk| !walk.by_name && walk.enter(dir, parent, at, has_unread);
        let walk = self.walks.iter_mut().position(enters);
        let Some(above) = self.dirs.get_mut(&parent) else { return };
        let place = |entry: u32| above.subdirs.partition_point(|&subdir| subdir < entry);
        let in_order = match above.entered {
            None => place(at) == 0,
            // The directory before the first one that is kept is gone.
            Some(before) if before < above.gone => place(at) == 0,
            Some(before) => place(before).abs_diff(place(at)) == 1,
        };
        above.entered = Some(at);
        let was_read = above.was_read || above.pages_read > 0;
        self.passed(parent, at);
        if let Some(walk) = walk {
            let mut walk = self.walks.remove(walk);
            if found != Found::Resident {
                walk.idle = 0;
            }
            if ahead {
                if found == Found::Absent {
                    walk.listings.missed();
                } else {
                    walk.listings.hit(found == Found::InFlight);
                }
            } else if !in_order && walk.listings.is_open() {
                walk.listings.missed();
            }
            if in_order && was_read {
                walk.listings.open(LISTINGS_FIRST);
            }
            self.walks.push(walk);
        } else if in_order && was_read {
            let mut walk = Walk::new(parent, at + 1);
            walk.enter(dir, parent, at, |_| false);
            walk.listings.open(LISTINGS_FIRST);
            self.add_walk(walk);
        }
    }

    /// Follows a new walk.
    pub(super) fn add_walk(&mut self, walk: Walk) {
        self.counters.walks += 1;
        if self.walks.len() == WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(walk);
    }

    /// A reader looks up a name in `dir`, which is `entry` by the latest listing.
    pub(super) fn named(&mut self, dir: DirId, entry: Option<u32>, found: Found) {
        self.touch(dir);
        let (now, ttl) = (self.now, self.options.ttl);
        let known = self.dirs.entry(dir).or_default();
        match found {
            Found::Absent => known.names += 1,
            Found::InFlight | Found::Resident => known.answered += 1,
        }
        self.renew(dir);
        if found != Found::Absent {
            self.used_by_name(dir, found);
            if let Some(entry) = entry {
                if let Some(known) = self.dirs.get_mut(&dir) {
                    known.reached = Some(entry);
                }
                self.page_hit(dir, entry);
                self.passed(dir, entry);
            }
            return;
        }
        if entry.is_none() {
            self.at_once.open(1);
        }
        if !self.options.readahead || ttl.is_zero() {
            return;
        }
        if let Some(entry) = entry {
            // Its fetch answers the name. A directory of one page is listed once a fetch finds its
            // file resident. One of more is listed if that costs less than its names have: up to
            // this one, and no fetch tells which that is.
            let names_cost_more =
                |known: &Dir| known.pages.len() > 1 && known.names as usize > NAMES_A_PAGE * known.pages.len();
            if self.named_file((dir, entry)) && !self.dirs.get(&dir).is_some_and(names_cost_more) {
                return;
            }
            self.named_directory((dir, entry));
            if self.renew_page(dir, entry).is_some() {
                // If its page does not come again, the name is asked for alone.
                return;
            }
        } else if self.renews_pages(dir) && self.dirs.get(&dir).is_some_and(|known| known.complete) {
            // Where the name would be is told next.
            return;
        }
        let most = self.directory_bytes_max();
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let is_too_long = known.is_too_long(most);
        if known.slides(most) {
            // A listing of it is not there for long.
            let page = entry.map(|entry| known.page_of(entry));
            let in_order = page.is_some_and(|(from, to)| self.sought(dir, from, to));
            if in_order || is_too_long {
                return;
            }
        }
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        // A page answers for a thousand names. If it has answered some, it will answer more; a
        // short one costs no more than a name.
        let is_short = known.listed <= SHORT_ENTRIES;
        let answers = known.complete && known.pages.len() == 1 && (known.answered >= NAMES_MIN || is_short);
        let names = known.names;
        // One that did not fit, and would by now, is not known as long as a part of it is gone.
        if known.is_known(now, ttl) && (known.gone == 0 || known.is_coming()) {
            if names >= NAMES_MIN {
                known.wants_up_to(entry);
                self.go_on(dir, true);
            }
        } else if !self.list_together(dir) && (answers || names >= NAMES_MIN) {
            self.list(dir, Class::Demand, true);
            if let Some(known) = self.dirs.get_mut(&dir) {
                known.wants_up_to(entry);
            }
        }
    }

    /// How many bytes of a file in a directory, of whose name nothing is known, are read before it
    /// is asked what the name is: the answer to the read tells that. `None` if the name is to be
    /// looked up: such files were not there lately, of which a listing knows.
    pub fn reads_at_once(&self) -> Option<u64> {
        (self.options.readahead && self.at_once.is_open()).then_some(READ_BYTES)
    }

    /// Whether the driver is to tell which directories `dir` is in, with a read by name in it.
    pub fn wants_above(&self, dir: DirId) -> bool {
        let DirOptions { readahead, ttl, below, .. } = self.options;
        readahead && below && !ttl.is_zero() && self.dirs.get(&dir).is_none_or(|known| known.read == 0)
    }

    /// Whether the listing of `dir` does not fit, so that names in it, if it is not fresh, have it
    /// listed from where they are ([`DirEvent::Sought`]).
    ///
    /// [`DirEvent::Sought`]: crate::DirEvent::Sought
    pub fn slides(&self, dir: DirId) -> bool {
        self.dirs.get(&dir).is_some_and(|known| known.is_too_long(self.directory_bytes_max()))
    }

    /// A reader reads a file in `dir` whose name nothing tells. That costs no more than if it were
    /// known: the directory is listed for its later names once there were some.
    pub(super) fn read_by_name(&mut self, dir: DirId, above: &[DirId]) {
        self.touch(dir);
        let (now, ttl) = (self.now, self.options.ttl);
        let known = self.dirs.entry(dir).or_default();
        known.read += 1;
        // Its listing has answered names, and expired.
        let has_answered = known.answered >= NAMES_MIN && !known.is_known(now, ttl);
        let is_due = known.read >= NAMES_READ || has_answered;
        if known.read == 1 {
            self.read_below(dir, above);
        }
        if is_due {
            self.named(dir, None, Found::Absent);
        }
    }

    /// Whether files are read by name in directories that are in one that `dir` is in.
    pub(super) fn is_read_by_name(&self, dir: DirId) -> bool {
        let above = |dir: &DirId| self.parents.get(dir).map(|(above, _)| *above);
        let mut above = core::iter::successors(above(&dir), above).take(LEVELS_ABOVE);
        above.any(|above| self.dirs.get(&above).is_some_and(|known| known.read_below > 0))
    }

    /// The first file in `dir` is read by its name. Where that has come from one directory into
    /// another one, what they are in is listed; and from a listing of that, by one request, the
    /// subtree that the reader has come to, and those behind it. No reader waits for these.
    fn read_below(&mut self, dir: DirId, above: &[DirId]) {
        let (now, ttl) = (self.now, self.options.ttl);
        if above.is_empty() {
            return;
        }
        let may_list = self.by_name.are_due(now, ttl);
        let mut child = dir;
        for &parent in above {
            let own = self.dirs.entry(child).or_default();
            let (is_known, was_counted) = (own.is_known(now, ttl), core::mem::replace(&mut own.is_counted, true));
            if self.parents.get(&child).is_some_and(|(known, _)| *known == parent) {
                if may_list && !is_known && self.list_behind(child) {
                    self.by_name.listed(now);
                }
                return;
            }
            if was_counted {
                return;
            }
            self.touch(parent);
            let known = self.dirs.entry(parent).or_default();
            known.read_below += 1;
            if known.read_below > 1 {
                if may_list {
                    self.list_for_names(parent);
                }
                return;
            }
            child = parent;
        }
    }

    /// Files are read by name in several directories in `parent`, the last of which its listing
    /// does not tell.
    fn list_for_names(&mut self, parent: DirId) {
        let (now, ttl) = (self.now, self.options.ttl);
        let known = self.dirs.entry(parent).or_default();
        let is_due = known.read_below.is_power_of_two() && !known.has_failed(now, ttl);
        if known.is_coming() {
            return;
        }
        if !known.is_known(now, ttl) {
            if is_due {
                if !self.list_behind(parent) {
                    self.list(parent, Class::Speculative, true);
                }
                self.by_name.listed(now);
            }
        } else if !known.complete && known.gone == 0 {
            // The reader is behind the pages that have come: the next one or two.
            known.pages_read = known.pages_read.max((known.pages.len() + 1).div_ceil(2));
            self.go_on(parent, false);
            if self.dirs.get(&parent).is_some_and(Dir::is_coming) {
                self.by_name.listed(now);
            }
        }
    }

    /// The storage has to be asked for the name of a directory. If names in it were looked up
    /// before, a program comes back to it and is about to look up names in it. So it is listed at
    /// once, beside the request for its own name. A listing with entries also shows that it is
    /// there.
    fn named_directory(&mut self, (dir, entry): FileRef) {
        let child = self.dirs.get(&dir).and_then(|dir| dir.get(entry)).map(|entry| entry.child);
        let Some(Child::Directory(below)) = child else { return };
        let (now, ttl, most) = (self.now, self.options.ttl, self.directory_bytes_max());
        let is_page = |known: &&Dir| !known.slides(most) && known.complete && known.pages.len() == 1;
        let was_used = |known: &&Dir| is_page(known) && known.names + known.answered > 0;
        if self.dirs.get(&below).filter(was_used).is_some_and(|known| !known.is_known(now, ttl))
            && !self.list_together(below)
        {
            self.list(below, Class::Demand, true);
        }
    }

    /// A reader looks up or enters one of the entries of `dir` from `from` on and before `to`:
    /// they are gone, or expired. Where names are in order, the directory is listed from there on.
    /// Returns whether it is.
    pub(super) fn sought(&mut self, dir: DirId, from: u32, to: u32) -> bool {
        if let Some(comes) = self.renew_page(dir, from) {
            return comes;
        }
        let (DirOptions { readahead, ttl, below, .. }, most) = (self.options, self.directory_bytes_max());
        let Some(known) = self.dirs.get_mut(&dir).filter(|known| known.slides(most)) else { return false };
        if !readahead || ttl.is_zero() || !below || !known.relisting.sought(from, to) {
            return false;
        }
        if known.is_coming() && known.listed == known.gone {
            // A listing from here is in flight.
            return true;
        }
        if from == known.listed && known.requested.is_some() && !known.complete {
            // The reader has come to the page that is next.
            known.pages_read = known.pages_read.max(known.pages_to(from));
            self.go_on(dir, true);
        } else {
            self.list_from(dir, from);
        }
        true
    }

    /// A reader passes `entry` of `dir`: it looks it up, or enters it. A directory that does not
    /// fit is listed on ahead of such readers, as it is ahead of one that reads it.
    fn passed(&mut self, dir: DirId, entry: u32) {
        let most = self.directory_bytes_max();
        let Some(known) = self.dirs.get_mut(&dir).filter(|known| known.slides(most)) else { return };
        known.relisting.hit();
        known.pages_read = known.pages_read.max(known.pages_to(entry));
        self.go_on(dir, false);
    }

    /// Whether a name in `dir` is to be asked for as a file and as a directory at once: nothing
    /// else is known of it. A second name has the directory listed. Source: docs/decisions/0049.
    pub fn asks_at_once(&self, dir: DirId) -> bool {
        self.options.readahead && self.dirs.get(&dir).is_none_or(|known| known.names < NAMES_MIN)
    }
}

/// Directories listed ahead when a walk begins. Lower: the reader waits more often until the
/// number has doubled. Higher: more listings in vain for a reader that enters two directories
/// only. Source: a guess, not measured.
const LISTINGS_FIRST: u32 = 8;

/// Names looked up in a directory before it is listed for its names, and names that an expired
/// page must have answered before it is listed again. Lower: a program that looks up one name has
/// a whole page listed. Higher: more names cost a request each. Source: docs/decisions/0029.
const NAMES_MIN: u32 = 2;

/// Files read before their names were known until names in their directory count, 7: the directory
/// is listed at the eighth. Lower: directories of a few files cost a listing each, which saves no
/// wait. Higher: of more files in a large directory none is fetched ahead. Source:
/// docs/decisions/0095 (four files in a directory; not tuned).
const NAMES_READ: u32 = 7;

/// Directories above one in which a file is read by name, of which policy is told: 4, the levels
/// of an array of four dimensions. Lower: of deeper trees little is listed. Higher: each new
/// directory brings more names into memory. Source: docs/decisions/0106.
pub const LEVELS_ABOVE: usize = 4;

/// Bytes of a file that are read before its length is known, 4 MiB: as far as files come whole
/// with their first read. Lower: longer files cost a request more. Higher: of a long file that is
/// read in parts more comes in vain. Source: docs/decisions/0064.
const READ_BYTES: u64 = 4 << 20;

/// Names asked for alone for each page of a directory, when it is listed again though its files
/// are fetched at their look-ups. Lower: listings add up to as many requests as the files.
/// Higher: a loader that opens files in no order asks for more names alone. Source:
/// docs/decisions/0090; at 4, listings are a quarter of what names cost without, at most.
pub(super) const NAMES_A_PAGE: usize = 4;

/// Entries of a listing that is made again for one name. Lower: two names cost two requests, one
/// after the other. Higher: a program that looks up one name now and then has longer answers.
/// Source: a guess; an answer of 32 KiB.
const SHORT_ENTRIES: u32 = 128;

/// Walks that are followed. Lower: more readers than this drop each other's walks. Higher: each
/// event searches more walks. Source: a guess, not measured.
const WALKS_MAX: usize = 16;
