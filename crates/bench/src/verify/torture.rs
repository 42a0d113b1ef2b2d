//! The parent: it starts the workers, looks at their boards, ends them and reports.
//!
//! ```text
//!   check, survey ───────> workers ──── a look each 50 ms ────┬─ the time is over, all have ended
//!                            ^   │ a signal ended one         ├─ the user has interrupted
//!                            └───┘                            └─ a call waits beyond the grace
//!                                                                      │
//!                  report <── SIGKILL what is left <── the engine's figures (a process)
//! ```
//!
//! A call is stuck once it has waited longer than the grace, during the run or after it. That ends
//! the run: what follows would wait behind it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::error::Error;
use crate::process::Process;
use crate::process::interrupt::Interrupt;
use crate::verify::board::{Board, State, elapsed, now_ns};
use crate::verify::finding::{Finding, Kind, Operation};
use crate::verify::report::{Engine, Found, Report, compared};
use crate::verify::source::Source;
use crate::verify::tree::Tree;
use crate::verify::worker::{self, Checked, Order, Survey, finding};

/// The time between two looks at the boards.
const LOOK: Duration = Duration::from_millis(50);
/// The time that the engine has for its figures, and that workers have after SIGKILL or an
/// interruption.
const LAST_WORD: Duration = Duration::from_secs(5);
/// The names of a large bucket take a while.
const SURVEY_MAX: Duration = Duration::from_mins(10);

/// A run.
#[derive(Debug, Clone)]
pub struct Torture {
    /// The directory to read: a mount, or any other.
    pub dir: PathBuf,
    /// What its bytes are compared with.
    pub source: Source,
    /// How long to read.
    pub duration: Duration,
    /// Reads after which a process ends, if that is before the time.
    pub reads_max: u64,
    /// How many processes read.
    pub processes: u32,
    /// The seed of all plans.
    pub seed: u64,
    /// Objects of the source are replaced meanwhile, by generations that it generates: an open
    /// file is one of them, and a read of it may fail with `ESTALE`.
    pub replaced: bool,
    /// A call that takes longer is reported as slow.
    pub bound: Duration,
    /// A call that takes longer is stuck, and ends the run.
    pub grace: Duration,
}

impl Torture {
    /// Runs. `status` is told what happens.
    ///
    /// Takes the duration and at most the grace, and some seconds. An interruption ends it early,
    /// with a report of what was read until then.
    pub fn run(&self, interrupt: &Interrupt, status: &dyn Fn(&str)) -> Result<Report, Error> {
        let home = TempDir::new().map_err(Error::io("making a temporary directory"))?;
        let file = |name: &str| home.path().join(name);
        self.check(&file("check"), interrupt)?;
        status("listing the source");
        let (files, file_bytes) = self.survey(&file("names"), &file("survey"), interrupt)?;
        let text = fs::read(file("names")).map_err(Error::io("reading the names"))?;
        let tree: Tree = serde_json::from_slice(&text).map_err(Error::protocol)?;

        let before = stats(&self.dir);
        let started = Instant::now();
        let until_ns = now_ns() + self.duration.as_nanos() as u64;
        let mut workers = (0..self.processes)
            .map(|process| Worker::start(self, process, until_ns, home.path()))
            .collect::<Result<Vec<_>, _>>()?;
        let stuck = self.watch(&mut workers, &tree, started, interrupt, status)?;
        let seconds = started.elapsed().as_secs_f64();
        status("asking the mount");
        let engine = engine(before.as_ref(), stats(&self.dir));
        let left_pids = end(&mut workers);

        let last = workers.iter().map(|worker| worker.board.read().map_err(Error::io("reading a board")));
        let last = last.collect::<Result<Vec<State>, _>>()?;
        let mut findings: Vec<Finding> = Vec::new();
        for worker in &mut workers {
            findings.append(&mut worker.seen);
            // Absent: the worker ended before its first call. A last line that is not whole
            // belongs to a worker that was killed.
            let text = fs::read_to_string(&worker.findings).unwrap_or_default();
            findings.extend(text.lines().filter_map(|line| serde_json::from_str(line).ok()));
        }
        let died = workers.iter().map(|worker| worker.died).sum::<u64>();
        let count = |count: fn(&State) -> u64| last.iter().map(count).sum::<u64>();
        let patterns = compared(&last);
        Ok(Report {
            dir: self.dir.display().to_string(),
            against: self.source.shown(),
            seed: self.seed,
            processes: self.processes,
            seconds,
            files,
            file_bytes,
            reads: patterns.iter().map(|pattern| pattern.reads).sum(),
            bytes: patterns.iter().map(|pattern| pattern.bytes).sum(),
            sequential_bytes: patterns.iter().map(|pattern| pattern.sequential_bytes).sum(),
            patterns,
            wrong: Found::of(Kind::Wrong, count(|state| state.wrong), &findings),
            errors: Found::of(Kind::Error, count(|state| state.errors) + died, &findings),
            stale: count(|state| state.stale),
            slow: Found::of(Kind::Slow, count(|state| state.slow), &findings),
            stuck: Found::of(Kind::Stuck, stuck.len() as u64, &stuck),
            left_pids,
            engine,
        })
    }

