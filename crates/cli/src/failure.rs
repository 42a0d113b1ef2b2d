//! Failures that several commands share, and the exit codes.
//!
//! Each command defines its own causes beside it; each cause names the next step. Messages hold no
//! credential: URLs arrive without user information and query (`foreread::backend::shown`).

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use miette::Diagnostic;
use thiserror::Error;

/// A failure of any command.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Failure {
    #[error("{}: no such directory", .dir.display())]
    #[diagnostic(code(foreread::directory::missing), help("create it first: mkdir -p '{}'", .dir.display()))]
    DirectoryMissing { dir: PathBuf },

    #[error("{}: cannot be used as a mount point", .dir.display())]
    #[diagnostic(code(foreread::directory::unusable), help("check who owns it and each directory above it"))]
    DirectoryUnusable {
        dir: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: cannot be used", .path.display())]
    #[diagnostic(code(foreread::file), help("check the path and its permissions"))]
    File {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("writing the output failed")]
    #[diagnostic(code(foreread::output), help("check the space and the permissions where the output goes"))]
    Output {
        #[source]
        cause: std::io::Error,
    },
}

/// 128 + SIGPIPE: the status of a program that SIGPIPE ends, as a shell reports it.
const DIED_OF_SIGPIPE: u8 = 141;

/// Writes to stderr why a command failed, and returns the status of the process.
pub(crate) fn report(report: &miette::Report) -> ExitCode {
    match report.downcast_ref::<Failure>() {
        // `foreread ... | head`: the reader of the output has enough. Rust ignores the signal, so
        // the write fails instead.
        Some(Failure::Output { cause }) if cause.kind() == ErrorKind::BrokenPipe => ExitCode::from(DIED_OF_SIGPIPE),
        _ => {
            eprintln!("{report:?}");
            ExitCode::FAILURE
        }
    }
}
