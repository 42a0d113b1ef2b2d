//! The metrics: names, units and types, by the conventions of Prometheus and `OpenMetrics`.
//!
//! Counters end in `_total`. Units are bytes and seconds. Labels have few values, all of them
//! here: no name of an object is one.

use std::collections::BTreeSet;
use std::fmt;

use foreread_engine::{Latencies, Link, Stats, Times};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// What a scrape shows.
#[derive(Debug)]
pub(crate) struct Scrape {
    pub(crate) stats: Stats,
    pub(crate) latencies: Latencies,
    pub(crate) link: Link,
    /// Streams of reads just now.
    pub(crate) streams: u64,
}

/// The text of a scrape.
pub(crate) fn text(scrape: Scrape) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("foreread");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The same in the older form, for scrapers that do not ask for `OpenMetrics`: a counter's lines
/// of help and type have the name of its samples, and there are no units and no end.
pub(crate) fn plain(text: &str) -> String {
    let counters: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT") && *line != "# EOF") {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", what, name, rest] if counters.contains(name) => {
                plain.extend(["# ", what, " ", name, "_total ", rest, "\n"]);
            }
            _ => plain.extend([line, "\n"]),
        }
    }
    plain
}

/// The types of both.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label and its value; none.
type Label = Option<(&'static str, &'static str)>;

/// Values of one name, each with its label.
type Values<const N: usize> = [(Label, u64); N];

/// Encodes metrics one after the other.
struct Out<'e>(DescriptorEncoder<'e>);

impl Out<'_> {
    fn counter<const N: usize>(
        &mut self,
        name: &str,
        unit: Option<&Unit>,
        help: &str,
        values: Values<N>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        labelled(&mut encoder, values, |encoder, value| ConstCounter::new(value).encode(encoder))
    }

    fn gauge<const N: usize>(&mut self, name: &str, unit: Option<&Unit>, help: &str, values: Values<N>) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        labelled(&mut encoder, values, |encoder, value| ConstGauge::new(value).encode(encoder))
    }

    /// A gauge of seconds.
    fn seconds(&mut self, name: &str, help: &str, micros: u64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(micros as f64 / 1e6).encode(encoder)
    }

    fn times(&mut self, name: &str, help: &str, times: &Times) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let last = times.counts.len().saturating_sub(1);
        let shown = FIRST_BUCKET..=LAST_BUCKET;
        let (mut buckets, mut below) = (Vec::new(), 0);
        for (nth, count) in times.counts.iter().enumerate() {
            below += count;
            if shown.contains(&nth) && nth < last {
                buckets.push(((1_u64 << nth) as f64 / 1e6, std::mem::take(&mut below)));
            }
        }
        buckets.push((f64::INFINITY, below));
        let all = times.counts.iter().sum();
        encoder.encode_histogram::<[(&str, &str); 0]>(times.sum.as_secs_f64(), all, &buckets, None)
    }
}

