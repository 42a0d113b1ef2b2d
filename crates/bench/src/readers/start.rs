//! Starts all reading processes of a run, releases them at the same moment, and adds up what they
//! measured.
//!
//! ```text
//!  start all ──> each writes "ready" ──> the pipe that all read is closed: they begin ──> results
//! ```
//!
//! Slow preparations (starting, opening files of readers beside, preparing the expected bytes) are
//! over before the first process reads.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::process::{Process, TICK};
use crate::readers::plan::{Plan, READY};
use crate::readers::reading::{Part, Reading};
use crate::setup::Setup;
use crate::subject::cgroup::Cgroup;

/// Runs `plan` in `processes` processes, inside `group` if there is one, within `limit`.
pub(crate) fn read(
    setup: &Setup<'_>,
    plan: &Plan,
    processes: u32,
    group: Option<&Cgroup>,
    limit: Duration,
) -> Result<Reading, Error> {
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let (input, hold) = io::pipe().map_err(Error::io("making a pipe"))?;
    let start = |process| Starting::new(setup, &Plan { process, ..plan.clone() }, group, &input);
    let mut all = (0..processes).map(start).collect::<Result<Vec<_>, _>>()?;
    for process in &mut all {
        process.ready(setup, limit, deadline)?;
    }
    // No other process has this end of the pipe, so all readers see the end of their input now.
    drop(hold);
    let part = |process: Starting| parsed(&process.answer(setup, left())?);
    Ok(Reading::of(all.into_iter().map(part).collect::<Result<Vec<Part>, _>>()?))
}

/// Runs `plan` in one process, which submits to the library and begins when it can.
pub(crate) fn submit(setup: &Setup<'_>, plan: &Plan, limit: Duration) -> Result<Reading, Error> {
    let process = Process::start(&mut command(setup, plan)?, SHOWN.to_owned())?;
    parsed(&process.answer(limit, &setup.interrupt)?)
}

/// The process's name in messages.
const SHOWN: &str = "the reader";

fn command(setup: &Setup<'_>, plan: &Plan) -> Result<Command, Error> {
    let path: PathBuf = setup.scratch().join(format!("plan-{}.json", plan.process));
    let json = serde_json::to_vec(plan).map_err(Error::protocol)?;
    fs::write(&path, json).map_err(Error::io("writing the reader's plan"))?;
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["bench", "--reader"]).arg(&path);
    Ok(command)
}

fn parsed<T: serde::de::DeserializeOwned>(answer: &str) -> Result<T, Error> {
    serde_json::from_str(answer).map_err(|error| Error::Protocol { what: format!("the reader's result: {error}") })
}

/// A process that has been started. Dropping it ends the process.
struct Starting {
    process: Process,
    first_line: Receiver<String>,
    /// Reads the output after the first line, which may be larger than a pipe.
    rest: JoinHandle<io::Result<String>>,
}

impl Starting {
    fn new(setup: &Setup<'_>, plan: &Plan, group: Option<&Cgroup>, input: &PipeReader) -> Result<Self, Error> {
        let stdin = input.try_clone().map_err(Error::io("making a pipe"))?;
        let mut command = Cgroup::enter_if(group, command(setup, plan)?);
        let mut process = Process::start_fed(&mut command, SHOWN.to_owned(), Stdio::from(stdin))?;
        let stdout = process.stdout().expect("it was just started");
        let (says, first_line) = mpsc::channel();
        let rest = thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let (mut line, mut rest) = (String::new(), String::new());
            stdout.read_line(&mut line)?;
            // The receiver is gone if the start has failed.
            let _ = says.send(line);
            stdout.read_to_string(&mut rest)?;
            Ok(rest)
        });
        Ok(Self { process, first_line, rest })
    }

    /// Waits for the line that says that the process is ready.
    fn ready(&mut self, setup: &Setup<'_>, limit: Duration, deadline: Instant) -> Result<(), Error> {
        loop {
            match self.first_line.recv_timeout(TICK) {
                Ok(line) if line.trim_end() == READY => return Ok(()),
                // It has ended, or is about to: the check below then knows why.
                Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(TICK),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            self.process.check()?;
            setup.check()?;
            if Instant::now() >= deadline {
                return Err(self.process.timed_out("begin", limit));
            }
        }
    }

    /// Waits for the process's own end, and returns what it measured.
    fn answer(self, setup: &Setup<'_>, limit: Duration) -> Result<String, Error> {
        self.process.finish(limit, &setup.interrupt)?;
        let rest = self.rest.join().expect("the thread only reads");
        rest.map_err(Error::io("reading a program's result"))
    }
}
