//! `foreread completions SHELL`.

use std::io::Write;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::failure::Failure;

/// Print a shell's completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread completions bash > ~/.local/share/bash-completion/completions/foreread
  foreread completions zsh  > ~/.zfunc/_foreread      (a directory in $fpath)
  foreread completions fish > ~/.config/fish/completions/foreread.fish")]
pub(crate) struct Args {
    /// The shell that will read it
    shell: Shell,
}

/// Prints the script to stdout. `command` is the definition of the command line.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> miette::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "foreread", &mut script);
    std::io::stdout().write_all(&script).map_err(|cause| Failure::Output { cause })?;
    Ok(ExitCode::SUCCESS)
}
