//! Completely fair queueing: a queue for each context; one queue at a time has the device.
//!
//! ```text
//!  turns:  [B] [C] [D]     active: [A a1 a2]  ──> device
//!           └ next in turn   │
//!                            ├ its slice is over           ──> to the end of the turns
//!                            ├ empty, and sequential       ──> waits 8 ms for a request: idling
//!                            ├ empty, and seeky            ──> the next in turn, at once
//!                            └ empty, and B reads close by ──> A and B become one (merging)
//! ```
//!
//! A slice begins when its first request is done, so a turn is a seek and then a slice: a disk
//! that positions in 7 ms reads for 93 % of the time with slices of 100 ms, and for 70 % with
//! slices of 16 ms, the shortest. Idling makes the slice worth its seek: the next request of a
//! sequential reader is the cheapest, but it comes only after the last one is done.
//!
//! Queues that read close together are taken for one reader with several contexts and merged. A
//! wrong guess shows later: the merged queue jumps between its contexts and is *seeky*. Then each
//! context leaves with its next request.
//!
//! Not modelled: priorities, writes, the kernel's accounting of time that a slice did not use.
//!
//! Origin: the rules as the project's notes state them: mainline of 2007 to 2009 and *cfq-iosched:
//! tiobench regression* (2009). The bound on all dispatched requests is our reading of it;
//! `docs/decisions/0019` says what depends on it.

mod queue;

use std::collections::{BTreeMap, VecDeque};

use super::{Request, Scheduler};
use queue::{IDLE_NS, Queue};

/// Differences between kernel versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Slices share [`TARGET_NS`].
    pub(super) low_latency: bool,
    pub(super) merging: Option<Merging>,
}

/// Until when a merged queue stays merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// Until the queue has been seeky for [`SEEKY_NS_MAX`].
    UntilSeekyForTime,
    /// Until it has made more than [`QUANTUM`] requests since it turned seeky.
    UntilSeekyForRequests,
}

/// The scheduler. Each event costs O(log n) for n requests; a search for a close queue costs O(q
/// log n) for q queues.
#[derive(Debug)]
pub(super) struct Cfq {
    rules: Rules,
    queues: BTreeMap<u32, Queue>,
    next_queue: u32,
    /// The queue of each context.
    of_context: BTreeMap<u32, u32>,
    /// Queues with waiting requests, without the active one, in the order of their turns.
    turns: VecDeque<u32>,
    active: Option<Active>,
    /// Dispatched requests, and the queue of each.
    in_drives: BTreeMap<u64, u32>,
    /// Where the last dispatched request ends.
    head: u64,
    arrived: u64,
}

/// The queue that has the device.
#[derive(Debug, Clone, Copy)]
struct Active {
    queue: u32,
    /// `None` until the first of its requests is done.
    slice_ends_ns: Option<u64>,
    idles_until_ns: Option<u64>,
}

