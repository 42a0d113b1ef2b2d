//! Directory: what is known of one directory: its entries, how far its listing has come, and what
//! became of each entry.
//!
//! ```text
//!   coming    Nothing ──list──> Alone ──a page came, or it failed──> Nothing
//!                └──list below──> Along ──all of it came, or none──> Nothing
//!
//!   a listing that is made anew, page by page:
//!     entries   | new | new | old | old | old |    a new entry keeps whether the file at its
//!                           ^ listed               place was fetched; the last page drops the
//!                                                  old entries that are left
//!
//!   a directory that alone takes more than its share is trimmed, from its first page on:
//!     entries   |  gone  | kept | kept | coming ..    places stay what they are
//!                        ^ gone
//!
//!   listed anew from an entry that is gone, or expired (`relisting`):
//!     entries   |  gone          | new | coming ..
//!                                ^ gone, listed
//! ```
//!
//! *Invariants:* `gone <= listed <=` the place after the last entry. `pages` holds the ends of the
//! pages of the latest listing only. Entries have places, not names: the driver knows the names.
//!
//! A listing is believed for a time to live from the moment at which it was requested, read ahead
//! or not. This file does not decide when to list or to fetch (`path`). Source:
//! docs/decisions/0029 (the time to live) and 0035 (small files).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::directories::confidence::Confidence;
use crate::directories::event::{Child, Name};
use crate::directories::fetched_files::FetchNumber;
use crate::directories::firsts::{Firsts, Kinds};
use crate::directories::heads::Closed;
use crate::directories::open_run::{OpenRun, Opened};
use crate::directories::page_renewals::PageRenewals;
use crate::directories::relisting::Relisting;
use crate::directories::subtree::{LEVELS, Subtree};
use crate::units::{DirId, Nanos, PAGE_BYTES};

/// What is known of one directory.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, not states that exclude each other")]
pub(crate) struct Dir {
    /// The entries from the place `gone` on.
    entries: Vec<Entry>,
    /// The place of the first entry that is not forgotten.
    pub(crate) gone: u32,
    /// The place after the last entry of the latest listing. Those behind it are of the one
    /// before, and stay until the latest has come so far.
    pub(crate) listed: u32,
    /// The entries that are directories.
    pub(crate) subdirs: Vec<u32>,
    /// The entry after the last one of each page that has come.
    pub(crate) pages: Vec<u32>,
    /// What the driver keeps for each of the last pages, in bytes: of those that are not gone.
    page_bytes: VecDeque<u64>,
    /// What the driver keeps for the directory itself, and for its listing, in bytes.
    pub(crate) identity_bytes: u64,
    listing_bytes: u64,
    /// All of the listing has come.
    pub(crate) complete: bool,
    /// What of the listing is in flight.
    pub(crate) coming: Coming,
    /// When the first page of the latest listing was requested, whether it has come or not.
    pub(crate) requested: Option<Nanos>,
    /// When its listing failed last.
    pub(crate) failed: Option<Nanos>,
    /// Listed ahead of any reader, and not read since.
    pub(crate) ahead: bool,
    /// Pages of the latest listing that a reader has reached.
    pub(crate) pages_read: usize,
    /// Pages before the entry that the latest listing began with.
    pages_before: usize,
    /// A reader reached a page of an earlier listing.
    pub(crate) was_read: bool,
    /// The subdirectory that was entered last.
    pub(crate) entered: Option<u32>,
    /// The files that were opened last.
    pub(crate) run: Option<OpenRun>,
    /// The first files that were opened in directories in it, and two levels below: the last ones,
    /// and when they were.
    pub(crate) firsts: Firsts,
    /// The kinds of files that were opened.
    pub(crate) opened: Kinds,
    /// Opens that followed no order.
    pub(crate) unordered: u32,
    /// Files that were opened, each once.
    pub(crate) files_opened: u32,
    /// What was read of the last files that were closed, of those that are not small.
    pub(crate) closed: Closed,
    /// Names looked up since the latest listing was requested that it did not answer.
    pub(crate) names: u32,
    /// Names looked up since then that it answered.
    pub(crate) answered: u32,
    /// Files that were read since then before their names were known.
    pub(crate) read: u32,
    /// Directories in it in which, or below which, files were read before their names were known.
    pub(crate) read_below: u32,
    /// The directory above counts it among those.
    pub(crate) is_counted: bool,
    /// Names that the listing before it answered.
    answered_before: u32,
    /// The listing before it answered fewer names than it had pages.
    in_vain: bool,
    /// The entry whose name a listing answered last.
    pub(crate) reached: Option<u32>,
    /// A name in it, or below it, was looked up in the first half of the latest listing's time.
    pub(crate) used_early: bool,
    /// The directory that the subtree request began with by which it came.
    pub(crate) by: Option<DirId>,
    /// When the last subtree request that began with it, and brought it, was made.
    pub(crate) led: Option<Nanos>,
    /// What has been trimmed of the latest listing, in bytes.
    trimmed_bytes: u64,
    /// What a listing of it took that had to be trimmed, with all of its pages, in bytes; 0 if the
    /// latest one to come whole did not have to be.
    whole_bytes: u64,
    /// A listing of it has so many pages that one that is made anew for a name far behind does not
    /// come to it soon.
    is_long: bool,
    /// Pages of the latest listing that were asked for again.
    pub(crate) renewals: PageRenewals,
    /// Names sought in it that are gone.
    pub(crate) relisting: Relisting,
    /// Bytes that it is charged for.
    pub(crate) charged_bytes: u64,
    /// What one request for directories in it has covered, or would: of its own directories, of
    /// those one level further down, and so on.
    pub(crate) subtrees: Option<Box<[Subtree; LEVELS]>>,
    /// Whether directories in it come whole with those beside them, when a name in one of them is
    /// looked up.
    pub(crate) together: Confidence,
    /// The last such request.
    pub(crate) backward: Option<Backward>,
    /// It did not come whole in that way: it is too large.
    pub(crate) apart: bool,
    /// When it was last used: a number that grows with each use of any directory.
    pub(crate) used: u64,
}

