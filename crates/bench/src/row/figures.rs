//! The figures of one run, from what was read, fetched and used.

use std::collections::BTreeMap;

use foreread_workload::{Metric, Pattern, Workload};

use crate::readers::reading::{Reading, Trodden};
use crate::subject::client::Spent;
use crate::subject::server::Counters;
use crate::subject::yardstick::Yardstick;

/// The figures of any run.
pub(crate) fn of_reading(
    workload: &Workload,
    reading: &Reading,
    fetched: Option<Counters>,
    spent: Spent,
    yardstick: Yardstick,
) -> BTreeMap<Metric, f64> {
    let mut values = BTreeMap::new();
    let mut put = |metric, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            values.insert(metric, value);
        }
    };
    let throughput = reading.bytes as f64 / 1e6 / reading.seconds;
    let operations = reading.operations as f64 / reading.seconds;
    put(Metric::Throughput, Some(throughput));
    put(Metric::ThroughputOfCeiling, yardstick.ceiling_mb_per_s.map(|ceiling| throughput / ceiling));
    put(Metric::Operations, Some(operations));
    put(Metric::OperationsOfBare, yardstick.bare_operations_per_s.map(|bare| operations / bare));
    let (slowest, fastest) = reading.thread_mb_per_s;
    put(Metric::SlowestOfFastest, (workload.threads > 1).then_some(slowest / fastest));
    put(Metric::ReadP50, Some(reading.latency_us.p50 as f64 / 1e3));
    put(Metric::ReadP99, Some(reading.latency_us.p99 as f64 / 1e3));
    let beside = reading.beside.as_ref();
    put(Metric::BesideThroughput, beside.map(|beside| beside.bytes as f64 / 1e6 / reading.seconds));
    put(Metric::BesideReadP99, beside.map(|beside| beside.latency_us.p99 as f64 / 1e3));
    put(Metric::FirstByte, Some(reading.first_byte_max_ms));
    put(Metric::FirstByteP50, Some(reading.first_byte_p50_ms));
    put(Metric::First64Mib, reading.first_64_mib_s);
    put(Metric::Late, workload.pattern.period_ns().map(|_| reading.late as f64));
    put(Metric::Amp, fetched.map(|fetched| fetched.bytes as f64 / reading.all_bytes() as f64));
    let gib = reading.all_bytes() as f64 / f64::from(1 << 30);
    put(Metric::RequestsPerGib, fetched.map(|fetched| fetched.gets as f64 / gib));
    put(Metric::Rss, Some(spent.rss_max_bytes as f64 / f64::from(1 << 20)));
    values
}

/// The figures that only trees have.
pub(crate) fn of_tree(
    workload: &Workload,
    reading: &Reading,
    trodden: &Trodden,
    fetched: Option<Counters>,
) -> impl Iterator<Item = (Metric, f64)> {
    let last = trodden.passes.last().cloned().unwrap_or_default();
    let seconds = trodden.complete.then_some(last.seconds);
    let first_byte_s = workload.device.store().map(|store| store.first_byte_ns as f64 / 1e9);
    let reads = workload.pattern.record_bytes() > 0;
    let walks = matches!(workload.pattern, Pattern::Walk { .. });
    // The time may have ended before the last epoch.
    let read = reads && last.files > 0;
    let over = |count: Option<u64>, of: u64| Some(count? as f64 / of as f64);
    let unread = |fetched: Counters| fetched.bytes.saturating_sub(reading.bytes);
    let waste = fetched.filter(|_| reads).and_then(|fetched| over(Some(unread(fetched)), fetched.bytes));
    [
        (Metric::Seconds, seconds),
        (Metric::Rounds, seconds.zip(first_byte_s).map(|(seconds, first_byte_s)| seconds / first_byte_s)),
        (Metric::Entries, walks.then(|| trodden.names as f64 / last.seconds)),
        (Metric::FilesRead, read.then(|| last.files as f64 / last.seconds)),
        (Metric::ListsPerDirectory, over(fetched.map(|fetched| fetched.lists), trodden.directories)),
        (Metric::StatsPerEntry, over(fetched.map(|fetched| fetched.heads), trodden.names)),
        (Metric::ReadsPerFile, over(fetched.map(|fetched| fetched.gets).filter(|_| reads), trodden.files)),
        (Metric::Waste, waste),
    ]
    .into_iter()
    .filter_map(|(metric, value)| Some((metric, value.filter(|value| value.is_finite())?)))
}
