//! Links of every rate that a reader of whole files shares with small reads, through a kernel.

use foreread_sim::{Scenario, Stack};
use foreread_workload::{Metric, Workload};

/// What becomes of a sequential reader beside `small` readers, each of which reads so much every
/// `period_ms`, on a link of so many bytes a second: its MB/s, bytes fetched for each that was
/// read, and the slowest hundredth of the small reads in ms.
fn shared(rate_mb: u64, record_kib: u64, small: u64, period_ms: u64) -> [f64; 3] {
    let connection_mb = rate_mb.min(80);
    let text = format!(
        r#"
        name = "shared-link"
        description = "A sequential reader beside small reads."
        seed = 1
        threads = 1
        duration = "20s"
        files = {{ count = 1, size = "32GiB" }}
        pattern = {{ kind = "sequential", record = "128KiB" }}
        device = {{ first_byte = "30ms", connection_rate = "{connection_mb}MB/s", total_rate = "{rate_mb}MB/s" }}
        mount = {{ memory = "256MiB" }}
        [beside]
        threads = {small}
        files = {{ count = {small}, size = "8GiB" }}
        pattern = {{ kind = "random", record = "{record_kib}KiB", descriptor = "own", period = "{period_ms}ms" }}
        "#
    );
    let workload = Workload::parse("shared-link.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let scenario = Scenario::of(&workload, None).unwrap().through_mount(&workload);
    let tally = scenario.run("foreread".parse::<Stack>().unwrap()).unwrap();
    [Metric::Throughput, Metric::Amp, Metric::BesideReadP99].map(|metric| tally.figure(metric).unwrap())
}

/// The requests of a reader of whole files take seconds on a slow link, a small one tens of
/// milliseconds. What the link carries is measured in rounds of the long ones.
#[test]
fn small_reads_do_not_make_a_link_look_wider_than_it_is() {
    for rate_mb in [10, 20, 50, 200, 800] {
        for (record_kib, small, period_ms) in [(4, 1, 230), (4, 1, 23), (16, 1, 230), (64, 1, 230), (4, 16, 230)] {
            let [throughput, amp, p99_ms] = shared(rate_mb, record_kib, small, period_ms);
            let of = format!(
                "{rate_mb} MB/s beside {small} of {record_kib} KiB every {period_ms} ms: {throughput:.1} MB/s, amp {amp:.2}, p99 {p99_ms:.0} ms"
            );
            println!("{of}");
            assert!(throughput >= rate_mb as f64 * 0.88, "{of}");
            assert!(amp <= 1.1, "{of}");
            assert!(p99_ms <= 300.0, "{of}");
        }
    }
}