    /// An error where the directory cannot be read, or does not answer.
    fn check(&self, plan: &Path, interrupt: &Interrupt) -> Result<(), Error> {
        let path = || self.dir.display().to_string();
        let answer = ask(&Order::Check { dir: self.dir.clone() }, plan, path(), self.grace, interrupt)?;
        let checked: Checked = serde_json::from_str(&answer).map_err(Error::protocol)?;
        let failed = |errno| Error::Unverifiable { path: path(), cause: std::io::Error::from_raw_os_error(errno) };
        checked.map_or(Ok(()), |errno| Err(failed(errno)))
    }

    /// The number of files and their bytes; their names are in `to`.
    fn survey(&self, to: &Path, plan: &Path, interrupt: &Interrupt) -> Result<(u64, u64), Error> {
        let order = Order::Survey { source: self.source.clone(), to: to.to_owned() };
        let path = self.source.shown();
        let answer = ask(&order, plan, path.clone(), SURVEY_MAX, interrupt)?;
        match serde_json::from_str(&answer).map_err(Error::protocol)? {
            Survey::Done { files: 0, .. } => Err(Error::NothingToCompare { path }),
            Survey::Done { files, bytes } => Ok((files, bytes)),
            Survey::Failed { said } => Err(Error::Source { path, said }),
        }
    }

    /// Waits for the end of the run; returns the calls that are stuck.
    fn watch(
        &self,
        workers: &mut [Worker],
        tree: &Tree,
        started: Instant,
        interrupt: &Interrupt,
        status: &dyn Fn(&str),
    ) -> Result<Vec<Finding>, Error> {
        let mut interrupted: Option<Instant> = None;
        loop {
            let (mut stuck, mut running, mut reads) = (Vec::new(), 0, 0);
            for worker in &mut *workers {
                let state = worker.board.read().map_err(Error::io("reading a board"))?;
                reads += state.reads();
                if worker.ended {
                    continue;
                }
                match worker.process.status()? {
                    Some(status) if status.success() => worker.ended = true,
                    Some(status) => worker.resume(&state, tree, status, started.elapsed() < self.duration)?,
                    None => {
                        running += 1;
                        let waited = elapsed(state.since_ns);
                        if state.operation != Operation::None && waited > self.grace {
                            let at = (state.place, state.offset, state.len);
                            let message = format!("has not returned for {} s", waited.as_secs());
                            let process = worker.number;
                            let mut found = finding(process, &state, tree, Kind::Stuck, state.operation, at, message);
                            found.waited_ms = Some(waited.as_millis() as u64);
                            found.pid = Some(worker.process.id());
                            stuck.push(found);
                        }
                    }
                }
            }
            status(&format!("{running} processes, {reads} reads"));
            let all_have_ended = workers.iter().all(|worker| worker.ended);
            if all_have_ended || !stuck.is_empty() {
                return Ok(stuck);
            }
            if interrupt.is_raised() {
                let since = *interrupted.get_or_insert_with(Instant::now);
                for worker in &*workers {
                    worker.board.stop().map_err(Error::io("writing to a board"))?;
                }
                if since.elapsed() > LAST_WORD {
                    return Ok(stuck);
                }
            }
            thread::sleep(LOOK);
        }
    }
}

/// A process, and what is kept of it.
struct Worker {
    number: u32,
    process: Process,
    board: Board,
    plan: PathBuf,
    order: Order,
    findings: PathBuf,
    replaced: bool,
    ended: bool,
    /// How often a signal ended it.
    died: u64,
    /// What the parent found of it.
    seen: Vec<Finding>,
}

