//! Metrics and the live page: options of a mount.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    #[arg(long, value_name = "ADDRESS")]
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
    #[diagnostic(
        code(foreread::metrics),
        help("choose a free port on the loopback, or port 0 for any; other addresses need --metrics-token")
    )]
    Serve {
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
        Monitor::bind(options).map(Some).map_err(|cause| Error::Serve { cause: LastCause::from(&cause) })
    }
}

fn first_line(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
