//! The figures of every simulated workload that reads files, one snapshot a family: a change of
//! one mechanism shows as a diff of the workloads that it serves. `trees.rs` and `regions.rs` pin
//! the figures of directories and of memory.

use std::fmt::Write as _;

use foreread_sim::{PolicyName, Stack, simulate};
use foreread_workload::{Metric, Workload, catalogue};

/// One or a few streams, each read by one pattern.
const STREAMS: &[&str] = &[
    "sequential-1m",
    "sequential-128k",
    "stride-64k-of-1m",
    "backward-1m",
    "interleaved-2",
    "interleaved-5",
    "iozone-read",
    "iozone-re-read",
    "iozone-reverse",
    "iozone-stride",
    "iozone-mixed",
    "iozone-pread",
    "aio-stress-sequential",
    "fio-stream-plain",
    "fio-stream-async",
];

/// Random reads.
const RANDOM: &[&str] = &[
    "random-4k-1",
    "random-4k-16",
    "random-4k-16-slow-tail",
    "random-128k-1",
    "random-128k-16",
    "mmap-random",
    "iozone-random",
    "aio-stress-random",
    "sysbench-fileio",
    "sysbench-oltp",
    "fio-random-serial",
    "fio-random-async",
];

/// Many streams that share storage and memory.
const MANY_READERS: &[&str] = &[
    "files-16",
    "files-16-shared-link",
    "one-file-64",
    "slow-200",
    "interactive-beside-16",
    "interactive-beside-64-small",
    "parallel-scan-64",
    "slow-200-beside-2",
    "thrash-200-streams",
];

/// Streams that share the arm of a disk, with and without a scheduler below the policy.
const DISKS: &[&str] = &[
    "disk-interleaved-2",
    "disk-interleaved-5",
    "disk-interleaved-50",
    "disk-epochs",
    "tiobench-32",
    "disk-adjacent-2",
    "disk-cooperators-2",
    "disk-interactive-beside-32",
];

/// Readers in front of a tier, beside the same without one.
const CACHES: &[&str] = &["cache-epochs", "cache-scan", "cache-boundary", "cache-restart", "cache-slow-disk"];

#[test]
fn the_figures_of_streams_are_pinned() {
    insta::assert_snapshot!("streams", pinned(STREAMS));
}

#[test]
fn the_figures_of_random_reads_are_pinned() {
    insta::assert_snapshot!("random", pinned(RANDOM));
}

#[test]
fn the_figures_of_many_readers_are_pinned() {
    insta::assert_snapshot!("many_readers", pinned(MANY_READERS));
}

#[test]
fn the_figures_of_disks_are_pinned() {
    insta::assert_snapshot!("disks", pinned(DISKS));
}

#[test]
fn the_figures_of_tiers_are_pinned() {
    let text = "Throughput; requests for each GiB asked, and bytes asked of the storage (amp); the part of what was fetched that the\n\
                tier had (hits); what was written to it over what was offered and new (written); 99 of 100 reads took no longer.\n\
                Update: INSTA_UPDATE=always cargo test -p foreread-sim --test pinned\n\n";
    let columns = &[
        ("throughput", Metric::Throughput),
        ("requests", Metric::RequestsPerGib),
        ("amp", Metric::Amp),
        ("hits", Metric::TierHits),
        ("written", Metric::TierWritten),
        ("read p99", Metric::ReadP99),
    ];
    let named = |workload: &Workload| workload.simulate.policies.iter().map(|stack| stack.parse().unwrap()).collect();
    insta::assert_snapshot!("caches", table(text, columns, CACHES, named));
}

#[test]
fn every_simulated_workload_of_reads_has_one_family() {
    let reads = |workload: &Workload| workload.is_simulated() && !workload.pattern.is_no_reads();
    let all = catalogue::TEXTS.iter().map(|&(name, _)| name);
    let mut wanted: Vec<&str> = all.filter(|name| catalogue::find(name).is_some_and(|found| reads(&found))).collect();
    let mut found = [STREAMS, RANDOM, MANY_READERS, DISKS, CACHES].concat();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted);
}

/// A column, and what it shows.
const COLUMNS: &[(&str, Metric)] = &[
    ("throughput", Metric::Throughput),
    ("amp", Metric::Amp),
    ("requests", Metric::RequestsPerGib),
    ("request", Metric::IoSize),
    ("read p99", Metric::ReadP99),
    ("waste", Metric::Waste),
    ("late", Metric::Late),
];

/// A table of every policy, and every stack with a scheduler that the workload names.
fn pinned(names: &[&str]) -> String {
    let text = "Throughput; bytes fetched over bytes asked (amp); requests, and the mean size of one; 99 of 100 reads took no longer\n\
                (read p99); the part of what was fetched that no read used (waste); reads that were done late, where reads have a rate.\n\
                Update: INSTA_UPDATE=always cargo test -p foreread-sim --test pinned\n\n";
    table(text, COLUMNS, names, |workload| {
        let scheduled = workload.simulate.policies.iter().filter(|stack| stack.contains('/'));
        let scheduled = scheduled.map(|stack| stack.parse().unwrap());
        PolicyName::ALL.iter().map(|&policy| policy.into()).chain(scheduled).collect()
    })
}

/// A table of the stacks of each workload.
fn table(text: &str, columns: &[(&str, Metric)], names: &[&str], stacks: impl Fn(&Workload) -> Vec<Stack>) -> String {
    let mut text = text.to_owned();
    let heads = columns.iter().map(|(head, _)| format!(" {head:>12}")).collect::<Vec<_>>().concat();
    let _ = writeln!(text, "{:27} {:23}{heads}", "workload", "policy");
    for name in names {
        let workload = catalogue::find(name).unwrap();
        for stack in stacks(&workload) {
            let tally = simulate(&workload, stack, None).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let _ = write!(text, "{name:27} {stack:23}");
            for &(_, metric) in columns {
                let shown = tally.figure(metric).map_or_else(String::new, |value| metric.show(value));
                let _ = write!(text, " {shown:>12}");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    text
}
