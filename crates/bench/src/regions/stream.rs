//! An object read in order by the process that measures it: as a file of a mount, or as memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use foreread_backend::{ConnectOptions, Key};
use foreread_engine::Engine;
use foreread_memory::Region;
use foreread_testbed::content::{self, Content};

use crate::error::Error;
use crate::readers::sample;
use crate::regions::plan::{Plan, Touched};
use crate::subject::server::{BUCKET, GENERATION};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;
/// What is read, in messages.
const OBJECT: &str = "the object";

/// Reads a file that holds an object of the testbed, through a mount.
pub(crate) fn read(plan: &Plan, path: &Path) -> Result<Touched, Error> {
    content::prepare();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let content = Content::new(&name, GENERATION);
    let mut buffer = vec![0; READ_BYTES];
    let start = Instant::now();
    let file = File::open(path).map_err(Error::io("opening the file"))?;
    for offset in (0..plan.bytes).step_by(READ_BYTES) {
        let buffer = &mut buffer[..READ_BYTES.min(plan.bytes - offset)];
        file.read_exact_at(buffer, offset as u64).map_err(Error::io("reading the file"))?;
        sample::verify_start(content, OBJECT, offset as u64, buffer)?;
    }
    Ok(Touched { seconds: start.elapsed().as_secs_f64(), touches: plan.bytes as u64, ..Touched::default() })
}

/// Touches each page of an object of the testbed, in a view.
pub(crate) fn view(plan: &Plan, endpoint: &str, key: &str, memory_bytes: u64) -> Result<Touched, Error> {
    content::prepare();
    let storage = ConnectOptions::default().with_endpoint(endpoint).with_anonymous(true);
    let connected = foreread_backend::connect(&format!("s3://{BUCKET}"), &storage).map_err(Error::protocol)?;
    let options = foreread_engine::Options::default().with_memory_bytes(memory_bytes);
    let engine = Engine::new(Arc::clone(&connected.backend), &options).map_err(Error::protocol)?;
    let content = Content::new(key, GENERATION);
    let start = Instant::now();
    let object = engine.runtime().block_on(engine.stat(&Key::new(key))).map_err(Error::protocol)?;
    // SAFETY: the testbed's objects have strong validators.
    #[expect(unsafe_code, reason = "mapping an object")]
    let view = unsafe { Region::map(engine.open(&object)) };
    let view = view.create().map_err(Error::protocol)?;
    for (n, bytes) in view.chunks(READ_BYTES).enumerate() {
        for page in bytes.chunks(PAGE_BYTES) {
            std::hint::black_box(page[0]);
        }
        sample::verify_start(content, OBJECT, (n * READ_BYTES) as u64, bytes)?;
    }
    let (seconds, misses) = (start.elapsed().as_secs_f64(), view.stats().faults);
    Ok(Touched { seconds, touches: plan.bytes as u64, misses, ..Touched::default() })
}
