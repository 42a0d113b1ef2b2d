//! Figures of several policies: a table with a line a figure and a column a policy, and the map
//! that programs read.

use std::fmt::Write as _;

use foreread_workload::Metric;
use serde_json::{Map, Value, json};

const FIGURE_WIDTH: usize = 22;
const VALUE_WIDTH: usize = 17;

/// The columns of a table.
pub(crate) struct Columns {
    width: usize,
}

impl Columns {
    /// Columns with these heads; the first line of the table is added to `text`.
    pub(crate) fn new(text: &mut String, heads: &[&str]) -> Self {
        let longest = heads.iter().map(|head| head.len()).max().unwrap_or(0);
        let columns = Self { width: longest.max(VALUE_WIDTH) };
        columns.line(text, "", heads);
        columns
    }

    /// Adds a line to `text`.
    pub(crate) fn line(&self, text: &mut String, name: &str, values: &[impl AsRef<str>]) {
        let mut line = format!("  {name:FIGURE_WIDTH$}");
        for value in values {
            let _ = write!(line, " {:width$}", value.as_ref(), width = self.width);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A metric's name, for people.
pub(crate) fn name(metric: Metric) -> String {
    metric.key().replace('_', " ")
}

/// A value with its unit; a dash where there is none.
pub(crate) fn shown(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| metric.show(value))
}

/// The figures that have a value, by their keys.
pub(crate) fn map(value: impl Fn(Metric) -> Option<f64>) -> Map<String, Value> {
    let figure = |&metric: &Metric| Some((metric.key().to_owned(), json!(value(metric)?)));
    Metric::ALL.iter().filter_map(figure).collect()
}
