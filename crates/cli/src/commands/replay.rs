//! `foreread replay`: the reads of a recording in virtual time, under any policy, on any device;
//! or the log of an engine, whose decisions are made again.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use foreread_sim::{PolicyName, Profile, Reads, Scenario, Tally, optimum};
use foreread_workload::trace::{Access, Format, Survey, Trace, TraceError};
use foreread_workload::{Descriptor, Metric, Op, Pattern};
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error as ThisError;

use crate::args::device;
use crate::parallel::on_all_cores;
use crate::terminal::figures::{self, Columns};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::terminal::size::Size;

/// Read a recording again in virtual time, under other policies and on other devices
///
/// Takes recordings of `foreread record`, fio's iolog, the text of blkparse, block traces as CSV
/// (MSR Cambridge, SNIA) and libCacheSim's oracleGeneral. Each reader has one read at a time,
/// which starts at its recorded time, or when the one before is done; the first read of a reader
/// also waits for those readers that had read for the last time before it. The log of a mount's
/// decisions (`foreread mount --record`) is checked instead: the same events must lead to the same
/// actions.
#[derive(Debug, clap::Args)]
#[command(after_help = "More: `foreread replay --help`.", after_long_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The recording
    recording: PathBuf,

    /// The policies to compare
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = device::policy, default_value = "foreread,linux,none")]
    policy: Vec<PolicyName>,

    /// The device: a built-in model or the path of a TOML file
    #[arg(long, value_name = "NAME", default_value = "object-store")]
    device: String,

    /// Memory that holds pages
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    memory: Size,

    /// The recording's format, if it is not detected: foreread, fio, blkparse, msr, oracle-general
    #[arg(long, value_name = "NAME", value_parser = format)]
    format: Option<Format>,

    /// Start each read as soon as the one before is done, without regard to recorded times
    #[arg(long)]
    no_wait: bool,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread record /mnt/data reads.trace                      what is read there, until Ctrl-C
  foreread replay reads.trace --memory 64M                   the same reads with less memory
  foreread replay reads.trace --policy foreread,none         with and without reading ahead
  foreread replay disk.csv --device hdd-w1 --no-wait         a block trace, as fast as a disk goes

Exit status:
  0  replayed; a log of decisions: all are as recorded
  1  the recording cannot be read, or decisions differ; where and why is on stderr
  2  wrong usage";

#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: cannot be opened", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: not a recording of any known format", .path.display())]
    #[diagnostic(help("say which it is with --format: {known}"))]
    Unknown { path: PathBuf, known: String },

    #[error("{}: {cause}", .path.display())]
    #[diagnostic(help("read as {format}; another format is chosen with --format"))]
    Trace { path: PathBuf, format: Format, cause: TraceError },

    #[error("{}: the log does not replay", .path.display())]
    #[diagnostic(help("a log replays on the version of foreread that wrote it"))]
    Log {
        path: PathBuf,
        #[source]
        cause: foreread_engine::ReplayError,
    },

    #[error("cannot be simulated")]
    Simulation(#[from] foreread_sim::Error),
}

fn format(name: &str) -> Result<Format, String> {
    let known = Format::ALL.map(Format::as_str).join(", ");
    Format::ALL.into_iter().find(|format| format.as_str() == name).ok_or(format!("known: {known}"))
}

