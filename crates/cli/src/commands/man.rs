//! `foreread man [DIR]`: manual pages from the definition of the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::Man;

use crate::failure::Failure;

/// Print the manual page, or write all pages to a directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  foreread man | man -l -                     read foreread(1)
  foreread man ~/.local/share/man/man1        install foreread(1), foreread-mount(1), ...")]
pub(crate) struct Args {
    /// Directory for the pages: one for the command and one for each subcommand
    dir: Option<PathBuf>,
}

/// Prints foreread(1), or writes every page. `command` is the definition of the command line.
pub(crate) fn run(args: &Args, command: clap::Command) -> miette::Result<ExitCode> {
    // The C library of the machine that makes a page is none of the page's matter.
    let mut command = command.long_version(None);
    command.build();
    match &args.dir {
        None => {
            let page = page(command).map_err(|cause| Failure::Output { cause })?;
            std::io::stdout().write_all(&page).map_err(|cause| Failure::Output { cause })?;
        }
        Some(dir) => write_pages(command, dir).map_err(|cause| Failure::File { path: dir.clone(), cause })?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: clap::Command, dir: &Path) -> std::io::Result<()> {
    for subcommand in command.get_subcommands().cloned() {
        let name = format!("foreread-{}", subcommand.get_name());
        let titled = subcommand.display_name(name.clone());
        std::fs::write(dir.join(format!("{name}.1")), page(titled)?)?;
    }
    std::fs::write(dir.join("foreread.1"), page(command)?)
}

fn page(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    #[test]
    fn there_is_a_page_for_each_subcommand() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Cli::command();
        command.build();
        let names: Vec<_> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
        write_pages(command, dir.path()).expect("pages");
        for name in names {
            let page = std::fs::read_to_string(dir.path().join(format!("foreread-{name}.1"))).expect("a page");
            assert!(page.contains(&format!("foreread\\-{name}")), "{name}");
        }
        let page = std::fs::read_to_string(dir.path().join("foreread.1")).expect("the page");
        assert!(page.contains("Exit status"));
    }
}
