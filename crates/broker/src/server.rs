//! The process that serves: one engine, and a thread for each client.
//!
//! ```text
//!   accept ── hello: user, versions, identity, shared memory ──> Client
//!   client's thread:  frames ── Open, Close, Read ──> engine.read_together
//!                        │         resident: copied to the shared memory on this thread
//!                        │         else:     by the engine's thread that fills the last folio
//!                        └── Call ──> a task of the engine's runtime
//!   out: frames ── taken by the socket at once, else by a thread that waits for the client
//! ```
//!
//! *Invariants:* no thread of the engine waits for a client. What a client says is checked before
//! it is done; one that breaks the rules loses its connection. When a connection ends, its files
//! and listings are given up, and its wishes for the budget end.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foreread_backend::lock::Mutex;
use foreread_engine::{Engine, Error, File, Pages};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, SocketFlags, sockopt};
use tracing::debug;

use crate::answer::{Listings, answer};
use crate::area::{Area, Part};
use crate::identity::Identity;
use crate::kept::Kept;
use crate::place::{Seat, VERSION};
use crate::socket::{RECEIVED_BYTES, is_ours, receive_soon, receive_with, send_all};
use crate::wire::{Asked, Call, Failure, Malformed, Reply, Told, first_frame};

/// Clients at a time. Each has a thread. Lower turns workers of large machines away, which read
/// alone then; higher needs more descriptors than a process has by default.
const CLIENTS_MAX: usize = 500;

/// Operations of one client in flight. Its answers are bounded by that. Lower: a client with many
/// threads waits for itself. Higher: one that takes no answers costs the server more memory.
pub(crate) const OPERATIONS_MAX: usize = 4096;

/// Files of one client. Lower refuses programs that open many; higher has one client take more.
const FILES_MAX: usize = 1 << 20;

/// The longest read, 1 MiB. Longer ones are cut. Lower costs frames; higher has a client wait for
/// the whole copy before it begins its own.
pub(crate) const READ_BYTES_MAX: usize = 1 << 20;

/// Bytes that are copied before a client is told of them. Lower: more system calls for small reads
/// that were asked for together. Higher: the client begins its own copy later.
const TOLD_EVERY: usize = 128 << 10;

/// Answers that a client may leave in the server, in bytes. Lower: one that was stopped amid large
/// listings loses its connection. Higher costs the server more memory for it.
const LEFT_BYTES_MAX: usize = 64 << 20;

/// How long a client may take for its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// What a thread of a client takes at most of its stack: frames are read on the heap.
const STACK_BYTES: usize = 512 << 10;

/// An engine that is served.
pub(crate) struct Serving {
    shared: Arc<Shared>,
    seat: Arc<Seat>,
}

struct Shared {
    engine: Engine,
    identity: Identity,
    clients: Mutex<Clients>,
    /// Processes that have told an order, this one included.
    expecting: AtomicUsize,
    own_expects: AtomicBool,
}

#[derive(Default)]
struct Clients {
    by_number: HashMap<u64, Arc<Client>>,
    next: u64,
    /// What this process was told to use.
    own_bytes: Option<u64>,
    /// What holds if no process was told.
    default_bytes: u64,
    closed: bool,
}

impl Clients {
    /// The budget: the largest that a process was told.
    fn memory_bytes(&self) -> u64 {
        let of_clients = self.by_number.values().filter_map(|client| *client.memory_bytes.lock());
        of_clients.chain(self.own_bytes).max().unwrap_or(self.default_bytes)
    }
}

