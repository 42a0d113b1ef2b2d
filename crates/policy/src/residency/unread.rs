//! Folios that have arrived and wait for their readers: which of them goes for demand, and which
//! waits no more.
//!
//! ```text
//!   reader a   > ##########            each owner's folios, in the order of their requests
//!   reader b   > ####################
//!   reader c   > ######          ^     goes first: the last one of the owner with the most bytes
//!
//!   stopped    silent for longer than it ever was: others' speculation may evict its folios
//!   overdue    arrived twelve seconds ago, and longer than its reader pauses: none will come,
//!              and `budget` retires it
//! ```
//!
//! The folio that a reader needs last goes first. The oldest folio is the one that its reader
//! needs next. Without it, the reader would wait a round trip for each record of the hole, while
//! what lies behind the hole holds memory. A request is made after those for what is needed before
//! it, whatever the direction of the reader. Whole files wait without a limit. They are discarded
//! when no open is expected any more, not when no reader has come for a while.
//!
//! *Invariant:* the sums of owners are those of their folios.
//!
//! The file does not know whether a folio may go, or what it is charged (`budget`, `folio`).
//! Source: max-min fairness among the owners; docs/decisions/0050.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::residency::folio::Ahead;
use crate::units::{FileId, Nanos, RequestId};

/// A folio: its file, its first page, and the request that brought it.
pub(crate) type Key = (FileId, u64, RequestId);

/// What folios were read ahead for: a stream of a file, or something else in it.
type Owner = (FileId, Option<u64>);

/// All unread folios.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// In the order in which they were looked at, but for those of whole files. May name folios
    /// that are not unread any more.
    arrived: VecDeque<Arrival>,
    owners: BTreeMap<Owner, Waiting>,
    /// When to look whether the reader of a stream has stopped.
    looks: BTreeSet<(Nanos, Owner)>,
    /// Streams whose readers have stopped.
    stopped: BTreeSet<Owner>,
    /// What their folios are charged.
    stopped_bytes: u64,
    by_bytes: BTreeSet<(u64, Owner)>,
    len: usize,
}

/// When a folio arrived.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    key: Key,
    /// The stream of the file that it was read ahead for, if that is its owner.
    stream: Option<u64>,
    since: Nanos,
    /// When it was looked at last whether its reader may still come.
    looked: Nanos,
}

impl Arrival {
    fn owner(self) -> Owner {
        (self.key.0, self.stream)
    }
}

/// The folios of one owner.
#[derive(Debug, Default)]
struct Waiting {
    bytes: u64,
    /// When to look next whether its reader has stopped.
    look: Option<Nanos>,
    /// By request and first page, and what each is charged.
    folios: BTreeMap<(RequestId, u64), u64>,
}

fn owner(file: FileId, ahead_for: Option<Ahead>) -> Owner {
    let stream = match ahead_for {
        Some(Ahead::Stream(stream)) => Some(stream),
        Some(Ahead::File | Ahead::Whole | Ahead::Nearby) | None => None,
    };
    (file, stream)
}

fn is_among(owners: &BTreeMap<Owner, Waiting>, (_, start, request): Key, owner: Owner) -> bool {
    owners.get(&owner).is_some_and(|waiting| waiting.folios.contains_key(&(request, start)))
}

impl Unread {
    /// A folio that is charged with `bytes` waits for its reader.
    pub(crate) fn insert(&mut self, now: Nanos, key: Key, bytes: u64, ahead_for: Option<Ahead>) {
        let (file, start, request) = key;
        let owner = owner(file, ahead_for);
        let waiting = self.owners.entry(owner).or_default();
        if waiting.folios.insert((request, start), bytes).is_none() {
            self.by_bytes.remove(&(waiting.bytes, owner));
            waiting.bytes += bytes;
            self.by_bytes.insert((waiting.bytes, owner));
            self.len += 1;
            if self.stopped.contains(&owner) {
                self.stopped_bytes += bytes;
            }
            if owner.1.is_some() && waiting.look.is_none() {
                let look = Nanos(now.0 + LOOK.0);
                waiting.look = Some(look);
                self.looks.insert((look, owner));
            }
            if ahead_for != Some(Ahead::File) {
                self.arrived.push_back(Arrival { key, stream: owner.1, since: now, looked: now });
            }
        }
    }

    /// A reader has touched a folio, if it was among these: its stream goes on.
    pub(crate) fn touched(&mut self, key: Key, ahead_for: Option<Ahead>) {
        self.goes_on(owner(key.0, ahead_for));
        self.remove(key, ahead_for);
    }

    /// A folio is gone, if it was among these.
    pub(crate) fn remove(&mut self, key: Key, ahead_for: Option<Ahead>) {
        self.take(key, owner(key.0, ahead_for));
    }

