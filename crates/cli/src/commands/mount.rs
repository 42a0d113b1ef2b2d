//! `foreread mount URL DIR`.
//!
//! ```text
//!  usage ──> mount point, /dev/fuse ──> fork ──> storage answers ──> engine ──> signals ──> mount
//!  (clap)    (this process, no threads)          (the process that serves)           it answers │
//!                                                                        report to the user <───┘
//! ```
//!
//! After a failure nothing stays mounted. The mount is made last; it is undone if it does not
//! answer, or if the parent process is gone that would report it.

mod background;
mod directory;
pub(crate) mod error;
pub(crate) mod permission;
mod place;
mod signals;
mod single;
mod supervisor;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use foreread::backend::{Backend, Connected, shown};
use foreread::mount::MountOptions;
use foreread::{Engine, Options, Target};
use foreread_fuse::{Setting, mount_table};
use foreread_monitor::{Monitor, Traces};
use foreread_testbed::quantity;

use crate::args::engine::{self, EngineArgs};
use crate::args::memory;
use crate::args::metrics::MetricsArgs;
use crate::args::path::absolute;
use crate::args::storage::StorageArgs;
use crate::failure::Failure;
use crate::heap;
use crate::last_cause::LastCause;
use crate::storage;
use crate::terminal::log::{self, Format, Level, Log, LogFile};
use crate::terminal::progress::Progress;
use background::{Herald, Side};
use error::Error;
use place::Place;
use single::SingleObject;

/// Mount a bucket, a prefix, a single object, a web server's file or a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with examples: `foreread mount --help`.", after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// What to mount: `s3://BUCKET[/PREFIX]`, `gs://`, `az://`, `http(s)://HOST/FILE` or a local
    /// directory
    ///
    /// A URL that names a single object gives a directory with that one file.
    url: String,

    /// Directory to mount on; it must exist
    #[arg(required_unless_present = "fuse_fd")]
    dir: Option<PathBuf>,

    #[command(flatten)]
    storage: StorageArgs,

    #[command(flatten)]
    engine: EngineArgs,

    #[command(flatten)]
    metrics: MetricsArgs,

    /// How long a listing is valid, from the time of its request
    ///
    /// A listing that is not older answers look-ups, opens and reads of the directory, without a
    /// request to the storage. With 0s, each of them makes a request, for every name.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "1s")]
    metadata_ttl: Duration,

    /// Mount although the storage forbids listings: names that are known open, `ls` fails
    ///
    /// A name that no object has is a directory then, which cannot be read. Nothing can be checked
    /// beforehand: if names may not be read either, they fail one by one.
    #[arg(long)]
    unlisted: bool,

    /// Serve this open descriptor of /dev/fuse, which another process mounts; in the foreground
    ///
    /// That process calls mount(2) with `fd=N`, and unmounts. This one needs no privilege then,
    /// and no directory.
    #[arg(long, value_name = "N")]
    fuse_fd: Option<i32>,

    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,

    /// Mount read-only: the only mode there is, so this changes nothing. Writing fails with EROFS
    #[arg(short, long)]
    read_only: bool,

    /// Append events to this file: the log of a mount in the background, which has no stderr
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// How events are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    log_format: Format,

    /// Which events are written to --log; `foreread set` changes it
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Level::Info)]
    log_level: Level,

    /// A read that waits for longer is an event, with what it waited for
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "1s")]
    slow: Duration,

    /// Let other users read the mount, as the modes allow
    ///
    /// For users other than root, /etc/fuse.conf must contain the line `user_allow_other`.
    #[arg(long, help_heading = "Owner and modes")]
    allow_other: bool,

    /// Start no program from the mount, whatever the modes of files
    #[arg(long, help_heading = "Owner and modes")]
    noexec: bool,

    /// Owner of all files; otherwise the user who mounts
    #[arg(long, value_name = "ID", help_heading = "Owner and modes")]
    uid: Option<u32>,

    /// Group of all files; otherwise the group of the user who mounts
    #[arg(long, value_name = "ID", help_heading = "Owner and modes")]
    gid: Option<u32>,

    /// Mode of files, in octal
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "444", help_heading = "Owner and modes")]
    file_mode: u16,

    /// Mode of directories, in octal
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "555", help_heading = "Owner and modes")]
    dir_mode: u16,

    /// Ask the kernel to forget names as kernels before Linux 6.18 are asked. For tests
    #[arg(long, hide = true)]
    forget_by_name: bool,
}

