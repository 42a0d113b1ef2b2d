//! What a cell must reach.

use super::run::Outcome;

impl Outcome {
    /// Each figure that is not as wanted: its name, and what it is.
    pub fn misses(&self) -> Vec<(&'static str, String)> {
        let mut misses = Vec::new();
        let mut want = |name, holds: bool, is: String| {
            if !holds {
                misses.push((name, is));
            }
        };
        if let Some((throughput, p99)) = self.of_none {
            want("of-none", throughput >= OF_NONE_MIN, format!("{throughput:.3}"));
            want("p99-of-none", p99 <= P99_OF_NONE_MAX, format!("{p99:.3}"));
            want("amp", self.amp <= AMP_RANDOM_MAX, format!("{:.4}", self.amp));
        } else {
            want("of-feasible", self.of_feasible >= OF_FEASIBLE_MIN, format!("{:.3}", self.of_feasible));
            want("amp", self.amp <= AMP_MAX, format!("{:.4}", self.amp));
        }
        want("fairness", self.fairness >= FAIRNESS_MIN, format!("{:.3}", self.fairness));
        want("budget", self.of_budget <= 1.0, format!("{:.3}", self.of_budget));
        for (name, ramp) in [("ramp", self.ramp), ("ramp-again", self.ramp_again)] {
            let holds = ramp.is_some_and(|round_trips| round_trips <= RAMP_ROUND_TRIPS_MAX);
            want(name, holds, ramp.map_or_else(|| "never".to_owned(), |ramp| format!("{ramp:.1}")));
        }
        misses
    }
}

/// The least part of the feasible throughput, where readers read in order.
pub(super) const OF_FEASIBLE_MIN: f64 = 0.85;

/// The least part of the throughput without policy, where nothing can be read ahead.
const OF_NONE_MIN: f64 = 0.95;

/// The most that the p99 of reads may be, over that without policy.
const P99_OF_NONE_MAX: f64 = 1.1;

/// The most that may be fetched over what is asked for, where readers read in order.
const AMP_MAX: f64 = 1.02;

/// The same where they do not: nothing in vain but a rounding error.
const AMP_RANDOM_MAX: f64 = 1.0005;

/// The least fairness among equal readers, as Jain's index.
const FAIRNESS_MIN: f64 = 0.95;

/// The longest ramp to half of the feasible throughput, in round trips.
const RAMP_ROUND_TRIPS_MAX: f64 = 5.0;
