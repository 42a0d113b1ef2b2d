//! What a simulation counts while it runs, and the figures that come of it.

use foreread_policy::{PAGE_BYTES, RequestId};
use foreread_workload::Metric;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::outcome::picture::Picture;
use crate::outcome::service::{Curve, Service};

/// Counts and times of one run.
#[derive(Debug, Clone)]
pub struct Tally {
    seconds: Vec<Second>,
    readers: Vec<Reader>,
    requests: u64,
    /// Of those that were submitted, how many went with another one and were none.
    coalesced: u64,
    fetched_pages: u64,
    asked_pages: u64,
    wasted_pages: u64,
    /// Requests by size: of one page, of up to 2, 4, 8 ... pages.
    sizes: [u64; SIZES],
    pub(crate) picture: Option<Picture>,
    service: Option<Service>,
    /// From the beginning of each read to its end, in ns.
    took_ns: Histogram<u64>,
    /// The same for those who read beside the others.
    beside_ns: Histogram<u64>,
    tree: Option<Walked>,
    region: Option<Touched>,
    end_ns: u64,
}

/// What came of programs that went through a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// `find`, and then `grep` and `cp` where they ran beside it: when each ended, and how often it had waited.
    pub(crate) programs: Vec<(u64, u64)>,
    /// Blocks of all directories, and of each window those that had to be fetched.
    pub(crate) blocks: u64,
    pub(crate) ahead: Vec<u32>,
}

/// What came of threads that touched memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Touches that had to wait.
    pub(crate) waits: u64,
    /// Pages read, and written.
    pub(crate) pages_in: u64,
    pub(crate) pages_out: u64,
}

/// What happened in one second of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Second {
    /// Bytes given to readers.
    pub read_bytes: u64,
    /// Requests made.
    pub requests: u64,
    /// Pages that they asked for.
    pub requested_pages: u64,
    /// Reads that were done late.
    pub late: u64,
    /// Reads that were done.
    pub reads: u64,
    /// What they took together, in ns.
    pub took_ns: u64,
    /// What the longest took, in ns.
    pub took_max_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Reader {
    /// Between two reads. One that is done more than this after it was due is late.
    period_ns: Option<u64>,
    /// It is not among those whom most figures tell of.
    beside: bool,
    bytes: u64,
    reads: u64,
    /// When its first read was due.
    start_ns: Option<u64>,
    /// From its start, in ns.
    first_byte_ns: Option<u64>,
    first_64_mib_ns: Option<u64>,
    took_ns: u64,
    late: u64,
    done_ns: u64,
}

/// Sizes of requests that are told apart: up to 32 MiB.
const SIZES: usize = 14;

/// The place of a request for `pages` among sizes.
fn size_of(pages: u64) -> usize {
    (pages.max(1).next_power_of_two().ilog2() as usize).min(SIZES - 1)
}

/// Digits that are kept of what a read took: two, in 30 KiB.
const TOOK_DIGITS: u8 = 2;

/// A read that takes longer than an hour counts as one that takes an hour.
const TOOK_NS_MAX: u64 = 3_600_000_000_000;

