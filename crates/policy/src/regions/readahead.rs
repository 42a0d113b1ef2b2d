//! Readahead: which pages are read with a page that a thread waits for, and which before a thread
//! waits.
//!
//! ```text
//!   page      p                  m                    front
//!             |<────── cluster ────────────────>|<─ the next one, asked for when m is touched ─>|
//!             fault: read        mark: staged, all others are mapped   m'
//!
//!   fault ──┬─ at the front of a stream ──────────────────────> the size doubles; next cluster
//!           ├─ beside one of the last four of its thread, or
//!           │  the third at one distance, behind a row, or
//!           │  advised ───────────────────────────────────────> a stream begins, with four pages
//!           ├─ runs are known to be alike (`runs`) ───────────> a row: as many pages, at once
//!           └─ neither ───────────────────────────────────────> detector: an aligned cluster
//! ```
//!
//! - *Streams* run forward or backward, or at a distance. Of a cluster all pages are mapped but
//!   the *mark*. The touch of the mark is a fault that waits for nothing: it shows that the
//!   cluster is used, and asks for the next one. The size doubles each time the thread reaches the
//!   front or the mark.
//! - The *detector* serves faults of no stream, and of no row. Its cluster has as many pages as
//!   were used of what such faults read before, and two more, rounded up to a power of two. If
//!   none was used it has two pages next to the last fault, and otherwise one; but never less than
//!   half of the last size. All its pages but the faulting one are staged, so that their use is
//!   seen. It has at most eight pages, or as many as cost no more than a request, at most 64.
//!
//! A stream is over when its thread does not come to it during 32 faults of no stream, up to 512
//! for a proven one, or when its mark leaves untouched.
//!
//! *Invariants:* the plan of a fault contains the faulting page. From its second one on, a cluster
//! of a stream is at most half of the room of passing pages, shared among the proven streams.
//!
//! This file knows no places and no slots: `path/reads` skips resident pages, and cuts a cluster
//! of the detector to one request. Source: docs/decisions/0032, points 3, 4 and 7; the detector is
//! that of the swap readahead of Linux (2014, `swapin_nr_pages`), written from its description,
//! over pages of the region in place of places in a swap file.

use alloc::vec::Vec;

use crate::regions::replacement::passing;
use crate::regions::runs::{Row, Runs, Touched};

/// Which pages of a plan are mapped once they have come, beside those that a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maps {
    /// None: the use of each is seen.
    Nothing,
    /// All but the mark: the first page that is read from this step on.
    ButMark(u64),
    /// All, so no use is seen.
    All,
}

/// What to read for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The first page.
    pub(crate) first: u64,
    /// The distance from one page to the next, in pages.
    pub(crate) delta: i64,
    /// The number of pages; resident ones do not count.
    pub(crate) pages: u64,
    /// Which of its pages are mapped once they have come; others are staged.
    pub(crate) maps: Maps,
    /// The pages are expected to be written to.
    pub(crate) writes: bool,
    /// The stream of the plan, by its name.
    pub(crate) stream: Option<u32>,
}

impl Plan {
    /// One page.
    pub(crate) const fn alone(page: u64) -> Self {
        Self { first: page, delta: 1, pages: 1, maps: Maps::Nothing, writes: false, stream: None }
    }
}

/// Faults that follow one another at a constant distance.
#[derive(Debug, Clone, Copy)]
struct Stream {
    name: u32,
    delta: i64,
    /// The page after the last one asked for.
    front: u64,
    /// Pages of the last cluster.
    size: u64,
    /// The page whose touch asks for the next cluster.
    mark: Option<u64>,
    writes: bool,
    /// How often the thread came to where it was expected, and when last, in faults of no stream.
    proven: u32,
    last_heard: u64,
    /// The same in turns, of all streams.
    last_turn: u64,
}

/// The last faults of a thread that belong to no stream, the latest first.
#[derive(Debug, Clone, Copy)]
struct Tail {
    thread: u32,
    last: [u64; TAIL_FAULTS],
}

