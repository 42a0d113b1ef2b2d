//! Contents: which small files are fetched whole before a reader opens them.
//!
//! ```text
//!   predicted by            when                                       ahead at first, at most
//!     the order of opens    four opens follow an earlier epoch, or     8, 128
//!                           a program tells the order
//!     equal distances       the fourth of them                         4, 64
//!     a walk                the second file in order (or up to the     4, 128
//!                           sixth, after opens out of order)
//!     its siblings          the second file opened in a directory      8, 64, or as many as
//!                                                                      were opened there
//!     its cousins           the same first file in two directories     4, 32
//!     heads of others       two longer files closed, and opened as     4, 64 (`ends`)
//!                           for a walk or siblings
//!     a lookup              programs open what they look up            the file itself
//!
//!   predicted ──fetch──> fetched ──opened──────────────────────> a hit
//!                           ├──(a failure, or no room)─────────> not fetched
//!                           └──(too many or too much fetched)──> discarded, the oldest first
//! ```
//!
//! A program that tells an order may say how many bytes are ahead of it at most. These take the
//! place of the numbers of files. If all that tell orders say so, their sum bounds walks and
//! siblings as well: these may be the same files.
//!
//! The order of opens predicts first, then equal distances, then each walk, the latest first. A
//! walk continues across directories: into listed subdirectories if it is depth first, and
//! backward in the reader's own directory if the reader opens files from its end.
//!
//! *Invariants:* a file is not fetched again while it counts as fetched or is in flight, and what
//! readers come to next has room: where readers do nothing, nothing is fetched in the end. At most
//! [`FETCHES_MAX`] files are in flight. Fetched files above [`DirShares::contents_bytes`], and
//! those but siblings above [`FETCHED_MAX`], are discarded. A file that was looked up first is no
//! prediction: it is neither a hit nor a miss of a walk.
//!
//! This file does not say which files are small (`directory`), how many are ahead
//! (`confidence`) or which siblings and cousins come (`beside`). It does not evict pages: a
//! discarded file is no longer expected, and the read path drops its unread pages. Source:
//! docs/decisions/0029 (files in order, kept until they are opened) and 0035 (lookups).
//!
//! [`DirShares::contents_bytes`]: crate::DirShares::contents_bytes

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{DirReadahead, STEPS_MAX};
use crate::directories::companions::Rule;
use crate::directories::directory::{Dir, Entry, Fetched, Opens};
use crate::directories::event::DirAction;
use crate::directories::fetched_files::FetchNumber;
use crate::directories::heads::Way;
use crate::directories::next_files::next_files;
use crate::directories::open_order::FileRef;
use crate::directories::open_run::OpenRun;
use crate::directories::siblings::{Dense, Return};
use crate::directories::steps::Listings;
use crate::directories::strays::cost_across;
use crate::directories::walk::Walk;
use crate::ends::Ends;
use crate::units::{DirId, Found};

/// How much more may be ahead of readers.
struct Room {
    files: usize,
    bytes: u64,
}

impl Room {
    /// Takes room for a file of so many bytes. Returns whether there was some.
    fn take(&mut self, bytes: u64) -> bool {
        if self.files == 0 || self.bytes < bytes {
            return false;
        }
        self.files -= 1;
        self.bytes -= bytes;
        true
    }
}

