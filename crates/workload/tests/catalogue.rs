//! The figures that the project promises, written out. Changing one here needs a decision record.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use foreread_workload::{Baseline, Load, Pattern, Program, catalogue};

const FIGURES: &[(&str, &[(&str, &str)])] = &[
    (
        "sequential-1m",
        &[
            ("throughput_of_ceiling", ">= 0.85"),
            ("first_byte", "<= 70 ms"),
            ("first_64_mib", "<= 0.3 s"),
            ("requests_per_gib", "<= 160/GiB"),
            ("rss", "<= 160 MiB"),
        ],
    ),
    (
        "sequential-128k",
        &[
            ("throughput_of_ceiling", ">= 0.85"),
            ("first_byte", "<= 70 ms"),
            ("first_64_mib", "<= 0.3 s"),
            ("requests_per_gib", "<= 160/GiB"),
            ("rss", "<= 160 MiB"),
        ],
    ),
    ("files-16", &[("throughput_of_ceiling", ">= 0.9"), ("slowest_of_fastest", ">= 0.95"), ("rss", "<= 320 MiB")]),
    ("files-16-shared-link", &[("slowest_of_fastest", ">= 0.97"), ("throughput", ">= 720 MB/s")]),
    ("one-file-64", &[("amp", "<= 0.0164")]),
    ("random-4k-1", &[("operations_of_bare", ">= 0.95"), ("amp", "<= 2"), ("rss", "<= 320 MiB")]),
    ("random-4k-16", &[("operations_of_bare", ">= 0.95"), ("amp", "<= 2"), ("rss", "<= 320 MiB")]),
    ("random-4k-16-slow-tail", &[("read_p99", "<= 150 ms"), ("amp", "<= 1.05"), ("requests_per_gib", "<= 275251/GiB")]),
    ("random-128k-1", &[("operations_of_bare", ">= 0.95"), ("amp", "<= 1.05"), ("rss", "<= 320 MiB")]),
    ("random-128k-16", &[("operations_of_bare", ">= 0.95"), ("amp", "<= 1.05"), ("rss", "<= 320 MiB")]),
    ("stride-64k-of-1m", &[("operations", ">= 800/s"), ("amp", "<= 1.2"), ("rss", "<= 320 MiB")]),
    ("backward-1m", &[("throughput", ">= 500 MB/s"), ("rss", "<= 320 MiB")]),
    ("interleaved-2", &[("throughput", ">= 600 MB/s"), ("amp", "<= 1.1"), ("rss", "<= 320 MiB")]),
    ("interleaved-5", &[("throughput", ">= 600 MB/s"), ("amp", "<= 1.1"), ("rss", "<= 320 MiB")]),
    ("slow-200", &[("late", "<= 0 reads"), ("amp", "<= 1.1"), ("first_byte_p50", "<= 110 ms"), ("rss", "<= 128 MiB")]),
    ("interactive-beside-16", &[("beside_read_p99", "<= 62 ms"), ("throughput", ">= 711 MB/s")]),
    ("interactive-beside-64-small", &[]),
    ("parallel-scan-64", &[]),
    ("slow-200-beside-2", &[("late", "<= 0 reads")]),
    ("mmap-random", &[]),
    ("find", &[("seconds", "<= 0.6 s")]),
    ("find-small", &[("seconds", "<= 3 s")]),
    ("ls", &[("seconds", "<= 0.9 s")]),
    ("grep", &[("files_read", ">= 900/s")]),
    ("small", &[("files_read", ">= 800/s")]),
    ("second-pass", &[("throughput_of_ceiling", ">= 0.8"), ("requests_per_gib", "<= 32/GiB"), ("rss", "<= 160 MiB")]),
    ("second-pass-random", &[("operations_of_bare", ">= 5"), ("amp", "<= 0.02"), ("rss", "<= 320 MiB")]),
    ("epoch", &[("files_read", ">= 1000/s")]),
    ("large-directory", &[("entries", ">= 60000/s")]),
    ("deep-tree", &[("rounds", "<= 15 rounds")]),
    ("grep-stopped", &[("waste", "<= 0.1")]),
    ("iozone-read", &[]),
    ("iozone-re-read", &[]),
    ("iozone-reverse", &[]),
    ("iozone-stride", &[]),
    ("iozone-random", &[]),
    ("iozone-mixed", &[]),
    ("iozone-pread", &[]),
    ("aio-stress-sequential", &[]),
    ("aio-stress-random", &[]),
    ("sysbench-fileio", &[]),
    ("sysbench-oltp", &[]),
    ("disk-interleaved-2", &[]),
    ("disk-interleaved-5", &[]),
    ("disk-interleaved-50", &[]),
    ("disk-epochs", &[]),
    ("local-random-4k-64", &[("operations_of_best", ">= 0.95"), ("submit_p99", "<= 50 us"), ("rss", "<= 320 MiB")]),
    ("array-random-4k-64", &[("operations", ">= 1000/s"), ("submit_p99", "<= 50 us"), ("rss", "<= 320 MiB")]),
    ("thrash-200-streams", &[]),
    ("fio-random-serial", &[]),
    ("fio-random-async", &[]),
    ("fio-stream-plain", &[]),
    ("fio-stream-async", &[]),
    ("tiobench-32", &[]),
    ("disk-adjacent-2", &[]),
    ("disk-cooperators-2", &[]),
    ("disk-interactive-beside-32", &[]),
    ("find-1000x100", &[]),
    ("find-system", &[]),
    ("find-grep-cp", &[]),
    ("list-110000", &[]),
    ("region-sequential", &[]),
    ("region-random", &[]),
    ("region-mixed", &[]),
    ("region-sequential-disk", &[]),
    ("region-rows", &[]),
    ("region-random-disk", &[]),
    ("cache-epochs", &[]),
    ("cache-scan", &[]),
    ("cache-boundary", &[]),
    ("cache-restart", &[]),
    ("cache-slow-disk", &[]),
];

