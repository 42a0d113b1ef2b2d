//! A subject's part of a row: its runs, and the median of each figure.

use std::collections::BTreeMap;

use foreread_workload::Metric;
use serde::Serialize;

use crate::error::Error;
use crate::readers::reading::Reading;
use crate::subject::client::Spent;
use crate::subject::server::Counters;

/// A subject's runs.
#[derive(Debug, Serialize)]
pub struct Column {
    /// The subject's name, as in the head of the table.
    pub name: String,
    pub(crate) runs: Vec<Run>,
    /// Why there is no run, or fewer than were asked for.
    pub failure: Option<String>,
}

/// One run of one subject.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) ceiling_mb_per_s: Option<f64>,
    pub(crate) bare_operations_per_s: Option<f64>,
    pub(crate) reading: Reading,
    pub(crate) fetched: Option<Counters>,
    pub(crate) mount: Spent,
    pub(crate) testbed_cpu_s: Option<f64>,
    /// CPUs that other programs of the machine kept busy during the run.
    pub(crate) others_cpus: Option<f64>,
    pub(crate) values: BTreeMap<Metric, f64>,
}

impl Run {
    /// A reading without a mount, and its rates.
    pub(crate) fn of(reading: Reading) -> Self {
        let (operations, bytes) = (reading.operations as f64, reading.bytes as f64);
        let rates = [(Metric::Operations, operations), (Metric::Throughput, bytes / 1e6)];
        let values = rates.map(|(metric, all)| (metric, all / reading.seconds)).into_iter();
        Self {
            ceiling_mb_per_s: None,
            bare_operations_per_s: None,
            fetched: None,
            mount: Spent::default(),
            testbed_cpu_s: None,
            others_cpus: None,
            values: values.filter(|(_, value)| value.is_finite()).collect(),
            reading,
        }
    }

    /// The processor time of mount, readers and testbed for each byte; `None` where the storage is
    /// the user's, whose costs cannot be seen.
    pub(crate) fn cpu_s_per_byte(&self) -> Option<f64> {
        let all = self.mount.cpu_s + self.reading.cpu_s + self.testbed_cpu_s?;
        (self.reading.bytes > 0 && all > 0.0).then(|| all / self.reading.all_bytes() as f64)
    }
}

impl Column {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), runs: Vec::new(), failure: None }
    }

    /// The median of a figure over the runs; `None` if no run has it.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.median(|run| run.values.get(&metric).copied())
    }

    pub(crate) fn median(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.runs.iter().filter_map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 {
            Some(values[middle])
        } else {
            Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?))
        }
    }

    /// Adds a run, or keeps the reason why there is none.
    pub(crate) fn take(&mut self, run: Result<Run, Error>) -> Result<(), Error> {
        match run {
            Ok(run) => self.runs.push(run),
            // These say nothing about the subject.
            Err(error @ (Error::Interrupted | Error::NoCgroup { .. } | Error::NoCacheDrop { .. })) => {
                return Err(error);
            }
            Err(error) => self.failure = Some(error.with_causes()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[f64]) -> Column {
        let run = |&value: &f64| Run { values: BTreeMap::from([(Metric::Amp, value)]), ..Run::of(Reading::default()) };
        Column { runs: values.iter().map(run).collect(), ..Column::new("x") }
    }

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_the_middle_two() {
        assert_eq!(column(&[]).value(Metric::Amp), None);
        assert_eq!(column(&[3.0]).value(Metric::Amp), Some(3.0));
        assert_eq!(column(&[3.0, 1.0]).value(Metric::Amp), Some(2.0));
        assert_eq!(column(&[9.0, 1.0, 2.0]).value(Metric::Amp), Some(2.0));
        assert_eq!(column(&[3.0]).value(Metric::Late), None);
    }
}