fn labelled<const N: usize>(
    encoder: &mut MetricEncoder<'_>,
    values: Values<N>,
    encode: impl Fn(MetricEncoder<'_>, u64) -> fmt::Result,
) -> fmt::Result {
    for (label, value) in values {
        match label {
            Some(label) => encode(encoder.encode_family(&[label])?, value)?,
            None => encode(encoder.encode_family::<[(&str, &str); 0]>(&[])?, value)?,
        }
    }
    Ok(())
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (stats, link, out) = (&self.stats, &self.link, &mut Out(encoder));
        let bytes = Some(&Unit::Bytes);
        let one = |value: u64| [(None, value)];

        out.counter("reads", None, "Reads answered.", one(stats.reads))?;
        out.counter("reads_from_memory", None, "Reads whose pages were all resident.", one(stats.hits))?;
        out.counter("read_errors", None, "Reads that ended in an error.", one(stats.read_errors))?;
        out.counter("slow_reads", None, "Reads that waited for longer than --slow.", one(stats.slow_reads))?;
        out.counter("read", bytes, "Bytes given to programs.", one(stats.read_bytes))?;
        out.times("read_wait", "How long reads waited that did not find all in memory.", &self.latencies.waited)?;

        out.counter("storage_requests", None, "Range requests made, retries included.", one(stats.requests))?;
        out.counter("storage_received", bytes, "Bytes received from the storage.", one(stats.fetched_bytes))?;
        out.counter("storage_retries", None, "Requests made again after a failure.", one(stats.retries))?;
        out.counter("storage_listings", None, "Pages of listings fetched.", one(stats.lists))?;
        out.counter("storage_lookups", None, "Objects described.", one(stats.stats))?;
        let kinds = [
            (Some(("for", "demand")), stats.requests_demand),
            (Some(("for", "readahead")), stats.requests_speculative),
        ];
        out.counter("extents", None, "Extents asked for: since a reader waited, or ahead of any.", kinds)?;
        out.counter(
            "hedged_requests",
            None,
            "Requests made twice, since nothing came of them.",
            one(stats.requests_hedged),
        )?;
        out.counter("cancelled_requests", None, "Requests that were no longer needed.", one(stats.cancelled))?;
        let failed =
            [(Some(("for", "demand")), stats.demand_failed), (Some(("for", "readahead")), stats.speculation_failed)];
        out.counter("failed_requests", None, "Requests given up.", failed)?;
        out.gauge("storage_requests_in_flight", None, "Range requests in flight.", one(stats.in_flight))?;
        out.times("storage_first_byte", "From a request to its first byte.", &self.latencies.first_byte)?;

        let unread = [
            (Some(("why", "memory")), stats.thrashed_bytes),
            (Some(("why", "no_reader")), stats.wasted_bytes.saturating_sub(stats.thrashed_bytes)),
        ];
        out.counter("unread", bytes, "Bytes read ahead and dropped unread.", unread)?;

        out.gauge("memory_budget", bytes, "The budget.", one(stats.memory_budget_bytes))?;
        let known = stats.memory_ahead_bytes + stats.memory_read_bytes;
        let uses = [
            (Some(("use", "ahead")), stats.memory_ahead_bytes),
            (Some(("use", "read")), stats.memory_read_bytes),
            (Some(("use", "other")), stats.memory_charged_bytes.saturating_sub(known)),
            (Some(("use", "directories")), stats.memory_directories_bytes),
            (Some(("use", "names")), stats.memory_names_bytes),
            (Some(("use", "cache")), stats.cache.as_ref().map_or(0, |cache| cache.memory_bytes)),
        ];
        out.gauge("memory", bytes, "Memory by what it is used for.", uses)?;
        out.gauge("memory_requested", bytes, "Asked for, and without memory so far.", one(stats.memory_pending_bytes))?;

        out.gauge("streams", None, "Runs of reads that are read ahead of.", one(self.streams))?;
        out.seconds("link_first_byte", "The least time to a first byte.", link.first_byte_us)?;
        let per_s = |name: &str, help: &str, rate: u64, out: &mut Out<'_>| {
            out.gauge(name, Some(&Unit::Other("bytes_per_second".to_owned())), help, one(rate))
        };
        per_s("link_connection", "What one request carries; 0: not known.", link.connection_bytes_per_s, out)?;
        per_s("link", "What all requests carry; 0: not known.", link.bytes_per_s, out)?;
        out.gauge("link_requests_max", None, "Requests that the storage is given at a time.", one(link.requests_max))?;
        out.counter("panics", None, "Panics that were survived.", one(stats.panics))?;

        if let Some(cache) = &stats.cache {
            out.gauge("cache_kept", bytes, "Content in the folder of the cache.", one(cache.kept_bytes))?;
            out.counter("cache_read", bytes, "Bytes that came from it.", one(cache.read_bytes))?;
            let reads = [(Some(("found", "yes")), cache.hits), (Some(("found", "no")), cache.misses)];
            out.counter("cache_reads", None, "Reads of it.", reads)?;
            out.counter(
                "cache_dropped",
                bytes,
                "Bytes that came faster than its disk took them.",
                one(cache.dropped_bytes),
            )?;
            out.counter("cache_wrong", None, "Pieces that were damaged, and fetched again.", one(cache.wrong))?;
            out.counter("cache_write_errors", None, "Writes that failed.", one(cache.write_errors))?;
            out.counter("cache_silences", None, "How often its disk did not answer.", one(cache.silences))?;
        }
        Ok(())
    }
}

/// The shortest and the longest time that has a bucket of its own: 2^6 = 64 us, and 2^26 us, 67 s.
/// Lower, and higher: more lines in each scrape, for times that do not
/// occur. Source: reads that wait for
/// a local disk, and the patience with a storage.
const FIRST_BUCKET: usize = 6;
const LAST_BUCKET: usize = 26;
