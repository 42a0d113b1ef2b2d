//! Operations that are submitted, and complete when the storage has done them.
//!
//! ```text
//!  submit ── full? ──> Busy, and the operation back
//!     └─ tried here and now ── done ──────────────────────────────┐
//!            └─ it would block: goes on elsewhere                 v
//!                  └─ done ── cancelled, expired meanwhile? ──> completions, in the order in which they came ──> wait, poll
//!                                  └─ yes: dropped
//! ```
//!
//! Any operation can be: a read tries memory and then the kernel's, a stat what the kernel remembers, a closure is called once with
//! [`May::NotBlock`]. Who carries on is of no account to who is served: a read belongs to its [`File`] and the stream in it, whichever
//! thread submitted it and whichever completes it.
//!
//! What is submitted and not yet taken as a completion is bounded, also what was cancelled while the storage still works on it: a
//! storm of submissions and cancellations shows as [`Busy`].
//! Deadlines are looked at when completions are asked for, so they cost no timer.
//!
//! Who waits here for reads of local files takes their completions from the kernel by himself ([`Queue`]): there is no thread in between that is woken
//! first, and that wakes him then.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use foreread_backend::{Key, ListPage, Object, Queue, Submitter};
use parking_lot::{Condvar, Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::file::File;
use crate::numbers::Numbers;
use crate::page_table::Pages;
use crate::waiting::Waiting;

/// What can be submitted.
#[non_exhaustive]
pub enum Operation {
    /// [`Engine::stat`], then [`Engine::open`].
    Open(Key),
    /// [`Engine::stat`].
    Stat(Key),
    /// [`Engine::list`].
    List {
        /// What to list the children of.
        prefix: String,
        /// From the page before.
        continuation: Option<String>,
    },
    /// [`File::read`].
    Read {
        /// The open object.
        file: File,
        /// Where, in bytes.
        offset: u64,
        /// How many bytes at most.
        len: usize,
    },
    /// Anything else that can be done with local files.
    Call(Call),
}

/// Called with [`May::NotBlock`] on the submitter's thread; if it returns nothing, once more with [`May::Block`] on another.
pub type Call = Box<dyn FnMut(May) -> Option<Box<dyn Any + Send>> + Send>;

/// Whether a [`Call`] may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// It returns nothing where it would have to.
    NotBlock,
    /// It may.
    Block,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(key) => f.debug_tuple("Open").field(key).finish(),
            Self::Stat(key) => f.debug_tuple("Stat").field(key).finish(),
            Self::List { prefix, .. } => f.debug_tuple("List").field(prefix).finish(),
            Self::Read { file, offset, len } => {
                f.debug_tuple("Read").field(file.object()).field(offset).field(len).finish()
            }
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// What an [`Operation`] has brought.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Of an open.
    Opened(File),
    /// Of a stat.
    Described(Object),
    /// Of a list.
    Listed(ListPage),
    /// Of a read.
    Read(Pages),
    /// Of a call.
    Returned(Box<dyn Any + Send>),
}

/// Which submission it was. Unique within its [`Submissions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An operation that is over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// Which.
    pub ticket: Ticket,
    /// What it has brought. [`ErrorKind::TimedOut`] if its deadline came first.
    pub outcome: Result<Outcome, Error>,
}

/// As much is in flight as may be: take completions, then submit again.
#[derive(Debug)]
pub struct Busy(pub Operation);

/// Operations that one caller has in flight, and their completions. Any thread may submit, any may wait.
///
/// Reads of local files complete on the thread that waits or polls; while none does, on another, a few milliseconds later. A thread that submits them
/// and then computes without a call of the kernel may keep its own for as long as the kernel's clock tick.
///
/// Dropping it cancels what is in flight.
#[derive(Debug)]
pub struct Submissions {
    engine: Engine,
    shared: Arc<Shared>,
    in_flight_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// For those who wait, but for the one who waits for `queue`.
    news: Condvar,
    /// What the storage completes for who takes it.
    queue: Option<Queue>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Operations that the storage, or a thread, still has. Cancelled ones too.
    carried: usize,
    /// Those of them that somebody wants, with the task that carries one and when it expires.
    wanted: Numbers<Ticket, (Option<AbortHandle>, Option<Instant>)>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    completed: VecDeque<Completion>,
    /// What somebody who waits does with the queue.
    taker: Taker,
}

/// See [`Shared::queue`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Taker {
    /// Nobody waits for it.
    #[default]
    None,
    /// One tells of what has completed there, and looks here before he waits.
    Takes,
    /// One waits there.
    Waits,
}

impl Engine {
    /// A place to submit operations to, for at most `in_flight_max` at a time.
    pub fn submissions(&self, in_flight_max: usize) -> Submissions {
        let queue = self.backend().submission().and_then(Submitter::queue);
        let shared = Arc::new(Shared { queue, ..Shared::default() });
        Submissions { engine: self.clone(), shared, in_flight_max }
    }
}

