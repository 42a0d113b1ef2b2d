//! Directory readahead: what is listed, and which small files are fetched, before a reader asks.
//!
//! ```text
//!   one directory      pages read   |-----|.....|.....|          twice as many are asked for as were read: from the first on,
//!                                   read   ahead                 since who reads a directory reads all of it
//!   a tree             a/ b/ c/ d/ e/ ..                         the second one entered in order makes a walk: what comes next is
//!                      ^  ^ [listed]                             listed side by side, as many as the reader would have to wait for
//!   files              1 2 3 4 5 6 7 ..                          the second one opened in order: what comes next is fetched whole,
//!                      ^ ^ [fetched]                             across directories, or in the order of an epoch before
//! ```
//!
//! How much is ahead is a [`Window`]: it doubles whenever the reader has to wait for what was foretold, and stops when what is foretold
//! is not what is wanted. A listing is worth something for [`DirOptions::ttl`] only, so nothing is listed that a reader does not come to
//! in that time. Demand first: a reader's own listing is never kept waiting.
//!
//! Origin: Wu Fengguang's readahead for directories (2007): reads of 128 KiB at twice the rate of the reader, aggressive from the start.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::dir_event::{Child, DirAction, DirCounters, DirEvent};
use crate::epoch::{Epoch, FileRef};
use crate::event::{Class, Found};
use crate::units::{DirId, Nanos, PAGE_BYTES};
use crate::walk::{Frame, Order, Walk};

/// What a driver decides once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirOptions {
    /// Bytes that everything known of directories may take.
    pub capacity_bytes: u64,
    /// Bytes of files that were fetched and not opened yet, at most.
    pub contents_bytes: u64,
    /// How long what a listing says is believed, from when it was asked for.
    pub ttl: Nanos,
    /// Whether anything is listed or fetched ahead at all.
    pub readahead: bool,
}

/// What is known of a directory.
#[derive(Debug, Default)]
struct Dir {
    entries: Vec<Entry>,
    /// How many of them are of the latest listing; the others of the one before, until it has come so far.
    listed: usize,
    /// Which of them are directories.
    subdirs: Vec<u32>,
    /// The entry after the last one of each page that has come.
    pages: Vec<u32>,
    /// All of it has come.
    complete: bool,
    /// More of it is in flight.
    listing: bool,
    /// When the first page of what is known, or will be, was asked for.
    requested: Option<Nanos>,
    /// Listed before anybody read it, and not read since.
    ahead: bool,
    /// Pages of it that a reader has come to.
    pages_read: usize,
    /// The directory in it that was entered last.
    entered: Option<u32>,
    /// The file in it that was opened last, and how many were so one after the other.
    opened: Option<(u32, i32)>,
    /// Files in it that were opened in no order.
    unordered: u32,
    /// Names asked for since it was listed that were not known, and that were.
    names: u32,
    answered: u32,
    bytes: u64,
    /// When it was last of use, as the order among all.
    used: u64,
}

/// One entry, packed: what it is, and what has become of it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    child: Child,
    /// Fetched ahead, and not opened since.
    fetched: bool,
    opened: bool,
}

impl Entry {
    fn bytes(self) -> u64 {
        match self.child {
            Child::File { pages } => pages * PAGE_BYTES,
            Child::Directory(_) => 0,
        }
    }

    /// Whether it is worth fetching whole.
    fn is_small_file(self) -> bool {
        matches!(self.child, Child::File { pages } if (1..=SMALL_PAGES).contains(&pages))
    }
}

impl Dir {
    /// Whether a listing that was asked for so long ago still counts, or is on its way.
    fn is_known(&self, now: Nanos, ttl: Nanos) -> bool {
        self.listing || (!self.pages.is_empty() && self.requested.is_some_and(|at| now.since(at) <= ttl))
    }

    /// Pages that hold entries before `entry`, and the one that holds it.
    fn pages_to(&self, entry: u32) -> usize {
        self.pages.partition_point(|&end| end <= entry) + 1
    }

    fn entry(&mut self, entry: u32) -> Option<&mut Entry> {
        self.entries.get_mut(entry as usize)
    }

