//! How a workload is simulated, and the expected figures.

use serde::Serialize;

use crate::figure::Figure;

/// A workload in virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Simulate {
    /// Names of the policies to compare, in the order of a report. Empty: the simulator's choice.
    pub policies: Vec<String>,
    /// Numbers of threads, each simulated apart; the amount read is the same each time. Empty: the
    /// workload's own.
    pub threads: Vec<u32>,
    /// Number of seeds to simulate, from the workload's own on; figures are means. At least 1.
    pub seeds: u32,
    /// The largest window of policies with a fixed one.
    pub readahead_max_bytes: Option<u64>,
    /// The expected figures of each policy.
    pub expect: Vec<(String, Vec<Figure>)>,
    /// The expected ratios between policies.
    pub ratios: Vec<Ratio>,
    /// The expected ratios of a simulation through a mount to the measurement.
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
    /// The policy.
    pub policy: String,
    /// The policy that it is compared with, or `best`: the best of all others.
    pub over: String,
    /// The figure, and the expected ratio.
    pub figure: Figure,
}
