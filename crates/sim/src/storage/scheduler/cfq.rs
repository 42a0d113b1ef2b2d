//! Completely fair queueing: a queue for each context, one of them at a time has the device.
//!
//! ```text
//!   turns:  [B] [C] [D]         active: [A a1 a2]  ──> device
//!            └ next in turn       │
//!                                 ├ its slice is over                        ──> to the end of the turns
//!                                 ├ nothing waits in it, but it is sequential ──> waits for it, 8 ms: idling
//!                                 ├ nothing waits in it, and it is seeky      ──> the next in turn, at once
//!                                 └ nothing waits in it, and B reads close by ──> A and B become one queue (merging)
//! ```
//!
//! A slice begins when the first request of it is done, so a turn is a seek and then a slice: of 100 ms, 16 ms at the least, a disk
//! that takes 7 ms to position reads for 93 and 70 %. Idling makes the slice worth its seek: the next request of a sequential reader is
//! sooner done than that of anybody else, but it comes only once the last one is done.
//!
//! Queues that read close together are one reader in several contexts, so they are merged; whether that is true is seen later: if not, the
//! merged queue jumps between its contexts and is *seeky*. Then each of them leaves with its next request.
//!
//! Not modelled: priorities, writes, the kernel's accounting of time that a slice did not use.
//!
//! Origin: the rules as the project's notes state them: mainline of 2007 to 2009 and *cfq-iosched: tiobench regression* (2009). The bound
//! on what is in the drives in all is our reading of it; `docs/decisions/0019` says what depends on it.

use std::collections::{BTreeMap, VecDeque};

use super::{Request, Scheduler};

/// What differs from one kernel to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Slices share [`TARGET_NS`].
    pub(super) low_latency: bool,
    pub(super) merging: Option<Merging>,
}

/// Queues that read close together are merged. Until when?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Merging {
    /// Until the queue has been seeky for [`SEEKY_NS_MAX`].
    UntilSeekyForTime,
    /// Until it has made more than [`QUANTUM`] requests since it turned seeky.
    UntilSeekyForRequests,
}

/// The scheduler. Each event costs O(log n) for n requests, and looking for a queue close by O(q log n) for q queues.
#[derive(Debug)]
pub(super) struct Cfq {
    rules: Rules,
    queues: BTreeMap<u32, Queue>,
    next_queue: u32,
    /// The queue of each context.
    of_context: BTreeMap<u32, u32>,
    /// Queues in which something waits, but for the active one, in the order of their turns.
    turns: VecDeque<u32>,
    active: Option<Active>,
    /// What was given out, and of which queue.
    in_drives: BTreeMap<u64, u32>,
    /// Where the last of it ends.
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

#[derive(Debug, Default)]
struct Queue {
    /// What waits, by position and order of arrival.
    waiting: BTreeMap<(u64, u64), Request>,
    /// Contexts that share it.
    contexts: u32,
    in_drives: u32,
    /// Where the last request that it was given ends.
    end: Option<u64>,
    /// Of the last 32 requests, those that jumped: a bit each.
    jumps: u32,
    /// While it is merged and seeky: since when, and for how many requests.
    seeky_since: Option<(u64, u32)>,
    /// When its last request was done, while it has none.
    thinks_since_ns: Option<u64>,
    /// From a request that is done to the next one, mean.
    thinks_ns: u64,
}

impl Queue {
    fn is_seeky(&self) -> bool {
        self.jumps.count_ones() > JUMPS_MAX
    }

    /// Whether the device should wait for its next request.
    fn is_worth_idling(&self) -> bool {
        self.contexts > 0 && !self.is_seeky() && self.thinks_ns <= IDLE_NS
    }

    /// What waits nearest to `head`, in the direction of the arm: first what lies after it, then from the start.
    fn after(&self, head: u64) -> Option<(u64, u64)> {
        let after = self.waiting.range((head, 0)..).next().or_else(|| self.waiting.first_key_value());
        after.map(|(&place, _)| place)
    }

    /// How far from `head` the nearest of its requests is.
    fn distance(&self, head: u64) -> Option<u64> {
        let after = self.waiting.range((head, 0)..).next();
        let before = self.waiting.range(..(head, 0)).next_back();
        [after, before].into_iter().flatten().map(|(&(offset, _), _)| offset.abs_diff(head)).min()
    }

    /// Notes what a new request says about it.
    fn learn(&mut self, now_ns: u64, request: Request) {
        let jumped = self.end.is_some_and(|end| end.abs_diff(request.offset) > JUMP_BYTES);
        self.jumps = self.jumps << 1 | u32::from(jumped);
        self.end = Some(request.offset + request.bytes);
        if let Some(since_ns) = self.thinks_since_ns.take() {
            let took_ns = (now_ns - since_ns).min(2 * IDLE_NS);
            self.thinks_ns = (self.thinks_ns * (THOUGHTS - 1) + took_ns) / THOUGHTS;
        }
        self.seeky_since = match self.seeky_since {
            _ if self.contexts < 2 || !self.is_seeky() => None,
            Some((since_ns, requests)) => Some((since_ns, requests + 1)),
            None => Some((now_ns, 0)),
        };
    }
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

    /// The queue of `context`: a new one for a new context, and for one that must leave a merged queue.
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

