//! Tests of the fair queue: turns, slices, age, coalescing, places beyond the limit, and
//! properties.

use super::*;

const MS: u64 = 1_000_000;

/// A disk that serves one request at a time, and the requests before it.
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

    /// Starts all requests that may start now.
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
fn each_stream_is_served_for_a_slice_in_turn() {
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
    // What is shown of it: each had as much, and all of it was demand.
    let served = |stream| disk.queue.served_ns(Owner { file: FileId(0), stream: Some(stream) });
    let all = [0, 1, 2].map(served);
    assert!(all[0] > 0 && all.iter().all(|&each| each == all[0]), "{all:?}");
    assert_eq!(disk.queue.service(), Service { demand_ns: all.iter().sum(), readahead_ns: 0 });
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
fn random_reads_are_at_most_a_slice_ahead_of_a_stream() {
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
    // A slice, and the 135 ms that the long request is charged with.
    let most = (200 + 135 + 7) / 7 + 1;
    assert!((most - 4..=most).contains(&starts), "{starts}");
}

#[test]
fn demand_comes_first_and_old_speculation_is_as_urgent() {
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
fn speculation_does_not_starve_beside_streams_that_always_want_more() {
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
fn an_idle_queue_saves_up_no_time() {
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
        "the old queue has a slice to make good, not all of its time"
    );
}

#[test]
fn a_store_is_given_requests_up_to_its_limit() {
    let mut queue = FairQueue::new(false);
    let owner = |file| Owner { file: FileId(file), stream: None };
    let mut held = 0;
    for at in 0..1_000 {
        let waits = queue.must_wait();
        held += u64::from(waits);
        let cost = Cost { positioning_ns: MS, transfer_ns: 0 };
        let (id, owner, extent) = (RequestId(at), owner(at % 2), Extent::new(at, at + 1));
        if waits {
            queue.enter(Nanos(at), id, owner, extent, Class::Demand, cost);
        } else {
            queue.start_now(id, owner, extent, Class::Demand, cost);
        }
    }
    assert_eq!((queue.started() as u64, queue.demanded() as u64), (1_000 - held, held));
    let next = queue.next(Nanos(1_000), &BTreeSet::new());
    assert_eq!(next, None);
    queue.finish(RequestId(0));
    assert_eq!(queue.next(Nanos(1_000), &BTreeSet::new()), Some(RequestId(1_000 - held)), "the oldest");
}

#[test]
fn switched_off_no_request_waits_and_tags_are_equal() {
    for rotational in [false, true] {
        let mut queue = FairQueue::off(rotational);
        let owner = |at| Owner { file: FileId(at % 2), stream: Some(at % 2) };
        for at in 0..1_000 {
            assert!(!queue.must_wait(), "request {at} has to wait");
            let cost = Cost { positioning_ns: MS, transfer_ns: (at % 2) * 100 * MS };
            queue.start_now(RequestId(at), owner(at), Extent::new(at, at + LONG), Class::Demand, cost);
            // A thousand answers are several intervals of trials.
            queue.answered(Nanos(at * 100 * MS), Nanos(MS), LONG);
        }
        assert_eq!((queue.started(), queue.demanded()), (1_000, 0));
        assert_eq!(queue.next(Nanos(1_000), &BTreeSet::new()), None);
        assert_eq!(queue.tag(owner(0)), queue.tag(owner(1)), "one queue has had a hundred times as much");
    }
}

/// A full store with eight requests, of the files 0 to 7, and `waiting` requests of one page:
/// file, stream and page of each.
fn crowded(waiting: &[(u64, Option<u64>, u64)]) -> (FairQueue, Vec<RequestId>) {
    let mut queue = FairQueue { concurrency: Concurrency::of(8), ..FairQueue::new(false) };
    let mut next = 0;
    let mut enter = |queue: &mut FairQueue, file, stream, page| {
        let (id, cost) = (RequestId(next), Cost { positioning_ns: 30 * MS, transfer_ns: MS });
        next += 1;
        let (owner, extent) = (Owner { file: FileId(file), stream }, Extent::new(page, page + 1));
        if queue.must_wait() {
            queue.enter(Nanos(0), id, owner, extent, Class::Demand, cost);
        } else {
            queue.start_now(id, owner, extent, Class::Demand, cost);
        }
        id
    };
    let mut full = 0;
    while !queue.must_wait() {
        enter(&mut queue, full, Some(1_000), 0);
        full += 1;
    }
    let waiting = waiting.iter().map(|&(file, stream, page)| enter(&mut queue, file, stream, page)).collect();
    (queue, waiting)
}

#[test]
fn an_adjacent_request_joins_and_its_queue_pays_for_its_bytes() {
    let (mut queue, ids) = crowded(&[(1, None, 5), (1, Some(1), 6), (1, None, 7), (1, None, 9), (2, None, 6)]);
    let (full, before) = (queue.started(), queue.now_ns);
    queue.finish(RequestId(0));
    let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
    assert_eq!(lead, ids[0]);
    let adjacent = queue.adjacent(FileId(1), Extent::new(5, 6));
    assert_eq!(adjacent, ids[1..3], "of any queue, but of the same file, and without a gap");
    for &id in &adjacent {
        queue.join(id, lead);
    }
    assert_eq!(queue.started(), full, "the group has one place");
    assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None);
    let had = |stream| queue.tag(Owner { file: FileId(1), stream }) - before;
    let at_random = 31 * MS / 3 + MS / 3;
    assert_eq!((had(None), had(Some(1))), (at_random, MS), "a third for each of three random reads");
    assert_eq!(queue.demanded(), 2);
}

#[test]
fn a_group_keeps_its_place_until_its_last_request_is_over() {
    let (mut queue, ids) = crowded(&[(1, None, 5), (1, None, 6), (1, None, 7), (2, None, 0)]);
    queue.finish(RequestId(0));
    let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
    queue.join(ids[1], lead);
    queue.join(ids[2], lead);
    assert!(!queue.finish(lead), "the lead is cancelled");
    assert!(!queue.finish(ids[2]));
    assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None, "the store still works on the rest of the group");
    assert!(queue.finish(ids[1]));
    assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), Some(ids[3]));
}

