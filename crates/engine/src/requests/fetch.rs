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
    let submitted = Instant::now().checked_sub(took).unwrap_or_else(Instant::now);
    let mut first_byte = None;
    // Lateness counts for the first attempt only: a later one is a second chance already.
    let mut late = joint.lead().late().filter(|_| first.is_none());
    loop {
        let read = async {
            if let Some(first) = first.take() {
                joint.ask(Source::Storage);
                let body = first.into_body(filling.rest());
                fill(&owner, joint, filling, submitted, &mut first_byte, body).await?;
            }
            if filling.rest().is_empty() {
                return Ok(());
            }
            read_body(&owner, joint, filling, submitted, &mut first_byte, late.take()).await
        };
        let failure = match read.await {
            Ok(()) => break,
            Err(failure) => failure,
        };
        let end = end(filling.rest().start, first_byte, submitted);
        if !joint.is_demanded(end.arrived) && owner.over_unless_demanded(joint, end) {
            tracing::debug!(error = %failure.error, "speculation failed");
            storage.failures.note(What::Ahead, &failure.error);
            *ended = true;
            return;
        }
        if from_tier::rescue(&owner, joint, filling).await {
            first_byte.get_or_insert_with(|| submitted.elapsed());
            break;
        }
        let backoff = backoff.get_or_insert_with(|| storage.backoff(submitted));
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
    storage.stats.first_byte.record(first_byte.unwrap_or_default());
    *ended = true;
    owner.over(joint, end(filling.rest().end, first_byte, submitted));
}

fn end(arrived: u64, first_byte: Option<Duration>, submitted: Instant) -> End {
    let nanos = |time: Duration| Nanos(time.as_nanos() as u64);
    End { arrived, first_byte: nanos(first_byte.unwrap_or_default()), total: nanos(submitted.elapsed()) }
}

/// One attempt at the bytes that are still missing.
async fn read_body<O: Owner>(
    owner: &Arc<O>,
    joint: &Joint,
    filling: &mut Filling,
    submitted: Instant,
    first_byte: &mut Option<Duration>,
    late: Option<Duration>,
) -> Result<(), Failure> {
    let (storage, object) = (owner.storage(), &joint.opened.object);
    let wanted = filling.rest().clone();
    joint.ask(Source::Storage);
    let ask = || {
        storage.stats.requests.fetch_add(1, Relaxed);
        let read = storage.backend.read(&object.key, &object.version, wanted.clone());
        attempt(storage.patience.first_byte, "read", object.key.as_str(), read)
    };
    let (began, longest) = (Instant::now(), storage.patience.first_byte + late.unwrap_or_default());
    let body = match late {
        Some(late) => {
            let hedged = || {
                owner.late(joint.lead().id());
                joint.lead().is_hedged()
            };
            sooner_of(ask, late, hedged).await?
        }
        None => ask().await?,
    };
    if was_stopped(began, longest) {
        filling.wait_since(Instant::now());
    }
    fill(owner, joint, filling, submitted, first_byte, body).await?;
    if !filling.rest().is_empty() {
        return Err(wrong(joint, &wanted, "the body ended early"));
    }
    Ok(())
}

/// A body that is not what was asked for.
fn wrong(joint: &Joint, wanted: &Range<u64>, what: &str) -> Failure {
    let key = &joint.opened.object.key;
    let text = format!("read {key} [{}, {}): {what}", wanted.start, wanted.end);
    Failure::passing(Error::new(ErrorKind::Io, text).with_key(key.as_str()).with_retry())
}

/// Fills the folios with what comes of `body`, until it or what is missing ends.
async fn fill<O: Owner>(
    owner: &Arc<O>,
    joint: &Joint,
    filling: &mut Filling,
    submitted: Instant,
    first_byte: &mut Option<Duration>,
    mut body: Body,
) -> Result<(), Failure> {
    let (storage, object, wanted) = (owner.storage(), &joint.opened.object, filling.rest().clone());
    while !filling.rest().is_empty() {
        let next = async { Ok(body.next().await) };
        // A body of which a byte comes now and then is not waited for any longer than a silent
        // one.
        let left = storage.patience.total.saturating_sub(filling.progress().elapsed());
        let (began, patience) = (Instant::now(), storage.patience.idle.min(left));
        let Some(piece) = attempt(patience, "read", object.key.as_str(), next).await? else {
            return Ok(());
        };
        if was_stopped(began, patience) {
            filling.wait_since(Instant::now());
        }
        let piece = piece?;
        if piece.is_empty() {
            continue;
        }
        if first_byte.is_none() {
            joint.answer();
        }
        first_byte.get_or_insert_with(|| submitted.elapsed());
        storage.stats.fetched_bytes.fetch_add(piece.len() as u64, Relaxed);
        joint.opened.uses.fetched(piece.len());
        storage.planted.pass(Panic::Task);
        if !filling.take(owner, piece).await {
            return Err(wrong(joint, &wanted, "more bytes came than were asked for"));
        }
    }
    Ok(())
}
