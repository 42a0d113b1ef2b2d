//! Page references a second that one core simulates: `cargo bench -p foreread-sim`.
//!
//! The figure covers reading and the decisions of the policy; starting and computing figures are
//! too short to count apart. The best of three runs counts, since a shared machine only ever takes
//! time away.

use std::time::Instant;

use foreread_sim::{PolicyName, simulate};
use foreread_workload::{Metric, catalogue};

const WORKLOADS: &[&str] =
    &["iozone-read", "iozone-random", "disk-interleaved-5", "sysbench-fileio", "thrash-200-streams"];

const POLICIES: &[PolicyName] = &[PolicyName::Foreread, PolicyName::Linux];

const RUNS: usize = 3;

fn main() {
    println!("{:22} {:12} {:>12} {:>14}", "workload", "policy", "references", "million/s");
    for name in WORKLOADS {
        let Some(workload) = catalogue::find(name) else { panic!("{name} is not built in") };
        for &policy in POLICIES {
            let runs = (0..RUNS).map(|_| {
                let begun = Instant::now();
                let tally = simulate(&workload, policy, None).unwrap_or_else(|error| panic!("{name}: {error}"));
                let seconds = begun.elapsed().as_secs_f64();
                let megabytes_per_s = tally.figure(Metric::Throughput).unwrap_or(0.0);
                (megabytes_per_s * tally.elapsed_ns() as f64 / 1e3 / 4096.0, seconds)
            });
            let (pages, seconds) = runs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
            println!("{name:22} {:12} {pages:12.0} {:14.1}", policy.as_str(), pages / 1e6 / seconds);
        }
    }
}
