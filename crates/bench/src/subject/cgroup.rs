//! A memory cgroup around a mount and its readers, version 1 or 2.
//!
//! The limit includes the kernel's page cache of the files that are read, as in a container:
//! there, everything that a reader causes is charged to one limit.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::process::TICK;

/// Where the hierarchies are mounted by convention.
const ROOT: &str = "/sys/fs/cgroup";
/// The longest wait for the last process to leave, before the cgroup is removed.
const REMOVE_MAX: Duration = Duration::from_secs(2);

/// A cgroup; removed when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// Makes a cgroup with a limit. Needs the permission to make one, which usually only root has.
    pub(crate) fn new(limit_bytes: u64) -> Result<Self, Error> {
        Self::make(limit_bytes).map_err(|cause| Error::NoCgroup { cause })
    }

    fn make(limit_bytes: u64) -> io::Result<Self> {
        let v1 = Path::new(ROOT).join("memory");
        let (parent, limit) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            // Children get the controller only if the parent passes it on; the root always may.
            fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
            (PathBuf::from(ROOT), "memory.max")
        };
        let dir = parent.join(format!("foreread-bench-{}", std::process::id()));
        fs::create_dir(&dir)?;
        let group = Self { dir };
        fs::write(group.dir.join(limit), limit_bytes.to_string())?;
        Ok(group)
    }

    /// `command`, started inside: a shell enters the cgroup and then becomes the command, so no
    /// page is charged outside.
    pub(crate) fn enter(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.dir.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// `command`, inside `group` if there is one.
    pub(crate) fn enter_if(group: Option<&Self>, command: Command) -> Command {
        match group {
            Some(group) => group.enter(&command),
            None => command,
        }
    }

    /// Processes that the kernel killed for the limit; only version 2 and newer kernels count
    /// them.
    pub(crate) fn killed(&self) -> u64 {
        ["memory.oom_control", "memory.events"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.dir.join(OsStr::new(name))).ok())
            .flat_map(|text| {
                let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok();
                text.lines().filter_map(count).collect::<Vec<_>>()
            })
            .sum()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let deadline = Instant::now() + REMOVE_MAX;
        while fs::remove_dir(&self.dir).is_err() && Instant::now() < deadline {
            thread::sleep(TICK);
        }
    }
}
