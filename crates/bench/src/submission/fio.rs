//! fio, which reads a file as the library does: through the kernel's page cache, told the same
//! number of reads in flight, record size and duration.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use foreread_workload::{Metric, Workload};
use serde_json::Value;

use crate::error::Error;
use crate::process::Process;
use crate::readers::reading::Reading;
use crate::row::column::Run;
use crate::setup::Setup;

/// Reads `file` with fio's `engine`: one process with many reads in flight, or a thread for each.
/// The run must end within `limit`.
pub(crate) fn run(
    setup: &Setup<'_>,
    workload: &Workload,
    file: &Path,
    engine: &str,
    threads: bool,
    limit: Duration,
) -> Result<Run, Error> {
    let (seconds, record) = (workload.duration_ns.div_ceil(1_000_000_000), workload.pattern.record_bytes());
    let (depth, jobs) = if threads { (1, workload.threads) } else { (workload.threads, 1) };
    let mut command = Command::new("fio");
    command.arg("--name=read").arg("--filename").arg(file).args(["--rw=randread", "--direct=0", "--thread"]);
    command.args(["--time_based", "--group_reporting", "--slat_percentiles=1", "--output-format=json"]);
    command.args([format!("--ioengine={engine}"), format!("--bs={record}"), format!("--runtime={seconds}")]);
    command.args([format!("--iodepth={depth}"), format!("--numjobs={jobs}"), format!("--randseed={}", workload.seed)]);
    let process = Process::start(&mut command, "fio".to_owned())?;
    let answer = process.answer(limit, &setup.interrupt)?;
    let answer = answer.find('{').map_or("", |at| &answer[at..]);
    let protocol = |what: String| Error::protocol(format!("fio's result: {what}"));
    let answer: Value = serde_json::from_str(answer).map_err(|error| protocol(error.to_string()))?;
    let read = &answer["jobs"][0]["read"];
    let number = |value: &Value| value.as_f64();
    let operations = number(&read["total_ios"]).ok_or_else(|| protocol("it counts no reads".to_owned()))?;
    let took_ms = number(&read["runtime"]).filter(|ms| *ms > 0.0);
    let reading = Reading {
        operations: operations as u64,
        bytes: number(&read["io_bytes"]).unwrap_or(0.0) as u64,
        seconds: took_ms.unwrap_or(f64::INFINITY) / 1e3,
        ..Reading::default()
    };
    let mut run = Run::of(reading);
    let percentile = |of: &str, at: &str| number(&read[of]["percentile"][at]);
    let values = [
        (Metric::SubmitP99, percentile("slat_ns", "99.000000").filter(|_| !threads).map(|ns| ns / 1e3)),
        (Metric::ReadP50, percentile("clat_ns", "50.000000").map(|ns| ns / 1e6)),
        (Metric::ReadP99, percentile("clat_ns", "99.000000").map(|ns| ns / 1e6)),
    ];
    run.values.extend(values.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
    Ok(run)
}
