//! Slices, idling, merged and split queues of CFQ, on a disk of its own.

use foreread_device::Random;

use super::queue::JUMPS_MAX;
use super::*;

const MS: u64 = 1_000_000;

fn cfq(low_latency: bool, merging: Option<Merging>) -> Cfq {
    Cfq::new(Rules { low_latency, merging })
}

fn all() -> [Cfq; 4] {
    let (time, requests) = (Merging::UntilSeekyForTime, Merging::UntilSeekyForRequests);
    [cfq(false, None), cfq(true, None), cfq(true, Some(time)), cfq(true, Some(requests))]
}

/// A device that takes `takes_ns` for each request, one at a time, and readers that have one
/// request each in it.
struct Run {
    cfq: Cfq,
    takes_ns: u64,
    now_ns: u64,
    /// Dispatched requests, the one in service first; it is done at `done_ns`.
    device: VecDeque<Request>,
    done_ns: u64,
    next_id: u64,
    /// Contexts in the order of service.
    served: Vec<u32>,
}

impl Run {
    fn new(cfq: Cfq, takes_ns: u64) -> Self {
        let (device, served) = (VecDeque::new(), Vec::new());
        Self { cfq, takes_ns, now_ns: 0, device, done_ns: 0, next_id: 0, served }
    }

    fn add(&mut self, context: u32, offset: u64) {
        self.cfq.add(self.now_ns, Request { id: self.next_id, context, offset, bytes: 128 << 10 });
        self.next_id += 1;
        self.give_out();
    }

    fn give_out(&mut self) {
        while let Some(request) = self.cfq.next(self.now_ns) {
            if self.device.is_empty() {
                self.done_ns = self.now_ns + self.takes_ns;
            }
            self.device.push_back(request);
        }
    }

    /// Steps to the next event; the request that is done, if any.
    fn step(&mut self) -> Option<Request> {
        let device_ns = (!self.device.is_empty()).then_some(self.done_ns);
        let next_ns = [device_ns, self.cfq.next_deadline()].into_iter().flatten().min().expect("it goes on");
        self.now_ns = self.now_ns.max(next_ns);
        let done = (device_ns == Some(next_ns)).then(|| self.device.pop_front()).flatten();
        if let Some(request) = done {
            self.done_ns = self.now_ns + self.takes_ns;
            self.served.push(request.context);
            self.cfq.completed(self.now_ns, request.id);
        }
        self.give_out();
        done
    }

    /// Each reader goes on at once where `next` says, until `requests` requests are done.
    fn read(&mut self, requests: usize, next: impl Fn(Request) -> u64) {
        while self.served.len() < requests {
            if let Some(done) = self.step() {
                self.add(done.context, next(done));
            }
        }
    }

    /// Runs of requests of one context.
    fn turns(&self) -> Vec<(u32, u32)> {
        let mut turns: Vec<(u32, u32)> = Vec::new();
        for &context in &self.served {
            match turns.last_mut().filter(|(last, _)| *last == context) {
                Some((_, count)) => *count += 1,
                None => turns.push((context, 1)),
            }
        }
        turns
    }
}

fn on(request: Request) -> u64 {
    request.offset + request.bytes
}

const FAR: u64 = 10 << 30;

#[test]
fn two_sequential_readers_take_turns_of_a_slice() {
    let mut run = Run::new(cfq(false, None), 2 * MS);
    run.add(0, 0);
    run.add(1, FAR);
    run.read(400, on);
    let turns = run.turns();
    // The first request ends before the slice begins, and the last one after it is over.
    assert!(turns[..4].iter().all(|&(_, count)| (50..=52).contains(&count)), "{turns:?}");
}

#[test]
fn slices_become_shorter_with_more_queues_down_to_the_shortest() {
    for (contexts, slice_ms) in [(2, 100), (6, 50), (32, 16)] {
        let mut run = Run::new(cfq(true, None), MS);
        (0..contexts).for_each(|context| run.add(context, u64::from(context) * FAR));
        run.read(2_000, on);
        let turns = run.turns();
        // The first one begins before all have come.
        assert!(turns[1..8].iter().all(|&(_, count)| count.abs_diff(slice_ms) <= 2), "{contexts}: {turns:?}");
    }
}

#[test]
fn the_device_idles_for_a_sequential_queue_but_not_for_a_seeky_one() {
    let mut run = Run::new(cfq(false, None), MS);
    run.add(0, 0);
    run.add(1, FAR);
    run.step();
    // Context 0 thinks: 8 ms later it is the other one's turn.
    assert!(run.device.is_empty() && run.cfq.next_deadline() == Some(9 * MS));
    run.step();
    assert_eq!(run.device.front().map(|request| request.context), Some(1));

    let mut run = Run::new(cfq(false, None), MS);
    (0..8).for_each(|context| run.add(context, u64::from(context) * FAR));
    run.read(200, |request| request.offset + (7 << 30));
    let late = Run { served: run.served.split_off(100), ..run };
    assert!(late.turns().iter().all(|&(_, count)| count <= 2), "{:?}", late.turns());
}

#[test]
fn a_queue_with_many_requests_delays_the_others_by_at_most_a_slice() {
    for cfq in all() {
        let mut run = Run::new(cfq, 2 * MS);
        (0..500).for_each(|request| run.add(0, request * (128 << 10)));
        (1..4).for_each(|context| run.add(context, u64::from(context) * FAR));
        let mut ended_ns = BTreeMap::new();
        while ended_ns.len() < 4 {
            if let Some(done) = run.step() {
                ended_ns.entry(done.context).or_insert(run.now_ns);
            }
        }
        // The slice of 0, what it had in the drives, and for each of the others a request and the
        // wait for the next.
        let most_ns = SLICE_NS + 2 * MS * (1 + u64::from(QUANTUM)) + 3 * (2 * MS + IDLE_NS);
        assert!(ended_ns.values().all(|&ns| ns <= most_ns), "{ended_ns:?}");
    }
}

