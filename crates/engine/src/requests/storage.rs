//! The storage: a backend, how long it is waited for, and what it has been asked.
//!
//! Operations that bring no pages (stat, list) are made and retried here; reads are tasks of their
//! own (`fetch.rs`, `in_place.rs`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use foreread_backend::{Backend, Error as BackendError, Key, ListPage, Object, Version};
use foreread_policy::{Hedge, Nanos};
use foreread_tier::Tier;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::failures::{Failures, What};
use crate::numbers::{STEP, mixed};
use crate::options::{Options, Patience};
use crate::pages::opened::Kept;
use crate::planted::Planted;
use crate::requests::attempt::{Backoff, Failure, attempt, sooner_of};
use crate::requests::line::{Line, NothingTaken, Turn};
use crate::requests::unclaimed::Unclaimed;
use crate::slow::Slow;
use crate::stats::Counters;
use crate::sync::Mutex;

/// A backend, and how it is asked.
pub(crate) struct Storage {
    pub(crate) backend: Arc<dyn Backend>,
    /// What was read once stays there.
    pub(crate) tier: Option<Arc<Tier>>,
    /// What tells the storage from others that share the tier.
    identity: String,
    pub(crate) patience: Patience,
    pub(crate) stats: Arc<Counters>,
    pub(crate) slow: Slow,
    pub(crate) failures: Failures,
    pub(crate) planted: Arc<Planted>,
    pub(crate) unclaimed: Unclaimed,
    /// Where requests wait for their turn.
    pub(crate) line: Arc<Line>,
    /// A refusal tells that requests come too fast. A local one tells that too many are under way
    /// just now; a web server's listing is made of many requests, none of which stands in line.
    counts_requests: bool,
    /// When a question is late; `None` where nothing is asked for twice.
    hedges: Option<Hedges>,
    /// From it follow the waits between attempts.
    seed: AtomicU64,
}

/// When a question of each kind is late.
#[derive(Default)]
struct Hedges {
    stat: Mutex<Hedge>,
    list: Mutex<Hedge>,
    first: Mutex<Hedge>,
}

/// Where a page of a listing begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cursor {
    Start,
    /// Where the page before ended, in the storage's words.
    Token(String),
    /// After this key.
    After(String),
}

/// What the read of an object tells of which nothing was known.
pub(crate) enum FirstRead {
    /// The object, and when it was asked for.
    Object(Object, Instant),
    /// There is none.
    Absent(Error),
    /// Nothing: it is refused, broken, too short or late.
    Failed,
    /// Nothing was asked: another reader asks for it just now, or too many do for others.
    Busy,
}

