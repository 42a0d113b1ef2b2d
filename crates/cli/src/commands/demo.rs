//! `foreread demo`: what foreread does, on any machine, in less than a minute.
//!
//! Four workloads of the benchmark, cut short, each once through foreread and once through
//! foreread without readahead, against an emulated object store of 30 ms latency. The benchmark
//! measures them.

use std::process::ExitCode;

use foreread_bench::{Options, Setup, measure, need_fuse};
use foreread_workload::{Metric, Workload, catalogue};

use crate::args::workloads;
use crate::commands::bench::error::{self, Failed};
use crate::terminal::progress::Status;
use crate::terminal::{interrupt, output};

/// The workloads that are shown, and the metric of each.
const SHOWN: &[(&str, &str, Metric)] = &[
    ("sequential-1m", "a 2 GiB file, from start to end", Metric::Throughput),
    ("random-4k-16", "random 4 KiB reads, 16 at a time", Metric::Operations),
    ("backward-1m", "a 2 GiB file, from end to start", Metric::Throughput),
    ("interleaved-5", "five streams in turn in one file", Metric::Throughput),
];

/// The longest run. Higher, and eight runs with their mounts take more than a minute.
const RUN_NS: u64 = 4_000_000_000;

/// Show what foreread does, against an emulated object store on this machine
///
/// Needs no account and no network: starts `foreread testbed` with a latency of 30 ms and 80 MB/s
/// per connection, mounts it, reads it in four ways, and prints one table. Takes less than a
/// minute. `foreread bench` measures all workloads.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {}

/// Runs the command.
pub(crate) fn run(_args: &DemoArgs) -> miette::Result<ExitCode> {
    need_fuse().map_err(Failed)?;
    let interrupt = interrupt::listen().map_err(error::signals)?;
    let status = Status::start();
    let tell = |what: &str| status.tell(what);
    let setup = Setup::new(interrupt, 1, &tell).map_err(Failed)?;
    let bench = Options {
        setup,
        baselines: &[],
        against: &[],
        upstream: None,
        user: None,
        yardsticks: false,
        local_threads: false,
    };
    let mut rows = Vec::new();
    status.aside(|| {
        let head = line("", "foreread", "readahead off", "", "fetched/read", "memory");
        output::line(format_args!(
            "An emulated object store: 30 ms to the first byte, 80 MB/s per connection; nothing is cached.\n\n{head}"
        ))
    })?;
    for &(name, title, metric) in SHOWN {
        let text = catalogue::text(name).unwrap_or_default();
        let workload = Workload::parse(name, text).map_err(workloads::Error::Workload)?;
        let row = measure(&bench, &workload.shortened(RUN_NS), text).map_err(Failed)?;
        let (ours, off) = (row.columns[0].value(metric), row.columns[1].value(metric));
        let show = |value: Option<f64>| value.map_or_else(|| "failed".to_owned(), |value| metric.show(value));
        let times = ours.zip(off).map_or_else(String::new, |(ours, off)| format!("{:.0}x", ours / off));
        let rss = row.columns[0].value(Metric::Rss).map_or_else(String::new, |rss| Metric::Rss.show(rss));
        let amp = row.columns[0].value(Metric::Amp).map_or_else(String::new, |amp| Metric::Amp.show(amp));
        let line = line(title, &show(ours), &show(off), &times, &amp, &rss);
        status.aside(|| output::line(format_args!("{line}")))?;
        rows.push(row);
    }
    status.end();
    let failures: Vec<String> = rows
        .iter()
        .flat_map(|row| &row.columns)
        .filter_map(|column| Some(format!("{}: {}", column.name, column.failure.as_ref()?)))
        .collect();
    for failure in &failures {
        eprintln!("{failure}");
    }
    output::line(format_args!(
        "\nA part of every read was compared with what the store holds. In full, against promised figures: foreread bench"
    ))?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One line of the table.
fn line(title: &str, ours: &str, off: &str, times: &str, amp: &str, memory: &str) -> String {
    format!("{title:34} {ours:>10} {off:>15} {times:>6} {amp:>14} {memory:>9}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_in_the_catalogue() {
        for (name, _, _) in SHOWN {
            assert!(catalogue::find(name).is_some(), "{name}");
        }
    }
}
