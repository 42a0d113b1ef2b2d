//! Counters of the engine's work. Each costs one atomic addition.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use foreread_tier::Stats as CacheStats;
use serde::{Deserialize, Serialize};

/// Counts of times in powers of two of a microsecond, and their sum in microseconds.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; 40],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; 40], sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(crate) fn record(&self, time: Duration) {
        let micros = time.as_micros() as u64;
        let bucket = (u64::BITS - micros.leading_zeros()).min(39) as usize;
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(micros, Relaxed);
    }

    fn times(&self) -> Times {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        Times { counts, sum: Duration::from_micros(self.sum.load(Relaxed)) }
    }

    fn summary(&self) -> Latency {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let at = |per_mille: u64| {
            let mut seen = 0;
            let rank = (total * per_mille).div_ceil(1000);
            counts.iter().position(|c| {
                seen += c;
                seen >= rank && total > 0
            })
        };
        let micros = |bucket: Option<usize>| bucket.map_or(0, |b| 1 << b);
        Latency { count: total, p50_us: micros(at(500)), p99_us: micros(at(990)), max_us: micros(at(1000)) }
    }
}

/// A summary of times: upper bounds in microseconds, each a power of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Half took at most this long.
    pub p50_us: u64,
    /// 99 in 100 took at most this long.
    pub p99_us: u64,
    /// All took at most this long.
    pub max_us: u64,
}

/// How long reads and requests took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latencies {
    /// Reads that missed, until their answer.
    pub waited: Times,
    /// Requests, from their submission to their first byte.
    pub first_byte: Times,
}

/// Times, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// How many took less than 2^n microseconds and not less than half of that, for each n from 0
    /// on. The last counts all longer ones as well.
    pub counts: Vec<u64>,
    /// All together.
    pub sum: Duration,
}

/// The engine's own counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) slow_reads: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) fetched_bytes: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) demand_failed: AtomicU64,
    pub(crate) speculation_failed: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// Reads are plain since policy has panicked too often.
    pub(crate) plain: AtomicBool,
    pub(crate) waited: Histogram,
    pub(crate) first_byte: Histogram,
}

impl Counters {
    pub(crate) fn hit(&self, len: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.hits.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(len as u64, Relaxed);
    }

    pub(crate) fn waited(&self, len: Option<usize>, time: Duration) {
        self.reads.fetch_add(1, Relaxed);
        match len {
            Some(len) => self.read_bytes.fetch_add(len as u64, Relaxed),
            None => self.read_errors.fetch_add(1, Relaxed),
        };
        self.waited.record(time);
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies { waited: self.waited.times(), first_byte: self.first_byte.times() }
    }

    pub(crate) fn snapshot(
        &self,
        policy: foreread_policy::Counters,
        memory: foreread_policy::Memory,
        directories: (foreread_policy::DirCounters, u64),
        names_bytes: u64,
        submission: Option<foreread_backend::Mechanism>,
        cache: Option<CacheStats>,
    ) -> Stats {
        let page = foreread_policy::PAGE_BYTES;
        Stats {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            read_errors: self.read_errors.load(Relaxed),
            slow_reads: self.slow_reads.load(Relaxed),
            hits: self.hits.load(Relaxed),
            misses: policy.misses,
            waits: policy.waits,
            requests: self.requests.load(Relaxed),
            requests_demand: policy.requests_demand,
            requests_speculative: policy.requests_speculative,
            requests_hedged: policy.requests_hedged,
            requests_coalesced: policy.requests_coalesced,
            requests_cache: policy.requests_tier,
            fetched_bytes: self.fetched_bytes.load(Relaxed),
            retries: self.retries.load(Relaxed),
            demand_failed: self.demand_failed.load(Relaxed),
            speculation_failed: self.speculation_failed.load(Relaxed),
            cancelled: policy.cancelled,
            wasted_bytes: policy.pages_wasted * page,
            thrashed_bytes: policy.pages_thrashed * page,
            streams_forward: policy.streams_forward,
            streams_strided: policy.streams_strided,
            streams_sparse: policy.streams_sparse,
            in_flight: self.in_flight.load(Relaxed),
            panics: self.panics.load(Relaxed),
            plain_after_panics: self.plain.load(Relaxed),
            stats: self.stats.load(Relaxed),
            lists: self.lists.load(Relaxed),
            lists_ahead: directories.0.lists_speculative,
            lists_ahead_used: directories.0.lists_hit,
            files_ahead: directories.0.fetches,
            files_ahead_used: directories.0.fetches_hit,
            walks: directories.0.walks,
            memory_directories_bytes: directories.1,
            memory_names_bytes: names_bytes,
            memory_budget_bytes: memory.capacity_bytes,
            memory_charged_bytes: memory.charged_bytes,
            memory_ahead_bytes: memory.ahead_bytes,
            memory_read_bytes: memory.read_bytes,
            memory_pending_bytes: memory.pending_bytes,
            cache,
            waited: self.waited.summary(),
            first_byte: self.first_byte.summary(),
            submission: submission.map(|mechanism| mechanism.to_string()),
        }
    }
}

