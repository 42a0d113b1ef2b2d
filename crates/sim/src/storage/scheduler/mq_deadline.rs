//! Requests in the order of their positions, but none waits much longer than its deadline:
//! mq-deadline, which Linux gives to a disk.
//!
//! ```text
//!   a batch:   │ . . r r r r . . │     the next request after the last one, up to 16 of them
//!                    └──────> head
//!   its start: nothing behind the head, or the oldest request is past its deadline ──> the oldest
//!              otherwise                                                           ──> the next
//! ```
//!
//! - A request has 500 ms from its arrival. Deadlines are looked at between two batches only.
//! - A request that continues a waiting one, at its end or its start, becomes part of it, up to
//!   1280 KiB. The whole has the deadline of its oldest part, and counts as one in a batch.
//! - Which program makes a request does not matter.
//!
//! Not modelled: writes. No workload on a scheduled disk writes, so their deadline of 5 s, and the
//! two batches of reads that may pass them, would decide nothing. Neither are priorities, nor a
//! limit on waiting requests: no workload comes near it.
//!
//! Origin: the kernel's documentation (*Deadline IO scheduler tunables*, *queue sysfs*), with its
//! defaults. `docs/decisions/0084` says what depends on them.

use std::collections::BTreeMap;

use super::{Request, Scheduler};

/// The scheduler. Each event costs O(log n) for n requests.
#[derive(Debug)]
pub(super) struct MqDeadline {
    /// Most requests in the drive.
    depth: usize,
    /// By position and order of arrival.
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// The position of each waiting request, by order of arrival.
    arrivals: BTreeMap<u64, u64>,
    arrived: u64,
    /// Requests of the batch so far.
    batch: u32,
    /// Where the last dispatched request ends.
    head: u64,
    /// Requests in the drive by the name that it knows, and all that each is for.
    in_drive: BTreeMap<u64, Vec<u64>>,
}

/// A waiting request, made of one or more.
#[derive(Debug)]
struct Waiting {
    /// The requests that it is for, at least one.
    ids: Vec<u64>,
    context: u32,
    bytes: u64,
    since_ns: u64,
}

/// The key of a waiting request.
type Place = (u64, u64);

impl MqDeadline {
    /// A scheduler that gives the drive up to `depth` requests at a time.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            depth,
            waiting: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            arrived: 0,
            batch: 0,
            head: 0,
            in_drive: BTreeMap::new(),
        }
    }

    fn take(&mut self, place: Place) -> Option<Waiting> {
        self.arrivals.remove(&place.1);
        self.waiting.remove(&place)
    }

    fn put(&mut self, place: Place, waiting: Waiting) {
        self.arrivals.insert(place.1, place.0);
        self.waiting.insert(place, waiting);
    }

    /// Makes one of two waiting requests, of which the second begins where the first ends, if both
    /// are there and the whole is not too long.
    fn join(&mut self, first: Option<Place>, second: Option<Place>) -> Option<Place> {
        let (first, second) = first.zip(second)?;
        let bytes = |place| self.waiting.get(&place).map(|waiting| waiting.bytes);
        let (Some(one), Some(other)) = (bytes(first), bytes(second)) else { return None };
        if first.0 + one != second.0 || one + other > REQUEST_BYTES_MAX {
            return None;
        }
        let (one, other) = self.take(first).zip(self.take(second))?;
        let place = (first.0, first.1.min(second.1));
        let joined = Waiting {
            ids: [one.ids, other.ids].concat(),
            context: one.context,
            bytes: one.bytes + other.bytes,
            since_ns: one.since_ns.min(other.since_ns),
        };
        self.put(place, joined);
        Some(place)
    }

    /// Where the next request is to be taken.
    fn choose(&mut self, now_ns: u64) -> Option<Place> {
        let next = self.waiting.range((self.head, 0)..).next().map(|(&place, _)| place);
        if (1..BATCH).contains(&self.batch) && next.is_some() {
            return next;
        }
        self.batch = 0;
        let oldest = self.arrivals.first_key_value().map(|(&arrival, &offset)| (offset, arrival))?;
        let expired = self.waiting.get(&oldest).is_some_and(|waiting| waiting.since_ns + EXPIRE_NS <= now_ns);
        if expired { Some(oldest) } else { next.or(Some(oldest)) }
    }
}

