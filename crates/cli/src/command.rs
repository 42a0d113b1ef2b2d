//! The command line. Every option is defined once, beside the subcommand that obeys it; parsing,
//! help, man pages and completions come from that definition.

use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{
    bench, cache, cat, completions, config, demo, doctor, explain, man, mount, prefetch, record, replay, set, simulate,
    stats, testbed, top, umount, verify,
};
use crate::version;

/// Mount remote storage and read it at full speed.
///
/// foreread shows a bucket, a web server's file or a directory as a local directory. It reads
/// ahead, so that programs get their data as fast as the link delivers it, within one memory
/// budget.
#[derive(Debug, Parser)]
#[command(
    name = "foreread",
    version,
    long_version = version::long(),
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = true,
    after_help = "Try it without any account: `foreread demo`. Each subcommand explains itself: `foreread mount --help`.",
    after_long_help = EXAMPLES
)]
pub(crate) struct Cli {
    /// Say more on stderr; given twice, every decision
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One variant a subcommand; each has a file of its name in `commands/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Mount(mount::Args),
    Umount(umount::Args),
    Cat(cat::Args),
    Stats(stats::Args),
    Top(top::Args),
    Explain(explain::Args),
    Set(set::Args),
    Prefetch(prefetch::Args),
    Cache(cache::Args),
    Testbed(testbed::Args),
    Demo(demo::DemoArgs),
    Verify(verify::VerifyArgs),
    Bench(Box<bench::BenchArgs>),
    Simulate(simulate::SimulateArgs),
    Record(record::RecordArgs),
    Replay(replay::ReplayArgs),
    Doctor(doctor::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
}

const EXAMPLES: &str = "\
Examples:
  foreread mount s3://bucket/prefix /mnt/data   mount, in the background
  foreread top /mnt/data                        see what it does
  foreread set /mnt/data memory=4GiB            change its budget
  foreread umount /mnt/data                     unmount
  foreread doctor s3://bucket/prefix            what holds reading back
  foreread cat s3://bucket/key --range 0-1023   read without a mount
  foreread demo                                 try it against an emulated store

Exit status:
  0  success
  1  failure; the cause and the next step are on stderr
  2  wrong usage";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
