//! `foreread doctor [URL]`: what on this machine, and on the way to a storage, holds reading back.
//!
//! ```text
//!   machine   kernel, FUSE, io_uring, userfaultfd, limits, memory, clock, network
//!   storage   connect ──> look for the URL ──> read an object: first bytes, then one stream
//!                └ the first failure ends it, with its cause and the next step
//! ```
//!
//! Each finding is one line, and the next step where there is one. Nothing is changed.

mod finding;
mod machine;
mod probe;

use std::process::ExitCode;

use crate::args::storage::StorageArgs;
use crate::failure::Failure;
use crate::heap;
use crate::terminal::log::{self, Log};
use crate::terminal::output;
use finding::{Finding, Verdict};

/// Say what holds reading back on this machine, and on the way to a storage
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread doctor                         this machine
  foreread doctor s3://bucket/prefix      and the storage: credentials, first byte, bandwidth
  foreread doctor --json s3://bucket      for a script

With a URL up to 256 MiB of its objects are read, for up to 3 seconds.

Exit status: 0 if nothing is wrong, 1 if something is. Advice alone is no failure.")]
pub(crate) struct Args {
    /// A storage to try: a URL as `foreread mount` takes it
    url: Option<String>,

    #[command(flatten)]
    storage: StorageArgs,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Looks at everything, and prints what was found.
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    heap::return_freed_blocks();
    log::start(Log { verbose, ..Log::default() });
    let mut findings = machine::findings();
    if let Some(url) = &args.url {
        findings.extend(probe::findings(url, &args.storage));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&findings).map_err(|cause| Failure::Output { cause: cause.into() })?;
        output::line(format_args!("{text}"))?;
    } else {
        for Finding { what, verdict, found, next } in &findings {
            let mark = match verdict {
                Verdict::Good => "ok    ",
                Verdict::Advice => "advice",
                Verdict::Wrong => "WRONG ",
            };
            output::line(format_args!("{mark}  {what:<12}  {found}"))?;
            if let Some(next) = next {
                output::line(format_args!("{:22}{next}", ""))?;
            }
        }
    }
    let is_wrong = findings.iter().any(|finding| finding.verdict == Verdict::Wrong);
    Ok(if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
