//! What is read along with a page of a region that a thread waits for, and what before it does.
//!
//! ```text
//!   page      p                     m                          front
//!             |<------ cluster ----------------------->|<------- the next one, asked for when m is touched ---->|
//!             fault: read            mark: staged, all others are mapped                 m'
//! ```
//!
//! - A fault next to one of the last faults of its thread, or the third at one distance, begins a *stream*. Its clusters run forward or
//!   backward, or are single pages apart, and double while the thread comes to where the last one ended.
//! - Of a stream's cluster all is mapped but the *mark*. Its touch is a fault that reads nothing; it shows that the cluster is used, and asks for the
//!   next one before the thread has to wait. A thread that has to wait all the same has it doubled.
//! - A fault of no stream has a *detector*: the aligned cluster around it has as many pages as were used of what such faults read before, and two
//!   more, rounded up to a power of two; none was used: two pages next to the last fault, otherwise one; but never below half of the last
//!   size. All are staged, so that their use is seen. At most it has eight pages, or, where more cost no more than the request does, as many as that.
//!
//! The detector is that of the swap readahead of Linux (2014), told in words; it is asked for pages of the region, not for places of a swap file.

use alloc::vec::Vec;

use crate::regions::replacement::passing;

/// What to read around a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Where it begins.
    pub(crate) first: u64,
    /// From one page to the next.
    pub(crate) delta: i64,
    /// How many pages, those not counted that are there already.
    pub(crate) pages: u64,
    /// The mark is the first page that is read from here on, counted in steps; `None`: all pages are staged.
    pub(crate) mark: Option<u64>,
    /// What is mapped is going to be written to.
    pub(crate) writes: bool,
    /// The stream whose front moves.
    pub(crate) stream: Option<u32>,
}

impl Plan {
    /// One page.
    pub(crate) const fn alone(page: u64) -> Self {
        Self { first: page, delta: 1, pages: 1, mark: None, writes: false, stream: None }
    }
}

/// A thread that goes through pages in order.
#[derive(Debug, Clone, Copy)]
struct Stream {
    name: u32,
    delta: i64,
    /// The first page after all that was asked for.
    front: u64,
    /// Pages of its last cluster.
    size: u64,
    /// The page whose touch asks for more.
    mark: Option<u64>,
    writes: bool,
    /// How often its thread came to where it was expected, and when last, in faults of no stream.
    proven: u32,
    heard: u64,
}

