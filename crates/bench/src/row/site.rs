//! Where a row is measured: its storage, its files, and one cold run of a subject there.
//!
//! Every subject is mounted afresh for every run, so neither its own memory nor the kernel's page
//! cache holds anything of its files. Counters are read after the unmount: bytes that were fetched
//! and that no read asked for count as fetched.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foreread_workload::{Metric, Workload};
use tempfile::TempDir;

use crate::error::Error;
use crate::options::Options;
use crate::process::usage;
use crate::readers::plan::Plan;
use crate::readers::reading::Reading;
use crate::readers::{start, tree};
use crate::row::column::Run;
use crate::row::figures;
use crate::subject::cgroup::Cgroup;
use crate::subject::client::{Place, Storage, Subject};
use crate::subject::server::Server;
use crate::subject::yardstick::{self, Yardstick};
use crate::subject::{backing, objects};

/// Time that readers may take beyond the workload's duration: to start, to open, for a last slow
/// read, and to end.
const READER_SLACK: Duration = Duration::from_mins(1);

/// Where a row is measured.
pub(crate) struct Site<'a> {
    options: &'a Options<'a>,
    workload: &'a Workload,
    text: &'a str,
    server: Option<&'a Server>,
    storage: Storage,
    /// Below the mount point.
    files: Vec<PathBuf>,
    keys: Vec<String>,
}

impl<'a> Site<'a> {
    pub(crate) fn new(
        options: &'a Options<'a>,
        workload: &'a Workload,
        text: &'a str,
        server: Option<&'a Server>,
    ) -> Result<Self, Error> {
        let names = || workload.all_files().map(|(name, _)| name);
        // The plan of a walk has the top only: the reader knows the names.
        let walks = workload.tree.is_some();
        let (storage, files, keys) = match (server, &options.user) {
            (None, Some(user)) => (user.clone(), objects::find(&options.setup, user, workload)?, Vec::new()),
            (server, _) => {
                let endpoint = server.map(Server::endpoint).unwrap_or_default();
                let storage = Storage::testbed(endpoint);
                let top = || (vec![PathBuf::new()], Vec::new());
                let (files, keys) =
                    if walks { top() } else { (names().map(PathBuf::from).collect(), names().collect()) };
                (storage, files, keys)
            }
        };
        Ok(Self { options, workload, text, server, storage, files, keys })
    }

    /// Reports what is measured of this workload.
    pub(crate) fn status(&self, what: &str) {
        self.options.setup.status(&format!("{}: {what}", self.workload.name));
    }

    /// Measures what the machine gives now, before a run.
    pub(crate) fn yardstick(&self, of: &str) -> Result<Yardstick, Error> {
        // The bare client cannot walk a tree, and a ceiling of small files says nothing.
        let measured = self.options.yardsticks && self.workload.tree.is_none();
        let Some(server) = self.server.filter(|_| measured) else { return Ok(Yardstick::default()) };
        self.status(&format!("the ceiling, {of}"));
        let interrupt = &self.options.setup.interrupt;
        let ceiling = yardstick::ceiling(server, self.workload, interrupt)?;
        self.status(&format!("a bare client, {of}"));
        let bare_operations_per_s = yardstick::operations(server, self.workload, interrupt)?;
        Ok(Yardstick { ceiling_mb_per_s: Some(ceiling), bare_operations_per_s })
    }

    /// One cold run.
    pub(crate) fn run(&self, subject: &Subject, yardstick: Yardstick) -> Result<Run, Error> {
        tree::may_drop_caches(self.workload)?;
        backing::restore(self.workload);
        let group = self.workload.mount.cgroup_bytes.map(Cgroup::new).transpose()?;
        let cache = self.workload.mount.cache_bytes.map(|_| self.fill_cache(subject)).transpose()?;
        let before = self.server.map(Server::counters).transpose()?;
        let cpu = || self.server.and_then(|server| usage::cpu_s(server.id()));
        let (cpu_before, machine_before, started) = (cpu(), usage::machine_cpu_s(), Instant::now());
        let dir = self.options.setup.dir("making a mount point")?;
        let interrupt = &self.options.setup.interrupt;
        let place = Place { dir: dir.path(), cache: cache.as_ref().map(TempDir::path) };
        let mut mounted = subject.mount(&self.storage, &self.workload.mount, place, group.as_ref(), interrupt)?;
        let reading = self.read(mounted.dir(), group.as_ref());
        let spent = mounted.spent();
        let own = if self.server.is_none() { objects::counters(mounted.dir()) } else { None };
        let alive = mounted.check();
        drop(mounted);
        let killed = group.as_ref().map_or(0, Cgroup::killed);
        // Where the mount has died, the reader's error is a consequence.
        let reading = if killed > 0 { Err(Error::OutOfMemory { killed }) } else { alive.and(reading) }?;
        let fetched = match (self.server, before) {
            (Some(server), Some(before)) => Some(server.counters()?.since(before)),
            _ => own,
        };
        let since = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
        let testbed_cpu_s = since(cpu(), cpu_before);
        let ours = spent.cpu_s + reading.cpu_s + testbed_cpu_s.unwrap_or(0.0);
        let others_cpus = since(usage::machine_cpu_s(), machine_before)
            .map(|busy| (busy - ours).max(0.0) / started.elapsed().as_secs_f64());
        let mut values = figures::of_reading(self.workload, &reading, fetched, spent, yardstick);
        if let Some(trodden) = &reading.trodden {
            values.retain(|metric, _| !metric.key().starts_with("first_") && *metric != Metric::SlowestOfFastest);
            values.extend(figures::of_tree(self.workload, &reading, trodden, fetched));
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

    /// A folder with what a first run keeps, which is not measured.
    fn fill_cache(&self, subject: &Subject) -> Result<TempDir, Error> {
        self.status("filling the cache");
        let setup = &self.options.setup;
        let (dir, cache) = (setup.dir("making a mount point")?, setup.dir("making a cache")?);
        let place = Place { dir: dir.path(), cache: Some(cache.path()) };
        let mut mounted = subject.mount(&self.storage, &self.workload.mount, place, None, &setup.interrupt)?;
        let read = self.read(mounted.dir(), None);
        mounted.check().and(read)?;
        // It writes what it has before it ends.
        drop(mounted);
        rustix::fs::sync();
        tree::drop_caches()?;
        Ok(cache)
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
        start::read(&self.options.setup, &plan, self.workload.processes, group, limit)
    }
}
