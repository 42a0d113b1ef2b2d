//! `foreread set DIR NAME=VALUE`: changes what a mount was made with, while it is mounted.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Command, FromArgMatches, ValueEnum};
use foreread_fuse::Setting;
use foreread_testbed::quantity;
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::memory;
use crate::commands::mount;
use crate::configuration;
use crate::last_cause::LastCause;
use crate::terminal::log::Level;
use crate::terminal::size::Size;

/// Change the options of a mount while it is mounted
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Only root and the user who mounted it may. A smaller budget holds at once: what does not fit any more goes, but \
for what a reader is about to be given. As root, how far the kernel reads ahead follows the budget. A shorter metadata-ttl \
holds at once as well, since Linux 6.16; before, for names that the kernel knows, once their former time is over.

Examples:
  foreread set /mnt/data memory=4GiB
  foreread set /mnt/data metadata-ttl=10m slow=200ms log-level=debug
  foreread set /mnt/data --store work"
)]
pub(crate) struct Args {
    /// A directory of a mount by `foreread mount`
    dir: PathBuf,

    /// What to change: memory=SIZE, metadata-ttl=TIME, slow=TIME or log-level=LEVEL, as `foreread
    /// mount` takes them
    #[arg(required_unless_present = "store", value_name = "NAME=VALUE")]
    settings: Vec<Named>,

    /// Change all of these to what the configuration files say of this store now
    ///
    /// What they do not say has its default. This is what `systemctl reload foreread@NAME` does.
    #[arg(long, value_name = "NAME", conflicts_with = "settings")]
    store: Option<String>,
}

/// An option and its new value, as it was given.
#[derive(Debug, Clone, Copy)]
struct Named(Setting);

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("write it as NAME=VALUE, such as memory=4GiB".to_owned());
        };
        let time = || quantity::duration(value).map_err(|error| error.to_string());
        match name.replace('_', "-").as_str() {
            "memory" => {
                let size: Size = value.parse().map_err(|error| format!("{error}"))?;
                Ok(Setting::MemoryBytes(size.0))
            }
            "metadata-ttl" => time().map(Setting::MetadataTtl),
            "slow" => time().map(Setting::Slow),
            "log-level" => match Level::from_str(value, true) {
                Ok(level) => Ok(Setting::LogLevel(level.into())),
                Err(_) => Err("log-level is one of off, error, warn, info, debug and trace".to_owned()),
            },
            _ => Err(format!("`{name}` cannot be changed while mounted; memory, metadata-ttl, slow and log-level can")),
        }
        .map(Self)
    }
}

/// Why `foreread set` fails.
#[derive(Debug, ThisError, Diagnostic)]
enum Error {
    #[error("memory={given} is too little")]
    #[diagnostic(code(foreread::memory), help("the smallest budget that works is {min}", min = memory::MIN))]
    TooLittle { given: Size },

    #[error("{}: the mount writes no log", .dir.display())]
    #[diagnostic(code(foreread::set::log), help("mount it with --log FILE, or in the foreground with -v"))]
    NoLog { dir: PathBuf },

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

/// Changes what is to be changed, in the order given; `definition` is that of the command line.
pub(crate) fn run(args: &Args, definition: &Command) -> miette::Result<ExitCode> {
    let settings = match &args.store {
        Some(store) => stored(args, store, definition)?,
        None => args.settings.iter().map(|named| named.0).collect(),
    };
    for &setting in &settings {
        if let Setting::MemoryBytes(bytes) = setting
            && bytes < memory::MIN.0
        {
            return Err(Error::TooLittle { given: Size(bytes) }.into());
        }
    }
    for setting in settings {
        let dir = args.dir.clone();
        match foreread_fuse::change(&dir, setting) {
            Ok(()) => {}
            // A mount without a log has no level that the files could change.
            Err(foreread_fuse::Error::NoLog { .. }) if args.store.is_some() => {}
            Err(foreread_fuse::Error::NoLog { .. }) => return Err(Error::NoLog { dir }.into()),
            Err(cause) => return Err(Error::NotSet { dir, cause: LastCause::from(&cause) }.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What the configuration files say now of a store that would be mounted.
fn stored(args: &Args, store: &str, definition: &Command) -> miette::Result<Vec<Setting>> {
    let line = ["foreread".into(), "mount".into(), format!("{store}:/").into(), OsString::from(&args.dir)];
    let line = configuration::arguments(line.into(), definition)?;
    let matches = definition.clone().try_get_matches_from(line).unwrap_or_else(|error| error.exit());
    let mount = matches.subcommand_matches("mount").map(mount::Args::from_arg_matches);
    let mount = mount.transpose().unwrap_or_else(|error| error.exit());
    Ok(mount.map(|mount| mount.settings().to_vec()).unwrap_or_default())
}
