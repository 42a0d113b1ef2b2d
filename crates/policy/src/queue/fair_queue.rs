//! Fair queue: each stream has a queue, and every queue has the same part of the storage's time.
//!
//! ```text
//!   stream A   |8 MiB|8 MiB|. .   tag  270 ms  <- its slice is used up: another has its turn
//!   stream B   |8 MiB|. . . . .   tag    0 ms  <- started next: demand, and the least tag
//!   stream C   |8 MiB|. . . . .   tag  135 ms
//!   random     |4 KiB|. . . . .   tag    7 ms  <- started at once, read between two pieces of A's
//!
//!                  must_wait                        next, join
//!   a request ──enter──> waiting ───────────────────────────────> started ──finish──> over
//!       │                   └──finish: cancelled──> over             ^
//!       └──start_now: it need not wait ──────────────────────────────┘
//! ```
//!
//! A queue is charged with time, not bytes: the time that each of its requests keeps the storage
//! busy (`link`). Its *tag* is the time that it has had. A queue that comes back from a pause
//! starts no lower than the tag at which the latest turn began, so no queue saves up time. Reads
//! that belong to no stream share one queue a file; a request there is charged with its cost
//! divided by the requests in the queue, since that many readers wait.
//!
//! A file's queues are never classified by their last requests: random reads make short requests,
//! and a request's length decides how a disk serves it (`turn`). Queues are never merged or split.
//! Cooperating readers of one file are one stream to the readahead, or find each other's pages in
//! flight. Two files are never one queue, however near each other they lie.
//!
//! Adjacent waiting demand requests, of any queue, start with the request that has its turn
//! (`coalesce`). Their queues pay for transfer, not positioning: the lead request pays that.
//!
//! *Invariants:* a request is started once and charged once. Unless memory is short, no queue
//! starves: on a disk a request waits for [`AGE`] and one slice of each other queue at most (a
//! slice ends with the request that uses it up). On other storage a place below the limit is never
//! free while a request waits.
//!
//! Switched off, no request waits: requests start in the order in which they are made, tags are
//! equal, and the storage serves them in its own order. That is the comparison for this mechanism.
//!
//! This file does not decide which queue is next (`turn`), how many requests a store is given
//! (`concurrency`), or whether there is memory (the read path). It does not know where files lie
//! on a disk. Source: docs/decisions/0021, 0023, 0024, 0026, 0027; start-time fair queueing
//! (Goyal, Vin, Cheng, 1996), with slices and charged time as in the kernel's completely fair
//! queueing (CFQ).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::collections::request_map::RequestMap;
use crate::queue::coalesce::{Coalesce, GROUP_PAGES_MAX};
use crate::queue::concurrency::Concurrency;
use crate::queue::link::Cost;
use crate::units::{Class, Extent, FileId, Nanos, RequestId};

mod owner;
mod ready;
mod turn;

pub(crate) use owner::Owner;
use ready::{Ready, State};

/// A request that has not been started.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    extent: Extent,
    class: Class,
    cost: Cost,
    since: Nanos,
}

/// A request that is started.
#[derive(Debug, Clone, Copy)]
struct Started {
    extent: Extent,
    class: Class,
    cost: Cost,
    /// It is its queue's turn.
    is_turn: bool,
}