impl Submissions {
    /// Starts `operation`. Never waits for storage. If it is not over at `deadline`, it completes as timed out and delivers nothing.
    ///
    /// Errors: [`Busy`] with the operation, while as many are in flight, or completed and not taken, as may be.
    pub fn submit(&self, operation: Operation, deadline: Option<Instant>) -> Result<Ticket, Busy> {
        let (ticket, missing) = self.start(operation, deadline)?;
        if let Some(missing) = missing {
            let _plug = self.shared.queue.as_ref().map(Queue::plug);
            submit(missing);
        }
        Ok(ticket)
    }

    /// The same for several, of which the storage is told together. As many as may be in flight are taken from `operations`; the ticket of each.
    pub fn submit_all(&self, operations: &mut VecDeque<Operation>, deadline: Option<Instant>) -> Vec<Ticket> {
        let (mut tickets, mut missing) = (Vec::with_capacity(operations.len()), SmallVec::<[_; TOGETHER]>::new());
        while let Some(operation) = operations.pop_front() {
            match self.start(operation, deadline) {
                Ok((ticket, read)) => {
                    tickets.push(ticket);
                    match read {
                        Some(read) if self.engine.has(&read.file) => missing.push(read),
                        Some(read) => submit(read),
                        None => {}
                    }
                }
                Err(Busy(operation)) => {
                    operations.push_front(operation);
                    break;
                }
            }
        }
        if !missing.is_empty() {
            let _plug = self.shared.queue.as_ref().map(Queue::plug);
            self.engine.read_missing(missing);
        }
        tickets
    }

    /// Tries an operation, and starts what is not over then, but for a read: that is given back.
    fn start(&self, operation: Operation, deadline: Option<Instant>) -> Result<(Ticket, Option<Arc<Waiting>>), Busy> {
        let ticket = {
            let mut state = self.shared.state.lock();
            state.expire();
            if state.carried + state.completed.len() >= self.in_flight_max {
                return Err(Busy(operation));
            }
            state.carried += 1;
            state.next += 1;
            let ticket = Ticket(state.next);
            state.wanted.insert(ticket, (None, deadline));
            state.deadlines.extend(deadline.map(|deadline| (deadline, ticket)));
            ticket
        };
        let slot = Slot { shared: Arc::clone(&self.shared), ticket, told: false };
        let engine = || self.engine.clone();
        match operation {
            Operation::Read { file, offset, len } => {
                let done = move |read: Result<Pages, Error>| slot.complete(read.map(Outcome::Read));
                let missing = file.read_resident(offset, len, done).err();
                return Ok((ticket, missing.map(|(len, done)| Waiting::new(file, offset, len, done))));
            }
            Operation::Stat(key) => {
                let engine = engine();
                self.drive(slot, async move { engine.stat(&key).await.map(Outcome::Described) });
            }
            Operation::Open(key) => {
                let engine = engine();
                self.drive(slot, async move {
                    let object = engine.stat(&key).await?;
                    Ok(Outcome::Opened(engine.open(&object)))
                });
            }
            Operation::List { prefix, continuation } => {
                let engine = engine();
                self.drive(
                    slot,
                    async move { engine.list(&prefix, continuation.as_deref()).await.map(Outcome::Listed) },
                );
            }
            Operation::Call(mut call) => match call(May::NotBlock) {
                Some(value) => slot.complete(Ok(Outcome::Returned(value))),
                None => {
                    self.engine.runtime().spawn_blocking(move || {
                        let value = call(May::Block);
                        let nothing = || Error::new(ErrorKind::Invalid, "a call that might block returned nothing");
                        slot.complete(value.map(Outcome::Returned).ok_or_else(nothing));
                    });
                }
            },
        }
        Ok((ticket, None))
    }

    /// Polls once on this thread; what is not ready then goes on as a task.
    fn drive(&self, slot: Slot, future: impl Future<Output = Result<Outcome, Error>> + Send + 'static) {
        let runtime = self.engine.runtime();
        let mut future: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(future);
        let entered = runtime.enter();
        let polled = future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        drop(entered);
        if let std::task::Poll::Ready(outcome) = polled {
            return slot.complete(outcome);
        }
        let ticket = slot.ticket;
        let task = runtime.spawn(async move { slot.complete(future.await) });
        match self.shared.state.lock().wanted.get_mut(&ticket) {
            Some((carrier, _)) => *carrier = Some(task.abort_handle()),
            // Over, or cancelled from another thread meanwhile.
            None => task.abort(),
        }
    }