#[test]
fn the_device_does_not_idle_for_a_reader_that_thinks_longer() {
    let mut run = Run::new(cfq(false, None), MS);
    for turn in 0..20 {
        run.add(0, turn * (128 << 10));
        while run.step().is_none() {}
        if turn < 19 {
            run.now_ns += 50 * MS;
        }
    }
    // Less than 8 ms after the last request of 0.
    run.now_ns += MS;
    run.add(1, FAR);
    assert_eq!(run.device.front().map(|request| request.context), Some(1));
}

#[test]
fn dispatched_requests_are_bounded() {
    let mut cfq = cfq(false, None);
    let mut id = 0;
    for context in 0..64 {
        for request in 0..8 {
            let offset = u64::from(context) * FAR + request * (1 << 30);
            cfq.add(0, Request { id, context, offset, bytes: 4096 });
            id += 1;
        }
    }
    let first: Vec<u32> = std::iter::from_fn(|| cfq.next(0)).map(|request| request.context).collect();
    assert_eq!(first, [0; QUANTUM as usize], "one of many");
    let mut alone = Cfq::new(cfq.rules);
    (0..64).for_each(|id| alone.add(0, Request { id, context: 0, offset: id << 30, bytes: 4096 }));
    assert_eq!(std::iter::from_fn(|| alone.next(0)).count(), IN_DRIVES_MAX as usize, "one alone");
}

#[test]
fn readers_of_one_place_are_merged_and_separate_streams_are_split_again() {
    let queues = |cfq: &Cfq| cfq.of_context.values().collect::<std::collections::BTreeSet<_>>().len();
    // Each reads every other record.
    let mut run = Run::new(cfq(true, Some(Merging::UntilSeekyForRequests)), 2 * MS);
    run.add(0, 0);
    run.add(1, 128 << 10);
    run.read(1_000, |request| request.offset + 2 * request.bytes);
    assert_eq!(queues(&run.cfq), 1);
    assert!(run.turns().iter().skip(4).all(|&(_, count)| count == 1), "they are served as one");

    // Each reads for itself, 2 MiB apart: merged, and split as soon as that shows.
    let left = |merging| {
        let mut run = Run::new(cfq(true, Some(merging)), 2 * MS);
        run.add(0, 0);
        run.add(1, 2 << 20);
        run.step();
        run.add(0, 128 << 10);
        assert_eq!(queues(&run.cfq), 1, "close by");
        while queues(&run.cfq) == 1 {
            if let Some(done) = run.step() {
                run.add(done.context, on(done));
            }
        }
        (run.served.len() as u32, run.now_ns)
    };
    let (requests, _) = left(Merging::UntilSeekyForRequests);
    assert!((JUMPS_MAX + QUANTUM..=JUMPS_MAX + QUANTUM + 4).contains(&requests), "after {requests} requests");
    let (_, ns) = left(Merging::UntilSeekyForTime);
    assert!((SEEKY_NS_MAX..SEEKY_NS_MAX + 40 * MS).contains(&ns), "after {ns} ns");
}

#[test]
fn every_request_ends_once_and_soon_and_no_state_remains() {
    for seed in 0..200 {
        for cfq in all() {
            let mut random = Random::new(seed);
            let contexts = 1 + random.below(20) as u32;
            let mut run = Run::new(cfq, 1 + random.below(10 * MS));
            let mut since_ns = BTreeMap::new();
            let (mut ended, mut cancelled) = (0, 0);
            // Each turn of each context takes a slice and what was in the drives, and no more
            // requests wait than these.
            let longest_ns = u64::from(contexts) * 2 * (SLICE_NS + IDLE_NS + 40 * run.takes_ns);
            for _ in 0..400 {
                match random.below(10) {
                    0 | 1 => {
                        since_ns.insert(run.next_id, run.now_ns);
                        let near = random.below(1 << (20 + random.clone().below(20)));
                        run.add(random.below(u64::from(contexts)) as u32, near);
                    }
                    2 => {
                        run.cfq.closed(run.now_ns, random.below(u64::from(contexts)) as u32);
                        run.give_out();
                    }
                    3 if random.chance(300_000) => {
                        let id = since_ns.keys().next().copied().unwrap_or(0);
                        if run.cfq.cancel(run.now_ns, id) {
                            since_ns.remove(&id);
                            cancelled += 1;
                        }
                        run.give_out();
                    }
                    _ if !since_ns.is_empty() => {
                        if let Some(done) = run.step() {
                            let began_ns = since_ns.remove(&done.id).expect("in the drives, and not done before");
                            assert!(run.now_ns - began_ns <= longest_ns, "seed {seed}: starved");
                            ended += 1;
                        }
                    }
                    _ => run.now_ns += random.below(20 * MS),
                }
                let waits = since_ns.len() > run.device.len();
                let idles = run.cfq.next_deadline().is_some();
                assert!(!waits || idles || !run.device.is_empty(), "seed {seed}: something waits for nothing");
            }
            while !since_ns.is_empty() {
                let done = run.step();
                ended += u64::from(done.and_then(|done| since_ns.remove(&done.id)).is_some());
            }
            assert_eq!(ended + cancelled, run.next_id, "seed {seed}");
            (0..contexts).for_each(|context| run.cfq.closed(run.now_ns, context));
            let Cfq { queues, of_context, turns, in_drives, active, .. } = &run.cfq;
            assert!(queues.is_empty() && of_context.is_empty() && in_drives.is_empty(), "seed {seed}: {queues:?}");
            assert!(turns.is_empty() && active.is_none(), "seed {seed}");
        }
    }
}
