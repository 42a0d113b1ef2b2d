//! Listings: which directories are listed, by themselves or a subtree at a time.
//!
//! ```text
//!   go_on     one directory:   pages  | read | ahead |      ahead: as many pages as were read,
//!                                                           up to 32 segments side by side
//!   list_from one directory:   pages  | gone .. | coming    anew from an entry that is gone
//!   list_ahead, for each walk, the latest first:
//!     next_dirs ──> unknown directories, as many as its confidence allows
//!        │            came by one request before?  ──> that one again (`renewals`)
//!        │            covers: one request lists 8 directories or more, or four levels above
//!        │                    are a chain, of one directory each?
//!        ├─ no  ──> list:       a request each, 64 directories in flight
//!        └─ yes ──> list_below: one request for as many as it covers, 4 in flight
//!                      │
//!                      ├─ Listed, Along: directories that came whole
//!                      └─ ListedBelow: the others are unknown again
//!
//!   many ahead already ──> the search rests for an eighth of them, in events
//! ```
//!
//! Eight directories of a subtree request count as one directory listed by itself. A listing that
//! is made anew replaces entries page by page, and keeps which files were fetched; its last page
//! drops the entries beyond it.
//!
//! *Invariants:* a directory has one listing in flight, unless a reader restarts it. A reader's
//! own listing is not limited. A subtree request is sent only where [`COVERS_MIN`] directories or
//! more come by it, and for directories none of which has a valid listing or one in flight.
//!
//! This file does not decide when a reader goes in order (`lookups`), or what is renewed
//! (`renewals`). It does not choose segments or split an answer into listings (the driver
//! does). Source: docs/decisions/0029 (one listing), 0030 (segments), 0034 and 0095 (subtrees),
//! 0133 (chains).

use alloc::vec::Vec;

use super::{Cause, DirReadahead, Request, STEPS_MAX};
use crate::directories::directory::{Backward, Coming, DIRECTORY_BYTES, Dir, Entry, Fetched, Opens};
use crate::directories::event::{Child, DirAction};
use crate::directories::subtree::{COVERS_MIN, Covers, LEVELS, Subtree};
use crate::directories::walk::{Frame, Order, Walk};
use crate::units::{Class, DirId};

impl DirReadahead {
    /// The first entries of a new listing have come.
    pub(super) fn relisted(&mut self, dir: DirId) {
        let gone = self.dirs.entry(dir).or_default().relist();
        self.entries_gone(dir, gone);
    }

    /// Drops the entries of an earlier listing from the latest one's end on.
    pub(super) fn discard(&mut self, dir: DirId) {
        let gone = self.dirs.get_mut(&dir).map_or_else(Vec::new, Dir::cut);
        self.entries_gone(dir, gone);
    }

    /// Entries of `dir` are forgotten.
    pub(super) fn entries_gone(&mut self, dir: DirId, gone: impl IntoIterator<Item = (u32, Entry)>) {
        let mut opened = 0;
        for (entry, state) in gone {
            opened += u32::from(state.opens != Opens::Never);
            match state.child {
                Child::Directory(below) if self.parents.get(&below) == Some(&(dir, entry)) => {
                    self.parents.remove(&below);
                }
                Child::Directory(_) | Child::File { .. } => {}
            }
            if state.fetched != Fetched::No {
                self.discarded((dir, entry), state);
            }
        }
        if let Some(known) = self.dirs.get_mut(&dir) {
            known.files_opened = known.files_opened.saturating_sub(opened);
        }
    }

    /// The next entries of a listing have come.
    pub(super) fn listed(&mut self, dir: DirId, children: &[Child], last: bool, bytes: u64) {
        let alone = self.answered(dir);
        let known = self.dirs.entry(dir).or_default();
        known.complete = last;
        let at = known.listed;
        let (before, after) = known.take(children, bytes);
        self.fetched.replaced(before, after);
        let subdirs = (at..).zip(children).filter_map(|(entry, child)| match child {
            Child::Directory(below) => Some((*below, (dir, entry))),
            Child::File { .. } => None,
        });
        self.parents.extend(subdirs);
        if last {
            self.dirs.entry(dir).or_default().completed();
            self.discard(dir);
            let entries = self.dirs.get(&dir).map_or(0, |known| known.listed as usize);
            let subdirs = self.dirs.get(&dir).map_or(0, |known| known.subdirs.len());
            let parent = self.parents.get(&dir).filter(|_| alone).map(|(parent, _)| *parent);
            if let Some(parent) = parent {
                self.learn(parent, |subtree| subtree.listed(entries, subdirs));
            }
        }
        self.touch(dir);
        self.trim(dir);
        self.go_on(dir, false);
    }

