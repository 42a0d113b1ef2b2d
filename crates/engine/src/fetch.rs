//! One request to the storage, for whoever is in it (`joint.rs`): its attempts, its patience, its bytes into folios.
//!
//! ```text
//!   (granted a megabyte at a time: a body that finds no memory waits in its connection)
//!
//!   attempt ── head ── piece ── piece ── ... ── all bytes: Completed
//!      │         └─ late, broken, wrong ─┐
//!      └─ refused ───────────────────────┤ a reader waits?  no:  given up at once (counted, no reader sees it)
//!                                        │                  yes: again from where it broke off, after a back-off with jitter
//!                                        └─ for longer than patience allows: Failed, the waiting reads get the error
//! ```

use std::future::Future;
use std::iter::Peekable;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use foreread_backend as backend;
use foreread_policy::{Event, Extent, Nanos, PAGE_BYTES, RequestId};
use futures::StreamExt;
use futures::future::{Either, select};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::buffer::Buffer;
use crate::engine::Inner;
use crate::error::{Error, ErrorKind};
use crate::joint::Joint;
use crate::page_table::Folio;
use crate::shard::Shard;

/// What a folio knows of the request that fills it.
pub(crate) struct Fetch {
    request: RequestId,
    extent: Extent,
    /// A reader waits for some of it. Set with the shard held.
    demanded: AtomicBool,
    /// There is memory for the pages before this one.
    granted: AtomicU64,
    grown: Notify,
    /// It is late if it has no answer after this long.
    late: Option<Duration>,
    /// It is to be made once more. Set with the shard held.
    hedged: AtomicBool,
    /// What is let go of when policy has been told that it is over. Taken with the shard held, dropped without.
    held: Mutex<Vec<Held>>,
}

/// Something that is let go of when nothing holds it any more.
pub(crate) type Held = Arc<dyn std::any::Any + Send + Sync>;

impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetch").field("request", &self.request).field("extent", &self.extent).finish_non_exhaustive()
    }
}

impl Fetch {
    pub(crate) fn new(
        request: RequestId,
        extent: Extent,
        demanded: bool,
        granted: u64,
        late: Option<Nanos>,
    ) -> Arc<Self> {
        let (demanded, granted) = (AtomicBool::new(demanded), AtomicU64::new(granted));
        let late = late.map(|late| Duration::from_nanos(late.0));
        let hedged = AtomicBool::new(false);
        let held = Mutex::default();
        Arc::new(Self { request, extent, demanded, granted, grown: Notify::new(), late, hedged, held })
    }

    pub(crate) fn request(&self) -> RequestId {
        self.request
    }

    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether there is memory for all of it.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted.load(Acquire) >= self.extent.end
    }

    /// There is memory for the pages before `granted`.
    pub(crate) fn grant(&self, granted: u64) {
        self.granted.store(granted, Release);
        self.grown.notify_one();
    }

    /// Waits until `page` may be taken in. The connection holds back what comes meanwhile.
    async fn granted(&self, engine: &Arc<Inner>, page: u64) {
        loop {
            let granted = self.granted.load(Acquire);
            if page < granted {
                return;
            }
            engine.enter(|shard| engine.tell(shard, Event::Wants { request: self.request }));
            // The next grant may end before `page`, where what lies between is resident.
            while self.granted.load(Acquire) == granted {
                self.grown.notified().await;
            }
        }
    }

    /// Holds `what` until policy has been told that it is over.
    pub(crate) fn hold(&self, what: Held) {
        self.held.lock().push(what);
    }

    /// What it holds, to be dropped without the shard.
    pub(crate) fn let_go(&self) -> Vec<Held> {
        std::mem::take(&mut *self.held.lock())
    }

    /// It is to be made once more.
    pub(crate) fn hedge(&self) {
        self.hedged.store(true, Relaxed);
    }

    /// It is late. Whether it is to be made once more.
    fn tell_late(&self, engine: &Arc<Inner>) -> bool {
        engine.enter(|shard| {
            if shard.counts(self.request) {
                engine.tell(shard, Event::Late { request: self.request });
            }
        });
        self.hedged.load(Relaxed)
    }

    /// A reader waits for it from now on.
    pub(crate) fn demand(&self) {
        self.demanded.store(true, Relaxed);
    }

    pub(crate) fn is_demanded(&self) -> bool {
        self.demanded.load(Acquire)
    }
}

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    retryable: bool,
    retry_after: Option<Duration>,
}

impl From<backend::Error> for Failure {
    fn from(error: backend::Error) -> Self {
        Self { retryable: error.kind().is_retryable(), retry_after: error.retry_after(), error: error.into() }
    }
}

