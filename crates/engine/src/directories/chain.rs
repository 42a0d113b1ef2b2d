//! One listing of a directory and the requests that bring it.
//!
//! ```text
//!   began ── ask ──> requests, for one or several segments ── bring ──> pages taken in, in order
//!     │                 └─ a page that leads nowhere: the listing fails
//!     └── along ──> no requests: it comes with others, by one request for a subtree
//! ```
//!
//! A reader whose next entry is gone begins a chain of its own there: after the last name that it
//! was given, where the storage can be asked for that, or after a name that is known to come
//! before it, past the entries between, or else past as many entries.
//!
//! Until it has come, the listing before it answers in its place, as far as that may still be
//! believed.
//!
//! What is not, or no longer, the latest listing of its directory lives as long as something holds
//! it: a reader, or the one that replaces it. Policy charges it ([`Chain::outdated`]).

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use foreread_backend::lock::Mutex;
use foreread_backend::{Entry, ListPage, Object};
use foreread_policy::DirId;
use tokio::time::Instant;

use crate::directories::listing::memory::Gone;
use crate::directories::listing::{Listing, Node, Said, Taken};
use crate::directories::marks::Last;
use crate::directories::segments::{SegmentId, Segments};
use crate::error::{Error, ErrorKind};
use crate::planted::Panic;
use crate::requests::storage::{Cursor, Storage};

/// A listing and the requests that bring it.
pub(crate) struct Chain {
    pub(crate) dir: DirId,
    /// No other one has the same.
    pub(crate) number: u64,
    pub(crate) listing: Arc<Listing>,
    pub(crate) began: Instant,
    /// It is in flight with others, by one request for all of them.
    along: AtomicBool,
    segments: Mutex<Segments>,
    seen: Mutex<Seen>,
    /// The one that it replaces, until it is known whether both are alike.
    before: Mutex<Option<Arc<Chain>>>,
    /// Readers in it, and one more while it is the one before another.
    holds: AtomicU32,
    /// What policy was last told that it takes.
    told_bytes: AtomicU64,
    /// The entry after the last one that policy was told of.
    told: AtomicU32,
    /// Pages that were taken in, and that policy was not told of yet, in order.
    untold: Mutex<VecDeque<Taken>>,
}

/// The continuations seen so far: one that comes back leads nowhere.
#[derive(Default)]
struct Seen {
    seeds: RandomState,
    tokens: HashSet<u64>,
    empty: u32,
}

impl Chain {
    /// A listing that replaces `before`, and has not been asked for. `along`: it will come with
    /// others. `divisible` tells whether the storage can be asked for what follows a key.
    pub(crate) fn new(
        (dir, number): (DirId, u64),
        prefix: &Arc<str>,
        before: Option<Arc<Self>>,
        along: bool,
        divisible: bool,
    ) -> Arc<Self> {
        Self::of((dir, number), Listing::new(prefix), Segments::new(divisible), along, before)
    }

    /// A listing of what `before` tells from the entry at `place` on. `last` is the entry before
    /// it, if a reader knows that.
    pub(crate) fn rest(
        (dir, number): (DirId, u64),
        before: &Listing,
        place: u32,
        last: Option<Last>,
        divisible: bool,
    ) -> Arc<Self> {
        let prefix = before.shared_prefix();
        let known = last.map(|last| (place, last)).or_else(|| before.before(place)).filter(|_| divisible);
        let (passes, segments) = match &known {
            Some((at, Last { name, directory: false })) => (place - at, Segments::after(format!("{prefix}{name}"))),
            // Behind all that is in the directory.
            Some((at, Last { name, directory: true })) => {
                (place - at, Segments::after(format!("{prefix}{name}/{}", char::MAX)))
            }
            None => (place, Segments::new(divisible)),
        };
        let name = known.as_ref().map(|(_, last)| last.name.as_str());
        let listing = Listing::rest(&prefix, place, passes, name, before.marks());
        Self::of((dir, number), listing, segments, false, None)
    }

    fn of(
        (dir, number): (DirId, u64),
        listing: Arc<Listing>,
        segments: Segments,
        along: bool,
        before: Option<Arc<Self>>,
    ) -> Arc<Self> {
        if let Some(before) = &before {
            before.hold();
        }
        Arc::new(Self {
            dir,
            number,
            listing,
            began: Instant::now(),
            along: AtomicBool::new(along),
            segments: Mutex::new(segments),
            seen: Mutex::default(),
            before: Mutex::new(before),
            holds: AtomicU32::new(0),
            told_bytes: AtomicU64::new(0),
            told: AtomicU32::new(0),
            untold: Mutex::default(),
        })
    }

