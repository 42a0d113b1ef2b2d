//! What is simulated of a workload, and what must come of it.

use serde::Serialize;

use crate::figure::Figure;

/// A workload in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Simulate {
    /// Names of the policies to compare, in the order of a report. Empty: those of the simulator's choice.
    pub policies: Vec<String>,
    /// Numbers of threads, each simulated apart; together they read as much each time. Empty: the workload's own.
    pub threads: Vec<u32>,
    /// How many seeds are simulated, from the workload's own on; figures are their means. At least 1.
    pub seeds: u32,
    /// The largest window of the policies that have a fixed one.
    pub readahead_max_bytes: Option<u64>,
    /// What must come out of each policy's run.
    pub expect: Vec<(String, Vec<Figure>)>,
    /// How policies must compare.
    pub ratios: Vec<Ratio>,
    /// What a simulation through a mount must come to, over what is measured.
    pub predict: Vec<Figure>,
}

impl Default for Simulate {
    fn default() -> Self {
        Self {
            policies: Vec::new(),
            threads: Vec::new(),
            seeds: 1,
            readahead_max_bytes: None,
            expect: Vec::new(),
            ratios: Vec::new(),
            predict: Vec::new(),
        }
    }
}

/// A figure of one policy over the same figure of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ratio {
    /// The one.
    pub policy: String,
    /// The other, or `best`: the best of all others.
    pub over: String,
    /// The figure, and what the ratio must be.
    pub figure: Figure,
}
