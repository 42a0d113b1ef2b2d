//! The wiring of directory readahead: its state, and which mechanism sees which event.
//!
//! ```text
//!   one directory   pages read   |-----|.....|.....|     twice as many pages are requested as
//!                                read   ahead            were read
//!   a tree          a/ b/ c/ d/ e/ ..                    a walk: the next directories are listed
//!                   ^  ^ [  listed   ]                   side by side, small ones together
//!   files           1 2 3 4 5 6 7 ..                     from the second file in order on, the
//!                   ^ ^ [fetched]                        next files are fetched whole
//!
//!   an event ──> lookups, listings or contents ──> list_ahead ──> fetch_ahead ──> shrink
//!                                                         actions, in that order
//! ```
//!
//! `lookups` follows readers, `listings` and `renewals` ask for listings, `contents` for files.
//! How much is ahead is a `Confidence`: it doubles when a reader has to wait for a right
//! prediction, and stops after wrong ones. Pages are requested ahead from the first one on, since
//! a program that reads a directory reads all of it.
//!
//! One directory takes at most a half of what directories may take: a larger one is trimmed behind
//! its reader ([`DirAction::Trim`]), and listed again from where names are looked up or entered in
//! order ([`DirAction::ListFrom`]).
//!
//! *Invariants:* every event is followed by a drain of the actions. The listing that a reader
//! waits for is requested at once, unless it is in flight. What is known fits
//! [`DirShares::known_bytes`], or is one page: older listings ([`DirEvent::Older`]) beyond their
//! share are released, and the least recently used directories are forgotten first; after
//! [`DirEvent::Capacity`] some at a time. Without [`DirOptions::readahead`] nothing is listed or
//! fetched ahead. Where [`DirOptions::ttl`] is 0, no directory is listed before it is read.
//!
//! No rule estimates whether a reader comes within the time to live: a listing that has expired by
//! then counts as a wrong prediction. The wiring does not know names and does not evict pages.
//! Source: docs/decisions/0029, 0030, 0034 and 0035; Wu Fengguang's readahead for directories
//! (2007): reads of 128 KiB at twice the rate of the reader, aggressive from the start.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::credit::Credit;
use crate::directories::companions::Companions;
use crate::directories::confidence::Confidence;
use crate::directories::directory::{Coming, Dir};
use crate::directories::event::{DirAction, DirCounters, DirEvent, DirShares};
use crate::directories::fetched_files::FetchedFiles;
use crate::directories::heads::Heads;
use crate::directories::listings_by_name::ListingsByName;
use crate::directories::older::Older;
use crate::directories::open_after_lookup::OpenAfterLookup;
use crate::directories::open_order::{FileRef, OpenOrder};
use crate::directories::open_stride::OpenStride;
use crate::directories::siblings::{Cousins, Siblings};
use crate::directories::strays::{self, Strays};
use crate::directories::told_orders::ToldOrders;
use crate::directories::walk::Walk;
use crate::units::{DirId, Nanos};

mod beside;
mod companions;
mod contents;
mod crossings;
mod ends;
mod listings;
pub(crate) mod lookups;
mod pages;
pub(crate) mod renewals;

/// What a driver chooses at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirOptions {
    /// What directories may take of the budget.
    pub shares: DirShares,
    /// How long a listing is valid, from when it was requested.
    pub ttl: Nanos,
    /// Whether anything is listed or fetched ahead at all.
    pub readahead: bool,
    /// Whether the storage can list a subtree by one request.
    pub below: bool,
}

/// A request for the subtrees of some directories in `dir`, from the entry `from` on.
#[derive(Debug)]
struct Request {
    dir: DirId,
    from: u32,
    /// The directories that wait for it.
    along: Vec<DirId>,
    cause: Cause,
    requested: Nanos,
}

/// Why a subtree is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A walk comes to the directories.
    Walk,
    /// Files are read by name in the only one, or below it, and nothing waits for it.
    ReadByName,
    /// A reader waits for a name in the only one.
    Name,
    /// What came by the same request before is in use, and expires.
    Renewal,
}