/// The streams and the detector of a region.
#[derive(Debug)]
pub(crate) struct RegionReadahead {
    /// In the order in which they were last used.
    streams: Vec<Stream>,
    tails: Vec<Tail>,
    named: u32,
    /// How often a thread of any stream came to where it was expected.
    turns: u64,
    /// The longest cluster.
    max: u64,
    /// The room of passing pages.
    passing: u64,
    /// Faults of no stream so far.
    lone: u64,
    /// The detector: pages used since its last fault, and the size and page of that fault.
    hits: u64,
    last_size: u64,
    last_page: u64,
    /// The longest cluster of the detector.
    detected_max: u64,
    runs: Runs,
}

impl RegionReadahead {
    /// The readahead of a region with a budget of `budget` pages.
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            streams: Vec::new(),
            tails: Vec::new(),
            named: 0,
            turns: 0,
            max: largest(budget),
            passing: passing(budget),
            lone: 0,
            hits: HITS_FIRST,
            last_size: 0,
            last_page: NOWHERE,
            detected_max: DETECTED_PAGES,
            runs: Runs::new(),
        }
    }

    pub(crate) fn set_budget(&mut self, budget: u64) {
        (self.max, self.passing) = (largest(budget), passing(budget));
    }

    /// `pages` pages cost as much as a request, if that is known.
    pub(crate) fn set_pages_of_request(&mut self, pages: Option<u64>) {
        let pages = pages.unwrap_or(DETECTED_PAGES).clamp(DETECTED_PAGES, DETECTED_PAGES_MAX);
        self.detected_max = 1 << pages.ilog2();
    }

    /// A page was away. `sequential`: the program has advised that it continues from there.
    /// `resident` says whether a page would not be read.
    pub(crate) fn fault(
        &mut self,
        page: u64,
        thread: u32,
        write: bool,
        sequential: bool,
        resident: impl Fn(u64) -> bool,
    ) -> Plan {
        let touched = self.runs.touched(page);
        if let Some(at) = self.streams.iter().rposition(|stream| self.lives(stream) && stream.comes_to(page, &resident))
        {
            let stream = self.advance(at, write);
            return stream.plan(page, stream.size / 2);
        }
        if let Touched::Row(pages) = touched {
            return Plan { pages, maps: Maps::All, writes: write, ..Plan::alone(page) };
        }
        let goes_on = sequential || touched == Touched::Behind;
        if let Some(delta) = self.direction(page, thread).or(goes_on.then_some(1)) {
            let stream = self.begin(page, delta, write);
            return stream.plan(page, stream.size / 2);
        }
        self.lone(page, write, resident)
    }

    /// A staged page is used for the first time. Returns the next cluster, if the page was a mark
    /// or its touch begins a stream.
    pub(crate) fn touched(&mut self, page: u64, thread: u32, write: bool) -> Option<Plan> {
        let touched = self.runs.touched(page);
        if let Some(at) = self.streams.iter().rposition(|stream| stream.mark == Some(page) && self.lives(stream)) {
            let stream = self.advance(at, write);
            return Some(stream.plan(stream.front, 0));
        }
        if matches!(touched, Touched::Row(_)) {
            return None;
        }
        self.hits += 1;
        let delta = self.direction(page, thread)?;
        let stream = self.begin(page.wrapping_add_signed(delta), delta, write);
        Some(stream.plan(stream.front, 0))
    }

    /// The thread of a stream has come to where it was expected.
    fn advance(&mut self, at: usize, write: bool) -> Stream {
        let max = self.stream_max();
        let mut stream = self.streams.remove(at);
        self.turns += 1;
        stream.proven += 1;
        (stream.last_heard, stream.last_turn) = (self.lone, self.turns);
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
        let (last_heard, last_turn) = (self.lone, self.turns);
        let stream =
            Stream { name: self.named, delta, front, size, mark: None, writes, proven: 0, last_heard, last_turn };
        self.streams.push(stream);
        stream
    }

    /// The longest cluster of a stream: two of each stream must have room among the passing pages.
    fn stream_max(&self) -> u64 {
        (self.passing / (2 * self.active().max(1))).clamp(1, self.max)
    }

    /// Proven streams that go on. Of so many that take turns, each is heard once in as many turns;
    /// one that was not heard for several times as long is over, or waits.
    pub(crate) fn active(&self) -> u64 {
        let goes_on = |(later, stream): &(usize, &Stream)| {
            stream.proven >= PROVEN_MIN && self.turns - stream.last_turn <= TURNS_MISSED * (*later as u64 + 4)
        };
        self.streams.iter().rev().enumerate().filter(goes_on).count() as u64
    }

    /// A plan was carried out up to `front`, with this mark.
    pub(crate) fn planned(&mut self, plan: &Plan, front: u64, mark: Option<u64>) {
        if let Some(stream) = self.streams.iter_mut().rev().find(|stream| Some(stream.name) == plan.stream) {
            stream.front = front;
            stream.mark = mark.or(stream.mark);
            if plan.delta == 1 {
                self.runs.planned(plan.first, front);
            }
        }
    }

    /// A staged page left untouched. If it was the mark of a stream, that stream is over.
    pub(crate) fn wasted(&mut self, page: u64) {
        self.streams.retain(|stream| stream.mark != Some(page));
    }

    /// The distance of the stream that a fault begins, if it begins one. The fault is remembered.
    fn direction(&mut self, page: u64, thread: u32) -> Option<i64> {
        let at = self.tails.iter().rposition(|tail| tail.thread == thread);
        let mut tail = match at {
            Some(at) => self.tails.remove(at),
            None => Tail { thread, last: [NOWHERE; TAIL_FAULTS] },
        };
        let step = |last: u64| page.wrapping_sub(last) as i64;
        let beside = tail.last.iter().map(|&last| step(last)).find(|step| step.unsigned_abs() == 1);
        let stride = step(tail.last[0]);
        let again = tail.last[1] != NOWHERE && tail.last[0].wrapping_sub(tail.last[1]) as i64 == stride;
        let found = beside.or_else(|| (again && stride != 0 && stride.unsigned_abs() <= STRIDE_MAX).then_some(stride));
        tail.last.rotate_right(1);
        tail.last[0] = page;
        if self.tails.len() == THREADS_MAX {
            self.tails.remove(0);
        }
        self.tails.push(tail);
        found
    }

    /// Whether a stream is not over: before long, random faults come to where a stream stopped.
    fn lives(&self, stream: &Stream) -> bool {
        self.lone - stream.last_heard <= SILENT_FAULTS << stream.proven.min(SILENT_DOUBLINGS_MAX)
    }

    /// The cluster of a fault of no stream.
    fn lone(&mut self, page: u64, write: bool, resident: impl Fn(u64) -> bool) -> Plan {
        self.lone += 1;
        if let Some(Row { pages, seen }) = self.runs.begin(page, self.max, resident) {
            (self.hits, self.last_size, self.last_page) = (0, 1, page);
            let maps = if seen { Maps::Nothing } else { Maps::All };
            return Plan { pages, maps, writes: write, ..Plan::alone(page) };
        }
        let pages = if self.hits > 0 {
            (self.hits + 2).next_power_of_two().max(4)
        } else if page.abs_diff(self.last_page) == 1 {
            2
        } else {
            1
        };
        let pages = pages.min(self.detected_max).max(self.last_size / 2).min(1 << self.max.ilog2());
        self.hits = 0;
        (self.last_size, self.last_page) = (pages, page);
        let first = page & !(pages - 1);
        self.runs.planned(page, first + pages);
        Plan { first, pages, ..Plan::alone(page) }
    }
}