/// A request for a directory that is looked into, and for those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backward {
    /// The entry that it began with; if not all of them have come, the one looked into.
    pub(crate) from: u32,
    /// The first entry that such requests have come to.
    pub(crate) lowest: u32,
    /// Directories before the one looked into.
    pub(crate) before: u32,
    /// All that were asked for have come so far.
    pub(crate) grows: bool,
}

impl Backward {
    /// Whether a reader that looks into the directory before `next` goes on to the first.
    pub(crate) fn goes_on_before(self, next: u32) -> bool {
        next == self.from || next == self.lowest
    }

    /// How many directories before the next one are asked for, if the reader goes on to the first.
    pub(crate) fn next(self) -> u32 {
        if self.grows { (2 * self.before + 1).min(BEFORE_MAX) } else { self.before }
    }

    /// Not all of them have come; the reader has `own` by itself.
    pub(crate) fn filled(self, own: u32) -> Self {
        Self { from: own, lowest: self.lowest, before: self.before / 4 * 3, grows: false }
    }
}

/// What of a listing is in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coming {
    #[default]
    Nothing,
    /// Its next pages, requested by themselves.
    Alone,
    /// All of it, with other directories by one request for a subtree.
    Along,
}

/// One entry: what it is, and what became of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) child: Child,
    /// Whether it was fetched ahead, and not opened since.
    pub(crate) fetched: Fetched,
    /// Looked up when the listing could not answer, and not opened since.
    pub(crate) named: bool,
    /// Whether it was opened.
    pub(crate) opens: Opens,
    /// Its ends were read, and it was closed: that has earned what it may.
    pub(crate) closed: bool,
    /// Its number among those that were fetched, if it was.
    pub(crate) number: FetchNumber,
}

/// Whether a file was fetched before a reader opened it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fetched {
    #[default]
    No,
    /// As the next one of a walk or of an order, or when its name was looked up.
    Ahead,
    /// With a sibling.
    Beside,
    /// Since the first file opened in other directories lies at its place.
    Cousin,
    /// As the companion of a file that is opened.
    Companion,
    /// As the companion of one that was fetched itself.
    Along,
    /// As the next one of a walk, in a directory where the walk has not opened a file yet.
    Across,
    /// Only those of its ends that were read of its siblings.
    Ends,
}