    fn take(&mut self, (_, start, request): Key, owner: Owner) {
        let Some(waiting) = self.owners.get_mut(&owner) else { return };
        let Some(bytes) = waiting.folios.remove(&(request, start)) else { return };
        self.len -= 1;
        self.by_bytes.remove(&(waiting.bytes, owner));
        waiting.bytes -= bytes;
        if self.stopped.contains(&owner) {
            self.stopped_bytes -= bytes;
        }
        if waiting.folios.is_empty() {
            let look = waiting.look;
            look.map(|look| self.looks.remove(&(look, owner)));
            self.stopped.remove(&owner);
            self.owners.remove(&owner);
        } else {
            self.by_bytes.insert((waiting.bytes, owner));
        }
    }

    /// Takes the folio that goes first. Each is taken once, so a caller that may not
    /// evict it goes on to the next one.
    pub(crate) fn pop(&mut self) -> Option<Key> {
        let (key, owner) = self.last_of_most()?;
        self.take(key, owner);
        Some(key)
    }

    /// Takes the folio that arrived first, if that was so long ago that no reader will come.
    /// `patience` says how long that of a stream of a file may be silent; nothing of a stream that
    /// is forgotten.
    pub(crate) fn pop_overdue(&mut self, now: Nanos, patience: impl Fn(FileId, u64) -> Option<Nanos>) -> Option<Key> {
        while let Some(&arrival) = self.arrived.front() {
            let Arrival { key, since, looked, .. } = arrival;
            let owner = arrival.owner();
            let waits = is_among(&self.owners, key, owner);
            if waits && now.since(looked) < OVERDUE {
                return None;
            }
            self.arrived.pop_front();
            let patience = owner.1.and_then(|stream| patience(owner.0, stream));
            if waits && patience.is_some_and(|patience| now.since(since) < patience) {
                self.arrived.push_back(Arrival { looked: now, ..arrival });
            } else if waits {
                self.take(key, owner);
                return Some(key);
            }
        }
        None
    }

    /// Takes the folios of stream `stream` of `file` that begin before `page`.
    pub(crate) fn take_before(&mut self, file: FileId, stream: u64, page: u64) -> Vec<Key> {
        let owner = (file, Some(stream));
        let Some(waiting) = self.owners.get(&owner) else { return Vec::new() };
        let before = waiting.folios.keys().filter(|(_, start)| *start < page);
        let keys: Vec<Key> = before.map(|&(request, start)| (file, start, request)).collect();
        for &key in &keys {
            self.take(key, owner);
        }
        keys
    }

    /// Looks which readers have stopped. `stops_at` says when that of a stream of a file counts as
    /// such; nothing of a stream that is forgotten.
    pub(crate) fn look(&mut self, now: Nanos, stops_at: impl Fn(FileId, u64) -> Option<Nanos>) {
        while let Some(&(look, owner)) = self.looks.first().filter(|(look, _)| *look <= now) {
            self.looks.remove(&(look, owner));
            let Some(waiting) = self.owners.get(&owner) else { continue };
            let (file, stream) = owner;
            let stops_at = stream.and_then(|stream| stops_at(file, stream)).unwrap_or(now);
            let bytes = waiting.bytes;
            if stops_at > now {
                self.goes_on(owner);
            } else if self.stopped.insert(owner) {
                self.stopped_bytes += bytes;
            }
            let next = stops_at.max(Nanos(now.0 + LOOK.0));
            if let Some(waiting) = self.owners.get_mut(&owner) {
                waiting.look = Some(next);
                self.looks.insert((next, owner));
            }
        }
    }

    /// The reader of a stream has not stopped.
    fn goes_on(&mut self, owner: Owner) {
        if self.stopped.remove(&owner) {
            self.stopped_bytes -= self.owners.get(&owner).map_or(0, |waiting| waiting.bytes);
        }
    }

    /// What the folios that wait for stopped readers are charged, in bytes.
    pub(crate) fn stopped_bytes(&self) -> u64 {
        self.stopped_bytes
    }

    /// Takes the last folio of a stream whose reader has stopped.
    pub(crate) fn pop_stopped(&mut self) -> Option<Key> {
        let owner = *self.stopped.first()?;
        let (&(request, start), _) = self.owners.get(&owner)?.folios.last_key_value()?;
        let key = (owner.0, start, request);
        self.take(key, owner);
        Some(key)
    }

    /// The last one of the owner with the most bytes.
    fn last_of_most(&self) -> Option<(Key, Owner)> {
        let &(_, owner) = self.by_bytes.last()?;
        let (&(request, start), _) = self.owners.get(&owner)?.folios.last_key_value()?;
        Some(((owner.0, start, request), owner))
    }

    /// Forgets names of folios that are not unread any more.
    pub(crate) fn forget_stale(&mut self) {
        if self.arrived.len() > 2 * self.len + STALE_MAX {
            self.arrived.retain(|arrival| is_among(&self.owners, arrival.key, arrival.owner()));
        }
    }

    /// Gives back memory that is not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.arrived.shrink_to_fit();
    }
}

