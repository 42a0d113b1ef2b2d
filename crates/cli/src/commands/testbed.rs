//! `foreread testbed`: an emulated object store, for trials and tests.

use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use foreread_testbed::{Config, Fault, ObjectSpec, Testbed, TlsFiles, quantity};
use miette::Diagnostic;
use thiserror::Error as ThisError;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::terminal::log::{self, Log};

/// Serve an emulated S3 store: synthetic objects or a directory, with latency, bandwidth and
/// faults
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with examples: `foreread testbed --help`.", after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Read all settings from this TOML file first; options win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A synthetic object, such as big=2GiB; its bytes follow from its name, so it costs no
    /// memory. Repeatable
    #[arg(long = "object", value_name = "NAME=SIZE", value_parser = object)]
    objects: Vec<ObjectSpec>,

    /// A directory whose files are objects as well
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,

    /// Pass requests on to this server, and its answers back behind the device: http://HOST:PORT
    ///
    /// Buckets, objects and credentials are that server's. Counters and faults are the testbed's.
    #[arg(long, value_name = "URL", conflicts_with_all = ["objects", "dir", "allow_anonymous"])]
    upstream: Option<String>,

    /// Answer requests without a signature as well
    #[arg(long)]
    allow_anonymous: bool,

    /// Time before the first byte of an answer
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, help_heading = "Device")]
    first_byte: Option<Duration>,

    /// The longest random delay that is added to it
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, help_heading = "Device")]
    jitter: Option<Duration>,

    /// The highest rate of one connection
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, help_heading = "Device")]
    connection_rate: Option<u64>,

    /// The highest rate of all connections together
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, help_heading = "Device")]
    total_rate: Option<u64>,

    /// The most requests served at a time; the others wait
    #[arg(long, value_name = "N", help_heading = "Device")]
    concurrency: Option<NonZeroU32>,

    /// A fault, such as status=503,every=10. Repeatable
    #[arg(long = "fault", value_name = "SPEC", help_heading = "Faults")]
    faults: Vec<Fault>,

    /// Speak TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    tls_key: Option<PathBuf>,
}

/// Why `foreread testbed` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{}: not a valid configuration", .path.display())]
    #[diagnostic(code(foreread::file), help("the names are those of the options, with _ for -"))]
    Toml {
        path: PathBuf,
        #[source]
        cause: Box<toml::de::Error>,
    },

    #[error("the testbed could not be started")]
    #[diagnostic(code(foreread::testbed), help("choose another address with --listen; port 0 takes any free one"))]
    Testbed {
        #[source]
        cause: foreread_testbed::Error,
    },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Shared(#[from] Failure),
}

/// Serves until SIGINT or SIGTERM. One line on stdout says where, when it is ready.
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    log::start(Log { verbose, ..Log::default() });
    let config = args.config()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Failure::Output { cause })?;
    // Outside the runtime: start and stop wait for the testbed's own runtime.
    let testbed = Testbed::start(config).map_err(|cause| Error::Testbed { cause })?;
    let served = runtime.block_on(async {
        let listen = || Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?));
        let (mut interrupt, mut terminate) = listen().map_err(|cause: std::io::Error| Failure::Output { cause })?;
        let ready = format!("foreread testbed: listening on {}\n", testbed.endpoint());
        let mut stdout = std::io::stdout();
        stdout.write_all(ready.as_bytes()).and_then(|()| stdout.flush()).map_err(|cause| Failure::Output { cause })?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    });
    testbed.stop();
    served
}

impl Args {
    fn config(&self) -> Result<Config, Error> {
        let mut config = match &self.config {
            None => Config { listen: DEFAULT_LISTEN, ..Config::default() },
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|cause| Failure::File { path: path.clone(), cause })?;
                toml::from_str(&text).map_err(|cause| Error::Toml { path: path.clone(), cause: Box::new(cause) })?
            }
        };
        config.listen = self.listen.unwrap_or(config.listen);
        config.objects.extend(self.objects.iter().cloned());
        config.dir = self.dir.clone().or(config.dir);
        config.upstream = self.upstream.clone().or(config.upstream);
        config.anonymous |= self.allow_anonymous;
        config.first_byte = self.first_byte.unwrap_or(config.first_byte);
        config.jitter = self.jitter.unwrap_or(config.jitter);
        config.connection_rate = self.connection_rate.or(config.connection_rate);
        config.total_rate = self.total_rate.or(config.total_rate);
        config.concurrency = self.concurrency.or(config.concurrency);
        config.faults.extend(self.faults.iter().cloned());
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            config.tls = Some(TlsFiles { cert: cert.clone(), key: key.clone() });
        }
        Ok(config)
    }
}

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9000);

fn object(text: &str) -> Result<ObjectSpec, String> {
    // A name may hold `=`, a size may not.
    let (name, size) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=SIZE")?;
    Ok(ObjectSpec::new(name, quantity::size(size).map_err(|wrong| wrong.to_string())?))
}

const EXAMPLES: &str = "\
The store listens on 127.0.0.1:9000 unless told otherwise. Its bucket is `testbed`, its access key `testbed`, the \
secret `testbedsecret`, the region `us-east-1`. Signatures are checked as S3 checks them.

Examples:
  foreread testbed --object big=2GiB --first-byte 30ms --connection-rate 80MB/s
  foreread testbed --dir ~/data --fault status=503,every=10,retry-after=1
  foreread testbed --object a=1MiB --fault reset-body=64KiB,probability=0.1
  foreread testbed --upstream http://127.0.0.1:7070 --first-byte 30ms --connection-rate 80MB/s

Then, in another shell:
  export AWS_ACCESS_KEY_ID=testbed AWS_SECRET_ACCESS_KEY=testbedsecret AWS_REGION=us-east-1
  foreread mount s3://testbed /mnt/data --endpoint http://127.0.0.1:9000
  curl -s http://127.0.0.1:9000/-/counters                  requests so far, by kind
  curl -X POST http://127.0.0.1:9000/-/counters/reset

A fault is terms separated by commas: what happens (status=503, throttle=100, crowd=64, redirect, empty, reset, \
reset-body=64KiB, stall, stall-body=64KiB, truncate=64KiB, short=100, wrong-range, wrong-etag, no-etag, \
ignore-range, gzip, archived, forbid-missing, slow=20, replace), then to \
which requests (kind=get, key=a/*, after=5, every=10, probability=0.1, count=3).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_a_name_and_a_size() {
        assert_eq!(object("big=2GiB"), Ok(ObjectSpec::new("big", 2 << 30)));
        assert_eq!(object("a=b=1"), Ok(ObjectSpec::new("a=b", 1)));
        assert!(object("big").is_err());
        assert!(object("=1").is_err());
        assert!(object("a=x").is_err());
    }
}