#[test]
fn a_file_with_nothing_at_the_storage_goes_beyond_the_limit() {
    let (mut queue, ids) = crowded(&[(1, None, 5), (20, None, 5), (21, None, 5)]);
    let next = |queue: &mut FairQueue| queue.next(Nanos(1), &BTreeSet::new());
    assert_eq!(next(&mut queue), Some(ids[1]), "file 1 has a request there already");
    assert_eq!(next(&mut queue), None, "an eighth of eight is one");
    queue.finish(ids[1]);
    assert_eq!(next(&mut queue), Some(ids[2]));
    queue.finish(RequestId(0));
    assert_eq!(next(&mut queue), Some(ids[0]), "a request beyond the limit takes no place of others");
    assert_eq!((next(&mut queue), queue.started()), (None, 9));
}

#[test]
fn a_group_keeps_its_place_beyond_the_limit() {
    let (mut queue, ids) = crowded(&[(20, None, 5), (20, None, 6), (21, None, 0)]);
    let lead = queue.next(Nanos(1), &BTreeSet::new()).unwrap();
    queue.join(ids[1], lead);
    assert!(!queue.finish(lead));
    assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), None, "the store still works on the rest of the group");
    assert!(queue.finish(ids[1]));
    assert_eq!(queue.next(Nanos(1), &BTreeSet::new()), Some(ids[2]));
}

proptest::proptest! {
    #[test]
    fn an_eighth_goes_beyond_the_limit_and_no_place_is_lost(
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
                for other in queue.adjacent(file, Extent::new(at - 1, at)) {
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
            proptest::prop_assert!(!beside || queue.beyond.len() == most, "a request waits that need not");
        }
    }

    #[test]
    fn every_joined_request_is_started_once_and_charged_once(
        steps in proptest::collection::vec((0u64..4, 0u64..600, 1u64..40, 0usize..8), 1..300),
        rotational in proptest::bool::ANY,
    ) {
        let mut queue = FairQueue::new(rotational);
        let (mut free, mut serving, mut spent) = (alloc::vec![true; 700], Vec::new(), 0);
        let cost = |pages: u64| Cost { positioning_ns: 0, transfer_ns: pages * 66_000 };
        for (id, &(stream, start, pages, over)) in (0..).map(RequestId).zip(&steps) {
            // As in the page table, no page is requested twice.
            let extent = Extent::new(start, start + pages);
            if free[start as usize..extent.end as usize].iter().all(|&page| page) {
                free[start as usize..extent.end as usize].fill(false);
                // Streams only: random reads share the charge of their queue.
                let owner = Owner { file: FileId(0), stream: Some(stream) };
                queue.enter(Nanos(id.0), id, owner, extent, Class::Demand, cost(pages));
                serving.push((id, extent, false));
            }
            while let Some(lead) = queue.next(Nanos(id.0), &BTreeSet::new()) {
                let at = serving.iter().position(|&(id, ..)| id == lead).unwrap();
                let adjacent = queue.adjacent(FileId(0), serving[at].1);
                for &id in [lead].iter().chain(&adjacent) {
                    let (_, extent, started) = serving.iter_mut().find(|one| one.0 == id).unwrap();
                    proptest::prop_assert!(!core::mem::replace(started, true), "{:?} was started twice", id);
                    spent += extent.pages() * 66_000;
                }
                for &id in &adjacent {
                    queue.join(id, lead);
                }
            }
            // Some end, and some are cancelled before they start.
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
        proptest::prop_assert!(queue.ready.is_empty());
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