/// Time after which a folio that no reader has touched is not expected to be touched any more: 12
/// s. Lower: what is read ahead for a slow reader goes before what another one needs last. Higher:
/// what was fetched for a reader that stopped keeps memory from other streams. Source: streams are
/// ten seconds ahead at most (docs/decisions/0008), and a request of theirs takes up to two.
const OVERDUE: Nanos = Nanos::from_millis(12_000);

/// Time from the arrival of what is read ahead for a stream to the first look whether its reader
/// has stopped: 1 s. Lower: more looks. Higher: what was fetched for a reader that stopped keeps
/// memory for longer. Source: the least time after which a reader counts as stopped.
const LOOK: Nanos = Nanos::from_millis(1_000);

/// Names of folios that are not unread any more and are kept in any case. Lower: short queues are
/// searched often. Higher: more memory. Source: chosen here.
const STALE_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);

    /// No reader has paused for long.
    const NONE: fn(FileId, u64) -> Option<Nanos> = |_, _| None;

    fn insert(unread: &mut Unread, request: u64, start: u64, stream: u64) {
        unread.insert(Nanos(0), (FILE, start, RequestId(request)), 100, Some(Ahead::Stream(stream)));
    }

    #[test]
    fn the_last_folio_of_the_owner_with_the_most_goes_first() {
        let mut unread = Unread::default();
        for at in 0..3 {
            insert(&mut unread, at, 10 * at, 1);
        }
        // A reader that goes backward: the latest request is for the lowest pages.
        for at in 10..14 {
            insert(&mut unread, at, 1_000 - 10 * at, 2);
        }
        let mut gone = alloc::vec::Vec::new();
        while let Some((_, start, _)) = unread.pop() {
            gone.push(start);
        }
        assert_eq!(gone, [870, 880, 20, 890, 10, 900, 0]);
    }

    #[test]
    fn what_waits_for_a_reader_that_stopped_goes_from_its_end_on() {
        let mut unread = Unread::default();
        for at in 0..3 {
            insert(&mut unread, at, 10 * at, 1);
            insert(&mut unread, 10 + at, 100 + 10 * at, 2);
        }
        // The second stream is forgotten, and the first one stops at two seconds.
        let stops_at = |_, stream| (stream == 1).then_some(Nanos(2 * LOOK.0));
        unread.look(Nanos(LOOK.0 - 1), stops_at);
        assert_eq!(unread.pop_stopped(), None);
        unread.look(LOOK, stops_at);
        let mut pops =
            |count: usize| (0..count).filter_map(|_| Some(unread.pop_stopped()?.1)).collect::<alloc::vec::Vec<_>>();
        assert_eq!(pops(9), [120, 110, 100]);
        unread.look(Nanos(2 * LOOK.0), stops_at);
        assert_eq!(unread.pop_stopped(), Some((FILE, 20, RequestId(2))));
        unread.touched((FILE, 0, RequestId(0)), Some(Ahead::Stream(1)));
        assert_eq!(unread.pop_stopped(), None, "it goes on");
        unread.look(Nanos(3 * LOOK.0), stops_at);
        assert_eq!(unread.pop_stopped(), Some((FILE, 10, RequestId(1))));
    }

    #[test]
    fn a_folio_waits_for_as_long_as_its_reader_has_paused() {
        let mut unread = Unread::default();
        insert(&mut unread, 0, 0, 1);
        insert(&mut unread, 1, 10, 2);
        let patience = |_, stream| (stream == 1).then_some(Nanos(3 * OVERDUE.0));
        assert_eq!(unread.pop_overdue(OVERDUE, patience), Some((FILE, 10, RequestId(1))));
        assert_eq!(unread.pop_overdue(OVERDUE, patience), None);
        assert_eq!(unread.pop_overdue(Nanos(2 * OVERDUE.0), patience), None);
        assert_eq!(unread.pop_overdue(Nanos(3 * OVERDUE.0), patience), Some((FILE, 0, RequestId(0))));
    }

    #[test]
    fn what_nobody_came_for_is_overdue_unless_it_is_a_whole_file() {
        let mut unread = Unread::default();
        unread.insert(Nanos(0), (FILE, 90, RequestId(9)), 100, Some(Ahead::File));
        insert(&mut unread, 0, 0, 1);
        insert(&mut unread, 1, 10, 1);
        let now = Nanos(OVERDUE.0);
        unread.insert(now, (FILE, 20, RequestId(2)), 100, Some(Ahead::Stream(2)));
        unread.remove((FILE, 10, RequestId(1)), Some(Ahead::Stream(1)));
        assert_eq!(unread.pop_overdue(Nanos(now.0 - 1), NONE), None);
        assert_eq!(unread.pop_overdue(now, NONE), Some((FILE, 0, RequestId(0))));
        assert_eq!(unread.pop_overdue(now, NONE), None);
        assert_eq!(unread.pop(), Some((FILE, 20, RequestId(2))));
        assert_eq!(unread.pop(), Some((FILE, 90, RequestId(9))));
    }
}
