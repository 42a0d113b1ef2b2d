//! The read path in front of a disk with one arm (`devices/hdd-w1.toml`), beside the same reads
//! without policy and with the kernel's rules. What is read ahead takes time from what is asked
//! for meanwhile.

#[path = "store/readers.rs"]
mod readers;

use foreread_device::Random;
use foreread_policy::Extent;
use foreread_sim::{Tally, profile};
use foreread_workload::Metric;
use readers::{MIB, Readers, forward};

/// What a reader reads from its file, and the time between two reads in ns.
type Each = Vec<(u64, Vec<Extent>, u64)>;

fn run(policy: &str, memory_mib: u64, file_pages: u64, batch: u64, each: Each) -> Tally {
    let (device, policy) = (profile::find("hdd-w1").unwrap(), policy.parse().unwrap());
    Readers { batch, device, policy, ..Readers::new(memory_mib << 20, file_pages, each) }.run()
}

fn seconds(tally: &Tally) -> f64 {
    tally.elapsed_ns() as f64 / 1e9
}

fn mean_ms(tally: &Tally) -> f64 {
    tally.read_mean_ns() / 1e6
}

fn p99_ms(tally: &Tally) -> f64 {
    tally.read_percentile_ns(99.0) as f64 / 1e6
}

/// Runs of `pages` pages each, read from start to end, at places of the file in no order.
fn runs(seed: u64, many: u64, pages: u64, file_pages: u64) -> Vec<Extent> {
    let mut random = Random::new(seed);
    let starts = (0..many).map(|_| random.below(file_pages - pages));
    starts.flat_map(|start| forward(start, start + pages, 32)).collect()
}

/// A player that jumps, a program that reads one table after the other: nothing is gained by
/// reading far ahead, since the arm stays where it is until the reader comes.
#[test]
fn a_lone_reader_that_jumps_waits_for_nothing_that_it_did_not_ask_for() {
    for (memory_mib, run_mib) in [(32, 4), (256, 4), (256, 40)] {
        let each = |_| vec![(0, runs(1, 400 / run_mib, run_mib * MIB, 4_096 * MIB), 0)];
        let [ours, none] = ["foreread", "none"].map(|policy| run(policy, memory_mib, 4_096 * MIB, 1, each(policy)));
        let amp = ours.figure(Metric::Amp).unwrap();
        println!("{run_mib} MiB: {:.2} s, none {:.2}, amp {amp:.3}", seconds(&ours), seconds(&none));
        assert!(seconds(&ours) <= 1.04 * seconds(&none) && amp <= 1.08);
        assert!(p99_ms(&ours) <= 1.6 * p99_ms(&none), "{} and {} ms", p99_ms(&ours), p99_ms(&none));
    }
}

/// Reads at places a constant distance apart, which now and then begins somewhere else.
fn progressions(works_ns: u64) -> Each {
    let mut random = Random::new(2);
    let starts = (0..60).map(|_| random.below(3_000) * MIB);
    let reads = starts.flat_map(|start| (0..8).map(move |nth| Extent::new(start + nth * 300, start + nth * 300 + 4)));
    vec![(0, reads.collect(), works_ns)]
}

/// Each record takes a positioning: one that is read ahead spares none.
#[test]
fn a_reader_of_a_progression_that_does_nothing_else_waits_for_no_record_ahead() {
    let [ours, none] = ["foreread", "none"].map(|policy| run(policy, 64, 4_096 * MIB, 1, progressions(0)));
    println!("{:.2} s, none {:.2}; p99 {:.1}, {:.1} ms", seconds(&ours), seconds(&none), p99_ms(&ours), p99_ms(&none));
    assert!(seconds(&ours) <= 1.02 * seconds(&none));
    assert!(p99_ms(&ours) <= 1.1 * p99_ms(&none));
}

/// Where it works for as long as a positioning takes, the next record comes meanwhile.
#[test]
fn a_reader_of_a_progression_that_works_finds_its_next_record() {
    let [ours, none] = ["foreread", "none"].map(|policy| run(policy, 64, 4_096 * MIB, 1, progressions(10_000_000)));
    println!("{:.2} ms a read, none {:.2}", mean_ms(&ours), mean_ms(&none));
    assert!(mean_ms(&ours) <= 0.65 * mean_ms(&none));
}

/// A loader reads 32 MiB at once and then works for two seconds.
#[test]
fn a_loader_that_works_finds_what_the_disk_had_time_for() {
    let each = |_| vec![(0, forward(0, 640 * MIB, MIB), 2_000_000_000)];
    let [ours, none] = ["foreread", "none"].map(|policy| run(policy, 128, 640 * MIB, 32, each(policy)));
    println!("{:.2} ms a read, none {:.2}", mean_ms(&ours), mean_ms(&none));
    assert!(mean_ms(&ours) <= 0.8 * mean_ms(&none));
}

/// A database whose threads each read a part of a table, and then another part.
#[test]
fn many_readers_of_short_runs_take_about_as_long_as_with_the_kernels_rules() {
    for memory_mib in [32, 256] {
        let each = |_| (0..16).map(|seed| (0, runs(seed, 32, 2 * MIB, 4_096 * MIB), 0)).collect();
        let [ours, linux] = ["foreread", "linux"].map(|policy| run(policy, memory_mib, 4_096 * MIB, 1, each(policy)));
        println!("{memory_mib} MiB: {:.2} s, linux {:.2}", seconds(&ours), seconds(&linux));
        assert!(seconds(&ours) <= 1.1 * seconds(&linux));
    }
}
