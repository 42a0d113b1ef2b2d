//! The result of a simulation: a table for people, JSON for programs, and the verdict.

use std::fmt::Write as _;

use foreread_workload::{Figure, Metric, Pattern, Workload};
use serde_json::json;

use crate::commands::simulate::row::{Column, Row};
use crate::terminal::figures::{self, Columns};

/// The figures of every workload.
const ALWAYS: &[Metric] =
    &[Metric::Throughput, Metric::Amp, Metric::Waste, Metric::RequestsPerGib, Metric::IoSize, Metric::ReadP99];

/// The workload's name, with the number of threads where there are several.
pub(super) fn name(row: &Row) -> String {
    match row.workload.simulate.threads.as_slice() {
        [] | [_] => row.workload.name.clone(),
        _ => format!("{} with {} threads", row.workload.name, row.workload.threads),
    }
}

fn expected<'a>(workload: &'a Workload, policy: &str) -> &'a [Figure] {
    workload.simulate.expect.iter().find(|(name, _)| name == policy).map_or(&[], |(_, figures)| figures)
}

fn metrics(workload: &Workload) -> Vec<Metric> {
    if let Pattern::DiskTree(tree) = workload.pattern {
        let beside: &[Metric] = if tree.copy_bytes.is_some() { &[Metric::GrepTime, Metric::CopyTime] } else { &[] };
        return [&[Metric::FindTime, Metric::FindWaits], beside, &[Metric::ReadAhead]].concat();
    }
    if matches!(workload.pattern, Pattern::Region(_)) {
        return vec![Metric::TouchTime, Metric::TouchWaits, Metric::PagesIn, Metric::PagesOut];
    }
    let expected = |metric: &Metric| {
        workload.simulate.expect.iter().flat_map(|(_, figures)| figures).any(|figure| figure.metric == *metric)
    };
    let late = |metric: &Metric| *metric == Metric::Late && workload.pattern.period_ns().is_some();
    // Readers with a rate of their own are judged by late reads.
    let shared = workload.threads > 1 && workload.pattern.period_ns().is_none();
    let fair = |metric: &Metric| *metric == Metric::SlowestOfFastest && shared;
    let beside = |metric: &Metric| {
        workload.beside.is_some() && matches!(metric, Metric::BesideThroughput | Metric::BesideReadP99)
    };
    let tier = |metric: &Metric| workload.tier.is_some() && matches!(metric, Metric::TierHits | Metric::TierWritten);
    Metric::ALL
        .iter()
        .filter(|m| ALWAYS.contains(m) || expected(m) || late(m) || fair(m) || beside(m) || tier(m))
        .copied()
        .collect()
}

/// A row's table: a line a figure, a column a policy.
pub(super) fn table(row: &Row) -> String {
    let mut text = format!("{}: {}\n", name(row), row.workload.description);
    let heads: Vec<&str> = row.columns.iter().map(|column| column.name.as_str()).collect();
    let columns = Columns::new(&mut text, &heads);
    for metric in metrics(&row.workload) {
        let judged = |column: &Column| {
            let value = column.figure(metric);
            let shown = figures::shown(metric, value);
            let wanted: Vec<_> =
                expected(&row.workload, &column.name).iter().filter(|figure| figure.metric == metric).collect();
            let judged = match value {
                _ if wanted.is_empty() => "",
                Some(value) if wanted.iter().all(|figure| figure.met(value)) => " ok",
                _ => " MISS",
            };
            format!("{shown}{judged}")
        };
        let values: Vec<String> = row.columns.iter().map(judged).collect();
        columns.line(&mut text, &figures::name(metric), &values);
    }
    if let Some(least) = row.least {
        let shown = |over: Option<f64>| over.map_or_else(|| "-".to_owned(), |over| format!("{over:.3}"));
        let values: Vec<String> = row.columns.iter().map(|column| shown(column.over_least(least))).collect();
        columns.line(&mut text, "time over least", &values);
    }
    for (told, met) in ratios(row) {
        let _ = writeln!(text, "  {told} {}", if met { "ok" } else { "MISS" });
    }
    text.push('\n');
    text
}

/// Each wanted ratio: a line about it, and whether it is as wanted.
fn ratios(row: &Row) -> Vec<(String, bool)> {
    let of = |policy: &str, metric| row.columns.iter().find(|c| c.name == policy)?.figure(metric);
    let best_but = |policy: &str, metric: Metric| {
        let others = row.columns.iter().filter(|c| c.name != policy);
        let values = others.filter_map(|column| column.figure(metric));
        if metric.less_is_better() { values.min_by(f64::total_cmp) } else { values.max_by(f64::total_cmp) }
    };
    let told = |ratio: &foreread_workload::Ratio| {
        let metric = ratio.figure.metric;
        let over = if ratio.over == "best" { best_but(&ratio.policy, metric) } else { of(&ratio.over, metric) };
        let found = of(&ratio.policy, metric)? / over?;
        let (operator, wanted) = (ratio.figure.operator, ratio.figure.value);
        let name = figures::name(metric);
        let text = format!("{name} of {} over {}: {found:.3}, wanted {operator} {wanted}", ratio.policy, ratio.over);
        Some((text, ratio.figure.met(found)))
    };
    row.workload.simulate.ratios.iter().filter_map(told).collect()
}

/// A line for each figure that is not as wanted, of the policies that ran.
pub(super) fn misses(row: &Row) -> Vec<String> {
    let mut misses = Vec::new();
    let name = name(row);
    for column in &row.columns {
        let policy = &column.name;
        for figure in expected(&row.workload, policy) {
            let metric = figure.metric;
            let found = column.figure(metric);
            if !found.is_some_and(|found| figure.met(found)) {
                let shown = found.map_or_else(|| "not measured".to_owned(), |found| metric.show(found));
                misses.push(format!("{name}: {policy}: {} is {shown}, wanted {figure}", figures::name(metric)));
            }
        }
    }
    misses.extend(ratios(row).into_iter().filter(|(_, met)| !met).map(|(told, _)| format!("{name}: {told}")));
    misses
}

/// Everything, for programs.
pub(super) fn json(rows: &[Row]) -> serde_json::Value {
    let row = |row: &Row| {
        let column = |column: &Column| {
            let run = |run: &foreread_sim::Tally| {
                json!({
                    "elapsed_ns": run.elapsed_ns(),
                    "requests": run.requests(),
                    "requests_coalesced": run.requests_coalesced(),
                    "seconds": run.seconds(),
                })
            };
            json!({
                "policy": &column.name,
                "figures": figures::map(|metric| column.figure(metric)),
                "time_over_least": row.least.and_then(|least| column.over_least(least)),
                "runs": column.runs.iter().map(run).collect::<Vec<_>>(),
            })
        };
        let misses = misses(row);
        json!({
            "workload": row.workload,
            "policies": row.columns.iter().map(column).collect::<Vec<_>>(),
            "misses": misses,
        })
    };
    json!(rows.iter().map(row).collect::<Vec<_>>())
}