/// The directories of one mount or library: one value a backend. It takes events and returns
/// actions as [`crate::ReadPath`] does.
pub struct DirReadahead {
    options: DirOptions,
    dirs: BTreeMap<DirId, Dir>,
    /// The parent of each directory, and its entry there.
    parents: BTreeMap<DirId, (DirId, u32)>,
    /// The directories, the least recently used first.
    by_use: BTreeSet<(u64, DirId)>,
    uses: u64,
    /// Bytes of all that is known of directories, but for older listings.
    bytes: u64,
    older: Older,
    /// The walks, the one used last at the end.
    walks: Vec<Walk>,
    open_order: OpenOrder,
    open_stride: OpenStride,
    told_orders: ToldOrders,
    after_lookup: OpenAfterLookup,
    /// Whether files that are read before their names are known are there.
    at_once: Confidence,
    by_name: ListingsByName,
    siblings: Siblings,
    cousins: Cousins,
    heads: Heads,
    companions: Companions,
    strays: Option<Strays>,
    /// What may be fetched in directories that a walk by name has not opened a file in.
    across: Credit,
    /// Listings of single directories in flight.
    listings: u32,
    /// Subtree requests in flight.
    belows: Vec<Request>,
    /// Directories that came by such without being asked for, since the last one was over.
    came_along: u32,
    /// Files in flight.
    fetches: BTreeSet<FileRef>,
    fetched: FetchedFiles,
    /// The last fetch failed, or found no room: no file is fetched until one is opened or a fetch
    /// succeeds.
    refused: bool,
    actions: VecDeque<DirAction>,
    now: Nanos,
    counters: DirCounters,
}

/// Files are taken to be there until four more reads have found none than one. Eight is what four
/// misses make nothing of, and three do not.
fn read_at_once() -> Confidence {
    let mut at_once = Confidence::closed(8);
    at_once.open(8);
    at_once
}

impl DirReadahead {
    /// Directory readahead that knows nothing.
    pub fn new(options: DirOptions) -> Self {
        Self {
            options,
            dirs: BTreeMap::new(),
            parents: BTreeMap::new(),
            by_use: BTreeSet::new(),
            uses: 0,
            bytes: 0,
            older: Older::default(),
            walks: Vec::new(),
            open_order: OpenOrder::new(opens_max(options.shares)),
            open_stride: OpenStride::default(),
            told_orders: ToldOrders::new(told_max(options.shares)),
            after_lookup: OpenAfterLookup::default(),
            at_once: read_at_once(),
            by_name: ListingsByName::default(),
            siblings: Siblings::default(),
            cousins: Cousins::default(),
            heads: Heads::default(),
            companions: Companions::default(),
            strays: None,
            across: Credit::new(strays::CREDIT_FIRST),
            listings: 0,
            belows: Vec::new(),
            came_along: 0,
            fetches: BTreeSet::new(),
            fetched: FetchedFiles::default(),
            refused: false,
            actions: VecDeque::new(),
            now: Nanos(0),
            counters: DirCounters::default(),
        }
    }