/// What the engine has done since it started, and holds now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Stats {
    /// Reads answered, hits included.
    pub reads: u64,
    /// Bytes given to readers.
    pub read_bytes: u64,
    /// Reads that ended in an error.
    pub read_errors: u64,
    /// Reads that waited for longer than [`Options::slow`](crate::Options::slow).
    pub slow_reads: u64,
    /// Reads whose pages were all resident.
    pub hits: u64,
    /// Reads that found a page absent.
    pub misses: u64,
    /// Reads that found nothing absent and waited for pages in flight.
    pub waits: u64,
    /// Range requests made, retries included.
    pub requests: u64,
    /// Extents submitted because a reader waited for them.
    pub requests_demand: u64,
    /// Extents submitted ahead of any reader.
    pub requests_speculative: u64,
    /// Requests made a second time because nothing came of them.
    pub requests_hedged: u64,
    /// Extents that were asked for together with an adjacent one.
    pub requests_coalesced: u64,
    /// Requests that the folder of [`Options::cache`](crate::Options::cache) was asked for, in
    /// place of the storage.
    pub requests_cache: u64,
    /// Bytes received from the storage.
    pub fetched_bytes: u64,
    /// Requests made again after a failure.
    pub retries: u64,
    /// Demand requests given up.
    pub demand_failed: u64,
    /// Speculative requests given up; no reader has seen these.
    pub speculation_failed: u64,
    /// Requests cancelled because they were no longer needed.
    pub cancelled: u64,
    /// Bytes read ahead and dropped unread.
    pub wasted_bytes: u64,
    /// Of those, bytes evicted for want of memory.
    pub thrashed_bytes: u64,
    /// Forward streams recognised.
    pub streams_forward: u64,
    /// Strided and backward streams recognised.
    pub streams_strided: u64,
    /// Sparse streams recognised: small reads that go forward with gaps between them.
    pub streams_sparse: u64,
    /// Range requests in flight now.
    pub in_flight: u64,
    /// Panics that were survived: policy was started anew, or one call had an error.
    pub panics: u64,
    /// Policy has panicked three times within ten seconds: nothing is read ahead since then.
    pub plain_after_panics: bool,
    /// Objects described.
    pub stats: u64,
    /// Listing pages fetched.
    pub lists: u64,
    /// Of those, pages asked for before any reader did.
    pub lists_ahead: u64,
    /// Directories listed ahead that a reader opened.
    pub lists_ahead_used: u64,
    /// Small files fetched before any reader opened them.
    pub files_ahead: u64,
    /// Of those, files that were resident or in flight when they were opened.
    pub files_ahead_used: u64,
    /// Walks through a tree recognised.
    pub walks: u64,
    /// Memory that directories take.
    pub memory_directories_bytes: u64,
    /// Memory that a mount needs for names that the kernel remembers, and for open files; and that
    /// the storage's client keeps for listings.
    pub memory_names_bytes: u64,
    /// The budget.
    pub memory_budget_bytes: u64,
    /// Resident or in flight, bookkeeping included.
    pub memory_charged_bytes: u64,
    /// Of those, read ahead and not read yet.
    pub memory_ahead_bytes: u64,
    /// Of those, read, and kept while there is room.
    pub memory_read_bytes: u64,
    /// Asked for, and without memory so far.
    pub memory_pending_bytes: u64,
    /// The folder where content stays, if there is one.
    pub cache: Option<CacheStats>,
    /// How long reads that missed waited.
    pub waited: Latency,
    /// From submission of a request to its first byte.
    pub first_byte: Latency,
    /// What carries reads of local files that would block: `io_uring` or `threads`; nothing for
    /// other storage.
    pub submission: Option<String>,
}