impl Fetched {
    /// Because of another open, in no order.
    pub(crate) fn is_beside(self) -> bool {
        matches!(self, Self::Beside | Self::Cousin | Self::Companion | Self::Along | Self::Ends)
    }
}

/// When a file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Not since it has been known at this place.
    Never,
    /// Before the latest listing.
    Before,
    /// Since the latest listing.
    Since,
}

impl Entry {
    fn new(child: Child) -> Self {
        Self { child, fetched: Fetched::No, named: false, opens: Opens::Never, closed: false, number: 0 }
    }

    pub(crate) fn bytes(self) -> u64 {
        match self.child {
            Child::File { pages, .. } => pages * PAGE_BYTES,
            Child::Directory(_) => 0,
        }
    }

    /// Whether it is a file that is small enough to be fetched whole.
    pub(crate) fn is_small_file(self) -> bool {
        matches!(self.child, Child::File { pages, .. } if (1..=SMALL_PAGES).contains(&pages))
    }

    /// Whether it is a file that is small enough to be fetched beside one of its kind.
    pub(crate) fn is_short_file(self) -> bool {
        matches!(self.child, Child::File { pages, .. } if (1..=SHORT_PAGES).contains(&pages))
    }

    /// The length of a file of which ends may be fetched alone, in pages; `None` if it is none.
    pub(crate) fn pages_with_ends(self) -> Option<u64> {
        match self.child {
            Child::File { pages, .. } if may_have_ends(pages) => Some(pages),
            Child::File { .. } | Child::Directory(_) => None,
        }
    }

    /// The kind of a file, as a set of one.
    pub(crate) fn kinds(self) -> Kinds {
        match self.child {
            Child::File { kind, .. } => Kinds::one(kind),
            Child::Directory(_) => Kinds::default(),
        }
    }
}

impl Dir {
    /// Where the file of this name lies, of the `most` entries that are nearest to a place, but
    /// for the entry `not`.
    pub(crate) fn place_of(&self, name: Name, near: u32, most: usize, not: Option<u32>) -> Option<u32> {
        let near = near.clamp(self.gone, self.end());
        let mut after = near..self.end().min(near.saturating_add(most as u32 / 2));
        let mut before = (self.gone.max(near.saturating_sub(most as u32 / 2))..near).rev();
        let is_it = |&place: &u32| {
            let child = self.get(place).map(|state| state.child);
            let is_named = matches!(child, Some(Child::File { kind, stem, .. }) if (kind, stem) == name);
            is_named && not != Some(place)
        };
        loop {
            let (next, last) = (after.next(), before.next());
            if next.is_none() && last.is_none() {
                return None;
            }
            if let Some(place) = next.filter(is_it).or_else(|| last.filter(is_it)) {
                return Some(place);
            }
        }
    }

    /// Whether any of its listing is in flight.
    pub(crate) fn is_coming(&self) -> bool {
        self.coming != Coming::Nothing
    }

    /// A new listing is requested.
    pub(crate) fn restart(&mut self, now: Nanos) {
        self.was_read |= self.pages_read > 0;
        (self.requested, self.complete, self.pages_read, self.pages_before) = (Some(now), false, 0, 0);
        (self.answered_before, self.in_vain) = (self.answered, (self.answered as usize) < self.pages.len());
        (self.names, self.answered, self.read, self.used_early) = (0, 0, 0, false);
        self.renewals.restart();
    }

    /// A name was looked up that the listing has not come to. Its place is `entry` by the listing
    /// before; where that did not tell it, it is taken for the name behind the one answered last.
    /// The listing is wanted up to there, but of no more pages than it is worth: one for each name
    /// that it could not answer, and for each that the one before it answered. If nothing tells
    /// where it is, each name is worth as many pages more as there were names, unless the listing
    /// before answered fewer names than it had pages.
    pub(crate) fn wants_up_to(&mut self, entry: Option<u32>) {
        let worth = self.answered_before.saturating_add(self.names) as usize;
        let Some(entry) = entry.or(self.reached.map(|last| last + 1)) else {
            if !self.in_vain {
                self.pages_read = self.pages_read.max((self.pages.len() + worth).div_ceil(2));
            }
            return;
        };
        let page = match self.pages.last() {
            Some(&listed) if entry >= listed => {
                // Pages to come are as long as those that came.
                let mean = (listed / self.pages.len() as u32).max(1);
                self.pages.len() + 1 + ((entry - listed) / mean) as usize
            }
            _ => self.pages_to(entry),
        };
        self.pages_read = self.pages_read.max(page.min(worth));
    }

