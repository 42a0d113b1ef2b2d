//! A client's connection to the process that serves.
//!
//! ```text
//!   issue ──> a part of the shared memory, a number ──> frames ──> socket
//!     └ no room ──> queued, until a part comes back
//!   socket ──> a thread takes frames, and ends their operations:
//!                one that waits for an answer itself (Helping), if no other does
//!                else the connection's own thread, as long as something is pending
//!   end of the socket, or silence ──> all that is pending is handed to `lost`
//! ```
//!
//! A thread that waits takes its answer from the socket itself: no other thread has to wake up for
//! it. The connection's own thread sleeps meanwhile.
//!
//! Silence is counted in waits that end without a byte, not by a clock: a client that was stopped
//! does not take its own pause for the server's.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use foreread_backend::lock::{Condvar, Mutex};
use foreread_engine::{Error, File, Object};
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};

use crate::area::Area;
use crate::kept::Kept;
use crate::pages::{Lent, SharedPages};
use crate::place::Joined;
use crate::server::{OPERATIONS_MAX, READ_BYTES_MAX};
use crate::socket::{has_ended, receive, receive_soon, send_all};
use crate::wire::{Asked, Call, Reply, Told, first_frame};

/// How long one wait for bytes takes at most, 100 ms: then a thread looks for signals.
pub(crate) const TURN: Duration = Duration::from_millis(100);

/// What is called with the bytes of a read.
pub(crate) type ReadDone = Box<dyn FnOnce(Result<SharedPages, Error>) + Send>;

/// What is called with the answer to a call.
pub(crate) type CallDone = Box<dyn FnOnce(Result<Reply, Error>) + Send>;

/// An operation that a program waits for. It outlives the process that it was first asked of.
pub(crate) enum Wanted {
    Read { file: Arc<Numbered>, offset: u64, len: usize, done: ReadDone },
    Call { call: Call, done: CallDone },
}

impl Wanted {
    /// It failed.
    pub(crate) fn fail(self, error: Error) {
        match self {
            Self::Read { done, .. } => done(Err(error)),
            Self::Call { done, .. } => done(Err(error)),
        }
    }
}

/// An open object, and the number that it has in a connection.
pub(crate) struct Numbered {
    pub(crate) object: Object,
    /// The file in this process's engine, since it has one.
    pub(crate) here: OnceLock<File>,
    opened: Mutex<Option<(Weak<Connection>, u32)>>,
}

impl Numbered {
    pub(crate) fn new(object: Object) -> Self {
        Self { object, here: OnceLock::new(), opened: Mutex::new(None) }
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        // No read of it is queued any more: that would have it.
        let opened = self.opened.lock().take();
        if let Some((connection, number)) = opened
            && let Some(connection) = connection.upgrade()
        {
            connection.close(number);
        }
    }
}

/// A connection to the process that serves.
pub(crate) struct Connection {
    me: Weak<Self>,
    socket: Kept,
    area: Arc<Area>,
    state: Mutex<State>,
    /// What has come, and the right to take more.
    inbox: Mutex<Inbox>,
    /// Held while frames are made and sent, so that a file is opened before it is read.
    sending: Mutex<Vec<u8>>,
    /// The connection's thread is to take answers.
    called: Condvar,
    files: AtomicU32,
    /// The end of the server is noticed though nothing is asked for.
    watched: AtomicBool,
    /// Waits without a byte before a server is asked for a sign of life; twice that, and it is
    /// gone.
    silent_turns: u32,
    lost: Box<dyn Fn(Vec<Wanted>) + Send + Sync>,
}

/// Why a connection is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server has ended.
    Ended,
    /// It is there, and says nothing.
    Silent,
}

#[derive(Default)]
struct State {
    pending: HashMap<u32, Pending>,
    /// What has no room yet.
    queued: VecDeque<Wanted>,
    next: u32,
    /// The connection's thread is to take answers until nothing is pending.
    called: bool,
    /// No operation is taken any more.
    over: Option<Loss>,
}

impl State {
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.queued.is_empty()
    }
}

enum Pending {
    Read { wanted: Wanted, lent: Lent },
    Call { wanted: Wanted },
    Ping,
}

struct Inbox {
    bytes: Vec<u8>,
    /// Where the first frame begins that was not taken.
    at: usize,
    silent: u32,
}

/// What became of a turn at the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Answers were taken.
    Some,
    /// Nothing came for a while.
    None,
    /// Another thread takes answers, or there is no socket.
    Elsewhere,
}

