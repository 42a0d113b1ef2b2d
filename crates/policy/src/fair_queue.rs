//! Whose request is started next, where not all can be: each stream has a queue, and all have the same part of the storage's time.
//!
//! ```text
//!   stream A   |8 MiB|8 MiB|. .   tag  270 ms  <- its slice is used up: the next has its turn
//!   stream B   |8 MiB|. . . . .   tag    0 ms  <- started next: it has had least, and a reader waits for it
//!   stream C   |2 MiB|. . . . .   tag   31 ms
//!   random     |4 KiB|. . . . .   tag    7 ms  <- started meanwhile, as long as it has had less than who is being served
//! ```
//!
//! **Charged** is time, not bytes: what a request keeps the storage busy with, as the cost model has it. A queue's *tag* is the time that it
//! has had; whoever comes back from a pause starts where the others are now, so nobody saves time up. **Order**: what a reader waits for before
//! what none does; of those the least tag. What none waits for counts as waited for once it is old, so nobody starves: a request is started at the
//! latest after [`AGE`] and one slice of each other queue.
//!
//! **On a disk** going to another place serves nobody, so one stream is served at a time, for a *slice*, and what jumps about anyway
//! (random reads, and a stream of which more than 4 of the last 32 requests jumped) is handed to the disk at once, which sorts it. Other storage
//! serves many at a time: there nothing waits but speculation above what may be in flight, whose streams have their turn by tag.
//!
//! Two readers of one file that go along together are one stream to the readahead, or find each other's pages in flight: they need no queue in
//! common. Two files are never one queue, however near each other they lie. Origin: start-time fair queueing (Goyal, Vin, Cheng,
//! 1996); slices, seeky queues and their constants as in the kernel's completely fair queueing, charged by time as there.

use alloc::collections::BTreeMap;

use crate::event::Class;
use crate::units::{Extent, FileId, Nanos, RequestId};

/// Whose queue: a stream of a file, or without one whatever else is read there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) file: FileId,
    pub(crate) stream: Option<u64>,
}

/// What a request keeps the storage busy with, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Going there. Not paid by what goes on where the queue's last request ended.
    pub(crate) positioning_ns: u64,
    pub(crate) transfer_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    extent: Extent,
    class: Class,
    cost: Cost,
    since: Nanos,
}

impl Waiting {
    /// Whether it is read in several pieces, so that another long one beside it would make the disk go from one to the other.
    fn is_long(&self) -> bool {
        self.extent.pages() > AT_ONCE_PAGES
    }
}

#[derive(Debug, Default)]
struct Queue {
    is_stream: bool,
    /// The time that it has had, in ns.
    tag: u64,
    waiting: BTreeMap<RequestId, Waiting>,
    /// Its requests that have been started, and whether they are long.
    started: BTreeMap<RequestId, bool>,
    /// The page after its last request.
    end: u64,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.started.is_empty()
    }

    /// The next of its requests as they lie, from where its last one ended; of a stream all are one, of random reads those come first that
    /// are waited for.
    fn first(&self) -> Option<(RequestId, Waiting)> {
        let place = |(id, waiting): &(&RequestId, &Waiting)| {
            (
                waiting.class != Class::Demand && !self.is_stream,
                waiting.extent.start < self.end,
                waiting.extent.start,
                **id,
            )
        };
        self.waiting.iter().min_by_key(place).map(|(&id, &waiting)| (id, waiting))
    }

    /// Whether a reader waits for one of those that wait.
    fn is_demanded(&self) -> bool {
        self.waiting.values().any(|waiting| waiting.class == Class::Demand)
    }

    /// Since when its oldest one waits.
    fn since(&self) -> Option<Nanos> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.since)
    }
}

