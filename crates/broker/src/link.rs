//! Which engine a process reads through at the moment, and what happens when that ends.
//!
//! ```text
//!   connect ── elect ──┬─ Serves ──> Own: an engine here, served to others
//!                      ├─ Joins ───> Joined: a connection ── ends ──> Electing ── elect ──> ...
//!                      └─ Alone ───> Own: an engine here
//!   an operation ── Own: the engine │ Joined: the connection │ Electing: kept until it is over
//! ```
//!
//! *Invariants:* an operation is asked for until an engine has answered it: the end of a server is
//! no error. What is read has the version that its file says, whichever process reads it.
//! Elections run on a thread of their own: none that waits for an answer, or takes one, elects.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use foreread_backend::lock::Mutex;
use foreread_engine::{Engine, Error, ErrorKind, File, Key, MEMORY_BYTES_MIN, Pages, Stats};
use tokio::runtime::{Handle, Runtime};
use tracing::{info, warn};

use crate::answer::{Listings, answer};
use crate::connection::{CallDone, Connection, Loss, Numbered, Wanted};
use crate::identity::Identity;
use crate::options::ShareOptions;
use crate::orders::Orders;
use crate::place::{Elected, elect};
use crate::server::Serving;
use crate::wire::{Call, Reply};

/// Makes an engine with a budget, in bytes.
pub(crate) type Make = Box<dyn Fn(u64) -> Result<Engine, Error> + Send + Sync>;

/// The engine of an identity, wherever it is.
pub(crate) struct Linked {
    me: Weak<Self>,
    identity: Identity,
    options: ShareOptions,
    make: Make,
    /// The budget that this process was told; zero if it was not.
    told_bytes: AtomicU64,
    default_bytes: AtomicU64,
    /// How often something was asked for.
    issued: AtomicU64,
    link: Mutex<Link>,
    /// Executes futures where there is no engine.
    runtime: OnceLock<Runtime>,
    /// An engine for what cannot be read through another process.
    own: Mutex<Option<Engine>>,
    pub(crate) listings: AtomicU32,
    /// What another process's engine was told, and a successor has to be.
    pub(crate) orders: Orders,
}

enum Link {
    Own(Arc<Own>),
    Joined(Arc<Connection>),
    /// A thread elects. What is to be done then.
    Electing(Vec<Wanted>),
    /// No engine could be made.
    Failed(Error),
}

/// An engine of this process.
pub(crate) struct Own {
    pub(crate) engine: Engine,
    pub(crate) serving: Option<Serving>,
    listings: Arc<Listings>,
}

/// Where an engine is, for operations that are made there.
pub(crate) enum Where {
    Here(Arc<Own>),
    There,
}

