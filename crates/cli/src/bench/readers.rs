//! All reading processes of a run: started, let go at the same moment, and what they measured added up.
//!
//! ```text
//!  start all ──> each says that it is ready ──> the pipe that all read from is closed: they begin ──> results
//! ```
//!
//! What takes long (starting, opening what is beside, preparing what bytes are compared with) is over before the first read of anybody.

use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::cgroup::Cgroup;
use super::error::Error;
use super::process::{Process, TICK};
use super::reader::{Plan, READY};
use super::reading::{Part, Reading};
use super::row::Bench;

/// What `processes` reading processes, maybe inside `group`, make of `plan` within `limit`.
pub(super) fn read(
    bench: &Bench<'_>,
    plan: &Plan,
    processes: u32,
    group: Option<&Cgroup>,
    limit: Duration,
) -> Result<Reading, Error> {
    let deadline = Instant::now() + limit;
    let left = || deadline.saturating_duration_since(Instant::now());
    let (input, hold) = io::pipe().map_err(Error::io("making a pipe"))?;
    let start = |process| Starting::new(bench, &Plan { process, ..plan.clone() }, group, &input);
    let mut all = (0..processes).map(start).collect::<Result<Vec<_>, _>>()?;
    for process in &mut all {
        process.ready(bench, limit, deadline)?;
    }
    // Nobody else has this end, so all of them see the end of their input now.
    drop(hold);
    let part = |process: Starting| parsed(&process.answer(bench, left())?);
    Ok(Reading::of(all.into_iter().map(part).collect::<Result<Vec<Part>, _>>()?))
}

/// What the process makes of `plan` that submits to the library: one, which begins when it can.
pub(super) fn submit(bench: &Bench<'_>, plan: &Plan, limit: Duration) -> Result<Reading, Error> {
    let process = Process::start(&mut command(bench, plan)?, SHOWN.to_owned())?;
    parsed(&process.answer(limit, &bench.interrupt)?)
}

/// What it is called in messages.
const SHOWN: &str = "the reader";

fn command(bench: &Bench<'_>, plan: &Plan) -> Result<Command, Error> {
    let path: PathBuf = bench.scratch.join(format!("plan-{}.json", plan.process));
    let json = serde_json::to_vec(plan).map_err(|error| Error::Protocol { what: error.to_string() })?;
    fs::write(&path, json).map_err(Error::io("writing the reader's plan"))?;
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["bench", "--reader"]).arg(&path);
    Ok(command)
}

fn parsed<T: serde::de::DeserializeOwned>(answer: &str) -> Result<T, Error> {
    serde_json::from_str(answer).map_err(|error| Error::Protocol { what: format!("the reader's result: {error}") })
}

/// A process that has been started. Dropping it ends it.
struct Starting {
    process: Process,
    first_line: Receiver<String>,
    /// Reads all that comes after it: more than a pipe holds may come.
    rest: JoinHandle<io::Result<String>>,
}

impl Starting {
    fn new(bench: &Bench<'_>, plan: &Plan, group: Option<&Cgroup>, input: &PipeReader) -> Result<Self, Error> {
        let stdin = input.try_clone().map_err(Error::io("making a pipe"))?;
        let mut command = Cgroup::enter_if(group, command(bench, plan)?);
        let mut process = Process::start_fed(&mut command, SHOWN.to_owned(), Stdio::from(stdin))?;
        let stdout = process.stdout().expect("it was just started");
        let (says, first_line) = mpsc::channel();
        let rest = thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            let (mut line, mut rest) = (String::new(), String::new());
            stdout.read_line(&mut line)?;
            // Whoever started it may have given up.
            let _ = says.send(line);
            stdout.read_to_string(&mut rest)?;
            Ok(rest)
        });
        Ok(Self { process, first_line, rest })
    }

    /// Waits until it says that it is ready.
    fn ready(&mut self, bench: &Bench<'_>, limit: Duration, deadline: Instant) -> Result<(), Error> {
        loop {
            match self.first_line.recv_timeout(TICK) {
                Ok(line) if line.trim_end() == READY => return Ok(()),
                // It has ended, or is about to: why is known when it has.
                Ok(_) | Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(TICK),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            self.process.check()?;
            Error::if_interrupted(&bench.interrupt)?;
            if Instant::now() >= deadline {
                return Err(self.process.timed_out("begin", limit));
            }
        }
    }

    /// Waits until it has ended by itself, for what it has measured.
    fn answer(self, bench: &Bench<'_>, limit: Duration) -> Result<String, Error> {
        self.process.finish(limit, &bench.interrupt)?;
        let rest = self.rest.join().expect("the thread only reads");
        rest.map_err(Error::io("reading a program's result"))
    }
}