impl Scheduler for MqDeadline {
    fn add(&mut self, now_ns: u64, request: Request) {
        let Request { id, context, offset, bytes } = request;
        let place = (offset, self.arrived);
        self.arrived += 1;
        self.put(place, Waiting { ids: vec![id], context, bytes, since_ns: now_ns });
        let before = self.waiting.range(..(offset, 0)).next_back().map(|(&before, _)| before);
        let place = self.join(before, Some(place)).unwrap_or(place);
        let after = self.waiting.range((offset + bytes, 0)..).next().map(|(&after, _)| after);
        self.join(Some(place), after);
    }

    fn completed(&mut self, _: u64, id: u64) -> Vec<u64> {
        self.in_drive.remove(&id).unwrap_or_default()
    }

    fn cancel(&mut self, _: u64, id: u64) -> bool {
        let of = self.waiting.iter_mut().find(|(_, waiting)| waiting.ids.contains(&id));
        if let Some((&place, waiting)) = of {
            waiting.ids.retain(|&part| part != id);
            if waiting.ids.is_empty() {
                self.take(place);
            }
            return true;
        }
        let of = self.in_drive.iter_mut().find(|(_, ids)| ids.contains(&id));
        let Some((&known, ids)) = of else { return false };
        ids.retain(|&part| part != id);
        if !ids.is_empty() {
            return true;
        }
        self.in_drive.remove(&known);
        // The drive does not know it by this name: it goes on, and nothing waits for it.
        known != id
    }

    fn closed(&mut self, _: u64, _: u32) {}

    fn next(&mut self, now_ns: u64) -> Option<Request> {
        if self.in_drive.len() >= self.depth {
            return None;
        }
        let place = self.choose(now_ns)?;
        let Waiting { ids, context, bytes, .. } = self.take(place)?;
        self.batch += 1;
        self.head = place.0 + bytes;
        let id = *ids.first()?;
        self.in_drive.insert(id, ids);
        Some(Request { id, context, offset: place.0, bytes })
    }

    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

/// Most requests in the drive. Lower: the drive has less to sort; higher: what it holds is out of
/// reach of deadlines. Origin: the names for requests that SATA has.
pub(super) const IN_DRIVE_MAX: usize = 32;

/// Requests of a batch. Lower: deadlines are kept, and the arm moves more; higher: the reverse.
/// Origin: `fifo_batch`.
const BATCH: u32 = 16;

/// Time in which a read is to be dispatched, in ns. Lower: the oldest request goes first more
/// often; higher: a request may wait for a sweep of the disk. Origin: `read_expire`.
const EXPIRE_NS: u64 = 500_000_000;

/// Most bytes of a joined request. Lower: batches read less; higher: a request waits for longer
/// ones. Origin: `max_sectors_kb` of a disk.
const REQUEST_BYTES_MAX: u64 = 1280 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const KIB: u64 = 1 << 10;

    fn add(scheduler: &mut MqDeadline, now_ns: u64, id: u64, offset: u64) {
        scheduler.add(now_ns, Request { id, context: id as u32, offset, bytes: 4 * KIB });
    }

    /// The names of requests in the order of dispatch, each done at once.
    fn served(scheduler: &mut MqDeadline, now_ns: u64) -> Vec<u64> {
        let one = |_| {
            let request = scheduler.next(now_ns)?;
            assert_eq!(scheduler.next(now_ns), None, "the drive holds one");
            scheduler.completed(now_ns, request.id);
            Some(request.id)
        };
        (0..).map_while(one).collect()
    }