impl Serving {
    /// Serves `engine` until it is dropped.
    ///
    /// Errors: a thread cannot be started.
    pub(crate) fn start(
        seat: Seat,
        engine: Engine,
        identity: Identity,
        own_bytes: Option<u64>,
        default_bytes: u64,
    ) -> std::io::Result<Self> {
        let clients = Mutex::new(Clients { own_bytes, default_bytes, ..Clients::default() });
        let shared =
            Shared { engine, identity, clients, expecting: AtomicUsize::new(0), own_expects: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let seat = Arc::new(seat);
        let (accepting, at) = (Arc::clone(&shared), Arc::downgrade(&seat));
        std::thread::Builder::new().name("foreread-accept".into()).stack_size(STACK_BYTES).spawn(move || {
            while let Some(seat) = at.upgrade() {
                let accepted = accepting.accept(&seat.listener);
                drop(seat);
                if let Err(error) = accepted {
                    if matches!(error, Errno::INVAL | Errno::BADF) {
                        return;
                    }
                    // Descriptors may be short for a while.
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        })?;
        Ok(Self { shared, seat })
    }

    /// How many clients there are.
    pub(crate) fn clients(&self) -> usize {
        self.shared.clients.lock().by_number.len()
    }

    /// This process tells an order.
    pub(crate) fn expects(&self) {
        self.shared.expects(&self.shared.own_expects);
    }

    /// This process takes back what it told. Orders of others stay.
    pub(crate) fn expects_none(&self) {
        self.shared.expects_none(&self.shared.own_expects);
    }

    /// What this process was told to use, and what holds if none is told.
    pub(crate) fn set_memory_bytes(&self, own_bytes: Option<u64>, default_bytes: u64) -> Result<(), Error> {
        let mut clients = self.shared.clients.lock();
        (clients.own_bytes, clients.default_bytes) = (own_bytes, default_bytes);
        self.shared.engine.set_memory_bytes(clients.memory_bytes())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Clients find their connections closed, and no answer that this is the end.
        let mut clients = self.shared.clients.lock();
        clients.closed = true;
        for client in clients.by_number.values() {
            client.close();
        }
        drop(clients);
        let _ = rustix::net::shutdown(&self.seat.listener, Shutdown::Both);
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &Kept) -> Result<(), Errno> {
        let socket = rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?;
        let shared = Arc::clone(self);
        let serve = move || {
            if let Err(error) = shared.serve(socket) {
                debug!(%error, "a client was turned away");
            }
        };
        let thread = std::thread::Builder::new().name("foreread-client".into()).stack_size(STACK_BYTES);
        thread.spawn(serve).map(drop).map_err(|_| Errno::AGAIN)
    }

    /// Takes a client in, and answers it until it ends.
    fn serve(self: &Arc<Self>, socket: OwnedFd) -> std::io::Result<()> {
        let socket = Kept::new(socket)?;
        if !is_ours(&socket)? {
            return Ok(());
        }
        let (area, memory_bytes, left) = match self.greet(&socket)? {
            Ok(greeted) => greeted,
            Err(why) => {
                let mut out = Vec::new();
                Told::Refused(why).encode(0, &mut out);
                return send_all(&socket, &out);
            }
        };
        let client = Arc::new(Client {
            socket,
            area,
            engine: self.engine.clone(),
            listings: Listings::default(),
            memory_bytes: Mutex::new(memory_bytes),
            expects: AtomicBool::new(false),
            operations: AtomicUsize::new(0),
            out: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let number = {
            let mut clients = self.clients.lock();
            if clients.closed {
                return Ok(());
            }
            let number = clients.next;
            clients.next += 1;
            clients.by_number.insert(number, Arc::clone(&client));
            self.set_budget(&clients);
            number
        };
        let _left = Leaving { shared: Arc::clone(self), number };
        client.tell(0, &Told::Welcome, 0);
        let ended = client.run(self, left);
        client.close();
        ended.map_err(|Malformed| std::io::Error::new(std::io::ErrorKind::InvalidData, "what it says cannot be"))
    }

    /// Reads a hello. Answers the client's memory and budget, and what came behind the hello; or
    /// why it cannot be served.
    fn greet(&self, socket: &Kept) -> std::io::Result<Result<Greeted, String>> {
        for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            sockopt::set_socket_timeout(socket, timeout, Some(HELLO_WITHIN))?;
        }
        let (mut bytes, mut descriptor) = (Vec::new(), None);
        let (hello, len) = loop {
            match first_frame(&bytes) {
                Ok(Some((frame, len))) => match Asked::decode(&frame) {
                    Ok(hello) => break (hello, len),
                    Err(Malformed) => return Ok(Err("it says no hello".to_owned())),
                },
                Ok(None) if bytes.len() < RECEIVED_BYTES => {}
                _ => return Ok(Err("it says no hello".to_owned())),
            }
            if receive_with(socket, &mut bytes, &mut descriptor)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        };
        let Asked::Hello { version, identity, memory_bytes } = hello else {
            return Ok(Err("it says no hello".to_owned()));
        };
        if version != VERSION || identity != self.identity.text() {
            return Ok(Err("it reads something else".to_owned()));
        }
        if self.clients.lock().by_number.len() >= CLIENTS_MAX {
            return Ok(Err(format!("{CLIENTS_MAX} processes are served already")));
        }
        let Some(descriptor) = descriptor else { return Ok(Err("it shares no memory".to_owned())) };
        let area = match Area::of_another(&descriptor) {
            Ok(area) => area,
            Err(error) => return Ok(Err(error.to_string())),
        };
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, None)?;
        bytes.drain(..len);
        Ok(Ok((area, memory_bytes, bytes)))
    }

    /// The budget is the largest that a process was told.
    ///
    /// The caller holds the clients: what the clients are and the budget change together, and of
    /// two threads the later has the last word.
    fn set_budget(&self, clients: &Clients) {
        let bytes = clients.memory_bytes();
        if bytes != self.engine.memory_bytes()
            && let Err(error) = self.engine.set_memory_bytes(bytes)
        {
            debug!(%error, "a client's budget is not used");
        }
    }

    /// Calls that change what is known of a client.
    fn note(&self, client: &Client, call: &Call) -> Option<Reply> {
        match call {
            Call::Memory(bytes) => {
                let clients = self.clients.lock();
                *client.memory_bytes.lock() = *bytes;
                self.set_budget(&clients);
                Some(Reply::Nothing)
            }
            Call::Stats => {
                let json = serde_json::to_string(&self.engine.stats()).unwrap_or_default();
                Some(Reply::Stats { json, clients: self.clients.lock().by_number.len() as u32 })
            }
            Call::Expect { .. } => {
                self.expects(&client.expects);
                None
            }
            // The engine follows the orders of all until each process has taken its own back.
            Call::ExpectNone => {
                self.expects_none(&client.expects);
                Some(Reply::Nothing)
            }
            _ => None,
        }
    }

    /// A process tells an order.
    fn expects(&self, process: &AtomicBool) {
        if !process.swap(true, Ordering::AcqRel) {
            self.expecting.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A process takes its orders back.
    fn expects_none(&self, process: &AtomicBool) {
        if process.swap(false, Ordering::AcqRel) && self.expecting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.engine.expect_none();
        }
    }

    /// An order has been told, which takes listings: it may have been taken back meanwhile.
    fn has_told(&self) {
        if self.expecting.load(Ordering::Acquire) == 0 {
            self.engine.expect_none();
        }
    }
}

type Greeted = (Area, Option<u64>, Vec<u8>);

/// Has a client forgotten when its thread ends, however that is.
struct Leaving {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut clients = self.shared.clients.lock();
        let Some(client) = clients.by_number.remove(&self.number) else { return };
        if !clients.closed {
            self.shared.set_budget(&clients);
        }
        drop(clients);
        client.close();
        self.shared.expects_none(&client.expects);
    }
}

/// A process that reads through this one.
struct Client {
    socket: Kept,
    area: Area,
    engine: Engine,
    listings: Listings,
    memory_bytes: Mutex<Option<u64>>,
    expects: AtomicBool,
    /// Operations without an answer.
    operations: AtomicUsize,
    out: Mutex<Out>,
    closed: AtomicBool,
}

/// Answers that the socket has not taken.
#[derive(Default)]
struct Out {
    frames: Vec<u8>,
    /// The client's thread sends them when it has gone through what it received.
    gathered: bool,
    copied: usize,
    /// A thread waits until the client takes them.
    waits: bool,
}

/// A read that was asked for, with its place in the client's memory.
struct Wanted {
    file: File,
    offset: u64,
    operation: u32,
    part: Part,
}

impl Client {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Answers the client until its connection ends.
    fn run(self: &Arc<Self>, shared: &Arc<Shared>, mut bytes: Vec<u8>) -> Result<(), Malformed> {
        let mut files = HashMap::new();
        loop {
            self.out.lock().gathered = true;
            let gone_through = self.go_through(shared, &mut files, &bytes);
            self.end_gathering();
            bytes.drain(..gone_through?);
            match receive_soon(&self.socket, &mut bytes) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
        }
    }

    /// Does what the frames in `bytes` say. Returns how many bytes whole frames have.
    fn go_through(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        files: &mut HashMap<u32, File>,
        bytes: &[u8],
    ) -> Result<usize, Malformed> {
        let (mut at, mut reads) = (0, Vec::new());
        while let Some((frame, len)) = first_frame(&bytes[at..])? {
            at += len;
            let operation = frame.operation;
            match Asked::decode(&frame)? {
                Asked::Open { file, object } => {
                    if files.len() >= FILES_MAX {
                        return Err(Malformed);
                    }
                    files.insert(file, self.engine.open(&object));
                }
                Asked::Close { file } => {
                    self.read(&mut reads);
                    files.remove(&file);
                }
                Asked::Read { file, at, offset, len } => {
                    let part = Part { at: at as usize, len: len as usize };
                    if !self.area.has(part) || part.len > READ_BYTES_MAX {
                        return Err(Malformed);
                    }
                    self.begun()?;
                    let file = files.get(&file).ok_or(Malformed)?.clone();
                    reads.push(Wanted { file, offset, operation, part });
                }
                Asked::Call(call) => {
                    self.begun()?;
                    self.read(&mut reads);
                    self.call(shared, operation, call);
                }
                Asked::Ping => self.tell(operation, &Told::Pong, 0),
                Asked::Hello { .. } => return Err(Malformed),
            }
        }
        self.read(&mut reads);
        Ok(at)
    }

    fn begun(&self) -> Result<(), Malformed> {
        let operations = self.operations.fetch_add(1, Ordering::AcqRel);
        if operations < OPERATIONS_MAX { Ok(()) } else { Err(Malformed) }
    }

    /// Has the engine read what was asked for together.
    fn read(self: &Arc<Self>, reads: &mut Vec<Wanted>) {
        if reads.is_empty() {
            return;
        }
        self.engine.read_together(reads.drain(..).map(|Wanted { file, offset, operation, part }| {
            let client = Arc::clone(self);
            (file, offset, part.len, move |pages| client.filled(operation, part, pages))
        }));
    }

    /// A read has its bytes, or never will.
    fn filled(self: &Arc<Self>, operation: u32, part: Part, pages: Result<Pages, Error>) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        self.operations.fetch_sub(1, Ordering::AcqRel);
        match pages {
            Ok(pages) => {
                let len = self.area.fill(part, pages.slices());
                self.tell(operation, &Told::Filled(len as u32), len);
            }
            Err(error) => self.tell(operation, &Told::Failed(Failure::from(&error)), 0),
        }
    }

    fn call(self: &Arc<Self>, shared: &Arc<Shared>, operation: u32, call: Call) {
        if let Some(reply) = shared.note(self, &call) {
            return self.reply(operation, Ok(reply));
        }
        let (client, shared) = (Arc::clone(self), Arc::clone(shared));
        let mut future = Box::pin(async move {
            let tells = matches!(call, Call::Expect { .. });
            let reply = answer(&client.engine, &client.listings, call).await;
            if tells {
                shared.has_told();
            }
            reply
        });
        let first = {
            let _entered = self.engine.runtime().enter();
            Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
        };
        match first {
            Poll::Ready(reply) => self.reply(operation, reply),
            Poll::Pending => {
                let client = Arc::clone(self);
                self.engine.survive_later("a call of a client", async move { client.reply(operation, future.await) });
            }
        }
    }

    fn reply(self: &Arc<Self>, operation: u32, reply: Result<Reply, Error>) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        self.operations.fetch_sub(1, Ordering::AcqRel);
        match reply {
            Ok(reply) => self.tell(operation, &Told::Reply(reply), 0),
            Err(error) => self.tell(operation, &Told::Failed(Failure::from(&error)), 0),
        }
    }

    /// Sends a frame, before which so many bytes were copied. Does not wait.
    fn tell(self: &Arc<Self>, operation: u32, told: &Told, copied: usize) {
        let mut out = self.out.lock();
        told.encode(operation, &mut out.frames);
        out.copied += copied;
        if !out.gathered || out.copied >= TOLD_EVERY {
            self.send(&mut out);
        }
    }

    fn end_gathering(self: &Arc<Self>) {
        let mut out = self.out.lock();
        out.gathered = false;
        self.send(&mut out);
    }

    /// Has the socket take what it takes at once; a thread waits for it to take the rest.
    fn send(self: &Arc<Self>, out: &mut Out) {
        out.copied = 0;
        if out.waits {
            if out.frames.len() > LEFT_BYTES_MAX {
                self.close();
            }
            return;
        }
        self.push(out);
        if out.waits {
            let client = Arc::clone(self);
            let thread = std::thread::Builder::new().name("foreread-client".into()).stack_size(STACK_BYTES);
            if thread.spawn(move || client.wait_until_taken()).is_err() {
                self.close();
            }
        }
    }

    fn wait_until_taken(&self) {
        loop {
            let polled = rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None);
            let mut out = self.out.lock();
            out.waits = false;
            if polled.is_ok() {
                self.push(&mut out);
            }
            if !out.waits {
                return;
            }
        }
    }

    fn push(&self, out: &mut Out) {
        let mut sent = 0;
        while sent < out.frames.len() {
            match rustix::net::send(&self.socket, &out.frames[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    out.waits = true;
                    break;
                }
                Err(_) => {
                    self.close();
                    sent = out.frames.len();
                }
            }
        }
        out.frames.drain(..sent);
    }
}
