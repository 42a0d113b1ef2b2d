//! Processes that the benchmark starts. Each is ended again, by its number, whatever happens.
//!
//! Each leads a process group of its own, so Ctrl-C on the terminal reaches the benchmark only.
//! The benchmark then ends its processes in order: readers, mount, testbed.
//!
//! - `child`: those of them that are this program. `interrupt`: the user's wish to end them all.
//! - `usage`: what they have used.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::error::Error;
use crate::process::interrupt::Interrupt;

pub mod child;
pub(crate) mod interrupt;
pub(crate) mod usage;

/// The time between two checks of a condition that is waited for. No figure depends on it.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// The time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The end of a program's stderr that is shown.
const SAID_BYTES_MAX: u64 = 2000;

/// Variables of the user's shell that would send the children away from the testbed.
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
    abandoned: bool,
}

impl Process {
    /// Starts `command`, without input. Its stdout waits for [`Process::stdout`].
    pub(crate) fn start(command: &mut Command, shown: String) -> Result<Self, Error> {
        Self::start_fed(command, shown, Stdio::null())
    }

    /// The same, with an input.
    pub(crate) fn start_fed(command: &mut Command, shown: String, stdin: Stdio) -> Result<Self, Error> {
        let stderr = tempfile::tempfile().map_err(Error::io("making a temporary file"))?;
        let to = stderr.try_clone().map_err(Error::io("making a temporary file"))?;
        // A backtrace would fill the end of stderr, which is what is shown.
        command.env_remove("RUST_BACKTRACE");
        let child = command.stdin(stdin).stdout(Stdio::piped()).stderr(to).process_group(0).spawn();
        let child = child.map_err(|cause| Error::Spawn { command: shown.clone(), cause })?;
        Ok(Self { child, shown, stderr, abandoned: false })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child's stdout, at the first call.
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

    /// Waits for the child's own end; any status but success is an error.
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

    /// Waits for the child's own end and returns its stdout; any status but success is an error.
    pub(crate) fn answer(self, limit: Duration, interrupt: &Interrupt) -> Result<String, Error> {
        self.answer_at(limit, interrupt).map(|(answer, _)| answer)
    }

    /// The same, and when the stdout ended.
    pub(crate) fn answer_at(mut self, limit: Duration, interrupt: &Interrupt) -> Result<(String, Instant), Error> {
        let mut stdout = self.stdout().expect("it was just started");
        // A thread reads while this one waits: the output may be larger than a pipe.
        let (send, answer) = mpsc::channel();
        thread::spawn(move || {
            let mut answer = String::new();
            let _ = send.send(stdout.read_to_string(&mut answer).map(|_| (answer, Instant::now())));
        });
        let group = Pid::from_child(&self.child);
        let finished = self.finish(limit, interrupt);
        // What it has started and left behind would hold the pipe, or a mount.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        finished?;
        let answer = answer.recv_timeout(GRACE).map_err(|_| Error::protocol("its output does not end"))?;
        answer.map_err(Error::io("reading a program's result"))
    }

    pub(crate) fn timed_out(&mut self, what: &'static str, limit: Duration) -> Error {
        Error::TimedOut { command: self.shown.clone(), what, seconds: limit.as_secs(), said: self.said() }
    }

    /// How it has ended, if it has.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::io("waiting for a child"))
    }

    /// Sends SIGKILL to its group, and does not wait.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Leaves it as it is: nothing waits for it again.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// The error of a process that has ended in this way, which it should not have.
    pub(crate) fn ended(&mut self, status: ExitStatus) -> Error {
        Error::Ended { command: self.shown.clone(), status: status.to_string(), said: self.said() }
    }

    /// The end of its stderr, as the rest of a sentence.
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

    /// Waits for its end, at most `limit`; true if it has ended.
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
        if self.abandoned || self.gone_within(Duration::ZERO) {
            return;
        }
        // The whole group: a shell that is ended leaves its children behind.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        if !self.gone_within(GRACE) {
            self.kill();
            // Not without a bound: a process whose read a dead mount holds survives SIGKILL until
            // the mount is aborted, and must not hold this one.
            self.gone_within(GRACE);
        }
    }
}

/// A command with an environment that leads to the testbed.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::usage;

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), "the script".to_owned()).expect("there is a shell")
    }

    #[test]
    fn a_dropped_process_is_gone_with_its_children() {
        let mut process = shell("sleep 1000 & echo ready; wait");
        let mut ready = [0; 6];
        process.stdout().expect("once").read_exact(&mut ready).expect("it says so");
        let members = usage::tree(process.id());
        assert_eq!(members.len(), 2);
        drop(process);
        let alive =
            |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        // Another process reaps the orphan, in its own time.
        while members.iter().any(alive) {
            thread::sleep(TICK);
        }
    }

    #[test]
    fn what_a_program_leaves_behind_does_not_hold_its_answer() {
        let process = shell("sleep 1000 & echo done");
        let answer = process.answer(Duration::from_mins(1), &Interrupt::default());
        assert_eq!(answer.expect("it ends at once"), "done\n");
    }

    #[test]
    fn an_early_end_is_reported_with_the_program_s_stderr() {
        let interrupt = Interrupt::default();
        let failed = shell("echo no bucket >&2; exit 3").finish(Duration::from_mins(1), &interrupt);
        let message = failed.expect_err("it exits with 3").to_string();
        assert!(
            message.contains("the script") && message.contains("exit status: 3") && message.ends_with("no bucket"),
            "{message}"
        );
        assert!(shell("exit 0").finish(Duration::from_mins(1), &interrupt).is_ok());
    }
}