    /// Forgets the first pages of a directory that takes more than its share. Readers that want
    /// them again have them listed again.
    pub(super) fn trim(&mut self, dir: DirId) {
        let most = self.directory_bytes_max();
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        if known.bytes() <= most {
            return;
        }
        // A little more than it must, so that not every page moves all entries.
        let gone = known.trim(known.bytes() - most + most / TRIM_PART);
        let to = known.gone;
        if gone.is_empty() {
            return;
        }
        self.entries_gone(dir, gone);
        self.charge(dir);
        self.actions.push_back(DirAction::Trim { dir, to });
    }

    /// What one directory may take, in bytes.
    pub(super) fn directory_bytes_max(&self) -> u64 {
        self.options.shares.known_bytes / DIRECTORY_SHARE
    }

    /// Pages of a directory that may be ahead of its reader.
    fn pages_ahead_max(&self, dir: &Dir) -> usize {
        (self.options.shares.known_bytes / AHEAD_SHARE / dir.mean_page_bytes()).max(1) as usize
    }

    /// Asks for more of a directory if fewer pages have come than twice those read, or a reader
    /// `waits`.
    pub(super) fn go_on(&mut self, dir: DirId, waits: bool) {
        let Some(known) = self.dirs.get(&dir) else { return };
        if known.complete || known.is_coming() || known.requested.is_none() {
            return;
        }
        // A directory that was listed ahead counts as read up to its first page: so much its
        // reader will ask for first.
        let read = known.pages_read.max(usize::from(known.ahead));
        let most = if self.options.readahead { self.pages_ahead_max(known) } else { 0 };
        let ahead = known.pages_wanted(read, most).saturating_sub(known.pages.len()) as u32;
        if ahead > 0 || waits {
            self.list(dir, if waits { Class::Demand } else { Class::Speculative }, false);
        }
    }

    /// Asks for a listing from its start, or for more of it. A listing that a reader wants anew
    /// does not wait for an older one to end.
    pub(super) fn list(&mut self, dir: DirId, class: Class, restarts: bool) {
        let readahead = self.options.readahead;
        let most = self.dirs.get(&dir).map_or(1, |known| self.pages_ahead_max(known));
        let known = self.dirs.entry(dir).or_default();
        if known.is_coming() && !(restarts && class == Class::Demand) {
            return;
        }
        if restarts {
            known.restart(self.now);
        }
        let before = core::mem::replace(&mut known.coming, Coming::Alone);
        self.listings += u32::from(before != Coming::Alone);
        known.ahead |= restarts && class == Class::Speculative;
        let ahead = known.pages_wanted(known.pages_read, most).saturating_sub(known.pages.len()) as u32;
        let parallel = if restarts || !readahead { 1 } else { ahead.clamp(1, PARALLEL_MAX) };
        match class {
            Class::Demand => self.counters.lists_demand += 1,
            Class::Speculative => self.counters.lists_speculative += 1,
        }
        self.actions.push_back(DirAction::List { dir, restarts, class, parallel });
    }

    /// Asks for a listing from the entry `from` on, in place of what is kept. A reader waits.
    pub(super) fn list_from(&mut self, dir: DirId, from: u32) {
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let left = known.restart_from(from, self.now);
        let before = core::mem::replace(&mut known.coming, Coming::Alone);
        self.listings += u32::from(before != Coming::Alone);
        self.counters.lists_demand += 1;
        // Their files are discarded by the listing that is replaced.
        self.entries_gone(dir, left);
        self.charge(dir);
        self.actions.push_back(DirAction::ListFrom { dir, from });
    }

    /// A listing was answered. Returns whether the directory was requested by itself.
    pub(super) fn answered(&mut self, dir: DirId) -> bool {
        let Some(known) = self.dirs.get_mut(&dir) else { return false };
        let alone = core::mem::take(&mut known.coming) == Coming::Alone;
        self.listings -= u32::from(alone);
        alone
    }