    /// The next file after `entry` in a direction, past directories.
    fn next_file(&self, entry: u32, backward: bool) -> Option<u32> {
        let is_file = |&at: &usize| matches!(self.entries[at].child, Child::File { .. });
        let at = if backward {
            (0..(entry as usize).min(self.entries.len())).rev().take(NEAR).find(is_file)
        } else {
            (entry as usize + 1..self.entries.len()).take(NEAR).find(is_file)
        };
        at.map(|at| at as u32)
    }
}

/// The directories of one mount or library: one value a backend. Told of events and asked for actions as [`crate::ReadPath`] is.
pub struct DirReadahead {
    options: DirOptions,
    dirs: BTreeMap<DirId, Dir>,
    /// Where each directory is an entry.
    parents: BTreeMap<DirId, (DirId, u32)>,
    by_use: BTreeSet<(u64, DirId)>,
    uses: u64,
    bytes: u64,
    /// The one used last is the last one.
    walks: Vec<Walk>,
    epoch: Epoch,
    /// Listings in flight, and files.
    listings: u32,
    fetches: BTreeSet<FileRef>,
    /// Files fetched that nobody has opened, the oldest first.
    fetched: VecDeque<FileRef>,
    fetched_bytes: u64,
    /// There was no room for the last one: none is asked for until that may have changed.
    refused: bool,
    actions: VecDeque<DirAction>,
    now: Nanos,
    counters: DirCounters,
}

impl DirReadahead {
    /// One that knows nothing.
    pub fn new(options: DirOptions) -> Self {
        Self {
            options,
            dirs: BTreeMap::new(),
            parents: BTreeMap::new(),
            by_use: BTreeSet::new(),
            uses: 0,
            bytes: 0,
            walks: Vec::new(),
            epoch: Epoch::default(),
            listings: 0,
            fetches: BTreeSet::new(),
            fetched: VecDeque::new(),
            fetched_bytes: 0,
            refused: false,
            actions: VecDeque::new(),
            now: Nanos(0),
            counters: DirCounters::default(),
        }
    }

    /// Tells what happened. Poll the actions afterwards.
    pub fn handle(&mut self, now: Nanos, event: DirEvent<'_>) {
        self.now = now;
        match event {
            DirEvent::Read { dir, entry, found } => self.read(dir, entry, found),
            DirEvent::Named { dir, found } => self.named(dir, found),
            DirEvent::Opened { dir, entry, found } => self.opened(dir, entry, found),
            DirEvent::Expected { dir, entry } => self.epoch.expect((dir, entry)),
            DirEvent::Listed { dir, first, same, children, last, bytes } => {
                if first {
                    self.relisted(dir);
                }
                if !same {
                    // Its files have other places from now on.
                    self.epoch.forget(dir);
                    self.discard(dir);
                }
                self.listed(dir, children, last, bytes);
            }
            DirEvent::Failed { dir } => {
                if let Some(dir) = self.dirs.get_mut(&dir) {
                    self.listings -= u32::from(core::mem::take(&mut dir.listing));
                    (dir.ahead, dir.requested) = (false, None);
                }
            }
            DirEvent::Fetched { dir, entry, came } => {
                self.fetches.remove(&(dir, entry));
                self.refused = !came;
                if !came {
                    self.take_fetched((dir, entry));
                }
            }
        }
        if self.options.readahead {
            self.list_ahead();
            self.fetch_ahead();
        }
        self.shrink();
    }

    /// What to do next, until `None`.
    pub fn poll_action(&mut self) -> Option<DirAction> {
        self.actions.pop_front()
    }

    /// What has been decided so far.
    pub fn counters(&self) -> DirCounters {
        self.counters
    }

    /// What is known takes so many bytes.
    pub fn charged_bytes(&self) -> u64 {
        self.bytes + self.epoch.len() as u64 * EPOCH_BYTES
    }