    #[test]
    fn requests_are_served_in_the_order_of_positions_and_then_the_oldest_first() {
        let mut scheduler = MqDeadline::new(1);
        for (id, offset) in [(0, 500), (1, 100), (2, 900), (3, 700)] {
            add(&mut scheduler, 0, id, offset * KIB);
        }
        assert_eq!(served(&mut scheduler, MS), [1, 0, 3, 2]);
        // The head is at 904 KiB: nothing lies behind it.
        for (id, offset) in [(4, 500), (5, 100)] {
            add(&mut scheduler, 2 * MS, id, offset * KIB);
        }
        assert_eq!(served(&mut scheduler, 3 * MS), [4, 5]);
    }

    #[test]
    fn a_late_request_is_next_after_at_most_a_batch() {
        // A batch has begun when the request becomes late. It is not broken off.
        for (now_ms, wanted) in [(499, 97), (500, 15)] {
            let mut scheduler = MqDeadline::new(1);
            add(&mut scheduler, 0, 0, 500 << 20);
            served(&mut scheduler, 0);
            add(&mut scheduler, 0, 1, 0);
            (2..100).for_each(|id| add(&mut scheduler, MS, id, (500 + id) << 20));
            let first = scheduler.next(2 * MS).unwrap();
            scheduler.completed(3 * MS, first.id);
            let order = served(&mut scheduler, now_ms * MS);
            assert_eq!(order.iter().position(|&id| id == 1), Some(wanted), "after {now_ms} ms: {order:?}");
        }
    }

    #[test]
    fn requests_that_continue_each_other_become_one() {
        let mut scheduler = MqDeadline::new(1);
        let mut add = |id, offset_kib, kib| {
            scheduler.add(id * MS, Request { id, context: 0, offset: offset_kib * KIB, bytes: kib * KIB });
        };
        add(0, 128, 128);
        add(1, 256, 128);
        add(2, 0, 128);
        add(3, 512, 900);
        add(4, 384, 128);
        let request = scheduler.next(10 * MS).unwrap();
        assert_eq!((request.offset, request.bytes), (0, 512 * KIB), "with 900 KiB more it would be too long");
        let mut ids = scheduler.completed(20 * MS, request.id);
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2, 4]);
        assert_eq!(scheduler.next(20 * MS).map(|request| request.bytes), Some(900 * KIB));
    }

    #[test]
    fn a_joined_request_is_as_late_as_its_oldest_part() {
        let mut scheduler = MqDeadline::new(1);
        add(&mut scheduler, 0, 0, 8 * KIB);
        add(&mut scheduler, 400 * MS, 1, 4 * KIB);
        add(&mut scheduler, 400 * MS, 2, 0);
        assert_eq!(scheduler.waiting.len(), 1);
        assert!(scheduler.waiting.values().all(|waiting| waiting.since_ns == 0));
    }

    #[test]
    fn a_part_of_a_joined_request_can_be_cancelled() {
        let mut scheduler = MqDeadline::new(1);
        (0..3).for_each(|id| add(&mut scheduler, 0, id, id * 4 * KIB));
        assert!(scheduler.cancel(0, 1), "it waits");
        let request = scheduler.next(0).unwrap();
        assert!(scheduler.cancel(0, request.id), "the drive must go on for the other one");
        assert_eq!(scheduler.completed(0, request.id), [2]);
        add(&mut scheduler, 0, 5, 0);
        assert_eq!(scheduler.next(0).map(|request| request.id), Some(5));
        assert!(!scheduler.cancel(0, 5), "the drive has it for this one alone");
        add(&mut scheduler, 0, 6, 0);
        assert!(scheduler.next(0).is_some(), "the drive is free again");
    }

    #[test]
    fn the_drive_holds_as_many_requests_as_it_may() {
        let mut scheduler = MqDeadline::new(IN_DRIVE_MAX);
        (0..100).for_each(|id| add(&mut scheduler, 0, id, id << 20));
        assert_eq!(std::iter::from_fn(|| scheduler.next(0)).count(), 32);
    }
}
