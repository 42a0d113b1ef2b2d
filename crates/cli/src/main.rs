//! The foreread command: one file a subcommand, dispatched here.
//!
//! *Invariant:* nothing here reads storage or decides what to read. Subcommands put the library
//! crates together and turn their errors into advice. No thread starts before `mount` has forked.

mod args;
mod command;
mod commands;
mod configuration;
mod failure;
mod heap;
mod last_cause;
mod mount_helper;
mod parallel;
mod storage;
mod terminal;
mod version;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use command::{Cli, Command};
use commands::{
    bench, cache, cat, completions, config, demo, doctor, explain, man, mount, prefetch, record, replay, set, simulate,
    stats, testbed, top, umount, verify,
};
use mount_helper::Asked;

fn main() -> ExitCode {
    // On a terminal text is wrapped to its width; elsewhere a message stays on one line, for grep.
    let wrap = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| {
        Box::new(miette::MietteHandlerOpts::new().terminal_links(false).wrap_lines(wrap).build())
    }));
    called(std::env::args_os().collect()).unwrap_or_else(|report| failure::report(&report))
}

fn called(given: Vec<OsString>) -> miette::Result<ExitCode> {
    let Asked::Run(line) = mount_helper::asked(given)? else { return Ok(ExitCode::SUCCESS) };
    run(&Cli::parse_from(configuration::arguments(line, &Cli::command())?))
}

fn run(cli: &Cli) -> miette::Result<ExitCode> {
    match &cli.command {
        Command::Mount(args) => mount::run(args, cli.verbose),
        Command::Umount(args) => umount::run(args),
        Command::Cat(args) => cat::run(args, cli.verbose),
        Command::Stats(args) => stats::run(args),
        Command::Top(args) => top::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Prefetch(args) => prefetch::run(args),
        Command::Cache(args) => cache::run(args, cli.verbose),
        Command::Testbed(args) => testbed::run(args, cli.verbose),
        Command::Demo(args) => demo::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Set(args) => set::run(args, &Cli::command()),
        Command::Simulate(args) => simulate::run(args),
        Command::Record(args) => record::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Doctor(args) => doctor::run(args, cli.verbose),
        Command::Config(args) => config::run(args, &Cli::command()),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => man::run(args, Cli::command()),
    }
}
