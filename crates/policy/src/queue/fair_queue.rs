//! Whose request is started next, where not all can be: each stream has a queue, and all have the same part of the storage's time.
//!
//! ```text
//!   stream A   |8 MiB|8 MiB|. .   tag  270 ms  <- its slice is used up: the next has its turn
//!   stream B   |8 MiB|. . . . .   tag    0 ms  <- started next: a reader waits for it, and it has had least
//!   stream C   |8 MiB|. . . . .   tag  135 ms
//!   random     |4 KiB|. . . . .   tag    7 ms  <- started at once, and read between two pieces of what is being read
//! ```
//!
//! **Charged** is time, not bytes: what a request keeps the storage busy with, as `link` has it. A queue's *tag* is the time that it has had;
//! whoever comes back from a pause starts where the others are, so nobody saves time up. **Order**: what a reader waits for before what
//! nobody does, and of those the least tag. What nobody waits for counts as waited for once it is old, so nobody starves: it is started after
//! [`AGE`] and one slice of each other queue, at the latest.
//!
//! **A disk** serves nobody while its arm moves. So long requests, which are read piece by piece, have the disk to themselves, those of one queue
//! for a *slice*; short ones, of whatever queue, are handed to the disk, which sorts them, and are read between the pieces of a long
//! one as long as their queue is no more than a slice ahead of its. **Other storage** works on many requests at a time, as many as
//! `concurrency` finds useful; above that they wait here. **Beyond the limit** may be an eighth of it, at least one: what a reader waits for of a
//! file that has nothing at the storage. Whoever reads a little now and then does not wait for what many have in flight, nor for a trial with
//! fewer to settle; and since these do not count against the limit, nobody has a place less.
//!
//! **What touches** what a reader waits for, and is waited for as well, goes with it (`coalesce`): it has its turn early, and its queue is
//! charged with its bytes, but with no way there, since another's request goes it anyhow.
//!
//! Whether a queue jumps about need not be found out from its last requests: what does has short ones. Readers of one file that go along together
//! are one stream to the readahead, or find each other's pages in flight, and two files are never one queue, however near each other
//! they lie: no queues are merged here, and none has to be split. Origin: start-time fair queueing (Goyal, Vin, Cheng, 1996), with
//! slices and charged time as in the kernel's completely fair queueing.
//!
//! **Switched off** it holds nothing: requests are started as they are made, in the order in which they are made, however many and whoever
//! they are for, and what is served first is left to the storage. That is what it is measured against.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::collections::request_map::RequestMap;
use crate::queue::coalesce::{Coalesce, WHOLE_PAGES_MAX};
use crate::queue::concurrency::Concurrency;
use crate::queue::link::Cost;
use crate::units::{Class, Extent, FileId, Nanos, RequestId};

mod turn;

/// Whose queue: a stream of a file, or without one whatever else is read there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) file: FileId,
    pub(crate) stream: Option<u64>,
}

/// A request that has not been started.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    extent: Extent,
    class: Class,
    cost: Cost,
    since: Nanos,
}

#[derive(Debug, Default)]
struct Queue {
    /// The time that it has had, in ns.
    tag: u64,
    waiting: BTreeMap<RequestId, Waiting>,
    /// Requests that have been started, and whether they are long.
    started: BTreeMap<RequestId, bool>,
    /// The page after the request that was started last.
    end: u64,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.started.is_empty()
    }

    /// Whether a reader waits for one of those that wait.
    fn is_demanded(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.class == Class::Demand)
    }

    /// Whether one that waits is as urgent as what a reader waits for.
    fn is_urgent(&self, now: Nanos) -> bool {
        let oldest = self.waiting.first_key_value();
        self.is_demanded() || oldest.is_some_and(|(_, waiting)| now.since(waiting.since) >= AGE)
    }

    fn has_started(&self, long: bool, mut which: impl FnMut(RequestId) -> bool) -> bool {
        self.started.iter().any(|(&id, &is_long)| is_long == long && which(id))
    }
}

