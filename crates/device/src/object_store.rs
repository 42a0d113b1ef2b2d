//! An object store as its client sees it: a first-byte latency, a rate per connection, a rate for
//! all connections.
//!
//! ```text
//!             first byte        pipe: one a request       link: one for all, in order of arrival
//!  Request ─> (latency) ─Head─> (connection rate) ──> [ q q q ] ──> (total rate) ─Body─> driver
//!     │                                 ^                                           │
//!     └─ Refuse, above the request rate └──── next quantum, while the window has room
//! ```
//!
//! A response passes in quanta of at most 64 KiB. A quantum first takes its time in the request's
//! own pipe, then queues for the link. A request never has more than one quantum at the link, so
//! requests that compete take turns: each gets the same share, and one that cannot use its share
//! leaves it to the others.
//!
//! The window lets a driver be late without slowing the device: quanta are granted ahead of the
//! driver's [`Event::Taken`] until [`WINDOW_QUANTA`] of them are unsent, as in a socket's buffer.
//! Then the pipe stands still until there is room; that time is lost.
//!
//! Invariants: within any interval the granted bytes exceed neither rate by more than one quantum;
//! a request is granted exactly its bytes; grants of one request come after its head.
//!
//! A store may serve a limited number of requests at a time; the others wait before their latency
//! begins.
//!
//! Not modelled: connections (a request has its own pipe, as on HTTP/1.1 where a connection
//! carries one at a time), slow start of TCP, and the time that writing takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::latency::FirstByte;
use crate::{Random, Rate};

/// The configuration of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The time from a request to the head of its response.
    pub first_byte: FirstByte,
    /// Limit of one response; `None` for no limit.
    pub connection_rate: Option<Rate>,
    /// Limit of all responses together; `None` for no limit.
    pub total_rate: Option<Rate>,
    /// Requests per second above which the store refuses (with a burst of a tenth of a second);
    /// `None` for no limit.
    pub request_rate: Option<NonZeroU32>,
    /// Requests served at a time, until their last byte; the others wait in the order of arrival.
    /// `None` for no limit.
    pub concurrency: Option<NonZeroU32>,
    /// Where randomness starts.
    pub seed: u64,
}

/// A request, as named by the driver; never used again, not even after the request has ended.
pub type RequestId = u64;

/// An event at the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request arrived; its response has `bytes` of body.
    Request {
        /// Its name.
        id: RequestId,
        /// The length of the response's body.
        bytes: u64,
        /// Factor of its latency: 1 for an ordinary request.
        slowdown: u32,
    },
    /// The driver has sent (or at least taken) `bytes` of what was granted to the request.
    Taken {
        /// The request.
        id: RequestId,
        /// Bytes.
        bytes: u64,
    },
    /// Cancels the request: its client went away.
    Cancel {
        /// The request.
        id: RequestId,
    },
    /// Nothing but time passed.
    Tick,
}

/// An action that the driver may take, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send the head of the response.
    Head {
        /// The request.
        id: RequestId,
        /// When it was due.
        at_ns: u64,
    },
    /// Send the next `bytes` of the body.
    Body {
        /// The request.
        id: RequestId,
        /// How many; at most [`QUANTUM_BYTES_MAX`].
        bytes: u64,
        /// When they were due.
        at_ns: u64,
    },
    /// Refuse the request, which ends: there are too many.
    Refuse {
        /// The request.
        id: RequestId,
        /// When it was refused.
        at_ns: u64,
        /// After how long it would be accepted.
        retry_after_ns: u64,
    },
}

