//! `foreread bench`: the promised figures, measured.
//!
//! ```text
//!                 ┌─ testbed ────────────── a process; serves the row's objects behind its device
//!  bench (this) ──┼─ bare client ────────── threads of this process; the yardstick
//!                 ├─ mount ──────────────── a process for each run; foreread or another client
//!                 └─ readers ────────────── a process for each run, or several; pread, verify, keep time
//! ```
//!
//! A workload with a tree of directories has readers of another kind (`bench/tree.rs`). One whose reads are submitted to the library has neither testbed nor mount (`bench/submission.rs`).
//!
//! Everything that is measured is a process of its own and is ended by number. Workloads and figures come from the
//! `workload` crate; this module starts, reads off and compares.

mod backing;
mod cgroup;
mod emulated;
mod error;
mod mapping;
mod memory;
mod objects;
mod process;
mod reader;
mod readers;
mod reading;
pub(crate) mod report;
pub(crate) mod row;
mod server;
mod subject;
mod submission;
mod submitter;
mod tree;
mod yardstick;

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use foreread_workload::{Baseline, Workload};
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::storage::{LocalReads, StorageArgs};
use crate::{output, workloads};
pub(crate) use error::Error;
use reader::Plan;
use report::Conditions;
use row::{Bench, Row};
use subject::{Storage, Subject};

/// Measure reading through a mount, against what the link can do and against other clients
///
/// Each workload runs on an emulated object store (`foreread testbed`) through a fresh mount, and stands beside the same
/// without readahead, and what is shared among many beside the same without the fair queue. Ratios are to a bare HTTP client in the same run. The last column is what the simulator says of the first.
/// Two workloads submit to the library instead: on a file of 8 GiB in the temporary directory, beside fio, and on an emulated array.
/// `memory` touches memory that is larger than its budget, spilled to the temporary directory, beside the kernel's swap there.
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with command lines of other clients: `foreread bench --help`.", after_long_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Names of workloads, or paths of TOML files; all that are built in, if none is given
    workloads: Vec<String>,

    /// Read this storage instead of a testbed: `s3://BUCKET/PREFIX` and so on
    ///
    /// It must hold files that are large enough, at its top. There is no ceiling then, bytes are not verified, and what
    /// was fetched is what the mount itself counts.
    #[arg(long)]
    url: Option<String>,

    /// Measure another client too: a command that mounts {bucket} of {endpoint} on {dir} and stays in the foreground
    ///
    /// Run by the shell, with the testbed's credentials in the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`;
    /// `{memory_mib}` is the workload's budget. Can be given several times.
    #[arg(long, value_name = "MOUNT COMMAND")]
    against: Vec<String>,

    /// Valid runs of each workload; the median counts. The baselines run once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeat: u32,

    /// Write everything that was measured to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Exit with 1 if a figure is not what its workload wants, naming each
    #[arg(long)]
    check: bool,

    /// List the workloads that are built in, and end
    #[arg(long)]
    list: bool,

    /// With `memory`: a quarter of its size, to see whether it works
    #[arg(long)]
    quick: bool,

    /// Touch memory as this plan says (used by the benchmark itself)
    #[arg(long, value_name = "PLAN", hide = true, exclusive = true)]
    toucher: Option<String>,

    /// Read as this plan says (used by the benchmark itself)
    #[arg(long, value_name = "PLAN", hide = true, exclusive = true)]
    reader: Option<PathBuf>,

    // Last: its heading holds for everything after it.
    #[command(flatten)]
    storage: StorageArgs,
}

const EXAMPLES: &str = "\
Examples:
  foreread bench                               every workload, about three quarters of an hour
  foreread bench sequential-1m random-4k-16    these two
  foreread bench --check --json result.json    for a script
  foreread bench find ls grep small epoch      trees of directories; epoch drops the kernel's caches
  foreread bench memory                        memory larger than its budget, beside kernel swap; as root
  foreread bench memory/900/random             these rows of it
  foreread bench ./mine.toml                   one of your own (see workloads/README.md)
  foreread bench backward-1m --url s3://bucket/large-files

