//! One attempt at an operation, and whether and when there is another one.
//!
//! ```text
//!   attempt ── answer
//!      ├─ silent for longer than patience ─┐
//!      └─ failed, and that may pass ───────┴─> Backoff: 50 ms, 100 ms, .. 3.2 s, with jitter
//!                                                 └─ beyond the deadline: the error
//!
//!   a timer that fires STOPPED_MIN too late: the process was stopped; patience begins anew
//!
//!   sooner_of   |-- first ---------x        silent for too long, and hedged: asked once more,
//!                     |---- again ----|     and the first answer counts
//! ```
//!
//! Retries are decided here and nowhere else: a backend makes one attempt and classifies its
//! failure (`docs/decisions/0004`).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use foreread_backend as backend;
use futures::future::{Either, select};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::numbers::{STEP, mixed};

/// Why an attempt failed, and whether another one may succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    retryable: bool,
    /// The storage asked for no attempt before this.
    retry_after: Option<Duration>,
    /// The process was stopped while the attempt was under way.
    stopped: bool,
    /// How long it waited for its turn before, while the storage took other requests.
    waited: Duration,
}

impl Failure {
    /// The same, of an attempt that waited for its turn before, while the storage took others.
    pub(crate) fn after(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }

    /// The attempt failed, and another one would.
    pub(crate) fn lasting(error: Error) -> Self {
        Self { retryable: false, ..Self::passing(error) }
    }

    /// How long it waited for its turn before, while the storage took others.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether the storage answered, though not as was wished: it took the request.
    pub(crate) fn is_answer(&self) -> bool {
        !self.retryable
    }

    /// Whether the storage refused it for being one request too many.
    pub(crate) fn is_throttled(&self) -> bool {
        self.error.kind() == ErrorKind::Throttled
    }

    /// The wait that the storage asked for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The attempt failed, and another one may not.
    pub(crate) fn passing(error: Error) -> Self {
        Self { error, retryable: true, retry_after: None, stopped: false, waited: Duration::ZERO }
    }
}

impl From<backend::Error> for Failure {
    fn from(error: backend::Error) -> Self {
        let (retryable, retry_after) = (error.kind().is_retryable(), error.retry_after());
        Self { retryable, retry_after, error: error.into(), stopped: false, waited: Duration::ZERO }
    }
}

/// One call to the backend, for at most `patience`.
pub(crate) async fn attempt<T>(
    patience: Duration,
    operation: &str,
    object: &str,
    call: impl Future<Output = Result<T, backend::Error>>,
) -> Result<T, Failure> {
    let began = Instant::now();
    let mut failure = match tokio::time::timeout(patience, call).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(error)) => Failure::from(error),
        Err(_) => Failure::passing(silence(operation, object, patience)),
    };
    failure.stopped = was_stopped(began, patience);
    Err(failure)
}

/// Whether the process was stopped (SIGSTOP, a frozen cgroup, a suspended virtual machine) since
/// `began`, when a timer was set to `wait`.
pub(crate) fn was_stopped(began: Instant, wait: Duration) -> bool {
    began.elapsed().saturating_sub(wait) >= STOPPED_MIN
}

/// The storage did not answer for as long as `patience` allows.
pub(crate) fn silence(operation: &str, object: &str, patience: Duration) -> Error {
    let text = format!("{operation} {object}: the storage was silent for {} s", patience.as_secs_f32());
    Error::new(ErrorKind::TimedOut, text).with_key(object)
}

/// The waits between attempts: longer each time, different for each request, and bounded.
pub(crate) struct Backoff {
    began: Instant,
    patience: Duration,
    attempts: u32,
    seed: u64,
    /// The storage has refused a request for being one too many.
    throttled: bool,
}

impl Backoff {
    /// Gives up `patience` after `began`. Different seeds wait differently.
    pub(crate) fn new(began: Instant, patience: Duration, seed: u64) -> Self {
        Self { began, patience, attempts: 0, seed, throttled: false }
    }

    /// Something has come of the request at `moment`: patience counts from then on.
    pub(crate) fn progress(&mut self, moment: Instant) {
        self.began = self.began.max(moment);
    }

    /// The moment from which patience counts.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Whether the storage has refused a request for being one too many.
    pub(crate) fn was_throttled(&self) -> bool {
        self.throttled
    }

    /// Waits before the next attempt. If there is to be none, returns the error.
    pub(crate) async fn wait(&mut self, failure: Failure) -> Result<(), Error> {
        if !failure.retryable {
            return Err(failure.error);
        }
        self.throttled |= failure.is_throttled();
        // In the line it did not wait for the storage.
        self.began = (self.began + failure.waited).min(Instant::now());
        // A stopped process has not waited, and what it waited for may be lost since long ago.
        if failure.stopped {
            self.began = Instant::now();
        }
        let pause = self.pause(failure.retry_after);
        // The storage may ask for any wait: it is compared, and never added to a moment.
        if pause >= self.patience.saturating_sub(self.began.elapsed()) {
            let text = format!("{} (after {} attempts)", failure.error, self.attempts);
            return Err(failure.error.with_text(text));
        }
        tracing::debug!(error = %failure.error, ?pause, "trying again");
        let pause_began = Instant::now();
        tokio::time::sleep(pause).await;
        if was_stopped(pause_began, pause) {
            self.began = Instant::now();
        }
        Ok(())
    }