/// An object store.
///
/// - Input: [`ObjectStore::handle`].
/// - Output: [`ObjectStore::poll_action`] until `None`, then [`ObjectStore::next_deadline`], or
///   for a driver that gathers what it sends [`ObjectStore::next_urgent`].
/// - Getters: [`ObjectStore::quantum_bytes`], [`ObjectStore::requests`].
///
/// Costs O(log n) an event and an action for n open requests.
#[derive(Debug)]
pub struct ObjectStore {
    config: Config,
    quantum_bytes: u64,
    random: Random,
    now_ns: u64,
    /// Requests in service, and waiting ones: name, bytes, factor of the latency.
    requests: BTreeMap<RequestId, Response>,
    entrance: VecDeque<(RequestId, u64, u32)>,
    /// When pipes finish heads, first quanta and last quanta, for which clients wait.
    urgent: Deadlines,
    /// When pipes finish the other quanta.
    steady: Deadlines,
    deadlines_pushed: u64,
    /// Requests with a quantum that waits for the link. May name requests that are gone.
    link: VecDeque<RequestId>,
    /// How many of them wait with their last quantum.
    link_last: usize,
    link_free_ns: u64,
    /// When the next request conforms to the request rate (the generic cell rate algorithm).
    request_due_ns: u64,
    actions: VecDeque<Action>,
}

/// (time, order of insertion, request), the earliest on top. May name requests that are gone.
type Deadlines = BinaryHeap<Reverse<(u64, u64, RequestId)>>;

#[derive(Debug)]
struct Response {
    /// Bytes not granted yet.
    left: u64,
    /// Bytes granted, but not taken.
    unsent: u64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the first byte.
    Waiting,
    /// A quantum is in the request's own pipe.
    Piped,
    /// A quantum waits for the link.
    Linked,
    /// The window is full.
    Full,
}

impl ObjectStore {
    /// An idle store.
    pub fn new(config: Config) -> Self {
        Self {
            quantum_bytes: quantum_bytes(&config),
            random: Random::new(config.seed),
            config,
            now_ns: 0,
            requests: BTreeMap::new(),
            entrance: VecDeque::new(),
            urgent: BinaryHeap::new(),
            steady: BinaryHeap::new(),
            deadlines_pushed: 0,
            link: VecDeque::new(),
            link_last: 0,
            link_free_ns: 0,
            request_due_ns: 0,
            actions: VecDeque::new(),
        }
    }

    /// Takes an event at `now_ns`, after everything that was due before.
    ///
    /// Events about requests that have ended are ignored: a client may go away at any time.
    pub fn handle(&mut self, now_ns: u64, event: Event) {
        debug_assert!(now_ns >= self.now_ns, "time went back");
        self.advance(now_ns);
        match event {
            Event::Request { id, bytes, slowdown } => self.begin(id, bytes, slowdown),
            Event::Taken { id, bytes } => self.taken(id, bytes),
            Event::Cancel { id } => self.cancel(id),
            Event::Tick => {}
        }
        // An unlimited store grants at the very moment of the event.
        self.advance(now_ns);
    }

    /// The store has the latency and the rates of `config` from now on, for quanta that have not
    /// entered a pipe or the link yet.
    pub fn become_other(&mut self, config: Config) {
        self.quantum_bytes = quantum_bytes(&config);
        self.config = config;
        let waits_with_its_last = |id: &&RequestId| {
            let response = self.requests.get(*id).filter(|response| response.stage == Stage::Linked);
            response.is_some_and(|response| response.left <= self.quantum_bytes)
        };
        self.link_last = self.link.iter().filter(waits_with_its_last).count();
    }

    /// The next action in the order of time; call until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`ObjectStore::handle`] has something to do by itself; `None` while it waits for
    /// events only.
    pub fn next_deadline(&self) -> Option<u64> {
        let pipes = [&self.urgent, &self.steady].into_iter().filter_map(earliest).min();
        let link = self.link.front().map(|_| self.link_free_ns);
        pipes.into_iter().chain(link).min()
    }

    /// As [`ObjectStore::next_deadline`], but only for heads and for the start and the end of a
    /// body, for which a client waits. The quanta in between may be polled less often, and then
    /// come in larger pieces.
    pub fn next_urgent(&self) -> Option<u64> {
        let link = (self.link_last > 0).then_some(self.link_free_ns);
        earliest(&self.urgent).into_iter().chain(link).min()
    }

