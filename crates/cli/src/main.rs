//! The foreread command: one file per subcommand, dispatched here.
//!
//! *Invariant:* nothing here reads or decides on its own; subcommands put the library crates together and turn their errors
//! into advice. No thread starts before [`mount`] has forked.

mod bench;
mod cat;
mod command;
mod completions;
mod demo;
mod failure;
mod interrupt;
mod log;
mod man;
mod memory;
mod mount;
mod mount_table;
mod output;
mod prefetch;
mod progress;
mod range;
mod record;
mod replay;
mod simulate;
mod size;
mod stats;
mod storage;
mod testbed;
mod told;
mod umount;
mod workloads;

use std::io::{ErrorKind, IsTerminal};
use std::process::ExitCode;

use clap::Parser;
use command::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // On a terminal text is wrapped to its width; elsewhere one message stays on one line, for grep.
    let wrap = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| {
        Box::new(miette::MietteHandlerOpts::new().terminal_links(false).wrap_lines(wrap).build())
    }));
    run(&cli).unwrap_or_else(|report| match report.downcast_ref::<Failure>() {
        // `foreread ... | head`: whoever read the output has enough. Rust ignores the signal, so the write failed instead.
        Some(Failure::Output { cause }) if cause.kind() == ErrorKind::BrokenPipe => ExitCode::from(DIED_OF_SIGPIPE),
        _ => {
            eprintln!("{report:?}");
            ExitCode::FAILURE
        }
    })
}

/// 128 + SIGPIPE: what a shell reports for a program in the same place that does not ignore it.
const DIED_OF_SIGPIPE: u8 = 141;

fn run(cli: &Cli) -> miette::Result<ExitCode> {
    match &cli.command {
        Command::Mount(args) => mount::run(args, cli.verbose),
        Command::Umount(args) => umount::run(args),
        Command::Cat(args) => cat::run(args, cli.verbose),
        Command::Stats(args) => stats::run(args),
        Command::Prefetch(args) => prefetch::run(args),
        Command::Testbed(args) => testbed::run(args, cli.verbose),
        Command::Demo(args) => demo::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