/// The longest cluster for a budget of `budget` pages.
fn largest(budget: u64) -> u64 {
    (budget / CLUSTER_PART).max(CLUSTER_MIN.min(budget / 16)).clamp(1, CLUSTER_MAX)
}

impl Stream {
    /// The plan for the next cluster, from `first` on, with its mark from step `mark` on.
    fn plan(&self, first: u64, mark: u64) -> Plan {
        let &Self { delta, size: pages, writes, name, .. } = self;
        Plan { first, delta, pages, maps: Maps::ButMark(mark), writes, stream: Some(name) }
    }

    /// Whether `page` is the front of the stream, or a little beyond it, or all pages between are
    /// resident.
    fn comes_to(&self, page: u64, resident: impl Fn(u64) -> bool) -> bool {
        let ahead = page.wrapping_sub(self.front) as i64;
        let steps = ahead / self.delta;
        if ahead % self.delta != 0 || steps < 0 {
            return false;
        }
        let skipped = steps as u64;
        let passed = || (0..skipped).all(|step| resident(self.front.wrapping_add_signed(self.delta * step as i64)));
        (skipped <= SKIPPED_MAX && self.proven >= PROVEN_MIN) || (skipped <= RESIDENT_SKIPPED_MAX && passed())
    }
}

/// Faults of no stream that are remembered for each thread: so many streams of one thread are told
/// apart as they begin. Lower: interleaved streams of one thread are not found. Higher: more
/// random faults are near a remembered one, and begin a stream. Source: docs/decisions/0032, point
/// 3.
const TAIL_FAULTS: usize = 4;

