//! Runs one cell.
//!
//! ```text
//!   0      ramp       from      steady       until   pause        again
//!   |------------------|-----------------------|................|----------|
//! ```
//!
//! Spans are multiples of a *round*: the time in which each reader reads one record at the
//! feasible rate, at least a round trip. They are just long enough for a steady state, so that the
//! largest cells take seconds. [`Length::Short`] is for tests that pin many cells: fewer rounds
//! where a round has many reads.

use foreread_device::Profile;
use foreread_workload::{Descriptor, Op, Pattern};
use serde::Serialize;

use super::cell::{Cell, Order};
use super::feasible::Feasible;
use crate::error::Error;
use crate::outcome::course::{Course, Watch};
use crate::outcome::tally::Tally;
use crate::scenario::change::Change;
use crate::scenario::{Reads, Scenario};
use crate::stack::policy_name::PolicyName;

/// The figures of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// The cell.
    pub cell: Cell,
    /// Its limits.
    pub feasible: Feasible,
    /// Throughput over feasible, in the steady state.
    pub of_feasible: f64,
    /// Bytes fetched over bytes asked for; pages still ahead at the end are in neither.
    pub amp: f64,
    /// Jain's index of what each reader read.
    pub fairness: f64,
    /// What the slowest reader read over what the fastest did.
    pub slowest_of_fastest: f64,
    /// The most that was charged, over the budget.
    pub of_budget: f64,
    /// Round trips until half of the feasible throughput: from the start, and after the pause.
    /// `None`: it was never reached.
    pub ramp: Option<f64>,
    /// The same after a pause.
    pub ramp_again: Option<f64>,
    /// 99 of 100 reads took no longer, in ms.
    pub read_p99_ms: f64,
    /// Requests to the storage.
    pub requests: u64,
    /// Throughput and p99 over those of the same readers without a policy; random orders only.
    pub of_none: Option<(f64, f64)>,
}

/// When each span of a run ends, in ns.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "each is a time in ns")]
struct Spans {
    bin_ns: u64,
    from_ns: u64,
    until_ns: u64,
    again_ns: u64,
    end_ns: u64,
}

/// How long a cell runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Length {
    /// Long enough for a steady state.
    Full,
    /// As long where reads are few, and otherwise for fewer rounds: figures to compare with those
    /// of the same length.
    Short,
}

impl Spans {
    fn of(cell: &Cell, feasible: f64, length: Length) -> Self {
        let round_trip_ns = cell.round_trip_ns();
        let record = cell.order.record_bytes();
        let round_ns = round_trip_ns.max((u64::from(cell.readers) as f64 * record as f64 * 1e9 / feasible) as u64);
        let bin_ns = (round_trip_ns / BINS as u64).max(1);
        let whole = |ns: u64| ns.next_multiple_of(bin_ns);
        let all = RAMP_ROUNDS + STEADY_ROUNDS;
        let (rounds, reads_max) = match length {
            Length::Full => (all, READS_MAX),
            Length::Short => {
                let reads = feasible * round_ns as f64 / 1e9 / record as f64;
                (((READS_SHORT as f64 / reads) as u64).clamp(ROUNDS_SHORT, all), READS_SHORT)
            }
        };
        // On a quick link as many rounds are over before anything that is measured by time.
        let most_ns = (reads_max as f64 * record as f64 * 1e9 / feasible) as u64;
        let from_ns = whole((RAMP_ROUNDS * rounds / all * round_ns).max(RAMP_NS.min(most_ns / 2)));
        let until_ns = from_ns + whole((STEADY_ROUNDS * rounds / all * round_ns).max(STEADY_NS.min(most_ns)));
        let again_ns = until_ns + whole(PAUSE_ROUND_TRIPS * round_trip_ns);
        Self { bin_ns, from_ns, until_ns, again_ns, end_ns: again_ns + whole(AGAIN_ROUND_TRIPS * round_trip_ns) }
    }
}

impl Cell {
    /// Simulates the cell.
    pub fn run(&self, length: Length) -> Result<Outcome, Error> {
        let feasible = Feasible::of(self);
        let spans = Spans::of(self, feasible.rate(), length);
        let tally = self.simulate(PolicyName::Foreread, spans, feasible.rate())?;
        let course = course(&tally);
        let half = (feasible.rate() / 2.0 * (spans.bin_ns * BINS as u64) as f64 / 1e9) as u64;
        let round_trips = |from_ns: u64| {
            let reached_ns = course.reaches_ns(from_ns, BINS, half)?;
            Some(reached_ns as f64 / self.round_trip_ns() as f64)
        };
        let fetched = tally.fetched_pages().saturating_sub(course.ahead_pages());
        let read_p99_ms = course.took_percentile_ns(99.0) as f64 / 1e6;
        let of_none = if self.order.is_random() {
            let none = self.simulate(PolicyName::None, spans, feasible.rate())?;
            let none = self::course(&none);
            let p99 = read_p99_ms * 1e6 / none.took_percentile_ns(99.0).max(1) as f64;
            Some((course.steady_rate() / none.steady_rate().min(feasible.rate()), p99))
        } else {
            None
        };
        Ok(Outcome {
            cell: *self,
            feasible,
            of_feasible: course.steady_rate() / feasible.rate(),
            amp: fetched as f64 / tally.asked_pages().max(1) as f64,
            fairness: course.fairness(),
            slowest_of_fastest: course.slowest_of_fastest(),
            of_budget: course.charged_max_bytes() as f64 / self.budget_bytes as f64,
            ramp: round_trips(0),
            ramp_again: round_trips(spans.again_ns),
            read_p99_ms,
            requests: tally.requests(),
            of_none,
        })
    }

