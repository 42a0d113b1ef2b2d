//! The clients that are measured, each mounted afresh for one run: foreread, foreread with
//! something switched off, or another program.
//!
//! ```text
//!  start process ──> mount is in the table ──> readers run
//!    ──> memory and CPU are read ──> unmount ──> process ends
//! ```
//!
//! Another client is a shell command that stays in the foreground. The command may use
//! `{endpoint}`, `{bucket}`, `{dir}`, `{memory_mib}` and `{cache}`, a folder for its cache. Its
//! memory is that of its whole process tree.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use foreread_fuse::mount_table;
use foreread_workload::{Baseline, Mount, Workload};

use crate::error::Error;
use crate::process::interrupt::Interrupt;
use crate::process::usage;
use crate::process::{self, Process, TICK};
use crate::subject::cgroup::Cgroup;
use crate::subject::server::BUCKET;

/// The longest time from start to mount. Other clients take a few seconds at worst.
const MOUNT_MAX: Duration = Duration::from_secs(15);
/// The longest time from the unmount to the end of the process; more is a hang.
const END_MAX: Duration = Duration::from_secs(10);

/// The user and the group that own nothing.
pub(crate) const NOBODY: u32 = 65534;

/// A client that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// This program.
    Foreread,
    /// This program, without readahead.
    ReadaheadOff,
    /// This program, with something else switched off.
    Baseline(Baseline),
    /// This program, as a user without privileges. Only root can measure it.
    WithoutRoot,
    /// Another client's command line.
    Other(String),
}

/// The storage that holds the files.
#[derive(Clone, Debug)]
pub struct Storage {
    url: String,
    options: Vec<OsString>,
    endpoint: String,
    bucket: String,
    /// Whether it is a testbed, whose credentials are known.
    testbed: bool,
}

/// Where a client has its mount point, and its cache if it has one on a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'p> {
    pub(crate) dir: &'p Path,
    pub(crate) cache: Option<&'p Path>,
}

impl<'p> Place<'p> {
    /// A mount point, without a cache.
    pub(crate) fn at(dir: &'p Path) -> Self {
        Self { dir, cache: None }
    }
}

/// A running mount. Dropping it unmounts and ends the process.
#[derive(Debug)]
pub(crate) struct Mounted {
    process: Process,
    dir: PathBuf,
}

/// What a mount's processes have used so far.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Spent {
    pub(crate) rss_max_bytes: u64,
    pub(crate) cpu_s: f64,
}

impl Storage {
    /// The user's own. `url` and `options` are given to `foreread mount`; `endpoint` and the
    /// bucket of `url` to the command lines of other clients.
    pub fn of_user(url: &str, options: Vec<OsString>, endpoint: Option<&str>) -> Self {
        let below = url.split_once("://").map_or(url, |(_, rest)| rest);
        Self {
            url: url.to_owned(),
            options,
            endpoint: endpoint.unwrap_or_default().to_owned(),
            bucket: below.split('/').next().unwrap_or_default().to_owned(),
            testbed: false,
        }
    }

    /// A testbed at `endpoint`.
    pub(crate) fn testbed(endpoint: &str) -> Self {
        Self::bucket(endpoint, BUCKET)
    }

    /// A bucket that a testbed at `endpoint` leads to.
    pub(crate) fn bucket(endpoint: &str, bucket: &str) -> Self {
        Self {
            url: format!("s3://{bucket}"),
            options: vec![OsString::from("--endpoint"), OsString::from(endpoint)],
            endpoint: endpoint.to_owned(),
            bucket: bucket.to_owned(),
            testbed: true,
        }
    }

    /// `http://HOST:PORT`; empty for storage that has its own.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The bucket and what follows it.
    pub(crate) fn below(&self) -> &str {
        self.url.split_once("://").map_or(&self.url, |(_, rest)| rest)
    }

    /// A command in an environment that leads to it.
    pub(crate) fn lead(&self, program: &OsStr) -> Command {
        if self.testbed { process::towards_testbed(program) } else { Command::new(program) }
    }

    /// As the user wrote it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Subject {
    /// All subjects with a column, this program first.
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

    /// The head of its column.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Foreread => "foreread".to_owned(),
            Self::ReadaheadOff => "readahead off".to_owned(),
            Self::Baseline(baseline) => baseline.as_str().replace('-', " "),
            Self::WithoutRoot => "without root".to_owned(),
            Self::Other(command) => {
                // Leading NAME=VALUE words set variables.
                let program = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or("other");
                Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or(program).to_owned()
            }
        }
    }

    fn command(&self, storage: &Storage, mount: &Mount, Place { dir, cache }: Place<'_>) -> Result<Command, Error> {
        let program = match self {
            Self::Other(_) => OsString::from("sh"),
            _ => std::env::current_exe().map_err(Error::io("finding this program"))?.into(),
        };
        let mut command = storage.lead(&program);
        match self {
            Self::Foreread | Self::ReadaheadOff | Self::Baseline(_) | Self::WithoutRoot => {
                command.arg("mount").arg(&storage.url).arg(dir).args(&storage.options);
                command.args(["--foreground", "--memory", &mount.memory_bytes.to_string()]);
                command.args(self.switched_off());
                if let Some((cache, bytes)) = cache.zip(mount.cache_bytes) {
                    command.arg("--cache").arg(cache).args(["--cache-size", &bytes.to_string()]);
                }
            }
            Self::Other(template) => {
                let memory_mib = (mount.memory_bytes >> 20).to_string();
                let text = template
                    .replace("{endpoint}", &storage.endpoint)
                    .replace("{bucket}", &storage.bucket)
                    .replace("{dir}", &dir.to_string_lossy())
                    .replace("{memory_mib}", &memory_mib)
                    .replace("{cache}", &cache.unwrap_or(dir).to_string_lossy());
                command.arg("-c").arg(text);
            }
        }
        self.become_user(&mut command);
        Ok(command)
    }

    /// Lets `command` run as the user who mounts.
    pub(crate) fn become_user(&self, command: &mut Command) {
        if *self == Self::WithoutRoot {
            command.uid(NOBODY).gid(NOBODY).env("HOME", "/").env_remove("XDG_RUNTIME_DIR");
        }
    }

    /// The options of `foreread mount` that switch it off.
    fn switched_off(&self) -> &'static [&'static str] {
        match self {
            Self::ReadaheadOff => &["--readahead", "off"],
            Self::Baseline(Baseline::FairQueueOff) => &["--fair-queue", "off"],
            _ => &[],
        }
    }

    /// Mounts at `place`, which must exist and be empty.
    pub(crate) fn mount(
        &self,
        storage: &Storage,
        mount: &Mount,
        place: Place<'_>,
        group: Option<&Cgroup>,
        interrupt: &Interrupt,
    ) -> Result<Mounted, Error> {
        let dir = place.dir.canonicalize().map_err(Error::io("finding the mount point"))?;
        let mut command = Cgroup::enter_if(group, self.command(storage, mount, Place { dir: &dir, ..place })?);
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

    /// What its processes have used so far.
    pub(crate) fn spent(&self) -> Spent {
        let mut spent = Spent::default();
        for pid in usage::tree(self.process.id()) {
            spent.rss_max_bytes += usage::rss_max_bytes(pid).unwrap_or(0);
            spent.cpu_s += usage::cpu_s(pid).unwrap_or(0.0);
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
            // The guard of the process ends it. The mount goes first: a dead mount cannot be
            // entered.
            let _ = foreread_fuse::unmount(&self.dir, true);
        }
    }
}
