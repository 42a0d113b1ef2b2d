//! Where the program's events go: stderr with `-v`, a file with `--log`, nowhere otherwise.
//!
//! Only events of this project's crates are written. Libraries for HTTP and signing would write
//! headers, and with them credentials.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

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
        (0 | 1, _) => "info",
        (2, _) => "debug",
        _ => "trace",
    };
    let heard = CRATES.map(|name| format!("{name}={level}")).join(",");
    let builder = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(heard)).with_target(true);
    // A second start in one process changes nothing.
    let _ = match file {
        Some(file) => builder.with_ansi(false).with_writer(Mutex::new(file)).try_init(),
        None => builder.with_writer(std::io::stderr).try_init(),
    };
}

const CRATES: [&str; 6] =
    ["foreread", "foreread_backend", "foreread_engine", "foreread_fuse", "foreread_testbed", "foreread_workload"];
