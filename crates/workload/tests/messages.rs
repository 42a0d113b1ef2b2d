//! A file that is wrong is refused with its name, the line, the key, and what was wanted.

use foreread_workload::{Load, catalogue};

/// The message for the text of a good workload in which `from` is replaced by `to`.
fn message(name: &str, from: &str, to: &str) -> String {
    let text = catalogue::text(name).unwrap();
    assert!(text.contains(from), "{name} has no {from}");
    Load::parse("my.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn each_mistake_in_a_program_is_named_with_its_place() {
    for (name, from, to, wanted) in [
        ("cat-2gib", "command =", "comand =", "my.toml:5: program.command: missing; wanted a command line"),
        ("cat-2gib", "data = \"large-file\"", "", "my.toml:5: program.data: missing; wanted the name of a script"),
        ("cat-2gib", "\"large-file\"", "\"../large\"", "my.toml:8: program.data: `../large` is not the name of a"),
        ("cat-2gib", "without_root = true", "without_root = 1", "my.toml:7: program.without_root: `1` is not true"),
        ("cat-2gib", "data =", "timed = \"mine\"\ndata =", "my.toml:8: program.timed: `mine` is not \"whole\", or"),
        ("cat-2gib", "[mount]", "[pattern]\n[mount]", "my.toml:15: pattern: unknown key"),
        (
            "cat-2gib",
            "first_byte = \"30ms\"",
            "profile = \"hdd-w1\"",
            "my.toml:10: device: `[device]`: a program reads",
        ),
        (
            "cat-2gib",
            "cpu =",
            "throughput = \">= 1 MB/s\"\ncpu =",
            "my.toml:19: expect.throughput: `\">= 1 MB/s\"`: no",
        ),
        (
            "cat-2gib",
            "cpu =",
            "again = \"<= 1 s\"\ncpu =",
            "my.toml:19: expect.again: `\"<= 1 s\"`: `again = true` runs",
        ),
        (
            "cat-2gib",
            "cpu =",
            "seconds_of_own = \"<= 1\"\ncpu =",
            "my.toml:19: expect.seconds_of_own: `\"<= 1\"`: there is no such program without a mount",
        ),
        ("sequential-1m", "rss = ", "cpu = \"<= 1 s\"\nrss = ", "my.toml:28: expect.cpu: `\"<= 1 s\"`: only a program"),
    ] {
        let message = message(name, from, to);
        assert!(message.starts_with(wanted), "{message}\nwanted: {wanted}");
    }
}

#[test]
fn each_mistake_is_named_with_its_place() {
    for (name, from, to, wanted) in [
        ("sequential-1m", "record = \"1MiB\"", "record = \"1M\"", "my.toml:13: pattern.record: `1M` is not a size"),
        ("sequential-1m", "record = \"1MiB\"", "record = 1", "my.toml:13: pattern.record: `1` is not a size"),
        ("sequential-1m", "record = \"1MiB\"", "", "my.toml:11: pattern.record: missing; wanted a size"),
        ("sequential-1m", "size = \"2GiB\"", "size = \"2KiB\"", "my.toml:13: pattern.record: `\"1MiB\"`: the record"),
        (
            "sequential-1m",
            "kind = \"sequential\"",
            "kind = \"zigzag\"",
            "my.toml:12: pattern.kind: `zigzag` is not one of",
        ),
        (
            "sequential-1m",
            "[device]",
            "stride = \"2MiB\"\n[device]",
            "my.toml:15: pattern.stride: unknown key; known here: kind, record",
        ),
        ("sequential-1m", "seed = 1", "seed = -1", "my.toml:3: seed: `-1` is not a whole number"),
        ("sequential-1m", "threads = 1", "threads = 0", "my.toml:4: threads: `0`: too small"),
        ("one-file-64", "processes = 8", "processes = 65", "my.toml:5: processes: `65`: too large"),
        ("one-file-64", "processes = 8", "processes = 0", "my.toml:5: processes: `0`: too small"),
        (
            "random-4k-16",
            "seed",
            "processes = 2\nseed",
            "my.toml:3: processes: `2`: threads of several processes share",
        ),
        ("interactive-beside-16", "seed", "processes = 2\nseed", "my.toml:3: processes: `2`: threads that read beside"),
        ("one-file-64", "\"fair-queue-off\"", "\"luck\"", "my.toml:7: baselines: `luck` is not a list of baselines"),
        ("one-file-64", "[\"fair-queue-off\"]", "true", "my.toml:7: baselines: `true` is not a list of baselines"),
        ("sequential-1m", "threads = 1", "threads = 100000", "my.toml:4: threads: `100000`: too large"),
        ("sequential-1m", "seed = 1", "sead = 1", "my.toml:1: seed: missing; wanted a whole number"),
        ("sequential-1m", "seed = 1", "seed = 1\nhost = \"x\"", "my.toml:4: host: unknown key"),
        ("sequential-1m", "[files]", "[files", "my.toml:7: not TOML: "),
        ("sequential-1m", "[files]", "[fils]", "my.toml:1: files: missing; wanted a table"),
        ("sequential-1m", "\"<= 160 MiB\"", "\"<= 160\"", "my.toml:28: expect.rss: `<= 160` is not an expectation"),
        ("sequential-1m", "rss =", "rsss =", "my.toml:28: expect.rsss: unknown key"),
        (
            "sequential-1m",
            "rss = ",
            "late = \"<= 0 reads\"\nrss = ",
            "my.toml:28: expect.late: `\"<= 0 reads\"`: only a slow",
        ),
        (
            "files-16",
            "rss = ",
            "operations_of_bare = \">= 1\"\nrss = ",
            "my.toml:26: expect.operations_of_bare: `\">= 1\"`: only random",
        ),
        (
            "stride-64k-of-1m",
            "stride = \"1MiB\"",
            "stride = \"1KiB\"",
            "my.toml:14: pattern.stride: `\"1KiB\"`: the stride",
        ),
        ("parallel-scan-64", "run = 4", "run = 7", "my.toml:15: pattern.run: `7`: a file has no whole number of runs"),
        ("interleaved-2", "streams = 2", "streams = 1", "my.toml:14: pattern.streams: `1`: interleaving needs"),
        (
            "random-4k-16",
            "\"shared\"",
            "\"both\"",
            "my.toml:15: pattern.descriptor: `both` is not \"shared\" or \"own\"",
        ),
        ("tiobench-32", "\"4MiB\"", "\"4B\"", "my.toml:10: files.extent: `\"4B\"`: too small"),
        (
            "disk-cooperators-2",
            "\"own\"",
            "\"none\"",
            "my.toml:14: pattern.descriptor: `none` is not \"shared\" or \"own\"",
        ),
        (
            "find",
            "[device]",
            "record = \"1KiB\"\n[device]",
            "my.toml:16: pattern.record: unknown key; known here: kind, visit",
        ),
        ("cache-scan", "hot = 1", "hot = 15", "my.toml:14: pattern.hot: `15`: some files are hot, and some are not"),
        ("cache-epochs", "passes = 5", "passes = 0", "my.toml:15: pattern.passes: `0`: too small"),
        (
            "cache-epochs",
            "passes = 5",
            "passes = 5\nrepeats = true",
            "my.toml:15: pattern.passes: `5`: records that may be read again",
        ),
        ("cache-epochs", "profile = \"nvme\"\n", "", "my.toml:20: tier.profile: missing; wanted the name of a device"),
        ("cache-epochs", "\"1GiB\"", "\"1MiB\"", "my.toml:22: tier.size: `\"1MiB\"`: too small"),
        (
            "cache-epochs",
            "size = \"1GiB\"",
            "sized = \"1GiB\"",
            "my.toml:22: tier.sized: unknown key; known here: profile, size, warm",
        ),
        (
            "cache-boundary",
            "profile = \"object-store\"",
            "first_byte = \"30ms\"\nconnection_rate = \"1MB/s\"",
            "my.toml:19: tier: `[tier]`: a tier is simulated only",
        ),
        ("cache-boundary", "0B..512MiB", "512MiB", "my.toml:21: tier.warm: `512MiB` is not a list of ranges"),
        (
            "cache-boundary",
            "0B..512MiB",
            "1GiB..512MiB",
            "my.toml:21: tier.warm: `\"1GiB..512MiB\"`: a range ends after",
        ),
        (
            "cache-boundary",
            "0B..512MiB",
            "0B..4GiB",
            "my.toml:21: tier.warm: `\"0B..4GiB\"`: a range ends after its start",
        ),
        (
            "cache-boundary",
            "0B..512MiB",
            "1B..512MiB",
            "my.toml:21: tier.warm: `\"1B..512MiB\"`: a range is whole pages",
        ),
        (
            "cache-boundary",
            "0B..512MiB",
            "0B..1025MiB",
            "my.toml:21: tier.warm: `\"1GiB..1536MiB\"`: ranges are in order",
        ),
        ("cache-boundary", "2GiB", "768MiB", "my.toml:21: tier.warm: `\"1GiB..1536MiB\"`: more is warm"),
        (
            "sequential-1m",
            "rss = ",
            "tier_hits = \">= 1\"\nrss = ",
            "my.toml:28: expect.tier_hits: `\">= 1\"`: there is no tier",
        ),
        (
            "region-random",
            "[mount]",
            "[tier]\nprofile = \"nvme\"\n[mount]",
            "my.toml:19: tier: `[tier]`: no file is read",
        ),
        ("find", "[tree]", "[files]", "my.toml:7: files.count: missing"),
        ("find", "[tree]", "[files]\n[tree]", "my.toml:7: files: unknown key"),
        ("find", "\"walk\"", "\"random\"", "my.toml:13: pattern.kind: `random` is not one of \"walk\", \"epochs\""),
        ("find", "\"names\"", "\"all\"", "my.toml:14: pattern.visit: `all` is not one of \"names\""),
        ("find", "threads = 1", "threads = 2", "my.toml:13: pattern.kind: `\"walk\"`: one thread"),
        ("find", "files = 200", "files = 2000", "my.toml:9: tree.files: `2000`: there are more"),
        (
            "find",
            "[expect]",
            "[expect]\nreads_per_file = \"<= 1\"",
            "my.toml:25: expect.reads_per_file: `\"<= 1\"`: this",
        ),
        ("epoch", "passes = 2", "passes = 1", "my.toml:16: pattern.passes: `1`: too small"),
        ("epoch", "seed", "processes = 2\nseed", "my.toml:3: processes: `2`: threads that read beside"),
        ("grep", "first_byte = \"30ms\"", "local = true", "my.toml:17: device: `[device]`: a tree is"),
        (
            "files-16",
            "rss = ",
            "seconds = \"<= 1 s\"\nrss = ",
            "my.toml:26: expect.seconds: `\"<= 1 s\"`: only a workload",
        ),
        ("slow-200", "period = \"160ms\"", "period = \"0ms\"", "my.toml:14: pattern.period: `\"0ms\"`: too small"),
        ("slow-200", "cgroup = \"512MiB\"", "cgroup = \"64MiB\"", "my.toml:23: mount.cgroup: `\"64MiB\"`: the cgroup"),
    ] {
        let message = message(name, from, to);
        assert!(message.starts_with(wanted), "{message}\n  should start with\n{wanted}");
    }
}
