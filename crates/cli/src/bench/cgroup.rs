//! A memory cgroup around a mount and its readers, version 1 or 2.
//!
//! It holds the kernel's page cache of what the readers read as well, which is the point: in a container, everything that
//! a reader causes is charged to one limit.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::error::Error;
use super::process::TICK;

/// Where the hierarchies are mounted by convention.
const ROOT: &str = "/sys/fs/cgroup";
/// Removing waits for the last process to be gone.
const REMOVE_MAX: Duration = Duration::from_secs(2);

/// A cgroup; removed when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    /// A cgroup of at most `limit_bytes`. Needs the right to make one, which usually only root has.
    pub(crate) fn new(limit_bytes: u64) -> Result<Self, Error> {
        Self::make(limit_bytes).map_err(|cause| Error::NoCgroup { cause })
    }

    fn make(limit_bytes: u64) -> io::Result<Self> {
        let v1 = Path::new(ROOT).join("memory");
        let (parent, limit) = if v1.join("memory.limit_in_bytes").exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            // Children get the controller only when the parent hands it down; the root may always do so.
            fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
            (PathBuf::from(ROOT), "memory.max")
        };
        let dir = parent.join(format!("foreread-bench-{}", std::process::id()));
        fs::create_dir(&dir)?;
        let group = Self { dir };
        fs::write(group.dir.join(limit), limit_bytes.to_string())?;
        Ok(group)
    }

    /// `command`, started inside: a shell enters the cgroup and then becomes the command, so not one page is charged
    /// outside.
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

    /// `command` as it is, or inside `group`.
    pub(crate) fn enter_if(group: Option<&Self>, command: Command) -> Command {
        match group {
            Some(group) => group.enter(&command),
            None => command,
        }
    }

    /// How often the limit was met with nothing left to reclaim; only version 2 and newer kernels tell.
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