    /// Lists the directories that walks come to next, the latest walk first.
    pub(super) fn list_ahead(&mut self) {
        let mut wanted = Vec::new();
        if self.options.ttl.is_zero() {
            // A listing ahead would be out of date at once.
            return;
        }
        let mut walks = core::mem::take(&mut self.walks);
        for walk in walks.iter_mut().rev().filter(|walk| walk.is_followed(self.now)) {
            // Eight directories of a subtree request count as one that is listed by itself.
            let covers = walk.frames().take(NEAR_FRAMES).filter_map(|frame| self.covers(frame.dir));
            // How far a first request reaches is a guess.
            let covers = covers.filter(|covers| covers.is_seen).map(|covers| covers.all).max();
            let most = self.options.shares.known_bytes / WALK_SHARE / DIRECTORY_BYTES;
            let left = walk.listings.size() * covers.map_or(1, |covers| covers / COVERS_MIN);
            let mut left = (left as usize).min(most as usize);
            let free = (LISTINGS_MAX.saturating_sub(self.listings) as usize).saturating_sub(wanted.len());
            if free == 0 {
                break;
            }
            if walk.idle > 0 {
                walk.idle -= 1;
                continue;
            }
            let (size, before) = (left, wanted.len());
            let mut is_late = false;
            let steps = self.next_dirs(walk, |id, dir| {
                if left == 0 || wanted.len() >= free {
                    return false;
                }
                // One that is gone, or that the storage refuses, would fail again at once.
                let (now, ttl) = (self.now, self.options.ttl);
                let is_known = dir.is_known(now, ttl) || dir.has_failed(now, ttl);
                // It was listed ahead, and no reader came before it expired.
                is_late |= !is_known && dir.ahead;
                if !is_known && !wanted.contains(&id) {
                    wanted.push(id);
                }
                left -= usize::from(!is_known || dir.ahead);
                true
            });
            // With hundreds ahead, the next search waits until an eighth of them may have been
            // read; and a long search is not repeated at each event.
            let ahead = if covers.is_some() { size - left } else { 0 };
            let rest = (ahead / IDLE_PART).max(steps / STEPS_AN_EVENT) as u32;
            (walk.idle, walk.rest) = (if wanted.len() == before { rest } else { 0 }, rest);
            if is_late {
                walk.listings.missed();
            }
        }
        self.walks = walks;
        let (before, waits) = (self.actions.len(), !wanted.is_empty());
        for dir in wanted {
            if !self.list_as_before(dir) && !self.list_below(dir) {
                self.list(dir, Class::Speculative, true);
            }
        }
        if waits && self.actions.len() == before {
            // All of them wait for requests in flight: the end of one ends the rest as well.
            self.walks.iter_mut().for_each(|walk| walk.idle = walk.idle.max(walk.rest));
        }
    }

    /// `dir` and those above it, as many as know of directories in `dir`.
    fn upwards(&self, dir: DirId) -> impl Iterator<Item = DirId> {
        core::iter::successors(Some(dir), |dir| self.parents.get(dir).map(|(parent, _)| *parent)).take(LEVELS)
    }

    /// Something was learned of the subtrees in `dir`.
    fn learn(&mut self, dir: DirId, learn: impl Fn(&mut Subtree)) {
        for (level, above) in self.upwards(dir).collect::<Vec<_>>().into_iter().enumerate() {
            if let Some(known) = self.dirs.get_mut(&above) {
                learn(&mut known.subtrees.get_or_insert_default()[level]);
                // A reader is below it, and what it has learned holds for what comes.
                self.touch(above);
            }
        }
    }

    /// What one subtree request for directories in `dir` brings, if that is worth more than a
    /// request each. Of a new directory, what is known of those beside it; of one that has been
    /// listed one by one, what requests for such as it have brought.
    fn covers(&self, dir: DirId) -> Option<Covers> {
        if !self.options.below {
            return None;
        }
        // What is known of the depth so far below `dir`, the nearest first.
        let at = |depth: usize| {
            self.upwards(dir).enumerate().filter_map(move |(level, above)| {
                self.dirs.get(&above)?.subtrees.as_ref()?.get(level + depth).copied().filter(|found| found.is_known())
            })
        };
        let mut here = at(0);
        let Some(own) = here.next() else { return self.is_chain(dir).then_some(Covers::OF_A_CHAIN) };
        let asked = if own.is_asked() { None } else { here.find(|found| found.is_asked()) };
        let found = asked.filter(|asked| asked.is_like(own)).unwrap_or(own);
        if found.is_asked() {
            return found.covers(&[]);
        }
        let mut deeper = [Subtree::default(); LEVELS];
        for (depth, found) in (1..).zip(&mut deeper) {
            *found = at(depth).next().unwrap_or_default();
        }
        found.covers(&deeper)
    }