impl Cfq {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            queues: BTreeMap::new(),
            next_queue: 0,
            of_context: BTreeMap::new(),
            turns: VecDeque::new(),
            active: None,
            in_drives: BTreeMap::new(),
            head: 0,
            arrived: 0,
        }
    }

    /// The queue of `context`: a new one for a new context, and for one that must leave a merged
    /// queue.
    fn queue_of(&mut self, now_ns: u64, context: u32) -> u32 {
        if let Some(&number) = self.of_context.get(&context)
            && !self.leaves(now_ns, number)
        {
            return number;
        }
        let number = self.next_queue;
        self.next_queue += 1;
        self.queues.insert(number, Queue { contexts: 1, ..Queue::default() });
        if let Some(left) = self.of_context.insert(context, number) {
            self.left(left);
        }
        number
    }

    /// Whether contexts of a queue leave it with their next requests.
    fn leaves(&self, now_ns: u64, number: u32) -> bool {
        let Some(Queue { contexts: 2.., seeky_since: Some((since_ns, requests)), .. }) = self.queues.get(&number)
        else {
            return false;
        };
        match self.rules.merging {
            Some(Merging::UntilSeekyForTime) => now_ns - since_ns > SEEKY_NS_MAX,
            Some(Merging::UntilSeekyForRequests) => *requests > QUANTUM,
            None => false,
        }
    }

    /// A context has left the queue.
    fn left(&mut self, number: u32) {
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.contexts -= 1;
            queue.seeky_since = queue.seeky_since.filter(|_| queue.contexts > 1);
            self.forget(number);
        }
    }

    /// Removes a queue without contexts and requests.
    fn forget(&mut self, number: u32) {
        let gone = |queue: &Queue| queue.contexts == 0 && queue.waiting.is_empty() && queue.in_drives == 0;
        if self.queues.get(&number).is_some_and(gone) {
            self.queues.remove(&number);
            self.active = self.active.filter(|active| active.queue != number);
            self.turns.retain(|&turn| turn != number);
        }
    }

    fn waits(&self, number: u32) -> bool {
        self.queues.get(&number).is_some_and(|queue| !queue.waiting.is_empty())
    }

    /// The turn of the active queue is over.
    fn expire(&mut self) {
        if let Some(Active { queue, .. }) = self.active.take()
            && self.waits(queue)
        {
            self.turns.push_back(queue);
        }
    }

    /// The slice of a queue, by how many wait.
    fn slice_ns(&self) -> u64 {
        let queues = self.turns.len() as u64 + 1;
        if self.rules.low_latency { (TARGET_NS / queues).clamp(SLICE_NS_MIN, SLICE_NS) } else { SLICE_NS }
    }

    /// The queue that reads closest to where the active one did, if both could be one reader.
    fn close_to(&self, number: u32) -> Option<u32> {
        self.rules.merging?;
        self.queues.get(&number).filter(|queue| queue.contexts > 0 && !queue.is_seeky())?;
        let near = |&number: &u32| {
            let queue = self.queues.get(&number).filter(|queue| !queue.is_seeky())?;
            queue.distance(self.head).filter(|&distance| distance <= CLOSE_BYTES).map(|distance| (distance, number))
        };
        self.turns.iter().filter_map(near).min().map(|(_, number)| number)
    }

    /// Moves all contexts of the active queue to `other`, which becomes active.
    fn merge(&mut self, other: u32) {
        let Some(Active { queue: number, .. }) = self.active.take() else { return };
        let Some(queue) = self.queues.remove(&number) else { return };
        self.of_context
            .values_mut()
            .chain(self.in_drives.values_mut())
            .filter(|of| **of == number)
            .for_each(|of| *of = other);
        if let Some(merged) = self.queues.get_mut(&other) {
            merged.contexts += queue.contexts;
            merged.in_drives += queue.in_drives;
        }
        self.turns.retain(|&turn| turn != other);
        self.active = Some(Active { queue: other, slice_ends_ns: None, idles_until_ns: None });
    }

    /// One request less in the drives.
    fn returned(&mut self, id: u64) -> Option<u32> {
        let number = self.in_drives.remove(&id)?;
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.in_drives -= 1;
        }
        Some(number)
    }
}

impl Scheduler for Cfq {
    fn add(&mut self, now_ns: u64, request: Request) {
        let number = self.queue_of(now_ns, request.context);
        let place = (request.offset, self.arrived);
        self.arrived += 1;
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.learn(now_ns, request);
        queue.waiting.insert(place, request);
        match &mut self.active {
            Some(active) if active.queue == number => active.idles_until_ns = None,
            _ if !self.turns.contains(&number) => self.turns.push_back(number),
            _ => {}
        }
    }

    fn completed(&mut self, now_ns: u64, id: u64) -> Vec<u64> {
        let Some(number) = self.returned(id) else { return Vec::new() };
        let slice_ns = self.slice_ns();
        let idle = |queue: &&mut Queue| queue.waiting.is_empty() && queue.in_drives == 0;
        let thinks_since_ns =
            self.queues.get_mut(&number).filter(idle).map(|queue| queue.thinks_since_ns.insert(now_ns));
        let idles_until_ns = thinks_since_ns.map(|since_ns| *since_ns + IDLE_NS);
        if let Some(active) = self.active.as_mut().filter(|active| active.queue == number) {
            active.slice_ends_ns.get_or_insert(now_ns + slice_ns);
            active.idles_until_ns = idles_until_ns;
        }
        self.forget(number);
        vec![id]
    }

