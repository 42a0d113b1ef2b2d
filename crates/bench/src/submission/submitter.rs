//! The program that submits: a process of its own, which reads through the library and not through
//! a mount.
//!
//! ```text
//!  one thread:  submit for each reader without a read ──> completions ──> check, and again
//! ```
//!
//! Each of the workload's threads is a reader with one read in flight. One thread submits for all
//! of them, as fio does, which it is compared with. A sample of every read is checked. The time of
//! a submission is that of the call alone, divided by the reads that it submits.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_backend::{Backend, ConnectOptions, Mechanism};
use foreread_engine::{Completion, Engine, Object, Operation, Options, Outcome, Ticket};
use foreread_testbed::content::{self, Content};
use foreread_workload::{Device, Op, Operations, Workload};
use futures::StreamExt;
use hdrhistogram::Histogram;

use crate::error::Error;
use crate::process::usage;
use crate::readers::plan::{Plan, Submitter};
use crate::readers::reading::{Latencies, Latency, Reading};
use crate::readers::sample;
use crate::subject::server::GENERATION;
use crate::submission::emulated::Emulated;

/// The most reads in one submission. Higher, and the first of them waits longer for the last.
const BATCH_MAX: usize = 8;
/// The longest time without a completion; then the run has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The storage of a run, and the object that is read.
struct Site {
    backend: Arc<dyn Backend>,
    object: Object,
}

/// Reads as `plan` says, through `submitter`.
pub(crate) fn run(plan: &Plan, submitter: Submitter) -> Result<Reading, Error> {
    let workload = Workload::parse("plan", &plan.workload).map_err(Error::Workload)?.shortened(plan.duration_ns);
    content::prepare();
    let runtime = tokio::runtime::Runtime::new().map_err(Error::io("starting threads"))?;
    let site = match (&workload.device, submitter) {
        (Device::Emulated(name), _) => {
            let profile = foreread_sim::profile::find(name);
            let device = profile.and_then(|p| Emulated::new(p, &workload.file_name(0), workload.files.size_bytes));
            let device = device.ok_or_else(|| Error::protocol(format!("no block device is called {name}")))?;
            Site { object: device.object().clone(), backend: Arc::new(device) }
        }
        (_, Submitter::Library { threads, .. }) => {
            let path = plan.paths.first().map_or(Path::new(""), PathBuf::as_path);
            let local = if threads { Mechanism::Threads } else { Mechanism::IoUring };
            let options = ConnectOptions::default().with_local(local);
            let url = path.display().to_string();
            let connected = foreread_backend::connect(&url, &options).map_err(Error::protocol)?;
            let key = foreread_backend::Key::new(connected.path.as_str());
            let object = runtime.block_on(connected.backend.stat(&key)).map_err(Error::protocol)?;
            Site { backend: connected.backend, object }
        }
        (_, Submitter::Bare { .. }) => {
            return Err(Error::protocol("only an emulated device is read without the library"));
        }
    };
    let mut measured = match submitter {
        Submitter::Library { seed, .. } => submit(&workload.with_seed(seed), &site)?,
        Submitter::Bare { depth } => runtime.block_on(bare(workload.with_threads(depth), &site))?,
    };
    measured.cpu_s = usage::cpu_s(std::process::id()).unwrap_or(0.0);
    measured.rss_max_bytes = usage::rss_max_bytes(std::process::id()).unwrap_or(0);
    Ok(measured)
}

/// What is counted during the run.
struct Tally {
    content: Content,
    path: String,
    operations: u64,
    bytes: u64,
    latency_us: Latencies,
}

impl Tally {
    fn new(object: &Object) -> Self {
        let path = object.key.as_str().to_owned();
        Self {
            content: Content::new(&path, GENERATION),
            path,
            operations: 0,
            bytes: 0,
            latency_us: Latencies::default(),
        }
    }

    fn take(&mut self, op: &Op, found: &[u8], took: Duration) -> Result<(), Error> {
        if found.len() != op.len as usize {
            let (path, offset, len, got) = (self.path.clone(), op.offset, op.len, found.len());
            return Err(Error::Short { path, offset, len, got });
        }
        sample::verify_start(self.content, &self.path, op.offset, found)?;
        self.operations += 1;
        self.bytes += u64::from(op.len);
        self.latency_us.record(took);
        Ok(())
    }