    /// Doubles from 50 ms to 3.2 s, less up to half of it; never shorter than the storage asked
    /// for.
    fn pause(&mut self, retry_after: Option<Duration>) -> Duration {
        let whole = Duration::from_millis(50 << self.attempts.min(6));
        self.attempts += 1;
        // The attempts of many requests must not come back in step.
        self.seed = self.seed.wrapping_add(STEP);
        let per_mille = 500 + (mixed(self.seed) >> 33) % 500;
        (whole * per_mille as u32 / 1000).max(retry_after.unwrap_or_default())
    }
}

/// What comes of `first`. If nothing does for `late`, and `hedge` says so, it is asked for with
/// `again` as well: the first answer of the two counts, and the other one is given up with its
/// connection. If one of them fails, and that may pass, the other one counts. `hedge`, which
/// is told how long the silence is, is asked again whenever that has doubled: a reader may have
/// begun to wait.
pub(crate) async fn sooner_of<T, A: Future<Output = Result<T, Failure>>>(
    first: impl Future<Output = Result<T, Failure>>,
    late: Duration,
    mut hedge: impl FnMut(Duration) -> bool,
    again: impl FnOnce() -> A,
) -> Result<T, Failure> {
    let (mut first, mut wait) = (pin!(first), late);
    let mut silent = Duration::ZERO;
    loop {
        if let Ok(answer) = tokio::time::timeout(wait, first.as_mut()).await {
            return answer;
        }
        silent += wait;
        if hedge(silent) {
            break;
        }
        wait = silent;
    }
    let (failure, other) = match select(first, pin!(again())).await {
        Either::Left((Err(failure), second)) if failure.retryable => (failure, second.await),
        Either::Right((Err(failure), first)) if failure.retryable => (failure, first.await),
        Either::Left((answer, _)) | Either::Right((answer, _)) => return answer,
    };
    other.map_err(|last| Failure { retry_after: last.retry_after.max(failure.retry_after), ..last })
}

/// How late a timer fires at least for its process to count as stopped. Lower: a loaded machine
/// has more patience with storage than it should. Higher: shorter stops count as waits.
const STOPPED_MIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// What comes of a silent request that is hedged, where the second one has this answer.
    async fn hedged(second: Result<u32, Failure>) -> Option<Result<u32, Failure>> {
        let first = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(1)
        };
        let late = Duration::from_millis(10);
        let answer = sooner_of(first, late, |_| true, || ready(second));
        tokio::time::timeout(Duration::from_secs(1), answer).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_of_a_second_request_counts_unless_it_may_pass() {
        assert!(matches!(hedged(Ok(2)).await, Some(Ok(2))));
        let gone = Failure { retryable: false, ..asks_to_wait(Duration::ZERO) };
        assert!(matches!(hedged(Err(gone)).await, Some(Err(_))), "what is not there is not waited for");
        assert!(hedged(Err(asks_to_wait(Duration::ZERO))).await.is_none(), "the first may still be answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hedge_is_asked_for_whenever_a_silence_has_doubled() {
        let mut told = Vec::new();
        let hedge = |silence: Duration| {
            told.push(silence.as_millis());
            told.len() == 4
        };
        let second = || ready(Ok(2));
        let answer = sooner_of(pending(), Duration::from_millis(10), hedge, second).await;
        assert!(matches!(answer, Ok(2)));
        assert_eq!(told, [10, 20, 40, 80]);
    }

    fn asks_to_wait(wish: Duration) -> Failure {
        let error = Error::new(ErrorKind::Throttled, "slow down").with_key("a");
        Failure { error, retryable: true, retry_after: Some(wish), stopped: false, waited: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_patience_is_an_error_at_once() {
        for patience in [Duration::ZERO, Duration::from_secs(30)] {
            for wish in [patience, Duration::from_secs(u64::MAX), Duration::MAX] {
                let began = tokio::time::Instant::now();
                let error = Backoff::new(Instant::now(), patience, 1)
                    .wait(asks_to_wait(wish))
                    .await
                    .expect_err("no time for that");
                assert_eq!(error.to_string(), "slow down (after 1 attempts)");
                let slept = began.elapsed();
                assert_eq!(slept, Duration::ZERO, "of {wish:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_within_patience_is_as_long_as_the_storage_asks() {
        for patience in [Duration::from_secs(30), Duration::MAX] {
            let began = tokio::time::Instant::now();
            Backoff::new(Instant::now(), patience, 1)
                .wait(asks_to_wait(Duration::from_secs(7)))
                .await
                .expect("another attempt");
            let slept = began.elapsed();
            assert_eq!(slept, Duration::from_secs(7));
        }
    }
}
