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

use super::{AGE, FairQueue, Queue, SLICE_NS};
use crate::queue::fair_queue::owner::Owner;
use crate::units::{Nanos, RequestId};

impl FairQueue {
    /// The request to start now, if any. `stalled` requests wait for memory: those of them that
    /// were started have no place at the storage.
    pub(crate) fn next(&mut self, now: Nanos, stalled: &BTreeSet<RequestId>) -> Option<RequestId> {
        if self.waiting == 0 {
            return None;
        }
        // If started requests find no memory, speculation would find none either. A request that
        // waits for memory has been started.
        let stalling = stalled.len();
        let short_of_memory = stalling > 0;
        let served = if self.rotational {
            let served = self.long.iter().find(|(_, id)| !stalled.contains(id));
            served.and_then(|(owner, _)| self.queues.get(owner)).map(|queue| queue.tag.max(self.now_ns))
        } else {
            None
        };
        if let Some(before_ns) = now.0.checked_sub(AGE.0) {
            self.ready.age(Nanos(before_ns));
        }
        // The storage does not work on stalled requests, and only a demand request may be able to
        // make room.
        let beyond = if stalling == 0 { 0 } else { self.beyond.iter().filter(|id| stalled.contains(id)).count() };
        let stalling_within = stalling - beyond;
        let goes_beyond = !self.rotational && self.within() - stalling_within >= self.concurrency.limit();
        let owner = if self.rotational {
            self.next_on_disk(served, short_of_memory)?
        } else if goes_beyond {
            self.next_beyond()?
        } else {
            self.ready.next(short_of_memory, Some(u64::MAX), None)?
        };
        let id = self.queues.get(&owner)?.first()?;
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
    fn next_on_disk(&self, served: Option<u64>, short_of_memory: bool) -> Option<Owner> {
        let ready = |queue: &Queue| !queue.waiting.is_empty() && (!short_of_memory || queue.is_demanded());
        if served.is_none()
            && let Some((owner, used_ns)) = self.slice
            && used_ns < SLICE_NS
            && self.queues.get(&owner).is_some_and(ready)
        {
            return Some(owner);
        }
        let sorted = self.short.saturating_sub(self.joined());
        let (short, long) = match served {
            Some(tag) => (Some(tag + SLICE_NS), None),
            None => (Some(u64::MAX), Some(u64::MAX)),
        };
        self.ready.next(short_of_memory, short.filter(|_| sorted < SORTED_MAX), long)
    }

    /// The queue that may start a request though the limit is reached: the least tag among queues
    /// with demand, of files with nothing at the storage. By file, since the readers of a file
    /// share its streams.
    fn next_beyond(&self) -> Option<Owner> {
        if self.beyond.len() >= (self.concurrency.limit() / BEYOND_PART).max(1) {
            return None;
        }
        self.ready.next_beside()
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
