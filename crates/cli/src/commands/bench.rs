//! `foreread bench`: the promised figures, measured. The `bench` crate measures; this file has the
//! arguments, the order and the output.

pub(crate) mod error;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use foreread::backend::shown;
use foreread_bench::{
    Cast, Conditions, Error, Made, Options, Regions, Script, Setup, Storage, child, measure, measure_program,
    need_fuse, report,
};
use foreread_workload::{Baseline, Load};

use crate::args::storage::{LocalReads, StorageArgs};
use crate::args::workloads::{self, Chosen};
use crate::terminal::progress::Status;
use crate::terminal::{interrupt, output};
use error::Failed;

/// Measure reading through a mount, against what the link can do and against other clients
///
/// Each workload runs on an emulated object store (`foreread testbed`) through a fresh mount,
/// beside the same run without readahead; workloads of many readers also beside a run without the
/// fair queue. Ratios are to a bare HTTP client in the same run. The last column is the
/// simulator's prediction of the first. Two workloads submit to the library instead: on a file of
/// 8 GiB in the temporary directory, beside fio, and on an emulated array. `memory` touches memory
/// that is larger than its budget, spilled to the temporary directory, beside the kernel's swap
/// there. `programs` are programs as their users run them, over a mount of the data that they
/// read, beside the same without a mount; scripts make the data and install what the programs
/// need.
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with command lines of other clients: `foreread bench --help`.", after_long_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Names of workloads, or paths of TOML files; by default all built-in ones but programs
    workloads: Vec<String>,

    /// Read this storage instead of a testbed: `s3://BUCKET/PREFIX` and so on
    ///
    /// It must hold files that are large enough, at its top. There is no ceiling then, bytes are
    /// not verified, and the mount itself counts what it fetches.
    #[arg(long)]
    url: Option<String>,

    /// Programs only: read from this server, behind a testbed's latency and bandwidth
    ///
    /// `http://HOST:PORT` of an S3 server whose buckets are the folders in `--data`, with the
    /// access key `testbed` and the secret `testbedsecret`.
    #[arg(long, value_name = "URL", conflicts_with = "url")]
    upstream: Option<String>,

    /// Measure another client too: a command that mounts {bucket} of {endpoint} on {dir} and stays
    /// in the foreground
    ///
    /// Run by the shell, with the testbed's credentials in the variables `AWS_ACCESS_KEY_ID` and
    /// `AWS_SECRET_ACCESS_KEY`; `{memory_mib}` is the workload's budget. Can be given several
    /// times.
    #[arg(long, value_name = "MOUNT COMMAND")]
    against: Vec<String>,

    /// Valid runs of each workload, whose median counts. The baselines run once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeat: u32,

    /// Write all measurements to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Exit with 1 if a figure is not as its workload wants, and name each
    #[arg(long)]
    check: bool,

    /// List the built-in workloads, and exit
    #[arg(long)]
    list: bool,

    /// Where the data and the tools of programs lie, or are made
    ///
    /// By default `/var/tmp/foreread-programs-UID`. Scripts fill it from package registries, once.
    /// With `--url`, the storage must hold the same data: copy the folder `data-NAME` there. Where
    /// a program is measured without root as well, all folders above must be open to everyone.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,

    /// With `memory`: touch a quarter of the memory, as a trial
    #[arg(long)]
    quick: bool,

    /// Touch memory as this plan says (used by the benchmark itself)
    #[arg(long, value_name = "PLAN", hide = true, exclusive = true)]
    toucher: Option<String>,

    /// Read as this plan says (used by the benchmark itself)
    #[arg(long, value_name = "PLAN", hide = true, exclusive = true)]
    reader: Option<PathBuf>,

    /// Read and compare as this plan says (used by `foreread verify`)
    #[arg(long, value_name = "PLAN", hide = true, exclusive = true)]
    verifier: Option<PathBuf>,

    // Last: its heading holds for everything after it.
    #[command(flatten)]
    storage: StorageArgs,
}

