//! One row: a workload, measured as often as asked, beside its baselines.
//!
//! ```text
//!  testbed ──> ceiling ──> bare client ──> foreread        once per repetition; void if the ceiling is too low
//!                                      ──> readahead off, baselines, others once, after the last one
//! ```
//!
//! Every subject is mounted afresh for every run, so nothing is warm: neither its own memory nor the kernel's page cache
//! of its files. Counters are read after the unmount: what was fetched and never asked for counts as fetched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_sim::{PolicyName, Scenario};
use foreread_workload::{Baseline, Metric, Pattern, Workload};
use serde::Serialize;

use super::backing;
use super::cgroup::Cgroup;
use super::error::Error;
use super::objects;
use super::process;
use super::reader::Plan;
use super::readers;
use super::reading::{Reading, Trodden};
use super::server::{BUCKET, Counters, Server};
use super::subject::{Spent, Storage, Subject};
use super::submission;
use super::tree;
use super::yardstick::{self, Yardstick};
use crate::interrupt::Interrupt;

/// A run that is void is tried again this often: on a shared machine, neighbours come and go.
const VOID_RETRIES: u32 = 2;
/// What a reader may take beyond the workload's duration: opening, a last slow read, starting and ending.
const READER_SLACK: Duration = Duration::from_mins(1);

/// What all rows have in common.
pub(crate) struct Bench<'a> {
    pub(crate) interrupt: Interrupt,
    /// For mount points and plans.
    pub(crate) scratch: &'a Path,
    /// Valid runs wanted.
    pub(crate) repeat: u32,
    /// What has a column because a workload wants it beside: empty in the rows of those that do not.
    pub(crate) baselines: &'a [Baseline],
    /// Command lines of other clients.
    pub(crate) against: &'a [String],
    /// The user's own storage instead of a testbed.
    pub(crate) user: Option<Storage>,
    /// Whether to measure what the machine can do before each run. Without, ratios are missing and nothing is void.
    pub(crate) yardsticks: bool,
    /// Whether threads wait for local files.
    pub(crate) local_threads: bool,
    /// Told what goes on.
    pub(crate) say: &'a dyn Fn(&str),
}

/// A workload's measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) workload: Workload,
    /// foreread, foreread with readahead off, baselines, then the others.
    pub(crate) columns: Vec<Column>,
    /// What the simulator says of foreread on this device and these processors.
    pub(crate) predicted: BTreeMap<Metric, f64>,
    /// Why runs were void: the machine was not up to them.
    pub(crate) void: Vec<String>,
}

/// A subject's runs.
#[derive(Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) runs: Vec<Run>,
    /// Why there is no run, or not all of them.
    pub(crate) failure: Option<String>,
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
    /// CPUs that everything else on the machine kept busy meanwhile.
    pub(crate) others_cpus: Option<f64>,
    pub(crate) values: BTreeMap<Metric, f64>,
}

impl Run {
    /// A reading without a mount, and its pace.
    pub(super) fn of(reading: Reading) -> Self {
        let (operations, bytes) = (reading.operations as f64, reading.bytes as f64);
        let paces = [(Metric::Operations, operations), (Metric::Throughput, bytes / 1e6)];
        let values = paces.map(|(metric, all)| (metric, all / reading.seconds)).into_iter();
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

    /// What a byte cost mount, reader and testbed together; `None` on storage whose costs nobody sees.
    fn cpu_s_per_byte(&self) -> Option<f64> {
        let all = self.mount.cpu_s + self.reading.cpu_s + self.testbed_cpu_s?;
        (self.reading.bytes > 0 && all > 0.0).then(|| all / self.reading.all_bytes() as f64)
    }
}

impl Column {
    fn new(subject: &Subject) -> Self {
        Self::named(&subject.name())
    }

    pub(super) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), runs: Vec::new(), failure: None }
    }

    /// The median over the runs.
    pub(crate) fn value(&self, metric: Metric) -> Option<f64> {
        self.median(|run| run.values.get(&metric).copied())
    }

    fn median(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.runs.iter().filter_map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 {
            Some(values[middle])
        } else {
            Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?))
        }
    }

    /// Takes a run, or remembers why there is none.
    pub(super) fn take(&mut self, run: Result<Run, Error>) -> Result<(), Error> {
        match run {
            Ok(run) => self.runs.push(run),
            // These say nothing about the subject.
            Err(error @ (Error::Interrupted | Error::NoCgroup { .. } | Error::NoCacheDrop { .. })) => {
                return Err(error);
            }
            Err(error) => self.failure = Some(error.told()),
        }
        Ok(())
    }
}

impl Row {
    /// Nothing has been measured yet.
    pub(super) fn new(workload: &Workload, columns: Vec<Column>) -> Self {
        Self { workload: workload.clone(), columns, predicted: BTreeMap::new(), void: Vec::new() }
    }

