//! Operations that are submitted, and complete when the storage has done them.
//!
//! ```text
//!  submit ── full? ──> Busy, and the operation back
//!     └─ tried on this thread ── done ───────────────────────────┐
//!            └─ it would block: continues elsewhere              v
//!                  └─ done ── cancelled or expired? ─ no ──> completions, in order ──> wait, poll
//!                                  └─ yes: dropped
//! ```
//!
//! Every operation is tried first: a read looks in memory and then in the kernel's, a stat asks
//! what the kernel remembers, a closure is called once with [`May::NotBlock`]. A read belongs to
//! its [`File`] and to the stream in it, whichever thread submits it and whichever completes it.
//!
//! The number of operations that are in flight, or completed and not taken, is bounded. A
//! cancelled one counts until the storage is done with it, so a storm of submissions and
//! cancellations ends in [`Busy`]. Deadlines are checked when completions are asked for, so they
//! cost no timer.
//!
//! A thread that waits here for reads of local files takes their completions from the kernel
//! itself ([`Queue`]): no other thread has to be woken first, and to wake this one.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use foreread_backend::lock::{Condvar, Mutex, MutexGuard};
use foreread_backend::{Key, ListPage, Object, Queue, Submitter};
use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::file::File;
use crate::numbers::Numbers;
use crate::pages::pinned::Pages;
use crate::pages::waiting::Missed;

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

/// Called with [`May::NotBlock`] on the submitter's thread; if it returns nothing, once more with
/// [`May::Block`] on another thread.
pub type Call = Box<dyn FnMut(May) -> Option<Box<dyn Any + Send>> + Send>;

/// Whether a [`Call`] may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// It may not: it returns nothing instead.
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

/// The result of an [`Operation`].
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

/// The number of a submission. Unique within its [`Submissions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An operation that is over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// Which operation.
    pub ticket: Ticket,
    /// Its result. [`ErrorKind::TimedOut`] if its deadline came first.
    pub outcome: Result<Outcome, Error>,
}

/// As many operations are in flight as may be: take completions, then submit again.
#[derive(Debug)]
pub struct Busy(pub Operation);

/// Operations that one caller has in flight, and their completions. Any thread may submit, any may
/// wait.
///
/// Reads of local files complete on the thread that waits or polls; while none does, on another
/// one, a few milliseconds later. If a thread submits such reads and then computes without calling
/// the kernel, they may complete as late as the kernel's next clock tick.
///
/// Dropping it cancels the operations in flight.
#[derive(Debug)]
pub struct Submissions {
    engine: Engine,
    shared: Arc<Shared>,
    in_flight_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the threads that wait, except the one that waits for `queue`.
    news: Condvar,
    /// The storage's completions, for the thread that takes them.
    queue: Option<Queue>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Operations that the storage or a thread still has, cancelled ones included.
    carried: usize,
    /// Those of them that are not cancelled, each with the task that carries it and its deadline.
    wanted: Numbers<Ticket, (Option<AbortHandle>, Option<Instant>)>,
    deadlines: BTreeSet<(Instant, Ticket)>,
    completed: VecDeque<Completion>,
    /// What a waiting thread does with the queue.
    taker: Taker,
}

/// See [`Shared::queue`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Taker {
    /// No thread waits for it.
    #[default]
    None,
    /// One thread takes completions from it, and looks at the state before it waits.
    Takes,
    /// One thread waits for it.
    Waits,
}

impl Engine {
    /// A place to submit operations to, for at most `in_flight_max` at a time.
    pub fn submissions(&self, in_flight_max: usize) -> Submissions {
        let tier = self.driver().storage.tier.as_ref();
        let submitter = self.backend().submission().or_else(|| tier.map(|tier| tier.submitter()));
        let queue = submitter.and_then(Submitter::queue);
        let shared = Arc::new(Shared { queue, ..Shared::default() });
        Submissions { engine: self.clone(), shared, in_flight_max }
    }
}

impl Submissions {
    /// Starts `operation`. Never waits for storage. If it is not over at `deadline`, it completes
    /// as timed out and delivers nothing.
    ///
    /// Errors: [`Busy`] with the operation, while as many are in flight, or completed and not
    /// taken, as may be.
    pub fn submit(&self, operation: Operation, deadline: Option<Instant>) -> Result<Ticket, Busy> {
        let (ticket, missing) = self.start(operation, deadline)?;
        if let Some(missing) = missing {
            let _plug = self.shared.queue.as_ref().map(Queue::plug);
            self.engine.driver().read_missing([missing]);
        }
        Ok(ticket)
    }

    /// Starts several operations, of which the storage is told together. Takes as many from
    /// `operations` as may be in flight, and returns the ticket of each.
    pub fn submit_all(&self, operations: &mut VecDeque<Operation>, deadline: Option<Instant>) -> Vec<Ticket> {
        let (mut tickets, mut missing) = (Vec::with_capacity(operations.len()), SmallVec::<[_; TOGETHER]>::new());
        while let Some(operation) = operations.pop_front() {
            match self.start(operation, deadline) {
                Ok((ticket, read)) => {
                    tickets.push(ticket);
                    missing.extend(read);
                }
                Err(Busy(operation)) => {
                    operations.push_front(operation);
                    break;
                }
            }
        }
        if !missing.is_empty() {
            let _plug = self.shared.queue.as_ref().map(Queue::plug);
            self.engine.driver().read_missing(missing);
        }
        tickets
    }

    /// Tries an operation, and starts it if it is not over then. A read that missed is returned
    /// instead, for the caller to start.
    fn start(
        &self,
        operation: Operation,
        deadline: Option<Instant>,
    ) -> Result<(Ticket, Option<Arc<dyn Missed>>), Busy> {
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
                let missing = file.read_resident(file.reader(), offset, len, done).err();
                let Some((len, done)) = missing else { return Ok((ticket, None)) };
                if Arc::ptr_eq(self.engine.driver(), file.driver()) {
                    return Ok((ticket, Some(file.missed(offset, len, done))));
                }
                // A file of another engine.
                let driver = Arc::clone(file.driver());
                driver.read_missing([file.missed(offset, len, done)]);
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

    /// Polls once on this thread. If the future is not ready then, it continues as a task.
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
            // It is over, or another thread has cancelled it.
            None => task.abort(),
        }
    }

    /// Gives an operation up: it will not complete. Returns `false` if its completion was taken
    /// already. Requests that it made continue for other reads of the same pages; until they end,
    /// the operation counts as in flight.
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

    /// Appends all completions to `to`, waiting at most `timeout` for the first. Returns how many.
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

    /// Operations in flight: those that the storage or a thread has, and completions that were not
    /// taken.
    pub fn in_flight(&self) -> usize {
        let state = self.shared.state.lock();
        state.carried + state.completed.len()
    }
}

/// Reads that are submitted together without an allocation for their list. Lower costs
/// allocations; higher costs moving an empty list.
const TOGETHER: usize = 16;

/// Completions taken from the storage at a time. Higher, and the storage is idle until the caller
/// has processed all of them; lower locks the shard more often.
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
    /// Waits until `until` for a completion, taking those of the queue.
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
        // Another thread may wait for later completions.
        self.news.notify_one();
    }
}

impl State {
    /// Its completion is not wanted any more. Returns whether it was.
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

    /// Completes the operations whose deadline has passed.
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

/// An operation in flight. It is dropped untold if its carrier was given up or has failed.
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
