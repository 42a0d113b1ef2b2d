//! The conditions under which rows were measured: program, machine, storage, other clients.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::process::usage;

/// Under which conditions rows were measured.
#[derive(Debug, Serialize)]
pub struct Conditions {
    command: String,
    version: &'static str,
    commit: Option<String>,
    unix_s: u64,
    kernel: String,
    cpus: usize,
    memory_mib: u64,
    repeat: u32,
    storage: String,
    others: Vec<Other>,
}

/// Another client that was measured.
#[derive(Debug, Serialize)]
struct Other {
    command: String,
    /// The first line of its `--version`.
    version: Option<String>,
}

impl Conditions {
    /// Those of this process, now. `command` is its command line without secrets; `storage` says
    /// what is read.
    pub fn now(command: String, repeat: u32, storage: String, against: &[String]) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            command,
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            kernel: kernel.trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: usage::memory_bytes().unwrap_or(0) >> 20,
            repeat,
            storage,
            others: against
                .iter()
                .map(|command| Other { command: command.clone(), version: version(command) })
                .collect(),
        }
    }

    /// On one line, below the table.
    pub fn line(&self) -> String {
        let commit = self.commit.as_deref().map(|commit| format!(" ({commit})")).unwrap_or_default();
        format!(
            "foreread {}{commit}, Linux {}, {} CPUs, {}; median of {}",
            self.version, self.kernel, self.cpus, self.storage, self.repeat
        )
    }
}

/// The commit of the checkout that this program was built in, if it is still there.
fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("git")
        .arg("-C")
        .arg(program.parent().unwrap_or(Path::new(".")))
        .args(["describe", "--always", "--dirty", "--tags"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

fn version(command: &str) -> Option<String> {
    let program = command.split_whitespace().find(|word| !word.contains('='))?;
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}
