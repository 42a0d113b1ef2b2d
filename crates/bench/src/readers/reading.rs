//! What reading processes measured: of each thread, of each process, and of all together.
//!
//! ```text
//!  thread ── Walked ──┐
//!  thread ── Walked ──┴─ process ── Part ──┐
//!                        process ── Part ──┴── Reading
//! ```
//!
//! Times count from the moment at which all processes were released. Percentiles are of all reads
//! of all threads: a process passes on counts, since percentiles cannot be added up.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// What one process measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) threads: Vec<Walked>,
    pub(crate) cpu_s: f64,
    /// If the process walked a tree.
    pub(crate) trodden: Option<Trodden>,
}

/// What a walk found in a tree of directories, and read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trodden {
    /// Directories read to their end, the top included.
    pub(crate) directories: u64,
    pub(crate) names: u64,
    /// Files read to their end; one that was read twice counts twice.
    pub(crate) files: u64,
    /// Whether everything was read before the time was up.
    pub(crate) complete: bool,
    /// The walk, or each epoch.
    pub(crate) passes: Vec<Pass>,
}

/// One pass over the files of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pass {
    pub(crate) files: u64,
    pub(crate) seconds: f64,
}

/// What one thread measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Walked {
    pub(crate) beside: bool,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// When the thread began, and when its last read was done.
    pub(crate) started: Duration,
    pub(crate) ended: Duration,
    /// From the thread's opening of the file to its first byte.
    pub(crate) first_byte: Option<Duration>,
    /// The same, to the end of its first 64 MiB.
    pub(crate) stretch: Option<Duration>,
    pub(crate) late: u64,
    pub(crate) latency_us: Latencies,
}

impl Walked {
    /// A thread that began at `started` and has read nothing yet.
    pub(crate) fn new(beside: bool, started: Duration) -> Self {
        Self {
            beside,
            operations: 0,
            bytes: 0,
            started,
            ended: Duration::ZERO,
            first_byte: None,
            stretch: None,
            late: 0,
            latency_us: Latencies::default(),
        }
    }
}

/// Times of reads, in microseconds with two digits, up to ten minutes; a longer time counts as
/// that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000, 2).expect("the bounds are in order"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, took: Duration) {
        self.0.saturating_record(took.as_micros() as u64);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(counts: Vec<(u64, u64)>) -> Self {
        let mut all = Self::default();
        for (took_us, count) in counts {
            all.0.saturating_record_n(took_us, count);
        }
        all
    }
}

impl From<Latencies> for Vec<(u64, u64)> {
    fn from(all: Latencies) -> Self {
        all.0.iter_recorded().map(|of| (of.value_iterated_to(), of.count_at_value())).collect()
    }
}

/// What one reader, or all together, measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) first_byte_p50_ms: f64,
    pub(crate) first_byte_max_ms: f64,
    /// Of the slowest thread; `None` if one of them read less.
    pub(crate) first_64_mib_s: Option<f64>,
    pub(crate) late: u64,
    pub(crate) latency_us: Latency,
    /// MB/s of the slowest and of the fastest thread.
    pub(crate) thread_mb_per_s: (f64, f64),
    pub(crate) cpu_s: f64,
    /// Of readers beside, which are in none of the other figures.
    pub(crate) beside: Option<Beside>,
    /// If one process walked a tree.
    pub(crate) trodden: Option<Trodden>,
    /// Of this process, if it reads through the library.
    pub(crate) rss_max_bytes: u64,
    /// Time of a submission, if reads are submitted.
    pub(crate) submit_p99_us: Option<f64>,
    pub(crate) submit_mean_us: Option<f64>,
}

/// What readers beside the others measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Beside {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_us: Latency,
}

/// Times of reads in microseconds, from the moment that each was due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Latency {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        let all = &latencies.0;
        Self {
            mean: all.mean(),
            p50: all.value_at_quantile(0.5),
            p90: all.value_at_quantile(0.9),
            p99: all.value_at_quantile(0.99),
            max: all.max(),
        }
    }

    fn of_all(threads: &[Walked]) -> Self {
        let mut all = Latencies::default();
        for thread in threads {
            all.add(&thread.latency_us);
        }
        Self::of(&all)
    }
}

impl Reading {
    /// Bytes read, by readers beside as well.
    pub(crate) fn all_bytes(&self) -> u64 {
        self.bytes + self.beside.as_ref().map_or(0, |beside| beside.bytes)
    }

