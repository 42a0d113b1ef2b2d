//! `foreread config check`: what the configuration files say, and what is wrong with them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;

use crate::configuration::added;
use crate::configuration::error::Error;
use crate::configuration::file::{File, Files, Setting};
use crate::terminal::output;

/// Check the configuration files
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read the files, check every entry, and list the stores
    Check {
        /// The file to check, in place of those that commands read
        file: Option<PathBuf>,
    },
}

/// Checks the files; `definition` is that of the command line.
pub(crate) fn run(args: &Args, definition: &Command) -> miette::Result<ExitCode> {
    let Action::Check { file } = &args.action;
    let files = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|cause| Error::File { path: path.clone(), cause })?;
            Files { files: vec![File::parse(path, &text, definition)?], paths: vec![path.clone()] }
        }
        None => Files::load(definition)?,
    };
    output::print(format_args!("{}", listed(&files, definition)))?;
    Ok(ExitCode::SUCCESS)
}

/// The files and their stores as text.
fn listed(files: &Files, definition: &Command) -> String {
    let shown = |settings: &[&Setting]| {
        let mount = definition.find_subcommand("mount");
        let options = mount.map(|mount| added(mount, Vec::new(), settings)).unwrap_or_default();
        options.iter().map(|option| option.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let mut text = String::new();
    for path in &files.paths {
        let Some(file) = files.files.iter().find(|file| file.path == *path) else {
            let _ = writeln!(text, "{}: not there", path.display());
            continue;
        };
        let _ = writeln!(text, "{}: {} stores", path.display(), file.stores.len());
        if !file.defaults.is_empty() {
            let _ = writeln!(text, "  defaults: {}", shown(&file.defaults.iter().collect::<Vec<_>>()));
        }
        for (name, store) in &file.stores {
            let options = shown(&files.options(Some(store)));
            let _ = writeln!(text, "  {name}:/ is {} {options}", foreread::backend::shown(&store.url));
        }
    }
    text
}

const EXAMPLES: &str = "\
Examples:
  foreread config check                  the files that commands read
  foreread config check new.toml         another one

A file has options of `foreread mount` by their long names, and named stores:

  [defaults]
  memory = \"2GiB\"

  [stores.work]
  url = \"s3://bucket/data\"
  profile = \"work\"

`foreread mount work:/2026 DIR` mounts s3://bucket/data/2026. What the command line says wins, then the store, then the \
defaults; ~/.config/foreread/config.toml wins over /etc/foreread.toml. FOREREAD_CONFIG names a file to read in place of \
both.";
