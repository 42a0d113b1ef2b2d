//! `foreread simulate`: policies against device models, in virtual time.
//!
//! Runs go on all cores, one run on one; what comes out does not depend on how many there are.

mod page;
mod report;
mod search;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, thread};

use foreread_sim::optimum::{self, Least};
use foreread_sim::{PolicyName, Profile, Scenario, Stack, Tally, profile};
use foreread_workload::{Metric, Workload};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::{output, workloads};

/// Compare policies on a workload in virtual time, against models of devices
///
/// The policy that serves real reads runs beside those that it replaces. No storage is needed and no byte is read; the same workload
/// gives the same figures on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "More: `foreread simulate --help`.", after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct SimulateArgs {
    /// Names of workloads, paths of TOML files or folders of them; all that are built in, if none is given
    workloads: Vec<String>,

    /// The policies to compare, instead of those that the workload names
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = stack)]
    policy: Vec<Stack>,

    /// The device, instead of the workload's own: a built-in model or the path of a TOML file
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Search for bugs instead: run as many random scenarios, and name each seed that breaks a rule
    #[arg(long, value_name = "FIRST..LAST", value_parser = search::seeds, conflicts_with_all = ["workloads", "policy", "device", "report", "json", "check"])]
    seeds: Option<RangeInclusive<u64>>,

    /// With requests that fail, break off, are late or lost, and objects that are replaced
    #[arg(long, requires = "seeds")]
    faults: bool,

    /// Through a mount: with the kernel's page cache and readahead between programs and policy
    #[arg(long, conflicts_with = "seeds")]
    mount: bool,

    /// Write a page of HTML with pictures of each run: throughput, read times, each reader's service, sizes, windows, and what was read and fetched where
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Exit with 1 if a figure is not what its workload wants, naming each
    #[arg(long)]
    check: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread simulate thrash-200-streams                        the policies that this workload names
  foreread simulate sequential-1m --policy foreread,linux     these two
  foreread simulate tiobench-32 --policy linux/cfq            above a scheduler of the disk
  foreread simulate ./mine.toml --device hdd-w1               on another device
  foreread simulate thrash-200-streams --report out.html      with pictures
  foreread simulate slow-200 --mount                          as a mount is read, through a kernel
  foreread simulate --check workloads/                        a folder, for a script
  foreread simulate --seeds 1..10000 --faults                 a search for bugs

Exit status:
  0  simulated; with --check: all figures are as wanted
  1  a figure is not, or a policy broke its contract; named on stderr
  2  wrong usage";

#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("no device is called {name}")]
    #[diagnostic(help("known: {known}; the path of a file ends in .toml"))]
    NoDevice { name: String, known: String },

    #[error("{}: not a device", .path.display())]
    #[diagnostic(help("the files in `devices/` show the form"))]
    Device {
        path: PathBuf,
        #[source]
        cause: toml::de::Error,
    },

    #[error("{}: cannot be read", .path.display())]
    #[diagnostic(help("a device is a TOML file; the files in `devices/` show the form"))]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: cannot be written", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{workload} walks a tree of directories, which no model here does")]
    #[diagnostic(help("run `foreread bench {workload}`"))]
    MeasuredOnly { workload: String },

    #[error("{workload}: cannot be simulated")]
    Simulation {
        workload: String,
        #[source]
        cause: foreread_sim::Error,
    },
}

/// One workload, with one number of threads, and what came of it.
pub(crate) struct Row {
    workload: Workload,
    columns: Vec<Column>,
    /// What nobody can do better, for the workload's own seed.
    least: Option<Least>,
}

/// What came of a workload under one policy: a run for each seed.
pub(crate) struct Column {
    /// Its policy, and the scheduler below it.
    name: String,
    runs: Vec<Tally>,
}

