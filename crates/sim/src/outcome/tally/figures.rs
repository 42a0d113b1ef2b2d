//! The metrics of a run, computed from its tally.

use foreread_policy::PAGE_BYTES;
use foreread_workload::Metric;

use super::{Tally, Touched, Walked};

impl Tally {
    /// The value of `metric` in its unit; `None` if this run does not have it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        if let Some(region) = &self.region {
            return region.figure(metric, self.end_ns);
        }
        if let Some(tree) = &self.tree {
            return tree.figure(metric);
        }
        let has_beside = self.beside().next().is_some();
        // A reader beside may end after the main readers.
        let end_ns = if has_beside { self.main().map(|reader| reader.done_ns).max()? } else { self.end_ns };
        let seconds = end_ns.max(1) as f64 / 1e9;
        let asked = (self.asked_pages * PAGE_BYTES).max(1) as f64;
        let read: u64 = self.main().map(|reader| reader.bytes).sum();
        let reads: u64 = self.main().map(|reader| reader.reads).sum();
        match metric {
            Metric::Throughput => Some(read as f64 / 1e6 / seconds),
            Metric::Operations => Some(reads as f64 / seconds),
            Metric::Amp => Some((self.fetched_pages * PAGE_BYTES) as f64 / asked),
            Metric::RequestsPerGib => Some(self.requests as f64 * f64::from(1 << 30) / asked),
            Metric::IoSize => Some(kib(self.fetched_pages, self.requests)),
            Metric::IoSizeMin => self.io_sizes().min_by(f64::total_cmp),
            Metric::ThroughputMax => self.seconds.iter().map(|s| s.read_bytes).max().map(|bytes| bytes as f64 / 1e6),
            Metric::Waste => Some(self.wasted_pages as f64 / self.fetched_pages.max(1) as f64),
            Metric::TierHits => {
                let pages = self.tier?.pages;
                Some(pages as f64 / (pages + self.fetched_pages).max(1) as f64)
            }
            Metric::TierWritten => {
                let counts = self.tier?.counts?;
                let written = counts.admitted + counts.carried;
                (counts.offered > 0).then(|| written as f64 / counts.offered as f64)
            }
            Metric::ReadP50 => Some(self.read_percentile_ns(50.0) as f64 / 1e6),
            Metric::ReadP99 => Some(self.read_percentile_ns(99.0) as f64 / 1e6),
            Metric::FirstByte => self.first_bytes().last().map(|&ns| ns as f64 / 1e6),
            Metric::FirstByteP50 => {
                let all = self.first_bytes();
                all.get(all.len().saturating_sub(1) / 2).map(|&ns| ns as f64 / 1e6)
            }
            Metric::First64Mib => self.main().filter_map(|r| r.first_64_mib_ns).max().map(|ns| ns as f64 / 1e9),
            Metric::Late => self
                .main()
                .filter(|reader| reader.period_ns.is_some())
                .map(|reader| reader.late as f64)
                .reduce(|a, b| a + b),
            Metric::SlowestOfFastest => {
                let rates = || self.main().filter(|r| r.took_ns > 0).map(|r| r.bytes as f64 / r.took_ns as f64);
                Some(rates().min_by(f64::total_cmp)? / rates().max_by(f64::total_cmp)?)
            }
            Metric::BesideThroughput => {
                let read: u64 = self.beside().map(|reader| reader.bytes).sum();
                has_beside.then_some(read as f64 / 1e6 / seconds)
            }
            Metric::BesideReadP99 => has_beside.then(|| self.beside_ns.value_at_percentile(99.0) as f64 / 1e6),
            _ => None,
        }
    }

    fn first_bytes(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.main().filter_map(|reader| reader.first_byte_ns).collect();
        all.sort_unstable();
        all
    }

    /// The mean request size, in KiB, of each span of whole seconds with requests; spans overlap.
    fn io_sizes(&self) -> impl Iterator<Item = f64> {
        let whole = (self.end_ns / 1_000_000_000).max(1) as usize;
        let whole = &self.seconds[..whole.min(self.seconds.len())];
        let span = SPAN_SECONDS.min(whole.len()).max(1);
        whole.windows(span).filter_map(|seconds| {
            let requests: u64 = seconds.iter().map(|second| second.requests).sum();
            let pages = seconds.iter().map(|second| second.requested_pages).sum();
            (requests > 0).then(|| kib(pages, requests))
        })
    }
}

impl Touched {
    fn figure(self, metric: Metric, end_ns: u64) -> Option<f64> {
        match metric {
            Metric::TouchTime => Some(end_ns as f64 / 1e9),
            Metric::TouchWaits => Some(self.waits as f64),
            Metric::PagesIn => Some(self.pages_in as f64),
            Metric::PagesOut => Some(self.pages_out as f64),
            _ => None,
        }
    }
}

impl Walked {
    fn figure(&self, metric: Metric) -> Option<f64> {
        let seconds = |program: usize| self.programs.get(program).map(|&(ended_ns, _)| ended_ns as f64 / 1e9);
        let ahead: u64 = self.ahead.iter().copied().map(u64::from).sum();
        match metric {
            Metric::FindTime => seconds(0),
            Metric::FindWaits => self.programs.first().map(|&(_, waits)| waits as f64),
            Metric::GrepTime => seconds(1),
            Metric::CopyTime => seconds(2),
            Metric::ReadAhead => (!self.ahead.is_empty()).then(|| ahead as f64 / self.blocks.max(1) as f64),
            _ => None,
        }
    }
}

fn kib(pages: u64, requests: u64) -> f64 {
    (pages * PAGE_BYTES) as f64 / 1024.0 / requests.max(1) as f64
}

/// Seconds of the span of [`Metric::IoSizeMin`]. Lower: too few requests for a mean; higher: short
/// dips vanish.
const SPAN_SECONDS: usize = 5;