/// All queues in front of one storage.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// First come, first served.
    off: bool,
    rotational: bool,
    concurrency: Concurrency,
    /// Those that have requests, and those that had.
    queues: BTreeMap<Owner, Queue>,
    idle: BTreeMap<Owner, Queue>,
    owners: RequestMap<Owner>,
    coalesce: Coalesce,
    /// Those started beyond the limit.
    beyond: BTreeSet<RequestId>,
    /// Requests that have not been started.
    waiting: usize,
    /// The tag of whoever was served last: where one begins that comes back from a pause.
    now_ns: u64,
    /// Whose slice it is, and how much of it is used.
    slice: Option<(Owner, u64)>,
}

impl FairQueue {
    pub(crate) fn new(rotational: bool) -> Self {
        Self { rotational, ..Self::default() }
    }

    /// The same, switched off: everything is started as it comes.
    pub(crate) fn off(rotational: bool) -> Self {
        Self { off: true, ..Self::new(rotational) }
    }

    /// Whether a request that comes now has to wait until [`FairQueue::next`] names it.
    pub(crate) fn must_wait(&self) -> bool {
        !self.off && (self.rotational || self.waiting > 0 || self.within() >= self.concurrency.limit())
    }

    /// A request of `owner`, which waits from now on.
    pub(crate) fn enter(&mut self, now: Nanos, id: RequestId, owner: Owner, extent: Extent, class: Class, cost: Cost) {
        self.queue_of(owner).waiting.insert(id, Waiting { extent, class, cost, since: now });
        if class == Class::Demand {
            self.coalesce.enter(id, owner.file, extent);
        }
        self.owners.push(id, owner);
        self.waiting += 1;
    }

    /// A reader waits for it now.
    pub(crate) fn promote(&mut self, id: RequestId) {
        if let Some(owner) = self.owners.get(id)
            && let Some(queue) = self.queues.get_mut(owner)
            && let Some(waiting) = queue.waiting.get_mut(&id)
        {
            waiting.class = Class::Demand;
            self.coalesce.enter(id, owner.file, waiting.extent);
        }
    }

    /// A request for `pages` is done; it had its first byte `first_byte` after it was started.
    pub(crate) fn answered(&mut self, now: Nanos, first_byte: Nanos, pages: u64) {
        // Where nothing is held there is no limit to try.
        if !self.off {
            self.concurrency.answered(now, first_byte, pages);
        }
    }

    /// It is over, whether it was started or not. Whether the storage has one request less to work on.
    pub(crate) fn finish(&mut self, id: RequestId) -> bool {
        let Some(owner) = self.owners.remove(id) else { return false };
        let Some(queue) = self.queues.get_mut(&owner) else { return false };
        let waited = queue.waiting.remove(&id);
        queue.started.remove(&id);
        if queue.is_idle() {
            self.idle.extend(self.queues.remove(&owner).map(|queue| (owner, queue)));
        }
        if let Some(waiting) = waited {
            self.waiting -= 1;
            self.coalesce.leave(id, owner.file, waiting.extent.start);
            return false;
        }
        if self.beyond.remove(&id) {
            self.beyond.extend(self.coalesce.heir(id));
        }
        self.coalesce.finish(id)
    }

    /// Nobody reads `file` any more, and none of its requests is left.
    pub(crate) fn close(&mut self, file: FileId) {
        self.idle.retain(|owner, _| owner.file != file);
        self.slice = self.slice.filter(|(owner, _)| owner.file != file);
    }

    /// How many requests the storage works on: what goes with another one is none.
    pub(crate) fn started(&self) -> usize {
        self.owners.len() - self.waiting - self.coalesce.joined()
    }

    /// Of those how many count against the limit.
    fn within(&self) -> usize {
        self.started() - self.beyond.len()
    }

    /// How many were started with another one and take no place of their own.
    pub(crate) fn joined(&self) -> usize {
        self.coalesce.joined()
    }

    /// Requests that readers wait for and that have not been started.
    pub(crate) fn demanded(&self) -> usize {
        if self.waiting == 0 {
            return 0;
        }
        let waiting = self.queues.values().flat_map(|queue| queue.waiting.values());
        waiting.filter(|waiting| waiting.class == Class::Demand).count()
    }

    /// The time that `owner` has had, compared with others'. The same of all where nobody's counts.
    pub(crate) fn tag(&self, owner: Owner) -> u64 {
        if self.off {
            return 0;
        }
        let idle = || self.idle.get(&owner).map(|queue| queue.tag.max(self.now_ns));
        self.queues.get(&owner).map(|queue| queue.tag).or_else(idle).unwrap_or(self.now_ns)
    }

