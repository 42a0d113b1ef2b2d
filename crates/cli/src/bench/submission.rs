//! One row of a workload whose reads are submitted to the library: beside it stands what else reads the same, in the same run.
//!
//! ```text
//!  local:     file of real blocks ──> cold ── the library ──> cold ── fio: io_uring, libaio, threads ──> again
//!  emulated:                          the library ── the device itself, one at a time and as many ──> again
//! ```
//!
//! fio reads as the library does, through the kernel's page cache, and is told the same: how many at a time, how long, how much. A run
//! is compared with the best of what was measured beside it in the same round.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use foreread_testbed::content::Content;
use foreread_workload::{Device, Metric, Workload};
use rustix::fs::Advice;
use serde_json::Value;

use super::error::Error;
use super::process::{self, Process};
use super::reader::Plan;
use super::readers;
use super::reading::Reading;
use super::row::{Bench, Column, Row, Run};
use super::server::GENERATION;
use super::subject::Spent;
use super::submitter::Submitter;

/// What a process may take beyond the workload's duration.
const SLACK: Duration = Duration::from_mins(1);
/// Bytes written at a time.
const CHUNK_BYTES: usize = 8 << 20;
/// What stays free on the file system.
const SPARE_BYTES: u64 = 1 << 30;
/// tmpfs: a file in memory is never cold.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// What is measured in a round.
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

/// Measures such a workload. What goes wrong is kept in the row; only an interruption is an error.
pub(super) fn measure(bench: &Bench<'_>, workload: &Workload, text: &str) -> Result<Row, Error> {
    let contenders = Contender::all(workload, bench.local_threads);
    let columns = contenders.iter().map(|(name, _)| Column::named(name)).collect();
    let mut row = Row::new(workload, columns);
    match fill(&mut row, bench, text, &contenders) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error @ Error::NotCold { .. }) => row.void.push(error.told()),
        Err(error) => row.columns[0].failure = Some(error.told()),
        Ok(()) => {}
    }
    Ok(row)
}

fn fill(row: &mut Row, bench: &Bench<'_>, text: &str, contenders: &[(String, Contender)]) -> Result<(), Error> {
    let workload = row.workload.clone();
    let say = |what: &str| (bench.say)(&format!("{}: {what}", workload.name));
    let dir = tempfile::tempdir_in(bench.scratch).map_err(Error::io("making a temporary directory"))?;
    let file = match workload.device {
        Device::Local => {
            say("writing the file");
            Some(write(dir.path(), &workload, bench)?)
        }
        _ => None,
    };
    for round in 1..=bench.repeat {
        let mut best: Option<f64> = None;
        // Each has its turn to be the first, and no two runs read the same places: a host may keep what was read last.
        for turn in 0..contenders.len() {
            let index = (turn + round as usize - 1) % contenders.len();
            let (name, contender) = &contenders[index];
            let seed = workload.seed + u64::from(round) * 100 + index as u64;
            if row.columns[index].failure.is_some() {
                continue;
            }
            say(&format!("{name}, run {round} of {}", bench.repeat));
            if let Some(file) = &file {
                make_cold(file)?;
            }
            let run = match *contender {
                Contender::Ours(Submitter::Library { threads, .. }) => {
                    ours(bench, &workload, text, file.as_deref(), Submitter::Library { threads, seed })
                }
                Contender::Ours(submitter) => ours(bench, &workload, text, file.as_deref(), submitter),
                Contender::Fio { engine, threads } => {
                    let workload = workload.clone().with_seed(seed);
                    fio(bench, &workload, file.as_deref(), engine, threads)
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

/// A file of the workload's size, written out: real blocks, and none of them dirty.
fn write(dir: &Path, workload: &Workload, bench: &Bench<'_>) -> Result<PathBuf, Error> {
    let size = workload.files.size_bytes;
    let fs = rustix::fs::statvfs(dir).map_err(|e| Error::io("asking for free space")(e.into()))?;
    let kind = rustix::fs::statfs(dir).map_err(|e| Error::io("asking for free space")(e.into()))?.f_type as u64;
    if kind == TMPFS_MAGIC {
        return Err(Error::NotCold { why: "it is in memory".to_owned() });
    }
    if fs.f_bavail * fs.f_frsize < size + SPARE_BYTES {
        return Err(Error::NotCold { why: format!("it has less than {} GiB free", (size + SPARE_BYTES) >> 30) });
    }
    let path = dir.join(workload.file_name(0));
    let content = Content::new(&workload.file_name(0), GENERATION);
    let writing = || Error::io("writing the file to read");
    let mut file = File::create(&path).map_err(writing())?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for start in (0..size).step_by(CHUNK_BYTES) {
        Error::if_interrupted(&bench.interrupt)?;
        let chunk = &mut chunk[..CHUNK_BYTES.min((size - start) as usize)];
        content.fill(start, chunk);
        file.write_all(chunk).map_err(writing())?;
    }
    file.sync_all().map_err(writing())?;
    Ok(path)
}

/// Nothing of the file is in the kernel's memory after this.
fn make_cold(file: &Path) -> Result<(), Error> {
    let open = File::open(file).map_err(Error::io("opening the file to read"))?;
    rustix::fs::fadvise(&open, 0, None, Advice::DontNeed).map_err(|e| Error::io("making the file cold")(e.into()))?;
    // What else the kernel remembers, where this may be asked for.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    Ok(())
}

fn ours(
    bench: &Bench<'_>,
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
    let limit = Duration::from_nanos(workload.duration_ns) + SLACK;
    let (machine_before, started) = (process::machine_cpu_s(), Instant::now());
    let reading = readers::submit(bench, &plan, limit)?;
    let others_cpus = process::machine_cpu_s()
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

fn fio(bench: &Bench<'_>, workload: &Workload, file: Option<&Path>, engine: &str, threads: bool) -> Result<Run, Error> {
    let file = file.ok_or_else(|| Error::Protocol { what: "fio reads files".to_owned() })?;
    let (seconds, record) = (workload.duration_ns.div_ceil(1_000_000_000), workload.pattern.record_bytes());
    let (depth, jobs) = if threads { (1, workload.threads) } else { (workload.threads, 1) };
    let mut command = Command::new("fio");
    command.arg("--name=read").arg("--filename").arg(file).args(["--rw=randread", "--direct=0", "--thread"]);
    command.args(["--time_based", "--group_reporting", "--slat_percentiles=1", "--output-format=json"]);
    command.args([format!("--ioengine={engine}"), format!("--bs={record}"), format!("--runtime={seconds}")]);
    command.args([format!("--iodepth={depth}"), format!("--numjobs={jobs}"), format!("--randseed={}", workload.seed)]);
    let limit = Duration::from_nanos(workload.duration_ns) + SLACK;
    let process = Process::start(&mut command, "fio".to_owned())?;
    let answer = process.answer(limit, &bench.interrupt)?;
    let answer = answer.find('{').map_or("", |at| &answer[at..]);
    let protocol = |what: String| Error::Protocol { what: format!("fio's result: {what}") };
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
