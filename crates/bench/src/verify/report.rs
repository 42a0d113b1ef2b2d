//! The result of a run: what was compared, and what is not right.

use serde::Serialize;
use serde_json::Value;

use crate::verify::board::State;
use crate::verify::finding::{Finding, Kind};
use crate::verify::pattern::Pattern;

/// Places that a report names of each kind. Others are counted.
const PLACES_MAX: usize = 100;

/// What was compared in one pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Compared {
    /// The pattern.
    pub pattern: Pattern,
    /// Reads, and listings.
    pub reads: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Bytes of reads that begin where the read before ended, in the same file.
    pub sequential_bytes: u64,
    /// The longest read, in nanoseconds.
    pub longest_ns: u64,
}

/// A place that is not right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The first finding there.
    #[serde(flatten)]
    pub finding: Finding,
    /// How often it was found.
    pub times: u64,
}

/// All findings of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Found {
    /// How many there are.
    pub count: u64,
    /// The first places, by path and offset.
    pub places: Vec<Place>,
}

/// What the engine of a foreread mount says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Engine {
    /// Bytes that the mount was asked for during the run: those that the kernel did not hold.
    pub served_bytes: u64,
    /// Its figures at the end, as of `foreread stats --json`; `null` if it did not answer.
    pub stats: Value,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The directory that was read.
    pub dir: String,
    /// What it was compared with.
    pub against: String,
    /// The seed of all plans.
    pub seed: u64,
    /// How many processes read.
    pub processes: u32,
    /// From the first read to the last, in seconds.
    pub seconds: f64,
    /// The files of the source.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Reads, and listings.
    pub reads: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Bytes of reads that begin where the read before ended, in the same file.
    pub sequential_bytes: u64,
    /// The same, of each pattern.
    pub patterns: Vec<Compared>,
    /// Bytes, lengths and names that differ from the source.
    pub wrong: Found,
    /// Calls that failed.
    pub errors: Found,
    /// Calls that failed because their object was replaced, where that is expected.
    pub stale: u64,
    /// Calls that took longer than the bound.
    pub slow: Found,
    /// Calls that did not return.
    pub stuck: Found,
    /// Processes that survived SIGKILL, in a call that the kernel does not interrupt.
    pub left_pids: Vec<u32>,
    /// Absent where the directory is not of a foreread mount.
    pub engine: Option<Engine>,
}

impl Report {
    /// Nothing was wrong, failed or stuck. Slow reads do not count.
    pub fn is_clean(&self) -> bool {
        self.wrong.count + self.errors.count + self.stuck.count == 0
    }
}

impl Found {
    /// `count` findings, of which some are described.
    pub(crate) fn of(kind: Kind, count: u64, findings: &[Finding]) -> Self {
        let mut sorted: Vec<&Finding> = findings.iter().filter(|finding| finding.kind == kind).collect();
        let place = |finding: &Finding| (finding.path.clone(), finding.differs_at.unwrap_or(finding.offset));
        sorted.sort_by_cached_key(|finding| (place(finding), finding.errno, finding.process, finding.task));
        let mut places: Vec<Place> = Vec::new();
        for finding in sorted {
            match places.last_mut() {
                Some(last) if place(&last.finding) == place(finding) && last.finding.errno == finding.errno => {
                    last.times += 1;
                }
                _ => places.push(Place { finding: finding.clone(), times: 1 }),
            }
        }
        places.truncate(PLACES_MAX);
        Self { count, places }
    }
}

/// The sums of all workers, by pattern.
pub(crate) fn compared(states: &[State]) -> Vec<Compared> {
    let sum = |index: usize, pattern: Pattern| {
        let mut sum = Compared { pattern, reads: 0, bytes: 0, sequential_bytes: 0, longest_ns: 0 };
        for tally in states.iter().map(|state| &state.tallies[index]) {
            sum.reads += tally.reads;
            sum.bytes += tally.bytes;
            sum.sequential_bytes += tally.sequential_bytes;
            sum.longest_ns = sum.longest_ns.max(tally.longest_ns);
        }
        sum
    };
    Pattern::ALL.iter().enumerate().map(|(index, pattern)| sum(index, *pattern)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::finding::Operation;
    use crate::verify::tree::Tree;
    use crate::verify::worker::finding;

    #[test]
    fn findings_of_one_place_are_shown_once() {
        let wrong = |process, offset, differs_at| Finding {
            differs_at: Some(differs_at),
            ..finding(
                process,
                &State::default(),
                &Tree::default(),
                Kind::Wrong,
                Operation::Read,
                (0, offset, 10),
                String::new(),
            )
        };
        let findings = [wrong(1, 95, 100), wrong(0, 96, 100), wrong(0, 5, 9)];
        let found = Found::of(Kind::Wrong, 7, &findings);
        let places: Vec<_> = found.places.iter().map(|place| (place.finding.differs_at, place.times)).collect();
        assert_eq!((found.count, places), (7, vec![(Some(9), 1), (Some(100), 2)]));
        assert_eq!(found.places[1].finding.process, 0);
        assert_eq!(Found::of(Kind::Error, 0, &findings).places, []);
    }
}