/// One call to the backend, for at most `patience`.
pub(crate) async fn attempt<T>(
    patience: Duration,
    operation: &str,
    object: &str,
    call: impl Future<Output = Result<T, backend::Error>>,
) -> Result<T, Failure> {
    if let Ok(result) = tokio::time::timeout(patience, call).await {
        return result.map_err(Failure::from);
    }
    let text = format!("{operation} {object}: the storage was silent for {} s", patience.as_secs_f32());
    let error = Error::new(ErrorKind::TimedOut, text).with_key(object);
    Err(Failure { error, retryable: true, retry_after: None })
}

/// Waits between attempts: longer each time, never the same for two requests, and not for ever.
pub(crate) struct Backoff {
    deadline: Instant,
    attempts: u32,
    seed: u64,
}

impl Backoff {
    /// Gives up `patience` from now.
    pub(crate) fn new(patience: Duration) -> Self {
        let now = Instant::now();
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0u8);
        Self { deadline: now + patience, attempts: 0, seed }
    }

    /// Waits before the next attempt, or says that there shall be none.
    pub(crate) async fn wait(&mut self, failure: Failure) -> Result<(), Error> {
        if !failure.retryable {
            return Err(failure.error);
        }
        let pause = self.pause(failure.retry_after);
        if Instant::now() + pause >= self.deadline {
            let text = format!("{} (after {} attempts)", failure.error, self.attempts);
            return Err(failure.error.with_text(text));
        }
        tracing::debug!(error = %failure.error, ?pause, "trying again");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Doubles from 50 ms to 3.2 s, less up to half of it; never shorter than the storage asked for.
    fn pause(&mut self, retry_after: Option<Duration>) -> Duration {
        let whole = Duration::from_millis(50 << self.attempts.min(6));
        self.attempts += 1;
        // splitmix64: the attempts of many requests must not come back in step.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let per_mille = 500 + (z >> 33) % 500;
        (whole * per_mille as u32 / 1000).max(retry_after.unwrap_or_default())
    }
}

/// Puts bytes into folios, in order. What lies between them is resident already, and read past.
struct Filling {
    folios: Peekable<smallvec::IntoIter<[Arc<Folio>; 1]>>,
    current: Option<(Arc<Folio>, Buffer, usize)>,
    /// The bytes of the object still to come.
    rest: Range<u64>,
}

impl Filling {
    /// Takes one piece of the body, as far as it is granted. `false` if it has more bytes than asked for.
    async fn take(&mut self, engine: &Arc<Inner>, mut piece: Bytes) -> bool {
        while !piece.is_empty() {
            let (folio, mut buffer, at) = if let Some(current) = self.current.take() {
                current
            } else {
                let Some(folio) = self.folios.peek().map(Arc::clone) else { return false };
                let start = folio.extent.start * PAGE_BYTES;
                let past = start.saturating_sub(self.rest.start).min(piece.len() as u64);
                if past > 0 {
                    piece.advance(past as usize);
                    self.rest.start += past;
                    continue;
                }
                self.folios.next();
                folio.fetch.granted(engine, folio.extent.start).await;
                let end = (folio.extent.end * PAGE_BYTES).min(self.rest.end);
                (folio, Buffer::new((end - start) as usize), 0)
            };
            let count = piece.len().min(buffer.len() - at);
            buffer[at..at + count].copy_from_slice(&piece.split_to(count));
            self.rest.start += count as u64;
            if at + count == buffer.len() {
                folio.fill(Ok(buffer));
            } else {
                self.current = Some((folio, buffer, at + count));
            }
        }
        true
    }

    /// None of the rest will come.
    fn fail(&mut self, error: &Error) {
        for folio in self.current.take().map(|(folio, ..)| folio).into_iter().chain(self.folios.by_ref()) {
            folio.fill(Err(error.clone()));
        }
    }
}

impl Drop for Filling {
    /// Whoever still waits for the rest when its task ends early, maybe before it began, waits no longer: the engine is gone. They are
    /// told by a thread of its own: this one may hold the shard.
    fn drop(&mut self) {
        let rest = self.current.take().map(|(folio, ..)| folio).into_iter().chain(self.folios.by_ref());
        let error = Error::new(ErrorKind::Io, "the engine has been shut down");
        let mut waited_for = Vec::new();
        for folio in rest {
            if folio.is_waited_for() {
                waited_for.push(folio);
            } else {
                folio.fill(Err(error.clone()));
            }
        }
        if !waited_for.is_empty() {
            std::thread::spawn(move || waited_for.iter().for_each(|folio| folio.fill(Err(error.clone()))));
        }
    }
}

/// Counts a request as in flight until it is over, however it ends: also where its task is cancelled before it ever ran.
pub(crate) struct InFlight(Arc<Inner>);

impl InFlight {
    pub(crate) fn new(engine: &Arc<Inner>) -> Self {
        engine.stats.in_flight.fetch_add(1, Relaxed);
        Self(Arc::clone(engine))
    }

