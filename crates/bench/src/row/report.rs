//! The result of rows: a table for people, JSON for programs, and the verdict.
//!
//! ```text
//!  workload        figure                 wanted      foreread     readahead off   rclone
//!  backward-1m     throughput             >= 500 MB/s 612 MB/s ok  4.1 MB/s        22 MB/s
//!                  amp                                1.01         1.00            3.2
//! ```
//!
//! A wanted figure that was not measured is missed, unless it cannot be measured: without a
//! testbed there is no ceiling and no bare client.

use std::fmt::Write as _;

use foreread_workload::{Baseline, Figure, Load, Metric, Pattern, Program, Visit, Workload};
use serde::Serialize;
use serde_json::json;

use crate::row::Row;
use crate::row::conditions::Conditions;

/// Widths of the fixed columns; a longer text pushes the rest of its line to the right.
const NAME_WIDTH: usize = 19;
const FIGURE_WIDTH: usize = 22;
const WANTED_WIDTH: usize = 12;
const VALUE_WIDTH: usize = 15;

/// CPUs that other programs keep busy, from which a run is marked as disturbed. Idle machines show
/// a few hundredths.
const DISTURBANCE_CPUS: f64 = 0.2;

/// How a figure came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As wanted.
    Met,
    /// Not as wanted, or not measured.
    Missed,
    /// The machine was too slow in every run.
    Void,
    /// Cannot be measured on this storage.
    Unmeasurable,
}

/// One line of a row.
struct Line {
    metric: Metric,
    wanted: Option<Figure>,
}

/// The figures shown of a row: those that are wanted, then those that explain them.
fn lines(row: &Row) -> Vec<Line> {
    let expect = row.workload.expect();
    let extra = match &row.workload {
        Load::Reads(workload) => of_reads(workload),
        Load::Program(program) => of_program(program),
        _ => Vec::new(),
    };
    let extra = extra.into_iter().filter(|metric| !expect.iter().any(|figure| figure.metric == *metric));
    expect
        .iter()
        .map(|figure| Line { metric: figure.metric, wanted: Some(*figure) })
        .chain(extra.map(|metric| Line { metric, wanted: None }))
        .collect()
}

/// The figures that explain those of a workload.
fn of_reads(workload: &Workload) -> Vec<Metric> {
    let pace = match workload.pattern {
        Pattern::Random { .. } | Pattern::MmapRandom { .. } | Pattern::Strided { .. } => Metric::Operations,
        _ => Metric::Throughput,
    };
    let beside = workload.beside.iter().flat_map(|_| [Metric::BesideThroughput, Metric::BesideReadP99]);
    // The effect of the fair queue shows in the slowest reader.
    let fair = workload.threads > 1 && workload.baselines.contains(&Baseline::FairQueueOff);
    let beside = beside.chain(fair.then_some(Metric::SlowestOfFastest));
    let extra = match workload.pattern {
        _ if workload.device.is_submitted_to() => vec![pace, Metric::ReadP50, Metric::ReadP99, Metric::Rss],
        // Requests show a change where times do not.
        Pattern::Walk { visit: Visit::Names | Visit::Attributes } => {
            vec![Metric::Seconds, Metric::Entries, Metric::ListsPerDirectory, Metric::StatsPerEntry, Metric::Rss]
        }
        Pattern::Walk { .. } | Pattern::Epochs { .. } => vec![
            Metric::FilesRead,
            Metric::ListsPerDirectory,
            Metric::StatsPerEntry,
            Metric::ReadsPerFile,
            Metric::Waste,
            Metric::Rss,
        ],
        _ => vec![pace, Metric::Amp, Metric::RequestsPerGib, Metric::Rss],
    };
    beside.chain(extra).collect()
}

/// The figures that explain those of a program.
fn of_program(program: &Program) -> Vec<Metric> {
    let own = program.own.iter().flat_map(|_| [Metric::SecondsOfOwn, Metric::FetchedOfOwn]);
    let again = program.again.then_some([Metric::Again, Metric::AgainGets, Metric::AgainNames]);
    let first = [Metric::Seconds, Metric::Gets, Metric::Heads, Metric::Lists, Metric::Fetched];
    first.into_iter().chain(own).chain(again.into_iter().flatten()).chain([Metric::Cpu, Metric::Rss]).collect()
}

