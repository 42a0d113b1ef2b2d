//! Where the program's events go: stderr with `-v`, a file with `--log`, nowhere otherwise.
//!
//! Only events of this project's crates are written. Libraries for HTTP and signing would write
//! headers, and with them credentials.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::Failure;

/// Opens the file of `--log` for appending; only its owner may read it, since it names objects.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    let mut options = File::options();
    options.append(true).create(true).mode(0o600);
    options.open(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })
}

/// Begins to write events, once a process. `verbose` is the number of `-v`.
pub(crate) fn start(verbose: u8, file: Option<File>) {
    let level = match (verbose, &file) {
        (0, None) => return,
        (0 | 1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let heard: Targets = CRATES.into_iter().map(|name| (name, level)).collect();
    let builder = tracing_subscriber::fmt().with_max_level(level);
    // A second start in one process changes nothing.
    let _ = match file {
        Some(file) => builder.with_ansi(false).with_writer(Mutex::new(file)).finish().with(heard).try_init(),
        None => builder.with_writer(std::io::stderr).finish().with(heard).try_init(),
    };
}

const CRATES: [&str; 6] =
    ["foreread", "foreread_backend", "foreread_engine", "foreread_fuse", "foreread_testbed", "foreread_workload"];
