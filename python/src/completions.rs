//! Answers for an event loop of asyncio: futures that complete without a thread that waits.
//!
//! ```text
//!   loop's thread:    begin ──> a future, pending ──> the operation starts
//!   engine's thread:  tell ──> queue ── it was empty ──> the waker's channel
//!   waker's thread:   GIL ──> loop.call_soon_threadsafe(drain)
//!   loop's thread:    drain ──> each future of the queue has its result
//! ```
//!
//! What completes before the loop comes to drain shares one wake. What completes while it begins
//! needs none. One thread in the process takes the GIL for all loops, so no thread of an engine
//! ever waits for it. The interpreter ends that thread before it exits ([`stop`]).
//!
//! A future that was cancelled is passed over when its answer comes. Until then the memory that
//! the answer is copied to lives on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use foreread::backend::lock::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::stopped;
use crate::process::{self, Fresh};

/// The result of an operation, made where the GIL is held.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The operations that one event loop waits for.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Completions {
    /// A weak reference to the event loop.
    event_loop: Py<PyAny>,
    shared: Arc<Shared>,
    pending: Mutex<HashMap<u64, Py<PyAny>>>,
    next: AtomicU64,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The loop and its `drain`, while something is pending.
    owner: Mutex<Option<(Py<PyAny>, Py<PyAny>)>>,
}

#[derive(Default)]
struct Queue {
    done: Vec<(u64, Outcome)>,
    /// The loop's thread drains next: it needs no wake.
    comes: bool,
    woken: bool,
}

/// Tells the end of one operation, from any thread.
pub(crate) struct Teller {
    shared: Arc<Shared>,
    operation: u64,
    told: bool,
}

impl Teller {
    /// The operation is over.
    pub(crate) fn tell(mut self, outcome: Outcome) {
        self.push(outcome);
    }

    fn push(&mut self, outcome: Outcome) {
        self.told = true;
        let mut queue = self.shared.queue.lock();
        queue.done.push((self.operation, outcome));
        if !queue.comes && !std::mem::replace(&mut queue.woken, true) {
            drop(queue);
            if let Some(waker) = WAKER.get() {
                waker.wake(&self.shared);
            }
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.told {
            self.push(Box::new(|_| Err(stopped())));
        }
    }
}

impl Completions {
    /// Makes a future and starts its operation, without the GIL. On the thread of the loop.
    pub(crate) fn begin<'py>(slf: &Bound<'py, Self>, start: impl FnOnce(Teller) + Send) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let event_loop = this.event_loop.bind(py).call0()?;
        if event_loop.is_none() {
            return Err(PyRuntimeError::new_err("the event loop is gone"));
        }
        WAKER.get_or_try_make(Waker::start).map_err(|error: std::io::Error| PyErr::from(error))?;
        let future = event_loop.call_method0("create_future")?;
        let operation = this.next.fetch_add(1, Ordering::Relaxed);
        let drain = slf.getattr("drain")?;
        this.pending.lock().insert(operation, future.clone().unbind());
        this.shared.owner.lock().get_or_insert_with(|| (event_loop.unbind(), drain.unbind()));
        let teller = Teller { shared: Arc::clone(&this.shared), operation, told: false };
        this.shared.queue.lock().comes = true;
        py.detach(|| start(teller));
        this.drain(py)?;
        Ok(future)
    }
}

#[pymethods]
impl Completions {
    #[new]
    fn new(event_loop: Py<PyAny>) -> Self {
        Self { event_loop, shared: Arc::default(), pending: Mutex::default(), next: AtomicU64::new(1) }
    }

    /// Completes the futures whose operations are over. On the thread of the loop.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        let done = {
            let mut queue = self.shared.queue.lock();
            queue.comes = false;
            queue.woken = false;
            std::mem::take(&mut queue.done)
        };
        for (operation, outcome) in done {
            let Some(future) = self.pending.lock().remove(&operation) else { continue };
            let future = future.bind(py);
            if future.call_method0("done")?.is_truthy()? {
                continue;
            }
            match outcome(py) {
                Ok(value) => future.call_method1("set_result", (value,))?,
                Err(error) => future.call_method1("set_exception", (error.into_value(py),))?,
            };
        }
        if self.pending.lock().is_empty() {
            let owner = self.shared.owner.lock().take();
            drop(owner);
        }
        Ok(())
    }

    /// How many operations are pending.
    fn __len__(&self) -> usize {
        self.pending.lock().len()
    }
}

static WAKER: Fresh<Waker> = Fresh::new();

/// The thread that wakes event loops.
struct Waker {
    send: Mutex<Option<Sender<Arc<Shared>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Waker {
    fn start() -> std::io::Result<Self> {
        let (send, receive) = channel();
        let thread = std::thread::Builder::new().name("foreread-wake".into()).spawn(move || serve(&receive))?;
        Ok(Self { send: Mutex::new(Some(send)), thread: Mutex::new(Some(thread)) })
    }

    fn wake(&self, shared: &Arc<Shared>) {
        if let Some(send) = &*self.send.lock() {
            // It ends with the interpreter alone.
            let _ = send.send(Arc::clone(shared));
        }
    }
}

fn serve(receive: &Receiver<Arc<Shared>>) {
    while let Ok(shared) = receive.recv() {
        let woken = Python::try_attach(|py| {
            let owner = shared.owner.lock().as_ref().map(|(a, b)| (a.clone_ref(py), b.clone_ref(py)));
            if let Some((event_loop, drain)) = owner {
                // A loop that is closed waits for nothing.
                let _ = event_loop.call_method1(py, "call_soon_threadsafe", (drain,));
            }
        });
        if woken.is_none() {
            return;
        }
    }
}

/// Ends the thread that wakes event loops, and has caches write what was read last: the
/// interpreter is about to exit.
#[pyfunction]
pub(crate) fn stop(py: Python<'_>) {
    py.detach(process::end_engines);
    let Some(waker) = WAKER.get() else { return };
    let send = waker.send.lock().take();
    drop(send);
    let thread = waker.thread.lock().take();
    if let Some(thread) = thread {
        // It may wait for the GIL.
        let _ = py.detach(|| thread.join());
    }
}
