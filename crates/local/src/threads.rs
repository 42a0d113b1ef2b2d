//! Threads that wait for the disk, where the kernel does not.
//!
//! One thread a read, as many as [`THREADS_MAX`]; the rest of what may be in flight waits for one of them. Threads come when they are
//! needed and go when they have been idle for [`IDLE`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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
    /// Reads that a thread has.
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
    /// Hands a read to a thread, or back.
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
                // Those that there are serve it; without any, nobody would.
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
                // Whoever is told may ask for the next one, which counts without this one.
                self.state.lock().running -= 1;
                reading.finish(result);
                state = self.state.lock();
                continue;
            }
            if state.stopped {
                break;
            }
            state.idle += 1;
            let timed_out = self.work.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

/// Threads at most. A disk that serves more at the same time is one that `io_uring` is made for.
const THREADS_MAX: usize = 64;

/// How long a thread waits for the next read: longer than a pause between two bursts.
const IDLE: Duration = Duration::from_secs(10);
