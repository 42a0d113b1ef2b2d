//! `foreread simulate --seeds`: a search for bugs.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use foreread_sim::search;

use crate::failure::Failure;
use crate::parallel::on_all_cores;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// `FIRST..LAST`, both inclusive.
pub(super) fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let parsed = text.split_once("..").and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    parsed.filter(|seeds| !seeds.is_empty()).ok_or_else(|| "wanted FIRST..LAST, for instance 1..10000".to_owned())
}

/// Runs every seed, and reports those that break a rule.
pub(super) fn run(seeds: &RangeInclusive<u64>, faults: bool) -> Result<ExitCode, Failure> {
    let all: Vec<u64> = seeds.clone().collect();
    let progress = Progress::spinner("searching");
    let (reads, requests) = (AtomicU64::new(0), AtomicU64::new(0));
    let found = on_all_cores(&all, |&seed| match search::run(seed, faults) {
        Ok(tally) => {
            reads.fetch_add(tally.reads(), Ordering::Relaxed);
            requests.fetch_add(tally.requests(), Ordering::Relaxed);
            None
        }
        Err(violation) => Some((seed, violation)),
    });
    drop(progress);
    let found: Vec<_> = found.into_iter().flatten().collect();
    for (seed, violation) in &found {
        let with = if faults { " --faults" } else { "" };
        eprintln!("seed {seed}: {violation}; again with `foreread simulate --seeds {seed}..{seed}{with}`");
    }
    let (reads, requests) = (reads.into_inner(), requests.into_inner());
    let (seeds, violations) = (all.len(), found.len());
    output::line(format_args!("{seeds} seeds, {violations} violations ({reads} reads, {requests} requests)"))?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_seeds() {
        assert_eq!(seeds("3..5"), Ok(3..=5));
        assert!(seeds("5..3").is_err() && seeds("5").is_err() && seeds("a..b").is_err());
    }
}
