//! `foreread cat URL`: the engine without a mount.
//!
//! One reader asks for the range piece by piece. The engine reads the next pieces ahead while one
//! is written, so the speed is the mount's, and so is the bound on memory.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use foreread::backend::shown;
use foreread::{Engine, ErrorKind};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::engine::{self, EngineArgs};
use crate::args::range::ByteRange;
use crate::args::storage::StorageArgs;
use crate::failure::Failure;
use crate::heap;
use crate::last_cause::LastCause;
use crate::storage;
use crate::terminal::log::{self, Log};
use crate::terminal::progress::Progress;

/// Write an object, or a range of it, to stdout
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread cat s3://bucket/archive.tar | tar t
  foreread cat s3://bucket/data.parquet --range -8 | xxd     the last 8 bytes
  foreread cat https://example.com/big.iso --range 32768-34815

The object is pinned when it is opened: if it is replaced in the middle, the command fails; it never mixes two \
versions.")]
pub(crate) struct Args {
    /// The object: `s3://BUCKET/KEY`, `gs://`, `az://`, `http(s)://HOST/FILE` or a local file
    url: String,

    /// Bytes to write: FIRST-LAST (both inclusive, from 0), FIRST- or -COUNT (the last ones)
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<ByteRange>,

    #[command(flatten)]
    storage: StorageArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

/// Why `foreread cat` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{url}: reading failed")]
    #[diagnostic(code(foreread::engine::read), help("{help}"))]
    Read {
        url: String,
        help: &'static str,
        #[source]
        cause: LastCause,
    },

    #[error("{url}: ended at byte {offset} of {size}")]
    #[diagnostic(code(foreread::engine::read), help("the object was cut while it was read: start again"))]
    Cut { url: String, offset: u64, size: u64 },

    #[error("{url}: the range starts behind the end of the object, which has {size} bytes")]
    #[diagnostic(code(foreread::cat::range), help("offsets count from 0; `--range -N` reads the last N bytes"))]
    RangeBehindEnd { url: String, size: u64 },
}

/// Writes the bytes.
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    heap::return_freed_blocks();
    log::start(Log { verbose, ..Log::default() });
    let url = shown(&args.url);
    let connected = storage::connect(&args.url, &args.storage)?;
    let engine = Engine::new(connected.backend.clone(), &args.engine.options()?)
        .map_err(|cause| engine::Error::Start { cause: LastCause::from(&cause) })?;

    let spinner = Progress::spinner(&format!("looking for {url}"));
    let object = engine.block_on(storage::stat(&args.url, &connected))?;
    drop(spinner);
    let size = object.version.size;
    let range = match args.range {
        None => 0..size,
        Some(range) => range.within(size).ok_or_else(|| Error::RangeBehindEnd { url: url.clone(), size })?,
    };

    let file = engine.open(&object);
    let mut output = stdout().map_err(|cause| Failure::Output { cause })?;
    // On a terminal, the bytes themselves show the progress.
    let progress =
        (!io::stdout().is_terminal()).then(|| Progress::bytes(range.end - range.start, &format!("reading {url}")));
    let mut offset = range.start;
    while offset < range.end {
        let wanted = (range.end - offset).min(PIECE_BYTES) as usize;
        let piece = engine.block_on(file.read_at(offset, wanted)).map_err(|cause| Error::Read {
            url: url.clone(),
            help: read_help(cause.kind()),
            cause: LastCause::from(&cause),
        })?;
        if piece.len() != wanted {
            return Err(Error::Cut { url, offset: offset + piece.len() as u64, size }.into());
        }
        output.write_all(&piece).map_err(|cause| Failure::Output { cause })?;
        offset += wanted as u64;
        if let Some(progress) = &progress {
            progress.advance(wanted as u64);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes of one read. Lower, and there are more calls; higher, and the first byte on stdout is
/// later and a larger part of the budget is held by the command.
const PIECE_BYTES: u64 = 1 << 20;

/// stdout without the line buffer that std puts in front of it.
fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

fn read_help(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Changed => "the object was replaced while it was read: start again to read the new version",
        ErrorKind::NotFound => "the object was deleted while it was read",
        ErrorKind::PermissionDenied => "the credentials may have expired: renew them and start again",
        ErrorKind::TimedOut => "the storage stopped answering: check the network, then start again",
        _ => "start again; `-v` shows each failed request",
    }
}