    fn reading(self, took: Duration, submit_ns: Option<&Histogram<u64>>) -> Reading {
        Reading {
            operations: self.operations,
            bytes: self.bytes,
            seconds: took.as_secs_f64(),
            latency_us: Latency::of(&self.latency_us),
            submit_p99_us: submit_ns.map(|all| all.value_at_quantile(0.99) as f64 / 1e3),
            submit_mean_us: submit_ns.map(|all| all.mean() / 1e3),
            ..Reading::default()
        }
    }
}

/// Nanoseconds with two digits, up to ten seconds.
fn submit_times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("the bounds are in order")
}

/// Submits for all readers, from one thread.
fn submit(workload: &Workload, site: &Site) -> Result<Reading, Error> {
    let options = Options::default().with_memory_bytes(workload.mount.memory_bytes);
    let engine = Engine::new(Arc::clone(&site.backend), &options).map_err(Error::protocol)?;
    let file = engine.open(&site.object);
    let mut readers: Vec<Operations<'_>> = (0..workload.threads).map(|reader| workload.operations(reader)).collect();
    let submissions = engine.submissions(readers.len());
    let mut free: Vec<usize> = (0..readers.len()).collect();
    let mut in_flight: HashMap<Ticket, (usize, Op, Instant)> = HashMap::new();
    let (mut next, mut batch) = (Vec::new(), VecDeque::new());
    let mut completed: Vec<Completion> = Vec::new();
    let (mut tally, mut submit_ns) = (Tally::new(file.object()), submit_times());
    let start = Instant::now();
    let duration = Duration::from_nanos(workload.duration_ns);
    let mut last = start;
    loop {
        let ends = start.elapsed() >= duration;
        while !free.is_empty() && !ends {
            let together = free.len().saturating_sub(BATCH_MAX)..;
            next.extend(free.drain(together).filter_map(|reader| Some((reader, readers[reader].next()?))));
            let read = |op: &Op| Operation::Read { file: file.clone(), offset: op.offset, len: op.len as usize };
            batch.extend(next.iter().map(|(_, op)| read(op)));
            let before = Instant::now();
            let tickets = submissions.submit_all(&mut batch, None);
            let each_ns = before.elapsed().as_nanos() as u64 / tickets.len().max(1) as u64;
            submit_ns.saturating_record_n(each_ns, tickets.len() as u64);
            if let Some(busy) = batch.pop_front() {
                return Err(Error::protocol(format!("no room for {busy:?}")));
            }
            in_flight.extend(
                tickets.into_iter().zip(next.drain(..)).map(|(ticket, (reader, op))| (ticket, (reader, op, before))),
            );
        }
        if in_flight.is_empty() {
            return Ok(tally.reading(last - start, Some(&submit_ns)));
        }
        if submissions.wait_all(&mut completed, SILENCE_MAX) == 0 {
            return Err(Error::protocol("nothing completes"));
        }
        last = Instant::now();
        for Completion { ticket, outcome, .. } in completed.drain(..) {
            let Some((reader, op, since)) = in_flight.remove(&ticket) else { continue };
            match outcome {
                Ok(Outcome::Read(pages)) => tally.take(&op, pages.as_slice().unwrap_or_default(), last - since)?,
                other => return Err(Error::protocol(format!("{other:?}"))),
            }
            free.push(reader);
        }
    }
}

/// Reads from the device itself: each reader makes one read after another.
async fn bare(workload: Workload, site: &Site) -> Result<Reading, Error> {
    let (start, duration) = (Instant::now(), Duration::from_nanos(workload.duration_ns));
    let mut tally = Tally::new(&site.object);
    let mut last = start;
    let readers = (0..workload.threads).map(|thread| {
        let operations = workload.operations(thread);
        futures::stream::unfold(operations, move |mut operations| async move {
            let since = Instant::now();
            let op = operations.next().filter(|_| since - start < duration)?;
            let range = op.offset..op.offset + u64::from(op.len);
            let mut found = Vec::with_capacity(op.len as usize);
            let read = async {
                let mut body =
                    site.backend.read(&site.object.key, &site.object.version, range).await.map_err(Error::protocol)?;
                while let Some(piece) = body.next().await {
                    found.extend_from_slice(&piece.map_err(Error::protocol)?);
                }
                Ok::<_, Error>((op, found, since))
            };
            Some((read.await, operations))
        })
        .boxed()
    });
    let mut reads = futures::stream::select_all(readers);
    while let Some(read) = reads.next().await {
        let (op, found, since) = read?;
        last = Instant::now();
        tally.take(&op, &found, last - since)?;
    }
    drop(reads);
    Ok(tally.reading(last - start, None))
}