const EXAMPLES: &str = "\
Examples:
  foreread bench                               every workload but programs, about three quarters of an hour
  foreread bench sequential-1m random-4k-16    these two
  foreread bench --check --json result.json    for a script
  foreread bench find ls grep small epoch      trees of directories; epoch drops the kernel's caches
  foreread bench memory                        memory larger than its budget, beside kernel swap; as root
  foreread bench memory/900/random             these rows of it
  foreread bench programs                      Python, git, DuckDB, tar and others on a mount; about half an hour
  foreread bench duckdb-columns import-pandas  two of them
  foreread bench ./mine.toml                   one of your own (see workloads/README.md)
  foreread bench backward-1m --url s3://bucket/large-files
  foreread bench programs --data ~/programs --upstream http://127.0.0.1:7070
                                               with another S3 server, which serves ~/programs

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
        return answer(child::read(plan));
    }
    if let Some(plan) = &args.toucher {
        return answer(child::touch(plan));
    }
    if let Some(plan) = &args.verifier {
        return answer(child::verify(plan));
    }
    let is_memory = |name: &String| name.split('/').next() == Some(Regions::NAME) && !Path::new(name).exists();
    if !args.workloads.is_empty() && args.workloads.iter().all(is_memory) {
        return measure_memory(args);
    }
    let mut chosen = workloads::select(&args.workloads, |load| is_measured(load, args))?;
    if let Some(Chosen { load, .. }) = chosen.iter().find(|chosen| !is_measured(&chosen.load, args)) {
        let name = load.name().to_owned();
        let tree = load.reads().is_some_and(|workload| workload.tree.is_some());
        return Err(Failed(if tree { Error::TestbedOnly { name } } else { Error::SimulatedOnly { name } }).into());
    }
    if args.upstream.is_some()
        && let Some(load) = chosen.iter().map(|chosen| &chosen.load).find(|load| load.reads().is_some())
    {
        return Err(Failed(Error::ProgramsOnly { name: load.name().to_owned() }).into());
    }
    if args.list {
        if args.workloads.is_empty() {
            chosen.extend(workloads::select(&[workloads::PROGRAMS.to_owned()], |_| true)?);
        }
        for Chosen { load, .. } in &chosen {
            output::line(format_args!("{:19} {}", load.name(), load.description()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mounts = |load: &Load| load.reads().is_none_or(|workload| !workload.device.is_submitted_to());
    if chosen.iter().any(|chosen| mounts(&chosen.load)) {
        need_fuse().map_err(Failed)?;
    }
    let casts = chosen.iter().map(scripts).collect::<Result<Vec<_>, _>>()?;
    let programs = chosen.iter().any(|chosen| matches!(chosen.load, Load::Program(_)));
    let made = programs.then(|| Made::at(&folder(args))).transpose().map_err(Failed)?;
    let interrupt = interrupt::listen().map_err(error::signals)?;
    let status = Status::start();
    let tell = |what: &str| status.tell(what);
    let setup = Setup::new(interrupt, args.repeat, &tell).map_err(Failed)?;
    let device = args.url.as_deref().map_or_else(|| device(&chosen), shown);
    let conditions = Conditions::now(command_line(), args.repeat, device, &args.against);
    let workloads = || chosen.iter().filter_map(|chosen| chosen.load.reads());
    let wanted = |baseline: &&Baseline| workloads().any(|workload| workload.baselines.contains(baseline));
    let baselines: Vec<Baseline> = Baseline::ALL.iter().filter(wanted).copied().collect();
    let bench = Options {
        setup,
        baselines: &baselines,
        against: &args.against,
        upstream: args.upstream.as_deref(),
        user: args.url.as_deref().map(|url| user_storage(url, &args.storage)),
        yardsticks: true,
        local_threads: args.storage.local_reads == LocalReads::Threads,
    };
    let mut rows = Vec::new();
    // Rows with other columns than all have stand under a line of their own.
    let mut has_header = false;
    for (chosen, cast) in chosen.iter().zip(&casts) {
        let row = match (&chosen.load, &made, cast) {
            (Load::Program(program), Some(made), Some((data, tools))) => {
                has_header = false;
                let cast = Cast { program, data, tools: tools.as_ref() };
                measure_program(&bench, made, &cast).map_err(Failed)?
            }
            (Load::Reads(workload), ..) => {
                if !std::mem::replace(&mut has_header, true) {
                    status.aside(|| output::line(format_args!("{}", report::header(&bench.columns()))))?;
                }
                measure(&bench, workload, &chosen.text).map_err(Failed)?
            }
            _ => continue,
        };
        status.aside(|| output::print(format_args!("{}", report::table(&row))))?;
        rows.push(row);
        // After each row: an interrupted run keeps the rows before.
        if let Some(path) = &args.json {
            write_json(path, &report::json(&conditions, &rows))?;
        }
    }
    status.end();
    output::line(format_args!("\n{}", conditions.line()))?;
    if args.check && output::has_misses(&report::misses(&rows)) {
        return Ok(ExitCode::FAILURE);
    }
    // The table shows a failure already.
    let failed = rows.iter().any(|row| row.columns[0].failure.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The scripts of data and tools that a program names; `None` for reads.
fn scripts(chosen: &Chosen) -> Result<Option<(Script, Option<Script>)>, workloads::Error> {
    let Load::Program(program) = &chosen.load else { return Ok(None) };
    let script = |kind, name: &String| Ok(Script { name: name.clone(), text: chosen.script(kind, name)? });
    let data = script("data", &program.data)?;
    let tools = program.tools.as_ref().map(|name| script("tools", name)).transpose()?;
    Ok(Some((data, tools)))
}

/// Where the data of programs lies.
fn folder(args: &BenchArgs) -> PathBuf {
    // Not in the user's own folder, which may be closed to the user who owns nothing.
    let usual = || Path::new("/var/tmp").join(format!("foreread-programs-{}", rustix::process::geteuid().as_raw()));
    args.data.clone().unwrap_or_else(usual)
}

/// Measures rows of memory, which have no mount and no workload.
fn measure_memory(args: &BenchArgs) -> miette::Result<ExitCode> {
    let interrupt = interrupt::listen().map_err(error::signals)?;
    let status = Status::start();
    let tell = |what: &str| status.tell(what);
    let setup = Setup::new(interrupt, args.repeat, &tell).map_err(Failed)?;
    let regions = Regions { rows: &args.workloads, quick: args.quick };
    let print = |line: &str| status.aside(|| output::write(format_args!("{line}\n")));
    let (measured, misses) = regions.measure(&setup, &print).map_err(Failed)?;
    status.end();
    if let Some(path) = &args.json {
        write_json(path, &measured)?;
    }
    Ok(if args.check && output::has_misses(&misses) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Prints the result of a process that the benchmark started.
fn answer(result: Result<String, Error>) -> miette::Result<ExitCode> {
    output::line(format_args!("{}", result.map_err(Failed)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a workload can be measured. On the user's storage, only reads through a mount can, and
/// programs; no tree.
fn is_measured(load: &Load, args: &BenchArgs) -> bool {
    let Some(workload) = load.reads() else { return true };
    let device = &workload.device;
    let ours = device.is_submitted_to() || workload.tree.is_some();
    (device.store().is_some() || ours) && (args.url.is_none() || !ours)
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
    Storage::of_user(url, options, args.endpoint.as_deref())
}

/// The device of the first workload; the built-in workloads share one.
fn device(chosen: &[Chosen]) -> String {
    let store = |load: &Load| match load {
        Load::Reads(workload) => workload.device.store(),
        Load::Program(program) => Some(program.store),
        _ => None,
    };
    chosen.iter().find_map(|chosen| store(&chosen.load)).map_or_else(
        || "no testbed".to_owned(),
        |store| {
            let (first, rate) = (store.first_byte_ns / 1_000_000, store.connection_bytes_per_s / 1_000_000);
            format!("testbed with {first} ms first byte and {rate} MB/s per connection")
        },
    )
}

/// The command line of this process, as a shell takes it and without secrets.
fn command_line() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).map(|argument| quoted(shown(&argument))).collect();
    format!("foreread {}", arguments.join(" "))
}

fn quoted(argument: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

fn write_json(path: &Path, value: &serde_json::Value) -> Result<(), Failed> {
    let written = fs::write(path, format!("{value:#}\n"));
    written.map_err(|cause| Failed(Error::Io { action: "writing the JSON file", cause }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shown_as_a_shell_takes_them() {
        assert_eq!(quoted("bench".to_owned()), "bench");
        assert_eq!(quoted("a 'b'".to_owned()), "'a '\\''b'\\'''");
    }
}