/// All queues in front of one storage.
#[derive(Debug)]
pub(crate) struct FairQueue {
    rotational: bool,
    /// Those that have requests, and those that had.
    queues: BTreeMap<Owner, Queue>,
    idle: BTreeMap<Owner, Queue>,
    owners: BTreeMap<RequestId, Owner>,
    /// Requests that have not been started.
    waiting: usize,
    /// The tag of whoever was served last: where one begins that comes back from a pause.
    now_ns: u64,
    /// Whose slice it is, and how much of it is used.
    slice: Option<(Owner, u64)>,
}

impl FairQueue {
    pub(crate) fn new(rotational: bool) -> Self {
        Self {
            rotational,
            queues: BTreeMap::new(),
            idle: BTreeMap::new(),
            owners: BTreeMap::new(),
            waiting: 0,
            now_ns: 0,
            slice: None,
        }
    }

    /// A request of `owner`, which waits from now on.
    pub(crate) fn enter(&mut self, now: Nanos, id: RequestId, owner: Owner, extent: Extent, class: Class, cost: Cost) {
        self.forget_idle();
        let now_ns = self.now_ns;
        let idle = &mut self.idle;
        let queue = self.queues.entry(owner).or_insert_with(|| {
            let queue = idle.remove(&owner).unwrap_or_default();
            Queue { is_stream: owner.stream.is_some(), tag: queue.tag.max(now_ns), ..queue }
        });
        queue.waiting.insert(id, Waiting { extent, class, cost, since: now });
        self.owners.insert(id, owner);
        self.waiting += 1;
    }

    /// A reader waits for it now.
    pub(crate) fn promote(&mut self, id: RequestId) {
        if let Some(queue) = self.owners.get(&id).and_then(|owner| self.queues.get_mut(owner))
            && let Some(waiting) = queue.waiting.get_mut(&id)
        {
            waiting.class = Class::Demand;
        }
    }

    /// It is over, whether it was started or not.
    pub(crate) fn finish(&mut self, id: RequestId) {
        if let Some(owner) = self.owners.remove(&id)
            && let Some(queue) = self.queues.get_mut(&owner)
        {
            self.waiting -= usize::from(queue.waiting.remove(&id).is_some());
            queue.started.remove(&id);
            if queue.is_idle() {
                self.idle.extend(self.queues.remove(&owner).map(|queue| (owner, queue)));
            }
        }
    }

    /// Nobody reads `file` any more, and none of its requests is left.
    pub(crate) fn close(&mut self, file: FileId) {
        self.idle.retain(|owner, _| owner.file != file);
        self.slice = self.slice.filter(|(owner, _)| owner.file != file);
    }

    /// Requests that readers wait for and that have not been started.
    pub(crate) fn demanded(&self) -> usize {
        let waiting = self.queues.values().flat_map(|queue| queue.waiting.values());
        waiting.filter(|waiting| waiting.class == Class::Demand).count()
    }

    /// The time that `owner` has had, compared with others'.
    pub(crate) fn tag(&self, owner: Owner) -> u64 {
        let idle = || self.idle.get(&owner).map(|queue| queue.tag.max(self.now_ns));
        self.queues.get(&owner).map(|queue| queue.tag).or_else(idle).unwrap_or(self.now_ns)
    }