    /// Whether its listing is in flight, or was requested no longer ago than `ttl`.
    pub(crate) fn is_known(&self, now: Nanos, ttl: Nanos) -> bool {
        self.is_coming() || (!self.pages.is_empty() && self.requested.is_some_and(|at| now.since(at) <= ttl))
    }

    /// Whether its listing failed no longer ago than `ttl`.
    pub(crate) fn has_failed(&self, now: Nanos, ttl: Nanos) -> bool {
        self.failed.is_some_and(|at| now.since(at) <= ttl)
    }

    /// The number of pages up to the one that holds `entry`.
    pub(crate) fn pages_to(&self, entry: u32) -> usize {
        self.pages.partition_point(|&end| end <= entry) + 1
    }

    /// How many files it has, as far as is known.
    pub(crate) fn files(&self) -> u32 {
        self.end() - self.gone - self.subdirs.len() as u32
    }

    /// The entry at a place, unless it is gone or has not come.
    pub(crate) fn get(&self, entry: u32) -> Option<&Entry> {
        self.entries.get(entry.checked_sub(self.gone)? as usize)
    }

    /// The directory that `entry` is.
    pub(crate) fn subdir(&self, entry: u32) -> Option<DirId> {
        match self.get(entry)?.child {
            Child::Directory(id) => Some(id),
            Child::File { .. } => None,
        }
    }

    pub(crate) fn entry(&mut self, entry: u32) -> Option<&mut Entry> {
        self.entries.get_mut(entry.checked_sub(self.gone)? as usize)
    }

    /// The place after the last entry, of this listing or the one before.
    pub(crate) fn end(&self) -> u32 {
        self.gone + self.entries.len() as u32
    }

    /// Whether the next page of a listing, the `first` or another one, takes the place of entries
    /// that were known, or has been trimmed: what it has may be elsewhere than before.
    pub(crate) fn is_replaced_by(&self, first: bool) -> bool {
        self.gone > 0 || self.end() > if first { 0 } else { self.listed }
    }

