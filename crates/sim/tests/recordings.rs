//! The figures of recorded programs, whose reads no rule was made for: a change of policy shows as
//! a difference of the programs that it serves.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;

use foreread_sim::{PolicyName, Reads, Scenario, Tally, profile};
use foreread_workload::trace::{Format, Survey, Trace};
use foreread_workload::{Descriptor, Metric, Op, Pattern};

/// The recordings of `workloads/recordings`.
const RECORDINGS: &[&str] = &["duckdb", "h5py", "sqlite-oltp", "tar-list", "video", "vm-image"];

const DEVICES: &[&str] = &["object-store", "hdd-w1"];

const POLICIES: &[&str] = &["foreread", "none", "linux", "linux-2.6.20", "amp"];

const MEMORY_BYTES: u64 = 32 << 20;

fn recording(name: &str) -> Trace<BufReader<File>> {
    let path = format!("{}/../../workloads/recordings/{name}.trace", env!("CARGO_MANIFEST_DIR"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Trace::new(BufReader::new(file), Format::Foreread)
}

/// Replays a recording without waits, as `foreread replay --no-wait --memory 32M`.
fn replay(name: &str, device: &str, policy: PolicyName) -> Tally {
    let survey = Survey::of(recording(name)).unwrap();
    let reads = recording(name).map(|access| {
        let access = access.unwrap();
        (access.reader, Op { file: access.file, offset: access.offset, len: access.len, not_before_ns: 0 })
    });
    let scenario = Scenario {
        sizes: survey.sizes.clone(),
        extent_bytes: None,
        reads: Reads::Together(survey.reads_of, Box::new(reads)),
        tree: None,
        region: None,
        descriptor: Descriptor::Own,
        pattern: Pattern::Sequential { record_bytes: 1, passes: 1 },
        beside: None,
        until_ns: u64::MAX,
        memory_bytes: MEMORY_BYTES,
        readahead_max_bytes: 128 << 10,
        device: profile::find(device).unwrap(),
        page_cache_bytes: None,
        kernel_window_bytes: 128 << 10,
        picture: false,
        changes: Vec::new(),
        watch: None,
        tier: None,
        chunks: Vec::new(),
        busy: None,
    };
    scenario.run(policy).unwrap_or_else(|error| panic!("{name} on {device}: {error:?}"))
}

#[test]
fn the_figures_of_recorded_programs_are_pinned() {
    let mut text = String::from(
        "Reads without waits, 32 MiB: time; 99 of 100 reads took no longer (read p99); requests; bytes fetched over bytes\n\
         asked (amp).\n\
         Update: INSTA_UPDATE=always cargo test -p foreread-sim --test recordings\n\n",
    );
    let _ = writeln!(
        text,
        "{:12} {:13} {:13} {:>10} {:>11} {:>9} {:>6}",
        "recording", "device", "policy", "time", "read p99", "requests", "amp"
    );
    for name in RECORDINGS {
        for device in DEVICES {
            for policy in POLICIES {
                let tally = replay(name, device, policy.parse().unwrap());
                let (seconds, p99) = (tally.elapsed_ns() as f64 / 1e9, tally.read_percentile_ns(99.0) as f64 / 1e6);
                let amp = tally.figure(Metric::Amp).unwrap_or(0.0);
                let _ = writeln!(
                    text,
                    "{name:12} {device:13} {policy:13} {seconds:8.1} s {p99:8.1} ms {:9} {amp:6.2}",
                    tally.requests()
                );
            }
        }
    }
    insta::assert_snapshot!("recordings", text);
}