/// Mounts; returns when the mount answers (background) or has ended (foreground).
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    heap::return_freed_blocks();
    let options = args.engine.options()?.with_metadata_ttl(args.metadata_ttl).with_slow(args.slow);
    let log = args.log.as_deref().map(LogFile::open).transpose()?;
    let place = Place::of(args.dir.as_deref(), args.fuse_fd)?;
    let monitor = args.metrics.bind(shown(&args.url))?;
    if place.dir().is_some() {
        permission::check(args.allow_other)?;
    }

    let mut herald = if args.foreground || place.dir().is_none() {
        Herald::Foreground
    } else {
        match background::split(&format!("mounting {}", shown(&args.url)))? {
            Side::Parent(code) => return Ok(code),
            Side::Child(herald) => herald,
        }
    };
    log::start(Log { verbose, file: log, format: args.log_format, level: Some(args.log_level) });
    for note in place.notes() {
        herald.note(note);
    }
    if let Some(monitor) = &monitor {
        herald.note(&format!("metrics and a live page: http://{}/", monitor.address()));
    }
    match serve(args, &options, place, monitor, &mut herald) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            tracing::error!(error = &failure as &dyn std::error::Error, "the mount failed");
            herald.failed(&failure.into());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn serve(
    args: &Args,
    options: &Options,
    place: Place,
    monitor: Option<Monitor>,
    herald: &mut Herald,
) -> Result<(), Error> {
    let (dir, named) = (place.dir().cloned(), place.to_string());
    let spinner = args.foreground.then(|| Progress::spinner(&format!("mounting {}", shown(&args.url))));

    let url = local_made_absolute(&args.url)?;
    let target = first_contact(&url, args)?;
    let Connected { backend, .. } = storage::connect(&url, &args.storage)?;
    let (backend, prefix) = match target {
        Target::Prefix(prefix) => (backend, prefix),
        Target::Object(object) => {
            let single: Arc<dyn Backend> = Arc::new(SingleObject::new(backend, object.key));
            (single, String::new())
        }
    };
    let engine =
        Engine::new(backend, options).map_err(|cause| engine::Error::Start { cause: LastCause::from(&cause) })?;
    if let Some(monitor) = monitor {
        monitor.serve(&engine).map_err(|cause| Error::Background { cause })?;
    }

    let traces = Traces::start(&engine, &shown(&url), args.metrics.has_names()).unwrap_or_else(|error| {
        tracing::warn!(%error, "no traces are sent");
        herald.note(&format!("no traces are sent: {error}"));
        None
    });
    // The last of them are sent on the engine's runtime, once the mount has ended.
    let traces = traces.map(|traces| (traces, engine.clone()));

    let signals = signals::listen(engine.runtime()).map_err(|cause| Error::Background { cause })?;
    let mount_options = MountOptions::default()
        .with_source(shown(&url))
        .with_allow_other(args.allow_other)
        .with_no_exec(args.noexec)
        .with_owner(args.uid, args.gid)
        .with_modes(args.file_mode, args.dir_mode)
        .with_log_level(log::set_level)
        .with_prunes(!args.forget_by_name);
    let (runtime, observer) = (engine.runtime().clone(), engine.observer());
    let mounted = match place {
        Place::Directory(point) => foreread::mount::mount(engine, &prefix, &point.dir, &mount_options),
        Place::Descriptor(device, _) => foreread::mount::serve(engine, &prefix, device, &mount_options),
    };
    let (here, place) = (dir.clone(), named.clone());
    let failed = |cause, of: fn(PathBuf, LastCause) -> Error| match here {
        Some(dir) => of(dir, cause),
        None => Error::Served { place, cause },
    };
    let mounted = match mounted {
        Ok(mounted) => mounted,
        Err(cause) => return Err(failed(LastCause::from(&cause), permission::refused)),
    };
    drop(spinner);

    // The kernel and the mount have agreed by now. This process must not ask its own mount for
    // anything: if it is killed while it waits for itself, neither of the two ever ends.
    if let Err(cause) = herald.mounted() {
        if let Some(dir) = &dir {
            let _ = foreread::mount::unmount(dir, true);
        }
        return Err(Error::Untold { dir: named.into(), cause });
    }
    tracing::info!(source = mount_options.source, dir = named, "mounted");
    runtime.spawn(signals.unmount(named.clone(), mounted.unmounter(), observer));
    match mounted.wait() {
        // Unmounted while a request was being read: the kernel reports that as aborted.
        Err(foreread::mount::Error::Session(cause))
            if cause.kind() == ErrorKind::ConnectionAborted && !dir.as_deref().is_some_and(mount_table::stands) => {}
        Err(cause) => return Err(failed(LastCause::from(&cause), |dir, cause| Error::MountEnded { dir, cause })),
        Ok(()) => {}
    }
    drop(traces);
    tracing::info!(dir = named, "unmounted");
    Ok(())
}

