//! How the engine reads: options of the commands that start one.

use std::path::PathBuf;

use foreread::{Options, Panic};
use miette::Diagnostic;
use thiserror::Error;

use crate::args::cache::CacheArgs;
use crate::args::memory;
use crate::args::path::absolute;
use crate::failure::Failure;
use crate::last_cause::LastCause;
use crate::terminal::size::Size;

/// How the engine reads.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// Memory for all data: read ahead, kept, and of requests in flight
    ///
    /// A number and a unit: 96M, 1G, 1GiB. The default is a quarter of what the machine or its
    /// cgroup allows, at most 1 GiB; the smallest is 16M. The process needs some more for code,
    /// connections and requests of the kernel.
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,

    /// Read ahead of programs, or fetch only the pages that each read asks for, once (for
    /// comparisons)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Readahead::On)]
    pub(crate) readahead: Readahead,

    /// Share the storage fairly among readers, or serve requests in order of arrival (for
    /// diagnosis)
    ///
    /// Off, every request is made at once and the storage serves them in its own order. Reads
    /// that become slower or late then show what the fair queue does; if reads become faster,
    /// please report it.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = FairQueue::On)]
    pub(crate) fair_queue: FairQueue,

    /// Write every event to this file, for `foreread replay`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Keep what was read in this folder on a local disk: it is local from then on, across
    /// restarts
    ///
    /// Mounts, commands and Python processes of one user may share it, whatever they read from. An
    /// object that is replaced never serves its former bytes, and each 4 KiB are checked when they
    /// are read.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cache: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) cache_args: CacheArgs,

    /// Panic in this place, such as `policy:N` or `task:N`, the Nth time it is passed. For tests
    /// of what a panic does. Repeatable
    #[arg(long, value_name = "PLACE:N", hide = true)]
    pub(crate) plant_panic: Vec<Panic>,
}

/// Whether to read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Readahead {
    /// As far as it helps.
    On,
    /// Never.
    Off,
}

/// Whether to share the storage fairly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FairQueue {
    /// Each stream has its turn.
    On,
    /// In order of arrival.
    Off,
}

impl EngineArgs {
    /// The engine's options, complete and checked. Paths become absolute, since the process
    /// changes its directory.
    pub(crate) fn options(&self) -> Result<Options, Error> {
        let memory = self.memory.unwrap_or_else(memory::default_budget);
        if memory < memory::MIN {
            return Err(Error::MemoryTooSmall { given: memory });
        }
        let record = self.record.as_deref().map(absolute).transpose()?;
        let readahead = self.readahead == Readahead::On;
        let fair_queue = self.fair_queue == FairQueue::On;
        let mut options = Options::default().with_memory_bytes(memory.0).with_panics(&self.plant_panic);
        (options.readahead, options.fair_queue, options.record) = (readahead, fair_queue, record);
        options.cache = self.cache.as_deref().map(|folder| self.cache_args.of(folder)).transpose()?;
        Ok(options)
    }
}

/// The engine cannot start as its options say.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Error {
    #[error("the engine could not be started")]
    #[diagnostic(
        code(foreread::engine::start),
        help("check --memory, --record, --cache and the limits of the process")
    )]
    Start {
        #[source]
        cause: LastCause,
    },

    #[error("--memory {given} is too little")]
    #[diagnostic(code(foreread::memory), help("the smallest budget that works is {min}", min = memory::MIN))]
    MemoryTooSmall { given: Size },

    #[error(transparent)]
    #[diagnostic(transparent)]
    Shared(#[from] Failure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_refused() {
        let args = EngineArgs {
            memory: Some(Size(1 << 20)),
            readahead: Readahead::On,
            fair_queue: FairQueue::On,
            record: None,
            cache: None,
            cache_args: CacheArgs { size: Size(1 << 30), min_free: Size(1 << 30), key_file: None, no_bypass: false },
            plant_panic: Vec::new(),
        };
        assert!(matches!(args.options(), Err(Error::MemoryTooSmall { .. })));
    }
}
