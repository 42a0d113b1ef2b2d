//! The line of requests at storage that has refused some for being too many.
//!
//! ```text
//!   new ──> door ──┐ one at a time
//!                  ├──> turn ──(policy: now, or after a wait)──> asked ──> taken, or refused
//!   refused before ┘                                                        └─> after a back-off
//! ```
//!
//! As long as nothing was refused, no request waits here. The time in the line is none that the
//! storage was silent: patience counts it only while the storage takes no other request either.
//!
//! It has no rule of its own about how many are sent: `policy`'s [`Throttle`] says.

use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use foreread_policy::{Nanos, Throttle};
use tokio::sync::Mutex as Queue;
use tokio::time::{Instant, sleep, timeout};

use crate::sync::Mutex;

/// The requests that wait for their turn.
pub(crate) struct Line {
    began: Instant,
    state: Mutex<State>,
    /// Those that were never refused pass one at a time, and then stand beside those that were.
    door: Queue<()>,
    turn: Queue<()>,
    waiting: AtomicUsize,
}

struct State {
    throttle: Throttle,
    accepted_at: Instant,
}

/// A request's turn has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// How long it waited for that, while the storage took others.
    pub(crate) waited: Duration,
}

/// The storage has taken no request for as long as one in the line has patience.
#[derive(Debug)]
pub(crate) struct NothingTaken;

impl Line {
    pub(crate) fn new() -> Self {
        let began = Instant::now();
        let state = Mutex::new(State { throttle: Throttle::default(), accepted_at: began });
        Self { began, state, door: Queue::default(), turn: Queue::default(), waiting: AtomicUsize::new(0) }
    }

    /// Waits for the turn of a request. `again`: it was refused before.
    pub(crate) async fn turn(&self, again: bool, patience: Duration) -> Result<Turn, NothingTaken> {
        if !self.state.lock().throttle.is_limited() {
            return Ok(Turn::default());
        }
        let came = Instant::now();
        let _waits = Waits::new(&self.waiting);
        let mut turn = pin!(async {
            let _passes = if again { None } else { Some(self.door.lock().await) };
            let _first = self.turn.lock().await;
            loop {
                let wait = self.state.lock().throttle.take(self.now());
                let Some(wait) = wait else { break };
                sleep(Duration::from_nanos(wait.0)).await;
            }
        });
        while timeout(patience, turn.as_mut()).await.is_err() {
            if self.state.lock().accepted_at.elapsed() >= patience {
                return Err(NothingTaken);
            }
        }
        let is_served = self.state.lock().accepted_at >= came;
        Ok(Turn { waited: if is_served { came.elapsed() } else { Duration::ZERO } })
    }

    /// Whether a second request may be sent for what is late.
    pub(crate) fn may_hedge(&self) -> bool {
        self.waiting.load(Relaxed) == 0 && self.state.lock().throttle.may_hedge(self.now())
    }

    /// The storage took a request.
    pub(crate) fn accepted(&self) {
        let state = &mut *self.state.lock();
        state.accepted_at = Instant::now();
        state.throttle.accepted(self.now());
    }

    /// The storage refused a request for being one too many, and asked for none before `wish`.
    pub(crate) fn refused(&self, wish: Option<Duration>) {
        let wish = wish.map(|wish| Nanos(u64::try_from(wish.as_nanos()).unwrap_or(u64::MAX)));
        self.state.lock().throttle.refused(self.now(), wish);
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }
}

/// A request that waits, until this is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