impl Args {
    /// What of it can be changed while it is mounted.
    pub(crate) fn settings(&self) -> [Setting; 4] {
        let memory = self.engine.memory.unwrap_or_else(memory::default_budget);
        [
            Setting::MemoryBytes(memory.0),
            Setting::MetadataTtl(self.metadata_ttl),
            Setting::Slow(self.slow),
            Setting::LogLevel(self.log_level.into()),
        ]
    }
}

/// Asks the storage on a runtime and connections of its own: the target must be known before the
/// engine is made, and a connection cannot move to another runtime.
fn first_contact(url: &str, args: &Args) -> Result<Target, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::Background { cause })?;
    let connected = storage::connect(url, &args.storage)?;
    let target = runtime.block_on(storage::locate(url, &connected, args.unlisted));
    // A name lookup that hangs must not delay the result.
    runtime.shutdown_background();
    Ok(target?)
}

/// A local path made absolute, since the process leaves its directory.
fn local_made_absolute(url: &str) -> Result<String, Failure> {
    if url.contains("://") {
        return Ok(url.to_owned());
    }
    let path = absolute(Path::new(url))?;
    path.into_os_string().into_string().map_err(|path| Failure::File {
        path: path.into(),
        cause: std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path is not UTF-8"),
    })
}

fn mode(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("not a mode: write three octal digits, such as 444 or 550".to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  foreread mount s3://bucket /mnt/data
  foreread mount s3://bucket/some/prefix /mnt/data --memory 512M --profile work
  foreread mount s3://public-bucket /mnt/data --anonymous --region us-west-2
  foreread mount s3://bucket /mnt/data --endpoint http://127.0.0.1:9000
  foreread mount https://example.com/big.iso /mnt/data
  foreread mount /srv/slow-disk /mnt/data

The command returns when the mount works; if it fails, nothing stays behind. What next:
  foreread stats /mnt/data --watch    what it is doing
  foreread umount /mnt/data           unmount

Credentials come from where the cloud's own tools find them: environment variables, profiles and their single \
sign-on, instance metadata. HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are honoured. No secret is taken on the command \
line, where other users could read it.

SIGINT and SIGTERM unmount. After SIGKILL, mounting on the same directory again recovers it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(mode("444"), Ok(0o444));
        assert_eq!(mode("0550"), Ok(0o550));
        assert!(mode("888").is_err());
        assert!(mode("1777").is_err());
        assert!(mode("").is_err());
    }
}