/// What is wanted of simulations: workload, policy, metric, figure.
const SIMULATED: &[(&str, &str, &str, &str)] = &[
    ("iozone-read", "foreread", "waste", "<= 0.02"),
    ("iozone-mixed", "foreread", "waste", "<= 0.05"),
    ("disk-interleaved-2", "foreread", "throughput", ">= 55.8 MB/s"),
    ("disk-interleaved-5", "foreread", "throughput", ">= 55.8 MB/s"),
    ("disk-interleaved-50", "foreread", "throughput", ">= 55.8 MB/s"),
    ("thrash-200-streams", "linux-2.6.20", "throughput_max", ">= 3.5 MB/s"),
    ("thrash-200-streams", "linux-2.6.20", "throughput_max", "<= 6.5 MB/s"),
    ("thrash-200-streams", "linux-2.6.20", "io_size_min", "<= 32 KiB"),
    ("thrash-200-streams", "on-demand-2007", "throughput_max", ">= 12 MB/s"),
    ("thrash-200-streams", "on-demand-2007", "throughput_max", "<= 17 MB/s"),
    ("thrash-200-streams", "on-demand-2007", "io_size_min", ">= 110 KiB"),
    ("thrash-200-streams", "on-demand-2007", "io_size_min", "<= 180 KiB"),
    ("thrash-200-streams", "foreread", "late", "<= 0 reads"),
    ("thrash-200-streams", "foreread", "throughput_max", ">= 20 MB/s"),
    ("disk-interactive-beside-32", "foreread", "beside_read_p99", "<= 24.1 ms"),
    ("fio-random-serial", "none/cfq", "operations", ">= 100/s"),
    ("fio-random-serial", "none/cfq", "operations", "<= 122/s"),
    ("fio-random-async", "none/cfq", "operations", ">= 799/s"),
    ("fio-random-async", "none/cfq", "operations", "<= 975/s"),
    ("fio-random-async", "none", "operations", ">= 1331/s"),
    ("fio-random-async", "none", "operations", "<= 1625/s"),
    ("fio-stream-plain", "none/cfq", "throughput", ">= 90.4 MB/s"),
    ("fio-stream-plain", "none/cfq", "throughput", "<= 110.3 MB/s"),
    ("fio-stream-async", "none/cfq", "throughput", ">= 91.4 MB/s"),
    ("fio-stream-async", "none/cfq", "throughput", "<= 111.6 MB/s"),
    ("list-110000", "ext3-2007", "read_ahead", ">= 0.756"),
    ("list-110000", "ext3-2007", "read_ahead", "<= 0.924"),
    ("region-sequential", "swap-8", "touch_time", ">= 238.6 s"),
    ("region-sequential", "swap-8", "touch_time", "<= 253.4 s"),
    ("region-sequential", "swap-hits-16", "touch_time", ">= 209.5 s"),
    ("region-sequential", "swap-hits-16", "touch_time", "<= 222.5 s"),
    ("region-sequential", "swap-hits-1", "touch_time", ">= 679 s"),
    ("region-sequential", "swap-hits-1", "touch_time", "<= 721 s"),
    ("cache-epochs", "foreread", "tier_hits", ">= 0.62"),
    ("cache-epochs", "foreread", "tier_written", "<= 0.45"),
    ("cache-scan", "foreread", "tier_written", "<= 0.1"),
    ("cache-restart", "foreread", "requests_per_gib", "<= 0/GiB"),
    ("cache-slow-disk", "foreread", "throughput", ">= 750 MB/s"),
];

