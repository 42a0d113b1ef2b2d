//! One row of `foreread simulate`: a workload and its runs under each policy.

use foreread_sim::Tally;
use foreread_sim::optimum::Least;
use foreread_workload::{Metric, Workload};

/// One workload, with one number of threads, and its runs.
pub(crate) struct Row {
    pub(crate) workload: Workload,
    pub(crate) columns: Vec<Column>,
    /// The least time that any policy could take, for the workload's own seed.
    pub(crate) least: Option<Least>,
}

/// The runs of a workload under one policy, one for each seed.
pub(crate) struct Column {
    /// The policy, and the scheduler below it.
    pub(crate) name: String,
    pub(crate) runs: Vec<Tally>,
}

impl Column {
    /// The mean of a figure over all runs.
    pub(crate) fn figure(&self, metric: Metric) -> Option<f64> {
        let values = self.runs.iter().map(|run| run.figure(metric)).collect::<Option<Vec<f64>>>()?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The time of the first run over the least; `None` if the run did not read everything.
    pub(crate) fn over_least(&self, least: Least) -> Option<f64> {
        let run = self.runs.first().filter(|run| run.reads() == least.reads)?;
        Some(run.elapsed_ns() as f64 / least.ns.max(1) as f64)
    }
}