    /// Whether `dir` and those above it hold one directory each, and few files: a chain, of which
    /// no depth has siblings to tell what comes. Not so where a request for such has been in vain.
    fn is_chain(&self, dir: DirId) -> bool {
        let links = self.upwards(dir).filter_map(|above| self.dirs.get(&above));
        let is_link = |known: &Dir| {
            let was_in_vain =
                known.subtrees.as_ref().is_some_and(|found| found[0].is_asked() && found[0].covers(&[]).is_none());
            known.complete && known.subdirs.len() == 1 && known.pages.len() == 1 && !was_in_vain
        };
        links.filter(|known| is_link(known)).count() == LEVELS
    }

    /// A subtree request is over. Its directories that were not reported did not come whole.
    pub(super) fn listed_below(&mut self, dir: DirId, from: u32) {
        let Some(at) = self.belows.iter().position(|request| (request.dir, request.from) == (dir, from)) else {
            return;
        };
        let Request { along, cause, requested, .. } = self.belows.swap_remove(at);
        self.walks.iter_mut().for_each(|walk| (walk.idle, walk.rest) = (0, 0));
        // Requests in flight at the same time share what came along.
        let others = core::mem::take(&mut self.came_along);
        let mut told = along.len() as u32;
        for &id in &along {
            if let Some(known) = self.dirs.get_mut(&id).filter(|dir| dir.coming == Coming::Along) {
                (known.coming, known.ahead, known.requested) = (Coming::Nothing, false, None);
                told -= 1;
            }
        }
        self.came_by(dir, from, requested);
        if cause == Cause::Walk {
            self.learn(dir, |subtree| subtree.told(told, told + others));
        }
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        match (cause, told) {
            (Cause::Name, told) if told < along.len() as u32 && along.len() > 1 => {
                // Those before the reader's own have filled the answer.
                let own = self.parents.get(&along[0]).map_or(from, |&(_, entry)| entry);
                known.backward = known.backward.map(|last| last.filled(own));
                if !self.dirs.get(&along[0]).is_some_and(|dir| dir.is_known(self.now, self.options.ttl)) {
                    self.list(along[0], Class::Demand, true);
                }
            }
            (Cause::Name, 0) => {
                known.together.missed();
                for id in along {
                    self.dirs.entry(id).or_default().apart = true;
                    // The reader waits for its own directory, at least.
                    self.list(id, Class::Demand, true);
                }
            }
            (Cause::Name, _) => known.together.hit(false),
            (Cause::Renewal | Cause::ReadByName, 0) => {
                for id in along {
                    self.dirs.entry(id).or_default().apart = true;
                    self.list(id, Class::Speculative, true);
                    if cause == Cause::ReadByName {
                        self.by_name.listed(self.now);
                    }
                }
            }
            (Cause::Walk | Cause::Renewal | Cause::ReadByName, _) => {}
        }
    }

    /// Lists `dir` and the directories after it by one request, if that is worth it. Returns
    /// `false` if `dir` is to be listed by itself.
    fn list_below(&mut self, dir: DirId) -> bool {
        let Some(&(parent, from)) = self.parents.get(&dir) else { return false };
        let Some(covers) = self.covers(parent) else { return false };
        let ahead = self.belows.iter().filter(|request| request.cause == Cause::Walk).count();
        let most = (BELOWS_DIRS / covers.all as usize).clamp(BELOWS_MIN, BELOWS_MAX);
        if self.dirs.get(&dir).is_some_and(Dir::is_coming) || ahead >= most {
            // It is in flight already, or has to wait.
            return true;
        }
        let Some(above) = self.dirs.get(&parent) else { return false };
        let ids = above.subdirs.iter().skip_while(|&&entry| entry < from).take(covers.side_by_side as usize);
        let (mut to, mut along) = (from, Vec::new());
        for &entry in ids {
            let Some(Child::Directory(id)) = above.get(entry).map(|entry| entry.child) else { continue };
            if self.dirs.get(&id).is_some_and(|dir| dir.is_known(self.now, self.options.ttl)) {
                break;
            }
            along.push(id);
            to = entry + 1;
        }
        if !covers.is_worth(along.len()) {
            return false;
        }
        for &id in &along {
            let known = self.dirs.entry(id).or_default();
            known.restart(self.now);
            (known.coming, known.ahead) = (Coming::Along, true);
            self.touch(id);
        }
        self.request_below(parent, (from, to), along, Cause::Walk);
        true
    }