    /// Its entries that are known, each with its place.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (u32, Entry)> {
        (self.gone..).zip(self.entries)
    }

    /// A new listing is requested, from the entry `from` on. Returns the entries that were kept.
    pub(crate) fn restart_from(&mut self, from: u32, now: Nanos) -> Vec<(u32, Entry)> {
        self.restart(now);
        let left = (self.gone..).zip(core::mem::take(&mut self.entries)).collect();
        self.subdirs = Vec::new();
        self.pages.truncate(self.pages.partition_point(|&end| end <= from));
        if from > self.pages.last().copied().unwrap_or(0) {
            self.pages.push(from);
        }
        self.page_bytes.clear();
        self.listing_bytes = 0;
        (self.gone, self.listed, self.trimmed_bytes) = (from, from, 0);
        (self.pages_before, self.pages_read) = (self.pages.len(), self.pages.len());
        self.relisting.begin();
        left
    }

    /// The entries of the page that holds `entry`: the first one, and the one after the last.
    pub(crate) fn page_of(&self, entry: u32) -> (u32, u32) {
        let page = self.pages.partition_point(|&end| end <= entry);
        let from = page.checked_sub(1).map_or(0, |before| self.pages[before]);
        (from, self.pages.get(page).copied().unwrap_or(u32::MAX))
    }

    /// Pages of its listing that should have come when `most` may be ahead: as many as were read
    /// of it.
    pub(crate) fn pages_wanted(&self, read: usize, most: usize) -> usize {
        read + read.saturating_sub(self.pages_before).min(most)
    }

    /// The first page of a new listing is to be taken in. Returns the entries that it cannot
    /// replace: a listing that has been trimmed is not continued.
    pub(crate) fn relist(&mut self) -> Vec<(u32, Entry)> {
        self.pages.clear();
        self.page_bytes.clear();
        self.renewals.begin(self.requested);
        (self.listed, self.trimmed_bytes) = (0, 0);
        if self.gone == 0 {
            return Vec::new();
        }
        let left = (self.gone..).zip(core::mem::take(&mut self.entries)).collect();
        self.gone = 0;
        self.subdirs = Vec::new();
        left
    }

    /// Takes in the next page. The driver keeps `bytes` for the listing so far. Returns the bytes
    /// of the files in it that were fetched and not opened, by the listing before and by this one.
    pub(crate) fn take(&mut self, children: &[Child], bytes: u64) -> (u64, u64) {
        let (mut fetched_before, mut fetched) = (0, 0);
        for &child in children {
            let entry = self.listed;
            if matches!(child, Child::Directory(_)) && self.subdirs.last().is_none_or(|&last| last < entry) {
                self.subdirs.push(entry);
            }
            match self.entry(entry) {
                // A file that was fetched under this name is still resident.
                Some(state) => {
                    let before = state.bytes();
                    state.child = child;
                    if !matches!(state.fetched, Fetched::No | Fetched::Ends) {
                        (fetched_before, fetched) = (fetched_before + before, fetched + state.bytes());
                    }
                    if state.opens == Opens::Since {
                        state.opens = Opens::Before;
                    }
                }
                None => self.entries.push(Entry::new(child)),
            }
            self.listed += 1;
        }
        self.pages.push(self.listed);
        let before = if self.pages.len() == 1 { 0 } else { self.listing_bytes };
        self.page_bytes.push_back(bytes.saturating_sub(before));
        self.listing_bytes = bytes;
        self.is_long |= self.pages.len() > PAGES_MAX;
        (fetched_before, fetched)
    }

    /// A page that begins with the entry `from` has come again, with the names that it had. If a
    /// file in it was opened lately, and another one was not, its reader is in the middle of it.
    /// Returns the bytes of the files in it that were fetched and not opened, before and now.
    pub(crate) fn renew(&mut self, from: u32, children: &[Child], is_opened: bool) -> (u64, u64) {
        let (mut fetched_before, mut fetched) = (0, 0);
        let at = from.saturating_sub(self.gone) as usize;
        let end = self.entries.len().min(at + children.len());
        let Some(entries) = self.entries.get_mut(at..end) else { return (0, 0) };
        let is_in_the_middle = is_opened && entries.iter().any(|state| state.opens != Opens::Since);
        for (state, &child) in entries.iter_mut().zip(children) {
            let before = state.bytes();
            state.child = child;
            if !matches!(state.fetched, Fetched::No | Fetched::Ends) {
                (fetched_before, fetched) = (fetched_before + before, fetched + state.bytes());
            }
            if state.opens == Opens::Since && !is_in_the_middle {
                state.opens = Opens::Before;
            }
        }
        (fetched_before, fetched)
    }

    /// Forgets the entries behind the latest listing's end.
    pub(crate) fn cut(&mut self) -> Vec<(u32, Entry)> {
        let end = self.listed;
        self.subdirs.truncate(self.subdirs.partition_point(|&entry| entry < end));
        let kept = end.saturating_sub(self.gone) as usize;
        if self.entries.len() > kept {
            (self.run, self.entered, self.unordered) = (None, None, 0);
        }
        (end..).zip(self.entries.drain(kept.min(self.entries.len())..)).collect()
    }

    /// Forgets its first pages, but never the last one, until what it takes has shrunk by `bytes`.
    /// Returns their entries.
    pub(crate) fn trim(&mut self, bytes: u64) -> Vec<(u32, Entry)> {
        self.whole_bytes = self.whole_bytes.max(self.trimmed_bytes + self.bytes());
        let (mut freed, mut to) = (0, self.gone);
        while freed < bytes && self.page_bytes.len() > 1 {
            let page = self.pages.len() - self.page_bytes.len();
            let end = self.pages[page];
            let own = u64::from(end - to) * ENTRY_BYTES;
            let kept = self.page_bytes.pop_front().unwrap_or(0);
            self.listing_bytes = self.listing_bytes.saturating_sub(kept);
            freed += kept + own;
            to = end;
        }
        let from = core::mem::replace(&mut self.gone, to);
        self.trimmed_bytes += freed;
        self.subdirs.drain(..self.subdirs.partition_point(|&entry| entry < to));
        let gone = (from..).zip(self.entries.drain(..((to - from) as usize).min(self.entries.len()))).collect();
        self.entries.shrink_to(self.entries.len() * 2);
        self.subdirs.shrink_to(self.subdirs.len() * 2);
        gone
    }

    /// All of its latest listing has come. If none of that is gone, it fits.
    pub(crate) fn completed(&mut self) {
        if self.gone == 0 {
            self.whole_bytes = 0;
            self.is_long = self.pages.len() > PAGES_MAX;
        }
    }

    /// Whether a listing of it does not fit: an earlier one had to be trimmed, and took more than
    /// `most` bytes.
    pub(crate) fn is_too_long(&self, most: u64) -> bool {
        self.whole_bytes > most
    }

    /// Whether it is listed from where names in order are sought: it does not fit in `most` bytes,
    /// or is long.
    pub(crate) fn slides(&self, most: u64) -> bool {
        self.is_too_long(most) || self.is_long
    }

    /// What it takes in all, here and in the driver.
    pub(crate) fn bytes(&self) -> u64 {
        let own = self.entries.capacity() as u64 * ENTRY_BYTES + self.subdirs.len() as u64 * SUBDIR_BYTES;
        DIRECTORY_BYTES + self.identity_bytes + self.listing_bytes + own
    }

    /// The mean page, in bytes.
    pub(crate) fn mean_page_bytes(&self) -> u64 {
        (self.bytes() / self.page_bytes.len().max(1) as u64).max(1)
    }

    /// Whether the file at `entry` was opened since the latest listing; `None` if no file is
    /// there.
    pub(crate) fn is_file_opened(&self, entry: u32) -> Opened {
        self.get(entry)
            .filter(|state| matches!(state.child, Child::File { .. }))
            .map(|state| state.opens == Opens::Since)
    }
}

