//! Whose turn it is.

use alloc::collections::BTreeSet;

use super::{FairQueue, Owner, Queue, SLICE_NS, Waiting, is_long};
use crate::units::{Class, FileId, Nanos, RequestId};

impl FairQueue {
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
}

/// The most short requests that a disk is given to sort. With 64 the random reads of 256 threads have 2 % less.
const SORTED_MAX: usize = 256;

/// An eighth of the limit may be in flight beyond it: with 32 who read now and then beside sixteen, a quarter and a half give the same within
/// 2 %, without any the slowest takes 36 % longer.
const BEYOND_PART: usize = 8;
