//! `foreread mount URL DIR`.
//!
//! ```text
//!   usage ──> mount point, /dev/fuse ──> fork ──> engine ──> storage answers ──> signals ──> mount ──> it answers
//!   (clap)    (this process, no threads)          (the process that serves)                            └> word to the user
//! ```
//!
//! Whatever fails, nothing stays mounted: the mount is made last, and undone when it does not answer or nobody is left to
//! hear that it does.

mod background;
mod directory;
mod permission;
mod signals;
mod single;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use foreread::backend::{Backend, Connected, shown};
use foreread::mount::MountOptions;
use foreread::{Engine, Options, Target};
use foreread_testbed::quantity;

use crate::failure::Failure;
use crate::log;
use crate::memory;
use crate::mount_table;
use crate::progress::Progress;
use crate::size::Size;
use crate::storage::{self, StorageArgs};
use crate::told::Told;
use background::{Herald, Side};
use directory::MountPoint;
use single::SingleObject;

/// Mount a bucket, a prefix, a single object, a web server's file or a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "More, with examples: `foreread mount --help`.", after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to mount: `s3://BUCKET[/PREFIX]`, `gs://`, `az://`, `http(s)://HOST/FILE` or a local directory
    ///
    /// A URL that names a single object gives a directory with that one file.
    url: String,

    /// Directory to mount on; it must exist
    dir: PathBuf,

    #[command(flatten)]
    storage: StorageArgs,

    #[command(flatten)]
    engine: EngineArgs,

    /// How long what a listing says is believed, from when it was asked for
    ///
    /// What was listed this long ago at most answers look-ups, opens and those who read the directory, without asking the storage. 0s asks
    /// it every time, for every name.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "1s")]
    metadata_ttl: Duration,

    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,

    /// Mount read-only: the only mode there is, so this changes nothing. Writing fails with EROFS
    #[arg(short, long)]
    read_only: bool,

    /// Append what happens to this file: the log of a mount in the background, which has no stderr
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    /// Let other users read the mount, as the modes allow
    ///
    /// For users other than root, /etc/fuse.conf must contain the line `user_allow_other`.
    #[arg(long, help_heading = "Owner and modes")]
    allow_other: bool,

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
}

/// How the engine reads.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// Memory for everything that is held: data read ahead, data kept, requests in flight
    ///
    /// A number and a unit: 96M, 1G, 1GiB. The default is a quarter of what the machine or its cgroup allows, at most 1 GiB;
    /// the smallest is 16M. The process itself needs some more for code, connections and requests of the kernel.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,

    /// Read ahead of programs, or fetch only the pages each read asks for, once (for comparisons)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Readahead::On)]
    pub(crate) readahead: Readahead,

    /// Share the storage fairly among those who read, or serve first who comes first (for diagnosis)
    ///
    /// Off, every request is made at once and the storage serves them in its own order. What becomes slower or late then is what the
    /// fair queue was good for; what becomes faster is worth a report.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = FairQueue::On)]
    pub(crate) fair_queue: FairQueue,

    /// Write every event to this file, for replaying it
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// Whether to read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Readahead {
    /// As far as it pays.
    On,
    /// Never.
    Off,
}

/// Whether to share the storage fairly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FairQueue {
    /// Each stream has its turn.
    On,
    /// First come, first served.
    Off,
}

impl EngineArgs {
    /// The engine's options, complete and checked; paths become absolute, since the process changes its directory.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let memory = self.memory.unwrap_or_else(memory::default_budget);
        if memory < memory::MIN {
            return Err(Failure::MemoryTooSmall { given: memory });
        }
        let record = self.record.as_deref().map(absolute).transpose()?;
        let readahead = self.readahead == Readahead::On;
        let fair_queue = self.fair_queue == FairQueue::On;
        let mut options = Options::default().with_memory_bytes(memory.0);
        (options.readahead, options.fair_queue, options.record) = (readahead, fair_queue, record);
        Ok(options)
    }
}

/// Mounts; returns when the mount stands (background) or has ended (foreground).
pub(crate) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    memory::give_back_what_is_freed();
    let options = args.engine.options()?.with_metadata_ttl(args.metadata_ttl);
    let log = args.log.as_deref().map(log::open).transpose()?;
    let point = directory::check(&args.dir)?;
    permission::check(args.allow_other)?;

    let mut herald = if args.foreground {
        Herald::Foreground
    } else {
        match background::split(&format!("mounting {}", shown(&args.url)))? {
            Side::Parent(code) => return Ok(code),
            Side::Child(herald) => herald,
        }
    };
    log::start(verbose, log);
    for note in &point.notes {
        herald.note(note);
    }
    match serve(args, &options, &point, &mut herald) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            tracing::error!(error = &failure as &dyn std::error::Error, "the mount failed");
            herald.failed(&failure.into());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn serve(args: &Args, options: &Options, point: &MountPoint, herald: &mut Herald) -> Result<(), Failure> {
    let dir = &point.dir;
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
    let engine = Engine::new(backend, options).map_err(|cause| Failure::Engine { cause: Told::from(&cause) })?;

    let signals = signals::listen(engine.runtime()).map_err(|cause| Failure::Background { cause })?;
    let mount_options = MountOptions::default()
        .with_source(shown(&url))
        .with_allow_other(args.allow_other)
        .with_owner(args.uid, args.gid)
        .with_modes(args.file_mode, args.dir_mode);
    let runtime = engine.runtime().clone();
    let mounted = foreread::mount::mount(engine, &prefix, dir, &mount_options)
        .map_err(|cause| Failure::Mount { dir: dir.clone(), cause })?;
    drop(spinner);

    if let Err(cause) = std::fs::metadata(dir).and_then(|_| herald.mounted()) {
        let _ = foreread::mount::unmount(dir, true);
        return Err(Failure::MountDead { dir: dir.clone(), cause });
    }
    tracing::info!(source = mount_options.source, dir = %dir.display(), "mounted");
    runtime.spawn(signals.unmount(dir.clone(), mounted.unmounter()));
    match mounted.wait() {
        // It was unmounted while a request was being read: the kernel calls that aborted.
        Err(foreread::mount::Error::Session(cause))
            if cause.kind() == ErrorKind::ConnectionAborted && !mount_table::stands(dir) => {}
        ended => ended.map_err(|cause| Failure::MountEnded { dir: dir.clone(), cause })?,
    }
    tracing::info!(dir = %dir.display(), "unmounted");
    Ok(())
}

/// Asks the storage on a runtime and connections of its own: what to mount must be known before the engine is made, and a
/// connection cannot move from one runtime to another.
fn first_contact(url: &str, args: &Args) -> Result<Target, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Failure::Background { cause })?;
    let connected = storage::connect(url, &args.storage)?;
    let target = runtime.block_on(storage::locate(url, &connected));
    // A name lookup that hangs must not hold up the verdict.
    runtime.shutdown_background();
    target
}

/// The process leaves its directory, so a relative path must not depend on it.
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

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })
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

    #[test]
    fn too_little_memory_is_refused() {
        let args = EngineArgs {
            memory: Some(Size(1 << 20)),
            readahead: Readahead::On,
            fair_queue: FairQueue::On,
            record: None,
        };
        assert!(matches!(args.options(), Err(Failure::MemoryTooSmall { .. })));
    }
}
