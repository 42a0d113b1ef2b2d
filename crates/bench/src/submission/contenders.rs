//! One row of a workload whose reads are submitted to the library, beside other ways to make the
//! same reads, in the same run.
//!
//! ```text
//!  local:     file of real blocks  cold ── the library  cold ── fio: io_uring  libaio  threads
//!  emulated:                               the library  the device: one at a time, as many
//! ```
//!
//! A run of the library is compared with the best contender of the same round.

use std::path::Path;
use std::time::{Duration, Instant};

use foreread_workload::{Device, Load, Metric, Workload};

use crate::error::Error;
use crate::options::Options;
use crate::process::usage;
use crate::readers::plan::{Plan, Submitter};
use crate::readers::start;
use crate::row::Row;
use crate::row::column::{Column, Run};
use crate::setup::Setup;
use crate::subject::client::Spent;
use crate::submission::{cold, fio};

/// Time that a process may take beyond the workload's duration.
const SLACK: Duration = Duration::from_mins(1);

/// One way to make the reads, measured once a round.
#[derive(Clone, Copy)]
enum Contender {
    Ours(Submitter),
    Fio { engine: &'static str, threads: bool },
}

impl Contender {
    fn all(workload: &Workload, threads: bool) -> Vec<(String, Self)> {
        let ours = ("foreread".to_owned(), Self::Ours(Submitter::Library { threads, seed: workload.seed }));
        let depth = workload.threads;
        match workload.device {
            Device::Emulated(_) => vec![
                ours,
                ("one at a time".to_owned(), Self::Ours(Submitter::Bare { depth: 1 })),
                (format!("bare, {depth}"), Self::Ours(Submitter::Bare { depth })),
            ],
            _ => vec![
                ours,
                ("fio io_uring".to_owned(), Self::Fio { engine: "io_uring", threads: false }),
                ("fio libaio".to_owned(), Self::Fio { engine: "libaio", threads: false }),
                (format!("fio psync x{depth}"), Self::Fio { engine: "psync", threads: true }),
            ],
        }
    }
}

/// Measures such a workload. The row keeps what fails; only an interruption is an error.
pub(crate) fn measure(options: &Options<'_>, workload: &Workload, text: &str) -> Result<Row, Error> {
    let contenders = Contender::all(workload, options.local_threads);
    let columns = contenders.iter().map(|(name, _)| Column::new(name)).collect();
    let mut row = Row::new(Load::Reads(workload.clone()), columns);
    let measured = fill(&mut row, options, workload, text, &contenders);
    row.settle(measured)?;
    Ok(row)
}

fn fill(
    row: &mut Row,
    options: &Options<'_>,
    workload: &Workload,
    text: &str,
    contenders: &[(String, Contender)],
) -> Result<(), Error> {
    let setup = &options.setup;
    let status = |what: &str| setup.status(&format!("{}: {what}", workload.name));
    let dir = setup.dir("making a temporary directory")?;
    let file = match workload.device {
        Device::Local => {
            status("writing the file");
            Some(cold::write(dir.path(), workload, setup)?)
        }
        _ => None,
    };
    for round in 1..=setup.repeat {
        let mut best: Option<f64> = None;
        // Each contender is first in turn, and no two runs read the same places: a host may cache
        // the last reads.
        for turn in 0..contenders.len() {
            let index = (turn + round as usize - 1) % contenders.len();
            let (name, contender) = &contenders[index];
            let seed = workload.seed + u64::from(round) * 100 + index as u64;
            if row.columns[index].failure.is_some() {
                continue;
            }
            status(&format!("{name}, run {round} of {}", setup.repeat));
            if let Some(file) = &file {
                cold::drop_from_memory(file)?;
            }
            let run = match *contender {
                Contender::Ours(Submitter::Library { threads, .. }) => {
                    ours(setup, workload, text, file.as_deref(), Submitter::Library { threads, seed })
                }
                Contender::Ours(submitter) => ours(setup, workload, text, file.as_deref(), submitter),
                Contender::Fio { engine, threads } => {
                    let workload = workload.clone().with_seed(seed);
                    let file = file.as_deref().ok_or_else(|| Error::protocol("fio reads files"))?;
                    fio::run(setup, &workload, file, engine, threads, limit(&workload))
                }
            };
            row.columns[index].take(run)?;
            let last = if index > 0 { row.columns[index].runs.last() } else { None };
            if let Some(operations) = last.and_then(|run| run.values.get(&Metric::Operations)) {
                best = Some(best.map_or(*operations, |best| best.max(*operations)));
            }
        }
        if let Some(run) = row.columns[0].runs.last_mut()
            && let (Some(best), Some(&operations)) = (best, run.values.get(&Metric::Operations))
        {
            run.values.insert(Metric::OperationsOfBest, operations / best);
        }
    }
    Ok(())
}

/// The longest time of one process.
fn limit(workload: &Workload) -> Duration {
    Duration::from_nanos(workload.duration_ns) + SLACK
}

fn ours(
    setup: &Setup<'_>,
    workload: &Workload,
    text: &str,
    file: Option<&Path>,
    submitter: Submitter,
) -> Result<Run, Error> {
    let plan = Plan {
        workload: text.to_owned(),
        duration_ns: workload.duration_ns,
        process: 0,
        paths: file.iter().map(|file| file.to_path_buf()).collect(),
        keys: Vec::new(),
        submitter: Some(submitter),
    };
    let (machine_before, started) = (usage::machine_cpu_s(), Instant::now());
    let reading = start::submit(setup, &plan, limit(workload))?;
    let others_cpus = usage::machine_cpu_s()
        .zip(machine_before)
        .map(|(after, before)| (after - before - reading.cpu_s).max(0.0) / started.elapsed().as_secs_f64());
    let mut run = Run::of(reading);
    run.others_cpus = others_cpus;
    run.mount = Spent { rss_max_bytes: run.reading.rss_max_bytes, cpu_s: run.reading.cpu_s };
    let values = [
        (Metric::SubmitP99, run.reading.submit_p99_us),
        (Metric::Rss, Some(run.mount.rss_max_bytes as f64 / f64::from(1 << 20))),
        (Metric::ReadP50, Some(run.reading.latency_us.p50 as f64 / 1e3)),
        (Metric::ReadP99, Some(run.reading.latency_us.p99 as f64 / 1e3)),
    ];
    run.values.extend(values.into_iter().filter_map(|(metric, value)| Some((metric, value?))));
    Ok(run)
}
