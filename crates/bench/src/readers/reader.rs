//! The program that reads: a process of its own, so that it can be in a memory cgroup, and so that
//! a mount that hangs never hangs the benchmark. A workload may have several.
//!
//! ```text
//!  bench ──plan (a JSON file)──> foreread bench --reader PLAN ──"ready"──> bench (waits for all)
//!                                       <──end of its input── bench
//!                                reads  ──result (JSON on stdout)──> bench
//! ```
//!
//! One thread per thread of the workload: plain `pread` into one buffer, used for every read; no
//! advice to the kernel, no queue. A sample of every read is compared (`sample.rs`).
//!
//! The clock of a thread that opens its own files starts before its first `open`. Where all
//! threads share one descriptor, the clock starts when that is open, and the first byte includes
//! the time of opening. Readers that run *beside* the others end with them, and are reported
//! apart.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use foreread_testbed::content;
use foreread_workload::{Descriptor, Op, Pattern, Reader, Workload};

use crate::error::Error;
use crate::process::usage;
use crate::readers::mapping::Mapping;
use crate::readers::plan::Plan;
use crate::readers::reading::{Part, Walked};
use crate::readers::{sample, tree};

/// Buffers start on a page: a copy to an odd address costs more, and varies from run to run.
const PAGE_BYTES: usize = 4096;
/// The length of a thread's first stretch, which is timed.
const STRETCH_BYTES: u64 = 64 << 20;

/// Reads as `plan` says. `start` is called when all else is done; nothing is read before it
/// returns.
pub(crate) fn run(plan: &Plan, start: impl FnOnce() -> Result<(), Error>) -> Result<Part, Error> {
    let workload = Workload::parse("plan", &plan.workload).map_err(Error::Workload)?.shortened(plan.duration_ns);
    if let (Some(tree), [top, ..]) = (workload.tree, &plan.paths[..]) {
        return tree::run(top, &workload, tree, start);
    }
    let shared = workload.descriptor() == Descriptor::Shared;
    let readers: Vec<_> = workload.readers_of(plan.process).collect();
    let ready = Barrier::new(readers.len() + 1);
    let reading = AtomicU32::new(readers.iter().filter(|reader| !reader.beside).count() as u32);
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
                    // A reader beside the others opens its file before they begin.
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
        let _ = opened.set(start().and_then(|()| Opened::new(plan, &workload, shared)));
        ready.wait();
        threads.into_iter().map(|thread| thread.join().expect("a reading thread panicked")).collect::<Vec<_>>()
    });
    if let Some(Err(error)) = opened.into_inner() {
        return Err(error);
    }
    let threads = threads.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
    Ok(Part { threads, cpu_s: usage::cpu_s(std::process::id()).unwrap_or(0.0), trodden: None })
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
    /// Threads that still read and are not beside.
    reading: &'a AtomicU32,
    own: Option<(u32, File)>,
}

impl Walk<'_> {
    fn run(mut self, buffer: &mut [u8]) -> Result<Walked, Error> {
        let pattern = self.reader.group.pattern;
        let (start, period) = (self.opened.start, pattern.period_ns().map(Duration::from_nanos));
        let duration = Duration::from_nanos(self.reader.group.duration_ns);
        let started = if self.opened.files.is_empty() { Instant::now() } else { start };
        let mut walked = Walked::new(self.reader.beside, started - start);
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
            let since_open = done - started + self.opened.opening;
            if walked.first_byte.is_none() {
                walked.first_byte = Some(since_open);
            } else if period.is_some_and(|period| done > due + period) {
                walked.late += 1;
            }
            delay_ns += pattern.delay_ns(done.saturating_duration_since(due).as_nanos() as u64);
            walked.latency_us.record(done - waits_from);
            walked.operations += 1;
            walked.bytes += u64::from(op.len);
            if walked.bytes >= STRETCH_BYTES && walked.stretch.is_none() {
                walked.stretch = Some(since_open);
            }
            walked.ended = done - start;
        }
        Ok(walked)
    }

    fn read(&mut self, op: &Op, buffer: &mut [u8]) -> Result<(), Error> {
        let (index, plan) = (op.file as usize, self.plan);
        if let Some(mapping) = self.opened.mappings.get(index) {
            let byte = mapping.touch(op.offset);
            return self.verify(op, &[byte]);
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
        self.verify(op, buffer)
    }

    fn own_file(&mut self, index: u32) -> Result<&File, Error> {
        if self.own.as_ref().is_none_or(|(open, _)| *open != index) {
            self.own = None;
            self.own = Some((index, open(self.plan, index as usize)?));
        }
        Ok(&self.own.as_ref().expect("it was opened above").1)
    }

    fn verify(&self, op: &Op, found: &[u8]) -> Result<(), Error> {
        let Some(key) = self.plan.keys.get(op.file as usize) else { return Ok(()) };
        // Another place in every record.
        sample::verify(key, op.offset, found, op.offset / u64::from(op.len))
    }
}