    /// Takes an event. Poll the actions afterwards.
    pub fn handle(&mut self, now: Nanos, event: DirEvent<'_>) {
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
        self.now = now;
        // A subtree request is not over before [`DirEvent::ListedBelow`]: nothing is planned until
        // all that it brought is known.
        let comes_along = match event {
            DirEvent::Along { .. } => true,
            DirEvent::Listed { dir, .. } => self.dirs.get(&dir).is_some_and(|dir| dir.coming == Coming::Along),
            _ => false,
        };
        match event {
            DirEvent::Capacity(shares) => self.set_shares(shares),
            DirEvent::Ttl(ttl) => self.options.ttl = ttl,
            DirEvent::Met { dir, bytes } => {
                self.dirs.entry(dir).or_default().identity_bytes = bytes;
                self.touch(dir);
            }
            DirEvent::Read { dir, entry, found } => self.read(dir, entry, found),
            DirEvent::Named { dir, entry, found } => self.named(dir, entry, found),
            DirEvent::ReadByName { dir, above } => self.read_by_name(dir, above),
            DirEvent::AnsweredByName { there: true } => self.at_once.hit(true),
            DirEvent::AnsweredByName { there: false } => self.at_once.missed(),
            DirEvent::Sought { dir, from, to } => _ = self.sought(dir, from, to),
            DirEvent::Opened { dir, entry, found } => self.opened(dir, entry, found),
            DirEvent::Closed { dir, entry, ends } => self.closed((dir, entry), ends),
            DirEvent::Expected { files, ahead_bytes, continues } => {
                self.told_orders.tell(files, ahead_bytes, continues);
            }
            DirEvent::Unexpected => self.told_orders.clear(),
            DirEvent::Listed { dir, first, same, children, last, bytes } => {
                // What was told of places that nothing was known of is of this listing.
                let replaces = self.dirs.get(&dir).is_some_and(|dir| dir.is_replaced_by(first));
                if first {
                    self.relisted(dir);
                }
                if !same && replaces {
                    // The entries have other places from now on.
                    self.forget_orders(dir);
                    self.discard(dir);
                }
                self.listed(dir, children, last, bytes);
            }
            DirEvent::Renewed { dir, from, children } => self.renewed(dir, from, children),
            DirEvent::Older { listing, bytes } => self.older.set(listing, bytes),
            DirEvent::Failed { dir } => {
                self.answered(dir);
                if let Some(dir) = self.dirs.get_mut(&dir) {
                    (dir.ahead, dir.requested, dir.failed) = (false, None, Some(self.now));
                }
            }
            DirEvent::Along { dir, requested } => {
                // Names that are looked up bring directories as well.
                self.came_along += u32::from(!self.belows.is_empty());
                self.answered(dir);
                let (now, ttl) = (self.now, self.options.ttl);
                let known = self.dirs.entry(dir).or_default();
                // What is renewed was not predicted now.
                let ahead = known.ahead || !known.is_known(now, ttl);
                known.restart(requested);
                (known.coming, known.ahead) = (Coming::Along, ahead);
            }
            DirEvent::ListedBelow { dir, from } => self.listed_below(dir, from),
            DirEvent::Cut { dir, entry, ends } => self.cut((dir, entry), ends),
            DirEvent::Fetched { dir, entry, came } => {
                self.fetches.remove(&(dir, entry));
                self.refused = !came;
                if !came {
                    self.did_not_come((dir, entry));
                }
            }
        }
        if self.options.readahead && !comes_along {
            self.list_ahead();
            self.fetch_ahead();
        }
        if let DirEvent::Read { dir, .. } = event {
            // What is listed ahead is used before the reader's own directory, not after it: the
            // reader waits for that one, which must not be forgotten for the others.
            self.touch(dir);
        }
        self.shrink();
        if matches!(event, DirEvent::Capacity(_)) && !self.is_over() {
            let dirs: Vec<_> = self.dirs.keys().copied().collect();
            for dir in dirs {
                self.trim(dir);
            }
        }
    }

    /// Returns the next action, until `None`.
    pub fn poll_action(&mut self) -> Option<DirAction> {
        self.actions.pop_front()
    }

    /// The counts of what was decided so far.
    pub fn counters(&self) -> DirCounters {
        self.counters
    }

    /// Bytes that all that is known takes.
    pub fn charged_bytes(&self) -> u64 {
        self.bytes + self.older.bytes() + (self.open_order.len() + self.told_orders.len()) as u64 * EPOCH_BYTES
    }

    /// `dir` is used: it is the last one to be forgotten.
    fn touch(&mut self, dir: DirId) {
        self.uses += 1;
        let known = self.dirs.entry(dir).or_default();
        self.by_use.remove(&(known.used, dir));
        known.used = self.uses;
        self.by_use.insert((known.used, dir));
        self.charge(dir);
    }

    /// Counts what `dir` takes now.
    fn charge(&mut self, dir: DirId) {
        let Some(known) = self.dirs.get_mut(&dir) else { return };
        let bytes = known.bytes();
        let before = core::mem::replace(&mut known.charged_bytes, bytes);
        self.bytes = (self.bytes + bytes).saturating_sub(before);
    }

