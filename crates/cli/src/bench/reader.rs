//! The program that reads: a process of its own, so that it can stand in a memory cgroup, and so that a mount that
//! hangs never hangs the benchmark.
//!
//! ```text
//!  bench ──plan (a JSON file)──> foreread bench --reader PLAN ──result (JSON on stdout)──> bench
//! ```
//!
//! One thread per thread of the workload: plain `pread` into one buffer that is used again and again, no advice to the
//! kernel, no queue. A sample of the bytes of every read is compared with what the testbed must have sent: all of a
//! small read, 64 bytes of a larger one, so that checking is not what is measured.
//!
//! The clock of a thread that opens its own files starts before its first `open`; where all share one descriptor, it
//! starts when that is open, and the first byte includes the time that opening took. Those who read beside the others end with
//! them, and are told of apart.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use foreread_testbed::content::{self, Content};
use foreread_workload::{Descriptor, Op, Pattern, Reader, Workload};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::mapping::Mapping;
use super::process;
use super::server::GENERATION;
use super::submitter::{self, Submitter};

/// Reads up to this size are compared whole.
const VERIFIED_WHOLE_MAX: u32 = 4 << 10;
/// Of a larger one this many bytes are. More would measure the generator of the expected bytes.
const SAMPLE_BYTES: usize = 64;
/// Buffers start on a page: a copy to an odd address costs more, and differently from run to run.
const PAGE_BYTES: usize = 4096;
/// A thread stops being timed for its first stretch here.
const STRETCH_BYTES: u64 = 64 << 20;

/// What a reader is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The workload's TOML.
    pub(crate) workload: String,
    /// Cuts the workload's duration.
    pub(crate) duration_ns: u64,
    /// Where file 0, 1, ... of the workload are.
    pub(crate) paths: Vec<PathBuf>,
    /// Their keys on the testbed, whose content is known; empty elsewhere.
    pub(crate) keys: Vec<String>,
    /// Who submits to the library, for a workload that does.
    pub(crate) submitter: Option<Submitter>,
}

/// What a reader measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) first_byte_p50_ms: f64,
    pub(crate) first_byte_max_ms: f64,
    /// Of the slowest thread; absent if one of them read less.
    pub(crate) first_64_mib_s: Option<f64>,
    pub(crate) late: u64,
    pub(crate) latency_us: Latency,
    /// MB/s of the slowest and of the fastest thread.
    pub(crate) thread_mb_per_s: (f64, f64),
    pub(crate) cpu_s: f64,
    /// Of those who read beside, and are in none of the other figures.
    pub(crate) beside: Option<Beside>,
    /// Of this process, where it is the reader and what is read through.
    pub(crate) rss_max_bytes: u64,
    /// What a submission took, where reads are submitted.
    pub(crate) submit_p99_us: Option<f64>,
    pub(crate) submit_mean_us: Option<f64>,
}

/// What those measured who read beside the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Beside {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_us: Latency,
}

impl Reading {
    /// Bytes that all have read.
    pub(crate) fn all_bytes(&self) -> u64 {
        self.bytes + self.beside.as_ref().map_or(0, |beside| beside.bytes)
    }
}

/// How long reads took in microseconds, from the moment that each was due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Latency {
    pub(super) fn of(latency: &Histogram<u64>) -> Self {
        Self {
            mean: latency.mean(),
            p50: latency.value_at_quantile(0.5),
            p90: latency.value_at_quantile(0.9),
            p99: latency.value_at_quantile(0.99),
            max: latency.max(),
        }
    }
}

