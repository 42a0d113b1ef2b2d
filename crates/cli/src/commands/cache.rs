//! `foreread cache stats|verify|clear FOLDER`: what a folder of `--cache` holds, whether it is
//! right, and removing it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::terminal::size::Size;

/// Look at a folder of `--cache`, check it, or remove what it holds
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
    },
    /// Remove the content, and nothing else
    Clear {
        /// The folder
        folder: PathBuf,
    },
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
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    match &args.action {
        Action::Stats { folder, json } => stats(folder, *json),
        Action::Verify { folder } => verify(folder),
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

fn verify(folder: &Path) -> miette::Result<ExitCode> {
    let all = foreread_tier::summary(folder).map_err(Error::from)?.bytes;
    let (progress, mut before) = (Progress::bytes(all, "checking"), 0);
    let verified = foreread_tier::verify(folder, |read| {
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
