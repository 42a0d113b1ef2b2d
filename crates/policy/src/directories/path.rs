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
//! How much is ahead is a [`Confidence`]: it doubles whenever the reader has to wait for what was foretold, and stops when what is foretold
//! is not what is wanted. A listing is worth something for [`DirOptions::ttl`] only, so nothing is listed that a reader does not come to
//! in that time. Demand first: a reader's own listing is never kept waiting.
//!
//! Origin: Wu Fengguang's readahead for directories (2007): reads of 128 KiB at twice the rate of the reader, aggressive from the start.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::directories::directory::{Coming, Dir};
use crate::directories::event::{Child, DirAction, DirCounters, DirEvent};
use crate::directories::open_after_lookup::OpenAfterLookup;
use crate::directories::open_order::{FileRef, OpenOrder};
use crate::directories::walk::Walk;
use crate::units::{DirId, Nanos};

mod contents;
mod listings;
mod lookups;

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
    open_order: OpenOrder,
    after_lookup: OpenAfterLookup,
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
            open_order: OpenOrder::default(),
            after_lookup: OpenAfterLookup::default(),
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
        debug_assert!(self.actions.is_empty(), "every action is polled before the next event");
        debug_assert!(now >= self.now, "now never goes back: {now:?} after {:?}", self.now);
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
            DirEvent::Expected { dir, entry } => self.open_order.expect((dir, entry)),
            DirEvent::Listed { dir, first, same, children, last, bytes } => {
                if first {
                    self.relisted(dir);
                }
                if !same {
                    // Its entries have other places from now on.
                    self.open_order.forget(dir);
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
        self.bytes + self.open_order.len() as u64 * EPOCH_BYTES
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
        self.open_order.forget(dir);
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

/// Entries looked at for what comes next.
const STEPS_MAX: usize = 1024;

/// What an open remembered takes.
const EPOCH_BYTES: u64 = 64;