    /// Measures a workload. What goes wrong is kept in the row; only an interruption is an error.
    pub(crate) fn measure(bench: &Bench<'_>, workload: &Workload, text: &str) -> Result<Self, Error> {
        if workload.device.is_submitted_to() {
            return submission::measure(bench, workload, text);
        }
        let subjects = Subject::all(bench.baselines, bench.against);
        let columns = subjects.iter().map(Column::new).collect();
        let mut row = Self::new(workload, columns);
        match row.fill(bench, text, &subjects) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error @ (Error::NoCgroup { .. } | Error::NoCacheDrop { .. })) => row.void.push(error.told()),
            Err(error) => row.columns[0].failure = Some(error.told()),
            Ok(()) => {}
        }
        Ok(row)
    }

    fn fill(&mut self, bench: &Bench<'_>, text: &str, subjects: &[Subject]) -> Result<(), Error> {
        let workload = self.workload.clone();
        let store = workload.device.store().ok_or_else(|| Error::SimulatedOnly { name: workload.name.clone() })?;
        let server = match bench.user {
            Some(_) => None,
            None => Some(Server::start(&workload, store, &bench.interrupt)?),
        };
        let site = Site::new(bench, &workload, text, server.as_ref())?;
        let mut yardstick = Yardstick::default();
        let mut attempts = 0;
        while self.columns[0].runs.len() < bench.repeat as usize
            && self.columns[0].failure.is_none()
            && attempts < bench.repeat + VOID_RETRIES
        {
            attempts += 1;
            let of = format!("run {attempts} of {}", bench.repeat.max(attempts));
            yardstick = site.yardstick(&of)?;
            let (min, found) = (store.ceiling_min_bytes_per_s, yardstick.ceiling_mb_per_s);
            if let (Some(min), Some(found)) = (min.map(|min| min as f64 / 1e6), found)
                && found < min
            {
                self.void.push(format!("16 connections of a bare client reached {found:.0} MB/s, wanted {min:.0}"));
                continue;
            }
            site.say(&format!("foreread, {of}"));
            self.columns[0].take(site.run(&subjects[0], yardstick))?;
        }
        if self.is_void() {
            return Ok(());
        }
        let beside = subjects.iter().zip(&mut self.columns).skip(1);
        for (subject, column) in beside.filter(|(subject, _)| subject.is_wanted(&workload)) {
            site.say(&subject.name());
            column.take(site.run(subject, yardstick))?;
        }
        if bench.yardsticks
            && let Err(error) = self.predict()
        {
            self.columns[0].failure = Some(format!("it cannot be predicted: {error}"));
        }
        Ok(())
    }

    /// Simulates foreread where it was measured: the store carries no more than the processors can take in, each byte at what it
    /// cost all processes of these runs.
    fn predict(&mut self) -> Result<(), foreread_sim::Error> {
        if matches!(self.workload.pattern, Pattern::MmapRandom { .. }) || !self.workload.is_simulated() {
            // A fault brings pages around it, which no model here does, and none knows directories.
            return Ok(());
        }
        let ours = &self.columns[0];
        let cpu_s_per_byte = ours.median(Run::cpu_s_per_byte).filter(|_| ours.failure.is_none());
        let Some(cpu_s_per_byte) = cpu_s_per_byte else { return Ok(()) };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let carries = processors as f64 / cpu_s_per_byte;
        let store = self.workload.device.store().and_then(|store| store.total_bytes_per_s).unwrap_or(u64::MAX);
        let workload = self.workload.clone().with_total_rate(store.min(carries as u64));
        let tally = Scenario::of(&workload, None)?.through_mount(&workload).run(PolicyName::Foreread)?;
        // Of the first bytes of a file a simulation knows no open().
        let known = Metric::ALL.iter().filter(|metric| !metric.key().starts_with("first_"));
        self.predicted = known.filter_map(|&metric| Some((metric, tally.figure(metric)?))).collect();
        Ok(())
    }

    /// What is predicted of `metric` over what was measured.
    pub(crate) fn predicted_over_measured(&self, metric: Metric) -> Option<f64> {
        Some(self.predicted.get(&metric)? / self.columns[0].value(metric)?)
    }

    /// Whether no run was good enough to be judged.
    pub(crate) fn is_void(&self) -> bool {
        self.columns[0].runs.is_empty() && self.columns[0].failure.is_none()
    }
}

/// Where a row is measured.
struct Site<'a> {
    bench: &'a Bench<'a>,
    workload: &'a Workload,
    text: &'a str,
    server: Option<&'a Server>,
    storage: Storage,
    /// Below the mount point.
    files: Vec<PathBuf>,
    keys: Vec<String>,
}

