//! `foreread cache stats|verify|clear|warm FOLDER`: what a folder of `--cache` holds, whether it
//! is right, removing it, and filling it.

mod warm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use foreread_tier::Secret;
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::terminal::size::Size;

/// Look at a folder of `--cache`, check it, fill it, or remove what it holds
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

const EXAMPLES: &str = "\
All of it works while mounts and programs use the folder.

Examples:
  foreread mount s3://bucket /mnt/data --cache /var/cache/foreread --cache-size 200GiB
  foreread cache stats /var/cache/foreread
  foreread cache warm /var/cache/foreread s3://bucket/train --cache-size 200GiB
  foreread cache verify /var/cache/foreread";

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// How much it holds
    Stats {
        /// The folder
        folder: PathBuf,

        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Read every page and compare its checksum
    Verify {
        /// The folder
        folder: PathBuf,

        /// The key file of an encrypted folder
        #[arg(long, value_name = "KEYFILE")]
        cache_encrypt: Option<PathBuf>,
    },
    /// Remove the content, and nothing else
    Clear {
        /// The folder
        folder: PathBuf,
    },
    Warm(warm::Args),
}

/// Why `foreread cache` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error(transparent)]
    #[diagnostic(
        code(foreread::cache),
        help("name the folder that `foreread mount URL DIR --cache FOLDER` was given, as the user who did")
    )]
    Tier(#[from] foreread_tier::Error),

    #[error("{}: {wrong} of {all} pages are wrong", .folder.display())]
    #[diagnostic(
        code(foreread::cache::wrong),
        help(
            "no program is given a wrong page: it is read from the storage again. If there are more each time, check \
             the disk; `foreread cache clear` removes all"
        )
    )]
    Wrong { folder: PathBuf, wrong: u64, all: u64 },
}

/// Does what is asked.
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    match &args.action {
        Action::Stats { folder, json } => stats(folder, *json),
        Action::Verify { folder, cache_encrypt } => verify(folder, cache_encrypt.as_deref()),
        Action::Warm(args) => warm::run(args, verbose),
        Action::Clear { folder } => {
            let bytes = foreread_tier::clear(folder).map_err(Error::from)?;
            output::line(format_args!("{}: removed {}", folder.display(), Size(bytes)))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn stats(folder: &Path, json: bool) -> miette::Result<ExitCode> {
    let held = foreread_tier::summary(folder).map_err(Error::from)?;
    let (bytes, objects, pieces, files) = (held.bytes, held.objects, held.entries, held.segments);
    if json {
        let shown = serde_json::json!({"bytes": bytes, "objects": objects, "pieces": pieces, "files": files});
        output::line(format_args!("{shown}"))?;
    } else {
        let bytes = Size(bytes);
        output::line(format_args!(
            "{}: {bytes} of {objects} objects, {pieces} pieces in {files} files",
            folder.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(folder: &Path, key_file: Option<&Path>) -> miette::Result<ExitCode> {
    let secret = key_file.map(Secret::from_file).transpose().map_err(Error::from)?;
    let all = foreread_tier::summary(folder).map_err(Error::from)?.bytes;
    let (progress, mut before) = (Progress::bytes(all, "checking"), 0);
    let verified = foreread_tier::verify(folder, secret.as_ref(), |read| {
        progress.advance(read.saturating_sub(before));
        before = read;
    });
    drop(progress);
    let verified = verified.map_err(Error::from)?;
    if verified.wrong > 0 {
        let (wrong, all) = (verified.wrong, verified.good + verified.wrong);
        return Err(Error::Wrong { folder: folder.to_owned(), wrong, all }.into());
    }
    let (pages, objects) = (verified.good, verified.objects);
    output::line(format_args!("{}: {pages} pages of {objects} objects, all of them right", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
