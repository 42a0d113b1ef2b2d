//! The line of requests at storage that has refused some for being too many.
//!
//! ```text
//!   refused before ──> again ──┐ first
//!                              ├──(policy: now, or after a wait)──> asked ──> taken, or refused
//!   new ─────────────> new ────┘ when none waits there                    └─> after a back-off
//! ```
//!
//! As long as nothing was refused, no request waits here. The time in the line is none that the
//! storage was silent: patience counts it only while the storage takes no other request either.
//!
//! Turns are given by a task of the engine's own: a request whose caller does not poll it holds
//! up no other one.
//!
//! It has no rule of its own about how many are sent: `policy`'s [`Throttle`] says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use foreread_policy::{Nanos, Throttle};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::sync::Mutex;

/// The requests that wait for their turn.
pub(crate) struct Line {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    throttle: Throttle,
    accepted_at: Instant,
    again: VecDeque<oneshot::Sender<()>>,
    new: VecDeque<oneshot::Sender<()>>,
    /// A task gives turns to those that wait.
    is_served: bool,
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
    pub(crate) fn new() -> Arc<Self> {
        let began = Instant::now();
        let state = State {
            throttle: Throttle::default(),
            accepted_at: began,
            again: VecDeque::new(),
            new: VecDeque::new(),
            is_served: false,
        };
        Arc::new(Self { began, state: Mutex::new(state) })
    }

    /// Waits for the turn of a request. `again`: it was refused before.
    pub(crate) async fn turn(self: &Arc<Self>, again: bool, patience: Duration) -> Result<Turn, NothingTaken> {
        let Some(mut given) = self.join(again) else { return Ok(Turn::default()) };
        let came = Instant::now();
        // A task that ends without giving turns ends with its runtime.
        while timeout(patience, &mut given).await.is_err() {
            if self.state.lock().accepted_at.elapsed() >= patience {
                return Err(NothingTaken);
            }
        }
        let is_taken = self.state.lock().accepted_at >= came;
        Ok(Turn { waited: if is_taken { came.elapsed() } else { Duration::ZERO } })
    }

    /// Stands in the line, unless it is the request's turn at once.
    fn join(self: &Arc<Self>, again: bool) -> Option<oneshot::Receiver<()>> {
        let state = &mut *self.state.lock();
        if !state.throttle.is_limited() || (state.is_empty() && state.throttle.take(self.now()).is_none()) {
            return None;
        }
        let (sender, given) = oneshot::channel();
        if again { &mut state.again } else { &mut state.new }.push_back(sender);
        if !state.is_served {
            state.is_served = true;
            tokio::spawn(serve(Arc::clone(self)));
        }
        Some(given)
    }

    /// Gives as many turns as there are now. Returns when there is another one, if one waits.
    fn give(&self) -> Option<Duration> {
        let state = &mut *self.state.lock();
        loop {
            let waits = if state.again.is_empty() { &mut state.new } else { &mut state.again };
            match waits.front() {
                None => {
                    state.is_served = false;
                    return None;
                }
                // Its caller has given it up.
                Some(first) if first.is_closed() => {}
                Some(_) => {
                    if let Some(wait) = state.throttle.take(self.now()) {
                        return Some(Duration::from_nanos(wait.0));
                    }
                }
            }
            if let Some(first) = waits.pop_front() {
                // One that is given up just now has lost its turn, as it would a moment later.
                let _ = first.send(());
            }
        }
    }

    /// Whether a second request may be sent for what is late.
    pub(crate) fn may_hedge(&self) -> bool {
        let state = &*self.state.lock();
        state.is_empty() && state.throttle.may_hedge(self.now())
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

impl State {
    fn is_empty(&self) -> bool {
        self.again.is_empty() && self.new.is_empty()
    }
}

/// Gives turns until none waits.
async fn serve(line: Arc<Line>) {
    while let Some(wait) = line.give() {
        sleep(wait).await;
    }
}
