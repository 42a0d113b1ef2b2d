//! `foreread record DIR FILE`: the reads of a mount, kept for `foreread replay`.
//!
//! The mount keeps reads only while a program asks for them, so this command asks at intervals,
//! and writes down the answers.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use foreread_engine::Recorded;
use foreread_workload::trace::Writer;
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::failure::Failure;
use crate::last_cause::LastCause;
use crate::terminal::interrupt;

/// Record the reads of a mount, until Ctrl-C
///
/// The recording has the time, file, offset and length of each read that the kernel makes for
/// programs. Bytes in the kernel's cache are not read again. It has the names of files, and no
/// contents.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread record /mnt/data reads.trace            until Ctrl-C
  foreread record /mnt/data reads.trace --for 60s  for a minute
  foreread replay reads.trace --memory 64M         the same reads in virtual time, with less memory")]
pub(crate) struct RecordArgs {
    /// Directory on which `foreread mount` mounted
    dir: PathBuf,

    /// The file to write; an existing one is replaced
    recording: PathBuf,

    /// How long to record
    #[arg(long = "for", value_name = "TIME", value_parser = foreread_testbed::quantity::duration)]
    duration: Option<Duration>,
}

/// Why `foreread record` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: its reads cannot be recorded", .dir.display())]
    #[diagnostic(
        code(foreread::record),
        help("name a directory on which `foreread mount` mounted; one recording of a mount can be made at a time")
    )]
    NotRecorded {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },

    #[error("{}: cannot be written", .path.display())]
    #[diagnostic(code(foreread::record::output), help("check the directory's owner and the space that is left"))]
    Unwritable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
}

/// Records until the time is up or a signal comes.
pub(crate) fn run(args: &RecordArgs) -> miette::Result<ExitCode> {
    let unwritable = |cause| Error::Unwritable { path: args.recording.clone(), cause };
    let interrupt = interrupt::listen().map_err(unwritable)?;
    let number = foreread_fuse::start_recording(&args.dir).map_err(|cause| not_recorded(&args.dir, &cause))?;
    let out = File::create(&args.recording).map_err(unwritable)?;
    let mut recording = Recording { writer: Writer::new(BufWriter::new(out)).map_err(unwritable)?, reads: 0, lost: 0 };
    let started = Instant::now();
    loop {
        let last = interrupt.is_raised() || args.duration.is_some_and(|duration| started.elapsed() >= duration);
        let recorded = ask(&args.dir, number, last)?;
        let more = recorded.more;
        recording.take(recorded).map_err(unwritable)?;
        if last && !more {
            break;
        }
        if !more {
            thread::sleep(INTERVAL);
        }
    }
    recording.writer.flush().map_err(unwritable)?;
    eprintln!("{} reads recorded to {}", recording.reads, args.recording.display());
    if recording.lost > 0 {
        eprintln!("{} more came faster than they could be recorded", recording.lost);
    }
    Ok(ExitCode::SUCCESS)
}

fn not_recorded(dir: &Path, cause: &foreread_fuse::Error) -> Error {
    Error::NotRecorded { dir: dir.to_owned(), cause: LastCause::from(cause) }
}

fn ask(dir: &Path, recording: u64, last: bool) -> miette::Result<Recorded> {
    let answer = foreread_fuse::query_recorded(dir, recording, last).map_err(|cause| not_recorded(dir, &cause))?;
    Ok(serde_json::from_str(&answer).map_err(|cause| Failure::Output { cause: cause.into() })?)
}

struct Recording {
    writer: Writer<BufWriter<File>>,
    reads: u64,
    lost: u64,
}

impl Recording {
    fn take(&mut self, recorded: Recorded) -> io::Result<()> {
        for file in recorded.files {
            self.writer.file(file.file, file.size, &file.name)?;
        }
        if recorded.lost > 0 {
            self.writer.lost(recorded.lost)?;
            self.lost += recorded.lost;
        }
        self.reads += recorded.reads.len() as u64;
        for (at_ns, file, reader, offset, len) in recorded.reads {
            self.writer.read(at_ns, file, reader, offset, len)?;
        }
        Ok(())
    }
}

/// The time between two questions to the mount.
const INTERVAL: Duration = Duration::from_millis(50);
