//! A device model in real time, as a backend: the library's storage where a workload's device is
//! emulated.
//!
//! ```text
//!  read ──> [lock] device.handle(now, Read) [unlock] ──> waits for its channel
//!  clock thread: sleeps until next_deadline, or until a read changes it ──> Done: to the channel
//! ```
//!
//! A model keeps its own time: a clock thread that wakes late delays an answer, and never the
//! device.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use foreread_backend::{Backend, Body, Capabilities, Error, ErrorKind, Key, ListPage, Object, Operation, Version};
use foreread_device::array::Array;
use foreread_device::block::{Action, BlockDevice, Event};
use foreread_device::disk::Disk;
use foreread_device::flash::Flash;
use foreread_sim::Profile;
use foreread_testbed::content::Content;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;

use crate::subject::server::GENERATION;

/// One object on one block device.
#[derive(Debug)]
pub(crate) struct Emulated {
    object: Object,
    content: Content,
    rotational: bool,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    device: Box<dyn BlockDevice + Send>,
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<()>>,
    stopped: bool,
}

impl Emulated {
    /// The device of `profile`, holding `key` of `size_bytes`. `None` for a model that is not a
    /// block device.
    pub(crate) fn new(profile: Profile, key: &str, size_bytes: u64) -> Option<Self> {
        let rotational = profile.is_rotational();
        let device: Box<dyn BlockDevice + Send> = match profile {
            Profile::Array(config) => Box::new(Array::new(config)),
            Profile::Disk(config) => Box::new(Disk::new(config)),
            Profile::Flash(config) => Box::new(Flash::new(config)),
            _ => return None,
        };
        let state = State { device, next: 0, waiting: HashMap::new(), stopped: false };
        let shared = Arc::new(Shared { started: Instant::now(), state: Mutex::new(state), changed: Condvar::new() });
        let clock = Arc::clone(&shared);
        std::thread::spawn(move || clock.run());
        let version = Version { size: size_bytes, tag: Some("emulated".into()), modified: None };
        let object = Object { key: Key::new(key), version };
        Some(Self { object, content: Content::new(key, GENERATION), rotational, shared })
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn ask(&self, range: &Range<u64>) -> oneshot::Receiver<()> {
        let (send, receive) = oneshot::channel();
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.waiting.insert(id, send);
        let bytes = range.end - range.start;
        state.device.handle(self.now_ns(), Event::Read { id, offset: range.start, bytes });
        self.changed.notify_one();
        receive
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.stopped {
            state.device.handle(self.now_ns(), Event::Tick);
            while let Some(Action::Done { id, .. }) = state.device.poll_action() {
                if let Some(waiting) = state.waiting.remove(&id) {
                    // The request may have been dropped.
                    let _ = waiting.send(());
                }
            }
            let idle = Duration::from_secs(1);
            let pause = state
                .device
                .next_deadline()
                .map_or(idle, |at_ns| Duration::from_nanos(at_ns.saturating_sub(self.now_ns())).min(idle));
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Backend for Emulated {
    fn describe(&self) -> String {
        "an emulated device".to_owned()
    }

    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        (can.range, can.conditional_read, can.rotational) = (true, true, self.rotational);
        can
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        let missing = || Error::new(ErrorKind::NotFound, Operation::Stat, key.as_str(), "there is one object only");
        let found = (*key == self.object.key).then(|| self.object.clone()).ok_or_else(missing);
        std::future::ready(found).boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, _: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        let (answer, content) = (self.shared.ask(&range), self.content);
        async move {
            let stopped = |_| Error::new(ErrorKind::Transient, Operation::Read, key.as_str(), "the device has stopped");
            answer.await.map_err(stopped)?;
            let pieces = stream::unfold(range.start, move |at| async move {
                let piece = (at < range.end).then(|| content.chunk(at, range.end - at))?;
                let next = at + piece.len() as u64;
                Some((Ok(piece), next))
            });
            Ok(pieces.boxed() as Body)
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let error = Error::new(ErrorKind::Unsupported, Operation::List, prefix, "a device has no directory");
        std::future::ready(Err(error)).boxed()
    }
}