/// The last faults of a thread that are no stream's.
#[derive(Debug, Clone, Copy)]
struct Tail {
    thread: u32,
    last: [u64; TAIL],
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct SwapReadahead {
    /// The one that was heard of last is at the end.
    streams: Vec<Stream>,
    tails: Vec<Tail>,
    named: u32,
    max: u64,
    /// Pages that have room to pass.
    passing: u64,
    /// Faults of no stream so far.
    lone: u64,
    hits: u64,
    last_size: u64,
    last_page: u64,
    /// The detector's largest cluster.
    lone_max: u64,
}

impl SwapReadahead {
    /// For a budget of so many pages.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            streams: Vec::new(),
            tails: Vec::new(),
            named: 0,
            max: largest(budget),
            passing: passing(budget),
            lone: 0,
            hits: HITS_FIRST,
            last_size: 0,
            last_page: NOWHERE,
            lone_max: LONE_MAX,
        }
    }

    pub(crate) fn set_budget(&mut self, budget: u64) {
        (self.max, self.passing) = (largest(budget), passing(budget));
    }

    /// So many pages cost as much as a request, if that is known.
    pub(crate) fn set_pages_of_request(&mut self, pages: Option<u64>) {
        let pages = pages.unwrap_or(LONE_MAX).clamp(LONE_MAX, LONE_MOST);
        self.lone_max = 1 << pages.ilog2();
    }

    /// A page was missing. The program may have said that it goes on from there (`told`). `there` tells of a page whether it would not be read.
    pub(crate) fn fault(
        &mut self,
        page: u64,
        thread: u32,
        write: bool,
        told: bool,
        there: impl Fn(u64) -> bool,
    ) -> Plan {
        if let Some(at) = self.streams.iter().rposition(|stream| self.lives(stream) && stream.comes_to(page, &there)) {
            let stream = self.advance(at, write);
            return stream.plan(page, Some(stream.size / 2));
        }
        if let Some(delta) = self.direction(page, thread).or(told.then_some(1)) {
            let stream = self.begin(page, delta, write);
            return stream.plan(page, Some(stream.size / 2));
        }
        self.lone(page)
    }

    /// A page that was staged is touched, of a stream or not. Whether that asks for more, and what.
    pub(crate) fn touched(&mut self, page: u64, thread: u32, write: bool) -> Option<Plan> {
        if let Some(at) = self.streams.iter().rposition(|stream| stream.mark == Some(page) && self.lives(stream)) {
            let stream = self.advance(at, write);
            return Some(stream.plan(stream.front, Some(0)));
        }
        self.hits += 1;
        let delta = self.direction(page, thread)?;
        let stream = self.begin(page.wrapping_add_signed(delta), delta, write);
        Some(stream.plan(stream.front, Some(0)))
    }

    /// The thread of a stream came to where it was expected.
    fn advance(&mut self, at: usize, write: bool) -> Stream {
        let max = self.stream_max();
        let mut stream = self.streams.remove(at);
        stream.proven += 1;
        stream.heard = self.lone;
        stream.size = (stream.size * 2).min(max);
        (stream.mark, stream.writes) = (None, write);
        self.streams.push(stream);
        stream
    }

    fn begin(&mut self, front: u64, delta: i64, writes: bool) -> Stream {
        if self.streams.len() == STREAMS_MAX {
            self.streams.remove(0);
        }
        self.named = self.named.wrapping_add(1);
        let size = CLUSTER_FIRST.min(self.max);
        let stream = Stream { name: self.named, delta, front, size, mark: None, writes, proven: 0, heard: self.lone };
        self.streams.push(stream);
        stream
    }

    /// The largest cluster: two of each stream must have room among the pages that pass.
    fn stream_max(&self) -> u64 {
        let streams = self.streams.iter().filter(|stream| stream.proven >= PROVEN).count() as u64;
        (self.passing / (2 * streams.max(1))).clamp(1, self.max)
    }

    /// What a plan came to: where it ended, and its mark.
    pub(crate) fn planned(&mut self, plan: &Plan, front: u64, mark: Option<u64>) {
        if let Some(stream) = self.streams.iter_mut().rev().find(|stream| Some(stream.name) == plan.stream) {
            stream.front = front;
            stream.mark = mark.or(stream.mark);
        }
    }

    /// A page that was staged left untouched. A stream whose mark it was is over.
    pub(crate) fn wasted(&mut self, page: u64) {
        self.streams.retain(|stream| stream.mark != Some(page));
    }

    /// A fault that begins a stream: its step. Otherwise it is remembered.
    fn direction(&mut self, page: u64, thread: u32) -> Option<i64> {
        let at = self.tails.iter().rposition(|tail| tail.thread == thread);
        let mut tail = match at {
            Some(at) => self.tails.remove(at),
            None => Tail { thread, last: [NOWHERE; TAIL] },
        };
        let step = |last: u64| page.wrapping_sub(last) as i64;
        let beside = tail.last.iter().map(|&last| step(last)).find(|step| step.unsigned_abs() == 1);
        let stride = step(tail.last[0]);
        let again = tail.last[1] != NOWHERE && tail.last[0].wrapping_sub(tail.last[1]) as i64 == stride;
        let found = beside.or_else(|| (again && stride != 0 && stride.unsigned_abs() <= STRIDE_MAX).then_some(stride));
        tail.last.rotate_right(1);
        tail.last[0] = page;
        if self.tails.len() == STREAMS_MAX {
            self.tails.remove(0);
        }
        self.tails.push(tail);
        found
    }

    /// Whether a stream is still believed in: faults at random come to where it stopped before long.
    fn lives(&self, stream: &Stream) -> bool {
        self.lone - stream.heard <= HEARD_LONE << stream.proven.min(HEARD_DOUBLED)
    }

    /// The detector: an aligned cluster.
    fn lone(&mut self, page: u64) -> Plan {
        self.lone += 1;
        let pages = if self.hits > 0 {
            (self.hits + 2).next_power_of_two().max(4)
        } else if page.abs_diff(self.last_page) == 1 {
            2
        } else {
            1
        };
        let pages = pages.min(self.lone_max).max(self.last_size / 2).min(1 << self.max.ilog2());
        self.hits = 0;
        (self.last_size, self.last_page) = (pages, page);
        Plan { first: page & !(pages - 1), pages, ..Plan::alone(page) }
    }
}