    /// Gives an operation up: it will not complete. `false` if it has already. What it made the storage do goes on for others who wait
    /// for the same; until it ends the operation counts as in flight.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let mut state = self.shared.state.lock();
        let known = state.give_up(ticket);
        if !known {
            let before = state.completed.len();
            state.completed.retain(|completion| completion.ticket != ticket);
            return state.completed.len() < before;
        }
        known
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> Option<Completion> {
        self.with_completed(Duration::ZERO, VecDeque::pop_front).flatten()
    }

    /// The next completion, waiting for it for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Completion> {
        self.with_completed(timeout, VecDeque::pop_front).flatten()
    }

    /// All completions that there are, appended to `to`, waiting at most `timeout` for one. How many.
    pub fn wait_all(&self, to: &mut Vec<Completion>, timeout: Duration) -> usize {
        let before = to.len();
        self.with_completed(timeout, |completed| to.extend(completed.drain(..)));
        to.len() - before
    }

    fn with_completed<T>(&self, timeout: Duration, take: impl FnOnce(&mut VecDeque<Completion>) -> T) -> Option<T> {
        let until = Instant::now() + timeout;
        let mut state = self.shared.state.lock();
        let mut late = false;
        loop {
            state.expire();
            if !state.completed.is_empty() {
                return Some(take(&mut state.completed));
            }
            if late {
                return None;
            }
            let first = state.deadlines.first().map_or(until, |&(deadline, _)| deadline.min(until));
            match &self.shared.queue {
                Some(queue) if state.taker == Taker::None => self.shared.wait_for(queue, &mut state, first),
                _ => {
                    self.shared.news.wait_until(&mut state, first);
                }
            }
            late = Instant::now() >= until;
        }
    }

    /// Operations in flight: those that the storage or a thread has, and completions that nobody has taken.
    pub fn in_flight(&self) -> usize {
        let state = self.shared.state.lock();
        state.carried + state.completed.len()
    }
}

/// Has the pages of a read fetched.
fn submit(missing: Arc<Waiting>) {
    let engine = Arc::clone(&missing.file.engine);
    engine.read_missing([missing]);
}

/// Reads that are submitted together without an allocation for their list.
const TOGETHER: usize = 16;

/// Completions that are told of at a time. More, and the storage has nothing to do until the caller has seen to all of them; fewer cost more
/// entries of the shard.
const TAKEN_MAX: usize = 8;

impl Drop for Submissions {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        let wanted: Vec<Ticket> = state.wanted.keys().copied().collect();
        for ticket in wanted {
            state.give_up(ticket);
        }
    }
}

impl Shared {
    /// Waits until `until` for something to complete, and tells of what has completed in the queue.
    fn wait_for(&self, queue: &Queue, state: &mut MutexGuard<'_, State>, until: Instant) {
        state.taker = Taker::Takes;
        let none = MutexGuard::unlocked(state, || queue.take(TAKEN_MAX)) == 0 && state.completed.is_empty();
        let rest = until.saturating_duration_since(Instant::now());
        if none && !rest.is_zero() {
            state.taker = Taker::Waits;
            MutexGuard::unlocked(state, || queue.wait(rest));
            state.taker = Taker::Takes;
            MutexGuard::unlocked(state, || queue.take(TAKEN_MAX));
        }
        state.taker = Taker::None;
        // Somebody else may wait for what is still to complete.
        self.news.notify_one();
    }
}

impl State {
    /// Whoever carries it no longer does it for anybody. Whether somebody wanted it.
    fn give_up(&mut self, ticket: Ticket) -> bool {
        let Some((task, deadline)) = self.wanted.remove(&ticket) else { return false };
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        if let Some(task) = task {
            task.abort();
        }
        true
    }

    /// Completes what should have been over by now.
    fn expire(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(deadline, ticket)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.remove(&(deadline, ticket));
            if self.give_up(ticket) {
                let outcome = Err(Error::new(ErrorKind::TimedOut, "the deadline came first"));
                self.completed.push_back(Completion { ticket, outcome });
            }
        }
    }
}

/// An operation on its way. Dropped untold where its carrier was given up, or has failed.
struct Slot {
    shared: Arc<Shared>,
    ticket: Ticket,
    told: bool,
}

impl Slot {
    fn complete(mut self, outcome: Result<Outcome, Error>) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Result<Outcome, Error>) {
        self.told = true;
        let mut state = self.shared.state.lock();
        state.carried -= 1;
        if let Some((_, deadline)) = state.wanted.remove(&self.ticket) {
            if let Some(deadline) = deadline {
                state.deadlines.remove(&(deadline, self.ticket));
            }
            state.completed.push_back(Completion { ticket: self.ticket, outcome });
            let taker = state.taker;
            drop(state);
            match &self.shared.queue {
                Some(queue) if taker == Taker::Waits => queue.wake(),
                _ => {
                    self.shared.news.notify_one();
                }
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.told {
            self.tell(Err(Error::new(ErrorKind::Io, "it was given up, or the engine has been shut down")));
        }
    }
}