    /// The size of this store's quanta: 64 KiB, or less at a rate so low that 64 KiB would come in
    /// jerks.
    pub fn quantum_bytes(&self) -> u64 {
        self.quantum_bytes
    }

    /// Open requests.
    pub fn requests(&self) -> usize {
        self.requests.len() + self.entrance.len()
    }

    fn begin(&mut self, id: RequestId, bytes: u64, slowdown: u32) {
        if let Some(rate) = self.config.request_rate {
            let due_ns = self.request_due_ns.max(self.now_ns);
            let early_ns = due_ns - self.now_ns;
            if early_ns > REQUEST_BURST_NS {
                let retry_after_ns = early_ns - REQUEST_BURST_NS;
                self.actions.push_back(Action::Refuse { id, at_ns: self.now_ns, retry_after_ns });
                return;
            }
            self.request_due_ns = due_ns + 1_000_000_000u64.div_ceil(u64::from(rate.get()));
        }
        if self.config.concurrency.is_some_and(|most| self.requests.len() >= most.get() as usize) {
            self.entrance.push_back((id, bytes, slowdown));
        } else {
            self.work_on(id, bytes, slowdown);
        }
    }

    fn work_on(&mut self, id: RequestId, bytes: u64, slowdown: u32) {
        let latency_ns = self.config.first_byte.draw(&mut self.random).saturating_mul(u64::from(slowdown.max(1)));
        self.requests.insert(id, Response { left: bytes, unsent: 0, stage: Stage::Waiting });
        let at_ns = self.now_ns.saturating_add(latency_ns);
        self.urgent.push(Reverse((at_ns, self.deadlines_pushed, id)));
        self.deadlines_pushed += 1;
    }

    /// A request has ended: the next one is served.
    fn end(&mut self, id: RequestId) -> Option<Response> {
        let ended = self.requests.remove(&id)?;
        if let Some((next, bytes, slowdown)) = self.entrance.pop_front() {
            self.work_on(next, bytes, slowdown);
        }
        Some(ended)
    }

    fn cancel(&mut self, id: RequestId) {
        self.entrance.retain(|&(waiting, ..)| waiting != id);
        let Some(response) = self.end(id) else { return };
        let waits_with_its_last = response.stage == Stage::Linked && response.left <= self.quantum_bytes;
        self.link_last -= usize::from(waits_with_its_last);
    }

    fn taken(&mut self, id: RequestId, bytes: u64) {
        let Some(response) = self.requests.get_mut(&id) else { return };
        response.unsent = response.unsent.saturating_sub(bytes);
        if response.stage == Stage::Full {
            self.fill_pipe(id, self.now_ns);
        }
    }