impl Column {
    /// The mean of a figure over all runs.
    fn figure(&self, metric: Metric) -> Option<f64> {
        let values = self.runs.iter().map(|run| run.figure(metric)).collect::<Option<Vec<f64>>>()?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The time of the first run over the least that there can be; `None` where it did not read everything.
    fn over_least(&self, least: Least) -> Option<f64> {
        let run = self.runs.first().filter(|run| run.reads() == least.reads)?;
        Some(run.elapsed_ns() as f64 / least.ns.max(1) as f64)
    }
}

pub(crate) fn policy(name: &str) -> Result<PolicyName, foreread_sim::Error> {
    name.parse()
}

fn stack(name: &str) -> Result<Stack, foreread_sim::Error> {
    name.parse()
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> miette::Result<ExitCode> {
    if let Some(seeds) = &args.seeds {
        return Ok(search::run(seeds, args.faults)?);
    }
    let chosen = workloads::select(&args.workloads, Workload::is_simulated)?;
    if let Some((workload, _)) = chosen.iter().find(|(workload, _)| workload.tree.is_some()) {
        return Err(Error::MeasuredOnly { workload: workload.name.clone() }.into());
    }
    let device = args.device.as_deref().map(device).transpose()?;
    let (mut rows, mut jobs) = (Vec::new(), Vec::new());
    for workload in chosen.into_iter().flat_map(|(workload, _)| variants(workload)) {
        let policies = policies(&workload, &args.policy)?;
        for &policy in &policies {
            for seed in 0..u64::from(workload.simulate.seeds) {
                jobs.push((policy, workload.clone().with_seed(workload.seed + seed), seed == 0));
            }
        }
        let columns = policies.into_iter().map(|stack| Column { name: stack.to_string(), runs: Vec::new() }).collect();
        rows.push(Row { workload, columns, least: None });
    }
    let mut done = on_all_cores(&jobs, |(policy, workload, first)| {
        let scenario = Scenario::of(workload, device.as_ref());
        let scenario = scenario.map(|scenario| Scenario { picture: args.report.is_some() && *first, ..scenario });
        let scenario = scenario.map(|s| if args.mount { s.through_mount(workload) } else { s });
        scenario
            .and_then(|scenario| scenario.run(*policy))
            .map_err(|cause| Error::Simulation { workload: workload.name.clone(), cause })
    })
    .into_iter();
    let least = on_all_cores(&rows, |row| {
        let scenario = Scenario::of(&row.workload, device.as_ref()).ok()?;
        optimum::least(&row.workload, &scenario.device)
    });
    for (row, least) in rows.iter_mut().zip(least) {
        row.least = least;
        for column in &mut row.columns {
            column.runs = done.by_ref().take(row.workload.simulate.seeds as usize).collect::<Result<_, _>>()?;
        }
    }
    if let Some(path) = &args.report {
        fs::write(path, page::page(&rows)).map_err(|cause| Error::Unwritable { path: path.clone(), cause })?;
    }
    if args.json {
        output::line(format_args!("{:#}", report::json(&rows)))?;
    } else {
        for row in &rows {
            output::print(format_args!("{}", report::table(row)))?;
        }
    }
    let misses: Vec<String> = rows.iter().flat_map(report::misses).collect();
    if args.check && !misses.is_empty() {
        for miss in &misses {
            eprintln!("{miss}");
        }
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The workload with each number of threads that it is to be simulated with.
fn variants(workload: Workload) -> Vec<Workload> {
    if workload.simulate.threads.is_empty() {
        return vec![workload];
    }
    workload.simulate.threads.iter().map(|&threads| workload.clone().with_threads(threads)).collect()
}

/// Those that the user names, or the workload, or else the few that tell most.
fn policies(workload: &Workload, named: &[Stack]) -> Result<Vec<Stack>, Error> {
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    if workload.simulate.policies.is_empty() {
        return Ok([PolicyName::Foreread, PolicyName::Linux, PolicyName::None].map(Stack::from).to_vec());
    }
    let parse = |name: &String| name.parse();
    let all: Result<Vec<_>, _> = workload.simulate.policies.iter().map(parse).collect();
    all.map_err(|cause| Error::Simulation { workload: workload.name.clone(), cause })
}

pub(crate) fn device(name: &str) -> Result<Profile, Error> {
    let path = PathBuf::from(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let known = || profile::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return profile::find(name).ok_or_else(|| Error::NoDevice { name: name.to_owned(), known: known() });
    }
    let text = fs::read_to_string(&path).map_err(|cause| Error::Unreadable { path: path.clone(), cause })?;
    profile::parse(&text).map_err(|cause| Error::Device { path, cause })
}

/// `work` of each of `jobs`, in their order.
pub(crate) fn on_all_cores<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let cores = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < jobs.len()) {
                    let result = work(&jobs[at]);
                    *done[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    done.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