Other clients, as Debian packages them (they read the testbed's credentials from the environment):
  --against 'rclone mount :s3:{bucket} {dir} --read-only --s3-provider Other \\
             --s3-env-auth --s3-force-path-style --s3-endpoint {endpoint}'
  --against 's3fs {bucket} {dir} -f -o url={endpoint} -o use_path_request_style -o ro'

Exit status:
  0  measured; with --check: all figures are as wanted
  1  a figure is not, or something failed; named on stderr
  2  wrong usage";

/// Runs the command.
pub(crate) fn run(args: &BenchArgs) -> miette::Result<ExitCode> {
    if let Some(plan) = &args.reader {
        return read(plan);
    }
    if let Some(plan) = &args.toucher {
        let plan = serde_json::from_str(plan).map_err(|error| Error::Protocol { what: error.to_string() })?;
        let touched = memory::toucher::run(&plan)?;
        let touched = serde_json::to_string(&touched).map_err(|error| Error::Protocol { what: error.to_string() })?;
        output::line(format_args!("{touched}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_memory = |name: &String| name.split('/').next() == Some(memory::NAME) && !Path::new(name).exists();
    if !args.workloads.is_empty() && args.workloads.iter().all(is_memory) {
        return measure_memory(args);
    }
    let chosen = workloads::select(&args.workloads, |workload| is_measured(workload, args))?;
    if let Some((workload, _)) = chosen.iter().find(|(workload, _)| !is_measured(workload, args)) {
        let name = workload.name.clone();
        let error = if workload.tree.is_some() { Error::TestbedOnly { name } } else { Error::SimulatedOnly { name } };
        return Err(error.into());
    }
    if args.list {
        for (workload, _) in &chosen {
            output::line(format_args!("{:17} {}", workload.name, workload.description))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.iter().any(|(workload, _)| !workload.device.is_submitted_to()) {
        need_fuse()?;
    }
    let interrupt = Interrupt::listen().map_err(Error::io("listening for signals"))?;
    let scratch = scratch()?;
    let user = args.url.as_deref().map(|url| user_storage(url, &args.storage));
    let shown = user.as_ref().map_or_else(|| device(&chosen), |user| foreread::backend::shown(&user.url));
    let conditions = Conditions::now(args.repeat, shown, &args.against);
    let progress = spinner();
    let say = |what: &str| progress.set_message(what.to_owned());
    let wanted = |baseline: &&Baseline| chosen.iter().any(|(workload, _)| workload.baselines.contains(baseline));
    let baselines: Vec<Baseline> = Baseline::ALL.iter().filter(wanted).copied().collect();
    let bench = Bench {
        interrupt,
        scratch: scratch.path(),
        repeat: args.repeat,
        baselines: &baselines,
        against: &args.against,
        user,
        yardsticks: true,
        local_threads: args.storage.local_reads == LocalReads::Threads,
        say: &say,
    };
    let subjects = Subject::all(&baselines, &args.against);
    let columns: Vec<String> = subjects.iter().map(Subject::name).chain(["predicted".to_owned()]).collect();
    progress.suspend(|| output::line(format_args!("{}", report::header(&columns))))?;
    let mut rows = Vec::new();
    for (workload, text) in &chosen {
        let row = Row::measure(&bench, workload, text)?;
        progress.suspend(|| output::print(format_args!("{}", report::table(&row))))?;
        rows.push(row);
        // After each row: an interrupted run keeps what it has.
        if let Some(path) = &args.json {
            write_json(path, &conditions, &rows)?;
        }
    }
    progress.finish_and_clear();
    output::line(format_args!("\n{}", conditions.told()))?;
    let misses = report::misses(&rows);
    if args.check && !misses.is_empty() {
        for miss in &misses {
            eprintln!("{miss}");
        }
        return Ok(ExitCode::FAILURE);
    }
    // A failure stands in the table already.
    let failed = rows.iter().any(|row| row.columns[0].failure.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Rows of memory larger than its budget, which have no mount and no workload.
fn measure_memory(args: &BenchArgs) -> miette::Result<ExitCode> {
    let interrupt = Interrupt::listen().map_err(Error::io("listening for signals"))?;
    let scratch = scratch()?;
    let progress = spinner();
    let say = |what: &str| progress.set_message(what.to_owned());
    let (rows, quick, repeat) = (args.workloads.as_slice(), args.quick, args.repeat);
    let options = memory::Options { rows, quick, repeat, scratch: scratch.path(), interrupt };
    let (measured, misses) = memory::run(&options, &say)?;
    progress.finish_and_clear();
    if let Some(path) = &args.json {
        fs::write(path, format!("{measured:#}\n")).map_err(Error::io("writing the JSON file"))?;
    }
    if args.check && !misses.is_empty() {
        for miss in &misses {
            eprintln!("{miss}");
        }
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a workload can be measured; on storage of the user's, only what is read through a mount, and no tree.
fn is_measured(workload: &Workload, args: &BenchArgs) -> bool {
    let device = &workload.device;
    let ours = device.is_submitted_to() || workload.tree.is_some();
    (device.store().is_some() || ours) && (args.url.is_none() || !ours)
}

/// Fails early and clearly where nothing can be mounted.
pub(crate) fn need_fuse() -> Result<(), Error> {
    if Path::new("/dev/fuse").exists() { Ok(()) } else { Err(Error::NoFuse) }
}

/// A directory for mount points; removed at the end.
pub(crate) fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::Builder::new().prefix("foreread-bench-").tempdir().map_err(Error::io("making a temporary directory"))
}

/// Says what goes on, on a terminal.
pub(crate) fn spinner() -> ProgressBar {
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        progress.set_style(style);
    }
    progress.enable_steady_tick(Duration::from_millis(100));
    progress
}

fn user_storage(url: &str, args: &StorageArgs) -> Storage {
    let mut options: Vec<OsString> = Vec::new();
    for (name, value) in [("--endpoint", &args.endpoint), ("--region", &args.region), ("--profile", &args.profile)] {
        if let Some(value) = value {
            options.extend([OsString::from(name), OsString::from(value)]);
        }
    }
    if args.anonymous {
        options.push("--anonymous".into());
    }
    if args.local_reads == LocalReads::Threads {
        options.extend(["--local-reads", "threads"].map(OsString::from));
    }
    let below = url.split_once("://").map_or(url, |(_, rest)| rest);
    Storage {
        url: url.to_owned(),
        options,
        endpoint: args.endpoint.clone().unwrap_or_default(),
        bucket: below.split('/').next().unwrap_or_default().to_owned(),
        testbed: false,
    }
}

/// The device of the first workload; the files that are built in share one.
fn device(chosen: &[(Workload, String)]) -> String {
    chosen.iter().find_map(|(workload, _)| workload.device.store()).map_or_else(
        || "no testbed".to_owned(),
        |store| {
            let (first, rate) = (store.first_byte_ns / 1_000_000, store.connection_bytes_per_s / 1_000_000);
            format!("testbed with {first} ms first byte and {rate} MB/s per connection")
        },
    )
}

fn write_json(path: &Path, conditions: &Conditions, rows: &[Row]) -> Result<(), Error> {
    let text = format!("{:#}\n", report::json(conditions, rows));
    fs::write(path, text).map_err(Error::io("writing the JSON file"))
}

/// The reading process.
fn read(plan: &Path) -> miette::Result<ExitCode> {
    let text = fs::read(plan).map_err(|cause| Error::Unreadable { path: plan.to_owned(), cause })?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| Error::Protocol { what: error.to_string() })?;
    let measured = match plan.submitter {
        Some(submitter) => serde_json::to_string(&submitter::run(&plan, submitter)?),
        None => serde_json::to_string(&reader::run(&plan, wait_for_start)?),
    };
    let measured = measured.map_err(|error| Error::Protocol { what: error.to_string() })?;
    output::line(format_args!("{measured}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Says that this reader is ready, and waits for the end of its input.
fn wait_for_start() -> Result<(), Error> {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", reader::READY)
        .and_then(|()| stdout.flush())
        .map_err(Error::io("saying that it is ready"))?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(Error::io("waiting for the start"))?;
    Ok(())
}
