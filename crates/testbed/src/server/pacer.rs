//! Runs the device model in real time: says when a response may send its head, and how many bytes
//! of its body.
//!
//! ```text
//!  response ──Request, Taken, Cancel──> model <──Tick── clock thread, at the next deadline
//!     ^                                  │
//!     └────── wakes, with the bytes ─────┘
//! ```
//!
//! One thread keeps the time for all responses: timers of an async runtime round up to a
//! millisecond, which is 3% of a first byte of 30 ms, and one wake-up for all costs less than a
//! timer for each quantum. Being late does not slow the device: the model keeps its own time, and
//! a response that wakes late finds more bytes.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use foreread_device::object_store::{Action, Config, Event, ObjectStore, RequestId};

/// The device and its clock. Dropping the last handle ends the clock's thread.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    shared: Arc<Shared>,
    _alive: Arc<Alive>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The clock sleeps on it.
    clock: Condvar,
    start: Instant,
}

#[derive(Debug)]
struct State {
    store: ObjectStore,
    responses: HashMap<RequestId, Progress>,
    next_id: RequestId,
    /// When the clock will wake; `None` while it sleeps without an end.
    wakes_ns: Option<u64>,
    stopped: bool,
}

/// Granted steps of a response that it has not taken yet.
#[derive(Debug, Default)]
struct Progress {
    head: bool,
    refused_ns: Option<u64>,
    granted: u64,
    waker: Option<Waker>,
}

/// Ends the clock when the last user is gone.
#[derive(Debug)]
struct Alive(Arc<Shared>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.clock.notify_one();
    }
}

/// The device will not serve the request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) retry_after: Duration,
}

impl Pacer {
    pub(crate) fn start(config: Config) -> std::io::Result<Self> {
        let state = State {
            store: ObjectStore::new(config),
            responses: HashMap::new(),
            next_id: 0,
            wakes_ns: None,
            stopped: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), clock: Condvar::new(), start: Instant::now() });
        let clock = Arc::clone(&shared);
        std::thread::Builder::new().name("testbed-clock".to_owned()).spawn(move || clock.keep_time())?;
        Ok(Self { _alive: Arc::new(Alive(Arc::clone(&shared))), shared })
    }

    /// A request arrived; its response has `bytes` of body; its first byte takes `slowdown` times
    /// as long as drawn.
    pub(crate) fn request(&self, bytes: u64, slowdown: u32) -> Pass {
        let mut state = self.shared.state();
        let id = state.next_id;
        state.next_id += 1;
        state.responses.insert(id, Progress::default());
        self.shared.step(state, Event::Request { id, bytes, slowdown });
        Pass { pacer: self.clone(), id }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Tells the model of an event, wakes the responses that it concerns, and makes the clock wake
    /// in time.
    fn step(&self, mut state: MutexGuard<'_, State>, event: Event) {
        let mut wakers = Vec::new();
        let now_ns = self.now_ns();
        state.step(now_ns, event, &mut wakers);
        let wakes_ns = state.next_wake(now_ns);
        let clock_is_late = wakes_ns.is_some_and(|wakes_ns| state.wakes_ns.is_none_or(|clock_ns| wakes_ns < clock_ns));
        if clock_is_late {
            // The next caller need not wake it again.
            state.wakes_ns = wakes_ns;
        }
        drop(state);
        if clock_is_late {
            self.clock.notify_one();
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    fn keep_time(&self) {
        let mut state = self.state();
        while !state.stopped {
            let mut wakers = Vec::new();
            let now_ns = self.now_ns();
            state.step(now_ns, Event::Tick, &mut wakers);
            if !wakers.is_empty() {
                drop(state);
                wakers.into_iter().for_each(Waker::wake);
                state = self.state();
            }
            state.wakes_ns = state.next_wake(now_ns);
            state = match state.wakes_ns {
                Some(wakes_ns) => {
                    let sleep = Duration::from_nanos(wakes_ns.saturating_sub(self.now_ns()));
                    self.clock.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.clock.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl State {
    /// When the clock must wake. Pieces that no client waits for are gathered for a tick; heads,
    /// and the start and the end of bodies, have their own time.
    fn next_wake(&self, now_ns: u64) -> Option<u64> {
        let gathered_ns = self.store.next_deadline().map(|deadline_ns| deadline_ns.max(now_ns + TICK_NS));
        gathered_ns.into_iter().chain(self.store.next_urgent()).min()
    }

    fn step(&mut self, now_ns: u64, event: Event, wakers: &mut Vec<Waker>) {
        self.store.handle(now_ns, event);
        while let Some(action) = self.store.poll_action() {
            let (Action::Head { id, .. } | Action::Body { id, .. } | Action::Refuse { id, .. }) = action;
            let Some(progress) = self.responses.get_mut(&id) else { continue };
            match action {
                Action::Head { .. } => progress.head = true,
                Action::Body { bytes, .. } => progress.granted += bytes,
                Action::Refuse { retry_after_ns, .. } => progress.refused_ns = Some(retry_after_ns),
            }
            wakers.extend(progress.waker.take());
        }
    }
}

/// A request at the device. Dropping it tells the device that the client is gone.
#[derive(Debug)]
pub(crate) struct Pass {
    pacer: Pacer,
    id: RequestId,
}

impl Pass {
    /// Waits until the head may be sent.
    pub(crate) async fn head(&self) -> Result<(), Refused> {
        std::future::poll_fn(|cx| {
            let mut state = self.pacer.shared.state();
            let Some(progress) = state.responses.get_mut(&self.id) else { return Poll::Ready(Ok(())) };
            if let Some(refused_ns) = progress.refused_ns {
                return Poll::Ready(Err(Refused { retry_after: Duration::from_nanos(refused_ns) }));
            }
            if progress.head {
                return Poll::Ready(Ok(()));
            }
            progress.wait(cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until bytes of the body may be sent, and takes all of them: more than zero.
    pub(crate) fn poll_bytes(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let mut state = self.pacer.shared.state();
        let Some(progress) = state.responses.get_mut(&self.id) else { return Poll::Pending };
        if progress.granted == 0 {
            progress.wait(cx);
            return Poll::Pending;
        }
        let bytes = std::mem::take(&mut progress.granted);
        self.pacer.shared.step(state, Event::Taken { id: self.id, bytes });
        Poll::Ready(bytes)
    }
}

impl Progress {
    fn wait(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.pacer.shared.state();
        state.responses.remove(&self.id);
        self.pacer.shared.step(state, Event::Cancel { id: self.id });
    }
}

/// Pieces from the middle of bodies wait for each other this long, so that at 80 MB/s one write
/// has 160 KB. Shorter costs CPU (a wake-up and a write for each piece); longer makes bursts
/// larger than the window of the model makes good.
const TICK_NS: u64 = 2_000_000;