#[cfg(test)]
mod tests {
    use foreread_testbed::content::Content;
    use foreread_workload::catalogue;

    use super::*;
    use crate::readers::reading::Reading;
    use crate::subject::server::GENERATION;

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
        (dir, Plan { workload: text, duration_ns: u64::MAX, process: 0, paths, keys, submitter: None })
    }

    /// All of the workload's processes, one after another.
    fn read(plan: &Plan) -> Result<Reading, Error> {
        let processes = Workload::parse("test", &plan.workload).expect("it was parsed before").processes;
        let part = |process| run(&Plan { process, ..plan.clone() }, || Ok(()));
        Ok(Reading::of((0..processes).map(part).collect::<Result<Vec<_>, _>>()?))
    }

    #[test]
    fn everything_is_read_and_counted() {
        let (_dir, plan) = plan("sequential-1m", "2GiB", "65MiB", u64::MAX);
        let reading = read(&plan).expect("all bytes are right");
        assert_eq!((reading.operations, reading.bytes), (65, 65 << 20));
        assert!(reading.first_64_mib_s.is_some());
    }

    #[test]
    fn threads_share_a_descriptor_or_a_mapping() {
        for name in ["random-4k-16", "mmap-random"] {
            let (_dir, plan) = plan(name, "8GiB", "16MiB", u64::MAX);
            let threads = catalogue::find(name).expect("it is in the catalogue").threads;
            assert_eq!(read(&plan).expect("all bytes are right").operations, u64::from(threads) * 200);
        }
    }

    #[test]
    fn every_process_reads_its_part_and_all_together_are_counted() {
        let (_dir, plan) = plan("one-file-64", "1GiB", "2MiB", u64::MAX);
        let reading = read(&plan).expect("all bytes are right");
        assert_eq!((reading.operations, reading.bytes), (128, 128 << 20));
        let part = run(&Plan { process: 7, ..plan }, || Ok(())).expect("all bytes are right");
        assert_eq!(part.threads.len(), 8, "of 64 in 8");
    }

    #[test]
    fn nothing_is_read_before_the_start() {
        let (_dir, plan) = plan("sequential-1m", "2GiB", "1MiB", u64::MAX);
        let refused = || Err(Error::Protocol { what: "no".to_owned() });
        assert!(matches!(run(&plan, refused), Err(Error::Protocol { .. })));
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let (dir, mut plan) = plan("random-4k-1", "8GiB", "1MiB", u64::MAX);
        plan.keys[0].push('x');
        assert!(matches!(read(&plan), Err(Error::WrongBytes { .. })));
        drop(dir);
    }

    #[test]
    fn a_file_that_ends_early_and_one_that_is_missing_are_errors() {
        let (_dir, short) = plan("sequential-128k", "2GiB", "4MiB", 3 << 20);
        assert!(matches!(read(&short), Err(Error::Short { got: 0, .. })));
        let (dir, missing) = plan("files-16", "512MiB", "1MiB", u64::MAX);
        std::fs::remove_file(dir.path().join("files-16-007.bin")).expect("it is there");
        assert!(matches!(read(&missing), Err(Error::Read { operation: "open", .. })));
    }
}