    /// A reader is in it, or another one replaces it.
    pub(crate) fn hold(&self) {
        self.holds.fetch_add(1, Relaxed);
    }

    /// The reverse of [`Chain::hold`].
    pub(crate) fn unhold(&self) {
        self.holds.fetch_sub(1, Relaxed);
    }

    /// Whether a reader is in it, or another one replaces it.
    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Relaxed) > 0
    }

    /// What it takes, as one that is not, or no longer, the latest of its directory, if policy was
    /// told otherwise: it is the caller that tells now.
    pub(crate) fn outdated(&self, is_latest: bool) -> Option<u64> {
        let is_kept = !is_latest && self.is_held();
        let bytes = if is_kept { CHAIN_BYTES + self.listing.bytes() } else { 0 };
        (self.told_bytes.swap(bytes, Relaxed) != bytes).then_some(bytes)
    }

    /// Forgets what has come of it. Its readers go on with others.
    pub(crate) fn release(&self) -> Option<Gone> {
        self.told_bytes.store(0, Relaxed);
        self.listing.release()
    }

    /// What is known of `name`: by this listing, or while it has not come so far, by the one
    /// before.
    pub(crate) fn look_up(&self, name: &str) -> Said {
        match (self.listing.look_up(name), &*self.before.lock()) {
            (Said::Nothing, Some(before)) => match before.listing.look_up(name) {
                said @ Said::Present(..) => said,
                Said::Absent(_) | Said::Nothing => Said::Nothing,
            },
            (said, _) => said,
        }
    }

    /// The entry at `place`, by this listing or else by the one before.
    pub(crate) fn entry(&self, place: u32) -> Option<Node> {
        self.listing.entry(place).or_else(|| self.before.lock().as_ref()?.listing.entry(place))
    }

    /// The entry at `place`, by the listing before if there is one, or else by this one.
    pub(crate) fn entry_before(&self, place: u32) -> Option<Node> {
        let before = self.before.lock().as_ref().and_then(|before| before.listing.entry(place));
        before.or_else(|| self.listing.entry(place))
    }

    /// The prefixes of the directories among the entries `[from, to)`, by this listing, or while
    /// it has not come so far, by the one before.
    pub(crate) fn directories(&self, from: u32, to: u32) -> Vec<String> {
        let before = self.before.lock().clone().filter(|_| !self.listing.has(from));
        before.as_ref().map_or(&self.listing, |before| &before.listing).directories(from, to)
    }

    /// Policy knows of its entries before `to`.
    pub(crate) fn has_told(&self, to: u32) {
        self.told.fetch_max(to, Relaxed);
    }

    /// Whether policy knows of the entry at `place`, or that is not of this listing. Entries come
    /// to readers a moment before policy hears of them.
    pub(crate) fn is_told(&self, place: u32) -> bool {
        place < self.told.load(Relaxed) || self.listing.entry(place).is_none()
    }

    /// Whether more of it is in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.along.load(Relaxed) || self.segments.lock().in_flight() > 0
    }

    /// Whether nothing of it has come, and nothing is in flight.
    pub(crate) fn is_unasked(&self) -> bool {
        !self.is_busy() && !self.listing.is_over() && !self.listing.has_begun()
    }

    /// It no longer comes with others. Returns whether it did.
    pub(crate) fn leave(&self) -> bool {
        self.along.swap(false, Relaxed)
    }

    /// Requests to make so that `parallel` of them are in flight, if that many are possible.
    pub(crate) fn ask(&self, parallel: u32) -> Vec<(SegmentId, Cursor)> {
        if self.listing.is_over() || self.along.load(Relaxed) {
            return Vec::new();
        }
        self.segments.lock().ask(parallel)
    }

    /// Makes one request. Returns whether pages were taken in: they may be given out now.
    pub(crate) async fn bring(&self, storage: &Storage, segment: SegmentId, cursor: &Cursor) -> Result<bool, Error> {
        let requested = Instant::now();
        let page = storage.list(self.listing.prefix(), cursor).await?;
        storage.planted.pass(Panic::List);
        self.advances(segment, &page)?;
        // Pages are taken in, and policy is told of them, in the order in which they are given
        // out: the lock is held for all.
        let any = {
            let mut segments = self.segments.lock();
            let pages = segments.arrived(segment, page, requested);
            let any = !pages.is_empty();
            let taken = pages.into_iter().map(|(page, at)| self.listing.take(page, at));
            self.untold.lock().extend(taken);
            any
        };
        self.settle();
        self.listing.wake();
        Ok(any)
    }

    /// Takes in all of it, which has come with others.
    pub(crate) fn take_whole(&self, entries: Vec<Entry>, requested: Instant) {
        let taken = self.listing.take(ListPage { entries, continuation: None }, requested);
        self.untold.lock().push_back(taken);
        self.leave();
        self.settle();
        self.listing.wake();
    }

    /// The next page that policy is to be told of. Requests that are answered side by side are
    /// done in any order: each tells what is next, not what it brought.
    pub(crate) fn next_untold(&self) -> Option<Taken> {
        self.untold.lock().pop_front()
    }

    /// Whether the entries that were taken in are those of the listing before.
    pub(crate) fn is_like_before(&self, taken: &Taken) -> bool {
        let before = self.before.lock().clone();
        before.is_some_and(|before| self.listing.is_like(&before.listing, taken.from, taken.children.len() as u32))
    }

    /// The file at `place`, which is `object`, was read at `at`. If the listing, or the one
    /// before, has it there in this version, that is confirmed.
    pub(crate) fn confirm(&self, place: u32, object: &Object, at: Instant) {
        let is_it = |listing: &Listing| matches!(listing.entry(place), Some(Node::File(listed)) if listed == *object);
        let before = self.before.lock().clone();
        match (self.listing.has(place), before) {
            (false, Some(before)) if is_it(&before.listing) => before.listing.confirm(place, at),
            _ if is_it(&self.listing) => self.listing.confirm(place, at),
            _ => {}
        }
    }

    /// Whether this listing, or the one before it, has a directory of this name.
    pub(crate) fn names(&self, name: &str) -> bool {
        let before = self.before.lock().clone();
        self.listing.names(name) || before.is_some_and(|before| before.listing.names(name))
    }

    /// Its listing, and the one before, whose entries go with those of this one.
    pub(crate) fn listings(&self) -> impl Iterator<Item = Arc<Listing>> {
        let before = self.before.lock().as_ref().map(|before| Arc::clone(&before.listing));
        [Some(Arc::clone(&self.listing)), before].into_iter().flatten()
    }

    /// All of it has come: what is needed to ask for more is not kept.
    fn settle(&self) {
        if self.listing.is_over() {
            *self.seen.lock() = Seen::default();
            *self.segments.lock() = Segments::over();
        }
    }

    /// The listing before is of no use any more. Returns it, no longer held.
    pub(crate) fn forget_before(&self) -> Option<Arc<Self>> {
        let before = self.before.lock().take()?;
        before.unhold();
        Some(before)
    }

    /// Fails if `page` leads nowhere.
    fn advances(&self, segment: SegmentId, page: &ListPage) -> Result<(), Error> {
        let Some(token) = &page.continuation else { return Ok(()) };
        let seen = &mut *self.seen.lock();
        seen.empty = if page.entries.is_empty() { seen.empty + 1 } else { 0 };
        let hash = seen.seeds.hash_one((segment, token));
        if !seen.tokens.insert(hash) {
            return Err(endless(self.listing.prefix(), "the storage names the same continuation twice"));
        }
        if seen.empty > EMPTY_MAX {
            return Err(endless(self.listing.prefix(), EMPTY));
        }
        Ok(())
    }
}