    fn cancel(&mut self, _: u64, id: u64) -> bool {
        if let Some(number) = self.returned(id) {
            self.forget(number);
            return false;
        }
        let found = self.queues.iter_mut().find_map(|(&number, queue)| {
            let place = *queue.waiting.iter().find(|(_, request)| request.id == id)?.0;
            queue.waiting.remove(&place);
            Some((number, queue.waiting.is_empty()))
        });
        let Some((number, empty)) = found else { return false };
        if empty {
            self.turns.retain(|&turn| turn != number);
        }
        self.forget(number);
        true
    }

    fn closed(&mut self, _: u64, context: u32) {
        if let Some(number) = self.of_context.remove(&context) {
            self.left(number);
        }
    }

    fn next(&mut self, now_ns: u64) -> Option<Request> {
        loop {
            let Some(Active { queue: number, slice_ends_ns, idles_until_ns }) = self.active else {
                let queue = self.turns.pop_front()?;
                self.active = Some(Active { queue, slice_ends_ns: None, idles_until_ns: None });
                continue;
            };
            if slice_ends_ns.is_some_and(|ends_ns| ends_ns <= now_ns) {
                self.expire();
                continue;
            }
            let queue = self.queues.get_mut(&number)?;
            if let Some(place) = queue.after(self.head) {
                let most = if self.turns.is_empty() { IN_DRIVES_MAX } else { QUANTUM };
                if queue.in_drives >= most || self.in_drives.len() as u32 >= IN_DRIVES_MAX {
                    return None;
                }
                let request = queue.waiting.remove(&place)?;
                queue.in_drives += 1;
                self.in_drives.insert(request.id, number);
                self.head = request.offset + request.bytes;
                return Some(request);
            }
            let (worth_idling, in_drives) = (queue.is_worth_idling(), queue.in_drives);
            if let Some(other) = self.close_to(number) {
                self.merge(other);
            } else if worth_idling && (in_drives > 0 || idles_until_ns.is_some_and(|until_ns| now_ns < until_ns)) {
                return None;
            } else {
                self.expire();
            }
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        let Active { slice_ends_ns, idles_until_ns, .. } = self.active.filter(|_| !self.turns.is_empty())?;
        [slice_ends_ns, idles_until_ns].into_iter().flatten().min()
    }
}

/// Length of a slice, in ns. Lower: more seeks; higher: longer waits for a turn. Origin: mainline
/// of 2007.
const SLICE_NS: u64 = 100_000_000;

/// Sum of all slices with low latency, in ns. Lower: shorter slices; higher: the last queue waits
/// longer. Origin: 2.6.32.
const TARGET_NS: u64 = 300_000_000;

/// Shortest slice, in ns: twice the idling. Lower: a disk only positions; higher: the last queue
/// waits longer.
const SLICE_NS_MIN: u64 = 16_000_000;

/// Most dispatched requests of one queue while others wait. Lower: drives have nothing to sort;
/// higher: other queues wait longer.
const QUANTUM: u32 = 4;

/// Most dispatched requests in all. Lower: drives side by side stand idle; higher: the drives
/// decide which queue is served.
const IN_DRIVES_MAX: u32 = 4 * QUANTUM;

/// A request is close within this many bytes of the end of the last one. Lower: fewer merges;
/// higher: wrong merges.
const CLOSE_BYTES: u64 = 4 << 20;

/// A merged queue that is seeky for longer, in ns, is split. Lower: splits by chance; higher:
/// wrong merges stay.
const SEEKY_NS_MAX: u64 = 1_000_000_000;

#[cfg(test)]
mod tests;