    /// Files in `dir`, or below it, are read by name: lists `dir` by one request with its subtree,
    /// and what is behind it. Returns `false` if that is not possible.
    pub(super) fn list_behind(&mut self, dir: DirId) -> bool {
        let Some(&(parent, from)) = self.parents.get(&dir) else { return false };
        let is_there = self.dirs.get(&parent).and_then(|above| above.subdir(from)) == Some(dir);
        let can = self.options.below && is_there && !self.has_belows_max();
        let Some(known) = self.dirs.get_mut(&dir).filter(|_| can) else { return false };
        if known.apart || known.is_coming() || known.pages.len() > 1 {
            return false;
        }
        known.restart(self.now);
        known.coming = Coming::Along;
        self.request_below(parent, (from, from + 1), alloc::vec![dir], Cause::ReadByName);
        true
    }

    /// A name in `dir` was looked up, and the storage has to be asked: lists `dir` by one request
    /// with its subtree, and with those beside it. Returns `false` if that is not worth it.
    pub(super) fn list_together(&mut self, dir: DirId) -> bool {
        if !self.options.below || self.has_belows_max() {
            return false;
        }
        let Some(&(parent, from)) = self.parents.get(&dir) else { return false };
        let is_large = |known: &Dir| known.apart || known.pages.len() > 1;
        if self.dirs.get(&dir).is_some_and(|known| known.is_coming() || is_large(known)) {
            return false;
        }
        let Some(above) = self.dirs.get_mut(&parent) else { return false };
        if !matches!(above.get(from), Some(Entry { child: Child::Directory(id), .. }) if *id == dir) {
            return false;
        }
        above.together.open(1);
        if !above.together.is_open() {
            return false;
        }
        let at = above.subdirs.partition_point(|&entry| entry < from);
        // A reader that goes from the last one to the first wants those before: a request lists
        // what follows.
        let next = above.subdirs.get(at + 1).copied();
        let last = above.backward.filter(|last| next.is_some_and(|next| last.goes_on_before(next)));
        let before = last.map_or(0, Backward::next);
        let first = at.saturating_sub(before as usize);
        let (now, ttl) = (self.now, self.options.ttl);
        let above = &self.dirs[&parent];
        let backward = above.subdirs[first..=at].iter().rev();
        let is_unknown =
            |id: &DirId| self.dirs.get(id).is_none_or(|known| !known.is_known(now, ttl) && !is_large(known));
        let along: Vec<DirId> = backward.map_while(|&entry| above.subdir(entry).filter(is_unknown)).collect();
        if along.is_empty() {
            return false;
        }
        let Some(above) = self.dirs.get_mut(&parent) else { return false };
        let begins = above.subdirs[(at + 1).saturating_sub(along.len())];
        let lowest = last.map_or(begins, |last| last.lowest.min(begins));
        let grows = last.is_none_or(|last| last.grows);
        above.backward = Some(Backward { from: begins, lowest, before, grows });
        for id in &along {
            let known = self.dirs.entry(*id).or_default();
            known.restart(now);
            known.coming = Coming::Along;
        }
        self.request_below(parent, (begins, from + 1), along, Cause::Name);
        true
    }

    /// Whether no reader's name, and no renewal, may have another subtree listed.
    pub(super) fn has_belows_max(&self) -> bool {
        self.belows.len() >= BELOWS_MAX + NAMED_BELOWS_MAX
    }

    /// Asks for the subtrees of `along`, which are the directories among the entries `[from, to)`
    /// of `dir`.
    pub(super) fn request_below(&mut self, dir: DirId, (from, to): (u32, u32), along: Vec<DirId>, cause: Cause) {
        self.belows.push(Request { dir, from, along, cause, requested: self.now });
        self.counters.lists_below += 1;
        self.actions.push_back(DirAction::ListBelow { dir, from, to });
    }