/// How `figure` came out in `row`.
fn verdict(row: &Row, figure: Figure) -> Verdict {
    let needs_yardstick = matches!(figure.metric, Metric::ThroughputOfCeiling | Metric::OperationsOfBare);
    let of_names = matches!(figure.metric, Metric::Heads | Metric::Lists | Metric::AgainNames);
    let needs_testbed = of_names || matches!(figure.metric, Metric::SecondsOfOwn | Metric::FetchedOfOwn);
    let subject = &row.columns[0];
    match subject.value(figure.metric) {
        _ if row.is_void() => Verdict::Void,
        // A good run does not make up for one that failed.
        _ if subject.failure.is_some() => Verdict::Missed,
        Some(value) if figure.met(value) => Verdict::Met,
        None if needs_yardstick && subject.runs.iter().all(|run| run.ceiling_mb_per_s.is_none()) => {
            Verdict::Unmeasurable
        }
        None if needs_testbed && subject.runs.iter().all(|run| run.testbed_cpu_s.is_none()) => Verdict::Unmeasurable,
        _ => Verdict::Missed,
    }
}

/// The first line of the table.
pub fn header(columns: &[String]) -> String {
    let mut text = format!("{:NAME_WIDTH$} {:FIGURE_WIDTH$} {:WANTED_WIDTH$}", "workload", "figure", "wanted");
    for column in columns {
        let _ = write!(text, " {column:VALUE_WIDTH$}");
    }
    text.trim_end().to_owned()
}

/// The simulator's prediction, and whether it is near enough if the workload asks for that.
fn predicted(row: &Row, metric: Metric) -> String {
    let Some(value) = row.predicted.get(&metric) else { return "-".to_owned() };
    let wanted = row.workload.predict().iter().filter(|figure| figure.metric == metric);
    let over = row.predicted_over_measured(metric);
    let near = wanted.map(|figure| over.is_some_and(|over| figure.met(over))).reduce(|all, one| all && one);
    let judged = near.map_or("", |near| if near { " ok" } else { " MISS" });
    format!("{}{judged}", metric.show(*value))
}

/// A row's lines, with its failures below them.
pub fn table(row: &Row) -> String {
    let mut text = String::new();
    if row.has_own_columns() {
        let columns: Vec<String> = row.columns.iter().map(|column| column.name.clone()).collect();
        let _ = writeln!(text, "{}", header(&columns));
    }
    let mut name = row.workload.name();
    for Line { metric, wanted } in lines(row) {
        let label = metric.key().replace('_', " ");
        let shown = wanted.map(|figure| figure.to_string()).unwrap_or_default();
        let mut line = format!("{name:NAME_WIDTH$} {label:FIGURE_WIDTH$} {shown:WANTED_WIDTH$}");
        for (index, column) in row.columns.iter().enumerate() {
            let value = column.value(metric).map_or_else(|| "-".to_owned(), |value| metric.show(value));
            let judged = match wanted.filter(|_| index == 0).map(|figure| verdict(row, figure)) {
                Some(Verdict::Met) => " ok",
                Some(Verdict::Missed) => " MISS",
                Some(Verdict::Void) => " void",
                Some(Verdict::Unmeasurable) | None => "",
            };
            let _ = write!(line, " {:VALUE_WIDTH$}", format!("{value}{judged}"));
        }
        let predicted = if row.has_own_columns() { String::new() } else { predicted(row, metric) };
        let _ = writeln!(text, "{}", format!("{line} {predicted}").trim_end());
        name = "";
    }
    for reason in &row.void {
        let _ = writeln!(text, "  void: {reason}");
    }
    let others = row.columns.iter().flat_map(|column| &column.runs).filter_map(|run| run.others_cpus);
    if let Some(cpus) = others.reduce(f64::max).filter(|cpus| *cpus >= DISTURBANCE_CPUS) {
        let _ = writeln!(text, "  disturbed: other programs kept up to {cpus:.1} CPUs busy");
    }
    for column in &row.columns {
        if let Some(failure) = &column.failure {
            let _ = writeln!(text, "  {}: {failure}", column.name);
        }
    }
    text
}

/// A line for each figure that is not as wanted, and for each row without a valid run.
pub fn misses(rows: &[Row]) -> Vec<String> {
    let mut misses = Vec::new();
    for row in rows {
        let name = row.workload.name();
        if row.is_void() {
            let reason = row.void.last().map_or("no run", String::as_str);
            misses.push(format!("{name}: void: {reason}"));
            continue;
        }
        let subject = &row.columns[0];
        if let Some(failure) = &subject.failure {
            misses.push(format!("{name}: {failure}"));
            continue;
        }
        for &figure in row.workload.expect() {
            if verdict(row, figure) == Verdict::Missed {
                let metric = figure.metric;
                let value = subject.value(metric).map_or_else(|| "not measured".to_owned(), |value| metric.show(value));
                misses.push(format!("{name}: {} is {value}, wanted {figure}", metric.key().replace('_', " ")));
            }
        }
        for figure in row.workload.predict().iter().filter(|_| !row.predicted.is_empty()) {
            let over = row.predicted_over_measured(figure.metric);
            if !over.is_some_and(|over| figure.met(over)) {
                let over =
                    over.map_or_else(|| "not measured".to_owned(), |over| format!("{over:.2} of what is measured"));
                let (metric, operator, value) = (figure.metric.key().replace('_', " "), figure.operator, figure.value);
                misses.push(format!("{name}: {metric} is predicted as {over}, wanted {operator} {value}"));
            }
        }
    }
    misses
}