/// What a listing takes beside its entries, in bytes: itself, its segments, and the allocator's
/// own. Lower: more is kept than is charged. Higher: fewer listings fit.
const CHAIN_BYTES: u64 = (size_of::<Chain>() + size_of::<Listing>() + size_of::<Segments>()) as u64;

/// A listing that would never end, and why.
pub(crate) fn endless(prefix: &str, why: &str) -> Error {
    Error::new(ErrorKind::Io, format!("list {prefix}: {why}: the listing would never end")).with_key(prefix)
}

/// Why a listing fails that has more than [`EMPTY_MAX`] empty pages in a row.
pub(crate) const EMPTY: &str = "the storage answers with empty pages without end";

/// Pages without an entry, one after the other, before a listing fails. Lower fails on a store
/// that skips many deleted keys; higher makes more requests that lead nowhere.
pub(crate) const EMPTY_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_of_the_listing_before_until_it_has_come() {
        let chain = |number, before| Chain::new((DirId(1), number), &Arc::from("d/"), before, false, true);
        let entries = |names: [&str; 2]| names.map(|name| Entry::Prefix(format!("d/{name}/"))).to_vec();
        let before = chain(1, None);
        before.take_whole(entries(["a", "b"]), Instant::now());
        let latest = chain(2, Some(Arc::clone(&before)));
        assert_eq!(latest.directories(1, 2), ["d/b/"]);
        latest.take_whole(entries(["a", "c"]), Instant::now());
        assert_eq!(latest.directories(1, 2), ["d/c/"]);
    }
}
