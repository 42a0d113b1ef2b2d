//! Processes that the benchmark starts: always ended again, by number, whatever happens.
//!
//! Each is the leader of a process group of its own, so Ctrl-C on the terminal reaches the benchmark only, which then
//! takes everything down in order: readers, mount, testbed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::error::Error;
use crate::interrupt::Interrupt;

/// Between two looks at something that is waited for. Nothing that is measured depends on it.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Of a program's complaints, this much of the end is shown.
const SAID_BYTES_MAX: u64 = 2000;

/// Variables of the user's shell that would send the children elsewhere than to the testbed.
const FOREIGN: &[&str] = &[
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// A running child. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    shown: String,
    stderr: File,
}

impl Process {
    /// Starts `command`, whose stdout is kept for [`Process::stdout`].
    pub(crate) fn start(command: &mut Command, shown: String) -> Result<Self, Error> {
        Self::start_fed(command, shown, Stdio::null())
    }

    /// The same with something to read.
    pub(crate) fn start_fed(command: &mut Command, shown: String, stdin: Stdio) -> Result<Self, Error> {
        let stderr = tempfile::tempfile().map_err(Error::io("making a temporary file"))?;
        let to = stderr.try_clone().map_err(Error::io("making a temporary file"))?;
        // A backtrace would be all that is seen of the end of its complaints.
        command.env_remove("RUST_BACKTRACE");
        let child = command.stdin(stdin).stdout(Stdio::piped()).stderr(to).process_group(0).spawn();
        let child = child.map_err(|cause| Error::Spawn { command: shown.clone(), cause })?;
        Ok(Self { child, shown, stderr })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child's output; once.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// An error if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(Error::io("waiting for a child"))? {
            Some(status) => Err(self.ended(status)),
            None => Ok(()),
        }
    }

    /// Waits until it has ended by itself; anything else than success is an error.
    pub(crate) fn finish(mut self, limit: Duration, interrupt: &Interrupt) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait().map_err(Error::io("waiting for a child"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.ended(status)),
                None if Instant::now() >= deadline => return Err(self.timed_out("end", limit)),
                None => Error::if_interrupted(interrupt)?,
            }
            thread::sleep(TICK);
        }
    }

    /// Waits until it has ended by itself, for what it has written; anything else than success is an error.
    pub(crate) fn answer(mut self, limit: Duration, interrupt: &Interrupt) -> Result<String, Error> {
        let mut stdout = self.stdout().expect("it was just started");
        // Beside the wait: more than a pipe holds may come.
        let reads = thread::spawn(move || {
            let mut answer = String::new();
            stdout.read_to_string(&mut answer).map(|_| answer)
        });
        self.finish(limit, interrupt)?;
        let answer = reads.join().expect("the thread only reads");
        answer.map_err(Error::io("reading a program's result"))
    }

    pub(crate) fn timed_out(&mut self, what: &'static str, limit: Duration) -> Error {
        Error::TimedOut { command: self.shown.clone(), what, seconds: limit.as_secs(), said: self.said() }
    }

    fn ended(&mut self, status: ExitStatus) -> Error {
        Error::Ended { command: self.shown.clone(), status: status.to_string(), said: self.said() }
    }

    /// The end of what it wrote to stderr, as the rest of a sentence.
    fn said(&mut self) -> String {
        match self.stderr_end() {
            Ok(text) if !text.trim().is_empty() => format!(":\n{}", text.trim()),
            _ => String::new(),
        }
    }

    fn stderr_end(&mut self) -> io::Result<String> {
        let end = self.stderr.seek(SeekFrom::End(0))?;
        self.stderr.seek(SeekFrom::Start(end.saturating_sub(SAID_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        self.stderr.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits for its end; true if it came in time.
    pub(crate) fn gone_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(TICK),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.gone_within(Duration::ZERO) {
            return;
        }
        // The group: a shell that is ended leaves its children behind.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        if !self.gone_within(GRACE) {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A command whose environment leads to the testbed.
pub(crate) fn towards_testbed(program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
        .env("AWS_ACCESS_KEY_ID", "testbed")
        .env("AWS_SECRET_ACCESS_KEY", "testbedsecret")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// Processor time of a process so far, in user and kernel mode.
pub(crate) fn cpu_s(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields after it are fixed (proc(5): utime is 14, stime 15).
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Processor time that all processes of the machine have spent so far, and that its host took away.
///
/// Interrupts are left out: they carry our own packets, and are charged to nobody.
pub(crate) fn machine_cpu_s() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    // proc(5): user nice system idle iowait irq softirq steal ...
    let fields: Vec<u64> = text.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    let busy = fields.get(..3)?.iter().sum::<u64>() + fields.get(7)?;
    Some(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The process and all its descendants, by the parents that /proc names.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let mut members = vec![root];
    let mut next = 0;
    while let Some(&parent) = members.get(next) {
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    members
}

/// The largest resident set that a process has had, in bytes.
pub(crate) fn rss_max_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), "the script".to_owned()).expect("there is a shell")
    }

    #[test]
    fn a_dropped_process_is_gone_with_its_children() {
        let mut process = shell("sleep 1000 & echo ready; wait");
        let mut ready = [0; 6];
        process.stdout().expect("once").read_exact(&mut ready).expect("it says so");
        let members = tree(process.id());
        assert_eq!(members.len(), 2);
        drop(process);
        let alive =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        // The orphan is reaped by someone else, in its own time.
        while members.iter().any(alive) {
            thread::sleep(TICK);
        }
    }

    #[test]
    fn an_early_end_is_told_with_what_the_program_said() {
        let interrupt = Interrupt::never();
        let failed = shell("echo no bucket >&2; exit 3").finish(Duration::from_mins(1), &interrupt);
        let told = failed.expect_err("it exits with 3").to_string();
        assert!(
            told.contains("the script") && told.contains("exit status: 3") && told.ends_with("no bucket"),
            "{told}"
        );
        assert!(shell("exit 0").finish(Duration::from_mins(1), &interrupt).is_ok());
    }

    #[test]
    fn memory_and_time_of_this_process_are_known() {
        assert!(rss_max_bytes(std::process::id()).is_some_and(|bytes| bytes > 1 << 20));
        assert!(cpu_s(std::process::id()).is_some() && machine_cpu_s().is_some());
        assert_eq!(rss_max_bytes(0), None);
    }
}