    fn simulate(&self, policy: PolicyName, spans: Spans, feasible: f64) -> Result<Tally, Error> {
        let watch = Watch {
            bin_ns: spans.bin_ns,
            steady_ns: (spans.from_ns, spans.until_ns),
            pause_ns: Some((spans.until_ns, spans.again_ns)),
        };
        self.scenario(feasible, spans.end_ns, Vec::new(), watch).run(policy)
    }

    /// The readers of the cell, until `end_ns`. The link carries at most `feasible` for them.
    pub(super) fn scenario(&self, feasible: f64, end_ns: u64, changes: Vec<Change>, watch: Watch) -> Scenario<'static> {
        // Four times what is feasible: no file ends before the run.
        let bytes = (4.0 * feasible * end_ns as f64 / 1e9) as u64;
        let record = self.order.record_bytes();
        let readers = u64::from(self.readers);
        let (sizes, reads): (Vec<u64>, Vec<Box<dyn Iterator<Item = Op>>>) = if self.order.is_random() {
            // A sixteenth of the file is read, so what is there by chance is little.
            let records = (4 * bytes / record).max(16 * readers).max(RECORDS_MIN).next_power_of_two();
            let of = |reader: u64| Box::new(random(reader, readers, records, record)) as Box<dyn Iterator<Item = Op>>;
            (vec![records * record], (0..readers).map(of).collect())
        } else {
            let records = (bytes / readers / record).max(1_024);
            let is_backward = self.order == Order::Backward;
            let of = |reader: u64| {
                let at = move |nth: u64| if is_backward { records - 1 - nth } else { nth };
                let ops = (0..records).map(move |nth| op(reader as u32, at(nth), record));
                Box::new(ops) as Box<dyn Iterator<Item = Op>>
            };
            (vec![records * record; readers as usize], (0..readers).map(of).collect())
        };
        Scenario {
            sizes,
            extent_bytes: None,
            reads: Reads::Each(reads),
            tree: None,
            region: None,
            descriptor: if self.order.is_random() { Descriptor::Shared } else { Descriptor::Own },
            pattern: Pattern::Sequential { record_bytes: record as u32, passes: 1 },
            beside: None,
            until_ns: end_ns,
            memory_bytes: self.budget_bytes,
            readahead_max_bytes: record,
            device: Profile::ObjectStore(self.store()),
            page_cache_bytes: None,
            kernel_window_bytes: record,
            picture: false,
            changes,
            watch: Some(watch),
            tier: None,
            chunks: Vec::new(),
            busy: None,
        }
    }
}

pub(super) fn course(tally: &Tally) -> &Course {
    tally.course().expect("the scenario is watched")
}

fn op(file: u32, record: u64, record_bytes: u64) -> Op {
    Op { file, offset: record * record_bytes, len: record_bytes as u32, not_before_ns: 0 }
}

/// The reads of one of `readers`. Together they read each of `records` at most once; `records` is
/// a power of two.
fn random(reader: u64, readers: u64, records: u64, record_bytes: u64) -> impl Iterator<Item = Op> {
    let mask = records - 1;
    let half = records.ilog2() / 2 + 1;
    (reader..records).step_by(readers as usize).map(move |nth| {
        // Each step is a bijection of the numbers below a power of two.
        // The first record of a file is nothing that a random reader begins with.
        let mut at = nth ^ (mask / 3);
        for odd in [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            at = u64::wrapping_mul(at ^ (at >> half), odd) & mask;
        }
        op(0, at ^ (at >> half), record_bytes)
    })
}

/// Records of a file that is read at random, at least. Lower: some lie beside each other by
/// chance. Higher: nothing, but memory. Source: chosen here.
const RECORDS_MIN: u64 = 1 << 20;

/// Bins of a round trip. Lower: a ramp is known less exactly. Higher: single records show. Source:
/// chosen here.
const BINS: usize = 4;

/// Rounds that are not counted at the start. Lower: the ramp counts. Higher: cells take longer.
/// Source: four times the longest ramp that is wanted.
const RAMP_ROUNDS: u64 = 20;

/// Rounds of the steady state. Lower: single bursts count. Higher: cells take longer. Source:
/// chosen here: a burst more or less is then 3 %.
const STEADY_ROUNDS: u64 = 40;

/// The same in ns, where that is longer. Lower: what policy has in flight when the link is slow,
/// 2 MiB for each of four parts of sixteen readers, is more than it carries in that time. Higher:
/// cells take longer. Source: chosen here.
const RAMP_NS: u64 = 1_000_000_000;

/// The steady state in ns, where that is longer than its rounds.
const STEADY_NS: u64 = 2_000_000_000;

/// Reads of a steady state that is longer than its rounds. Lower: what policy measures in time is
/// not seen on quick links. Higher: cells take longer. Source: chosen here.
const READS_MAX: u64 = 100_000;

/// Reads of a short run, where that has more than [`ROUNDS_SHORT`]. Lower: runs of many readers do
/// not become steady. Higher: tests take longer. Source: chosen here.
const READS_SHORT: u64 = 20_000;

/// Rounds of a short run at least, the ramp counted. Lower: hardly anything but the ramp is seen.
/// Higher: the largest cells take longer. Source: chosen here.
const ROUNDS_SHORT: u64 = 8;

/// Round trips of the pause. Lower: requests of before are under way at its end. Higher: cells
/// take longer. Source: chosen here.
const PAUSE_ROUND_TRIPS: u64 = 10;

/// Round trips after the pause. Lower: a ramp of the length that is wanted is cut off. Higher:
/// cells take longer. Source: the wanted ramp, and one more.
const AGAIN_ROUND_TRIPS: u64 = 6;
