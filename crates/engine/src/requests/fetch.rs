//! A task that carries one joint request to its end: its attempts, its patience, its bytes.
//!
//! ```text
//!   attempt ── head ── piece ── piece ── ... ── all bytes: completed
//!      │         └─ late, broken, wrong ─┐
//!      └─ refused ───────────────────────┤ a reader waits?
//!                                        │    no:  given up at once; counted, seen by no reader
//!                                        │    yes: the tier has it: completed
//!                                        │    else again, after a back-off, where it broke off
//!                                        └─ for longer than patience allows: failed, and the
//!                                           waiting reads get the error
//! ```

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use foreread_backend::Body;
use foreread_policy::{Nanos, PAGE_BYTES, Source};
use futures::StreamExt;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::failures::What;
use crate::planted::Panic;
use crate::requests::attempt::{Backoff, Failure, attempt, sooner_of, was_stopped};
use crate::requests::filling::Filling;
use crate::requests::from_tier;
use crate::requests::joint::{End, Joint};
use crate::requests::owner::{Broken, InFlight, Owner};

/// Carries `joint` to its end.
pub(crate) fn fetch<O: Owner>(in_flight: InFlight<O>, mut joint: Joint) -> impl Future<Output = ()> + Send {
    let extent = joint.extent();
    let rest = extent.start * PAGE_BYTES..(extent.end * PAGE_BYTES).min(joint.opened.size());
    // Each folio is let go of when it is full: one that is evicted before the request ends is
    // memory again.
    let filling = Filling::new(std::mem::take(&mut joint.folios), rest);
    let owner = Arc::clone(in_flight.owner());
    carry(in_flight, Carried { owner, joint, filling, ended: false })
}

/// A joint request, while a task carries it. However the task ends, its owner hears of it: else
/// memory, a place at the storage and folios would stay taken.
struct Carried<O: Owner> {
    owner: Arc<O>,
    joint: Joint,
    filling: Filling,
    /// The owner has been told.
    ended: bool,
}

impl<O: Owner> Drop for Carried<O> {
    fn drop(&mut self) {
        if !self.ended {
            let unfilled = self.filling.unfilled().collect();
            self.owner.broken(Broken { joint: self.joint.clone(), unfilled, panicked: std::thread::panicking() });
        }
    }
}

async fn carry<O: Owner>(in_flight: InFlight<O>, mut carried: Carried<O>) {
    let owner = Arc::clone(in_flight.owner());
    let storage = owner.storage();
    let Carried { joint, filling, ended, .. } = &mut carried;
    let mut backoff: Option<Backoff> = None;
    let mut first = storage.unclaimed.claim(&joint.opened.object, filling.rest());
    // How long the storage took to answer counts, and not how long the answer was kept.
    let took = first.as_ref().map_or(Duration::ZERO, |first| first.took);
    let mut answer = Answer::new(Instant::now().checked_sub(took).unwrap_or_else(Instant::now));
    loop {
        let again = backoff.as_ref().is_some_and(Backoff::was_throttled);
        let read = async {
            if let Some(first) = first.take() {
                joint.ask(Source::Storage);
                let body = first.into_body(filling.rest());
                fill(&owner, joint, filling, &mut answer, (Some(body), false)).await?;
            }
            if filling.rest().is_empty() {
                return Ok(());
            }
            let wanted = filling.rest().clone();
            joint.ask(Source::Storage);
            fill(&owner, joint, filling, &mut answer, (None, again)).await?;
            if filling.rest().is_empty() { Ok(()) } else { Err(wrong(joint, &wanted, "the body ended early")) }
        };
        let failure = match read.await {
            Ok(()) => break,
            Err(failure) => failure,
        };
        answer.waited(failure.waited());
        let end = answer.end(filling.rest().start);
        if !joint.is_demanded(end.arrived) && owner.over_unless_demanded(joint, end) {
            tracing::debug!(error = %failure.error, "speculation failed");
            storage.failures.note(What::Ahead, &failure.error);
            *ended = true;
            return;
        }
        if from_tier::rescue(&owner, joint, filling).await {
            answer.came();
            break;
        }
        let backoff = backoff.get_or_insert_with(|| storage.backoff(answer.submitted));
        backoff.progress(filling.progress());
        let error_before = failure.error.clone();
        if let Err(error) = backoff.wait(failure).await {
            storage.stats.demand_failed.fetch_add(1, Relaxed);
            *ended = true;
            owner.failed(joint, end, &error);
            filling.fail(&error);
            return;
        }
        storage.failures.note(What::Again, &error_before);
        filling.wait_since(backoff.began());
        storage.stats.retries.fetch_add(1, Relaxed);
    }
    storage.stats.first_byte.record(answer.first_byte.unwrap_or_default());
    *ended = true;
    owner.over(joint, answer.end(filling.rest().end));
}