/// The body of `foreread bench --reader PLAN`.
pub(crate) fn run(plan: &Plan) -> Result<Reading, Error> {
    if let Some(submitter) = plan.submitter {
        return submitter::run(plan, submitter);
    }
    let workload =
        Workload::parse("plan", &plan.workload).map_err(crate::workloads::Error::Workload)?.shortened(plan.duration_ns);
    let shared = workload.descriptor() == Descriptor::Shared;
    let readers: Vec<_> = workload.readers().collect();
    let ready = Barrier::new(readers.len() + 1);
    let reading = AtomicU32::new(workload.threads);
    let opened: OnceLock<Result<Opened, Error>> = OnceLock::new();
    if !plan.keys.is_empty() {
        content::prepare();
    }
    let threads = std::thread::scope(|scope| {
        let threads: Vec<_> = readers
            .iter()
            .map(|reader| {
                let (ready, opened, reading) = (&ready, &opened, &reading);
                scope.spawn(move || {
                    let record = reader.group.pattern.record_bytes() as usize;
                    let mut buffer = vec![0; record + PAGE_BYTES];
                    let aligned = buffer.as_ptr().align_offset(PAGE_BYTES);
                    // Who reads beside the others has begun before them.
                    let first = reader.beside.then(|| reader.operations().next()).flatten();
                    let own = first.map(|op| open(plan, op.file as usize).map(|file| (op.file, file))).transpose();
                    ready.wait();
                    ready.wait();
                    let Some(Ok(opened)) = opened.get() else { return Ok(None) };
                    let walk = Walk { plan, reader, opened, reading, own: own? };
                    let walked = walk.run(&mut buffer[aligned..][..record]);
                    reading.fetch_sub(u32::from(!reader.beside), Relaxed);
                    walked.map(Some)
                })
            })
            .collect();
        ready.wait();
        let _ = opened.set(Opened::new(plan, &workload, shared));
        ready.wait();
        threads.into_iter().map(|thread| thread.join().expect("a reading thread panicked")).collect::<Vec<_>>()
    });
    if let Some(Err(error)) = opened.into_inner() {
        return Err(error);
    }
    let walks = threads.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
    let (beside, walks): (Vec<_>, Vec<_>) = walks.into_iter().partition(|walk| walk.beside);
    let besides = (!beside.is_empty()).then(|| Beside {
        operations: beside.iter().map(|walk| walk.operations).sum(),
        bytes: beside.iter().map(|walk| walk.bytes).sum(),
        latency_us: latency(&beside),
    });
    Ok(Reading { beside: besides, ..summary(&walks) })
}

/// What all threads have in common.
struct Opened {
    files: Vec<File>,
    mappings: Vec<Mapping>,
    opening: Duration,
    start: Instant,
}

impl Opened {
    fn new(plan: &Plan, workload: &Workload, shared: bool) -> Result<Self, Error> {
        let before = Instant::now();
        let paths = if shared { &plan.paths[..workload.files.count as usize] } else { &[] };
        let files = paths.iter().enumerate().map(|(file, _)| open(plan, file)).collect::<Result<Vec<_>, _>>()?;
        let mapped = matches!(workload.pattern, Pattern::MmapRandom { .. });
        let mappings = if mapped {
            let map = |file: &File| Mapping::new(file, workload.files.size_bytes).map_err(Error::io("mapping a file"));
            files.iter().map(map).collect::<Result<Vec<_>, _>>()?
        } else {
            Vec::new()
        };
        let start = Instant::now();
        Ok(Self { files, mappings, opening: start - before, start })
    }
}

fn open(plan: &Plan, file: usize) -> Result<File, Error> {
    let path = &plan.paths[file];
    File::open(path).map_err(|cause| Error::Read {
        path: path.display().to_string(),
        operation: "open",
        offset: 0,
        cause,
    })
}

/// One thread's way through its operations.
struct Walk<'a> {
    plan: &'a Plan,
    reader: &'a Reader<'a>,
    opened: &'a Opened,
    /// How many read who are not beside.
    reading: &'a AtomicU32,
    own: Option<(u32, File)>,
}

/// What one thread measured.
struct Walked {
    beside: bool,
    operations: u64,
    bytes: u64,
    started: Instant,
    ended: Instant,
    first_byte: Option<Duration>,
    stretch: Option<Duration>,
    late: u64,
    latency: Histogram<u64>,
}