/// Pages of a listing that is made anew as a whole for names in order, at most. Lower: two readers
/// of a directory each have it listed from where they are. Higher: a reader waits for more pages
/// each time that the listing expires, and where these take longer than that it never comes to its
/// name. Source: docs/decisions/0117.
const PAGES_MAX: usize = 4;

/// Whether of a file of so many pages ends may be fetched alone.
pub(crate) fn may_have_ends(pages: u64) -> bool {
    pages > SMALL_PAGES
}

/// The largest file that is fetched whole before it is opened, in pages: 256 KiB, which arrives in
/// no more time than its first byte takes. Lower: larger files cost a round trip each. Higher:
/// programs that read only the first bytes of files have more fetched in vain. Source:
/// docs/decisions/0035 (256 KiB itself is a guess, not measured).
const SMALL_PAGES: u64 = (256 << 10) / PAGE_BYTES;

/// The longest file that is fetched beside one of its kind, in pages: 4 MiB, as far as files come
/// whole with their first read. Lower: each library of a program costs a round trip. Higher: one
/// file spends all credit. Source: docs/decisions/0064 and 0086.
const SHORT_PAGES: u64 = (4 << 20) / PAGE_BYTES;

/// Memory that an entry takes here, in bytes. Lower: more is known than is charged. Higher: fewer
/// listings fit. Source: the size of the type.
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

/// Memory that a subdirectory takes here beside its entry, in bytes: its place, and its parent in
/// a map. Lower: more is known than is charged. Higher: fewer listings fit. Source: a guess, not
/// measured.
const SUBDIR_BYTES: u64 = 48;

/// Memory that a directory takes beside its entries and its names, in bytes, here and in the
/// driver. Lower: more is known than is charged. Higher: fewer listings fit. Source: measured with
/// an allocator that counts (`crates/engine/tests/memory.rs`).
pub(crate) const DIRECTORY_BYTES: u64 = 1536;

/// Directories that a request brings before the one looked into, at most, for a reader that goes
/// from the last one to the first: they double with each request. Lower: more requests. Higher:
/// more of them do not come whole. Source: derived; a page lists a thousand names.
const BEFORE_MAX: u32 = 511;
