//! What comes out: a table for people, JSON for programs, and the verdict.
//!
//! ```text
//!  workload        figure                 wanted      foreread     readahead off   rclone
//!  backward-1m     throughput             >= 500 MB/s 612 MB/s ok  4.1 MB/s        22 MB/s
//!                  amp                                1.01         1.00            3.2
//! ```
//!
//! A figure that is wanted and was not measured is missed, except where it cannot be measured at all: without a testbed
//! there is no ceiling, and no bare client.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread_workload::{Baseline, Figure, Metric, Pattern, Visit};
use serde::Serialize;
use serde_json::json;

use super::row::Row;
use foreread::backend::shown;

/// Widths of the fixed columns; a longer text pushes the rest of its line to the right.
const NAME_WIDTH: usize = 17;
const FIGURE_WIDTH: usize = 22;
const WANTED_WIDTH: usize = 12;
const VALUE_WIDTH: usize = 15;

/// Other programs' load that is worth a word. Idle machines show a few hundredths.
const DISTURBANCE_CPUS: f64 = 0.2;

/// How a figure came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// As wanted.
    Met,
    /// Not as wanted, or not measured.
    Missed,
    /// The machine was not up to it in any run.
    Void,
    /// Cannot be measured on this storage.
    Unmeasurable,
}

/// One line of a row.
struct Line {
    metric: Metric,
    wanted: Option<Figure>,
}

