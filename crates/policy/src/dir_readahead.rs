//! Directory readahead: what is listed, and which small files are fetched, before a reader asks.
//!
//! ```text
//!   one directory      pages read   |-----|.....|.....|          twice as many are asked for as were read: from the first on,
//!                                   read   ahead                 since who reads a directory reads all of it
//!   a tree             a/ b/ c/ d/ e/ ..                         the second one entered in order makes a walk: what comes next is
//!                      ^  ^ [listed]                             listed side by side, as many as the reader would have to wait for
//!                                                                where they hold little, many of them by one request
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

use crate::below::COVERS_MIN;
use crate::dir::{Coming, Dir, Entry};
use crate::dir_event::{Child, DirAction, DirCounters, DirEvent};
use crate::epoch::{Epoch, FileRef};
use crate::event::{Class, Found};
use crate::follow::Follow;
use crate::units::{DirId, Nanos};
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
    /// Whether the storage can be asked for all that lies below a directory at once.
    pub below: bool,
}

/// A request for all that lies below some directories of one, from an entry on.
#[derive(Debug)]
struct Request {
    dir: DirId,
    from: u32,
    along: Vec<DirId>,
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
    follow: Follow,
    /// Listings in flight, each directory's by itself, requests for all below one, and files.
    listings: u32,
    belows: Vec<Request>,
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
            follow: Follow::default(),
            listings: 0,
            belows: Vec::new(),
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
        // What comes along is only the begin of what ends with [`DirEvent::ListedBelow`].
        let comes_along = match event {
            DirEvent::Along { .. } => true,
            DirEvent::Listed { dir, .. } => self.dirs.get(&dir).is_some_and(|dir| dir.coming == Coming::Along),
            _ => false,
        };
        match event {
            DirEvent::Read { dir, entry, found } => self.read(dir, entry, found),
            DirEvent::Named { dir, entry, found } => self.named(dir, entry, found),
            DirEvent::Opened { dir, entry, found } => self.opened(dir, entry, found),
            DirEvent::Expected { dir, entry } => self.epoch.expect((dir, entry)),
            DirEvent::Listed { dir, first, same, children, last, bytes } => {
                if first {
                    self.relisted(dir);
                }
                if !same {
                    // Its entries have other places from now on.
                    self.epoch.forget(dir);
                    self.discard(dir);
                }
                self.listed(dir, children, last, bytes);
            }
            DirEvent::Failed { dir } => {
                self.answered(dir);
                if let Some(dir) = self.dirs.get_mut(&dir) {
                    (dir.ahead, dir.requested) = (false, None);
                }
            }
            DirEvent::Along { dir, requested } => {
                self.answered(dir);
                let known = self.dirs.entry(dir).or_default();
                known.restart(requested);
                (known.coming, known.ahead) = (Coming::Along, true);
            }
            DirEvent::ListedBelow { dir, from } => self.listed_below(dir, from),
            DirEvent::Fetched { dir, entry, came } => {
                self.fetches.remove(&(dir, entry));
                self.refused = !came;
                if !came {
                    self.take_fetched((dir, entry));
                }
            }
        }
        if self.options.readahead && !comes_along {
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
        self.touch(parent);
        let dirs = &self.dirs;
        let has_unread = |frame: Frame| {
            dirs.get(&frame.dir).is_some_and(|dir| dir.subdirs.last().is_some_and(|&last| last >= frame.next))
        };
        let walk = self.walks.iter_mut().position(|walk| walk.enter(dir, parent, at, has_unread));
        let Some(above) = self.dirs.get_mut(&parent) else { return };
        if above.entered == Some(at) && !ahead {
            // It was there before.
            return;
        }
        let place = |entry: u32| above.subdirs.partition_point(|&subdir| subdir < entry);
        let in_order = match above.entered {
            None => place(at) == 0,
            Some(before) => place(before).abs_diff(place(at)) == 1,
        };
        above.entered = Some(at);
        let was_read = above.was_read || above.pages_read > 0;
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

    fn add_walk(&mut self, walk: Walk) {
        self.counters.walks += 1;
        if self.walks.len() == WALKS_MAX {
            self.walks.remove(0);
        }
        self.walks.push(walk);
    }

    fn named(&mut self, dir: DirId, entry: Option<u32>, found: Found) {
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
        if let Some(entry) = entry
            && self.named_file((dir, entry))
        {
            return;
        }
        let Some(known) = self.dirs.get_mut(&dir) else { return };
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

    /// The storage has to be asked for the name of a file. Whether it is asked for the file instead.
    fn named_file(&mut self, file @ (dir, entry): FileRef) -> bool {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return false };
        if !state.is_small_file() || state.fetched {
            return false;
        }
        let follows = self.follow.holds();
        state.named = true;
        self.follow.named();
        let fetches = follows && !self.refused && self.fetches.len() < FETCHES_MAX && !self.fetches.contains(&file);
        if fetches {
            self.fetch(file);
        }
        fetches
    }

    fn opened(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        self.refused = false;
        let expected = self.epoch.opened((dir, entry));
        let fetched = self.take_fetched((dir, entry));
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let Some(state) = known.entry(entry) else { return };
        state.opened = true;
        let named = core::mem::take(&mut state.named);
        if named {
            self.follow.opened();
        }
        self.counters.fetches_hit += u64::from(fetched && found != Found::Absent);
        // Who asked for its name first was no guess.
        let fetched = fetched && !named;
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
        known.pages.clear();
    }

    /// What a listing before said of places to come counts no more.
    fn discard(&mut self, dir: DirId) {
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let end = known.listed as u32;
        known.subdirs.truncate(known.subdirs.partition_point(|&entry| entry < end));
        if known.entries.len() > known.listed {
            (known.opened, known.entered, known.unordered) = (None, None, 0);
        }
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
        let alone = self.answered(dir);
        let known = self.dirs.entry(dir).or_default();
        known.complete = last;
        let at = known.listed;
        for &child in children {
            let entry = known.listed as u32;
            if matches!(child, Child::Directory(_)) && known.subdirs.last().is_none_or(|&last| last < entry) {
                known.subdirs.push(entry);
            }
            match known.entries.get_mut(known.listed) {
                // What was fetched under this name is still there.
                Some(state) => (state.child, state.opened) = (child, false),
                None => known.entries.push(Entry { child, fetched: false, named: false, opened: false }),
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
            let entries = self.dirs.get(&dir).map_or(0, |known| known.entries.len());
            let above = self.parents.get(&dir).and_then(|(parent, _)| self.dirs.get_mut(parent));
            if let Some(above) = above.filter(|_| alone) {
                above.below.listed(entries);
            }
        }
        self.touch(dir);
        self.go_on(dir, false);
    }

    /// Asks for more of a directory: twice as many pages as were read, in so many requests as there are pages to be had.
    fn go_on(&mut self, dir: DirId, waits: bool) {
        let Some(known) = self.dirs.get(&dir) else { return };
        if known.complete || known.is_coming() || known.requested.is_none() {
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
        if known.is_coming() && !(restarts && class == Class::Demand) {
            return;
        }
        if restarts {
            known.restart(self.now);
        }
        let before = core::mem::replace(&mut known.coming, Coming::Alone);
        self.listings += u32::from(before != Coming::Alone);
        known.ahead |= restarts && class == Class::Speculative;
        let ahead = (known.pages_read * 2).saturating_sub(known.pages.len()) as u32;
        let parallel = if restarts || !readahead { 1 } else { ahead.clamp(1, PARALLEL_MAX) };
        match class {
            Class::Demand => self.counters.lists_demand += 1,
            Class::Speculative => self.counters.lists_speculative += 1,
        }
        self.actions.push_back(DirAction::List { dir, restarts, class, parallel });
    }

    /// A listing was answered. Whether it had been asked for by itself.
    fn answered(&mut self, dir: DirId) -> bool {
        let Some(known) = self.dirs.get_mut(&dir) else { return false };
        let alone = core::mem::take(&mut known.coming) == Coming::Alone;
        self.listings -= u32::from(alone);
        alone
    }

    /// Lists the directories that walks come to next.
    fn list_ahead(&mut self) {
        let mut wanted = Vec::new();
        if self.options.ttl.is_zero() {
            // None would be believed.
            return;
        }
        let mut walks = core::mem::take(&mut self.walks);
        for walk in walks.iter_mut().rev() {
            // So many that one request tells of count as one that is listed by itself.
            let covers = walk.frames().take(NEAR_FRAMES).filter_map(|frame| self.covers(frame.dir)).max();
            let mut left = (walk.listings.size() * covers.map_or(1, |covers| covers / COVERS_MIN)) as usize;
            let free = (LISTINGS_MAX.saturating_sub(self.listings) as usize).saturating_sub(wanted.len());
            if free == 0 {
                break;
            }
            if covers.is_some() && walk.idle > 0 {
                walk.idle -= 1;
                continue;
            }
            let (size, before) = (left, wanted.len());
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
            // With hundreds ahead, none is wanted until some of them have been read.
            let ahead = if wanted.len() == before { size - left } else { 0 };
            walk.idle = (ahead / IDLE_PART) as u32;
        }
        self.walks = walks;
        for dir in wanted {
            if !self.list_below(dir) {
                self.list(dir, Class::Speculative, true);
            }
        }
    }

    /// How many directories in `dir` one request tells of, where that is worth more than a request each.
    fn covers(&self, dir: DirId) -> Option<u32> {
        self.dirs.get(&dir).filter(|_| self.options.below)?.below.covers()
    }

    /// A request for all that lies below some directories of `dir` is over: those that were not told did not come whole.
    fn listed_below(&mut self, dir: DirId, from: u32) {
        let Some(at) = self.belows.iter().position(|request| (request.dir, request.from) == (dir, from)) else {
            return;
        };
        let along = self.belows.swap_remove(at).along;
        let mut told = along.len() as u32;
        for id in along {
            if let Some(known) = self.dirs.get_mut(&id).filter(|dir| dir.coming == Coming::Along) {
                (known.coming, known.ahead, known.requested) = (Coming::Nothing, false, None);
                told -= 1;
            }
        }
        if let Some(known) = self.dirs.get_mut(&dir) {
            known.below.told(told);
        }
    }

    /// Lists `dir` and what comes after it by one request, where that is worth it. Whether it is.
    fn list_below(&mut self, dir: DirId) -> bool {
        let Some(&(parent, from)) = self.parents.get(&dir) else { return false };
        let Some(covers) = self.covers(parent) else { return false };
        if self.dirs.get(&dir).is_some_and(Dir::is_coming) || self.belows.len() == BELOWS_MAX {
            // It is on its way already, or has to wait.
            return true;
        }
        let Some(above) = self.dirs.get(&parent) else { return false };
        let ids = above.subdirs.iter().skip_while(|&&entry| entry < from).take(covers as usize);
        let (mut to, mut along) = (from, Vec::new());
        for &entry in ids {
            let Child::Directory(id) = above.entries[entry as usize].child else { continue };
            if self.dirs.get(&id).is_some_and(|dir| dir.is_known(self.now, self.options.ttl)) {
                break;
            }
            along.push(id);
            to = entry + 1;
        }
        if along.len() < COVERS_MIN as usize {
            return false;
        }
        for &id in &along {
            let known = self.dirs.entry(id).or_default();
            known.restart(self.now);
            (known.coming, known.ahead) = (Coming::Along, true);
            self.touch(id);
        }
        self.belows.push(Request { dir: parent, from, along });
        self.counters.lists_below += 1;
        self.actions.push_back(DirAction::ListBelow { dir: parent, from, to });
        true
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
        for file in wanted {
            self.fetch(file);
        }
        // What was expected longest ago and did not come is not expected any more.
        while self.fetched_bytes > self.options.contents_bytes || self.fetched.len() > FETCHED_MAX {
            let Some(&file @ (dir, entry)) = self.fetched.front() else { return };
            self.take_fetched(file);
            self.actions.push_back(DirAction::Discard { dir, entry });
        }
    }

    fn fetch(&mut self, file @ (dir, entry): FileRef) {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return };
        state.fetched = true;
        self.fetched_bytes += state.bytes();
        self.fetched.push_back(file);
        self.counters.fetches += 1;
        self.fetches.insert(file);
        self.actions.push_back(DirAction::Fetch { dir, entry });
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
        self.listings -= u32::from(known.coming == Coming::Alone);
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

/// Directories listed ahead when a walk begins.
const LISTINGS_FIRST: u32 = 8;

/// Files fetched ahead when the second one in order is opened.
const CONTENTS_FIRST: u32 = 4;

/// Listings in flight ahead of readers.
const LISTINGS_MAX: u32 = 64;

/// Requests in flight for all that lies below a directory.
const BELOWS_MAX: usize = 4;

/// Of what is ahead, the part that may be read before more is looked for, where one request brings much.
const IDLE_PART: usize = 8;

/// How far above a reader it is looked for a directory of which all that lies below is asked for at once.
const NEAR_FRAMES: usize = 4;

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

/// Entries looked at for what comes next.
const STEPS_MAX: usize = 1024;

/// What an open remembered takes.
const EPOCH_BYTES: u64 = 64;