    /// A queue that nobody can use any more is gone.
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

    /// The slice of one queue among all that want one.
    fn slice_ns(&self) -> u64 {
        let queues = self.turns.len() as u64 + 1;
        if self.rules.low_latency { (TARGET_NS / queues).clamp(SLICE_NS_MIN, SLICE_NS) } else { SLICE_NS }
    }

    /// The queue that reads next to where the active one did, if both could be one reader.
    fn close_to(&self, number: u32) -> Option<u32> {
        self.rules.merging?;
        self.queues.get(&number).filter(|queue| queue.contexts > 0 && !queue.is_seeky())?;
        let near = |&number: &u32| {
            let queue = self.queues.get(&number).filter(|queue| !queue.is_seeky())?;
            queue.distance(self.head).filter(|&distance| distance <= CLOSE_BYTES).map(|distance| (distance, number))
        };
        self.turns.iter().filter_map(near).min().map(|(_, number)| number)
    }

    /// All contexts of the active queue go over to `other`, whose turn it is.
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

    fn completed(&mut self, now_ns: u64, id: u64) {
        let Some(number) = self.returned(id) else { return };
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

/// A slice.
const SLICE_NS: u64 = 100_000_000;

/// What all slices share where low latency is wanted. More gives longer slices, and longer until the last has its turn.
const TARGET_NS: u64 = 300_000_000;

/// But no slice is shorter: twice the time of idling. Less, and a disk does nothing but position.
const SLICE_NS_MIN: u64 = 16_000_000;

/// How long the device waits for the next request of a sequential queue. Less than a reader thinks, and it is in vain.
const IDLE_NS: u64 = 8_000_000;

/// Requests of one queue in the drives while others wait.
const QUANTUM: u32 = 4;

/// Requests in the drives. More, and the drives decide themselves who is served; fewer, and drives side by side stand idle.
const IN_DRIVES_MAX: u32 = 4 * QUANTUM;

/// From the end of one request to the start of the next: more is a jump.
const JUMP_BYTES: u64 = 400 << 10;

/// More jumps than this among the last 32 requests, and a queue is seeky.
const JUMPS_MAX: u32 = 4;

/// No farther from where the last request ended, and a request is close.
const CLOSE_BYTES: u64 = 4 << 20;

/// A merged queue that has been seeky for longer is split.
const SEEKY_NS_MAX: u64 = 1_000_000_000;

/// Weight of the past in the mean of think times: seven of eight.
const THOUGHTS: u64 = 8;

#[cfg(test)]
mod tests {
    use foreread_device::Random;

    use super::*;

    const MS: u64 = 1_000_000;

    fn cfq(low_latency: bool, merging: Option<Merging>) -> Cfq {
        Cfq::new(Rules { low_latency, merging })
    }

    fn all() -> [Cfq; 4] {
        let (time, requests) = (Merging::UntilSeekyForTime, Merging::UntilSeekyForRequests);
        [cfq(false, None), cfq(true, None), cfq(true, Some(time)), cfq(true, Some(requests))]
    }

    /// A device that takes `takes_ns` for each request, one at a time, and readers that have one request each in it.
    struct Run {
        cfq: Cfq,
        takes_ns: u64,
        now_ns: u64,
        /// The contexts whose requests the device has, first the one that it is at; and when that is done.
        device: VecDeque<Request>,
        done_ns: u64,
        next_id: u64,
        /// The contexts in the order in which they were served.
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

        /// Goes to the next thing that happens; the request that is done by then, if that is it.
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

        /// Readers that each go on from where `next` says, at once, until `requests` of them are done.
        fn read(&mut self, requests: usize, next: impl Fn(Request) -> u64) {
            while self.served.len() < requests {
                if let Some(done) = self.step() {
                    self.add(done.context, next(done));
                }
            }
        }

        /// How many requests in a row each context had.
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
    fn slices_get_shorter_as_more_want_one_down_to_the_least() {
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
    fn a_sequential_reader_is_waited_for_and_a_seeky_one_is_not() {
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
    fn one_that_wants_much_keeps_nobody_waiting_for_longer_than_a_slice() {
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
            // The slice of 0, what it had in the drives, and for each of the others a request and the wait for the next.
            let most_ns = SLICE_NS + 2 * MS * (1 + u64::from(QUANTUM)) + 3 * (2 * MS + IDLE_NS);
            assert!(ended_ns.values().all(|&ns| ns <= most_ns), "{ended_ns:?}");
        }
    }

    #[test]
    fn one_that_thinks_for_longer_than_it_is_waited_for_is_not_waited_for() {
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
    fn no_more_is_in_the_drives_than_is_allowed() {
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
    fn readers_of_one_place_are_merged_and_those_that_only_pass_by_are_split_again() {
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
    fn whatever_comes_each_request_ends_once_and_soon_and_nothing_stays() {
        for seed in 0..200 {
            for cfq in all() {
                let mut random = Random::new(seed);
                let contexts = 1 + random.below(20) as u32;
                let mut run = Run::new(cfq, 1 + random.below(10 * MS));
                let mut since_ns = BTreeMap::new();
                let (mut ended, mut cancelled) = (0, 0);
                // Each turn of each context takes a slice and what was in the drives, and no more requests wait than these.
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
}