    /// Does everything that is due until `now_ns`, in the order of time.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let (pipes, pipe_ns) = match (earliest(&self.urgent), earliest(&self.steady)) {
                (Some(urgent_ns), steady_ns) if steady_ns.is_none_or(|steady_ns| urgent_ns <= steady_ns) => {
                    (&mut self.urgent, urgent_ns)
                }
                (_, steady_ns) => (&mut self.steady, steady_ns.unwrap_or(u64::MAX)),
            };
            // A quantum that reaches the link while it is free passes at once, so its time is not
            // in the past of `at_ns`.
            let link_ns = self.link.front().map_or(u64::MAX, |_| self.link_free_ns.max(self.now_ns));
            let at_ns = pipe_ns.min(link_ns);
            if at_ns > now_ns || at_ns == u64::MAX {
                break;
            }
            self.now_ns = self.now_ns.max(at_ns);
            if link_ns <= pipe_ns {
                self.pass_link();
            } else if let Some(Reverse((_, _, id))) = pipes.pop() {
                self.leave_pipe(id, at_ns);
            }
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// The first quantum at the link passes.
    fn pass_link(&mut self) {
        let Some(id) = self.link.pop_front() else { return };
        let Some(response) = self.requests.get(&id) else { return };
        let bytes = response.left.min(self.quantum_bytes);
        self.link_last -= usize::from(bytes == response.left);
        let time_ns = self.config.total_rate.map_or(0, |rate| rate.time_ns(bytes));
        self.link_free_ns = self.now_ns.saturating_add(time_ns);
        self.grant(id, self.now_ns);
    }

    /// A head or a quantum leaves its request's pipe.
    fn leave_pipe(&mut self, id: RequestId, at_ns: u64) {
        let Some(response) = self.requests.get_mut(&id) else { return };
        match response.stage {
            Stage::Waiting => {
                self.actions.push_back(Action::Head { id, at_ns });
                if response.left == 0 {
                    self.end(id);
                } else {
                    self.fill_pipe(id, at_ns);
                }
            }
            Stage::Piped if self.config.total_rate.is_some() => {
                response.stage = Stage::Linked;
                self.link_last += usize::from(response.left <= self.quantum_bytes);
                self.link.push_back(id);
            }
            Stage::Piped => self.grant(id, at_ns),
            Stage::Linked | Stage::Full => unreachable!("only what is in a pipe leaves it"),
        }
    }

    fn grant(&mut self, id: RequestId, at_ns: u64) {
        let Some(response) = self.requests.get_mut(&id) else { return };
        let bytes = response.left.min(self.quantum_bytes);
        response.left -= bytes;
        response.unsent += bytes;
        self.actions.push_back(Action::Body { id, bytes, at_ns });
        if response.left == 0 {
            self.end(id);
        } else {
            self.fill_pipe(id, at_ns);
        }
    }

    /// Puts the next quantum into the request's pipe, if the window has room.
    fn fill_pipe(&mut self, id: RequestId, at_ns: u64) {
        let Some(response) = self.requests.get_mut(&id) else { return };
        let bytes = response.left.min(self.quantum_bytes);
        if response.unsent + bytes > WINDOW_QUANTA * self.quantum_bytes {
            response.stage = Stage::Full;
            return;
        }
        let is_first = response.stage == Stage::Waiting;
        response.stage = Stage::Piped;
        let time_ns = self.config.connection_rate.map_or(0, |rate| rate.time_ns(bytes));
        let deadlines = if is_first || bytes == response.left { &mut self.urgent } else { &mut self.steady };
        deadlines.push(Reverse((at_ns.saturating_add(time_ns), self.deadlines_pushed, id)));
        self.deadlines_pushed += 1;
    }
}

/// The size of the quanta of a store.
fn quantum_bytes(config: &Config) -> u64 {
    let slowest = [config.connection_rate, config.total_rate].into_iter().flatten().min();
    let bytes = slowest.map_or(QUANTUM_BYTES_MAX, |rate| rate.bytes_in(QUANTUM_NS));
    bytes.clamp(QUANTUM_BYTES_MIN, QUANTUM_BYTES_MAX)
}

fn earliest(deadlines: &Deadlines) -> Option<u64> {
    deadlines.peek().map(|Reverse((at_ns, ..))| *at_ns)
}

/// The largest quantum. Larger ones would let a response hold the link for long; smaller ones cost
/// more actions.
pub const QUANTUM_BYTES_MAX: u64 = 64 << 10;

/// How many granted quanta may lie unsent. At 80 MB/s 16 of 64 KiB are 13 ms: a driver may be that
/// late before the device appears slower than it is. More would let a connection that was held up
/// burst for longer.
pub const WINDOW_QUANTA: u64 = 16;

/// The smallest quantum, a page: what a slow device delivers at a time.
const QUANTUM_BYTES_MIN: u64 = 4 << 10;

/// A quantum takes about this long at the slowest rate, 2 ms, so that slow devices deliver evenly
/// too.
const QUANTUM_NS: u64 = 2_000_000;

/// How far requests may run ahead of the request rate. Zero would refuse two requests of the same
/// moment at any rate.
const REQUEST_BURST_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests;
