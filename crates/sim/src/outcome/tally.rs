//! What a simulation counts while it runs. `figures.rs` computes the metrics of a workload from
//! it.

mod figures;

use foreread_policy::{RequestId, TierCounts};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::outcome::course::{Course, Watch};
use crate::outcome::picture::Picture;
use crate::outcome::service::{Curve, Service};

/// Counts and times of one run.
#[derive(Debug, Clone)]
pub struct Tally {
    seconds: Vec<Second>,
    readers: Vec<Reader>,
    requests: u64,
    /// What the tier was asked for.
    tier: Option<OfTier>,
    /// Submitted requests that were merged into another one.
    coalesced: u64,
    fetched_pages: u64,
    asked_pages: u64,
    missed_pages: u64,
    wasted_pages: u64,
    /// Requests by size: of one page, of up to 2, 4, 8 ... pages.
    sizes: [u64; SIZES],
    pub(crate) picture: Option<Picture>,
    service: Option<Service>,
    pub(crate) course: Option<Course>,
    /// Time of each read of the main readers, in ns.
    took_ns: Histogram<u64>,
    /// Time of each read of the readers beside, in ns.
    beside_ns: Histogram<u64>,
    tree: Option<Walked>,
    region: Option<Touched>,
    end_ns: u64,
}

/// The outcome of a tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OfTier {
    /// Requests that it had the pages of, and these.
    requests: u64,
    pages: u64,
    /// What it was offered and has written, where policy decides that.
    counts: Option<TierCounts>,
}

/// The outcome of programs that walked a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Walked {
    /// `find`, then `grep` and `cp` where they ran beside it: when each ended, and how often it
    /// waited.
    pub(crate) programs: Vec<(u64, u64)>,
    /// Blocks of all directories, and the blocks that each window had to fetch.
    pub(crate) blocks: u64,
    pub(crate) ahead: Vec<u32>,
}

/// The outcome of threads that touched memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Touches that waited.
    pub(crate) waits: u64,
    /// Pages read, and written.
    pub(crate) pages_in: u64,
    pub(crate) pages_out: u64,
}