/// Seconds over which the least size of requests is taken: a single one may hold too few of them for a mean.
const SPAN_SECONDS: usize = 5;

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    fn new() -> Self {
        let none = || Histogram::new_with_max(TOOK_NS_MAX, TOOK_DIGITS).expect("a bound, and 1 to 5 digits");
        Self {
            seconds: Vec::new(),
            readers: Vec::new(),
            requests: 0,
            coalesced: 0,
            fetched_pages: 0,
            asked_pages: 0,
            wasted_pages: 0,
            sizes: [0; SIZES],
            picture: None,
            service: None,
            took_ns: none(),
            beside_ns: none(),
            tree: None,
            region: None,
            end_ns: 0,
        }
    }

    /// Who reads: each with the time between two of its reads, and whether it is beside.
    pub(crate) fn readers(&mut self, readers: impl Iterator<Item = (Option<u64>, bool)>) {
        self.readers = readers.map(|(period_ns, beside)| Reader { period_ns, beside, ..Reader::default() }).collect();
        // Where anything is drawn, this is.
        self.service = self.picture.as_ref().map(|_| Service::new(self.readers.len()));
    }

    /// What came of a tree: that, and how many requests for how many pages were made.
    pub(crate) fn of_tree(walked: Walked, requests: u64, pages: u64) -> Self {
        let end_ns = walked.programs.iter().map(|&(ended_ns, _)| ended_ns).max().unwrap_or(0);
        Self { tree: Some(walked), requests, fetched_pages: pages, end_ns, ..Self::new() }
    }

    /// That of threads who touched memory until `end_ns`, with so many requests to read.
    pub(crate) fn of_region(touched: Touched, end_ns: u64, requests: u64) -> Self {
        Self { region: Some(touched), requests, fetched_pages: touched.pages_in, end_ns, ..Self::new() }
    }

    /// Of each window of a directory's blocks those that had to be fetched.
    pub fn windows(&self) -> &[u32] {
        self.tree.as_ref().map_or(&[], |tree| &tree.ahead)
    }

    pub(crate) fn asked(&mut self, pages: u64) {
        self.asked_pages += pages;
    }

    pub(crate) fn submitted(&mut self, at_ns: u64, pages: u64) {
        self.requests += 1;
        self.fetched_pages += pages;
        self.sizes[size_of(pages)] += 1;
        let second = self.second(at_ns);
        second.requests += 1;
        second.requested_pages += pages;
    }

    /// Of requests that were submitted (when, and for how many pages) one is made.
    pub(crate) fn coalesced(&mut self, members: impl Iterator<Item = (u64, u64)>) {
        let (mut whole, mut count) = (0, 0);
        for (at_ns, pages) in members {
            self.sizes[size_of(pages)] -= 1;
            whole += pages;
            count += 1;
            if count > 1 {
                self.second(at_ns).requests -= 1;
            }
        }
        self.sizes[size_of(whole)] += 1;
        self.requests -= count - 1;
        self.coalesced += count - 1;
    }

    /// A request was made a second time. Of two answers only one is taken in.
    pub(crate) fn asked_again(&mut self, at_ns: u64) {
        self.requests += 1;
        self.second(at_ns).requests += 1;
    }

    pub(crate) fn read(&mut self, reader: usize, bytes: u64, due_ns: u64, began_ns: u64, done_ns: u64) {
        let took_ns = done_ns.saturating_sub(began_ns);
        let beside = self.readers[reader].beside;
        if beside { &mut self.beside_ns } else { &mut self.took_ns }.saturating_record(took_ns);
        let second = self.second(done_ns);
        second.reads += 1;
        second.took_ns += took_ns;
        second.took_max_ns = second.took_max_ns.max(took_ns);
        self.second(done_ns).read_bytes += bytes;
        if let Some(service) = &mut self.service {
            service.give(reader, done_ns, bytes);
        }
        let reader = &mut self.readers[reader];
        reader.bytes += bytes;
        reader.reads += 1;
        reader.done_ns = done_ns;
        reader.took_ns = done_ns - *reader.start_ns.get_or_insert(due_ns);
        reader.first_byte_ns.get_or_insert(reader.took_ns);
        if reader.bytes >= 64 << 20 {
            reader.first_64_mib_ns.get_or_insert(reader.took_ns);
        }
        // The first read is judged by the first byte.
        let late = reader.reads > 1 && reader.period_ns.is_some_and(|period_ns| done_ns - due_ns > period_ns);
        reader.late += u64::from(late);
        self.second(done_ns).late += u64::from(late);
    }

    /// What was asked of the storage is what `mount` asked of it.
    pub(crate) fn through(&mut self, mount: Self) {
        self.second(mount.seconds.len().saturating_sub(1) as u64 * 1_000_000_000);
        for (own, below) in self.seconds.iter_mut().zip(&mount.seconds) {
            (own.requests, own.requested_pages) = (below.requests, below.requested_pages);
        }
        self.requests = mount.requests;
        self.coalesced = mount.coalesced;
        self.fetched_pages = mount.fetched_pages;
        self.wasted_pages = mount.wasted_pages;
        self.sizes = mount.sizes;
        self.picture = mount.picture;
    }

    /// Pages that were fetched and not read.
    pub(crate) fn wasted(&mut self, request: RequestId, pages: u64) {
        self.wasted_pages += pages;
        if let Some(picture) = &mut self.picture {
            picture.wasted(request, pages);
        }
    }

    pub(crate) fn end(&mut self, at_ns: u64) {
        self.end_ns = at_ns;
    }

    fn second(&mut self, at_ns: u64) -> &mut Second {
        let at = (at_ns / 1_000_000_000) as usize;
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, Second::default());
        }
        &mut self.seconds[at]
    }

    /// The run, second by second.
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// Requests to the device.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that the device was asked for together with another one.
    pub fn requests_coalesced(&self) -> u64 {
        self.coalesced
    }

    /// The virtual time that all took, in ns.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns
    }

    /// Requests by size: of one page, of up to 2, 4, 8 ... pages.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// What is kept for pictures, where that was wanted.
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// What each reader was given over time, of those who read beside or of the others. Empty where no pictures were wanted.
    pub fn service(&self, beside: bool) -> Vec<Curve> {
        let Some(service) = &self.service else { return Vec::new() };
        let readers = self.readers.iter().enumerate().filter(|(_, reader)| reader.beside == beside);
        readers.map(|(at, reader)| service.curve(at, reader.done_ns)).collect()
    }

    /// How many reads were done.
    pub fn reads(&self) -> u64 {
        self.took_ns.len() + self.beside_ns.len()
    }

    /// Those whom most figures tell of.
    fn main(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().filter(|reader| !reader.beside)
    }

    fn beside(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().filter(|reader| reader.beside)
    }

    /// What a read took on average, in ns.
    pub fn read_mean_ns(&self) -> f64 {
        self.took_ns.mean()
    }

    /// What this percentage of all reads took at most, in ns, within a hundredth.
    pub fn read_percentile_ns(&self, percentile: f64) -> u64 {
        self.took_ns.value_at_percentile(percentile)
    }

    /// The value of `metric` in its unit; `None` where a simulation has none.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        if let Some(region) = &self.region {
            return region.figure(metric, self.end_ns);
        }
        if let Some(tree) = &self.tree {
            return tree.figure(metric);
        }
        let has_beside = self.beside().next().is_some();
        // Whoever is beside may come to a last end after all others.
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

    /// The mean size of requests in each span of whole seconds that has any; spans overlap.
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