    pub(crate) fn engine(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.stats.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Carries what the storage is asked for at once to its end.
pub(crate) fn fetch(in_flight: InFlight, mut joint: Joint) -> impl Future<Output = ()> + Send {
    let (size, extent) = (joint.opened.object.version.size, joint.extent());
    let rest = extent.start * PAGE_BYTES..(extent.end * PAGE_BYTES).min(size);
    // Each is let go of when it is filled: what is evicted before the request ends is memory again.
    let folios = std::mem::take(&mut joint.folios).into_iter().peekable();
    let filling = Filling { folios, current: None, rest };
    carry(in_flight, joint, filling)
}

async fn carry(in_flight: InFlight, joint: Joint, mut filling: Filling) {
    let engine = Arc::clone(&in_flight.0);
    let mut backoff: Option<Backoff> = None;
    let submitted = Instant::now();
    let mut first_byte = None;
    // It is late once: an attempt that follows a failure has had its second chance.
    let mut late = joint.lead().late;
    loop {
        let read = read_body(&engine, &joint, &mut filling, submitted, &mut first_byte, late.take());
        let failure = match read.await {
            Ok(()) => break,
            Err(failure) => failure,
        };
        let arrived = filling.rest.start;
        let (first_byte, total) = (nanos(first_byte.unwrap_or_default()), nanos(submitted.elapsed()));
        let settle = |shard: &mut Shard| joint.settle(&engine, shard, arrived, first_byte, total);
        if !joint.is_demanded(arrived) && give_up_speculation(&engine, &joint, arrived, &failure, settle) {
            return;
        }
        let patience = engine.patience.total;
        if let Err(error) = backoff.get_or_insert_with(|| Backoff::new(patience)).wait(failure).await {
            engine.stats.demand_failed.fetch_add(1, Relaxed);
            engine.enter(settle);
            filling.fail(&error);
            return;
        }
        engine.stats.retries.fetch_add(1, Relaxed);
    }
    let first_byte = first_byte.unwrap_or_default();
    engine.stats.first_byte.record(first_byte);
    let (first_byte, total) = (nanos(first_byte), nanos(submitted.elapsed()));
    engine.enter(|shard| joint.settle(&engine, shard, filling.rest.end, first_byte, total));
}

/// One attempt at what is still missing.
async fn read_body(
    engine: &Arc<Inner>,
    joint: &Joint,
    filling: &mut Filling,
    submitted: Instant,
    first_byte: &mut Option<Duration>,
    late: Option<Duration>,
) -> Result<(), Failure> {
    let (patience, object) = (engine.patience, &joint.opened.object);
    let wanted = filling.rest.clone();
    let ask = || {
        engine.stats.requests.fetch_add(1, Relaxed);
        let read = engine.backend.read(&object.key, &object.version, wanted.clone());
        attempt(patience.first_byte, "read", object.key.as_str(), read)
    };
    let mut body = match late {
        Some(late) => sooner_of(ask, late, || joint.lead().tell_late(engine)).await?,
        None => ask().await?,
    };
    let wrong = |what: &str| {
        let text = format!("read {} [{}, {}): {what}", object.key, wanted.start, wanted.end);
        let error = Error::new(ErrorKind::Io, text).with_key(object.key.as_str()).with_retry();
        Failure { error, retryable: true, retry_after: None }
    };
    while !filling.rest.is_empty() {
        let next = async { Ok(body.next().await) };
        let Some(piece) = attempt(patience.idle, "read", object.key.as_str(), next).await? else {
            return Err(wrong("the body ended early"));
        };
        let piece = piece?;
        first_byte.get_or_insert_with(|| submitted.elapsed());
        engine.stats.fetched_bytes.fetch_add(piece.len() as u64, Relaxed);
        if !filling.take(engine, piece).await {
            return Err(wrong("more bytes came than were asked for"));
        }
    }
    Ok(())
}

/// The answer to what is asked, or, if that has none after `late` and `again` says so, whichever comes first of it and of what is asked
/// once more. What fails gives way to the other; what loses is given up with its connection.
async fn sooner_of<T, A: Future<Output = Result<T, Failure>>>(
    ask: impl Fn() -> A,
    late: Duration,
    again: impl FnOnce() -> bool,
) -> Result<T, Failure> {
    let mut first = pin!(ask());
    if let Ok(answer) = tokio::time::timeout(late, first.as_mut()).await {
        return answer;
    }
    if !again() {
        return first.await;
    }
    match select(first, pin!(ask())).await {
        Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
        Either::Left((Err(_), other)) | Either::Right((Err(_), other)) => other.await,
    }
}

/// A request that failed is dropped where nobody waits for what lacks of it, unless a reader has come to meanwhile.
fn give_up_speculation(
    engine: &Arc<Inner>,
    joint: &Joint,
    arrived: u64,
    failure: &Failure,
    settle: impl FnOnce(&mut Shard),
) -> bool {
    engine.enter(|shard| {
        if joint.is_demanded(arrived) {
            return false;
        }
        tracing::debug!(error = %failure.error, "speculation failed");
        engine.stats.speculation_failed.fetch_add(1, AcqRel);
        settle(shard);
        true
    })
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}
