//! Turn: which queue of the fair queue starts a request next, and which of its requests.
//!
//! ```text
//!   next ── a disk ────────────────> a slice is not used up, no long request is served:
//!        │                             the queue of the slice
//!        │                           a long request is served:
//!        │                             short requests of queues at most a slice ahead of its tag
//!        │                           otherwise: any queue; 256 short requests at most
//!        ├─ a store, below its limit ──> any queue
//!        └─ a store, limit reached ────> beyond it: demand of files with nothing at the storage
//!
//!   among queues: urgent ones first (demand, or old), then the least tag
//! ```
//!
//! **A disk** serves no request while its arm moves. A long request is read piece by piece, so
//! among long requests it has the disk to itself, and those of one queue continue for a slice.
//! Short requests, of any queue, are given to the disk, which sorts them. They are read between
//! two pieces of a long request.
//!
//! **Other storage** works on many requests at a time: as many as `concurrency` finds useful.
//! Further requests wait here. **Beyond the limit**, demand requests of files with nothing in
//! flight may start: an eighth of the limit, at least one. An occasional reader thus waits neither
//! for the requests that others have in flight, nor for a trial with a lower limit to settle.
//! These requests do not count against the limit, so no other request loses a place. They are not
//! turns.
//!
//! **Short of memory**: a started request that waits for memory has no place, since the storage
//! does not work on it. Meanwhile only queues with demand start requests: speculation would find
//! no memory either.
//!
//! *Invariants:* no long request starts at a disk that serves another one. No request starts at
//! other storage while the limit and an eighth of it are at work there.
//!
//! This file does not charge queues (`fair_queue`) and does not join requests (`coalesce`).
//! Source: docs/decisions/0021, 0022, 0026 and 0027.

use alloc::collections::BTreeSet;

use super::{FairQueue, Owner, Queue, SLICE_NS, Waiting, is_long};
use crate::units::{Class, FileId, Nanos, RequestId};

impl FairQueue {
    /// The request to start now, if any. `stalled` requests wait for memory: those of them that
    /// were started have no place at the storage.
    pub(crate) fn next(&mut self, now: Nanos, stalled: &BTreeSet<RequestId>) -> Option<RequestId> {
        if self.waiting == 0 {
            return None;
        }
        // If started requests find no memory, speculation would find none either.
        let has_started = |id: &&RequestId| self.queues.values().any(|queue| queue.started.contains_key(id));
        let stalling = stalled.iter().filter(has_started).count();
        let short_of_memory = stalling > 0;
        let ready = |queue: &Queue| !queue.waiting.is_empty() && (!short_of_memory || queue.is_demanded());
        let is_served = |queue: &&Queue| self.rotational && queue.has_started(true, |id| !stalled.contains(&id));
        let served = self.queues.values().find(is_served).map(|queue| queue.tag.max(self.now_ns));
        // The storage does not work on stalled requests, and only a demand request may be able to
        // make room.
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
        // A request that is read between the pieces of a long one is no turn, nor is one beyond
        // the limit.
        self.start_waiting(owner, id, served.is_none() && !goes_beyond);
        Some(id)
    }

    /// The queue that may start a request on a disk. `served` is the tag of the queue that has its
    /// long request served, if any.
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

    /// The queue that may start a request though the limit is reached: the least tag among queues
    /// with demand, of files with nothing at the storage. By file, since the readers of a file
    /// share its streams.
    fn next_beyond(&self) -> Option<Owner> {
        if self.beyond.len() >= (self.concurrency.limit() / BEYOND_PART).max(1) {
            return None;
        }
        let has_started = self.queues.iter().filter(|(_, queue)| !queue.started.is_empty());
        let there: BTreeSet<FileId> = has_started.map(|(owner, _)| owner.file).collect();
        let beside = self.queues.iter().filter(|(owner, queue)| queue.is_demanded() && !there.contains(&owner.file));
        beside.min_by_key(|(owner, queue)| (queue.tag, **owner)).map(|(&owner, _)| owner)
    }

    /// Of the queues that `may` start a request, an urgent one, and among those the least tag.
    fn least(&self, now: Nanos, may: impl Fn(&Queue) -> bool) -> Option<Owner> {
        let ready = self.queues.iter().filter(|(_, queue)| may(queue));
        ready.min_by_key(|(owner, queue)| (!queue.is_urgent(now), queue.tag, **owner)).map(|(&owner, _)| owner)
    }

    /// The request of a queue to start first. On a disk: by position, from the end of the last one
    /// on. Elsewhere: demand, then the oldest.
    fn first(&self, queue: &Queue) -> Option<RequestId> {
        let place = |(id, waiting): &(&RequestId, &Waiting)| {
            let start = waiting.extent.start;
            let (behind, start) = if self.rotational { (start < queue.end, start) } else { (false, 0) };
            // All long requests of a stream are needed soon, and two in order of position are read
            // as one.
            (waiting.class != Class::Demand && !(self.rotational && is_long(waiting.extent)), behind, start, **id)
        };
        queue.waiting.iter().min_by_key(place).map(|(&id, _)| id)
    }
}

/// Short requests that a disk is given to sort, at most. Lower: with 64 the random reads of 256
/// threads have 2 % less. Higher: more requests wait in the disk's order instead of this one.
/// Source: docs/decisions/0021.
const SORTED_MAX: usize = 256;

/// The part of the limit that may be in flight beyond it: an eighth, at least one request. Lower:
/// a larger part; with 32 occasional readers beside sixteen, a quarter or a half give the same p99
/// within 2 %. Higher: a smaller part; without any the p99 is 36 % longer. Source:
/// docs/decisions/0027.
const BEYOND_PART: usize = 8;