/// What happened in one second of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Second {
    /// Bytes that reads returned.
    pub read_bytes: u64,
    /// Requests made.
    pub requests: u64,
    /// Pages of these requests.
    pub requested_pages: u64,
    /// Pages that the tier had.
    pub tier_pages: u64,
    /// Reads that were done late.
    pub late: u64,
    /// Reads that were done.
    pub reads: u64,
    /// Sum of their times, in ns.
    pub took_ns: u64,
    /// Time of the longest, in ns.
    pub took_max_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Reader {
    /// Time between two reads. A read that is done more than this after it was due is late.
    period_ns: Option<u64>,
    /// It reads beside the main readers; most figures leave it out.
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

/// Classes of request sizes: 1, 2, 4 ... pages, up to 32 MiB.
const SIZES: usize = 14;

/// The size class of a request for `pages`.
fn size_of(pages: u64) -> usize {
    (pages.max(1).next_power_of_two().ilog2() as usize).min(SIZES - 1)
}

/// Significant digits of read times. Lower: coarser percentiles; higher: more than 30 KiB a
/// histogram.
const TOOK_DIGITS: u8 = 2;

/// Longest read time that is recorded, in ns: one hour. Longer reads count as this.
const TOOK_NS_MAX: u64 = 3_600_000_000_000;

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
            tier: None,
            coalesced: 0,
            fetched_pages: 0,
            asked_pages: 0,
            missed_pages: 0,
            wasted_pages: 0,
            sizes: [0; SIZES],
            picture: None,
            service: None,
            course: None,
            took_ns: none(),
            beside_ns: none(),
            tree: None,
            region: None,
            end_ns: 0,
        }
    }

    /// Sets the readers: the period of each, and whether it reads beside.
    pub(crate) fn readers(&mut self, readers: impl Iterator<Item = (Option<u64>, bool)>) {
        self.readers = readers.map(|(period_ns, beside)| Reader { period_ns, beside, ..Reader::default() }).collect();
        // Service curves are kept where pictures are.
        self.service = self.picture.as_ref().map(|_| Service::new(self.readers.len()));
    }

    /// Keeps the course of the run. After [`Tally::readers`].
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.course = Some(Course::new(watch, self.readers.len()));
    }

    /// The course of the run, if it was watched.
    pub fn course(&self) -> Option<&Course> {
        self.course.as_ref()
    }

    /// The tally of a tree, with its requests and their pages.
    pub(crate) fn of_tree(walked: Walked, requests: u64, pages: u64) -> Self {
        let end_ns = walked.programs.iter().map(|&(ended_ns, _)| ended_ns).max().unwrap_or(0);
        Self { tree: Some(walked), requests, fetched_pages: pages, end_ns, ..Self::new() }
    }

    /// The tally of threads that touched memory until `end_ns`, with `requests` reads.
    pub(crate) fn of_region(touched: Touched, end_ns: u64, requests: u64) -> Self {
        Self { region: Some(touched), requests, fetched_pages: touched.pages_in, end_ns, ..Self::new() }
    }

    /// The blocks that each window of a directory's readahead had to fetch.
    pub fn windows(&self) -> &[u32] {
        self.tree.as_ref().map_or(&[], |tree| &tree.ahead)
    }

    /// A read of `pages` begins, of which `missed` are not resident.
    pub(crate) fn asked(&mut self, pages: u64, missed: u64) {
        self.asked_pages += pages;
        self.missed_pages += missed;
    }

    pub(crate) fn submitted(&mut self, at_ns: u64, pages: u64) {
        self.requests += 1;
        self.fetched_pages += pages;
        self.sizes[size_of(pages)] += 1;
        let second = self.second(at_ns);
        second.requests += 1;
        second.requested_pages += pages;
    }

    /// The tier has the pages of a request.
    pub(crate) fn asked_tier(&mut self, at_ns: u64, pages: u64) {
        let tier = self.tier.get_or_insert_default();
        tier.requests += 1;
        tier.pages += pages;
        self.second(at_ns).tier_pages += pages;
    }

    /// There was a tier, which has done this.
    pub(crate) fn with_tier(&mut self, counts: Option<TierCounts>) {
        self.tier.get_or_insert_default().counts = counts;
    }

    /// Requests that the tier had the pages of, and these.
    pub fn of_tier(&self) -> (u64, u64) {
        self.tier.map_or((0, 0), |tier| (tier.requests, tier.pages))
    }

    /// Submitted requests (when, and of how many pages each) become one.
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

    /// A request was made a second time. Only one of the two answers is used.
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
        if let Some(course) = &mut self.course {
            course.read(reader, bytes, began_ns, done_ns);
        }
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
        // The first read is judged by its first-byte latency.
        let late = reader.reads > 1 && reader.period_ns.is_some_and(|period_ns| done_ns - due_ns > period_ns);
        reader.late += u64::from(late);
        self.second(done_ns).late += u64::from(late);
    }

    /// The requests to the storage are those of `mount`.
    pub(crate) fn through(&mut self, mount: Self) {
        self.second(mount.seconds.len().saturating_sub(1) as u64 * 1_000_000_000);
        for (own, below) in self.seconds.iter_mut().zip(&mount.seconds) {
            (own.requests, own.requested_pages) = (below.requests, below.requested_pages);
            own.tier_pages = below.tier_pages;
        }
        self.requests = mount.requests;
        self.tier = mount.tier;
        self.coalesced = mount.coalesced;
        self.fetched_pages = mount.fetched_pages;
        self.wasted_pages = mount.wasted_pages;
        self.sizes = mount.sizes;
        self.picture = mount.picture;
    }

    /// Fetched pages that no read used.
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

    /// Pages that reads asked for.
    pub fn asked_pages(&self) -> u64 {
        self.asked_pages
    }

    /// The part of the pages that were resident when their read began, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        1.0 - self.missed_pages.min(self.asked_pages) as f64 / self.asked_pages.max(1) as f64
    }

    /// Pages of all requests to the device.
    pub fn fetched_pages(&self) -> u64 {
        self.fetched_pages
    }

    /// Requests to the device.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Submitted requests that were merged into another one.
    pub fn requests_coalesced(&self) -> u64 {
        self.coalesced
    }

    /// The virtual time of the run, in ns.
    pub fn elapsed_ns(&self) -> u64 {
        self.end_ns
    }

    /// Requests by size: of one page, of up to 2, 4, 8 ... pages.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The dots of the run, if pictures were wanted.
    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    /// Service curves of the readers beside, or of the main readers. Empty if no pictures were
    /// wanted.
    pub fn service(&self, beside: bool) -> Vec<Curve> {
        let Some(service) = &self.service else { return Vec::new() };
        let readers = self.readers.iter().enumerate().filter(|(_, reader)| reader.beside == beside);
        readers.map(|(at, reader)| service.curve(at, reader.done_ns)).collect()
    }

    /// Reads that were done.
    pub fn reads(&self) -> u64 {
        self.took_ns.len() + self.beside_ns.len()
    }

    /// The main readers, which most figures are about.
    fn main(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().filter(|reader| !reader.beside)
    }

    fn beside(&self) -> impl Iterator<Item = &Reader> {
        self.readers.iter().filter(|reader| reader.beside)
    }

    /// Mean time of a read, in ns.
    pub fn read_mean_ns(&self) -> f64 {
        self.took_ns.mean()
    }

    /// The time that this percentage of reads did not exceed, in ns, within a hundredth.
    pub fn read_percentile_ns(&self, percentile: f64) -> u64 {
        self.took_ns.value_at_percentile(percentile)
    }
}
