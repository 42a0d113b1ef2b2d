//! The options of all rows that are workloads.

use foreread_workload::Baseline;

use crate::setup::Setup;
use crate::subject::client::{Storage, Subject};

/// How workloads are measured, and beside which subjects.
pub struct Options<'a> {
    /// What rows have in common with other measurements.
    pub setup: Setup<'a>,
    /// Baselines with a column. Its cells are empty in rows whose workload does not name it.
    pub baselines: &'a [Baseline],
    /// Command lines of other clients.
    pub against: &'a [String],
    /// A server that holds the data of programs, with the testbed's credentials, and answers
    /// behind a testbed.
    pub upstream: Option<&'a str>,
    /// The user's own storage in place of a testbed.
    pub user: Option<Storage>,
    /// Whether to measure what the machine can do before each run. Without it, ratios are missing
    /// and no run is void.
    pub yardsticks: bool,
    /// Whether threads read local files, in place of `io_uring`.
    pub local_threads: bool,
}

impl Options<'_> {
    /// The heads of the table's columns: each subject, then the simulator's prediction.
    pub fn columns(&self) -> Vec<String> {
        let subjects = Subject::all(self.baselines, self.against);
        subjects.iter().map(Subject::name).chain(["predicted".to_owned()]).collect()
    }
}