/// The requests of one owner.
#[derive(Debug, Default)]
struct Queue {
    /// The time that it has had, in ns.
    tag: u64,
    waiting: BTreeMap<RequestId, Waiting>,
    /// How many of them are demand.
    demanded: usize,
    /// The waiting ones in the order of their turns: those that are not urgent last, then by
    /// position on a disk, then the oldest.
    order: BTreeSet<(bool, u64, RequestId)>,
    /// Requests that have been started; `true` for long ones.
    started: BTreeMap<RequestId, bool>,
    /// The page after the request that was started last.
    end: u64,
    /// The time that its requests were charged with so far, in ns. To be shown: nothing is decided
    /// by it, and it is lost with an idle queue that is forgotten.
    served_ns: u64,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.started.is_empty()
    }

    /// Whether a demand request waits here.
    fn is_demanded(&self) -> bool {
        self.demanded > 0
    }

    /// The place of a waiting request in `order`. All long requests of a stream on a disk are
    /// needed soon, and two in order of position are read as one.
    fn place(id: RequestId, waiting: &Waiting, rotational: bool) -> (bool, u64, RequestId) {
        let patient = waiting.class != Class::Demand && !(rotational && is_long(waiting.extent));
        (patient, if rotational { waiting.extent.start } else { 0 }, id)
    }

    fn insert(&mut self, id: RequestId, waiting: Waiting, rotational: bool) {
        self.demanded += usize::from(waiting.class == Class::Demand);
        self.order.insert(Self::place(id, &waiting, rotational));
        self.waiting.insert(id, waiting);
    }

    fn remove(&mut self, id: RequestId, rotational: bool) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.demanded -= usize::from(waiting.class == Class::Demand);
        self.order.remove(&Self::place(id, &waiting, rotational));
        Some(waiting)
    }

    /// The waiting request to start first. On a disk: by position, from the end of the last one
    /// on. Elsewhere: demand, then the oldest.
    fn first(&self) -> Option<RequestId> {
        let &(patient, ..) = self.order.first()?;
        let behind = self.order.range((patient, self.end, RequestId(0))..).next();
        let behind = behind.filter(|(other, ..)| *other == patient);
        behind.or(self.order.first()).map(|&(_, _, id)| id)
    }

    /// What the place of the queue among all depends on; `None` if no request waits.
    fn state(&self, rotational: bool) -> Option<State> {
        let (_, oldest) = self.waiting.first_key_value()?;
        let is_first_long = || self.waiting.get(&self.first()?).map(|waiting| is_long(waiting.extent));
        Some(State {
            tag: self.tag,
            is_demanded: self.is_demanded(),
            is_long: rotational && is_first_long().unwrap_or(false),
            since: oldest.since,
        })
    }
}

/// All queues in front of one storage.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// Switched off: first come, first served.
    off: bool,
    rotational: bool,
    concurrency: Concurrency,
    /// Queues that have requests, and queues that had some.
    queues: BTreeMap<Owner, Queue>,
    idle: BTreeMap<Owner, Queue>,
    /// The idle ones by tag.
    idle_tags: BTreeSet<(u64, Owner)>,
    /// Those in which requests wait, in the order of their turns.
    ready: Ready,
    owners: RequestMap<Owner>,
    coalesce: Coalesce,
    /// Requests started beyond the limit.
    beyond: BTreeSet<RequestId>,
    /// Requests that have not been started, and how many of them are demand.
    waiting: usize,
    demanded: usize,
    /// Requests that have been started: how many short ones, and the long ones.
    short: usize,
    long: BTreeSet<(Owner, RequestId)>,
    /// The tag at which the latest turn began, in ns: a queue that comes back from a pause starts
    /// here. It never goes back.
    now_ns: u64,
    /// The queue that has the slice, and the time used of it, in ns. Only long requests begin one.
    slice: Option<(Owner, u64)>,
    service: Service,
}

/// The storage's time that requests were charged with so far, by what they were for when they
/// started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Service {
    /// Requests that a reader waited for, in ns.
    pub demand_ns: u64,
    /// Requests that none waited for, in ns.
    pub readahead_ns: u64,
}

impl FairQueue {
    pub(crate) fn new(rotational: bool) -> Self {
        Self { rotational, ..Self::default() }
    }

    /// A fair queue that is switched off: each request starts as it comes.
    pub(crate) fn off(rotational: bool) -> Self {
        Self { off: true, ..Self::new(rotational) }
    }