    /// A request of `owner` that does not have to wait: it is started.
    pub(crate) fn start_now(&mut self, id: RequestId, owner: Owner, extent: Extent, cost: Cost) {
        self.queue_of(owner);
        self.owners.push(id, owner);
        self.start(owner, id, extent, cost, true);
    }

    /// The queue of somebody who has a request now.
    fn queue_of(&mut self, owner: Owner) -> &mut Queue {
        self.forget_idle();
        let (now_ns, idle) = (self.now_ns, &mut self.idle);
        self.queues.entry(owner).or_insert_with(|| {
            let queue = idle.remove(&owner).unwrap_or_default();
            Queue { tag: queue.tag.max(now_ns), ..queue }
        })
    }

    /// What could go with a request that was named by [`FairQueue::next`] just now: whatever readers wait for that touches it, of whatever
    /// queue.
    pub(crate) fn adjacent(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        self.coalesce.adjacent(file, extent)
    }

    /// Starts `id`, which waits, with `lead`. Its queue is charged with what it transfers only.
    pub(crate) fn join(&mut self, id: RequestId, lead: RequestId) {
        let Some(&owner) = self.owners.get(id) else { return };
        let waiting = self.queues.get_mut(&owner).and_then(|queue| queue.waiting.get_mut(&id));
        if let Some(waiting) = waiting {
            waiting.cost.positioning_ns = 0;
            self.coalesce.join(id, lead);
            self.start_waiting(owner, id, false);
        }
    }

    fn start_waiting(&mut self, owner: Owner, id: RequestId, is_turn: bool) {
        let Some(queue) = self.queues.get_mut(&owner) else { return };
        let Some(Waiting { extent, cost, .. }) = queue.waiting.remove(&id) else { return };
        self.waiting -= 1;
        self.coalesce.leave(id, owner.file, extent.start);
        self.start(owner, id, extent, cost, is_turn);
    }

    fn start(&mut self, owner: Owner, id: RequestId, extent: Extent, cost: Cost, is_turn: bool) {
        let Some(queue) = self.queues.get_mut(&owner) else { return };
        // A slice is one turn: who comes back during it is not behind those who wait for theirs.
        let goes_on = self.rotational && self.slice.is_some_and(|(last, used_ns)| last == owner && used_ns < SLICE_NS);
        if is_turn && !goes_on {
            self.now_ns = self.now_ns.max(queue.tag);
        }
        let is_long = is_long(extent);
        queue.started.insert(id, is_long);
        let follows = self.slice.is_some_and(|(last, _)| last == owner) && extent.start == queue.end;
        queue.end = extent.end;
        let Cost { positioning_ns, transfer_ns } = cost;
        let cost_ns = transfer_ns + if follows { 0 } else { positioning_ns };
        // Random reads have as many shares as readers wait there.
        let readers = if owner.stream.is_some() { 1 } else { queue.waiting.len() + queue.started.len() };
        queue.tag += cost_ns / readers as u64;
        if is_long {
            let used_ns = self.slice.filter(|&(last, used_ns)| last == owner && used_ns < SLICE_NS);
            self.slice = Some((owner, used_ns.map_or(0, |(_, used_ns)| used_ns) + cost_ns));
        }
        self.concurrency.in_flight(self.started());
    }

    /// Bounded: queues that are idle and have nothing to make good are forgotten once there are many.
    fn forget_idle(&mut self) {
        if self.idle.len() > IDLE_MAX {
            let now_ns = self.now_ns;
            self.idle.retain(|_, queue| queue.tag > now_ns);
        }
    }
}

/// Whether it is read in several pieces, so that another long one beside it would make the disk go from one to the other.
fn is_long(extent: Extent) -> bool {
    extent.pages() > WHOLE_PAGES_MAX
}

/// Two of the largest requests at the rate of an old disk: 16 MiB. With one of them 5 % of the time goes into positioning, with two 3 %; more
/// keeps others waiting longer.
const SLICE_NS: u64 = 200_000_000;

/// What nobody waits for is as urgent as what somebody does after half a second: shorter than a reader is ahead.
const AGE: Nanos = Nanos::from_millis(500);

/// Idle queues that are remembered.
const IDLE_MAX: usize = 512;

#[cfg(test)]
mod tests;