/// A page number that is next to no page of a region; pages are below 2^32. Lower: it could be
/// near a page. Higher: distances from it would wrap to small ones. Source: a guess, not measured;
/// any number far beyond 2^32 serves.
const NOWHERE: u64 = u64::MAX / 2;

/// Streams that are remembered. Lower: more streams at a time forget one another: with 32, 64
/// threads in order take 58.8 s in place of 31.4. Higher: a longer search at each fault. Source:
/// `many_threads_in_order_are_streams_as_few_are` in crates/sim/tests/regions.rs.
const STREAMS_MAX: usize = 256;

/// Turns that a stream may miss, in turns of the streams that were heard since. Lower: of streams
/// with unequal speeds the slow ones do not count, and clusters are longer than there is room for.
/// Higher: streams that are over count for longer, and clusters stay short. Source: a guess, not
/// measured.
const TURNS_MISSED: u64 = 4;

/// Threads whose last faults are remembered. Lower: more threads at a time forget one another, and
/// begin no stream. Higher: a longer search at a fault of no stream. Source: as for streams; twice
/// as many, so that threads that touch at random do not end the streams of others.
const THREADS_MAX: usize = 512;

/// Pages of the first cluster of a stream. Lower: more requests until clusters are long. Higher:
/// more pages are read for a stream that is none. Source: a guess, not measured.
const CLUSTER_FIRST: u64 = 4;

/// Pages of the longest cluster: 1 MiB. Lower: more requests in a long stream. Higher: a thread
/// waits longer for the first page of a cluster. Source: docs/decisions/0032, point 3.
const CLUSTER_MAX: u64 = 256;

/// A cluster is at most a 256th of the budget. Lower: a few streams fill the room of passing
/// pages. Higher: more requests with a small budget. Source: docs/decisions/0032, point 3.
const CLUSTER_PART: u64 = 256;

/// Pages of the longest cluster of a small budget, at least, unless that is more than a 16th of
/// it. Lower: more requests with a small budget. Higher: a cluster evicts much of a small budget.
/// Source: a guess, not measured.
const CLUSTER_MIN: u64 = 8;

/// Times that a thread must have come to where it was expected before its stream is proven and may
/// skip pages. Lower: random faults near a stream continue it: 950 requests for nothing. Higher: a
/// stream with gaps begins anew more often. Source: docs/decisions/0032, rejected options.
const PROVEN_MIN: u32 = 2;

/// Pages that a proven stream may skip that are away. Lower: a stream with gaps begins anew.
/// Higher: random faults continue a stream that is over. Source: docs/decisions/0032, rejected
/// options.
const SKIPPED_MAX: u64 = 16;

/// Faults of no stream after which an unused stream is over, if its thread never came to where it
/// was expected. Lower: a slow stream beside random faults begins anew. Higher: random faults
/// continue streams that are over. Source: docs/decisions/0032, point 3.
const SILENT_FAULTS: u64 = 32;