    /// All processes together.
    pub(crate) fn of(parts: Vec<Part>) -> Self {
        let cpu_s = parts.iter().map(|part| part.cpu_s).sum();
        let trodden = parts.iter().find_map(|part| part.trodden.clone());
        let threads = parts.into_iter().flat_map(|part| part.threads);
        let (beside, threads): (Vec<_>, Vec<_>) = threads.partition(|thread| thread.beside);
        let beside = (!beside.is_empty()).then(|| Beside {
            operations: beside.iter().map(|thread| thread.operations).sum(),
            bytes: beside.iter().map(|thread| thread.bytes).sum(),
            latency_us: Latency::of_all(&beside),
        });
        let mut first: Vec<f64> =
            threads.iter().filter_map(|thread| Some(thread.first_byte?.as_secs_f64() * 1e3)).collect();
        first.sort_unstable_by(f64::total_cmp);
        let rates: Vec<f64> = threads
            .iter()
            .filter(|thread| thread.operations > 0)
            .map(|thread| thread.bytes as f64 / 1e6 / thread.ended.saturating_sub(thread.started).as_secs_f64())
            .collect();
        let started = threads.iter().map(|thread| thread.started).min();
        let ended = threads.iter().map(|thread| thread.ended).max();
        let stretches = threads.iter().map(|thread| Some(thread.stretch?.as_secs_f64())).collect::<Option<Vec<f64>>>();
        Self {
            operations: threads.iter().map(|thread| thread.operations).sum(),
            bytes: threads.iter().map(|thread| thread.bytes).sum(),
            seconds: started.zip(ended).map_or(0.0, |(started, ended)| ended.saturating_sub(started).as_secs_f64()),
            first_byte_p50_ms: first.get(first.len().saturating_sub(1) / 2).copied().unwrap_or(0.0),
            first_byte_max_ms: first.last().copied().unwrap_or(0.0),
            first_64_mib_s: stretches.and_then(|stretches| stretches.into_iter().reduce(f64::max)),
            late: threads.iter().map(|thread| thread.late).sum(),
            latency_us: Latency::of_all(&threads),
            thread_mb_per_s: (
                rates.iter().copied().reduce(f64::min).unwrap_or(0.0),
                rates.iter().copied().reduce(f64::max).unwrap_or(0.0),
            ),
            cpu_s,
            beside,
            trodden,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with `operations` reads of 1 MB; each takes `step_us` longer than the one before.
    fn walked(operations: u64, step_us: u64, ended_s: u64, beside: bool) -> Walked {
        let mut latency_us = Latencies::default();
        (1..=operations).for_each(|read| latency_us.record(Duration::from_micros(read * step_us)));
        Walked {
            beside,
            operations,
            bytes: operations * 1_000_000,
            started: Duration::ZERO,
            ended: Duration::from_secs(ended_s),
            first_byte: Some(Duration::from_millis(step_us)),
            stretch: None,
            late: 1,
            latency_us,
        }
    }

    #[test]
    fn times_of_reads_are_passed_on_without_loss() {
        let mut all = Latencies::default();
        for read in 0..5_000u64 {
            all.record(Duration::from_micros(read * read * 97));
        }
        let text = serde_json::to_string(&all).expect("counts");
        let back: Latencies = serde_json::from_str(&text).expect("what was written");
        assert_eq!(back, all);
        assert_eq!(format!("{:?}", Latency::of(&back)), format!("{:?}", Latency::of(&all)));
    }

    #[test]
    fn several_processes_add_up_to_one_with_all_their_threads() {
        let threads = [walked(100, 10, 2, false), walked(900, 30, 4, false), walked(7, 1_000, 4, true)];
        let part = |threads: &[Walked]| Part { threads: threads.to_vec(), cpu_s: threads.len() as f64, trodden: None };
        let one = Reading::of(vec![part(&threads)]);
        let several = Reading::of(vec![part(&threads[..1]), part(&threads[1..])]);
        assert_eq!(format!("{one:?}"), format!("{several:?}"));
        assert_eq!((one.operations, one.bytes, one.late), (1_000, 1_000_000_000, 2));
        assert_eq!((one.seconds, one.cpu_s), (4.0, 3.0));
        assert_eq!(one.thread_mb_per_s, (50.0, 225.0));
        assert_eq!((one.first_byte_p50_ms, one.first_byte_max_ms), (10.0, 30.0));
        assert_eq!(one.beside.expect("one reads beside").operations, 7);
        // Ten of 1,000 reads are slower: those of the second thread after its 890th.
        let p99 = one.latency_us.p99 as f64;
        assert!((p99 / (890.0 * 30.0) - 1.0).abs() < 0.01, "{p99}");
    }
}