impl DirReadahead {
    /// The storage has to be asked for the name of a file. Returns whether it is asked for the
    /// file instead.
    pub(super) fn named_file(&mut self, file @ (dir, entry): FileRef) -> bool {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return false };
        if !state.is_small_file() || state.fetched != Fetched::No {
            return false;
        }
        let follows = self.after_lookup.is_likely();
        state.named = true;
        self.after_lookup.named();
        let fetches = follows && !self.refused && self.fetches.len() < FETCHES_MAX && !self.fetches.contains(&file);
        if fetches {
            self.fetch(file);
        }
        fetches
    }

    /// A reader opens a file.
    pub(super) fn opened(&mut self, dir: DirId, entry: u32, found: Found) {
        self.touch(dir);
        self.refused = false;
        let repeats = self.open_order.opened((dir, entry));
        let before = self.take_fetched((dir, entry));
        let (fetched, beside) = (before != Fetched::No, before.is_beside());
        let named = self.dirs.get(&dir).and_then(|known| known.get(entry)).is_some_and(|state| state.named);
        let (is_ahead, waits) = (fetched && !named && !beside, found == Found::InFlight || !fetched);
        let told = self.told_orders.opened((dir, entry), is_ahead, found == Found::Absent, waits);
        let strides = self.strides((dir, entry));
        let expected = repeats || told || strides;
        let is_repeated = told || strides || repeats && self.open_order.is_repeated();
        let is_read_by_name = is_ahead && found != Found::Absent && self.is_read_by_name(dir);
        let crossing = if is_repeated { None } else { self.crossing((dir, entry)) };
        let came = matches!(before, Fetched::Companion | Fetched::Along) && found != Found::Absent;
        if came && let Some(state) = self.dirs.get(&dir).and_then(|known| known.get(entry)) {
            self.companions.paid(state.bytes(), state.is_small_file(), before, true);
        }
        let companion = self.open_companion((dir, entry));
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        if known.pages.len() > 1 {
            let page = known.pages_to(entry) - 1;
            known.renewals.opened(page);
        }
        let Some(state) = known.entry(entry) else { return };
        let (is_small, is_short, bytes) = (state.is_small_file(), state.is_short_file(), state.bytes());
        let kinds = state.kinds();
        let opens = core::mem::replace(&mut state.opens, Opens::Since);
        let (again, is_new) = (opens == Opens::Since, opens == Opens::Never);
        let named = core::mem::take(&mut state.named);
        if named {
            self.after_lookup.opened();
        }
        self.counters.fetches_hit += u64::from(fetched && found != Found::Absent);
        if is_read_by_name {
            self.by_name.hit();
        }
        let Return { stays, is_soon } = self.siblings.comes(dir, self.now);
        known.opened.add(kinds);
        let dense = Dense { opened: known.files_opened, files: known.files() };
        // Where a name has to be asked for first, the answer brings its file as well.
        let is_answered = known.is_known(self.now, self.options.ttl);
        let ahead = if is_new && is_answered { dense } else { Dense::default() };
        known.files_opened += u32::from(is_new);
        if is_small && !beside && is_new {
            self.across.used(bytes);
            self.cousins.credit.used(bytes);
        }
        match (before, found) {
            (Fetched::Beside, Found::Absent) => self.siblings.missed(),
            (Fetched::Beside, _) => self.siblings.hit(bytes, is_small, self.now, found == Found::InFlight),
            (Fetched::Cousin, Found::Absent) => self.cousins.confidence.missed(),
            (Fetched::Cousin, _) => self.cousins.hit(cost_across(bytes), found == Found::InFlight),
            (Fetched::Across, Found::InFlight | Found::Resident) => self.across.hit(cost_across(bytes)),
            (Fetched::Across, Found::Absent)
            | (Fetched::No | Fetched::Ahead | Fetched::Companion | Fetched::Along, _) => {}
            (Fetched::Ends, Found::Absent) => {
                self.heads.lost((dir, entry));
                self.heads.confidence.missed();
            }
            (Fetched::Ends, _) => {
                self.heads.opened((dir, entry));
                self.heads.confidence.hit(found == Found::InFlight);
            }
        }
        // A file that was looked up first was no prediction, and a sibling none of a walk.
        let fetched = fetched && !named && !beside;
        let last = known.run;
        let mut run = last.unwrap_or_else(|| OpenRun::new(entry));
        run.opened(entry, again, |place| known.is_file_opened(place));
        known.run = Some(run);
        let steps = run.steps();
        known.unordered += u32::from(steps == 0 && last.is_some_and(|last| last != run));
        let unordered = known.unordered.min(UNORDERED_MAX);
        // Two files in order make a run if all opens so far were in order, and are chance if many
        // were not. Where one lies that is opened for its name says less, and one that is opened
        // long after the other.
        let by_name = companion.is_some_and(Rule::is_named);
        let chance = unordered + u32::from(by_name) + u32::from(!is_soon);
        if by_name && came {
            self.siblings.goes_on(self.now);
        }
        let in_order = crossing.is_some() || steps.unsigned_abs() > chance;
        if repeats && !told {
            if fetched {
                if found == Found::Absent {
                    self.open_order.confidence.missed();
                } else {
                    self.open_order.confidence.hit(found == Found::InFlight);
                }
            } else if self.open_order.is_repeated() {
                self.open_order.confidence.hit(true);
            }
        }
        if strides && !told && !named {
            let confidence = &mut self.open_stride.confidence;
            if fetched && found == Found::Absent { confidence.missed() } else { confidence.hit(waits) }
        }
        // A walk fetches small files only. A companion is left to the other one of its pair.
        let is_left = in_order && is_small || is_repeated || companion.is_some();
        if is_short && !beside && is_new {
            if is_left {
                self.siblings.used(bytes, is_small);
            } else {
                self.siblings.used_among(bytes, is_small, dense);
            }
        }
        let way = Way { steps, in_order, stays: stays && is_new, dense: ahead };
        if !is_small && self.fetch_heads((dir, entry), way) {
            // What is read of its siblings is known.
        } else if is_short && !is_left {
            self.fetch_siblings((dir, entry), stays && is_new, ahead, found);
        }
        // What another guess brought is left to that one.
        let is_waited = matches!(before, Fetched::No | Fetched::Cousin);
        if last.is_none() && crossing.is_none() && !is_repeated && is_waited {
            self.fetch_cousins((dir, entry));
        }
        let mut at = crossing.or_else(|| self.walks.iter_mut().rposition(|walk| walk.frame(dir).is_some()));
        at = at.or_else(|| self.left_behind((dir, entry)));
        if at.is_none() && in_order {
            self.add_walk(Walk::new(dir, 0));
            at = Some(self.walks.len() - 1);
        }
        let Some(at) = at else { return };
        let mut walk = self.walks.remove(at);
        walk.backward = steps < 0;
        walk.opens(self.now);
        if fetched && !strides {
            if found == Found::Absent { walk.contents.missed() } else { walk.contents.hit(found == Found::InFlight) }
        } else if walk.contents.is_open() && steps == 0 && !in_order && !expected && !beside {
            walk.contents.missed();
        }
        if in_order {
            walk.contents.open(CONTENTS_FIRST);
        }
        if crossing.is_some() {
            self.cross(&mut walk, (dir, entry));
        }
        if let Some(frame) = walk.frame(dir) {
            frame.next = run.next();
        }
        self.walks.push(walk);
    }

    /// Takes note of how far an open is from the one before. Returns whether it was expected.
    fn strides(&mut self, file: FileRef) -> bool {
        if !self.options.readahead {
            return false;
        }
        let listings = self.listings();
        let distance = self.open_stride.last().and_then(|last| listings.files_between(last, file));
        self.open_stride.opened(file, distance)
    }

    fn listings(&self) -> Listings<'_> {
        Listings { dirs: &self.dirs, parents: &self.parents }
    }

    /// A file was not fetched: there was no room, or the storage failed.
    pub(super) fn did_not_come(&mut self, file @ (dir, entry): FileRef) {
        let fetched = self.take_fetched(file);
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return };
        match fetched {
            Fetched::Beside => {
                let (is_small, bytes) = (state.is_small_file(), state.bytes());
                self.siblings.refused(bytes, is_small);
            }
            Fetched::Cousin => self.cousins.credit.refused(cost_across(state.bytes())),
            Fetched::Across => self.across.refused(cost_across(state.bytes())),
            Fetched::Ends => self.heads.refused(file),
            Fetched::Companion | Fetched::Along => {
                let (is_small, bytes) = (state.is_small_file(), state.bytes());
                self.companions.paid(bytes, is_small, fetched, false);
            }
            Fetched::No | Fetched::Ahead => {}
        }
    }

    /// A fetched file is no longer expected, and its entry is gone.
    pub(super) fn discarded(&mut self, file: FileRef, state: Entry) {
        let bytes = if state.fetched == Fetched::Ends { self.heads_bytes(file) } else { state.bytes() };
        self.fetched.left(is_apart(state.fetched), bytes);
        self.not_opened(file, state.fetched);
        self.actions.push_back(DirAction::Discard { dir: file.0, entry: file.1 });
    }

    /// Fetches the files that readers come to next, and discards those above what there may be.
    pub(super) fn fetch_ahead(&mut self) {
        let free = FETCHES_MAX.saturating_sub(self.fetches.len());
        if free > 0 && !self.refused {
            self.fetch_next(free);
        }
        self.discard_oldest();
    }

    /// Fetches the files that readers come to next, `free` at most.
    fn fetch_next(&mut self, free: usize) {
        let mut wanted: Vec<FileRef> = Vec::new();
        // What all readers come to next has room together: else one's files would be discarded for
        // those of another, and fetched again.
        let is_told = self.told_orders.ahead_bytes().is_some();
        let files = if is_told { TOLD_MAX } else { FETCHED_MAX / 2 };
        let mut room = Room { files, bytes: self.ahead_bytes() };
        // Orders that are told share it: none of them leaves nothing for the others.
        let orders = self.told_orders.followed().max(1);
        let share = self.options.shares.contents_bytes / 2 / orders as u64;
        for order in self.told_orders.iter() {
            let bytes = order.ahead_bytes.map_or(share, |bytes| bytes.min(share));
            let own = Room { files: order.files_ahead().min(files.div_ceil(orders)), bytes };
            let most = free.min(wanted.len() + free.div_ceil(orders));
            self.next_of(order.expected(), own, &mut room, most, &mut wanted);
        }
        if self.open_order.is_repeated() {
            let own = Room { files: self.open_order.confidence.size() as usize, bytes: u64::MAX };
            self.next_of(self.open_order.expected(), own, &mut room, free, &mut wanted);
        }
        // What was opened in this order before is opened so again, at whatever distances.
        let next = self.open_stride.next().filter(|_| !self.open_order.is_repeated());
        if let Some((last, step)) = next {
            let own = Room { files: self.open_stride.confidence.size() as usize, bytes: u64::MAX };
            let (listings, mut passes) = (self.listings(), STEPS_MAX);
            let after = |&file: &FileRef| listings.file_after(file, step, &mut passes);
            let next = core::iter::successors(Some(last), after).skip(1).take(own.files);
            self.next_of(next, own, &mut room, free, &mut wanted);
            self.open_stride.searched(wanted.len() < free);
        }
        let (mut across, is_fresh) = (Vec::new(), self.is_fresh());
        let now = self.now;
        // A reader that passes over files is not followed as if it read them.
        let passes_over = self.open_stride.passes_over();
        let is_followed = |walk: &&Walk| !passes_over && walk.contents.is_open() && walk.is_followed(now);
        for walk in self.walks.iter().rev().filter(is_followed) {
            let mut left = walk.contents.size();
            let credit = &mut self.across;
            next_files(&self.dirs, &is_fresh, walk, STEPS_MAX, |file, state, is_entered| {
                if left == 0 || wanted.len() >= free {
                    return false;
                }
                if state.opens == Opens::Since {
                    return true;
                }
                if !room.take(state.bytes()) {
                    return false;
                }
                left -= 1;
                if state.fetched == Fetched::No && !self.fetches.contains(&file) && !wanted.contains(&file) {
                    if walk.by_name && !is_entered {
                        if !credit.spend(cost_across(state.bytes())) {
                            return false;
                        }
                        across.push(file);
                    }
                    wanted.push(file);
                }
                true
            });
        }
        for &file in &wanted {
            self.fetch(file);
        }
        for (dir, entry) in across {
            if let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) {
                state.fetched = Fetched::Across;
            }
        }
        // What readers come to next is not discarded for what lies beside it.
        for file in wanted {
            if self.fetched.expected() < FETCHED_MAX - FETCHES_MAX {
                self.fetch_companions(file);
            }
        }
    }

    /// The files that were fetched longest ago and not opened are no longer expected, where there
    /// are too many, or they are too long.
    fn discard_oldest(&mut self) {
        let is_told = self.told_orders.ahead_bytes().is_some();
        let most = if is_told { FETCHED_MAX + TOLD_MAX } else { FETCHED_MAX };
        loop {
            let is_over = self.fetched.bytes() > self.options.shares.contents_bytes;
            if !is_over && self.fetched.expected() <= most {
                return;
            }
            let dirs = &self.dirs;
            let has = |file, number| is_fetched_as(dirs, file, number);
            let Some(file @ (dir, entry)) = self.fetched.oldest(is_over, has) else { return };
            let fetched = self.take_fetched(file);
            self.not_opened(file, fetched);
            self.actions.push_back(DirAction::Discard { dir, entry });
        }
    }

    /// Adds to the files that are `wanted`, up to `most`, those of an `order` for which there is
    /// room: of its `own`, and with those of others.
    fn next_of(
        &self,
        order: impl Iterator<Item = FileRef>,
        mut own: Room,
        room: &mut Room,
        most: usize,
        wanted: &mut Vec<FileRef>,
    ) {
        for file @ (dir, entry) in order.take(STEPS_MAX) {
            if own.files == 0 || wanted.len() >= most {
                return;
            }
            let Some(state) = self.dirs.get(&dir).and_then(|dir| dir.get(entry)) else { continue };
            if !state.is_small_file() {
                continue;
            }
            if !own.take(state.bytes()) || !room.take(state.bytes()) {
                return;
            }
            if state.fetched == Fetched::No && !self.fetches.contains(&file) && !wanted.contains(&file) {
                wanted.push(file);
            }
        }
    }

    /// Bytes of files that readers have not opened, at most.
    pub(super) fn ahead_bytes(&self) -> u64 {
        let share = self.options.shares.contents_bytes / 2;
        self.told_orders.ahead_bytes().map_or(share, |bytes| bytes.min(share))
    }

    /// Fetches a file that is expected.
    pub(super) fn fetch(&mut self, file: FileRef) {
        self.fetch_as(file, Fetched::Ahead);
    }

    pub(super) fn fetch_as(&mut self, file @ (dir, entry): FileRef, fetched: Fetched) {
        let Some(state) = self.dirs.get(&dir).and_then(|dir| dir.get(entry)) else { return };
        let ends = if fetched == Fetched::Ends { self.heads.ahead(file) } else { None };
        let (dirs, bytes) = (&self.dirs, ends.map_or(state.bytes(), Ends::bytes));
        let has = |file, number| is_fetched_as(dirs, file, number);
        let number = self.fetched.push(file, is_apart(fetched), bytes, has);
        if let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) {
            (state.fetched, state.number) = (fetched, number);
        }
        self.counters.fetches += 1;
        self.fetches.insert(file);
        self.actions.push_back(DirAction::Fetch { dir, entry, ends });
    }

    /// A file no longer counts as fetched. Returns how it did.
    pub(super) fn take_fetched(&mut self, (dir, entry): FileRef) -> Fetched {
        let Some(state) = self.dirs.get_mut(&dir).and_then(|dir| dir.entry(entry)) else { return Fetched::No };
        let fetched = core::mem::take(&mut state.fetched);
        let bytes = state.bytes();
        if fetched != Fetched::No {
            let bytes = if fetched == Fetched::Ends { self.heads_bytes((dir, entry)) } else { bytes };
            self.fetched.left(is_apart(fetched), bytes);
        }
        fetched
    }

    /// Whether a listing is believed now.
    pub(super) fn is_fresh(&self) -> impl Fn(&Dir) -> bool + use<> {
        let (now, ttl) = (self.now, self.options.ttl);
        move |dir| dir.is_known(now, ttl)
    }
}