impl Walk<'_> {
    fn run(mut self, buffer: &mut [u8]) -> Result<Walked, Error> {
        let pattern = self.reader.group.pattern;
        let (start, period) = (self.opened.start, pattern.period_ns().map(Duration::from_nanos));
        let duration = Duration::from_nanos(self.reader.group.duration_ns);
        let mut walked = Walked {
            beside: self.reader.beside,
            operations: 0,
            bytes: 0,
            started: if self.opened.files.is_empty() { Instant::now() } else { start },
            ended: start,
            first_byte: None,
            stretch: None,
            late: 0,
            latency: latencies(),
        };
        let mut delay_ns = 0;
        for op in self.reader.operations() {
            let due = start + Duration::from_nanos(op.not_before_ns + delay_ns);
            let mut now = Instant::now();
            if now < due {
                std::thread::sleep(due - now);
                now = due;
            }
            let alone = self.reader.beside && self.reading.load(Relaxed) == 0;
            if now - start >= duration || alone {
                break;
            }
            let waits_from = if period.is_some() { due } else { now };
            self.read(&op, buffer)?;
            let done = Instant::now();
            let since_open = done - walked.started + self.opened.opening;
            if walked.first_byte.is_none() {
                walked.first_byte = Some(since_open);
            } else if period.is_some_and(|period| done > due + period) {
                walked.late += 1;
            }
            delay_ns += pattern.delay_ns(done.saturating_duration_since(due).as_nanos() as u64);
            walked.latency.saturating_record((done - waits_from).as_micros() as u64);
            walked.operations += 1;
            walked.bytes += u64::from(op.len);
            if walked.bytes >= STRETCH_BYTES && walked.stretch.is_none() {
                walked.stretch = Some(since_open);
            }
            walked.ended = done;
        }
        Ok(walked)
    }

    fn read(&mut self, op: &Op, buffer: &mut [u8]) -> Result<(), Error> {
        let (index, plan) = (op.file as usize, self.plan);
        if let Some(mapping) = self.opened.mappings.get(index) {
            let byte = mapping.touch(op.offset);
            return self.verify(op, 0, &[byte]);
        }
        let file = match self.opened.files.get(index) {
            Some(file) => file,
            None => self.own_file(op.file)?,
        };
        let buffer = &mut buffer[..op.len as usize];
        let path = || plan.paths[index].display().to_string();
        let got = file.read_at(buffer, op.offset).map_err(|cause| Error::Read {
            path: path(),
            operation: "read",
            offset: op.offset,
            cause,
        })?;
        if got != buffer.len() {
            return Err(Error::Short { path: path(), offset: op.offset, len: op.len, got });
        }
        if op.len <= VERIFIED_WHOLE_MAX {
            self.verify(op, 0, buffer)
        } else {
            // Another place in every record, the same in every run.
            let room = buffer.len() - SAMPLE_BYTES;
            let at = (op.offset / u64::from(op.len)).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % room;
            self.verify(op, at, &buffer[at..at + SAMPLE_BYTES])
        }
    }

    fn own_file(&mut self, index: u32) -> Result<&File, Error> {
        if self.own.as_ref().is_none_or(|(open, _)| *open != index) {
            self.own = None;
            self.own = Some((index, open(self.plan, index as usize)?));
        }
        Ok(&self.own.as_ref().expect("it was opened above").1)
    }

    fn verify(&self, op: &Op, at: usize, found: &[u8]) -> Result<(), Error> {
        let Some(key) = self.plan.keys.get(op.file as usize) else { return Ok(()) };
        let offset = op.offset + at as u64;
        Content::new(key, GENERATION).verify(offset, found).map_err(|_| Error::WrongBytes { path: key.clone(), offset })
    }
}

/// Microseconds with two digits, up to ten minutes; what takes longer counts as that.
pub(super) fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 2).expect("the bounds are in order")
}

fn latency(walks: &[Walked]) -> Latency {
    let mut all = latencies();
    for walk in walks {
        all.add(&walk.latency).expect("all have the same bounds");
    }
    Latency::of(&all)
}