impl Worker {
    fn start(torture: &Torture, number: u32, until_ns: u64, home: &Path) -> Result<Self, Error> {
        let file = |name: &str| home.join(format!("{name}-{number}"));
        let order = Order::Torture(worker::Torture {
            dir: torture.dir.clone(),
            source: torture.source.clone(),
            tree: home.join("names"),
            board: file("board"),
            findings: file("findings"),
            seed: torture.seed,
            process: number,
            until_ns,
            reads_max: torture.reads_max,
            bound_ns: torture.bound.as_nanos() as u64,
            replaced: torture.replaced,
        });
        let replaced = torture.replaced;
        let board = Board::open(&file("board")).map_err(Error::io("making a board"))?;
        let (plan, findings) = (file("plan"), file("findings"));
        let process = start(&order, &plan)?;
        let (ended, died, seen) = (false, 0, Vec::new());
        Ok(Self { number, process, board, plan, order, findings, replaced, ended, died, seen })
    }

    /// Notes which call a signal ended, and goes on with the next task if there is time.
    fn resume(&mut self, state: &State, tree: &Tree, status: ExitStatus, again: bool) -> Result<(), Error> {
        let Some(signal) = status.signal() else { return Err(self.process.ended(status)) };
        let is_bus = signal == Signal::BUS.as_raw();
        let message = if is_bus {
            "SIGBUS: a page of the mapping could not be read".to_owned()
        } else {
            format!("the process was ended by signal {signal}")
        };
        // To a mapping the replaced object is a signal.
        let is_stale = self.replaced && is_bus && state.operation == Operation::Map;
        if !is_stale {
            let at = (state.place, state.offset, state.len);
            self.seen.push(finding(self.number, state, tree, Kind::Error, state.operation, at, message));
            self.died += 1;
        }
        self.ended = !again;
        if again || is_stale {
            let (task, replaced) = (state.task + u64::from(again), state.stale + u64::from(is_stale));
            let next = State { task, stale: replaced, operation: Operation::None, ..state.clone() };
            self.board.write(&next).map_err(Error::io("writing to a board"))?;
            if again {
                self.process = start(&self.order, &self.plan)?;
            }
        }
        Ok(())
    }
}

/// Ends all workers; returns those that SIGKILL does not end.
fn end(workers: &mut [Worker]) -> Vec<u32> {
    workers.iter().filter(|worker| !worker.ended).for_each(|worker| worker.process.kill());
    let limit = Instant::now() + LAST_WORD;
    let mut left = Vec::new();
    for worker in workers.iter_mut().filter(|worker| !worker.ended) {
        if !worker.process.gone_within(limit.saturating_duration_since(Instant::now())) {
            left.push(worker.process.id());
            worker.process.abandon();
        }
    }
    left
}

/// Starts this program with an order.
fn start(order: &Order, plan: &Path) -> Result<Process, Error> {
    let text = serde_json::to_vec(order).map_err(Error::protocol)?;
    fs::write(plan, text).map_err(Error::io("writing a plan"))?;
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    Process::start(command.args(["bench", "--verifier"]).arg(plan), "foreread bench --verifier".to_owned())
}

/// What a process answers that is about `path`.
fn ask(order: &Order, plan: &Path, path: String, limit: Duration, interrupt: &Interrupt) -> Result<String, Error> {
    match start(order, plan)?.answer(limit, interrupt) {
        Err(Error::TimedOut { seconds, .. }) => Err(Error::NoAnswer { path, seconds }),
        answer => answer,
    }
}

/// What the engine behind the directory says; `Null` if it is silent, `None` if there is none.
/// Asked by a process of its own: a mount that hangs holds the process that asks.
fn stats(dir: &Path) -> Option<Value> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    let asking = Process::start(command.args(["stats", "--json"]).arg(dir), "foreread stats".to_owned()).ok()?;
    match asking.answer(LAST_WORD, &Interrupt::default()) {
        Ok(answer) => serde_json::from_str(&answer).ok(),
        Err(Error::TimedOut { .. }) => Some(Value::Null),
        Err(_) => None,
    }
}

fn engine(before: Option<&Value>, after: Option<Value>) -> Option<Engine> {
    let read = |stats: &Value| stats["read_bytes"].as_u64().unwrap_or_default();
    let before = before?;
    // It answered before and does not now: the mount is gone.
    let stats = after.unwrap_or(Value::Null);
    Some(Engine { served_bytes: read(&stats).saturating_sub(read(before)), stats })
}
