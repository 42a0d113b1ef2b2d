//! Threads that wait for the disk, where `io_uring` is not available.
//!
//! ```text
//!   submit ── a thread is idle ──> it reads       below THREADS_MAX ──> a new thread reads
//!         └── else ──> waits in line                 IN_FLIGHT_MAX ──> refused
//! ```
//!
//! Each thread carries out one read at a time. A thread ends when it has been idle for [`IDLE`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

use crate::reading::{IN_FLIGHT_MAX, Reading};

#[derive(Default)]
pub(crate) struct Threads {
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Reading>,
    /// Reads that a thread carries out.
    running: usize,
    threads: usize,
    idle: usize,
    stopped: bool,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("in_flight", &self.in_flight()).finish()
    }
}

impl Threads {
    /// Hands a read to a thread; returns it if too many are in flight.
    pub(crate) fn submit(&self, reading: Reading) -> Result<(), Reading> {
        let mut state = self.pool.state.lock();
        if state.waiting.len() + state.running >= IN_FLIGHT_MAX {
            return Err(reading);
        }
        if state.waiting.len() >= state.idle && state.threads < THREADS_MAX {
            let pool = Arc::clone(&self.pool);
            let spawned = std::thread::Builder::new().name("foreread-pread".to_owned()).spawn(move || pool.serve());
            match spawned {
                Ok(_) => state.threads += 1,
                // The threads that exist serve it. Without any, the read would never end.
                Err(_) if state.threads == 0 => return Err(reading),
                Err(error) => tracing::debug!(%error, "no further thread"),
            }
        }
        state.waiting.push_back(reading);
        drop(state);
        self.pool.work.notify_one();
        Ok(())
    }

    pub(crate) fn in_flight(&self) -> usize {
        let state = self.pool.state.lock();
        state.waiting.len() + state.running
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.pool.state.lock().stopped = true;
        self.pool.work.notify_all();
    }
}

impl Pool {
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(mut reading) = state.waiting.pop_front() {
                state.running += 1;
                drop(state);
                let result = reading.wait();
                // Before `done` is called: it may submit the next read, which this one must not
                // keep out.
                self.state.lock().running -= 1;
                reading.finish(result);
                state = self.state.lock();
                continue;
            }
            if state.stopped {
                break;
            }
            state.idle += 1;
            let timed_out = self.work.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if timed_out && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

/// Threads at most. Lower: fewer reads at the disk at a time. Higher: more memory for stacks; a
/// disk that serves more at a time is better served by `io_uring`.
const THREADS_MAX: usize = 64;

/// How long an idle thread waits for the next read. Lower: threads end in a pause between two
/// bursts. Higher: idle threads keep their memory longer.
const IDLE: Duration = Duration::from_secs(10);