impl Linked {
    /// Elects.
    ///
    /// Errors: those of `make`.
    pub(crate) fn connect(identity: Identity, options: ShareOptions, make: Make) -> Result<Arc<Self>, Error> {
        if let Some(bytes) = options.memory_bytes.filter(|bytes| *bytes < MEMORY_BYTES_MIN) {
            let text = format!("a memory budget of {bytes} bytes is below the least of {MEMORY_BYTES_MIN}");
            return Err(Error::told(ErrorKind::Invalid, &text, None, false));
        }
        let linked = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            told_bytes: AtomicU64::new(options.memory_bytes.unwrap_or(0)),
            default_bytes: AtomicU64::new(options.default_memory_bytes),
            issued: AtomicU64::new(0),
            identity,
            options,
            make,
            link: Mutex::new(Link::Electing(Vec::new())),
            runtime: OnceLock::new(),
            own: Mutex::new(None),
            listings: AtomicU32::new(0),
            orders: Orders::default(),
        });
        let link = linked.elect(linked.options.share)?;
        *linked.link.lock() = link;
        Ok(linked)
    }

    /// What this process was told, and what it uses if it was not told.
    fn memory_bytes(&self) -> (Option<u64>, u64) {
        let told = self.told_bytes.load(Ordering::Acquire);
        (Some(told).filter(|bytes| *bytes > 0), self.default_bytes.load(Ordering::Acquire))
    }

    fn elect(&self, share: bool) -> Result<Link, Error> {
        let (told, default) = self.memory_bytes();
        let elected = if share {
            elect(&self.identity, self.options.folder.as_deref(), told, self.options.silence)
        } else {
            Elected::Alone(String::new())
        };
        let bytes = told.unwrap_or(default);
        let seat = match elected {
            Elected::Joins(joined) => {
                let linked = Weak::clone(&self.me);
                let lost = move |wanted| {
                    if let Some(linked) = linked.upgrade() {
                        linked.elect_again();
                        linked.issue(wanted, None);
                    }
                };
                match Connection::start(joined, self.options.silence, lost) {
                    Ok(connection) => return Ok(Link::Joined(connection)),
                    Err(error) => {
                        warn!(%error, "an engine of another process is not used");
                        None
                    }
                }
            }
            Elected::Serves(seat) => Some(seat),
            Elected::Alone(why) => {
                if share {
                    info!(why, "this process reads with an engine of its own");
                }
                None
            }
        };
        let mut own = self.own.lock();
        let engine = match &*own {
            Some(engine) => engine.clone(),
            None => (self.make)(bytes)?,
        };
        *own = Some(engine.clone());
        drop(own);
        let serving = seat.and_then(|seat| {
            let started = Serving::start(seat, engine.clone(), self.identity.clone(), told, default);
            started.inspect_err(|error| warn!(%error, "other processes are not served")).ok()
        });
        Ok(Link::Own(Arc::new(Own { engine, serving, listings: Arc::default() })))
    }

    /// Begins an election, unless one is under way or was won by an engine here.
    fn elect_again(&self) {
        let loss = {
            let mut link = self.link.lock();
            let Link::Joined(connection) = &*link else { return };
            let Some(loss) = connection.loss() else { return };
            *link = Link::Electing(Vec::new());
            loss
        };
        // A server that is silent still has the lock.
        self.start_election(loss == Loss::Ended);
    }

    fn start_election(&self, share: bool) {
        let Some(linked) = self.me.upgrade() else { return };
        let elect = move || linked.end_election(linked.elect(share));
        if let Err(error) = std::thread::Builder::new().name("foreread-elect".into()).spawn(elect) {
            let text = format!("cannot start a thread: {error}");
            self.end_election(Err(Error::told(ErrorKind::Io, &text, None, true)));
        }
    }

    fn end_election(&self, elected: Result<Link, Error>) {
        let new = elected.unwrap_or_else(Link::Failed);
        let old = std::mem::replace(&mut *self.link.lock(), new);
        // What a new engine does not know, before what it is asked for.
        let rest = self.orders.rest().into_iter();
        self.issue(rest.map(|call| Wanted::Call { call, done: Box::new(drop) }).collect(), None);
        self.watch();
        if let Link::Electing(wanted) = old {
            self.issue(wanted, None);
        }
    }

    /// While an order is told, the end of the other process is noticed though this one asks for
    /// nothing: its workers may read in that order.
    pub(crate) fn watch(&self) {
        if let Some(connection) = self.connection() {
            connection.watch(!self.orders.is_none());
        }
    }

    /// Has operations done, wherever the engine is. A thread takes answers of the connection
    /// `helped`, which may be another one by now. See [`Connection::issue`].
    pub(crate) fn issue(&self, mut wanted: Vec<Wanted>, helped: Option<&Arc<Connection>>) {
        self.issued.fetch_add(1, Ordering::Relaxed);
        while !wanted.is_empty() {
            let connection = {
                let mut link = self.link.lock();
                match &mut *link {
                    Link::Joined(connection) => Arc::clone(connection),
                    Link::Electing(waiting) => {
                        waiting.append(&mut wanted);
                        return;
                    }
                    Link::Own(own) => {
                        let own = Arc::clone(own);
                        drop(link);
                        return own.run(wanted);
                    }
                    Link::Failed(error) => {
                        let error = error.clone();
                        // What comes later may find what was missing.
                        *link = Link::Electing(Vec::new());
                        drop(link);
                        self.start_election(self.options.share);
                        return wanted.into_iter().for_each(|wanted| wanted.fail(error.clone()));
                    }
                }
            };
            let is_helped = helped.is_some_and(|helped| Arc::ptr_eq(helped, &connection));
            match connection.issue(wanted, is_helped) {
                Ok(()) => return,
                Err(back) => wanted = back,
            }
            self.elect_again();
        }
    }

    /// How often something was asked for.
    pub(crate) fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Where operations are done now.
    pub(crate) fn place(&self) -> Where {
        match &*self.link.lock() {
            Link::Own(own) => Where::Here(Arc::clone(own)),
            _ => Where::There,
        }
    }

    /// The connection, while there is one.
    pub(crate) fn connection(&self) -> Option<Arc<Connection>> {
        match &*self.link.lock() {
            Link::Joined(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Has `call` answered.
    pub(crate) async fn call(&self, call: Call) -> Result<Reply, Error> {
        let (send, receive) = futures::channel::oneshot::channel();
        let done: CallDone = Box::new(move |reply| {
            // The caller may have gone away meanwhile.
            let _ = send.send(reply);
        });
        self.issue(vec![Wanted::Call { call, done }], None);
        receive.await.unwrap_or_else(|_| Err(ended()))
    }

    /// The same, for a thread that waits.
    pub(crate) fn call_and_wait(&self, call: Call) -> Result<Reply, Error> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let done: CallDone = Box::new(move |reply| {
            let _ = send.send(reply);
        });
        self.issue(vec![Wanted::Call { call, done }], None);
        receive.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Where futures of this engine run.
    ///
    /// Errors: no thread can be started.
    pub(crate) fn runtime(&self) -> Result<Handle, Error> {
        if let Where::Here(own) = self.place() {
            return Ok(own.engine.runtime().clone());
        }
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.handle().clone());
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let made = builder
            .worker_threads(1)
            .thread_name("foreread-io")
            .enable_time()
            .build()
            .map_err(|error| Error::told(ErrorKind::Io, &format!("cannot start threads: {error}"), None, false))?;
        // Of two, one is dropped.
        if let Err(second) = self.runtime.set(made) {
            second.shutdown_background();
        }
        Ok(self.runtime.get().expect("it is set").handle().clone())
    }

    /// See [`Shared::set_part`](crate::Shared).
    pub(crate) fn set_part(&self, is_told: bool, part: u64, equal: u64) -> Result<(), Error> {
        let told = |bytes| is_told.then_some(bytes);
        self.told_bytes.store(told(equal).unwrap_or(0), Ordering::Release);
        self.default_bytes.store(equal, Ordering::Release);
        match self.place() {
            Where::Here(own) => match &own.serving {
                Some(serving) => serving.set_memory_bytes(told(part), part),
                None => own.engine.set_memory_bytes(part),
            },
            Where::There => {
                if let Some(engine) = &*self.own.lock() {
                    engine.set_memory_bytes(part)?;
                }
                // It is told with the next hello, if not now.
                self.issue(vec![Wanted::Call { call: Call::Memory(told(equal)), done: Box::new(drop) }], None);
                Ok(())
            }
        }
    }

    /// The engine of this process, if there is one: the one that is read through, or one that was
    /// made besides.
    pub(crate) fn engine_here(&self) -> Option<Engine> {
        match self.place() {
            Where::Here(own) => Some(own.engine.clone()),
            Where::There => self.own.lock().clone(),
        }
    }

    /// The counters of the engine, and how many clients it has.
    pub(crate) fn stats(&self) -> Result<(Stats, usize), Error> {
        loop {
            if let Where::Here(own) = self.place() {
                return Ok((own.engine.stats(), own.serving.as_ref().map_or(0, Serving::clients)));
            }
            // Answered without counters if it comes to be an engine of this process meanwhile.
            if let Reply::Stats { json, clients } = self.call_and_wait(Call::Stats)? {
                return Ok((serde_json::from_str(&json).unwrap_or_default(), clients as usize));
            }
        }
    }

    /// An engine of this process: the one that is read through, or one that is made for this.
    ///
    /// Errors: those of making it.
    pub(crate) fn own_engine(&self) -> Result<Engine, Error> {
        if let Where::Here(own) = self.place() {
            return Ok(own.engine.clone());
        }
        let mut own = self.own.lock();
        if let Some(engine) = &*own {
            return Ok(engine.clone());
        }
        let (told, default) = self.memory_bytes();
        let engine = (self.make)(told.unwrap_or(default))?;
        *own = Some(engine.clone());
        Ok(engine)
    }

    /// Reads through an engine of this process from now on.
    pub(crate) fn leave(&self) {
        if let Some(connection) = self.connection() {
            connection.end(Loss::Silent);
        }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        if let Link::Joined(connection) = &*self.link.lock() {
            connection.end(Loss::Ended);
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Own {
    /// Tells an order.
    pub(crate) async fn expect(&self, keys: Vec<Key>, ahead_bytes: Option<u64>) -> Result<usize, Error> {
        if let Some(serving) = &self.serving {
            serving.expects();
        }
        self.engine.expect_ahead(keys, ahead_bytes).await
    }

    /// Takes back what this process has told. Orders of others stay.
    pub(crate) fn expect_none(&self) {
        match &self.serving {
            Some(serving) => serving.expects_none(),
            None => self.engine.expect_none(),
        }
    }

    /// Does operations that were asked for when the engine was elsewhere.
    fn run(self: &Arc<Self>, wanted: Vec<Wanted>) {
        let mut reads = Vec::new();
        for wanted in wanted {
            match wanted {
                Wanted::Read { file, offset, len, done } => {
                    let file = self.file(&file);
                    reads.push((file, offset, len, move |pages: Result<Pages, Error>| {
                        done(pages.map(Into::into));
                    }));
                }
                Wanted::Call { call: Call::Expect { keys, ahead_bytes }, done } => {
                    let own = Arc::clone(self);
                    self.engine.survive_later("an order", async move {
                        done(own.expect(keys, ahead_bytes).await.map(|count| Reply::Count(count as u64)));
                    });
                }
                Wanted::Call { call: Call::ExpectNone, done } => {
                    self.expect_none();
                    done(Ok(Reply::Nothing));
                }
                Wanted::Call { call, done } => {
                    let (engine, listings) = (self.engine.clone(), Arc::clone(&self.listings));
                    self.engine.survive_later("a call", async move { done(answer(&engine, &listings, call).await) });
                }
            }
        }
        self.engine.read_together(reads);
    }

    /// The file in this process's engine.
    pub(crate) fn file(&self, file: &Numbered) -> File {
        file.here.get_or_init(|| self.engine.open(&file.object)).clone()
    }
}

/// The engine has ended while it was waited for.
pub(crate) fn ended() -> Error {
    Error::told(ErrorKind::Io, "the engine has been shut down", None, false)
}