    /// Calls `visit` with the directories that `walk` comes to next, in order, until it returns
    /// `false`. Returns how many directories of the walk and entries were examined.
    fn next_dirs(&self, walk: &Walk, mut visit: impl FnMut(DirId, &Dir) -> bool) -> usize {
        let nothing = Dir::default();
        let (mut steps, mut frames) = (0, 0);
        let mut below: Vec<(DirId, usize)> = Vec::new();
        for Frame { dir, next } in walk.frames() {
            frames += 1;
            let Some(known) = self.dirs.get(&dir) else { continue };
            below.push((dir, known.subdirs.partition_point(|&entry| entry < next)));
            while let Some((dir, at)) = below.pop() {
                let Some(known) = self.dirs.get(&dir) else { continue };
                let Some(entry) = known.subdirs.get(at).and_then(|&entry| known.get(entry)) else {
                    continue;
                };
                below.push((dir, at + 1));
                let Child::Directory(id) = entry.child else { continue };
                steps += 1;
                if steps > STEPS_MAX || !visit(id, self.dirs.get(&id).unwrap_or(&nothing)) {
                    return frames + steps;
                }
                if walk.order == Order::Depth {
                    below.push((id, 0));
                }
            }
        }
        frames + steps
    }
}

/// Listings of single directories in flight, above which none is listed ahead. Lower: a fast walk
/// waits for listings. Higher: a reader's own listing shares the storage with more of them.
/// Source: docs/decisions/0034 (64 side by side).
const LISTINGS_MAX: u32 = 64;

/// Subtree requests in flight for walks, if each brings many directories. Lower: a walk through
/// small directories waits for answers. Higher: more directories are listed in vain where a walk
/// ends. Source: docs/decisions/0034.
const BELOWS_MIN: usize = 4;

/// The same, if each brings few. Lower: of eight directories each they bring less than as many
/// requests for one directory. Higher: as above. Source: docs/decisions/0095.
const BELOWS_MAX: usize = 8;

/// Directories that such requests bring together, if they are more than [`BELOWS_MIN`]. Lower:
/// walks wait for answers. Higher: in a small budget directories are forgotten before the walk
/// comes to them. Source: docs/decisions/0095.
const BELOWS_DIRS: usize = 1024;

/// Subtree requests in flight for names that readers look up, and to renew what came by such,
/// beyond those of walks. Lower:
/// several readers in a cold tree have directories listed one by one. Higher: a reader's own
/// requests share the storage with more of them. Source: a guess, not measured.
const NAMED_BELOWS_MAX: usize = 16;

/// With subtree requests, the search for directories rests for an eighth of those ahead, in
/// events. Lower: a longer rest, and fewer directories ahead of the reader. Higher: the search at
/// each event takes more time, half of the whole without a rest. Source: docs/decisions/0034.
const IDLE_PART: usize = 8;

/// Directories and entries examined in a search, for each event that passes before the next one if
/// it was in vain. Lower: what is to be listed waits for more events. Higher: a walk that has left
/// thousands of directories behind, as one that goes breadth first, takes more time for each.
/// Source: docs/decisions/0095.
const STEPS_AN_EVENT: usize = 64;

/// Directories above a reader, its own included, that are checked for a subtree to be listed in
/// one request. Lower: small directories deep in a tree are listed one by one. Higher: each event
/// checks more ancestors. Source: a guess, not measured.
const NEAR_FRAMES: usize = 4;

/// Requests for segments of one directory in flight, at most. Lower: a large directory takes
/// longer. Higher: more requests beyond the end of a directory of unknown size. Source:
/// docs/decisions/0030.
const PARALLEL_MAX: u32 = 32;

/// Divisor of the memory for directories: what one of them may take, a half. Lower: large
/// directories are known whole less often. Higher: one of them has all others forgotten. Source: a
/// guess, not measured.
const DIRECTORY_SHARE: u64 = 2;

/// Divisor of a directory's share: what is forgotten of it beyond what must be, an eighth. Lower:
/// more is forgotten early. Higher: entries are moved more often. Source: a guess, not measured.
const TRIM_PART: u64 = 8;

/// Divisor of the memory for directories: what those that are listed ahead of a walk may take, an
/// eighth, if they are small. Lower: directories are forgotten before the walk comes to them.
/// Higher: in a small budget a fast walk waits for listings. Source: docs/decisions/0055.
const WALK_SHARE: u64 = 8;

/// Divisor of the memory for directories: what one of them may be ahead of its reader, an eighth.
/// Lower: a large directory is listed with fewer requests side by side. Higher: pages ahead are
/// forgotten before they are read. Source: a guess, not measured.
const AHEAD_SHARE: u64 = 8;
