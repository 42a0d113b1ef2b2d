//! What is measured: foreread, foreread with something switched off, or another client, each freshly mounted for one run.
//!
//! ```text
//!  start process ──> mount stands in the table ──> reader runs ──> memory and CPU are read ──> unmount ──> it ends
//! ```
//!
//! Another client is a shell command that stays in the foreground; the command may use `{endpoint}`, `{bucket}`, `{dir}` and
//! `{memory_mib}`. Its memory is that of its whole process tree.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use foreread_workload::{Baseline, Mount, Workload};

use super::cgroup::Cgroup;
use super::error::Error;
use super::process::{self, Process, TICK};
use crate::interrupt::Interrupt;
use crate::mount_table;

/// From start until the mount stands. Other clients take a few seconds at worst.
const MOUNT_MAX: Duration = Duration::from_secs(15);
/// From the unmounting to the end of the process; more than that is a hang.
const END_MAX: Duration = Duration::from_secs(10);

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// This program.
    Foreread,
    /// This program, and it does not read ahead.
    ReadaheadOff,
    /// This program, and something else is switched off.
    Baseline(Baseline),
    /// Another client's command line.
    Other(String),
}

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// As `foreread mount` takes it.
    pub(crate) url: String,
    /// As `foreread mount --endpoint` takes it, and the other options of that kind.
    pub(crate) options: Vec<OsString>,
    /// For other clients' command lines; empty if unknown.
    pub(crate) endpoint: String,
    /// Likewise.
    pub(crate) bucket: String,
    /// Whether it is a testbed of ours, whose credentials are known.
    pub(crate) testbed: bool,
}

/// A running mount. Dropping it unmounts and ends the process.
#[derive(Debug)]
pub(crate) struct Mounted {
    process: Process,
    dir: PathBuf,
}

/// What a mount's processes took, until now.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Spent {
    pub(crate) rss_max_bytes: u64,
    pub(crate) cpu_s: f64,
}

impl Subject {
    /// All that have a column where workloads want `baselines`: this program first.
    pub(crate) fn all(baselines: &[Baseline], against: &[String]) -> Vec<Self> {
        let baselines = baselines.iter().copied().map(Self::Baseline);
        let others = against.iter().cloned().map(Self::Other);
        [Self::Foreread, Self::ReadaheadOff].into_iter().chain(baselines).chain(others).collect()
    }

    /// Whether it is measured on `workload`.
    pub(crate) fn is_wanted(&self, workload: &Workload) -> bool {
        match self {
            Self::Baseline(baseline) => workload.baselines.contains(baseline),
            _ => true,
        }
    }

    /// A short name for the head of a column.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Foreread => "foreread".to_owned(),
            Self::ReadaheadOff => "readahead off".to_owned(),
            Self::Baseline(baseline) => baseline.as_str().replace('-', " "),
            Self::Other(command) => {
                // Leading NAME=VALUE words set variables.
                let program = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or("other");
                Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or(program).to_owned()
            }
        }
    }

    fn command(&self, storage: &Storage, mount: &Mount, dir: &Path) -> Result<Command, Error> {
        let program = match self {
            Self::Other(_) => OsString::from("sh"),
            _ => std::env::current_exe().map_err(Error::io("finding this program"))?.into(),
        };
        let mut command = if storage.testbed { process::towards_testbed(&program) } else { Command::new(&program) };
        match self {
            Self::Foreread | Self::ReadaheadOff | Self::Baseline(_) => {
                command.arg("mount").arg(&storage.url).arg(dir).args(&storage.options);
                command.args(["--foreground", "--memory", &mount.memory_bytes.to_string()]);
                command.args(self.switched_off());
            }
            Self::Other(template) => {
                let memory_mib = (mount.memory_bytes >> 20).to_string();
                let text = template
                    .replace("{endpoint}", &storage.endpoint)
                    .replace("{bucket}", &storage.bucket)
                    .replace("{dir}", &dir.to_string_lossy())
                    .replace("{memory_mib}", &memory_mib);
                command.arg("-c").arg(text);
            }
        }
        Ok(command)
    }

    /// As `foreread mount` takes it.
    fn switched_off(&self) -> &'static [&'static str] {
        match self {
            Self::ReadaheadOff => &["--readahead", "off"],
            Self::Baseline(Baseline::FairQueueOff) => &["--fair-queue", "off"],
            _ => &[],
        }
    }

    /// Mounts on `dir`, which must exist and be empty.
    pub(crate) fn mount(
        &self,
        storage: &Storage,
        mount: &Mount,
        dir: &Path,
        group: Option<&Cgroup>,
        interrupt: &Interrupt,
    ) -> Result<Mounted, Error> {
        let dir = dir.canonicalize().map_err(Error::io("finding the mount point"))?;
        let mut command = Cgroup::enter_if(group, self.command(storage, mount, &dir)?);
        let shown = match self {
            Self::Other(_) => self.name(),
            _ => "foreread mount".to_owned(),
        };
        let process = Process::start(&mut command, shown)?;
        let mut mounted = Mounted { process, dir };
        let deadline = Instant::now() + MOUNT_MAX;
        while mount_table::at(&mounted.dir).map_err(Error::io("reading the table of mounts"))?.is_none() {
            mounted.process.check()?;
            Error::if_interrupted(interrupt)?;
            if Instant::now() >= deadline {
                return Err(mounted.process.timed_out("mount", MOUNT_MAX));
            }
            thread::sleep(TICK);
        }
        Ok(mounted)
    }
}

impl Mounted {
    /// Where it is mounted.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// An error if its process has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.process.check()
    }

    /// What its processes took so far.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for pid in process::tree(self.process.id()) {
            spent.rss_max_bytes += process::rss_max_bytes(pid).unwrap_or(0);
            spent.cpu_s += process::cpu_s(pid).unwrap_or(0.0);
        }
        spent
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let is_mounted = || mount_table::at(&self.dir).is_ok_and(|mount| mount.is_some());
        if is_mounted() && foreread_fuse::unmount(&self.dir, false).is_err() {
            let _ = foreread_fuse::unmount(&self.dir, true);
        }
        if !self.process.gone_within(END_MAX) {
            // The process itself is ended by its own guard. Its mount goes first: a dead one cannot be entered.
            let _ = foreread_fuse::unmount(&self.dir, true);
        }
    }
}