impl Storage {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        tier: Option<Arc<Tier>>,
        options: &Options,
        planted: Arc<Planted>,
    ) -> Self {
        let identity = backend.identity();
        let (patience, seed) = (options.patience, AtomicU64::new(options.seed));
        let (stats, slow) = (Arc::default(), Slow::new(options.slow));
        let (failures, unclaimed) = (Failures::default(), Unclaimed::default());
        let hedges = options.hedges && options.readahead && !backend.capabilities().rotational;
        let hedges = hedges.then(Hedges::default);
        let counts_requests = backend.capabilities().conditional_read && !backend.capabilities().directories;
        Self {
            backend,
            tier,
            identity,
            patience,
            stats,
            slow,
            failures,
            planted,
            unclaimed,
            line: Line::new(),
            counts_requests,
            hedges,
            seed,
        }
    }

    /// The place of `object` in the tier; `None` if there is no tier, or nothing but its length
    /// tells this version from the next.
    pub(crate) fn kept(&self, object: &Object) -> Option<Kept> {
        let Version { size, tag, modified } = &object.version;
        let tier = self.tier.as_ref().filter(|_| tag.is_some() || modified.is_some())?;
        let since = |at: &SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_nanos()).ok();
        let version = format!("{size} {tag:?} {:?}", modified.as_ref().map(since));
        let object = tier.object(&self.identity, object.key.as_str(), &version);
        Some(Kept { tier: Arc::clone(tier), object })
    }

    /// The waits of an operation that began at `began`, unlike those of the others.
    pub(crate) fn backoff(&self, began: Instant) -> Backoff {
        Backoff::new(began, self.patience.total, mixed(self.seed.fetch_add(STEP, Relaxed)))
    }

    /// One call to the backend, in its turn; `again`: it was refused before. With the answer comes
    /// how it waited for its turn.
    pub(crate) async fn call<T>(
        &self,
        again: bool,
        operation: &str,
        object: &str,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<(T, Turn), Failure> {
        let turn = self.line.turn(again, self.patience.total).await.map_err(|NothingTaken| {
            let seconds = self.patience.total.as_secs_f32();
            let text = format!(
                "{operation} {object}: the storage has refused each request for {seconds} s, as one of too many; \
                 read with fewer readers, or raise its limit"
            );
            Failure::lasting(Error::new(ErrorKind::Throttled, text).with_key(object).with_retry())
        })?;
        let answer = attempt(self.patience.first_byte, operation, object, call).await;
        match &answer {
            Ok(_) if self.counts_requests => self.line.accepted(),
            Err(failure) if self.counts_requests && failure.is_throttled() => self.line.refused(failure.retry_after()),
            // That there is none is an answer.
            Err(failure) if self.counts_requests && failure.is_answer() => self.line.accepted(),
            // One that is broken or late tells nothing of a limit.
            _ => {}
        }
        answer.map(|answer| (answer, turn)).map_err(|failure| failure.after(turn.waited))
    }

    /// Describes an object.
    pub(crate) async fn stat(&self, key: &Key) -> Result<Object, Error> {
        self.stats.stats.fetch_add(1, Relaxed);
        let hedge = self.hedges.as_ref().map(|hedges| (&hedges.stat, &self.stats.stats));
        self.retry(hedge, "stat", key.as_str(), || self.backend.stat(key)).await
    }

    /// Whether an object can be read before it is known, and is not in the tier.
    pub(crate) fn reads_first(&self) -> bool {
        self.tier.is_none() && self.backend.capabilities().read_current
    }

    /// Reads `range` of the current version of `key`, and keeps its body for the request that will
    /// want it. There is one attempt.
    pub(crate) async fn read_first(&self, key: &Key, range: Range<u64>) -> FirstRead {
        let Some(turn) = self.unclaimed.turn(key) else { return FirstRead::Busy };
        self.stats.requests.fetch_add(1, Relaxed);
        let asked = Instant::now();
        let read = || self.backend.read_current(key, range.clone());
        let hedge = self.hedges.as_ref().map(|hedges| (&hedges.first, &self.stats.requests));
        match self.ask(hedge, false, "read", key.as_str(), read).await {
            Ok(current) => {
                let object = current.object.clone();
                turn.keep(current, asked);
                FirstRead::Object(object, asked)
            }
            Err(failure) if failure.error.kind() == ErrorKind::NotFound => FirstRead::Absent(failure.error),
            Err(failure) => {
                tracing::debug!(error = %failure.error, "a first read tells nothing");
                FirstRead::Failed
            }
        }
    }

    /// One page of the direct children of `prefix`.
    pub(crate) async fn list(&self, prefix: &str, cursor: &Cursor) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, ?cursor, "listing");
        let list = || match cursor {
            Cursor::Start => self.backend.list(prefix, None),
            Cursor::Token(token) => self.backend.list(prefix, Some(token)),
            Cursor::After(after) => self.backend.list_after(prefix, after),
        };
        let hedge = self.hedges.as_ref().map(|hedges| (&hedges.list, &self.stats.lists));
        self.retry(hedge, "list", prefix, list).await
    }

    /// One page of the subtree of `prefix`, after the key `after`. No reader waits for it, so
    /// there is one attempt.
    pub(crate) async fn list_below(&self, prefix: &str, after: &str) -> Result<ListPage, Error> {
        self.stats.lists.fetch_add(1, Relaxed);
        tracing::debug!(prefix, after, "listing a subtree");
        let list = self.backend.list_below(prefix, after);
        let attempted = self.call(false, "list", prefix, list).await;
        attempted
            .map(|(page, _)| page)
            .map_err(|failure| failure.error)
            .inspect_err(|error| self.failures.note(What::Ahead, error))
    }

    /// Whether a request that is late may be sent once more just now.
    pub(crate) fn may_hedge(&self) -> bool {
        self.hedges.is_some() && self.line.may_hedge()
    }

    /// Attempts an operation until it succeeds, it cannot, or patience ends.
    async fn retry<T, A: Future<Output = Result<T, BackendError>>>(
        &self,
        hedge: Option<(&Mutex<Hedge>, &AtomicU64)>,
        operation: &str,
        object: &str,
        call: impl Fn() -> A,
    ) -> Result<T, Error> {
        let mut backoff = self.backoff(Instant::now());
        loop {
            match self.ask(hedge, backoff.was_throttled(), operation, object, &call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    let error = failure.error.clone();
                    if let Err(error) = backoff.wait(failure).await {
                        // That there is no such name is an answer.
                        if error.kind() != ErrorKind::NotFound {
                            self.failures.note(What::Name, &error);
                        }
                        return Err(error);
                    }
                    self.failures.note(What::Again, &error);
                }
            }
            self.stats.retries.fetch_add(1, Relaxed);
        }
    }

    /// One attempt at an operation. If the storage stalls, it is asked for once more, and counted
    /// once more.
    async fn ask<T, A: Future<Output = Result<T, BackendError>>>(
        &self,
        hedge: Option<(&Mutex<Hedge>, &AtomicU64)>,
        again: bool,
        operation: &str,
        object: &str,
        call: impl Fn() -> A,
    ) -> Result<T, Failure> {
        let ask = || self.call(again, operation, object, call());
        let Some((hedge, asked)) = hedge else { return ask().await.map(|(answer, _)| answer) };
        let (began, stalled) = (Instant::now(), hedge.lock().stalled_after());
        let is_late = |_| {
            let is_hedged = self.line.may_hedge() && hedge.lock().take();
            asked.fetch_add(u64::from(is_hedged), Relaxed);
            is_hedged
        };
        // In boxes: a future of both within itself would be large.
        let answer = sooner_of(Box::pin(ask()), Duration::from_nanos(stalled.0), is_late, || Box::pin(ask())).await;
        let is_answered = |failure: &Failure| failure.error.kind() == ErrorKind::NotFound;
        if answer.as_ref().err().is_none_or(is_answered) {
            let waited = answer.as_ref().map_or_else(Failure::waited, |(_, turn)| turn.waited);
            hedge.lock().observe(Nanos(began.elapsed().saturating_sub(waited).as_nanos() as u64));
        }
        answer.map(|(answer, _)| answer)
    }
}
