//! `foreread verify DIR --against SOURCE`: torture for a mount. The `bench` crate reads and
//! compares (`verify/`); this file has the arguments, the first contact with the source, and the
//! output.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use foreread::Target;
use foreread_bench::Error;
use foreread_bench::verify::finding::{Finding, Kind};
use foreread_bench::verify::report::{Found, Report};
use foreread_bench::verify::source::Source;
use foreread_bench::verify::torture::Torture;
use foreread_testbed::quantity;
use miette::Diagnostic;
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::args::storage::StorageArgs;
use crate::storage;
use crate::terminal::progress::Status;
use crate::terminal::size::Size;
use crate::terminal::{interrupt, output};

/// Read a directory in mixed patterns from many processes, and compare every byte with a source
///
/// For mounts of foreread and any others. Each process reads in all patterns in turn: sequential,
/// backward, strided, interleaved streams, random, mapped, direct, heads and tails of many files,
/// listings, open and close races, slow readers. Its plan follows from the seed and its number, so
/// a run can be repeated. Wrong bytes, errors, slow and stuck reads are reported. The source must
/// not change meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with examples: `foreread verify --help`.", after_long_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    /// Directory to verify: a mount, or any other
    dir: PathBuf,

    /// What it is compared with: a directory (a copy, or another mount), or a URL as of `foreread
    /// mount`, which is read without cache or readahead
    ///
    /// `testbed:URL` is the storage of a `foreread testbed` with synthetic objects: only names are
    /// asked for, and bytes are generated instead of fetched.
    #[arg(long, value_name = "SOURCE")]
    against: String,

    /// How long to read
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::duration, default_value = "60s")]
    duration: Duration,

    /// Processes that read at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: u32,

    /// End each process after this many reads, if that is before the time: the same reads in each
    /// run
    #[arg(long, value_name = "N")]
    reads: Option<u64>,

    /// Seed of all plans
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,

    /// Objects of a `testbed:` source are replaced meanwhile, as by its fault `replace`
    ///
    /// An open file is one generation of its object: its bytes are compared with that one, and a
    /// read that fails with ESTALE is counted as stale, not as an error.
    #[arg(long)]
    replaced: bool,

    /// A read that takes longer is reported as slow
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "2s")]
    wait: Duration,

    /// A read that takes longer is stuck, and ends the run
    ///
    /// A mount gives up a request to its storage after 30 s; a shorter time takes an outage of the
    /// storage for a read that hangs.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "40s")]
    grace: Duration,

    /// One JSON object instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    storage: StorageArgs,
}

const EXAMPLES: &str = "\
Examples:
  foreread verify /mnt/data --against /data                   a mount of a directory
  foreread verify /mnt/data --against s3://bucket --for 10m --processes 48
  foreread verify /mnt/data --against /mnt/other              two mounts of the same storage
  foreread verify /mnt/data --against /data --seed 7 --reads 5000     the same reads each time

Exit status:
  0  every byte was right, no call failed, none is stuck; slow reads are reported only
  1  one was not, or the run failed; named on stdout or stderr
  2  wrong usage";

/// Why a run is not made.
#[derive(Debug, ThisError, Diagnostic)]
enum Unusable {
    #[error("{}: no such directory to compare with", .path.display())]
    #[diagnostic(
        code(foreread::verify::source),
        help("name a directory, or storage by its URL: s3://BUCKET/PREFIX, https://HOST/PATH/, testbed:s3://BUCKET")
    )]
    NoDirectory {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },

    #[error("{url}: which versions its objects have had is not known")]
    #[diagnostic(
        code(foreread::verify::replaced),
        help("`--replaced` compares with what a `foreread testbed` generates: testbed:URL")
    )]
    NotGenerated { url: String },

    #[error("{url}: this is a single object")]
    #[diagnostic(code(foreread::verify::source), help("name the prefix or the directory that was mounted"))]
    SingleObject { url: String },
}

/// A run that failed, with the next step.
#[derive(Debug, ThisError)]
#[error(transparent)]
struct Failed(Error);

impl Diagnostic for Failed {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        let text = match &self.0 {
            Error::Unverifiable { .. } => "name a directory that you may read, such as one that is mounted",
            Error::NothingToCompare { .. } => "name a source with files in it: the one that was mounted",
            Error::Source { .. } => "check the source: it must be readable without the mount",
            Error::NoAnswer { .. } => {
                "the mount or the source does not answer: `foreread umount --lazy` removes a mount that is dead"
            }
            Error::Interrupted => "it had not begun to read",
            _ => return None,
        };
        Some(Box::new(text))
    }
}

