//! `foreread simulate`: policies against device models, in virtual time.
//!
//! Runs go on all cores, each on one; the result does not depend on their number.

mod compare;
mod grid;
mod page;
mod report;
mod row;
mod search;

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use foreread_sim::grid::Axes;
use foreread_sim::{PolicyName, Scenario, Stack, optimum};
use foreread_workload::{Load, Workload};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::device;
use crate::args::workloads::{self, Chosen};
use crate::parallel::on_all_cores;
use crate::terminal::output;
use row::{Column, Row};

/// Compare policies on a workload in virtual time, against models of devices
///
/// The policy that serves real reads runs beside those that it replaces. No storage is needed and
/// no byte is read; the same workload gives the same figures on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "More: `foreread simulate --help`.", after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct SimulateArgs {
    /// Names of workloads, paths of TOML files or of folders with them; by default all built-in
    /// ones
    workloads: Vec<String>,

    /// The policies to compare, instead of those that the workload names
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = stack)]
    policy: Vec<Stack>,

    /// The device, instead of the workload's own: a built-in model or the path of a TOML file
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Search for bugs instead: run a random scenario for each seed, and name each seed that
    /// breaks a rule
    #[arg(long, value_name = "FIRST..LAST", value_parser = search::seeds, conflicts_with_all = ["workloads", "policy", "device", "report", "json", "check"])]
    seeds: Option<RangeInclusive<u64>>,

    /// With requests that fail, end early, are late or lost, and objects that are replaced
    #[arg(long, requires = "seeds")]
    faults: bool,

    /// Simulate a grid of links, readers and budgets instead: which part of the feasible
    /// throughput is reached
    ///
    /// Axes: first-byte, connection, total, readers, budget, order (sequential, backward,
    /// random-128k, random-4k). An axis that is not named keeps all its values; one that is named
    /// several times has these values. The whole grid takes hours.
    #[arg(long, value_name = "AXIS=VALUE,...", num_args = 0..=1, default_missing_value = "", value_parser = grid::axes, conflicts_with_all = ["workloads", "policy", "device", "seeds", "mount", "report", "compare"])]
    grid: Option<Axes>,

    /// Through a mount: with the kernel's page cache and readahead between programs and policy
    #[arg(long, conflicts_with = "seeds")]
    mount: bool,

    /// Write a page of HTML with pictures of each run
    ///
    /// Throughput, read times, each reader's service, sizes of requests, windows, and the places
    /// of reads and requests.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Print what differs from an earlier run: FILE holds what `--json` printed then
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "seeds"])]
    compare: Option<PathBuf>,

    /// Exit with 1 if a figure is not as its workload wants, and name each
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
  foreread simulate --json > base.json                        before a change of policy; then
  foreread simulate --compare base.json                       what the change did
  foreread simulate --seeds 1..10000 --faults                 a search for bugs
  foreread simulate --grid first-byte=30ms,readers=256        what each link allows, and what is reached

Exit status:
  0  simulated; with --check: all figures are as wanted
  1  a figure is not, or a policy broke its contract; named on stderr
  2  wrong usage";

/// Why `foreread simulate` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: cannot be written", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: cannot be compared with", .path.display())]
    #[diagnostic(help("make it with `foreread simulate --json > FILE`"))]
    NoBase {
        path: PathBuf,
        #[source]
        cause: Option<std::io::Error>,
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

fn stack(name: &str) -> Result<Stack, foreread_sim::Error> {
    name.parse()
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> miette::Result<ExitCode> {
    if let Some(seeds) = &args.seeds {
        return Ok(search::run(seeds, args.faults)?);
    }
    if let Some(axes) = &args.grid {
        return Ok(grid::run(axes, args.json, args.check)?);
    }
    let base = args.compare.as_deref().map(base).transpose()?;
    let usual = |load: &Load| load.reads().is_some_and(Workload::is_simulated);
    let mut chosen = Vec::new();
    for Chosen { load, .. } in workloads::select(&args.workloads, usual)? {
        match load {
            Load::Reads(workload) if workload.tree.is_none() => chosen.push(workload),
            load => return Err(Error::MeasuredOnly { workload: load.name().to_owned() }.into()),
        }
    }
    let device = args.device.as_deref().map(device::device).transpose()?;
    let (mut rows, mut jobs) = (Vec::new(), Vec::new());
    for workload in chosen.into_iter().flat_map(variants) {
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
    if let Some((path, base)) = base {
        let no_base = || Error::NoBase { path, cause: None };
        output::print(format_args!("{}", compare::changes(&base, &report::json(&rows)).ok_or_else(no_base)?))?;
    } else if args.json {
        output::line(format_args!("{:#}", report::json(&rows)))?;
    } else {
        for row in &rows {
            output::print(format_args!("{}", report::table(row)))?;
        }
    }
    let misses: Vec<String> = rows.iter().flat_map(report::misses).collect();
    Ok(if args.check && output::has_misses(&misses) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The JSON of an earlier run, and the file that holds it.
fn base(path: &Path) -> Result<(PathBuf, serde_json::Value), Error> {
    let no_base = |cause| Error::NoBase { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(|cause| no_base(Some(cause)))?;
    let json = serde_json::from_str(&text).map_err(|cause| no_base(Some(cause.into())))?;
    Ok((path.to_owned(), json))
}

/// The workload, with each number of threads that it names for simulation.
fn variants(workload: Workload) -> Vec<Workload> {
    if workload.simulate.threads.is_empty() {
        return vec![workload];
    }
    workload.simulate.threads.iter().map(|&threads| workload.clone().with_threads(threads)).collect()
}

/// The policies that the user names, or the workload, or else the three that differ most.
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