/// Runs the command.
pub(crate) fn run(args: &ReplayArgs) -> miette::Result<ExitCode> {
    let path = &args.recording;
    let head = head(path)?;
    if head.starts_with(LOG) {
        let replayed =
            foreread_engine::replay(open(path)?).map_err(|cause| Error::Log { path: path.clone(), cause })?;
        let (events, actions) = (replayed.events, replayed.actions);
        match replayed.unrecorded {
            0 => output::line(format_args!("{events} events led to the {actions} actions that were recorded"))?,
            actions => output::line(format_args!("{events} events led to {actions} actions; none were recorded"))?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let known = || Format::ALL.map(Format::as_str).join(", ");
    let format = args.format.or_else(|| Format::detect(&name, &head));
    let format = format.ok_or_else(|| Error::Unknown { path: path.clone(), known: known() })?;
    let malformed = |cause| Error::Trace { path: path.clone(), format, cause };
    let device = device::device(&args.device)?;
    let progress = Progress::spinner("replaying");
    let survey = Survey::of(Trace::new(open(path)?, format)).map_err(malformed)?;
    let most_hits = most_hits(path, format, args)?;
    let done = on_all_cores(&args.policy, |&policy| {
        let trace = Trace::new(open(path)?, format);
        let failed = Mutex::new(None);
        let tally = scenario(&survey, trace, args, device.clone(), &failed).run(policy)?;
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(cause) => Err(malformed(cause)),
            None => Ok(tally),
        }
    });
    let tallies = done.into_iter().collect::<Result<Vec<Tally>, Error>>()?;
    drop(progress);
    let columns: Vec<_> = args.policy.iter().copied().zip(tallies).collect();
    if args.json {
        output::line(format_args!("{:#}", json(&survey, most_hits, &columns)))?;
    } else {
        output::print(format_args!("{}", table(path, &survey, most_hits, &columns)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The part of the pages that can be hits at most if nothing is read ahead; `None` where there are
/// more pages than this is worth.
fn most_hits(path: &Path, format: Format, args: &ReplayArgs) -> Result<Option<f64>, Error> {
    let malformed = |cause| Error::Trace { path: path.to_owned(), format, cause };
    let op = |Access { file, offset, len, .. }| Op { file, offset, len, not_before_ns: 0 };
    let reads = Trace::new(open(path)?, format).map(|access| access.map(op).map_err(malformed));
    optimum::most_hits(reads, args.memory.0)
}

fn open(path: &Path) -> Result<BufReader<File>, Error> {
    let file = File::open(path).map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, file))
}

fn head(path: &Path) -> Result<Vec<u8>, Error> {
    let mut head = Vec::new();
    let read = open(path)?.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|cause| Error::Unreadable { path: path.to_owned(), cause })?;
    Ok(head)
}

/// The recording, as a scenario of the simulator. An error in the middle ends it and is left in
/// `failed`.
fn scenario<'w, R: BufRead + 'w>(
    survey: &Survey,
    trace: Trace<R>,
    args: &'w ReplayArgs,
    device: Profile,
    failed: &'w Mutex<Option<TraceError>>,
) -> Scenario<'w> {
    let read = |access: Access| {
        let not_before_ns = if args.no_wait { 0 } else { access.at_ns };
        (access.reader, Op { file: access.file, offset: access.offset, len: access.len, not_before_ns })
    };
    let reads = trace.map_while(move |access| match access {
        Ok(access) => Some(read(access)),
        Err(error) => {
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            None
        }
    });
    Scenario {
        sizes: survey.sizes.clone(),
        extent_bytes: None,
        reads: Reads::Together(survey.reads_of.clone(), Box::new(reads)),
        tree: None,
        region: None,
        descriptor: Descriptor::Own,
        // A pattern without a rate: each read has its own time.
        pattern: Pattern::Sequential { record_bytes: 1, passes: 1 },
        beside: None,
        until_ns: u64::MAX,
        memory_bytes: args.memory.0,
        readahead_max_bytes: READAHEAD_MAX_BYTES,
        device,
        page_cache_bytes: None,
        kernel_window_bytes: READAHEAD_MAX_BYTES,
        picture: false,
        changes: Vec::new(),
        watch: None,
        tier: None,
        chunks: Vec::new(),
        busy: None,
    }
}

/// Shows one figure.
type Shown = fn(&Tally) -> String;

/// The figures of each policy.
const FIGURES: &[(&str, Shown)] = &[
    ("time", |tally| format!("{:.1} s", tally.elapsed_ns() as f64 / 1e9)),
    ("read mean", |tally| milliseconds(tally.read_mean_ns())),
    ("read p50", |tally| milliseconds(tally.read_percentile_ns(50.0) as f64)),
    ("read p99", |tally| milliseconds(tally.read_percentile_ns(99.0) as f64)),
    ("read p99.9", |tally| milliseconds(tally.read_percentile_ns(99.9) as f64)),
    ("hit rate", |tally| percent(tally.hit_rate())),
    ("throughput", |tally| shown(tally, Metric::Throughput)),
    ("amp", |tally| shown(tally, Metric::Amp)),
    ("requests", |tally| tally.requests().to_string()),
    ("requests per GiB", |tally| shown(tally, Metric::RequestsPerGib)),
];

fn milliseconds(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn shown(tally: &Tally, metric: Metric) -> String {
    figures::shown(metric, tally.figure(metric))
}

fn table(path: &Path, survey: &Survey, most_hits: Option<f64>, columns: &[(PolicyName, Tally)]) -> String {
    let mut text = format!(
        "{}: {} reads of {} by {} readers of {} files in {:.1} s\n",
        path.display(),
        survey.reads,
        Size(survey.read_bytes),
        survey.readers(),
        survey.sizes.len(),
        survey.span_ns as f64 / 1e9
    );
    if survey.passed_over > 0 {
        let _ = writeln!(text, "({} entries that are no reads are left out)", survey.passed_over);
    }
    if survey.lost > 0 {
        let _ =
            writeln!(text, "({} reads were not recorded: they came faster than they could be written)", survey.lost);
    }
    if let Some(most) = most_hits {
        let _ = writeln!(text, "(hit rate without readahead: {} at most, Belady's)", percent(most));
    }
    let heads: Vec<&str> = columns.iter().map(|(policy, _)| policy.as_str()).collect();
    let table = Columns::new(&mut text, &heads);
    for (name, figure) in FIGURES {
        let values: Vec<String> = columns.iter().map(|(_, tally)| figure(tally)).collect();
        table.line(&mut text, name, &values);
    }
    text
}

fn json(survey: &Survey, most_hits: Option<f64>, columns: &[(PolicyName, Tally)]) -> serde_json::Value {
    let column = |(policy, tally): &(PolicyName, Tally)| {
        json!({
            "policy": policy.as_str(),
            "elapsed_ns": tally.elapsed_ns(),
            "reads": tally.reads(),
            "requests": tally.requests(),
            "requests_coalesced": tally.requests_coalesced(),
            "hit_rate": tally.hit_rate(),
            "read_mean_ns": tally.read_mean_ns(),
            "read_p50_ns": tally.read_percentile_ns(50.0),
            "read_p99_ns": tally.read_percentile_ns(99.0),
            "read_p999_ns": tally.read_percentile_ns(99.9),
            "figures": figures::map(|metric| tally.figure(metric)),
            "seconds": tally.seconds(),
        })
    };
    json!({
        "recording": {
            "reads": survey.reads,
            "read_bytes": survey.read_bytes,
            "readers": survey.readers(),
            "files": survey.sizes.len(),
            "span_ns": survey.span_ns,
            "passed_over": survey.passed_over,
            "lost": survey.lost,
            "most_hits": most_hits,
        },
        "policies": columns.iter().map(column).collect::<Vec<_>>(),
    })
}

/// The first bytes of an engine's log.
const LOG: &[u8] = b"foreread-log ";

/// Bytes at the beginning of a recording that tell its format.
const HEAD_BYTES: u64 = 8 << 10;

const BUFFER_BYTES: usize = 1 << 20;

/// The largest window of policies with a fixed one: a kernel's default.
const READAHEAD_MAX_BYTES: u64 = 128 << 10;
