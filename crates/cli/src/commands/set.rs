//! `foreread set DIR memory=SIZE`: changes what a mount was made with, while it is mounted.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::memory;
use crate::last_cause::LastCause;
use crate::terminal::size::Size;

/// Change the options of a mount while it is mounted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only root and the user who mounted it may. A smaller budget holds at once: what does not fit any more goes, but \
for what a reader is about to be given. As root, how far the kernel reads ahead follows the budget.

Example:
  foreread set /mnt/data memory=4GiB"
)]
pub(crate) struct Args {
    /// A directory of a mount by `foreread mount`
    dir: PathBuf,

    /// What to change: memory=SIZE, the budget as `foreread mount --memory` takes it
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<Setting>,
}

/// An option and its new value.
#[derive(Debug, Clone, Copy)]
enum Setting {
    Memory(Size),
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("write it as NAME=VALUE, such as memory=4GiB".to_owned());
        };
        match name {
            "memory" => value.parse().map(Self::Memory).map_err(|error| format!("{error}")),
            _ => Err(format!("`{name}` cannot be changed while mounted; `memory` can")),
        }
    }
}

/// Why `foreread set` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("memory={given} is too little")]
    #[diagnostic(code(foreread::memory), help("the smallest budget that works is {min}", min = memory::MIN))]
    TooLittle { given: Size },

    #[error("{}: nothing was changed", .dir.display())]
    #[diagnostic(
        code(foreread::set),
        help(
            "name a directory on which you mounted with `foreread mount`; `grep fuse.foreread /proc/mounts` shows them"
        )
    )]
    NotSet {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },
}

/// Changes what is to be changed, in the order given.
pub(crate) fn run(args: &Args) -> miette::Result<ExitCode> {
    for setting in &args.settings {
        let Setting::Memory(size) = *setting;
        if size < memory::MIN {
            return Err(Error::TooLittle { given: size }.into());
        }
        foreread_fuse::set_memory_bytes(&args.dir, size.0)
            .map_err(|cause| Error::NotSet { dir: args.dir.clone(), cause: LastCause::from(&cause) })?;
    }
    Ok(ExitCode::SUCCESS)
}