impl Connection {
    /// A connection whose operations are handed to `lost` when it ends. Starts its thread.
    ///
    /// Errors: the thread cannot be started.
    pub(crate) fn start(
        joined: Joined,
        silence: Duration,
        lost: impl Fn(Vec<Wanted>) + Send + Sync + 'static,
    ) -> std::io::Result<Arc<Self>> {
        sockopt::set_socket_timeout(&joined.socket, sockopt::Timeout::Recv, Some(TURN))?;
        let connection = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            socket: joined.socket,
            area: Arc::new(joined.area),
            state: Mutex::default(),
            inbox: Mutex::new(Inbox { bytes: Vec::new(), at: 0, silent: 0 }),
            sending: Mutex::default(),
            called: Condvar::default(),
            files: AtomicU32::new(1),
            watched: AtomicBool::new(false),
            silent_turns: (silence.as_millis() / TURN.as_millis() / 2).max(1) as u32,
            lost: Box::new(lost),
        });
        let own = Weak::clone(&connection.me);
        connection.area.when_freed(move || {
            if let Some(connection) = own.upgrade() {
                connection.send_queued();
            }
        });
        let own = Arc::clone(&connection);
        std::thread::Builder::new().name("foreread-answer".into()).spawn(move || own.take_answers())?;
        Ok(connection)
    }

    /// Asks for operations. Those that a thread waits for which helps ([`Connection::help`]) wake
    /// no other thread. Hands them back if the connection is over.
    pub(crate) fn issue(&self, wanted: Vec<Wanted>, helped: bool) -> Result<(), Vec<Wanted>> {
        {
            let mut state = self.state.lock();
            if state.over.is_some() {
                return Err(wanted);
            }
            state.queued.extend(wanted);
            if !helped {
                self.call(&mut state);
            }
        }
        self.send_queued();
        Ok(())
    }

    /// Sends what is queued, as far as there is room.
    fn send_queued(&self) {
        let mut frames = self.sending.lock();
        loop {
            let mut state = self.state.lock();
            while state.pending.len() < OPERATIONS_MAX - 1 {
                let Some(wanted) = state.queued.pop_front() else { break };
                if let Err(wanted) = self.begin(&mut state, wanted, &mut frames) {
                    state.queued.push_front(wanted);
                    break;
                }
            }
            drop(state);
            if frames.is_empty() {
                return;
            }
            let sent = send_all(&self.socket, &frames);
            frames.clear();
            if sent.is_err() {
                // What is pending is noticed by the thread that takes answers.
                let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
                self.call(&mut self.state.lock());
                return;
            }
        }
    }

    /// Gives an operation its number, and a read its part of the memory. Hands it back if there is
    /// no room.
    fn begin(&self, state: &mut State, wanted: Wanted, frames: &mut Vec<u8>) -> Result<(), Wanted> {
        let operation = state.next;
        let pending = match wanted {
            Wanted::Read { ref file, offset, len, .. } => {
                let Some(part) = self.area.take(len.min(READ_BYTES_MAX)) else { return Err(wanted) };
                let lent = Lent::new(&self.area, part);
                let file = self.number(file, frames);
                let (at, len) = (part.at as u32, part.len as u32);
                Asked::Read { file, at, offset, len }.encode(operation, frames);
                Pending::Read { wanted, lent }
            }
            Wanted::Call { ref call, .. } => {
                Asked::Call(call.clone()).encode(operation, frames);
                Pending::Call { wanted }
            }
        };
        state.pending.insert(operation, pending);
        state.next = (operation + 1) % (u32::MAX - 1);
        Ok(())
    }

    /// The number of a file in this connection, which is opened if it has none.
    fn number(&self, file: &Numbered, frames: &mut Vec<u8>) -> u32 {
        let mut opened = file.opened.lock();
        match &*opened {
            Some((connection, number)) if connection.ptr_eq(&self.me) => *number,
            _ => {
                let number = self.files.fetch_add(1, Ordering::Relaxed);
                *opened = Some((Weak::clone(&self.me), number));
                Asked::Open { file: number, object: file.object.clone() }.encode(0, frames);
                number
            }
        }
    }

    /// A file is not used any more.
    fn close(&self, number: u32) {
        if self.state.lock().over.is_none() {
            let mut frame = Vec::new();
            Asked::Close { file: number }.encode(0, &mut frame);
            let _sending = self.sending.lock();
            let _ = send_all(&self.socket, &frame);
        }
    }

    /// The connection's thread is to take answers.
    fn call(&self, state: &mut State) {
        if !std::mem::replace(&mut state.called, true) {
            self.called.notify_one();
        }
    }

    /// Whether the end of the server is noticed, within [`TURN`], though nothing is asked for.
    pub(crate) fn watch(&self, watched: bool) {
        if self.watched.swap(watched, Ordering::AcqRel) != watched {
            let _state = self.state.lock();
            self.called.notify_one();
        }
    }

    /// This thread takes answers while it waits for one of them.
    pub(crate) fn help(self: &Arc<Self>) -> Helping {
        Helping { connection: Some(Arc::clone(self)) }
    }

    /// The connection's own thread.
    fn take_answers(&self) {
        loop {
            {
                let mut state = self.state.lock();
                while state.over.is_none() && (!state.called || state.is_idle()) {
                    state.called = false;
                    if !self.watched.load(Ordering::Acquire) {
                        self.called.wait(&mut state);
                    } else if self.called.wait_for(&mut state, TURN) && state.is_idle() && has_ended(&self.socket) {
                        drop(state);
                        return self.end(Loss::Ended);
                    }
                }
                if state.over.is_some() {
                    return;
                }
            }
            self.turn(&mut self.inbox.lock(), receive);
        }
    }

    /// Waits for bytes and ends the operations that are answered.
    fn turn(&self, inbox: &mut Inbox, receive: fn(&Kept, &mut Vec<u8>) -> Result<usize, Errno>) -> Turn {
        if inbox.at > 0 {
            inbox.bytes.drain(..inbox.at);
            inbox.at = 0;
        }
        match receive(&self.socket, &mut inbox.bytes) {
            Ok(0) => self.end(Loss::Ended),
            Ok(_) => {
                inbox.silent = 0;
                if self.end_operations(inbox).is_err() {
                    self.end(Loss::Silent);
                }
            }
            Err(Errno::WOULDBLOCK) => {
                self.is_silent(inbox);
                return Turn::None;
            }
            Err(_) => self.end(Loss::Ended),
        }
        Turn::Some
    }

    /// A turn without a byte: asks for a sign of life, or gives the server up.
    fn is_silent(&self, inbox: &mut Inbox) {
        if self.state.lock().pending.is_empty() {
            return;
        }
        inbox.silent += 1;
        if inbox.silent == self.silent_turns {
            let operation = {
                let mut state = self.state.lock();
                let operation = state.next;
                state.next = (operation + 1) % (u32::MAX - 1);
                state.pending.insert(operation, Pending::Ping);
                operation
            };
            let mut frame = Vec::new();
            Asked::Ping.encode(operation, &mut frame);
            if let Some(_sending) = self.sending.try_lock() {
                let _ = rustix::net::send(
                    &self.socket,
                    &frame,
                    rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT,
                );
            }
        } else if inbox.silent >= 2 * self.silent_turns {
            self.end(Loss::Silent);
        }
    }

    /// Ends the operations whose frames are whole. Errors: it is no frame.
    fn end_operations(&self, inbox: &mut Inbox) -> Result<(), crate::wire::Malformed> {
        loop {
            let Some((frame, len)) = first_frame(&inbox.bytes[inbox.at..])? else { return Ok(()) };
            let (operation, told) = (frame.operation, Told::decode(&frame)?);
            inbox.at += len;
            let (pending, waits) = {
                let mut state = self.state.lock();
                (state.pending.remove(&operation), !state.queued.is_empty())
            };
            match (pending, told) {
                (Some(Pending::Read { wanted: Wanted::Read { done, .. }, lent }), Told::Filled(len)) => {
                    done(Ok(lent.filled(len as usize)));
                }
                (Some(Pending::Call { wanted: Wanted::Call { done, .. } }), Told::Reply(reply)) => done(Ok(reply)),
                (Some(Pending::Read { wanted, lent }), Told::Failed(failure)) => {
                    drop(lent);
                    wanted.fail(failure.into());
                }
                (Some(Pending::Call { wanted }), Told::Failed(failure)) => wanted.fail(failure.into()),
                (Some(Pending::Ping), Told::Pong) => {}
                _ => return Err(crate::wire::Malformed),
            }
            if waits {
                self.send_queued();
            }
        }
    }

    /// Ends the connection. What is pending is handed on, once.
    pub(crate) fn end(&self, loss: Loss) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        let (pending, queued) = {
            let mut state = self.state.lock();
            if state.over.is_some() {
                return;
            }
            state.over = Some(loss);
            self.called.notify_all();
            (std::mem::take(&mut state.pending), std::mem::take(&mut state.queued))
        };
        // In the order in which they were asked for.
        let mut pending: Vec<_> = pending.into_iter().collect();
        pending.sort_unstable_by_key(|(operation, _)| *operation);
        let asked = pending.into_iter().filter_map(|(_, pending)| match pending {
            // The part of the memory that was lent ends with the connection.
            Pending::Read { wanted, .. } | Pending::Call { wanted } => Some(wanted),
            Pending::Ping => None,
        });
        (self.lost)(asked.chain(queued).collect());
    }

    /// Why it has ended, if it has.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.state.lock().over
    }
}

/// A thread that waits for answers helps to take them.
pub(crate) struct Helping {
    connection: Option<Arc<Connection>>,
}

impl Helping {
    /// There is no socket to take answers from.
    pub(crate) fn nowhere() -> Self {
        Self { connection: None }
    }

    /// The connection whose answers are taken.
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        self.connection.as_ref()
    }

    /// Takes answers for a while, if no other thread does, and this thread's own has not come.
    pub(crate) fn turn(&self, has_come: impl FnOnce() -> bool) -> Turn {
        let Some(connection) = &self.connection else { return Turn::Elsewhere };
        if connection.loss().is_some() {
            return Turn::Elsewhere;
        }
        match connection.inbox.try_lock() {
            // Another thread may have taken it since this one looked.
            Some(_) if has_come() => Turn::Some,
            Some(mut inbox) => connection.turn(&mut inbox, receive_soon),
            None => Turn::Elsewhere,
        }
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let mut state = connection.state.lock();
        if state.over.is_none() && !state.is_idle() {
            // Others wait, and this thread took answers for them.
            connection.call(&mut state);
        }
    }
}