/// The longest cluster, with a budget of so many pages.
fn largest(budget: u64) -> u64 {
    (budget / CLUSTER_PART).max(CLUSTER_LEAST.min(budget / 16)).clamp(1, CLUSTER_MAX)
}

impl Stream {
    /// What it asks for from `first` on.
    fn plan(&self, first: u64, mark: Option<u64>) -> Plan {
        let &Self { delta, size: pages, writes, name, .. } = self;
        Plan { first, delta, pages, mark, writes, stream: Some(name) }
    }

    /// Whether `page` is where its thread is expected, or a little further, or all between is there.
    fn comes_to(&self, page: u64, there: impl Fn(u64) -> bool) -> bool {
        let ahead = page.wrapping_sub(self.front) as i64;
        let steps = ahead / self.delta;
        if ahead % self.delta != 0 || steps < 0 {
            return false;
        }
        let skipped = steps as u64;
        let passed = || (0..skipped).all(|step| there(self.front.wrapping_add_signed(self.delta * step as i64)));
        (skipped <= SKIPPED_MAX && self.proven >= PROVEN) || (skipped <= PASSED_MAX && passed())
    }
}

/// Faults of a thread that are remembered: streams of one thread side by side that are told apart.
const TAIL: usize = 4;

/// Beside no page.
const NOWHERE: u64 = u64::MAX / 2;

/// Streams, and threads, that are remembered. More cost a longer search at each fault.
const STREAMS_MAX: usize = 32;

/// The first cluster of a stream, and the longest, in pages: 1 MiB. It holds up who waits for its first page.
const CLUSTER_FIRST: u64 = 4;
const CLUSTER_MAX: u64 = 256;

/// A cluster is no more than one of so many pages of the budget, unless that is less than a few.
const CLUSTER_PART: u64 = 256;
const CLUSTER_LEAST: u64 = 8;

/// Pages that a stream may skip, unless they are there, and how often it must have come to where it was expected: faults at random are near
/// some stream before long.
const PROVEN: u32 = 2;
const SKIPPED_MAX: u64 = 16;

/// A stream that nobody came to during so many faults of no stream is over; one that is proven lasts up to sixteen times as long.
const HEARD_LONE: u64 = 32;
const HEARD_DOUBLED: u32 = 4;

/// Pages that are there, after which a stream is still known.
const PASSED_MAX: u64 = 8192;

/// The longest way between two pages of a stream, in pages: 16 MiB.
const STRIDE_MAX: u64 = 4096;