/// Whether a file is bounded by what it is bought with, and not by a number.
fn is_apart(fetched: Fetched) -> bool {
    matches!(fetched, Fetched::Beside | Fetched::Ends)
}

/// Whether a file was fetched with this number, and not opened.
fn is_fetched_as(dirs: &BTreeMap<DirId, Dir>, (dir, entry): FileRef, number: FetchNumber) -> bool {
    let state = dirs.get(&dir).and_then(|dir| dir.get(entry));
    state.is_some_and(|state| state.fetched != Fetched::No && state.number == number)
}

/// Files fetched ahead when a run in order begins. Lower: the reader waits more often until the
/// number has doubled. Higher: more is fetched in vain for two files in order by chance. Source: a
/// guess, not measured.
const CONTENTS_FIRST: u32 = 4;

/// The length of a file, in bytes, above which it is fetched whole when it is opened among its
/// siblings: what the kernel asks for at first. Lower: a program that reads the first bytes of
/// files has more of each fetched. Higher: a file of two requests costs two round trips. Source:
/// the kernel's window of 128 KiB.
pub(super) const LONG_BYTES: u64 = 128 << 10;

/// Files in flight ahead of readers. Lower: a loader of several workers waits for files. Higher:
/// demand waits behind more of them. Source: a guess, not measured.
pub(super) const FETCHES_MAX: usize = 64;

/// Files fetched and not opened, at most: twice as many as one reader may have ahead. Lower: files
/// of several readers are discarded before they are opened. Higher: files that no reader opens
/// stay for longer. Source: a guess, not measured.
const FETCHED_MAX: usize = 256;

/// Files ahead of a program that says how many bytes may be, at most: as many as one search
/// examines. Lower: a program that takes many small files at a time and then pauses waits for
/// those that could have come meanwhile. Higher: events take longer. Source: docs/decisions/0083.
const TOLD_MAX: usize = STEPS_MAX;

/// Opens out of order that count, in files: a longer run is an order, whatever came before. Lower:
/// chance runs in a shuffled directory fetch files in vain. Higher: a reader that turns to an
/// order after many other opens is read ahead later. Source: a guess, not measured.
const UNORDERED_MAX: u32 = 4;