/// How policies must compare: workload, the one over the other, metric, figures.
const RATIOS: &[(&str, &str, &str, &[&str])] = &[
    ("interactive-beside-64-small", "foreread over none", "throughput", &[">= 0.98"]),
    ("interactive-beside-64-small", "foreread over none", "beside_read_p99", &["<= 0.5"]),
    ("parallel-scan-64", "foreread over none", "throughput", &[">= 2"]),
    ("iozone-read", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-read", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-re-read", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-re-read", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-reverse", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-reverse", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-stride", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-stride", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-random", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-random", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-mixed", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-mixed", "foreread over best", "throughput", NOT_BEHIND),
    ("iozone-pread", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("iozone-pread", "foreread over best", "throughput", NOT_BEHIND),
    ("aio-stress-sequential", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("aio-stress-sequential", "foreread over best", "throughput", NOT_BEHIND),
    ("aio-stress-random", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("aio-stress-random", "foreread over best", "throughput", NOT_BEHIND),
    ("sysbench-fileio", "on-demand-2007 over linux-2.6.20", "throughput", ABOUT_THE_SAME),
    ("sysbench-fileio", "foreread over best", "throughput", NOT_BEHIND),
    ("sysbench-oltp", "on-demand-2007 over linux-2.6.20", "operations", &[">= 1.001", "<= 1.12"]),
    ("sysbench-oltp", "foreread over best", "operations", &[">= 1"]),
    ("disk-epochs", "foreread over best", "throughput", &[">= 1.2"]),
    ("tiobench-32", "linux/cfq-low-latency over linux/cfq", "throughput", &[">= 0.66", "<= 0.76"]),
    ("tiobench-32", "linux/cfq-merging over linux/cfq-low-latency", "throughput", &["<= 0.97"]),
    ("tiobench-32", "linux/cfq-splitting over linux/cfq-merging", "throughput", &[">= 1.01", "<= 1.12"]),
    ("tiobench-32", "foreread over linux/cfq", "throughput", &[">= 0.98"]),
    ("disk-adjacent-2", "none/cfq-merging over none/cfq-low-latency", "throughput", &["<= 0.9"]),
    ("disk-adjacent-2", "none/cfq-splitting over none/cfq-merging", "throughput", &[">= 1.05"]),
    ("disk-cooperators-2", "none/cfq-merging over none/cfq-low-latency", "throughput", &[">= 1.8"]),
    ("disk-cooperators-2", "none/cfq-splitting over none/cfq-merging", "throughput", &[">= 0.99"]),
    ("disk-interactive-beside-32", "foreread over linux/cfq", "throughput", &[">= 0.98"]),
    ("find-1000x100", "none over ext3-2007", "find_time", &[">= 2.63", "<= 3.21"]),
    ("find-1000x100", "none over ext3-2007", "find_waits", &[">= 3.3", "<= 4.1"]),
    ("find-1000x100", "none over foreread", "find_time", &[">= 3.2"]),
    ("find-1000x100", "none over foreread", "find_waits", &[">= 15"]),
    ("find-1000x100", "foreread-misled over none", "find_time", &["<= 1.05"]),
    ("find-system", "none over ext3-2007", "find_time", &[">= 0.92", "<= 1.12"]),
    ("find-system", "ext3-2007-first over none", "find_time", &[">= 2"]),
    ("find-system", "none over foreread", "find_time", &[">= 1.5"]),
    ("find-system", "foreread-misled over none", "find_time", &["<= 1.05"]),
    ("find-grep-cp", "none over ext3-2007", "find_time", &[">= 2.42", "<= 2.94"]),
    ("find-grep-cp", "none over ext3-2007", "grep_time", &[">= 1.37", "<= 1.67"]),
    ("find-grep-cp", "none over ext3-2007", "copy_time", &[">= 0.8", "<= 0.97"]),
    ("find-grep-cp", "none over foreread", "find_time", &[">= 6"]),
    ("find-grep-cp", "none over foreread", "grep_time", &[">= 1.37"]),
    ("find-grep-cp", "none over foreread", "copy_time", &[">= 0.98"]),
    ("region-sequential", "swap-hits over swap-8", "touch_time", &[">= 0.938", "<= 1.101"]),
    ("region-sequential", "swap-hits-halved over swap-8", "touch_time", &[">= 0.93", "<= 1.093"]),
    ("region-sequential", "swap-hits-16 over swap-8", "touch_time", &[">= 0.807", "<= 0.948"]),
    ("region-sequential", "swap-hits-1 over swap-8", "touch_time", &[">= 2.615", "<= 3.07"]),
    ("region-sequential", "foreread over swap-8", "touch_time", &["<= 0.25"]),
    ("region-random", "swap-hits over swap-8", "touch_time", &[">= 0.514", "<= 0.695"]),
    ("region-random", "swap-hits-halved over swap-8", "touch_time", &[">= 0.459", "<= 0.622"]),
    ("region-random", "swap-hits-16 over swap-8", "touch_time", &[">= 0.532", "<= 0.721"]),
    ("region-random", "swap-hits-1 over swap-8", "touch_time", &[">= 0.512", "<= 0.693"]),
    ("region-random", "foreread over swap-8", "touch_time", &["<= 0.54"]),
    ("region-mixed", "foreread over best", "touch_time", &["<= 0.95"]),
    ("region-sequential-disk", "swap-hits over swap-8", "touch_time", &[">= 0.957", "<= 1.124"]),
    ("region-sequential-disk", "swap-hits-16 over swap-8", "touch_time", &[">= 0.973", "<= 1.143"]),
    ("region-sequential-disk", "swap-hits-1 over swap-8", "touch_time", &[">= 1.512", "<= 1.776"]),
    ("region-sequential-disk", "foreread over swap-8", "touch_time", &["<= 0.25"]),
    ("region-rows", "foreread over best", "touch_time", &["<= 0.95"]),
    ("region-random-disk", "swap-hits over swap-8", "touch_time", &[">= 0.802", "<= 0.999"]),
    ("region-random-disk", "swap-hits-16 over swap-8", "touch_time", &[">= 0.803", "<= 0.999"]),
    ("region-random-disk", "swap-hits-1 over swap-8", "touch_time", &[">= 0.799", "<= 0.999"]),
    ("cache-boundary", "foreread over foreread/no-tier", "throughput", &[">= 2"]),
];
const ABOUT_THE_SAME: &[&str] = &[">= 0.99", "<= 1.01"];
const NOT_BEHIND: &[&str] = &[">= 0.99"];

#[test]
fn the_expected_ratios_are_those_that_were_promised() {
    let mut wanted = Vec::new();
    for (name, policies, metric, figures) in RATIOS {
        wanted.extend(figures.iter().map(|figure| format!("{name}: {policies}: {metric} {figure}")));
    }
    let mut found = Vec::new();
    for (name, _) in FIGURES {
        for ratio in catalogue::find(name).unwrap().simulate.ratios {
            let (operator, value) = (ratio.figure.operator, ratio.figure.value);
            let metric = ratio.figure.metric.key();
            found.push(format!("{name}: {} over {}: {metric} {operator} {value}", ratio.policy, ratio.over));
        }
    }
    assert_eq!(found, wanted);
}

#[test]
fn the_predictions_are_held_to_what_was_promised() {
    let predicts = |name: &&str| !catalogue::find(name).unwrap().simulate.predict.is_empty();
    let found: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).filter(predicts).collect();
    assert_eq!(found, ["sequential-1m", "random-4k-16", "stride-64k-of-1m", "interleaved-2", "slow-200"]);
    for name in found {
        let told = |figure: &foreread_workload::Figure| {
            format!("{} {} {}", figure.metric.key(), figure.operator, figure.value)
        };
        let predict: Vec<String> = catalogue::find(name).unwrap().simulate.predict.iter().map(told).collect();
        let wanted = [
            "throughput >= 0.85",
            "throughput <= 1.15",
            "amp >= 0.95",
            "amp <= 1.05",
            "requests_per_gib >= 0.95",
            "requests_per_gib <= 1.05",
        ];
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        assert_eq!(sorted(predict), sorted(wanted.map(str::to_owned).to_vec()), "{name}");
    }
}

#[test]
fn the_expected_figures_of_simulations_are_those_that_were_promised() {
    let mut found = Vec::new();
    for (name, _) in FIGURES {
        for (policy, figures) in catalogue::find(name).unwrap().simulate.expect {
            let told = |figure: &foreread_workload::Figure| (figure.metric.key(), figure.to_string());
            let mut told: Vec<_> = figures.iter().map(told).collect();
            told.sort_by_key(|(key, _)| *key);
            found.extend(
                told.into_iter().map(|(key, figure)| ((*name).to_owned(), policy.clone(), key.to_owned(), figure)),
            );
        }
    }
    let mut wanted: Vec<_> = SIMULATED
        .iter()
        .map(|&(name, policy, key, figure)| (name.to_owned(), policy.to_owned(), key.to_owned(), figure.to_owned()))
        .collect();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn the_expected_figures_are_those_that_were_promised() {
    assert_eq!(
        catalogue::TEXTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        FIGURES.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    for (name, wanted) in FIGURES {
        let found: Vec<(String, String)> = catalogue::find(name)
            .unwrap()
            .expect
            .iter()
            .map(|figure| (figure.metric.key().to_owned(), figure.to_string()))
            .collect();
        let wanted: Vec<(String, String)> = wanted.iter().map(|&(key, text)| (key.into(), text.into())).collect();
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn the_conditions_are_those_under_which_the_figures_were_promised() {
    const MIB: u64 = 1 << 20;
    for (name, _) in FIGURES {
        let workload = catalogue::find(name).unwrap();
        let Some(store) = workload.device.store() else { continue };
        assert_eq!(store.first_byte_ns, 30_000_000, "{name}");
        assert_eq!(store.connection_bytes_per_s, 80_000_000, "{name}");
        let tree = workload.tree.is_some();
        let shared =
            matches!(*name, "files-16-shared-link" | "one-file-64" | "interactive-beside-16" | "slow-200-beside-2");
        assert_eq!(store.total_bytes_per_s, (shared || tree).then_some(800_000_000), "{name}");
        assert_eq!(store.concurrency, None, "{name}");
        let fair = shared || *name == "random-4k-16-slow-tail";
        let baselines: &[Baseline] = if fair { &[Baseline::FairQueueOff] } else { &[] };
        assert_eq!(workload.baselines, baselines, "{name}");
        assert_eq!(workload.processes, if *name == "one-file-64" { 8 } else { 1 }, "{name}");
        let ceiling_min = if shared { 600_000_000 } else { 700_000_000 };
        assert_eq!(store.ceiling_min_bytes_per_s, (!tree).then_some(ceiling_min), "{name}");
        let memory_mib = match *name {
            "sequential-1m" | "sequential-128k" | "second-pass" => 96,
            "slow-200" => 64,
            _ => 256,
        };
        assert_eq!(workload.mount.memory_bytes, memory_mib * MIB, "{name}");
        let cgroup_mib = match *name {
            "slow-200" => Some(512),
            "slow-200-beside-2" => Some(1024),
            // Its page cache is used again and again: what a machine has given back to its host is
            // slow to be had (decision 0041).
            "interactive-beside-16" | "files-16-shared-link" => Some(2048),
            _ => None,
        };
        assert_eq!(workload.mount.cgroup_bytes, cgroup_mib.map(|mib: u64| mib * MIB), "{name}");
        for figure in workload.expect.iter().filter(|figure| figure.metric.key() == "rss") {
            assert!(figure.value <= (memory_mib + 64) as f64, "{name}: memory stays under budget + 64 MiB");
        }
    }
}

#[test]
fn the_trees_are_those_of_which_the_figures_were_promised() {
    const TREES: &[(&str, [u32; 3], u64, u32)] = &[
        ("find", [100, 200, 1], 8192, 1),
        ("find-small", [5000, 4, 1], 8192, 1),
        ("ls", [100, 200, 1], 8192, 1),
        ("grep", [100, 200, 1], 8192, 1),
        ("small", [1, 1000, 1], 102_400, 1),
        ("epoch", [200, 100, 1], 110_000, 8),
        ("large-directory", [1, 100_000, 1], 8192, 1),
        ("deep-tree", [3, 3, 12], 8192, 1),
        ("grep-stopped", [100, 200, 1], 8192, 1),
    ];
    let mut found = Vec::new();
    for &(name, _) in FIGURES {
        let workload = catalogue::find(name).unwrap();
        let Some(tree) = workload.tree else { continue };
        assert!(!workload.is_simulated(), "{name}");
        found.push((name, [tree.directories, tree.files, tree.depth], tree.size_bytes, workload.threads));
        let half = (name == "grep-stopped").then_some(10_000);
        assert_eq!(workload.operations_max, half, "{name}");
    }
    assert_eq!(found, TREES);
    let epoch = catalogue::find("epoch").unwrap();
    assert!(matches!(epoch.pattern, Pattern::Epochs { batch: 32, passes: 2, .. }), "{:?}", epoch.pattern);
}

#[test]
fn submitted_reads_are_promised_at_the_depth_and_on_the_devices_named() {
    use foreread_workload::Device;
    let devices =
        [("local-random-4k-64", Device::Local), ("array-random-4k-64", Device::Emulated("fc-array-10".to_owned()))];
    for (name, device) in devices {
        let workload = catalogue::find(name).unwrap();
        assert_eq!(workload.device, device, "{name}");
        assert_eq!((workload.threads, workload.files.size_bytes), (64, 8 << 30), "{name}");
        assert_eq!(workload.pattern.record_bytes(), 4096, "{name}");
    }
}

/// The files of a folder below `workloads`, without their extension, by name.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(folder);
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().unwrap_or_default() == extension)
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn every_file_is_compiled_in_under_its_own_name() {
    let lists = [
        (catalogue::TEXTS, "", "toml"),
        (catalogue::PROGRAMS, "programs", "toml"),
        (catalogue::DATA, "programs/data", ""),
        (catalogue::TOOLS, "programs/tools", ""),
    ];
    for (list, folder, extension) in lists {
        let mut names: Vec<&str> = list.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(files(folder, extension), names, "{folder}");
    }
    for (name, text) in catalogue::TEXTS.iter().chain(catalogue::PROGRAMS) {
        assert_eq!(Load::parse(name, text).unwrap().name(), *name);
    }
}

#[test]
fn every_program_has_its_scripts_and_each_script_a_program() {
    let programs: Vec<Program> = catalogue::PROGRAMS
        .iter()
        .map(|(name, text)| match Load::parse(name, text).unwrap() {
            Load::Program(program) => program,
            load => panic!("{name} is no program: {load:?}"),
        })
        .collect();
    let data: BTreeSet<&str> = programs.iter().map(|program| program.data.as_str()).collect();
    let tools: BTreeSet<&str> = programs.iter().filter_map(|program| program.tools.as_deref()).collect();
    for (list, named) in [(catalogue::DATA, data), (catalogue::TOOLS, tools)] {
        assert_eq!(list.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), named);
        for (name, text) in list {
            assert!(text.starts_with("#!/"), "{name} names no interpreter");
        }
    }
}

#[test]
fn what_programs_must_reach_is_pinned() {
    let wanted: Vec<String> = catalogue::PROGRAMS
        .iter()
        .map(|(name, text)| {
            let figures = Load::parse(name, text).unwrap().expect().to_vec();
            let figures = figures.iter().map(|figure| format!("{} {figure}", figure.metric.key()));
            format!("{name}: {}", figures.collect::<Vec<_>>().join(", "))
        })
        .collect();
    assert_eq!(
        wanted,
        [
            "import-pandas: seconds <= 6 s, again <= 2 s",
            "import-pandas-stale: seconds <= 8 s, again <= 4 s",
            "git-status: seconds <= 2.5 s",
            "git-grep: seconds <= 1.2 s",
            "git-log: seconds <= 0.8 s",
            "duckdb-columns: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "duckdb-wide: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "duckdb-key: seconds_of_own <= 1.1, fetched_of_own <= 1.1",
            "duckdb-limit: seconds_of_own <= 1",
            "pyarrow-columns: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "pyarrow-wide: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "pyarrow-key: seconds_of_own <= 1.1, fetched_of_own <= 1.1",
            "pyarrow-limit: seconds_of_own <= 1",
            "polars-columns: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "orc-columns: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "numpy-arrays: seconds_of_own <= 1, fetched_of_own <= 1.1",
            "small-files: again_gets <= 0 requests",
            "cat-2gib: cpu <= 1.8 s",
            "sqlite-index: ",
            "thumbnails: ",
            "tar-layers: ",
            "node-module: ",
        ]
    );
}