    /// What a driver has said that directories may take.
    pub fn shares(&self) -> DirShares {
        self.options.shares
    }

    /// Another budget: what does not fit any more is forgotten, a part at a time.
    fn set_shares(&mut self, shares: DirShares) {
        self.options.shares = shares;
        self.open_order.set_most(opens_max(shares));
        self.told_orders.set_most(told_max(shares));
    }

    /// The entries of `dir` have other names from now on.
    fn forget_orders(&mut self, dir: DirId) {
        self.open_order.forget(dir);
        self.open_stride.forget(dir);
        self.told_orders.forget(dir);
        self.heads.forget(dir);
    }

    /// Whether more is known than may be. After [`DirEvent::Capacity`] the driver reports that
    /// again, until this is not so: one event forgets no more than readers can wait for.
    pub fn is_over(&self) -> bool {
        self.charged_bytes() > self.options.shares.known_bytes && self.by_use.len() > 1
    }

    /// Whether anything is known of `dir`: the driver keeps its number until this is dropped
    /// ([`DirAction::Drop`]).
    pub fn knows(&self, dir: DirId) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Releases older listings beyond their share, and forgets the least recently used directories
    /// until the others fit, but not too many at a time.
    fn shrink(&mut self) {
        while let Some(listing) = self.older.pop(self.options.shares.known_bytes / OLDER_SHARE) {
            self.actions.push_back(DirAction::Release { listing });
        }
        for _ in 0..FORGOTTEN_MAX {
            let Some(&(_, dir)) = self.by_use.first().filter(|_| self.is_over()) else { return };
            self.forget(dir);
            self.actions.push_back(DirAction::Drop { dir });
        }
    }

    fn forget(&mut self, dir: DirId) {
        let Some(known) = self.dirs.remove(&dir) else { return };
        self.by_use.remove(&(known.used, dir));
        self.bytes = self.bytes.saturating_sub(known.charged_bytes);
        self.listings -= u32::from(known.coming == Coming::Alone);
        self.forget_orders(dir);
        self.entries_gone(dir, known.into_entries());
    }
}

/// Opens in the log at most.
fn opens_max(shares: DirShares) -> usize {
    (shares.known_bytes / LOG_SHARE / EPOCH_BYTES) as usize
}

/// Files in all orders that are told, at most.
fn told_max(shares: DirShares) -> usize {
    (shares.known_bytes / TOLD_SHARE / EPOCH_BYTES) as usize
}

/// Entries examined in one search for what comes next. Lower: a reader is not read ahead across
/// many entries that need nothing. Higher: events take longer where little is left to do. Source:
/// a guess, not measured.
const STEPS_MAX: usize = 1024;

/// Directories forgotten in one event. Lower: a smaller budget takes more events. Higher: readers
/// wait for longer when the budget is made smaller. Source: a guess, not measured; no other event
/// brings as many.
const FORGOTTEN_MAX: usize = 1024;

/// Divisor of the memory for directories: what older listings may take, a half, as one directory
/// may, whose listing before answers until the latest has come. Lower: fewer directories are
/// known. Higher: readers that are slow, or pause, list the rest of a directory again. Source:
/// docs/decisions/0068.
const OLDER_SHARE: u64 = 2;

/// The part of the memory for directories that the log of opens may take, a quarter. Lower: only
/// short epochs are recognised. Higher: fewer listings fit. Source: a guess, not measured; in a
/// mount of 256 MiB it is an epoch of half a million files.
const LOG_SHARE: u64 = 4;

/// The part of the memory for directories that orders which are told may take, a quarter. Lower:
/// of longer orders only the first part is followed. Higher: fewer listings fit. Source: a guess,
/// not measured; as the log.
const TOLD_SHARE: u64 = 4;

/// Memory that an open in the log takes, in bytes: its place and its entry in a map. Lower: the
/// log takes more memory than it is charged. Higher: fewer listings fit. Source: a guess, not
/// measured.
const EPOCH_BYTES: u64 = 64;
