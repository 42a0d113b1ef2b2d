//! The reads of a process, kept for `foreread replay`.
//!
//! ```text
//!   begin ──> each engine keeps its reads, those that are made later as well (`process`)
//!             a thread, every 50 ms: what they have kept, on one clock ──> file
//!   end ────> the last reads ──> the file is flushed, the thread ends
//! ```
//!
//! *Invariants:* the thread never takes the GIL. A child of a fork has no such thread, and leaves
//! the file alone.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use foreread::backend::lock::Mutex;
use foreread_workload::trace::Writer;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::process::{Traced, end_trace, trace, traced};

/// Time between two looks at the engines. Lower costs turns at their locks; higher loses reads of
/// a process that makes more than 100,000 in that time.
const INTERVAL: Duration = Duration::from_millis(50);

/// Bytes of reads that are taken from an engine at a time.
const PART_BYTES: usize = 1 << 20;

/// A recording under way.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Trace {
    path: PathBuf,
    process: u32,
    running: Mutex<Option<Running>>,
}

struct Running {
    stop: Sender<()>,
    thread: JoinHandle<io::Result<(u64, u64)>>,
}

#[pymethods]
impl Trace {
    /// Begins to write the reads of this process to `path`, which is replaced.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        if !trace() {
            return Err(PyRuntimeError::new_err("this process records its reads already"));
        }
        let ends = Ends;
        let out = Writer::new(BufWriter::new(File::create(&path)?))?;
        let mut recording = Recording { out, began: Instant::now(), files: HashMap::new(), reads: 0, lost: 0 };
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("foreread-trace".to_owned()).spawn(move || {
            let _ends = ends;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                recording.take(false)?;
            }
            recording.take(true)?;
            recording.out.flush()?;
            Ok((recording.reads, recording.lost))
        })?;
        Ok(Self { path, process: process::id(), running: Mutex::new(Some(Running { stop, thread })) })
    }

    /// Ends the recording. Returns how many reads were written, and how many came too fast to be.
    fn stop(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        if self.process != process::id() {
            return Err(PyRuntimeError::new_err("a recording ends in the process that began it"));
        }
        let Some(Running { stop, thread }) = self.running.lock().take() else {
            return Err(PyRuntimeError::new_err("the recording has ended already"));
        };
        drop(stop);
        let ended = py.detach(|| thread.join()).map_err(|_| PyRuntimeError::new_err("the recording broke off"))?;
        ended.map_err(|error| {
            let number = error.raw_os_error().unwrap_or(libc::EIO);
            PyOSError::new_err((number, error.to_string(), self.path.clone()))
        })
    }
}

/// Ends the recording when it is dropped, also where it could not begin.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        for Traced { engine, number, .. } in end_trace() {
            while engine.recorded(number, PART_BYTES, true).is_some_and(|recorded| recorded.more) {}
        }
    }
}

struct Recording {
    out: Writer<BufWriter<File>>,
    began: Instant,
    /// The numbers of files in the recording, by the place of their engine and their number there.
    files: HashMap<(usize, u64), u64>,
    reads: u64,
    lost: u64,
}

impl Recording {
    /// Writes what the engines have kept: the reads of all in their order.
    fn take(&mut self, last: bool) -> io::Result<()> {
        let mut reads = Vec::new();
        for (place, Traced { store, engine, number }) in traced().into_iter().enumerate() {
            let clock_ns = engine.started().saturating_duration_since(self.began).as_nanos() as u64;
            let before_ns = self.began.saturating_duration_since(engine.started()).as_nanos() as u64;
            while let Some(recorded) = engine.recorded(number, PART_BYTES, last) {
                for file in recorded.files {
                    let number = self.files.len() as u64;
                    self.files.insert((place, file.file), number);
                    self.out.file(number, file.size, &format!("{store}/{}", file.name))?;
                }
                if recorded.lost > 0 {
                    self.out.lost(recorded.lost)?;
                    self.lost += recorded.lost;
                }
                for (at_ns, file, reader, offset, len) in recorded.reads {
                    let at_ns = (at_ns + clock_ns).saturating_sub(before_ns);
                    let reader = (place as u64) << 32 | reader;
                    reads.push((at_ns, self.files[&(place, file)], reader, offset, len));
                }
                if !recorded.more {
                    break;
                }
            }
        }
        reads.sort_unstable();
        self.reads += reads.len() as u64;
        for (at_ns, file, reader, offset, len) in reads {
            self.out.read(at_ns, file, reader, offset, len)?;
        }
        Ok(())
    }
}