impl<'a> Site<'a> {
    fn new(
        bench: &'a Bench<'a>,
        workload: &'a Workload,
        text: &'a str,
        server: Option<&'a Server>,
    ) -> Result<Self, Error> {
        let names = || workload.all_files().map(|(name, _)| name);
        // Who walks a tree is told its top, and knows the names.
        let walks = workload.tree.is_some();
        let (storage, files, keys) = match (server, &bench.user) {
            (None, Some(user)) => (user.clone(), objects::find(bench, user, workload)?, Vec::new()),
            (server, _) => {
                let endpoint = server.map(Server::endpoint).unwrap_or_default().to_owned();
                let storage = Storage {
                    url: format!("s3://{BUCKET}"),
                    options: vec![OsString::from("--endpoint"), OsString::from(&endpoint)],
                    endpoint,
                    bucket: BUCKET.to_owned(),
                    testbed: true,
                };
                let top = || (vec![PathBuf::new()], Vec::new());
                let (files, keys) =
                    if walks { top() } else { (names().map(PathBuf::from).collect(), names().collect()) };
                (storage, files, keys)
            }
        };
        Ok(Self { bench, workload, text, server, storage, files, keys })
    }

    fn say(&self, what: &str) {
        (self.bench.say)(&format!("{}: {what}", self.workload.name));
    }

    fn yardstick(&self, of: &str) -> Result<Yardstick, Error> {
        // No bare client knows how to walk, and a ceiling of small files says nothing.
        let measured = self.bench.yardsticks && self.workload.tree.is_none();
        let Some(server) = self.server.filter(|_| measured) else { return Ok(Yardstick::default()) };
        self.say(&format!("the ceiling, {of}"));
        let interrupt = &self.bench.interrupt;
        let ceiling = yardstick::ceiling(server, self.workload, interrupt)?;
        self.say(&format!("a bare client, {of}"));
        let bare_operations_per_s = yardstick::operations(server, self.workload, interrupt)?;
        Ok(Yardstick { ceiling_mb_per_s: Some(ceiling), bare_operations_per_s })
    }

    /// One cold run.
    fn run(&self, subject: &Subject, yardstick: Yardstick) -> Result<Run, Error> {
        tree::may_drop_caches(self.workload)?;
        backing::restore(self.workload);
        let group = self.workload.mount.cgroup_bytes.map(Cgroup::new).transpose()?;
        let before = self.server.map(Server::counters).transpose()?;
        let cpu = || self.server.and_then(|server| process::cpu_s(server.id()));
        let (cpu_before, machine_before, started) = (cpu(), process::machine_cpu_s(), Instant::now());
        let dir = tempfile::tempdir_in(self.bench.scratch).map_err(Error::io("making a mount point"))?;
        let interrupt = &self.bench.interrupt;
        let mut mounted = subject.mount(&self.storage, &self.workload.mount, dir.path(), group.as_ref(), interrupt)?;
        let reading = self.read(mounted.dir(), group.as_ref());
        let spent = mounted.spent();
        let own = if self.server.is_none() { objects::counters(mounted.dir()) } else { None };
        let alive = mounted.check();
        drop(mounted);
        let killed = group.as_ref().map_or(0, Cgroup::killed);
        // A reader's error is a consequence where the mount has died.
        let reading = if killed > 0 { Err(Error::OutOfMemory { killed }) } else { alive.and(reading) }?;
        let fetched = match (self.server, before) {
            (Some(server), Some(before)) => Some(server.counters()?.since(before)),
            _ => own,
        };
        let since = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
        let testbed_cpu_s = since(cpu(), cpu_before);
        let ours = spent.cpu_s + reading.cpu_s + testbed_cpu_s.unwrap_or(0.0);
        let others_cpus = since(process::machine_cpu_s(), machine_before)
            .map(|busy| (busy - ours).max(0.0) / started.elapsed().as_secs_f64());
        let mut values = self.values(&reading, fetched, spent, yardstick);
        if let Some(trodden) = &reading.trodden {
            values.retain(|metric, _| !metric.key().starts_with("first_") && *metric != Metric::SlowestOfFastest);
            values.extend(self.tree_values(&reading, trodden, fetched));
        }
        Ok(Run {
            ceiling_mb_per_s: yardstick.ceiling_mb_per_s,
            bare_operations_per_s: yardstick.bare_operations_per_s,
            reading,
            fetched,
            mount: spent,
            testbed_cpu_s,
            others_cpus,
            values,
        })
    }

    fn read(&self, dir: &Path, group: Option<&Cgroup>) -> Result<Reading, Error> {
        let plan = Plan {
            workload: self.text.to_owned(),
            duration_ns: self.workload.duration_ns,
            process: 0,
            paths: self.files.iter().map(|file| dir.join(file)).collect(),
            keys: self.keys.clone(),
            submitter: None,
        };
        let limit = Duration::from_nanos(self.workload.duration_ns) + READER_SLACK;
        readers::read(self.bench, &plan, self.workload.processes, group, limit)
    }