fn summary(walks: &[Walked]) -> Reading {
    let mut first: Vec<f64> =
        walks.iter().filter_map(|walk| Some(walk.first_byte?.as_secs_f64() * 1e3)).collect::<Vec<_>>();
    first.sort_unstable_by(f64::total_cmp);
    let rates: Vec<f64> = walks
        .iter()
        .filter(|walk| walk.operations > 0)
        .map(|walk| walk.bytes as f64 / 1e6 / (walk.ended - walk.started).as_secs_f64())
        .collect();
    let started = walks.iter().map(|walk| walk.started).min();
    let ended = walks.iter().map(|walk| walk.ended).max();
    let stretches =
        walks.iter().map(|walk| walk.stretch.map(|stretch| stretch.as_secs_f64())).collect::<Option<Vec<_>>>();
    Reading {
        operations: walks.iter().map(|walk| walk.operations).sum(),
        bytes: walks.iter().map(|walk| walk.bytes).sum(),
        seconds: started.zip(ended).map_or(0.0, |(started, ended)| (ended - started).as_secs_f64()),
        first_byte_p50_ms: first.get(first.len().saturating_sub(1) / 2).copied().unwrap_or(0.0),
        first_byte_max_ms: first.last().copied().unwrap_or(0.0),
        first_64_mib_s: stretches.and_then(|stretches| stretches.into_iter().reduce(f64::max)),
        late: walks.iter().map(|walk| walk.late).sum(),
        latency_us: latency(walks),
        thread_mb_per_s: (
            rates.iter().copied().reduce(f64::min).unwrap_or(0.0),
            rates.iter().copied().reduce(f64::max).unwrap_or(0.0),
        ),
        cpu_s: process::cpu_s(std::process::id()).unwrap_or(0.0),
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests {
    use foreread_workload::catalogue;

    use super::*;

    /// A directory with a workload's files, at most `bytes` of each, and the plan to read them.
    fn plan(name: &str, from: &str, to: &str, bytes: u64) -> (tempfile::TempDir, Plan) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let text = catalogue::text(name).expect("it is in the catalogue").replace(from, to);
        let workload = Workload::parse("test", &text).expect("the change leaves it correct");
        let keys: Vec<String> = (0..workload.files.count).map(|index| workload.file_name(index)).collect();
        for key in &keys {
            let mut content = vec![0; workload.files.size_bytes.min(bytes) as usize];
            Content::new(key, GENERATION).fill(0, &mut content);
            std::fs::write(dir.path().join(key), content).expect("the directory is writable");
        }
        let paths = keys.iter().map(|key| dir.path().join(key)).collect();
        (dir, Plan { workload: text, duration_ns: u64::MAX, paths, keys, submitter: None })
    }

    #[test]
    fn everything_is_read_and_counted() {
        let (_dir, plan) = plan("sequential-1m", "2GiB", "65MiB", u64::MAX);
        let reading = run(&plan).expect("all bytes are right");
        assert_eq!((reading.operations, reading.bytes), (65, 65 << 20));
        assert!(reading.first_64_mib_s.is_some());
    }

    #[test]
    fn threads_share_a_descriptor_or_a_mapping() {
        for name in ["random-4k-16", "mmap-random"] {
            let (_dir, plan) = plan(name, "8GiB", "16MiB", u64::MAX);
            let threads = catalogue::find(name).expect("it is in the catalogue").threads;
            assert_eq!(run(&plan).expect("all bytes are right").operations, u64::from(threads) * 200);
        }
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let (dir, mut plan) = plan("random-4k-1", "8GiB", "1MiB", u64::MAX);
        plan.keys[0].push('x');
        assert!(matches!(run(&plan), Err(Error::WrongBytes { .. })));
        drop(dir);
    }

    #[test]
    fn a_file_that_ends_early_and_one_that_is_missing_are_errors() {
        let (_dir, short) = plan("sequential-128k", "2GiB", "4MiB", 3 << 20);
        assert!(matches!(run(&short), Err(Error::Short { got: 0, .. })));
        let (dir, missing) = plan("files-16", "512MiB", "1MiB", u64::MAX);
        std::fs::remove_file(dir.path().join("files-16-007.bin")).expect("it is there");
        assert!(matches!(run(&missing), Err(Error::Read { operation: "open", .. })));
    }
}
