//! An object of a testbed, read in order through a mount, and mapped without one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use foreread_backend::{ConnectOptions, Key};
use foreread_engine::Engine;
use foreread_memory::Region;
use foreread_testbed::content::{self, Content};

use super::toucher::{Memory, Plan, Touched};
use super::{Options, touch};
use crate::bench::error::Error;
use crate::bench::server::{BUCKET, GENERATION, Server};
use crate::bench::subject::{Storage, Subject};
use crate::workloads;

/// The workload whose object and device it is: 2 GiB, 30 ms.
const WORKLOAD: &str = "sequential-1m";
/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;
/// Bytes of each that are compared.
const SAMPLE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

/// Megabytes a second: of a mount, of a view; each the median.
pub(super) fn measure(options: &Options<'_>) -> Result<(f64, f64), Error> {
    let mut chosen = workloads::select(&[WORKLOAD.to_owned()], |_| true)?;
    let (workload, _) = &mut chosen[0];
    if options.quick {
        workload.files.size_bytes /= 8;
    }
    let store = workload.device.store().ok_or_else(|| Error::Protocol { what: "it needs a store".to_owned() })?;
    let bytes = workload.files.size_bytes as usize;
    let key = workload.file_name(0);
    let plan = |memory| Plan { memory, bytes, cycles: 1, random: false, threads: 1, write_each: 1, seed: 1 };
    let (mut mounted, mut viewed) = (Vec::new(), Vec::new());
    for _ in 0..options.repeat {
        let server = Server::start(workload, store, &options.interrupt)?;
        let endpoint = server.endpoint().to_owned();
        let storage = Storage {
            url: format!("s3://{BUCKET}"),
            options: vec!["--endpoint".into(), endpoint.clone().into()],
            endpoint: endpoint.clone(),
            bucket: BUCKET.to_owned(),
            testbed: true,
        };
        let dir = tempfile::tempdir_in(options.scratch).map_err(Error::io("making a temporary directory"))?;
        let mount = Subject::Foreread.mount(&storage, &workload.mount, dir.path(), None, &options.interrupt)?;
        mounted.push(touch(options, &plan(Memory::File { path: dir.path().join(&key) }), None)?);
        drop(mount);
        let memory_bytes = workload.mount.memory_bytes;
        viewed.push(touch(options, &plan(Memory::View { endpoint, key: key.clone(), memory_bytes }), None)?);
    }
    let speed = |runs| super::median(runs).map_or(0.0, |touched| bytes as f64 / 1e6 / touched.seconds);
    Ok((speed(mounted), speed(viewed)))
}

/// Reads a file of the testbed's.
pub(super) fn read(plan: &Plan, path: &Path) -> Result<Touched, Error> {
    content::prepare();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let content = Content::new(&name, GENERATION);
    let mut buffer = vec![0; READ_BYTES];
    let start = Instant::now();
    let file = File::open(path).map_err(Error::io("opening the file"))?;
    for offset in (0..plan.bytes).step_by(READ_BYTES) {
        let buffer = &mut buffer[..READ_BYTES.min(plan.bytes - offset)];
        file.read_exact_at(buffer, offset as u64).map_err(Error::io("reading the file"))?;
        check(content, offset, buffer)?;
    }
    Ok(Touched { seconds: start.elapsed().as_secs_f64(), touches: plan.bytes as u64, ..Touched::default() })
}

/// Touches each page of an object of the testbed's.
pub(super) fn view(plan: &Plan, endpoint: &str, key: &str, memory_bytes: u64) -> Result<Touched, Error> {
    content::prepare();
    let told = |error: &dyn std::fmt::Display| Error::Protocol { what: error.to_string() };
    let storage = ConnectOptions::default().with_endpoint(endpoint.to_owned()).with_anonymous(true);
    let connected = foreread_backend::connect(&format!("s3://{BUCKET}"), &storage).map_err(|error| told(&error))?;
    let options = foreread_engine::Options::default().with_memory_bytes(memory_bytes);
    let engine = Engine::new(Arc::clone(&connected.backend), &options).map_err(|error| told(&error))?;
    let content = Content::new(key, GENERATION);
    let start = Instant::now();
    let object = engine.runtime().block_on(engine.stat(&Key::new(key))).map_err(|error| told(&error))?;
    let view = Region::map(engine.open(&object)).create().map_err(|error| told(&error))?;
    for (n, bytes) in view.chunks(READ_BYTES).enumerate() {
        for page in bytes.chunks(PAGE_BYTES) {
            std::hint::black_box(page[0]);
        }
        check(content, n * READ_BYTES, bytes)?;
    }
    let (seconds, misses) = (start.elapsed().as_secs_f64(), view.stats().faults);
    Ok(Touched { seconds, touches: plan.bytes as u64, misses, ..Touched::default() })
}

fn check(content: Content, offset: usize, bytes: &[u8]) -> Result<(), Error> {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let wrong = |_| Error::WrongBytes { path: "the object".to_owned(), offset: offset as u64 };
    content.verify(offset as u64, sample).map_err(wrong)
}
