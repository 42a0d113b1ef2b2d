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

use crate::coalesce::Coalesce;
use crate::concurrency::Concurrency;
use crate::event::Class;
use crate::numbered::Numbered;
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
    /// Going there. Not paid by what goes on where the last request ended.
    pub(crate) positioning_ns: u64,
    pub(crate) transfer_ns: u64,
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
    owners: Numbered<Owner>,
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
    pub(crate) fn holds(&self) -> bool {
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

    /// The request to start now, if any. What is `stalled` waits for memory: the storage does not work on it, though it was started.
    pub(crate) fn next(&mut self, now: Nanos, stalled: &BTreeSet<RequestId>) -> Option<RequestId> {
        if self.waiting == 0 {
            return None;
        }
        // Where what was started finds no memory, what nobody waits for would find none either.
        let has_started = |id: &&RequestId| self.queues.values().any(|queue| queue.started.contains_key(id));
        let stalling = stalled.iter().filter(has_started).count();
        let short_of_memory = stalling > 0;
        let ready = |queue: &Queue| !queue.waiting.is_empty() && (!short_of_memory || queue.is_demanded());
        let is_served = |queue: &&Queue| self.rotational && queue.has_started(true, |id| !stalled.contains(&id));
        let served = self.queues.values().find(is_served).map(|queue| queue.tag.max(self.now_ns));
        // The storage does not work on what waits for memory, and a reader who waits may be all that can make room.
        let stalling_within = stalling - self.beyond.intersection(stalled).count();
        let goes_beyond = !self.rotational && self.within() - stalling_within >= self.concurrency.limit();
        let owner = if self.rotational {
            self.next_on_disk(now, served, ready)?
        } else if goes_beyond {
            self.next_beyond()?
        } else {
            self.least(now, ready)?
        };
        let id = self.first(self.queues.get(&owner)?)?;
        if goes_beyond {
            self.beyond.insert(id);
        }
        // What is read between the pieces of another's request is no turn, nor is what goes beyond the limit.
        self.start_waiting(owner, id, served.is_none() && !goes_beyond);
        Some(id)
    }

    /// What could go with a request that was named by [`FairQueue::next`] just now: whatever readers wait for that touches it, of whatever
    /// queue.
    pub(crate) fn around(&self, file: FileId, extent: Extent) -> Vec<RequestId> {
        self.coalesce.around(file, extent)
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

    /// Who may start a request on a disk that serves a long one of a queue with the tag `served`, or none.
    fn next_on_disk(&self, now: Nanos, served: Option<u64>, ready: impl Fn(&Queue) -> bool) -> Option<Owner> {
        if served.is_none()
            && let Some((owner, used_ns)) = self.slice
            && used_ns < SLICE_NS
            && self.queues.get(&owner).is_some_and(&ready)
        {
            return Some(owner);
        }
        let short: usize =
            self.queues.values().map(|queue| queue.started.values().filter(|&&long| !long).count()).sum();
        let sorted = short - self.joined();
        self.least(now, |queue| {
            let long =
                self.first(queue).and_then(|id| queue.waiting.get(&id)).is_some_and(|waiting| is_long(waiting.extent));
            let may = match served {
                Some(tag) => !long && queue.tag <= tag + SLICE_NS,
                None => true,
            };
            may && (long || sorted < SORTED_MAX) && ready(queue)
        })
    }

    /// Who may start a request though the limit is reached: of those whose file has nothing at the storage, and whom a reader waits for,
    /// the one that has had least. By file, since readers of one share its streams.
    fn next_beyond(&self) -> Option<Owner> {
        if self.beyond.len() >= (self.concurrency.limit() / BEYOND_PART).max(1) {
            return None;
        }
        let has_started = self.queues.iter().filter(|(_, queue)| !queue.started.is_empty());
        let there: BTreeSet<FileId> = has_started.map(|(owner, _)| owner.file).collect();
        let beside = self.queues.iter().filter(|(owner, queue)| queue.is_demanded() && !there.contains(&owner.file));
        beside.min_by_key(|(owner, queue)| (queue.tag, **owner)).map(|(&owner, _)| owner)
    }

    /// Of those that `may`, one that is waited for, and of those the one that has had least.
    fn least(&self, now: Nanos, may: impl Fn(&Queue) -> bool) -> Option<Owner> {
        let ready = self.queues.iter().filter(|(_, queue)| may(queue));
        ready.min_by_key(|(owner, queue)| (!queue.is_urgent(now), queue.tag, **owner)).map(|(&owner, _)| owner)
    }

    /// Of those that wait in a queue the one to be started first: on a disk as they lie, from where the last one ended; elsewhere what
    /// is waited for, then the oldest.
    fn first(&self, queue: &Queue) -> Option<RequestId> {
        let place = |(id, waiting): &(&RequestId, &Waiting)| {
            let start = waiting.extent.start;
            let (behind, start) = if self.rotational { (start < queue.end, start) } else { (false, 0) };
            // Of long ones all are wanted soon, and in pairs they are read as one.
            (waiting.class != Class::Demand && !(self.rotational && is_long(waiting.extent)), behind, start, **id)
        };
        queue.waiting.iter().min_by_key(place).map(|(&id, _)| id)
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
    extent.pages() > AT_ONCE_PAGES
}

/// Two of the largest requests at the rate of an old disk: 16 MiB. With one of them 5 % of the time goes into positioning, with two 3 %; more
/// keeps others waiting longer.
const SLICE_NS: u64 = 200_000_000;

/// What nobody waits for is as urgent as what somebody does after half a second: shorter than a reader is ahead.
const AGE: Nanos = Nanos::from_millis(500);

/// The most short requests that a disk is given to sort. With 64 the random reads of 256 threads have 2 % less.
const SORTED_MAX: usize = 256;

/// An eighth of the limit may be in flight beyond it: with 32 who read now and then beside sixteen, a quarter and a half give the same within
/// 2 %, without any the slowest takes 36 % longer.
const BEYOND_PART: usize = 8;

/// What an engine reads of a file at once, 512 KiB: 8 ms of an old disk, for which a short request waits at most.
pub(crate) const AT_ONCE_PAGES: u64 = 128;

/// Idle queues that are remembered.
const IDLE_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A serial disk, and who is in front of it.
    struct Disk {
        queue: FairQueue,
        next: u64,
        now: u64,
        /// When each request came, and when it was started.
        times: BTreeMap<RequestId, (u64, Option<u64>)>,
    }

    impl Disk {
        fn new() -> Self {
            Self { queue: FairQueue::new(true), next: 0, now: 0, times: BTreeMap::new() }
        }

        fn enter(&mut self, stream: Option<u64>, start: u64, pages: u64, class: Class) -> RequestId {
            let (id, owner) = (RequestId(self.next), Owner { file: FileId(0), stream });
            let cost = Cost { positioning_ns: 7 * MS, transfer_ns: pages * 66_000 };
            self.queue.enter(Nanos(self.now), id, owner, Extent::new(start, start + pages), class, cost);
            self.times.insert(id, (self.now, None));
            self.next += 1;
            id
        }

        /// What may be started now is.
        fn start(&mut self) -> Vec<RequestId> {
            let started: Vec<_> = core::iter::from_fn(|| self.queue.next(Nanos(self.now), &BTreeSet::new())).collect();
            for id in &started {
                let at = self.times.get_mut(id).unwrap();
                assert_eq!(at.1.replace(self.now), None, "{id:?} was started twice");
            }
            started
        }
    }

    const LONG: u64 = 2048;

    #[test]
    fn a_stream_is_served_for_a_slice_and_the_others_have_theirs() {
        let mut disk = Disk::new();
        for part in 0..4 {
            for stream in 0..3 {
                disk.enter(Some(stream), (stream * 100 + part) * LONG, LONG, Class::Demand);
            }
        }
        let mut order = Vec::new();
        while let [id] = disk.start()[..] {
            order.push(id.0 % 3);
            disk.queue.finish(id);
        }
        assert_eq!(order, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_short_request_does_not_wait_for_a_long_one() {
        let mut disk = Disk::new();
        let long = disk.enter(Some(0), 0, LONG, Class::Demand);
        disk.enter(Some(1), 1 << 20, LONG, Class::Demand);
        assert_eq!(disk.start(), [long]);
        let short = disk.enter(None, 1 << 30, 1, Class::Demand);
        assert_eq!(disk.start(), [short]);
    }

    #[test]
    fn who_reads_much_at_random_has_no_more_than_a_slice_before_a_stream() {
        let mut disk = Disk::new();
        let mut starts = 0;
        disk.enter(Some(0), 0, LONG, Class::Demand);
        disk.start();
        for at in 0..1_000 {
            let id = disk.enter(None, at * 10_000, 1, Class::Demand);
            if disk.start() != [id] {
                break;
            }
            disk.queue.finish(id);
            starts += 1;
        }
        // Its slice, and the 135 ms that the long request is charged with.
        let most = (200 + 135 + 7) / 7 + 1;
        assert!((most - 4..=most).contains(&starts), "{starts}");
    }

    #[test]
    fn what_is_waited_for_comes_first_and_what_is_old_is_as_urgent() {
        let mut disk = Disk::new();
        let first = disk.enter(Some(0), 0, LONG, Class::Demand);
        disk.start();
        let ahead = disk.enter(Some(1), 1 << 20, LONG, Class::Speculative);
        disk.now = 100 * MS;
        let demanded = disk.enter(Some(2), 2 << 20, LONG, Class::Demand);
        disk.queue.finish(first);
        assert_eq!(disk.start(), [demanded]);
        let later = disk.enter(Some(3), 3 << 20, LONG, Class::Demand);
        disk.now = 600 * MS;
        disk.queue.finish(demanded);
        assert_eq!(disk.start(), [ahead], "both are urgent, and it came first");
        disk.queue.finish(ahead);
        assert_eq!(disk.start(), [later]);
    }

    #[test]
    fn nobody_starves_beside_readers_that_always_want_more() {
        let mut disk = Disk::new();
        let streams = 5;
        for at in 0..2 * streams {
            disk.enter(Some(at % streams), (at % streams * 1_000 + at / streams) * LONG, LONG, Class::Demand);
        }
        disk.start();
        let ahead = disk.enter(Some(streams), 1 << 40, LONG, Class::Speculative);
        let long_ns = 7 * MS + LONG * 66_000;
        let mut next = [2; 5];
        while disk.times[&ahead].1.is_none() {
            disk.now += long_ns;
            let (served, &Owner { stream, .. }) =
                disk.queue.owners.iter().find(|(id, owner)| disk.queue.queues[owner].started.contains_key(id)).unwrap();
            disk.queue.finish(served);
            let stream = stream.unwrap();
            disk.enter(Some(stream), (stream * 1_000 + next[stream as usize]) * LONG, LONG, Class::Demand);
            next[stream as usize] += 1;
            disk.start();
        }
        // A slice ends with the request that uses it up.
        assert!(disk.now <= AGE.0 + streams * (SLICE_NS + long_ns), "{} ms", disk.now / MS);
    }

    #[test]
    fn nobody_saves_up_time() {
        let mut disk = Disk::new();
        for at in 0..100 {
            let id = disk.enter(Some(0), at * LONG, LONG, Class::Demand);
            disk.start();
            disk.queue.finish(id);
        }
        let old = Owner { file: FileId(0), stream: Some(0) };
        let new = Owner { file: FileId(0), stream: Some(1) };
        // A slice ends with the request that uses it up.
        let long_ns = 7 * MS + LONG * 66_000;
        assert!(
            disk.queue.tag(old) - disk.queue.tag(new) <= SLICE_NS + long_ns,
            "the other has a slice to make good, not all"
        );
    }

    #[test]
    fn a_store_is_given_what_it_can_work_on_and_no_more() {
        let mut queue = FairQueue::new(false);
        let owner = |file| Owner { file: FileId(file), stream: None };
        let mut held = 0;
        for at in 0..1_000 {
            let holds = queue.holds();
            held += u64::from(holds);
            let cost = Cost { positioning_ns: MS, transfer_ns: 0 };
            let (id, owner, extent) = (RequestId(at), owner(at % 2), Extent::new(at, at + 1));
            if holds {
                queue.enter(Nanos(at), id, owner, extent, Class::Demand, cost);
            } else {
                queue.start_now(id, owner, extent, cost);
            }
        }
        assert_eq!((queue.started() as u64, queue.demanded() as u64), (1_000 - held, held));
        let next = queue.next(Nanos(1_000), &BTreeSet::new());
        assert_eq!(next, None);
        queue.finish(RequestId(0));
        assert_eq!(queue.next(Nanos(1_000), &BTreeSet::new()), Some(RequestId(1_000 - held)), "the oldest");
    }

    #[test]
    fn switched_off_it_holds_nothing_and_nobody_s_time_counts() {
        for rotational in [false, true] {
            let mut queue = FairQueue::off(rotational);
            let owner = |at| Owner { file: FileId(at % 2), stream: Some(at % 2) };
            for at in 0..1_000 {
                assert!(!queue.holds(), "request {at} has to wait");
                let cost = Cost { positioning_ns: MS, transfer_ns: (at % 2) * 100 * MS };
                queue.start_now(RequestId(at), owner(at), Extent::new(at, at + LONG), cost);
                // A thousand answers are several intervals of trials.
                queue.answered(Nanos(at * 100 * MS), Nanos(MS), LONG);
            }
            assert_eq!((queue.started(), queue.demanded()), (1_000, 0));
            assert_eq!(queue.next(Nanos(1_000), &BTreeSet::new()), None);
            assert_eq!(queue.tag(owner(0)), queue.tag(owner(1)), "one has had a hundred times as much");
        }
    }

    /// A store that is full, with eight requests of the files 0 to 7, and requests of one page a file and stream that wait.
    fn crowded(waiting: &[(u64, Option<u64>, u64)]) -> (FairQueue, Vec<RequestId>) {
        let mut queue = FairQueue { concurrency: Concurrency::of(8), ..FairQueue::new(false) };
        let mut next = 0;
        let mut enter = |queue: &mut FairQueue, file, stream, page| {
            let (id, cost) = (RequestId(next), Cost { positioning_ns: 30 * MS, transfer_ns: MS });
            next += 1;
            let (owner, extent) = (Owner { file: FileId(file), stream }, Extent::new(page, page + 1));
            if queue.holds() {
                queue.enter(Nanos(0), id, owner, extent, Class::Demand, cost);
            } else {
                queue.start_now(id, owner, extent, cost);
            }
            id
        };
        let mut full = 0;
        while !queue.holds() {
            enter(&mut queue, full, Some(1_000), 0);
            full += 1;
        }
        let waiting = waiting.iter().map(|&(file, stream, page)| enter(&mut queue, file, stream, page)).collect();
        (queue, waiting)
    }

    #[test]
    fn what_touches_goes_along_and_its_queue_pays_for_its_bytes() {
        let (mut queue, ids) = crowded(&[(1, None, 5), (1, Some(1), 6), (1, None, 7), (1, None, 9), (2, None, 6)]);
        let (full, before) = (queue.started(), queue.now_ns);
        queue.finish(RequestId(0));
        let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
        assert_eq!(lead, ids[0]);
        let around = queue.around(FileId(1), Extent::new(5, 6));
        assert_eq!(around, ids[1..3], "of whatever queue, but of the same file, and without a gap");
        for &id in &around {
            queue.join(id, lead);
        }
        assert_eq!(queue.started(), full, "they take one place");
        assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None);
        let had = |stream| queue.tag(Owner { file: FileId(1), stream }) - before;
        let at_random = 31 * MS / 3 + MS / 3;
        assert_eq!((had(None), had(Some(1))), (at_random, MS), "three read at random, and one goes along");
        assert_eq!(queue.demanded(), 2);
    }

    #[test]
    fn a_whole_keeps_its_place_until_the_last_of_it_is_over() {
        let (mut queue, ids) = crowded(&[(1, None, 5), (1, None, 6), (1, None, 7), (2, None, 0)]);
        queue.finish(RequestId(0));
        let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
        queue.join(ids[1], lead);
        queue.join(ids[2], lead);
        assert!(!queue.finish(lead), "given up, for one");
        assert!(!queue.finish(ids[2]));
        assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None, "the store still works on the rest");
        assert!(queue.finish(ids[1]));
        assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), Some(ids[3]));
    }

    #[test]
    fn whose_file_has_nothing_at_the_storage_goes_beyond_the_limit() {
        let (mut queue, ids) = crowded(&[(1, None, 5), (20, None, 5), (21, None, 5)]);
        let next = |queue: &mut FairQueue| queue.next(Nanos(1), &BTreeSet::new());
        assert_eq!(next(&mut queue), Some(ids[1]), "file 1 has a request there");
        assert_eq!(next(&mut queue), None, "an eighth of eight is one");
        queue.finish(ids[1]);
        assert_eq!(next(&mut queue), Some(ids[2]));
        queue.finish(RequestId(0));
        assert_eq!(next(&mut queue), Some(ids[0]), "nobody waits for what is beyond the limit");
        assert_eq!((next(&mut queue), queue.started()), (None, 9));
    }

    #[test]
    fn a_whole_keeps_its_place_beyond_the_limit() {
        let (mut queue, ids) = crowded(&[(20, None, 5), (20, None, 6), (21, None, 0)]);
        let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
        queue.join(ids[1], lead);
        assert!(!queue.finish(lead));
        assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None, "the store still works on the rest");
        assert!(queue.finish(ids[1]));
        assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), Some(ids[2]));
    }

    proptest::proptest! {
        #[test]
        fn an_eighth_goes_beyond_the_limit_and_nobody_has_a_place_less(
            steps in proptest::collection::vec((0u64..40, proptest::option::of(0u64..3), 0u8..4, 0usize..40), 1..300),
            limit in 8usize..40,
        ) {
            let mut queue = FairQueue { concurrency: Concurrency::of(limit), ..FairQueue::new(false) };
            let (cost, mut there, mut page) = (Cost { positioning_ns: 30 * MS, transfer_ns: MS }, Vec::new(), 0);
            for (id, &(file, stream, kind, over)) in (0..).map(RequestId).zip(&steps) {
                let class = if kind == 0 { Class::Speculative } else { Class::Demand };
                page += 1 + u64::from(kind == 1);
                queue.enter(Nanos(id.0), id, Owner { file: FileId(file), stream }, Extent::new(page, page + 1), class, cost);
                there.push((id, file));
                while let Some(lead) = queue.next(Nanos(id.0), &BTreeSet::new()) {
                    let at = queue.queues.values().find(|queue| queue.started.contains_key(&lead)).unwrap().end;
                    let file = queue.owners.get(lead).unwrap().file;
                    for other in queue.around(file, Extent::new(at - 1, at)) {
                        queue.join(other, lead);
                    }
                }
                if kind == 3 {
                    queue.finish(there.remove(over % there.len()).0);
                }
                while queue.next(Nanos(id.0), &BTreeSet::new()).is_some() {}
                let most = (limit / 8).max(1);
                proptest::prop_assert!(queue.started() <= limit + most, "{} of {}", queue.started(), limit);
                proptest::prop_assert!(queue.within() >= limit || queue.waiting == 0, "a place is free");
                let is_there = |file| queue.queues.iter().any(|(owner, queue)| owner.file == file && !queue.started.is_empty());
                let beside = queue.queues.iter().any(|(owner, queue)| queue.is_demanded() && !is_there(owner.file));
                proptest::prop_assert!(!beside || queue.beyond.len() == most, "one waits who need not");
            }
        }

        #[test]
        fn whatever_goes_along_is_started_once_and_charged_once(
            steps in proptest::collection::vec((0u64..4, 0u64..600, 1u64..40, 0usize..8), 1..300),
            rotational in proptest::bool::ANY,
        ) {
            let mut queue = FairQueue::new(rotational);
            let (mut free, mut serving, mut spent) = (alloc::vec![true; 700], Vec::new(), 0);
            let cost = |pages: u64| Cost { positioning_ns: 0, transfer_ns: pages * 66_000 };
            for (id, &(stream, start, pages, over)) in (0..).map(RequestId).zip(&steps) {
                // As in the page table, nothing is asked for twice.
                let extent = Extent::new(start, start + pages);
                if free[start as usize..extent.end as usize].iter().all(|&page| page) {
                    free[start as usize..extent.end as usize].fill(false);
                    // Streams only: what is read at random shares what it is charged.
                    let owner = Owner { file: FileId(0), stream: Some(stream) };
                    queue.enter(Nanos(id.0), id, owner, extent, Class::Demand, cost(pages));
                    serving.push((id, extent, false));
                }
                while let Some(lead) = queue.next(Nanos(id.0), &BTreeSet::new()) {
                    let at = serving.iter().position(|&(id, ..)| id == lead).unwrap();
                    let around = queue.around(FileId(0), serving[at].1);
                    for &id in [lead].iter().chain(&around) {
                        let (_, extent, started) = serving.iter_mut().find(|one| one.0 == id).unwrap();
                        proptest::prop_assert!(!core::mem::replace(started, true), "{:?} was started twice", id);
                        spent += extent.pages() * 66_000;
                    }
                    for &id in &around {
                        queue.join(id, lead);
                    }
                }
                // Some end, and some are given up before they began.
                for _ in 0..over.min(serving.len()) {
                    let (id, extent, _) = serving.remove(over % serving.len());
                    queue.finish(id);
                    free[extent.start as usize..extent.end as usize].fill(true);
                }
                let started = serving.iter().filter(|one| one.2).count();
                proptest::prop_assert_eq!(queue.started() + queue.joined(), started);
            }
            for (id, ..) in serving {
                queue.finish(id);
            }
            proptest::prop_assert_eq!((queue.waiting, queue.started(), queue.coalesce.is_empty()), (0, 0, true));
            let tags: u64 = queue.idle.values().map(|queue| queue.tag).max().unwrap_or(0);
            proptest::prop_assert!(tags <= spent, "charged more than was spent");
        }

        #[test]
        fn everything_is_started_once_and_charged(
            steps in proptest::collection::vec((0u64..6, 0u64..5_000_000, 1u64..2_048, 0u8..4), 1..300),
        ) {
            let mut disk = Disk::new();
            let mut serving: Vec<(RequestId, u64)> = Vec::new();
            let (mut charged, mut spent) = (0, 0);
            for &(stream, start, pages, kind) in &steps {
                let class = if kind == 0 { Class::Speculative } else { Class::Demand };
                let id = disk.enter((stream > 0).then_some(stream), start, pages, class);
                spent += pages * 66_000;
                charged += 1;
                for id in disk.start() {
                    serving.push((id, pages));
                }
                proptest::prop_assert!(!serving.is_empty(), "{id:?} waits for an idle disk");
                if kind != 3 {
                    let (done, pages) = serving.remove(0);
                    disk.now += 7 * MS + pages * 66_000;
                    disk.queue.finish(done);
                    serving.extend(disk.start().into_iter().map(|id| (id, pages)));
                }
            }
            loop {
                serving.extend(disk.start().into_iter().map(|id| (id, LONG)));
                let Some((done, pages)) = serving.pop() else { break };
                disk.now += 7 * MS + pages * 66_000;
                disk.queue.finish(done);
            }
            proptest::prop_assert_eq!(disk.times.len() as u64, charged);
            proptest::prop_assert!(disk.times.values().all(|times| times.1.is_some()), "some were never started");
            let tags: u64 = disk.queue.idle.values().map(|queue| queue.tag).max().unwrap_or(0);
            proptest::prop_assert!(tags <= spent + charged * 7 * MS, "charged more than was spent");
            proptest::prop_assert_eq!((disk.queue.waiting, disk.queue.started(), disk.queue.queues.len()), (0, 0, 0));
            disk.queue.close(FileId(0));
            proptest::prop_assert!(disk.queue.idle.is_empty() && disk.queue.slice.is_none(), "a closed file leaves queues behind");
        }
    }
}