    fn values(
        &self,
        reading: &Reading,
        fetched: Option<Counters>,
        spent: Spent,
        yardstick: Yardstick,
    ) -> BTreeMap<Metric, f64> {
        let mut values = BTreeMap::new();
        let mut put = |metric, value: Option<f64>| {
            if let Some(value) = value.filter(|value| value.is_finite()) {
                values.insert(metric, value);
            }
        };
        let throughput = reading.bytes as f64 / 1e6 / reading.seconds;
        let operations = reading.operations as f64 / reading.seconds;
        put(Metric::Throughput, Some(throughput));
        put(Metric::ThroughputOfCeiling, yardstick.ceiling_mb_per_s.map(|ceiling| throughput / ceiling));
        put(Metric::Operations, Some(operations));
        put(Metric::OperationsOfBare, yardstick.bare_operations_per_s.map(|bare| operations / bare));
        let (slowest, fastest) = reading.thread_mb_per_s;
        put(Metric::SlowestOfFastest, (self.workload.threads > 1).then_some(slowest / fastest));
        put(Metric::ReadP50, Some(reading.latency_us.p50 as f64 / 1e3));
        put(Metric::ReadP99, Some(reading.latency_us.p99 as f64 / 1e3));
        let beside = reading.beside.as_ref();
        put(Metric::BesideThroughput, beside.map(|beside| beside.bytes as f64 / 1e6 / reading.seconds));
        put(Metric::BesideReadP99, beside.map(|beside| beside.latency_us.p99 as f64 / 1e3));
        put(Metric::FirstByte, Some(reading.first_byte_max_ms));
        put(Metric::FirstByteP50, Some(reading.first_byte_p50_ms));
        put(Metric::First64Mib, reading.first_64_mib_s);
        put(Metric::Late, self.workload.pattern.period_ns().map(|_| reading.late as f64));
        put(Metric::Amp, fetched.map(|fetched| fetched.bytes as f64 / reading.all_bytes() as f64));
        let gib = reading.all_bytes() as f64 / f64::from(1 << 30);
        put(Metric::RequestsPerGib, fetched.map(|fetched| fetched.gets as f64 / gib));
        put(Metric::Rss, Some(spent.rss_max_bytes as f64 / f64::from(1 << 20)));
        values
    }

    /// What is told of trees only.
    fn tree_values(
        &self,
        reading: &Reading,
        trodden: &Trodden,
        fetched: Option<Counters>,
    ) -> impl Iterator<Item = (Metric, f64)> {
        let last = trodden.passes.last().cloned().unwrap_or_default();
        let seconds = trodden.complete.then_some(last.seconds);
        let first_byte_s = self.workload.device.store().map(|store| store.first_byte_ns as f64 / 1e9);
        let reads = self.workload.pattern.record_bytes() > 0;
        let walks = matches!(self.workload.pattern, Pattern::Walk { .. });
        // Time may have been up before the last epoch.
        let read = reads && last.files > 0;
        let over = |count: Option<u64>, of: u64| Some(count? as f64 / of as f64);
        let unread = |fetched: Counters| fetched.bytes.saturating_sub(reading.bytes);
        let waste = fetched.filter(|_| reads).and_then(|fetched| over(Some(unread(fetched)), fetched.bytes));
        [
            (Metric::Seconds, seconds),
            (Metric::Rounds, seconds.zip(first_byte_s).map(|(seconds, first_byte_s)| seconds / first_byte_s)),
            (Metric::Entries, walks.then(|| trodden.names as f64 / last.seconds)),
            (Metric::FilesRead, read.then(|| last.files as f64 / last.seconds)),
            (Metric::ListsPerDirectory, over(fetched.map(|fetched| fetched.lists), trodden.directories)),
            (Metric::StatsPerEntry, over(fetched.map(|fetched| fetched.heads), trodden.names)),
            (Metric::ReadsPerFile, over(fetched.map(|fetched| fetched.gets).filter(|_| reads), trodden.files)),
            (Metric::Waste, waste),
        ]
        .into_iter()
        .filter_map(|(metric, value)| Some((metric, value.filter(|value| value.is_finite())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: &[f64]) -> Column {
        let run = |&value: &f64| Run {
            ceiling_mb_per_s: None,
            bare_operations_per_s: None,
            reading: Reading::default(),
            fetched: None,
            mount: Spent::default(),
            testbed_cpu_s: None,
            others_cpus: None,
            values: BTreeMap::from([(Metric::Amp, value)]),
        };
        Column { name: "x".to_owned(), runs: values.iter().map(run).collect(), failure: None }
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