/// Everything, for programs.
pub fn json(conditions: &Conditions, rows: &[Row]) -> serde_json::Value {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let figures: Vec<_> = lines(row)
                .into_iter()
                .map(|Line { metric, wanted }| {
                    let values: serde_json::Map<String, serde_json::Value> =
                        row.columns.iter().map(|column| (column.name.clone(), json!(column.value(metric)))).collect();
                    json!({
                        "metric": metric,
                        "unit": metric.unit(),
                        "wanted": wanted,
                        "values": values,
                        "verdict": wanted.map(|figure| verdict(row, figure)),
                    })
                })
                .collect();
            json!({ "figures": figures, "measured": row })
        })
        .collect();
    json!({ "conditions": conditions, "rows": rows })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use foreread_workload::catalogue;

    use super::*;
    use crate::readers::reading::Reading;
    use crate::row::column::{Column, Run};

    fn row(name: &str, values: &[(Metric, f64)], ceiling: Option<f64>) -> Row {
        let run = Run {
            ceiling_mb_per_s: ceiling,
            values: values.iter().copied().collect::<BTreeMap<_, _>>(),
            ..Run::of(Reading::default())
        };
        let column = |name: &str, runs| Column { name: name.to_owned(), runs, failure: None };
        Row {
            workload: Load::Reads(catalogue::find(name).expect("it is in the catalogue")),
            columns: vec![column("foreread", vec![run]), column("readahead off", Vec::new())],
            predicted: BTreeMap::new(),
            void: Vec::new(),
        }
    }

    #[test]
    fn a_prediction_that_is_too_far_off_is_a_miss() {
        let mut row =
            row("interleaved-2", &[(Metric::Throughput, 900.0), (Metric::Amp, 1.0), (Metric::Rss, 9.0)], None);
        row.columns[0].runs[0].values.insert(Metric::RequestsPerGib, 288.0);
        row.predicted =
            BTreeMap::from([(Metric::Throughput, 800.0), (Metric::Amp, 1.02), (Metric::RequestsPerGib, 310.0)]);
        assert!(table(&row).contains("310.0/GiB MISS"), "{}", table(&row));
        assert!(table(&row).contains("800.0 MB/s ok"), "{}", table(&row));
        assert_eq!(
            misses(&[row]),
            ["interleaved-2: requests per gib is predicted as 1.08 of what is measured, wanted <= 1.05"]
        );
    }

    #[test]
    fn each_figure_that_misses_is_named_with_both_values() {
        let row = row("backward-1m", &[(Metric::Throughput, 412.0), (Metric::Rss, 100.0)], Some(900.0));
        assert_eq!(misses(&[row]), ["backward-1m: throughput is 412.0 MB/s, wanted >= 500 MB/s"]);
    }

    #[test]
    fn what_was_not_measured_is_missed_unless_it_cannot_be() {
        let row = row("random-4k-1", &[(Metric::Rss, 100.0)], None);
        assert_eq!(misses(&[row]), ["random-4k-1: amp is not measured, wanted <= 2"]);
    }

    #[test]
    fn a_void_row_is_not_passed() {
        let mut row = row("backward-1m", &[], Some(500.0));
        row.columns[0].runs.clear();
        row.void.push("500 MB/s, wanted 700".to_owned());
        assert!(table(&row).contains("void: 500 MB/s, wanted 700"));
        assert_eq!(misses(&[row]), ["backward-1m: void: 500 MB/s, wanted 700"]);
    }

    #[test]
    fn a_failure_is_a_miss_whatever_else_was_measured() {
        let mut row = row("backward-1m", &[(Metric::Throughput, 900.0), (Metric::Rss, 1.0)], Some(900.0));
        row.columns[0].failure = Some("wrong bytes".to_owned());
        assert_eq!(misses(&[row]), ["backward-1m: wrong bytes"]);
    }

    #[test]
    fn a_row_without_expectations_is_reported_and_not_judged() {
        let row = row("mmap-random", &[(Metric::Operations, 10.0)], Some(900.0));
        assert!(table(&row).contains("operations"));
        assert!(misses(&[row]).is_empty());
    }
}
