//! `foreread cache warm FOLDER URL`: reads what is not in the folder yet.

use std::path::PathBuf;
use std::process::ExitCode;

use foreread::backend::shown;
use foreread::{Engine, Options, Storage, Target, Warmed};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::cache::CacheArgs;
use crate::args::storage::StorageArgs;
use crate::args::{engine, memory};
use crate::last_cause::LastCause;
use crate::terminal::log::{self, Log};
use crate::terminal::output;
use crate::terminal::progress::Progress;
use crate::terminal::size::Size;
use crate::{heap, storage};

/// Read an object, or all below a prefix, so that it is in the folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is there already is not read again: after an interruption, start it again.

Example:
  foreread cache warm /var/cache/foreread s3://bucket/train --cache-size 200GiB
  foreread mount s3://bucket/train /mnt/train --cache /var/cache/foreread --cache-size 200GiB")]
pub(crate) struct Args {
    /// The folder, as for --cache
    folder: PathBuf,

    /// An object or a prefix, by the same URL that is mounted
    url: String,

    /// Memory for what is in flight, as for `foreread mount`
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    storage: StorageArgs,
}

/// Why `foreread cache warm` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("{url}: reading failed")]
    #[diagnostic(
        code(foreread::cache::warm),
        help("start again: what was read is in the folder and is not read again; `-v` shows each failed request")
    )]
    Read {
        url: String,
        #[source]
        cause: LastCause,
    },

    #[error("{}: there is no room for more: {kept} of {all} are kept", .folder.display())]
    #[diagnostic(
        code(foreread::cache::full),
        help(
            "raise --cache-size, see with `df` whether --cache-min-free leaves room, or remove what else is in the \
             folder with `foreread cache clear`"
        )
    )]
    Full { folder: PathBuf, kept: Size, all: Size },

    #[error("{url}: {left} of {all} could not be kept")]
    #[diagnostic(
        code(foreread::cache::left),
        help(
            "what has neither a tag nor a time of modification is not kept, nor what the disk does not take: \
             `-v` shows why"
        )
    )]
    Left { url: String, left: Size, all: Size },
}

/// Counts what there is, and reads what is not in the folder.
pub(super) fn run(args: &Args, verbose: u8) -> miette::Result<ExitCode> {
    heap::return_freed_blocks();
    log::start(Log { verbose, ..Log::default() });
    let url = shown(&args.url);
    let connected = storage::connect(&args.url, &args.storage)?;
    let cache = args.cache.of(&args.folder)?;
    let memory = args.memory.unwrap_or_else(memory::default_budget);
    let options = Options::default().with_memory_bytes(memory.0).with_cache(Some(cache));
    let engine = Engine::new(connected.backend.clone(), &options)
        .map_err(|cause| engine::Error::Start { cause: LastCause::from(&cause) })?;
    let failed = |cause: foreread::Error| Error::Read { url: url.clone(), cause: LastCause::from(&cause) };

    let spinner = Progress::spinner(&format!("looking at {url}"));
    let target = engine.block_on(storage::locate(&args.url, &connected, false))?;
    let named = Storage::of(engine.clone(), &connected.path);
    let all = engine.block_on(bytes(&named, &target)).map_err(failed)?;
    drop(spinner);
    let (progress, mut before) = (Progress::bytes(all, &format!("reading {url}")), 0);
    let told = |warmed: Warmed| {
        progress.advance(warmed.bytes - before);
        before = warmed.bytes;
    };
    let warmed = engine.block_on(named.warm(target, told)).map_err(failed)?;
    drop(progress);
    let (kept, all) = (Size(warmed.kept_bytes), Size(all.max(warmed.bytes)));
    if warmed.is_full {
        return Err(Error::Full { folder: args.folder.clone(), kept, all }.into());
    }
    if warmed.kept_bytes < warmed.bytes {
        return Err(Error::Left { url, left: Size(warmed.bytes - warmed.kept_bytes), all }.into());
    }
    output::line(format_args!(
        "{}: {kept} of {} objects are kept, {} of it read now",
        args.folder.display(),
        warmed.objects,
        Size(warmed.read_bytes)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes of what a target names.
async fn bytes(storage: &Storage, target: &Target) -> Result<u64, foreread::Error> {
    if let Target::Object(object) = target {
        return Ok(object.version.size);
    }
    let (mut walk, mut bytes) = (storage.walk(""), 0);
    while let Some(object) = walk.next().await {
        bytes += object?.version.size;
    }
    Ok(bytes)
}
