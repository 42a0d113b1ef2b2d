//! One row: a workload or a program, and what was measured of it.
//!
//! - `site`: the storage and the files of a row, and one cold run there. `measure`: all runs.
//! - `figures`: the figures of one run. `column`: a subject's runs, and their medians.
//! - `conditions`: the machine and the programs. `report`: rows as a table or as JSON, judged.

use std::collections::BTreeMap;

use foreread_workload::{Load, Metric};
use serde::Serialize;

use crate::error::Error;
use crate::row::column::Column;

pub(crate) mod column;
pub(crate) mod conditions;
mod figures;
pub(crate) mod measure;
pub mod report;
mod site;

/// The measurements of a workload or of a program.
#[derive(Debug, Serialize)]
pub struct Row {
    pub(crate) workload: Load,
    /// foreread, foreread with readahead off, baselines, then other clients; of a workload that
    /// submits: foreread, then what it is compared with; of a program, its other forms last.
    pub columns: Vec<Column>,
    /// The simulator's figures of foreread, on this device and these processors.
    pub(crate) predicted: BTreeMap<Metric, f64>,
    /// Why runs were void: the machine was too slow for them.
    pub(crate) void: Vec<String>,
}

impl Row {
    /// A row without runs.
    pub(crate) fn new(workload: Load, columns: Vec<Column>) -> Self {
        Self { workload, columns, predicted: BTreeMap::new(), void: Vec::new() }
    }

    /// Keeps the error that ended the runs: one of the machine makes the row void, any other is a
    /// failure of foreread. Only an interruption is passed on.
    pub(crate) fn settle(&mut self, measured: Result<(), Error>) -> Result<(), Error> {
        match measured {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error @ (Error::NoCgroup { .. } | Error::NoCacheDrop { .. } | Error::NotCold { .. })) => {
                self.void.push(error.with_causes());
            }
            Err(error) => self.columns[0].failure = Some(error.with_causes()),
            Ok(()) => {}
        }
        Ok(())
    }

    /// The prediction of `metric` over its measured value.
    pub(crate) fn predicted_over_measured(&self, metric: Metric) -> Option<f64> {
        Some(self.predicted.get(&metric)? / self.columns[0].value(metric)?)
    }

    /// Whether its columns are not those of every row.
    fn has_own_columns(&self) -> bool {
        self.workload.reads().is_none_or(|workload| workload.device.is_submitted_to())
    }

    /// Whether no run was good enough to be judged.
    pub(crate) fn is_void(&self) -> bool {
        self.columns[0].runs.is_empty() && self.columns[0].failure.is_none()
    }
}
