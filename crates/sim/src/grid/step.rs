//! Links that change while they are read from, and how soon policy makes use of what they are
//! then.
//!
//! ```text
//!   0      ramp, steady      step          the link has changed
//!   |------------------------|===|------------------------------|
//!                                ^ from here on each window has its part of what is feasible
//! ```
//!
//! A step makes the first byte or the bandwidth of all ten times as much or as little, or leaves
//! half of the bandwidth: another tenant has the rest.

use serde::Serialize;

use super::cell::Cell;
use super::feasible::Feasible;
use super::run::course;
use super::wanted::OF_FEASIBLE_MIN;
use crate::error::Error;
use crate::outcome::course::Watch;
use crate::scenario::change::Change;
use crate::stack::policy_name::PolicyName;

/// What a link becomes in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// First bytes come after ten times as long.
    Slower,
    /// First bytes come after a tenth of the time.
    Quicker,
    /// The link carries a tenth.
    Narrower,
    /// The link carries ten times as much.
    Wider,
    /// Another tenant has half of the link.
    Tenant,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 5] = [Self::Slower, Self::Quicker, Self::Narrower, Self::Wider, Self::Tenant];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Quicker => "quicker",
            Self::Narrower => "narrower",
            Self::Wider => "wider",
            Self::Tenant => "tenant",
        }
    }

    /// What `cell` is after it.
    pub fn of(self, cell: &Cell) -> Cell {
        let Cell { first_byte_ns, total_rate, .. } = *cell;
        match self {
            Self::Slower => Cell { first_byte_ns: first_byte_ns * 10, ..*cell },
            Self::Quicker => Cell { first_byte_ns: first_byte_ns / 10, ..*cell },
            Self::Narrower => Cell { total_rate: total_rate / 10, ..*cell },
            Self::Wider => Cell { total_rate: total_rate * 10, ..*cell },
            Self::Tenant => Cell { total_rate: total_rate / 2, ..*cell },
        }
    }
}

/// What became of a cell after a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Recovery {
    /// Throughput over feasible before the step.
    pub before: f64,
    /// The same in the last third of the time after it.
    pub after: f64,
    /// Time after the step from which on each window has the part of the feasible throughput that
    /// is wanted, in ns. `None`: the last window has less.
    pub took_ns: Option<u64>,
    /// The most time that it may take.
    pub wanted_ns: u64,
}

impl Recovery {
    /// Whether it is as wanted.
    pub fn holds(&self) -> bool {
        self.took_ns.is_some_and(|took_ns| took_ns <= self.wanted_ns)
    }
}

impl Cell {
    /// Simulates the cell with a step in mid-run.
    pub fn run_step(&self, step: Step) -> Result<Recovery, Error> {
        let then = step.of(self);
        let (before, after) = (Feasible::of(self).rate(), Feasible::of(&then).rate());
        let wanted_ns = WANTED_NS.max(WANTED_ROUND_TRIPS * then.round_trip_ns());
        let bin_ns = wanted_ns / (2 * WINDOW_BINS as u64);
        let whole = |ns: u64| ns.next_multiple_of(bin_ns);
        let at_ns = whole(BEFORE_NS.max(BEFORE_ROUND_TRIPS * self.round_trip_ns()));
        let end_ns = at_ns + whole(3 * wanted_ns);
        let changes = vec![Change { at_ns, device: then.store() }];
        let run = |steady_ns, changes| {
            let watch = Watch { bin_ns, steady_ns, pause_ns: None };
            self.scenario(before.max(after), end_ns, changes, watch).run(PolicyName::Foreread)
        };
        let tally = run((end_ns - wanted_ns, end_ns), changes)?;
        let course = course(&tally);
        let window = (after * WANTED_PART * (WINDOW_BINS as u64 * bin_ns) as f64 / 1e9) as u64;
        let half_ns = whole(at_ns / 2);
        let bytes_before = course.bytes_between(half_ns, at_ns) as f64;
        Ok(Recovery {
            before: bytes_before * 1e9 / (at_ns - half_ns) as f64 / before,
            after: course.steady_rate() / after,
            took_ns: course.settles_ns(at_ns, end_ns, WINDOW_BINS, window),
            wanted_ns,
        })
    }
}

/// The part of what is feasible that is wanted after a step: that of a link that never changed.
const WANTED_PART: f64 = OF_FEASIBLE_MIN;

/// The most time until then, in ns, where ten round trips take less.
const WANTED_NS: u64 = 5_000_000_000;

/// The most round trips until then, where they take longer.
const WANTED_ROUND_TRIPS: u64 = 10;

/// Time before the step, in ns. Lower: the link is not known when it changes. Higher: tests take
/// longer. Source: chosen here.
const BEFORE_NS: u64 = 4_000_000_000;

/// The same in round trips, where they take longer.
const BEFORE_ROUND_TRIPS: u64 = 20;

/// Bins of a window, which is half of the most time that is wanted: 2.5 s, or five round trips.
/// Lower: a burst and the pause after it count as two. Higher: the time is known less exactly.
/// Source: chosen here; at 10 MB/s a second has two parts, or none.
const WINDOW_BINS: usize = 20;