    /// The same with at most `limit_max` requests at the storage.
    pub(crate) fn with_limit_max(self, limit_max: usize) -> Self {
        Self { concurrency: self.concurrency.with_max(limit_max), ..self }
    }

    /// How many requests the storage is given at a time.
    pub(crate) fn limit(&self) -> usize {
        if self.off { usize::MAX } else { self.concurrency.limit() }
    }

    /// Whether a request that comes now has to wait until [`FairQueue::next`] returns it.
    pub(crate) fn must_wait(&self) -> bool {
        !self.off && (self.rotational || self.waiting > 0 || self.within() >= self.concurrency.limit())
    }

    /// A request of `owner` waits from now on.
    pub(crate) fn enter(&mut self, now: Nanos, id: RequestId, owner: Owner, extent: Extent, class: Class, cost: Cost) {
        let rotational = self.rotational;
        self.queue_of(owner).insert(id, Waiting { extent, class, cost, since: now }, rotational);
        if class == Class::Demand {
            self.coalesce.enter(id, owner.file, extent);
            self.demanded += 1;
        }
        self.owners.push(id, owner);
        self.waiting += 1;
        self.changed(owner);
    }

    /// A reader waits for `id`: it is a demand request from now on.
    pub(crate) fn promote(&mut self, id: RequestId) {
        if let Some(&owner) = self.owners.get(id)
            && let Some(queue) = self.queues.get_mut(&owner)
            && let Some(waiting) = queue.waiting.get(&id).filter(|waiting| waiting.class != Class::Demand)
        {
            let waiting = Waiting { class: Class::Demand, ..*waiting };
            queue.remove(id, self.rotational);
            queue.insert(id, waiting, self.rotational);
            self.demanded += 1;
            self.coalesce.enter(id, owner.file, waiting.extent);
            self.changed(owner);
        }
    }

    /// The requests or the tag of a queue have changed.
    fn changed(&mut self, owner: Owner) {
        let state = self.queues.get(&owner).and_then(|queue| queue.state(self.rotational));
        self.ready.set(owner, state);
    }

    /// A request for `pages` is complete; its first byte came `first_byte` after it was started.
    pub(crate) fn answered(&mut self, now: Nanos, first_byte: Nanos, pages: u64) {
        // Switched off, no request waits, so there is no limit to try.
        if !self.off {
            self.concurrency.answered(now, first_byte, pages);
        }
    }

    /// The throughput of the link `grows` or not: while it does, the limit may grow too.
    pub(crate) fn grow(&mut self, grows: bool) {
        if !self.off {
            self.concurrency.grow(grows);
        }
    }

    /// A round of the link is over.
    pub(crate) fn round_ended(&mut self) {
        self.concurrency.round_ended();
    }

    /// `id` is over, whether it was started or not. Returns whether the storage has one request
    /// less to work on.
    pub(crate) fn finish(&mut self, id: RequestId) -> bool {
        let Some(owner) = self.owners.remove(id) else { return false };
        let Some(queue) = self.queues.get_mut(&owner) else { return false };
        let waited = queue.remove(id, self.rotational);
        match queue.started.remove(&id) {
            Some(true) => {
                self.long.remove(&(owner, id));
            }
            Some(false) => self.short -= 1,
            None => {}
        }
        if queue.is_idle()
            && let Some(queue) = self.queues.remove(&owner)
        {
            self.idle_tags.insert((queue.tag, owner));
            self.idle.insert(owner, queue);
        }
        self.changed(owner);
        if waited.is_none() {
            self.ready.ended(owner.file);
        }
        if let Some(waiting) = waited {
            self.waiting -= 1;
            self.demanded -= usize::from(waiting.class == Class::Demand);
            self.coalesce.leave(id, owner.file, waiting.extent.start);
            return false;
        }
        if self.beyond.remove(&id) {
            self.beyond.extend(self.coalesce.heir(id));
        }
        self.coalesce.finish(id)
    }