/// How the storage has answered so far.
struct Answer {
    submitted: Instant,
    first_byte: Option<Duration>,
    /// The longest that it was silent.
    silence: Duration,
}

impl Answer {
    fn new(submitted: Instant) -> Self {
        Self { submitted, first_byte: None, silence: Duration::ZERO }
    }

    /// It waited so long for its turn, before it was asked for.
    fn waited(&mut self, waited: Duration) {
        if self.first_byte.is_none() {
            self.submitted = (self.submitted + waited).min(Instant::now());
        }
    }

    /// Some bytes have come. Returns whether they are the first.
    fn came(&mut self) -> bool {
        let is_first = self.first_byte.is_none();
        let first_byte = *self.first_byte.get_or_insert_with(|| self.submitted.elapsed());
        if is_first {
            self.silence = self.silence.max(first_byte);
        }
        is_first
    }

    /// The bytes before `arrived` have come, and no more will.
    fn end(&self, arrived: u64) -> End {
        let (first_byte, total) = (self.first_byte.unwrap_or_default(), self.submitted.elapsed());
        End { arrived, first_byte: nanos(first_byte), silence: nanos(self.silence), total: nanos(total) }
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(time.as_nanos() as u64)
}

/// A body that is not what was asked for.
fn wrong(joint: &Joint, wanted: &Range<u64>, what: &str) -> Failure {
    let key = &joint.opened.object.key;
    let text = format!("read {key} [{}, {}): {what}", wanted.start, wanted.end);
    Failure::passing(Error::new(ErrorKind::Io, text).with_key(key.as_str()).with_retry())
}

/// Fills the folios with what comes, until that or what is missing ends: of `body`, or of a
/// request for what is missing, which was refused before or not. While the storage is silent for
/// too long, that is asked for once more.
async fn fill<O: Owner>(
    owner: &Arc<O>,
    joint: &Joint,
    filling: &mut Filling,
    answer: &mut Answer,
    (mut body, again): (Option<Body>, bool),
) -> Result<(), Failure> {
    let (storage, object, wanted) = (owner.storage(), &joint.opened.object, filling.rest().clone());
    let (key, patience) = (object.key.as_str(), &storage.patience);
    while !filling.rest().is_empty() {
        // A body of which a byte comes now and then is not waited for any longer than a silent
        // one.
        let idle = patience.idle.min(patience.total.saturating_sub(filling.progress().elapsed()));
        let (began, rest) = (Instant::now(), filling.rest().clone());
        let next = async |mut body: Body| {
            let piece = attempt(idle, "read", key, async { body.next().await.transpose() }).await?;
            Ok::<_, Failure>((body, piece, Duration::ZERO))
        };
        let ask = async || {
            storage.stats.requests.fetch_add(1, Relaxed);
            let read = storage.backend.read(&object.key, &object.version, rest.clone());
            let (body, turn) = storage.call(again, "read", key, read).await?;
            let in_line = turn.waited;
            let (body, piece, _) = next(body).await.map_err(|failure| failure.after(in_line))?;
            if piece.is_none() { Err(wrong(joint, &rest, "the body ended early")) } else { Ok((body, piece, in_line)) }
        };
        let mut longest = if body.is_some() { idle } else { patience.first_byte + idle };
        let first = async {
            match body.take() {
                Some(body) => next(body).await,
                None => ask().await,
            }
        };
        let mut asked = began;
        let came = match joint.lead().late() {
            Some(late) => {
                let hedge = |silence| {
                    if !storage.may_hedge() {
                        return false;
                    }
                    let is_hedged = joint.members().iter().any(|member| {
                        let before = member.hedges();
                        owner.late(member.id(), nanos(silence));
                        member.hedges() > before
                    });
                    if is_hedged {
                        (asked, longest) = (Instant::now(), patience.first_byte + idle);
                    }
                    is_hedged
                };
                sooner_of(first, late, hedge, &ask).await?
            }
            None => first.await?,
        };
        let (came, piece, in_line) = came;
        // There it did not wait for the storage.
        answer.waited(in_line);
        filling.wait_since(began + in_line);
        if was_stopped(asked + in_line, longest) {
            filling.wait_since(Instant::now());
        }
        let Some(piece) = piece else { return Ok(()) };
        body = Some(came);
        if piece.is_empty() {
            continue;
        }
        if answer.came() {
            joint.answer();
        } else {
            answer.silence = answer.silence.max(began.elapsed().saturating_sub(in_line));
        }
        storage.stats.fetched_bytes.fetch_add(piece.len() as u64, Relaxed);
        joint.opened.uses.fetched(piece.len());
        storage.planted.pass(Panic::Task);
        if !filling.take(owner, piece).await {
            return Err(wrong(joint, &wanted, "more bytes came than were asked for"));
        }
    }
    Ok(())
}