    /// Whether the storage has nothing to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.queues.values().all(|queue| queue.started.is_empty())
    }

    /// Whether requests may have to wait before they are started.
    pub(crate) fn holds(&self) -> bool {
        self.rotational
    }

    /// Starts `id`, which was entered just now.
    pub(crate) fn start_now(&mut self, id: RequestId) {
        if let Some(&owner) = self.owners.get(&id) {
            self.start(owner);
        }
    }

    /// The request to start now, if any. `stalled` says of one that was started that it waits for memory, so the storage does not work on it.
    pub(crate) fn next(&mut self, now: Nanos, stalled: impl Fn(RequestId) -> bool) -> Option<RequestId> {
        if self.waiting == 0 {
            return None;
        }
        let is_stalled = |queue: &Queue| queue.started.keys().any(|&id| stalled(id));
        // What finds no memory takes no turn, and what nobody waits for would find none either.
        let short = self.queues.values().any(is_stalled);
        let is_served = |queue: &Queue| queue.started.iter().any(|(&id, &long)| long && !stalled(id));
        let served = self.queues.values().find(|queue| is_served(queue)).map(|queue| queue.tag.max(self.now_ns));
        let owner = match (served, self.slice) {
            (None, Some((owner, used_ns))) if used_ns < SLICE_NS && self.is_ready(owner, short) => owner,
            _ => self.least(now, short, served)?,
        };
        self.start(owner)
    }

    /// Of what may be started the one that is waited for and has had least.
    fn least(&self, now: Nanos, short: bool, served: Option<u64>) -> Option<Owner> {
        let started = self.queues.values().flat_map(|queue| queue.started.values());
        let sorted = started.filter(|&&long| !long).count();
        let ready = self.queues.iter().filter_map(|(&owner, queue)| {
            let demanded = queue.is_demanded();
            let waits = demanded || now.since(queue.since()?) >= AGE;
            let (_, first) = queue.first()?;
            let may = match served {
                _ if !first.is_long() && sorted >= SORTED_MAX => false,
                Some(tag) => !first.is_long() && queue.tag <= tag + SLICE_NS,
                None => true,
            };
            (may && (demanded || !short)).then_some((!waits, queue.tag, owner))
        });
        ready.min().map(|(.., owner)| owner)
    }

    /// Whether `owner` has a request that may be started.
    fn is_ready(&self, owner: Owner, short: bool) -> bool {
        self.queues.get(&owner).is_some_and(|queue| !queue.waiting.is_empty() && (!short || queue.is_demanded()))
    }

    fn start(&mut self, owner: Owner) -> Option<RequestId> {
        let queue = self.queues.get_mut(&owner)?;
        let (id, first) = queue.first()?;
        let Waiting { extent, cost, .. } = first;
        queue.waiting.remove(&id);
        self.waiting -= 1;
        queue.started.insert(id, first.is_long());
        let jumped = extent.start.abs_diff(queue.end) > NEAR_PAGES;
        queue.end = extent.end;
        let follows = self.slice.is_some_and(|(last, _)| last == owner) && !jumped;
        let cost_ns = cost.transfer_ns + if follows { 0 } else { cost.positioning_ns };
        self.now_ns = self.now_ns.max(queue.tag);
        // Random reads have as many shares as readers wait there.
        let readers = if owner.stream.is_some() { 1 } else { (queue.waiting.len() + queue.started.len()) as u64 };
        queue.tag += cost_ns / readers;
        if first.is_long() {
            let used_ns =
                self.slice.filter(|&(last, used_ns)| last == owner && used_ns < SLICE_NS).map_or(0, |(_, used)| used);
            self.slice = Some((owner, used_ns + cost_ns));
        }
        Some(id)
    }

    /// Bounded: queues that are idle and have nothing to make good are forgotten once there are many.
    fn forget_idle(&mut self) {
        if self.idle.len() > IDLE_MAX {
            let now_ns = self.now_ns;
            self.idle.retain(|_, queue| queue.tag > now_ns);
        }
    }
}

/// Two of the largest requests at the rate of a disk of the time: 16 MiB. With one of them 5 % of the time goes into positioning, with two 3 %;
/// more keeps others waiting longer.
const SLICE_NS: u64 = 200_000_000;

/// What nobody waits for is as urgent as what somebody does after half a second: shorter than a reader is ahead.
const AGE: Nanos = Nanos::from_millis(500);

/// The most that a disk is given to sort. At twice as much 64 readers at once would wait for 128 to be served.
const SORTED_MAX: usize = 256;

/// What an engine reads of a file at once, 512 KiB.
const AT_ONCE_PAGES: u64 = 128;

/// 400 KiB: what lies nearer is passed over sooner than another place is gone to.
const NEAR_PAGES: u64 = 100;

/// Idle queues that are remembered.
const IDLE_MAX: usize = 512;