    /// No reader has `file` open, and none of its requests is left: its queues are forgotten.
    pub(crate) fn close(&mut self, file: FileId) {
        let of_file = self.idle.range(Owner { file, stream: None }..).take_while(|(owner, _)| owner.file == file);
        for (owner, tag) in of_file.map(|(&owner, queue)| (owner, queue.tag)).collect::<Vec<_>>() {
            self.idle.remove(&owner);
            self.idle_tags.remove(&(tag, owner));
        }
        self.slice = self.slice.filter(|(owner, _)| owner.file != file);
    }

    /// How many requests the storage works on. Joined requests are part of their lead request.
    pub(crate) fn started(&self) -> usize {
        self.owners.len() - self.waiting - self.coalesce.joined()
    }

    /// How many of the started requests count against the limit.
    fn within(&self) -> usize {
        self.started() - self.beyond.len()
    }

    /// How many requests joined another one and have no place of their own.
    pub(crate) fn joined(&self) -> usize {
        self.coalesce.joined()
    }

    /// Whether more than one queue has requests.
    pub(crate) fn is_shared(&self) -> bool {
        self.queues.len() > 1
    }

    /// Demand requests that have not been started.
    pub(crate) fn demanded(&self) -> usize {
        self.demanded
    }

    /// The time that `owner` has had, to compare with that of others. Switched off, it is 0 for
    /// all.
    pub(crate) fn tag(&self, owner: Owner) -> u64 {
        if self.off {
            return 0;
        }
        let idle = || self.idle.get(&owner).map(|queue| queue.tag.max(self.now_ns));
        self.queues.get(&owner).map(|queue| queue.tag).or_else(idle).unwrap_or(self.now_ns)
    }

    /// The time that the requests of `owner` were charged with, in ns, as far as it is known.
    pub(crate) fn served_ns(&self, owner: Owner) -> u64 {
        self.queues.get(&owner).or_else(|| self.idle.get(&owner)).map_or(0, |queue| queue.served_ns)
    }

    /// The time that all requests were charged with.
    pub(crate) fn service(&self) -> Service {
        self.service
    }

    /// Starts a request of `owner` that does not have to wait.
    pub(crate) fn start_now(&mut self, id: RequestId, owner: Owner, extent: Extent, class: Class, cost: Cost) {
        self.queue_of(owner);
        self.owners.push(id, owner);
        self.start(owner, id, Started { extent, class, cost, is_turn: true });
    }

    /// The queue of an `owner` that has a request now.
    fn queue_of(&mut self, owner: Owner) -> &mut Queue {
        self.forget_idle();
        let (now_ns, idle, idle_tags) = (self.now_ns, &mut self.idle, &mut self.idle_tags);
        self.queues.entry(owner).or_insert_with(|| {
            let queue = idle.remove(&owner).unwrap_or_default();
            idle_tags.remove(&(queue.tag, owner));
            Queue { tag: queue.tag.max(now_ns), ..queue }
        })
    }

    /// The waiting demand requests, of any queue, that could join the request that
    /// [`FairQueue::next`] returned just now.
    pub(crate) fn adjacent(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        self.coalesce.adjacent(file, extent)
    }

    /// Starts `id`, which waits, with `lead`. Its queue pays for transfer, not positioning.
    pub(crate) fn join(&mut self, id: RequestId, lead: RequestId) {
        let Some(&owner) = self.owners.get(id) else { return };
        let waiting = self.queues.get_mut(&owner).and_then(|queue| queue.waiting.get_mut(&id));
        if let Some(waiting) = waiting {
            waiting.cost.positioning_ns = 0;
            self.coalesce.join(id, lead);
            self.start_waiting(owner, id, false);
        }
    }

    /// Starts `id`, if it waits, without a turn of its own: another request of the same read has
    /// one.
    pub(crate) fn start_beside(&mut self, id: RequestId) {
        if let Some(&owner) = self.owners.get(id) {
            self.start_waiting(owner, id, false);
        }
    }