/// Doublings of [`SILENT_FAULTS`] for a proven stream, one each time that its thread came: up to
/// 512 faults. Lower: long streams are forgotten sooner. Higher: random faults continue long
/// streams that are over. Source: docs/decisions/0032, point 3.
const SILENT_DOUBLINGS_MAX: u32 = 4;

/// Resident pages that a stream may skip. Lower: a stream behind a long run of resident pages
/// begins anew. Higher: a longer search at a fault. Source: a guess, not measured.
const RESIDENT_SKIPPED_MAX: u64 = 8192;

/// Pages of the longest distance of a stream: 16 MiB. Lower: fewer strides are found. Higher:
/// random faults have equal distances more often. Source: a guess, not measured.
const STRIDE_MAX: u64 = 4096;

/// Pages of the longest cluster of the detector while the cost of a read is unknown, or a request
/// costs no more than these. Lower: more requests where neighbours are used. Higher: more pages
/// read for nothing. Source: the kernel's `page-cluster`, 3.
const DETECTED_PAGES: u64 = 8;

/// Pages of the longest cluster of the detector where pages cost next to nothing. Lower: more
/// requests on storage with costly requests. Higher: more pages read for nothing, and evicted for.
/// Source: docs/decisions/0032, point 7.
const DETECTED_PAGES_MAX: u64 = 64;

/// Used pages that the detector begins with. Lower: the first clusters are single pages. Higher:
/// the first clusters are longer, up to the longest. Source: the kernel's `swapin_readahead_hits`,
/// which begins with 4.
const HITS_FIRST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: fn(u64) -> bool = |_| false;

    fn ahead() -> RegionReadahead {
        RegionReadahead::new(1 << 20)
    }

    /// Carries out a plan, with all its pages away. Returns its mark.
    fn done(ahead: &mut RegionReadahead, plan: &Plan) -> Option<u64> {
        let at = |step: u64| plan.first.wrapping_add_signed(plan.delta * step as i64);
        let mark = match plan.maps {
            Maps::ButMark(step) => Some(at(step)),
            Maps::Nothing | Maps::All => None,
        };
        ahead.planned(plan, at(plan.pages), mark);
        mark
    }

    #[test]
    fn a_stream_doubles_and_its_mark_asks_for_the_next_cluster() {
        let mut ahead = ahead();
        ahead.fault(100, 1, false, false, NOTHING);
        let plan = ahead.fault(101, 1, false, false, NOTHING);
        assert_eq!((plan.first, plan.delta, plan.pages, plan.maps), (101, 1, 4, Maps::ButMark(2)));
        let mark = done(&mut ahead, &plan).unwrap();
        let plan = ahead.touched(mark, 1, false).unwrap();
        assert_eq!((plan.first, plan.pages, plan.maps), (105, 8, Maps::ButMark(0)));
        let mark = done(&mut ahead, &plan).unwrap();
        assert_eq!(mark, 105);
        assert_eq!(ahead.touched(mark, 1, false).unwrap().first, 113);
    }

    #[test]
    fn backward_and_strided_faults_are_streams() {
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
    fn streams_of_several_threads_and_of_one_are_told_apart() {
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
    fn a_stream_continues_after_resident_pages() {
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
        assert_eq!((plan.pages, plan.first, plan.maps), (8, 99_992, Maps::Nothing));
        ahead.set_pages_of_request(Some(40));
        for page in [210_000, 320_500, 477_000, 510_000, 620_500, 777_000, 810_000] {
            ahead.touched(page, 7, false);
        }
        assert_eq!(
            ahead.fault(200_000, 1, false, false, NOTHING).pages,
            16,
            "where pages cost little, clusters may be longer"
        );
    }

    #[test]
    fn a_mark_that_leaves_untouched_ends_its_stream() {
        let mut ahead = ahead();
        ahead.fault(0, 1, false, false, NOTHING);
        let plan = ahead.fault(1, 1, false, false, NOTHING);
        let mark = done(&mut ahead, &plan).unwrap();
        ahead.wasted(mark);
        assert_eq!(ahead.fault(5, 1, false, false, NOTHING).stream, None);
    }
}
