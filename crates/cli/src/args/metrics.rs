//! Metrics and the live page: options of a mount.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use foreread_monitor::{Monitor, Options};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::failure::Failure;
use crate::last_cause::LastCause;

/// Metrics and the live page.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Metrics")]
pub(crate) struct MetricsArgs {
    /// Serve metrics for Prometheus, and a live page, on this address: 127.0.0.1:9464
    ///
    /// `/metrics` is text of metrics, `/healthz` says that the process answers, `/` is the page.
    /// On another address than the loopback, --metrics-token is needed.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,

    /// Ask for the first line of this file: `Authorization: Bearer`, or `?token=`
    ///
    /// 16 letters or more, without blanks. `head -c 18 /dev/urandom | base64 | tr +/ -_ > FILE`
    /// makes one.
    #[arg(long, value_name = "FILE")]
    metrics_token: Option<PathBuf>,

    /// Show the names of objects on the page and in traces; otherwise they are numbered
    #[arg(long)]
    metrics_names: bool,
}

/// Why metrics are not served.
#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("metrics cannot be served")]
    #[diagnostic(code(foreread::metrics), help("{help}"))]
    Serve {
        help: &'static str,
        #[source]
        cause: LastCause,
    },

    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] Failure),
}

impl MetricsArgs {
    /// Whether the names of objects may be told.
    pub(crate) fn has_names(&self) -> bool {
        self.metrics_names
    }

    /// Takes the address, if there is one. `title` is the head of the page.
    pub(crate) fn bind(&self, title: String) -> Result<Option<Monitor>, Error> {
        let Some(address) = self.metrics else { return Ok(None) };
        let mut options = Options::new(address);
        options.token = self.metrics_token.as_deref().map(first_line).transpose()?;
        (options.names, options.title) = (self.metrics_names, title);
        let bind = || Monitor::bind(options.clone());
        let mut bound = bind();
        // A mount that was unmounted just now has its port for a moment longer.
        for _ in 0..ATTEMPTS {
            if !bound.as_ref().is_err_and(is_in_use) {
                break;
            }
            thread::sleep(PAUSE);
            bound = bind();
        }
        bound.map(Some).map_err(|cause| Error::Serve { help: help(&cause), cause: LastCause::from(&cause) })
    }
}

fn is_in_use(error: &foreread_monitor::Error) -> bool {
    matches!(error, foreread_monitor::Error::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse)
}

/// How often, and after which pauses, a port is asked for again that is in use. Lower: a mount
/// that takes the place of another one fails now and then. Higher: the error for a port that is
/// taken comes later. Source: a guess: a second, in which a process that has been unmounted ends.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// What to do about it.
fn help(cause: &foreread_monitor::Error) -> &'static str {
    use foreread_monitor::Error;
    match cause {
        Error::Listen { source, .. } => match source.kind() {
            ErrorKind::AddrInUse => "another mount or program listens there: choose another port, or port 0 for any",
            ErrorKind::PermissionDenied => "ports below 1024 are root's: choose a higher one, or port 0 for any",
            ErrorKind::AddrNotAvailable => "this machine has no such address: `ip address` shows those that it has",
            _ => "choose a free port on the loopback, or port 0 for any",
        },
        Error::NeedsToken { .. } => "choose an address on the loopback, as 127.0.0.1:9464, or give --metrics-token",
        Error::WeakToken => "`head -c 18 /dev/urandom | base64 | tr +/ -_ > FILE` makes one",
        _ => "choose a free port on the loopback, or port 0 for any",
    }
}

/// An address from the command line.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an address is an IP and a port, as 127.0.0.1:9464 or [::1]:9464".to_owned())
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