/// The largest cluster of the detector, and the hits that it begins with: as in Linux. And the largest where pages cost next to nothing.
const LONE_MAX: u64 = 8;
const LONE_MOST: u64 = 64;
const HITS_FIRST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: fn(u64) -> bool = |_| false;

    fn ahead() -> SwapReadahead {
        SwapReadahead::new(1 << 20)
    }

    /// Runs a plan to its end, as if nothing of it were there.
    fn done(ahead: &mut SwapReadahead, plan: &Plan) -> Option<u64> {
        let at = |step: u64| plan.first.wrapping_add_signed(plan.delta * step as i64);
        let mark = plan.mark.map(at);
        ahead.planned(plan, at(plan.pages), mark);
        mark
    }

    #[test]
    fn a_stream_doubles_and_is_asked_for_at_its_mark() {
        let mut ahead = ahead();
        ahead.fault(100, 1, false, false, NOTHING);
        let plan = ahead.fault(101, 1, false, false, NOTHING);
        assert_eq!((plan.first, plan.delta, plan.pages, plan.mark), (101, 1, 4, Some(2)));
        let mark = done(&mut ahead, &plan).unwrap();
        let plan = ahead.touched(mark, 1, false).unwrap();
        assert_eq!((plan.first, plan.pages, plan.mark), (105, 8, Some(0)));
        let mark = done(&mut ahead, &plan).unwrap();
        assert_eq!(mark, 105);
        assert_eq!(ahead.touched(mark, 1, false).unwrap().first, 113);
    }

    #[test]
    fn backward_and_strided_readers_are_streams() {
        let mut ahead = ahead();
        ahead.fault(500, 1, false, false, NOTHING);
        let plan = ahead.fault(499, 1, false, false, NOTHING);
        assert_eq!((plan.first, plan.delta), (499, -1));
        done(&mut ahead, &plan);
        assert_eq!(ahead.fault(495, 1, false, false, NOTHING).pages, 8);
        for page in [10_000, 10_016] {
            assert_eq!(ahead.fault(page, 2, false, false, NOTHING).stream, None);
        }
        let plan = ahead.fault(10_032, 2, false, false, NOTHING);
        assert_eq!((plan.first, plan.delta), (10_032, 16));
        done(&mut ahead, &plan);
        assert_eq!(ahead.fault(10_096, 2, false, false, NOTHING).delta, 16);
    }

    #[test]
    fn threads_side_by_side_and_streams_of_one_thread_are_told_apart() {
        let mut ahead = ahead();
        for (page, thread) in [(10, 1), (5_000, 1), (11, 2)] {
            assert_eq!(ahead.fault(page, thread, false, false, NOTHING).stream, None, "{page}");
        }
        let one = ahead.fault(11, 1, false, false, NOTHING);
        done(&mut ahead, &one);
        let other = ahead.fault(5_001, 1, false, false, NOTHING);
        done(&mut ahead, &other);
        assert!(one.stream.is_some() && other.stream.is_some() && one.stream != other.stream);
        assert_eq!(ahead.fault(15, 1, false, false, NOTHING).stream, one.stream);
    }

    #[test]
    fn a_stream_is_known_after_pages_that_were_there() {
        let mut ahead = ahead();
        ahead.fault(0, 1, false, false, NOTHING);
        let plan = ahead.fault(1, 1, false, false, NOTHING);
        done(&mut ahead, &plan);
        assert_eq!(ahead.fault(2_000, 1, false, false, NOTHING).stream, None);
        assert_eq!(ahead.fault(3_000, 1, false, false, |page| page < 3_000).stream, plan.stream);
    }

    #[test]
    fn the_detector_shrinks_by_half_to_one_and_grows_with_hits() {
        let mut ahead = ahead();
        let mut sizes = Vec::new();
        for n in 0..6 {
            sizes.push(ahead.fault(n * 1_000 + n * n * 10, 1, false, false, NOTHING).pages);
        }
        assert_eq!(sizes, [8, 4, 2, 1, 1, 1]);
        for page in [10_000, 20_500, 77_000] {
            assert_eq!(ahead.touched(page, 7, false), None);
        }
        let plan = ahead.fault(99_999, 1, false, false, NOTHING);
        assert_eq!((plan.pages, plan.first, plan.mark), (8, 99_992, None));
        ahead.set_pages_of_request(Some(40));
        for page in [210_000, 320_500, 477_000, 510_000, 620_500, 777_000, 810_000] {
            ahead.touched(page, 7, false);
        }
        assert_eq!(
            ahead.fault(200_000, 1, false, false, NOTHING).pages,
            16,
            "where pages cost little there may be more"
        );
    }

    #[test]
    fn a_mark_that_nobody_came_to_ends_its_stream() {
        let mut ahead = ahead();
        ahead.fault(0, 1, false, false, NOTHING);
        let plan = ahead.fault(1, 1, false, false, NOTHING);
        let mark = done(&mut ahead, &plan).unwrap();
        ahead.wasted(mark);
        assert_eq!(ahead.fault(5, 1, false, false, NOTHING).stream, None);
    }
}
