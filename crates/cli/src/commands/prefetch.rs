//! `foreread prefetch DIR --list FILE`: tells a mount the order in which files will be read.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::failure::Failure;
use crate::last_cause::LastCause;

/// Fetch small files of a mount in the order in which they will be read
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first files are fetched at once, the others as readers advance. The mount learns an order by itself when files \
are read in it once.

Example, for a data loader that shuffles:
  (cd /mnt/data && find . -name '*.jpg' | shuf --random-source=seed) > order
  foreread prefetch /mnt/data --list order"
)]
pub(crate) struct Args {
    /// A directory of a mount by `foreread mount`
    dir: PathBuf,

    /// The paths of the files below that directory, one a line; - for standard input
    #[arg(long, value_name = "FILE")]
    list: PathBuf,
}

/// Why `foreread prefetch` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: files cannot be made ready there", .dir.display())]
    #[diagnostic(
        code(foreread::prefetch),
        help("name a directory of a mount by `foreread mount`; `grep fuse.foreread /proc/mounts` shows them")
    )]
    NoPrefetch {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },

    #[error("{}: none of the {count} files of the list is there", .dir.display())]
    #[diagnostic(
        code(foreread::prefetch::unknown),
        help("each line is a path below {}, such as `find . -type f` prints in it", .dir.display())
    )]
    NothingToPrefetch { dir: PathBuf, count: usize },
}

/// Gives the list to the mount, and reports how many of the files exist.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    let text = read(&args.list).map_err(|cause| Failure::File { path: args.list.clone(), cause })?;
    let paths: Vec<&str> = text.lines().filter_map(|line| below(&args.dir, line)).collect();
    let known = foreread_fuse::expect_files(&args.dir, paths.iter().copied())
        .map_err(|cause| Error::NoPrefetch { dir: args.dir.clone(), cause: LastCause::from(&cause) })?;
    if known == 0 {
        return Err(Error::NothingToPrefetch { dir: args.dir.clone(), count: paths.len() }.into());
    }
    let missing = paths.len() as u64 - known;
    eprintln!(
        "{known} files are expected in this order{}",
        match missing {
            0 => String::new(),
            _ => format!("; {missing} lines name none that is there"),
        }
    );
    Ok(ExitCode::SUCCESS)
}

fn read(list: &Path) -> std::io::Result<String> {
    if list.as_os_str() != "-" {
        return std::fs::read_to_string(list);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The path that a line names, relative to the directory.
fn below<'a>(dir: &Path, line: &'a str) -> Option<&'a str> {
    let line = Path::new(line).strip_prefix(dir).ok().and_then(Path::to_str).unwrap_or(line);
    let path = line.trim_start_matches("./").trim_start_matches('/');
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_paths_below_the_directory() {
        let dir = Path::new("/mnt/data");
        for line in ["a/b c", "./a/b c", "/mnt/data/a/b c"] {
            assert_eq!(below(dir, line), Some("a/b c"), "{line}");
        }
        assert_eq!(below(dir, ""), None);
    }
}