    fn start_waiting(&mut self, owner: Owner, id: RequestId, is_turn: bool) {
        let Some(queue) = self.queues.get_mut(&owner) else { return };
        let Some(Waiting { extent, cost, class, .. }) = queue.remove(id, self.rotational) else { return };
        self.waiting -= 1;
        self.demanded -= usize::from(class == Class::Demand);
        self.coalesce.leave(id, owner.file, extent.start);
        self.start(owner, id, Started { extent, class, cost, is_turn });
    }

    fn start(&mut self, owner: Owner, id: RequestId, started: Started) {
        let Started { extent, class, cost, is_turn } = started;
        let Some(queue) = self.queues.get_mut(&owner) else { return };
        // A slice is one turn: a queue that comes back during it starts where the slice began, not
        // behind the queues that wait for theirs.
        let goes_on = self.rotational && self.slice.is_some_and(|(last, used_ns)| last == owner && used_ns < SLICE_NS);
        if is_turn && !goes_on {
            self.now_ns = self.now_ns.max(queue.tag);
        }
        let is_long = is_long(extent);
        queue.started.insert(id, is_long);
        if is_long {
            self.long.insert((owner, id));
        } else {
            self.short += 1;
        }
        let follows = self.slice.is_some_and(|(last, _)| last == owner) && extent.start == queue.end;
        queue.end = extent.end;
        let Cost { positioning_ns, transfer_ns } = cost;
        let cost_ns = transfer_ns + if follows { 0 } else { positioning_ns };
        // Random reads have as many shares as requests are in their queue: one for each reader.
        let readers = if owner.stream.is_some() { 1 } else { queue.waiting.len() + queue.started.len() };
        queue.tag += cost_ns / readers as u64;
        queue.served_ns += cost_ns;
        match class {
            Class::Demand => self.service.demand_ns += cost_ns,
            Class::Speculative => self.service.readahead_ns += cost_ns,
        }
        if is_long {
            let used_ns = self.slice.filter(|&(last, used_ns)| last == owner && used_ns < SLICE_NS);
            self.slice = Some((owner, used_ns.map_or(0, |(_, used_ns)| used_ns) + cost_ns));
        }
        self.ready.started(owner.file);
        self.changed(owner);
        self.concurrency.in_flight(self.started());
    }

    /// Once many queues are idle, forgets those with tags not ahead of the latest turn: they would
    /// start there anyway.
    fn forget_idle(&mut self) {
        if self.idle.len() <= IDLE_MAX {
            return;
        }
        while let Some(&(tag, owner)) = self.idle_tags.first()
            && tag <= self.now_ns
        {
            self.idle_tags.pop_first();
            self.idle.remove(&owner);
        }
    }
}

/// Whether a request is read in several pieces: another long one beside it would make the disk
/// move from one to the other.
fn is_long(extent: Extent) -> bool {
    extent.pages() > GROUP_PAGES_MAX
}

/// The length of a slice on a disk, in ns: 200 ms. A slice ends with the request that uses it up,
/// so on an old disk it holds two of the largest requests (16 MiB). Lower: one such request a
/// slice spends 5 % of the time on positioning, two spend 3 %. Higher: other queues wait longer.
/// Source: docs/decisions/0021.
const SLICE_NS: u64 = 200_000_000;

/// The age from which on speculation counts as demand: half a second, less than a reader is ahead.
/// Lower: speculation delays demand on crowded storage. Higher: a stream beside much demand is
/// read ahead too late. Source: a guess, not measured.
const AGE: Nanos = Nanos::from_millis(500);

/// The number of idle queues above which those that have nothing to make good are forgotten, in
/// queues. Lower: idle queues are scanned more often. Higher: more memory for queues without
/// requests. Source: a guess, not measured.
const IDLE_MAX: usize = 512;

#[cfg(test)]
mod tests;