    fn read(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        let known = self.dirs.entry(dir).or_default();
        let is_first = entry == 0;
        let ahead = core::mem::take(&mut known.ahead);
        if is_first && found == Found::Absent {
            // What was known is too old, or was never there.
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
        let dirs = &self.dirs;
        let has_unread = |frame: Frame| {
            dirs.get(&frame.dir).is_some_and(|dir| dir.subdirs.last().is_some_and(|&last| last >= frame.next))
        };
        let walk = self.walks.iter_mut().position(|walk| walk.enter(dir, parent, at, has_unread));
        let Some(above) = self.dirs.get_mut(&parent) else { return };
        let place = |entry: u32| above.subdirs.partition_point(|&subdir| subdir < entry);
        let in_order = match above.entered {
            None => place(at) == 0,
            Some(before) => place(before).abs_diff(place(at)) == 1,
        };
        above.entered = Some(at);
        let was_read = above.pages_read > 0;
        if let Some(walk) = walk {
            let mut walk = self.walks.remove(walk);
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

    fn add_walk(&mut self, walk: Walk) {
        self.counters.walks += 1;
        if self.walks.len() == WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(walk);
    }

    fn named(&mut self, dir: DirId, found: Found) {
        self.touch(dir);
        let (now, ttl) = (self.now, self.options.ttl);
        let known = self.dirs.entry(dir).or_default();
        if found != Found::Absent {
            known.answered += 1;
            return;
        }
        known.names += 1;
        if !self.options.readahead || ttl.is_zero() {
            return;
        }
        // A page answers for a thousand names. Where it has answered for some, it will again.
        let answers = known.complete && known.pages.len() == 1 && known.answered >= NAMES_MIN;
        if known.is_known(now, ttl) {
            if known.names >= NAMES_MIN {
                self.go_on(dir, true);
            }
        } else if answers || known.names >= NAMES_MIN {
            self.list(dir, Class::Demand, true);
        }
    }

    fn opened(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        self.refused = false;
        let expected = self.epoch.opened((dir, entry));
        let fetched = self.take_fetched((dir, entry));
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let Some(state) = known.entry(entry) else { return };
        state.opened = true;
        self.counters.fetches_hit += u64::from(fetched && found != Found::Absent);
        let last = known.opened;
        let steps = last.map_or(0, |(last, run)| {
            let forward = known.next_file(last, false) == Some(entry);
            let backward = known.next_file(last, true) == Some(entry);
            match (forward, backward) {
                (true, _) => run.max(0) + 1,
                (_, true) => run.min(0) - 1,
                _ if last == entry => run,
                _ => 0,
            }
        });
        known.opened = Some((entry, steps));
        known.unordered += u32::from(steps == 0 && last.is_some_and(|(last, _)| last != entry));
        // Two in a row are an order where all others were, and chance where many were not.
        let in_order = steps.unsigned_abs() > known.unordered.min(UNORDERED_MAX);
        if expected {
            if fetched {
                if found == Found::Absent {
                    self.epoch.window.missed();
                } else {
                    self.epoch.window.hit(found == Found::InFlight);
                }
            } else if self.epoch.is_repeated() {
                self.epoch.window.hit(true);
            }
        }
        let mut at = self.walks.iter_mut().rposition(|walk| walk.frame(dir).is_some());
        if at.is_none() && in_order {
            self.add_walk(Walk::new(dir, 0));
            at = Some(self.walks.len() - 1);
        }
        let Some(at) = at else { return };
        let mut walk = self.walks.remove(at);
        walk.backward = steps < 0;
        if fetched {
            if found == Found::Absent { walk.contents.missed() } else { walk.contents.hit(found == Found::InFlight) }
        } else if walk.contents.is_open() && steps == 0 && !expected {
            walk.contents.missed();
        }
        if in_order {
            walk.contents.open(CONTENTS_FIRST);
        }
        if let Some(frame) = walk.frame(dir) {
            frame.next = if steps < 0 { entry } else { entry + 1 };
        }
        self.walks.push(walk);
    }

    /// The first entries of a new listing have come.
    fn relisted(&mut self, dir: DirId) {
        let known = self.dirs.entry(dir).or_default();
        known.listed = 0;
        known.subdirs.clear();
        known.pages.clear();
        (known.opened, known.entered, known.unordered) = (None, None, 0);
    }

    /// What a listing before said of places to come counts no more.
    fn discard(&mut self, dir: DirId) {
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let gone: Vec<_> = known.entries.drain(known.listed..).zip(known.listed as u32..).collect();
        for (state, entry) in gone.into_iter().filter(|(state, _)| state.fetched) {
            self.discarded((dir, entry), state);
        }
    }

    /// A file that was fetched is not expected any more, and its entry is gone.
    fn discarded(&mut self, file: FileRef, state: Entry) {
        self.fetched_bytes = self.fetched_bytes.saturating_sub(state.bytes());
        self.fetched.retain(|&other| other != file);
        self.actions.push_back(DirAction::Discard { dir: file.0, entry: file.1 });
    }

    fn listed(&mut self, dir: DirId, children: &[Child], last: bool, bytes: u64) {
        let known = self.dirs.entry(dir).or_default();
        self.listings -= u32::from(core::mem::take(&mut known.listing));
        known.complete = last;
        let at = known.listed;
        for &child in children {
            if let Child::Directory(_) = child {
                known.subdirs.push(known.listed as u32);
            }
            match known.entries.get_mut(known.listed) {
                // What was fetched under this name is still there.
                Some(state) => (state.child, state.opened) = (child, false),
                None => known.entries.push(Entry { child, fetched: false, opened: false }),
            }
            known.listed += 1;
        }
        known.pages.push(known.listed as u32);
        let own = (known.entries.capacity() * size_of::<Entry>()) as u64;
        let before = core::mem::replace(&mut known.bytes, bytes + own);
        self.bytes = (self.bytes + bytes + own).saturating_sub(before);
        let subdirs = children.iter().enumerate().filter_map(|(n, child)| match child {
            Child::Directory(below) => Some((*below, (at + n) as u32)),
            Child::File { .. } => None,
        });
        self.parents.extend(subdirs.map(|(below, entry)| (below, (dir, entry))));
        if last {
            self.discard(dir);
        }
        self.touch(dir);
        self.go_on(dir, false);
    }

    /// Asks for more of a directory: twice as many pages as were read, in so many requests as there are pages to be had.
    fn go_on(&mut self, dir: DirId, waits: bool) {
        let Some(known) = self.dirs.get(&dir) else { return };
        if known.complete || known.listing || known.requested.is_none() {
            return;
        }
        // Of what is listed ahead, as much as the first call of its reader will ask for.
        let read = known.pages_read.max(usize::from(known.ahead));
        let wanted = if self.options.readahead { read * 2 } else { read };
        let ahead = wanted.saturating_sub(known.pages.len()) as u32;
        if ahead > 0 || waits {
            self.list(dir, if waits { Class::Demand } else { Class::Speculative }, false);
        }
    }

    /// Asks for a listing, from its start or for more of it. One that a reader wants anew does not wait for an older one to end.
    fn list(&mut self, dir: DirId, class: Class, restarts: bool) {
        let readahead = self.options.readahead;
        let known = self.dirs.entry(dir).or_default();
        if known.listing && !(restarts && class == Class::Demand) {
            return;
        }
        if restarts {
            (known.requested, known.complete, known.pages_read) = (Some(self.now), false, 0);
            (known.names, known.answered) = (0, 0);
        }
        self.listings += u32::from(!core::mem::replace(&mut known.listing, true));
        known.ahead |= restarts && class == Class::Speculative;
        let ahead = (known.pages_read * 2).saturating_sub(known.pages.len()) as u32;
        let parallel = if restarts || !readahead { 1 } else { ahead.clamp(1, PARALLEL_MAX) };
        match class {
            Class::Demand => self.counters.lists_demand += 1,
            Class::Speculative => self.counters.lists_speculative += 1,
        }
        self.actions.push_back(DirAction::List { dir, restarts, class, parallel });
    }

    /// Lists the directories that walks come to next.
    fn list_ahead(&mut self) {
        let mut wanted = Vec::new();
        if self.options.ttl.is_zero() {
            // None would be believed.
            return;
        }
        for walk in self.walks.iter().rev() {
            let mut left = walk.listings.size() as usize;
            let free = (LISTINGS_MAX.saturating_sub(self.listings) as usize).saturating_sub(wanted.len());
            if free == 0 {
                break;
            }
            self.next_dirs(walk, |id, dir| {
                if left == 0 || wanted.len() >= free {
                    return false;
                }
                let is_known = dir.is_known(self.now, self.options.ttl);
                if !is_known && !wanted.contains(&id) {
                    wanted.push(id);
                }
                left -= usize::from(!is_known || dir.ahead);
                true
            });
        }
        for dir in wanted {
            self.list(dir, Class::Speculative, true);
        }
    }

    /// The directories that `walk` comes to next, in order, until `visit` has enough.
    fn next_dirs(&self, walk: &Walk, mut visit: impl FnMut(DirId, &Dir) -> bool) {
        let nothing = Dir::default();
        let mut steps = 0;
        let mut below: Vec<(DirId, usize)> = Vec::new();
        for Frame { dir, next } in walk.frames() {
            let Some(known) = self.dirs.get(&dir) else { continue };
            below.push((dir, known.subdirs.partition_point(|&entry| entry < next)));
            while let Some((dir, at)) = below.pop() {
                let Some(known) = self.dirs.get(&dir) else { continue };
                let Some(entry) = known.subdirs.get(at).and_then(|&entry| known.entries.get(entry as usize)) else {
                    continue;
                };
                below.push((dir, at + 1));
                let Child::Directory(id) = entry.child else { continue };
                steps += 1;
                if steps > STEPS_MAX || !visit(id, self.dirs.get(&id).unwrap_or(&nothing)) {
                    return;
                }
                if walk.order == Order::Depth {
                    below.push((id, 0));
                }
            }
        }
    }

    /// Fetches the files that readers come to next.
    fn fetch_ahead(&mut self) {
        let mut wanted: Vec<FileRef> = Vec::new();
        let free = FETCHES_MAX.saturating_sub(self.fetches.len());
        if free == 0 || self.refused {
            return;
        }
        if self.epoch.is_repeated() {
            let mut left = self.epoch.window.size();
            let mut bytes = 0;
            for (dir, entry) in self.epoch.expected().take(STEPS_MAX) {
                if left == 0 || bytes > self.options.contents_bytes / 2 || wanted.len() >= free {
                    break;
                }
                let Some(state) = self.dirs.get(&dir).and_then(|dir| dir.entries.get(entry as usize)) else { continue };
                if !state.is_small_file() {
                    continue;
                }
                left -= 1;
                bytes += state.bytes();
                if !state.fetched && !self.fetches.contains(&(dir, entry)) {
                    wanted.push((dir, entry));
                }
            }
        }
        for walk in self.walks.iter().rev().filter(|walk| walk.contents.is_open()) {
            let mut left = walk.contents.size();
            let mut bytes = 0;
            self.next_files(walk, |file, state| {
                if left == 0 || bytes > self.options.contents_bytes / 2 || wanted.len() >= free {
                    return false;
                }
                left -= 1;
                bytes += state.bytes();
                if !state.fetched && !self.fetches.contains(&file) && !wanted.contains(&file) {
                    wanted.push(file);
                }
                true
            });
        }
        for file @ (dir, entry) in wanted {
            let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { continue };
            state.fetched = true;
            self.fetched_bytes += state.bytes();
            self.fetched.push_back(file);
            self.counters.fetches += 1;
            self.fetches.insert(file);
            self.actions.push_back(DirAction::Fetch { dir, entry });
        }
        // What was expected longest ago and did not come is not expected any more.
        while self.fetched_bytes > self.options.contents_bytes || self.fetched.len() > FETCHED_MAX {
            let Some(&file @ (dir, entry)) = self.fetched.front() else { return };
            self.take_fetched(file);
            self.actions.push_back(DirAction::Discard { dir, entry });
        }
    }

    /// A file does not count as fetched any more. Whether it did.
    fn take_fetched(&mut self, (dir, entry): FileRef) -> bool {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return false };
        let fetched = core::mem::take(&mut state.fetched);
        if fetched {
            self.fetched_bytes = self.fetched_bytes.saturating_sub(state.bytes());
            self.fetched.retain(|&file| file != (dir, entry));
        }
        fetched
    }

    /// The small files that `walk` comes to next and that were not opened, in order, until `visit` has enough.
    fn next_files(&self, walk: &Walk, mut visit: impl FnMut(FileRef, Entry) -> bool) {
        let mut steps = 0;
        let mut below: Vec<(DirId, u32)> = Vec::new();
        for (at, Frame { dir, next }) in walk.frames().enumerate() {
            if at == 0 && walk.backward {
                let entries = self.dirs.get(&dir).map_or(&[][..], |dir| &dir.entries);
                let rest = entries.iter().enumerate().take(next as usize).rev().take(STEPS_MAX);
                for (entry, &state) in rest.filter(|(_, state)| state.is_small_file() && !state.opened) {
                    if !visit((dir, entry as u32), state) {
                        return;
                    }
                }
                continue;
            }
            below.push((dir, next));
            while let Some((dir, entry)) = below.pop() {
                let Some(&state) = self.dirs.get(&dir).and_then(|dir| dir.entries.get(entry as usize)) else {
                    continue;
                };
                below.push((dir, entry + 1));
                steps += 1;
                if steps > STEPS_MAX {
                    return;
                }
                match state.child {
                    Child::Directory(id) => {
                        let listed = self.dirs.get(&id).is_some_and(|dir| dir.is_known(self.now, self.options.ttl));
                        if listed && walk.order == Order::Depth {
                            below.push((id, 0));
                        }
                    }
                    Child::File { .. } if state.is_small_file() && !state.opened => {
                        if !visit((dir, entry), state) {
                            return;
                        }
                    }
                    Child::File { .. } => {}
                }
            }
        }
    }

    /// `dir` has been of use.
    fn touch(&mut self, dir: DirId) {
        self.uses += 1;
        let known = self.dirs.entry(dir).or_default();
        self.by_use.remove(&(known.used, dir));
        known.used = self.uses;
        self.by_use.insert((known.used, dir));
    }

    /// Forgets what has been of no use for longest until the rest fits.
    fn shrink(&mut self) {
        while self.charged_bytes() > self.options.capacity_bytes && self.by_use.len() > 1 {
            let Some(&(_, dir)) = self.by_use.first() else { return };
            self.forget(dir);
            self.actions.push_back(DirAction::Drop { dir });
        }
    }

    fn forget(&mut self, dir: DirId) {
        let Some(known) = self.dirs.remove(&dir) else { return };
        self.by_use.remove(&(known.used, dir));
        self.bytes = self.bytes.saturating_sub(known.bytes);
        self.listings -= u32::from(known.listing);
        self.epoch.forget(dir);
        for (entry, state) in (0..).zip(known.entries) {
            if let Child::Directory(below) = state.child {
                self.parents.remove(&below);
            }
            if state.fetched {
                self.discarded((dir, entry), state);
            }
        }
    }
}

/// The largest file that is fetched whole before it is opened: 256 KiB, which takes no longer to come than its first byte.
const SMALL_PAGES: u64 = (256 << 10) / PAGE_BYTES;

/// Directories listed ahead when a walk begins.
const LISTINGS_FIRST: u32 = 8;

/// Files fetched ahead when the second one in order is opened.
const CONTENTS_FIRST: u32 = 4;

/// Listings in flight ahead of readers.
const LISTINGS_MAX: u32 = 64;

/// Files in flight ahead of readers.
const FETCHES_MAX: usize = 64;

/// Files fetched that nobody has opened, at most: twice as many as one reader may have ahead.
const FETCHED_MAX: usize = 256;

/// So many files in a row are an order wherever they are.
const UNORDERED_MAX: u32 = 4;

/// Parts of one directory that are asked for at a time.
const PARALLEL_MAX: u32 = 32;

/// Names looked up in a directory of which nothing is known, from which on it is listed.
const NAMES_MIN: u32 = 2;

/// Readers that are followed.
const WALKS_MAX: usize = 16;

/// How far from the last file the next one in order may be, past what is no file.
const NEAR: usize = 64;

/// Entries looked at for what comes next.
const STEPS_MAX: usize = 1024;

/// What an open remembered takes.
const EPOCH_BYTES: u64 = 64;