/// What is shown of a row: what is wanted of it, then what explains that.
fn lines(row: &Row) -> Vec<Line> {
    let workload = &row.workload;
    let expect = &workload.expect;
    let pace = match workload.pattern {
        Pattern::Random { .. } | Pattern::MmapRandom { .. } | Pattern::Strided { .. } => Metric::Operations,
        _ => Metric::Throughput,
    };
    let beside = workload.beside.iter().flat_map(|_| [Metric::BesideThroughput, Metric::BesideReadP99]);
    // What a fair queue is worth is seen in who comes off worst.
    let fair = workload.threads > 1 && workload.baselines.contains(&Baseline::FairQueueOff);
    let beside = beside.chain(fair.then_some(Metric::SlowestOfFastest));
    let extra = match workload.pattern {
        _ if workload.device.is_submitted_to() => vec![pace, Metric::ReadP50, Metric::ReadP99, Metric::Rss],
        // Requests show what has changed where the clock does not.
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
    let extra = beside.chain(extra).filter(|metric| !expect.iter().any(|figure| figure.metric == *metric));
    expect
        .iter()
        .map(|figure| Line { metric: figure.metric, wanted: Some(*figure) })
        .chain(extra.map(|metric| Line { metric, wanted: None }))
        .collect()
}

/// How `figure` came out in `row`.
pub(crate) fn verdict(row: &Row, figure: Figure) -> Verdict {
    let needs_testbed = matches!(figure.metric, Metric::ThroughputOfCeiling | Metric::OperationsOfBare);
    let subject = &row.columns[0];
    match subject.value(figure.metric) {
        _ if row.is_void() => Verdict::Void,
        // A run that failed is not made good by one that did not.
        _ if subject.failure.is_some() => Verdict::Missed,
        Some(value) if figure.met(value) => Verdict::Met,
        None if needs_testbed && subject.runs.iter().all(|run| run.ceiling_mb_per_s.is_none()) => Verdict::Unmeasurable,
        _ => Verdict::Missed,
    }
}

/// The first line of the table.
pub(crate) fn header(columns: &[String]) -> String {
    let mut text = format!("{:NAME_WIDTH$} {:FIGURE_WIDTH$} {:WANTED_WIDTH$}", "workload", "figure", "wanted");
    for column in columns {
        let _ = write!(text, " {column:VALUE_WIDTH$}");
    }
    text.trim_end().to_owned()
}

/// What the simulator says, and whether that is near enough where it is to be.
fn predicted(row: &Row, metric: Metric) -> String {
    let Some(value) = row.predicted.get(&metric) else { return "-".to_owned() };
    let wanted = row.workload.simulate.predict.iter().filter(|figure| figure.metric == metric);
    let over = row.predicted_over_measured(metric);
    let near = wanted.map(|figure| over.is_some_and(|over| figure.met(over))).reduce(|all, one| all && one);
    let judged = near.map_or("", |near| if near { " ok" } else { " MISS" });
    format!("{}{judged}", metric.show(*value))
}

/// A row's lines, with what failed below them.
pub(crate) fn table(row: &Row) -> String {
    let mut text = String::new();
    if row.workload.device.is_submitted_to() {
        let columns: Vec<String> = row.columns.iter().map(|column| column.name.clone()).collect();
        let _ = writeln!(text, "{}", header(&columns));
    }
    let mut name = row.workload.name.as_str();
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
        let predicted = if row.workload.device.is_submitted_to() { String::new() } else { predicted(row, metric) };
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

/// A line for each figure that is not as wanted, and for each row that says nothing.
pub(crate) fn misses(rows: &[Row]) -> Vec<String> {
    let mut misses = Vec::new();
    for row in rows {
        let name = &row.workload.name;
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
        for &figure in &row.workload.expect {
            if verdict(row, figure) == Verdict::Missed {
                let metric = figure.metric;
                let value = subject.value(metric).map_or_else(|| "not measured".to_owned(), |value| metric.show(value));
                misses.push(format!("{name}: {} is {value}, wanted {figure}", metric.key().replace('_', " ")));
            }
        }
        for figure in row.workload.simulate.predict.iter().filter(|_| !row.predicted.is_empty()) {
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

/// Under which conditions the rows were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Conditions {
    pub(crate) command: String,
    pub(crate) version: &'static str,
    pub(crate) commit: Option<String>,
    pub(crate) unix_s: u64,
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    pub(crate) memory_mib: u64,
    pub(crate) repeat: u32,
    pub(crate) storage: String,
    pub(crate) others: Vec<Other>,
}

/// Another client that was measured beside.
#[derive(Debug, Serialize)]
pub(crate) struct Other {
    pub(crate) command: String,
    /// The first line of what it says about its version.
    pub(crate) version: Option<String>,
}

impl Conditions {
    /// Those of this process, now.
    pub(crate) fn now(repeat: u32, storage: String, against: &[String]) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib = memory.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        let arguments: Vec<String> = std::env::args().skip(1).map(|argument| quoted(shown(&argument))).collect();
        Self {
            command: format!("foreread {}", arguments.join(" ")),
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            kernel: kernel.trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib.unwrap_or(0) >> 10,
            repeat,
            storage,
            others: against
                .iter()
                .map(|command| Other { command: command.clone(), version: version(command) })
                .collect(),
        }
    }

    /// On one line, below the table.
    pub(crate) fn told(&self) -> String {
        let commit = self.commit.as_deref().map(|commit| format!(" ({commit})")).unwrap_or_default();
        format!(
            "foreread {}{commit}, Linux {}, {} CPUs, {}; median of {}",
            self.version, self.kernel, self.cpus, self.storage, self.repeat
        )
    }
}

/// Everything, for programs.
pub(crate) fn json(conditions: &Conditions, rows: &[Row]) -> serde_json::Value {
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

/// The commit of the checkout that this program was built in, if it still lies there.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("git")
        .arg("-C")
        .arg(program.parent().unwrap_or(Path::new(".")))
        .args(["describe", "--always", "--dirty", "--tags"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn version(command: &str) -> Option<String> {
    let program = command.split_whitespace().find(|word| !word.contains('='))?;
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn quoted(argument: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use foreread_workload::catalogue;

    use super::super::reading::Reading;
    use super::super::row::{Column, Run};
    use super::super::subject::Spent;
    use super::*;

    fn row(name: &str, values: &[(Metric, f64)], ceiling: Option<f64>) -> Row {
        let run = Run {
            ceiling_mb_per_s: ceiling,
            bare_operations_per_s: None,
            reading: Reading::default(),
            fetched: None,
            mount: Spent::default(),
            testbed_cpu_s: None,
            others_cpus: None,
            values: values.iter().copied().collect::<BTreeMap<_, _>>(),
        };
        let column = |name: &str, runs| Column { name: name.to_owned(), runs, failure: None };
        Row {
            workload: catalogue::find(name).expect("it is in the catalogue"),
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

    #[test]
    fn arguments_are_shown_as_a_shell_takes_them() {
        assert_eq!(quoted("bench".to_owned()), "bench");
        assert_eq!(quoted("a 'b'".to_owned()), "'a '\\''b'\\'''");
    }
}