/// Runs the command.
pub(crate) fn run(args: &VerifyArgs) -> miette::Result<ExitCode> {
    let torture = Torture {
        dir: args.dir.clone(),
        source: source(args)?,
        duration: args.duration,
        reads_max: args.reads.unwrap_or(u64::MAX),
        processes: args.processes,
        seed: args.seed,
        replaced: args.replaced,
        bound: args.wait,
        grace: args.grace,
    };
    let interrupt =
        interrupt::listen().map_err(|cause| Failed(Error::Io { action: "listening for signals", cause }))?;
    let status = Status::start();
    let report = torture.run(&interrupt, &|what| status.tell(what)).map_err(Failed)?;
    status.end();
    if args.json {
        output::line(format_args!("{}", serde_json::json!(report)))?;
    } else {
        output::print(format_args!("{}", table(&report)))?;
    }
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The source, after a first contact with it.
fn source(args: &VerifyArgs) -> miette::Result<Source> {
    let (generated, url) = match args.against.strip_prefix("testbed:") {
        Some(url) => (true, url),
        None => (false, args.against.as_str()),
    };
    if args.replaced && !generated {
        return Err(Unusable::NotGenerated { url: foreread::backend::shown(url) }.into());
    }
    if !url.contains("://") && !generated {
        let path = Path::new(url);
        let missing = |cause| Unusable::NoDirectory { path: path.to_owned(), cause };
        std::fs::read_dir(path).map_err(missing)?;
        return Ok(Source::Directory { path: path.to_owned() });
    }
    let connected = storage::connect(url, &args.storage)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Failed(Error::Io { action: "starting", cause }))?;
    if let Target::Object(_) = runtime.block_on(storage::locate(url, &connected, false))? {
        return Err(Unusable::SingleObject { url: foreread::backend::shown(url) }.into());
    }
    let StorageArgs { endpoint, region, profile, anonymous, .. } = args.storage.clone();
    Ok(Source::Storage { url: url.to_owned(), endpoint, region, profile, anonymous, generated })
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{} against {}: {} files, {}; {} processes, seed {}, {:.1} s\n\n",
        report.dir,
        report.against,
        report.files,
        Size(report.file_bytes),
        report.processes,
        report.seed,
        report.seconds
    );
    let mut line = |name: &str, reads: &str, bytes: &str, in_order: &str, longest: &str| {
        let _ = writeln!(text, "  {name:<12} {reads:>10} {bytes:>11} {in_order:>11} {longest:>10}");
    };
    line("", "reads", "bytes", "in order", "longest");
    for row in &report.patterns {
        let longest = format!("{} ms", row.longest_ns / 1_000_000);
        let (bytes, in_order) = (Size(row.bytes).to_string(), Size(row.sequential_bytes).to_string());
        line(row.pattern.as_str(), &row.reads.to_string(), &bytes, &in_order, &longest);
    }
    let (bytes, in_order) = (Size(report.bytes).to_string(), Size(report.sequential_bytes).to_string());
    line("all", &report.reads.to_string(), &bytes, &in_order, "");
    if let Some(engine) = &report.engine {
        let _ = writeln!(
            text,
            "\nThe kernel asked the mount for {}: what it did not hold, and what it read ahead.",
            Size(engine.served_bytes)
        );
        if engine.stats == Value::Null {
            let _ = writeln!(text, "It does not answer any more.");
        } else if report.stuck.count > 0 {
            let _ = writeln!(text, "Its engine says: {}", engine.stats);
        }
    }
    text.push('\n');
    section(&mut text, "wrong", &report.wrong);
    section(&mut text, "errors", &report.errors);
    if report.stale > 0 {
        let _ = writeln!(text, "stale   {}: their objects had been replaced", report.stale);
    }
    section(&mut text, "slow", &report.slow);
    section(&mut text, "stuck", &report.stuck);
    if !report.left_pids.is_empty() {
        let _ = writeln!(text, "SIGKILL does not end these processes until the mount is gone: {:?}", report.left_pids);
    }
    text
}

/// Places that are shown of each kind; the JSON has more.
const SHOWN_MAX: usize = 10;

fn section(text: &mut String, name: &str, found: &Found) {
    let _ = writeln!(text, "{name:<7} {}", found.count);
    for place in found.places.iter().take(SHOWN_MAX) {
        let times = if place.times > 1 { format!(" ({} times)", place.times) } else { String::new() };
        let _ = writeln!(text, "  {}{times}", described(&place.finding));
    }
    if found.places.len() > SHOWN_MAX {
        let _ = writeln!(text, "  and at {} other places: --json names them", found.places.len() - SHOWN_MAX);
    }
}

fn described(finding: &Finding) -> String {
    let path = if finding.path.is_empty() { "." } else { &finding.path };
    let mut text = format!("{path}: ");
    if let Some(at) = finding.differs_at {
        let _ = write!(text, "from byte {at}: ");
    }
    text.push_str(&finding.message);
    if let (Some(expected), Some(got)) = (&finding.expected_hash, &finding.got_hash) {
        let _ = write!(text, " (hash {got}, the source's {expected})");
    }
    let _ = write!(text, "; {} of {} bytes at {}", finding.operation.as_str(), finding.len, finding.offset);
    let _ = write!(text, ", {} pattern, process {} task {}", finding.pattern, finding.process, finding.task);
    if let (Kind::Stuck, Some(pid)) = (finding.kind, finding.pid) {
        let _ = write!(text, ", pid {pid}");
    }
    text
}
