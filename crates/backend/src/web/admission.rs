//! Admission: how many requests a server that takes a connection for each has at a time.
//!
//! ```text
//!   at a time   4 4 4 4 5 5 ..      one more with as many answers that did not wait at the server
//!               .. 8 8 | 4 4 ..     half as many after one that was lost
//! ```
//!
//! A simple server has room for five connections that it has not accepted yet, and drops the
//! others. The client's kernel repeats these after a second, then after two more, and the engine
//! asks anew. Of 64 requests at once the last was answered after half a minute. So such a server
//! is asked for a few things at first. Servers that keep connections open have no limit: a
//! connection that is accepted serves many requests.
//!
//! This file does not send requests (`wire`). How many are made is the engine's business.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, Version};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

/// What a server is asked for at a time.
pub(super) struct Admission {
    /// Answers in turn after which the server closed the connection.
    closing: AtomicUsize,
    turns: Semaphore,
    pace: Mutex<Pace>,
}

struct Pace {
    limit: usize,
    /// What the quickest answers take, forgotten slowly.
    least: Duration,
    /// Answers since the limit last changed, and when that was.
    answers: usize,
    changed: Option<Instant>,
    /// Turns that are not given again when they end, since the limit fell.
    owed: usize,
}

/// The turn of one request, until its answer begins or nothing waits for it any more.
pub(super) struct Turn<'a> {
    admission: &'a Admission,
    permit: Option<SemaphorePermit<'a>>,
    began: Instant,
    is_answered: bool,
}

impl Default for Admission {
    fn default() -> Self {
        let pace = Pace { limit: FIRST, least: Duration::ZERO, answers: 0, changed: None, owed: 0 };
        Self { closing: AtomicUsize::new(0), turns: Semaphore::new(FIRST), pace: Mutex::new(pace) }
    }
}

impl Admission {
    /// Waits until the server may be asked for one thing more, but no longer than [`WAIT_MAX`].
    /// `None` after that, and if the server keeps connections.
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        if self.closing.load(Relaxed) < CLOSING_MIN {
            return None;
        }
        let permit = timeout(WAIT_MAX, self.turns.acquire()).await.ok()?.ok();
        Some(Turn { admission: self, permit, began: Instant::now(), is_answered: false })
    }

    /// The head of an answer says whether the server closes the connection. One that keeps them
    /// closes some now and then.
    pub(super) fn learn(&self, version: Version, headers: &HeaderMap) {
        let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(',')).map(str::trim);
        let before = self.closing.load(Relaxed);
        let now = if version < Version::HTTP_11 {
            if words.any(|word| word.eq_ignore_ascii_case("keep-alive")) { 0 } else { CLOSING_MIN }
        } else if words.any(|word| word.eq_ignore_ascii_case("close")) {
            (before + 1).min(CLOSING_MIN)
        } else {
            0
        };
        self.closing.store(now, Relaxed);
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The head of the answer has come.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let elapsed = self.began.elapsed();
        let mut pace = self.admission.pace();
        // A failure, and a request that is given up early, say nothing.
        if self.is_answered || elapsed >= LOST_MIN {
            pace.judge(self.began, elapsed, self.is_answered, &self.admission.turns);
        }
        if pace.owed > 0
            && let Some(permit) = self.permit.take()
        {
            pace.owed -= 1;
            permit.forget();
        }
    }
}

impl Pace {
    fn judge(&mut self, began: Instant, elapsed: Duration, is_answered: bool, turns: &Semaphore) {
        let was_lost = !is_answered || (elapsed >= LOST_MIN && elapsed / LOST_TIMES >= self.least);
        if is_answered {
            let above = elapsed.checked_sub(self.least).filter(|_| !self.least.is_zero());
            self.least = above.map_or(elapsed, |above| self.least + above / LEAST_OF);
        }
        // Of a burst several are lost, and count once.
        if self.changed.is_some_and(|changed| began < changed) {
            return;
        }
        self.answers += 1;
        let is_quick = is_answered && elapsed <= self.least * QUICK_TIMES;
        if was_lost {
            let fewer = self.limit / 2;
            (self.limit, self.owed) = (self.limit - fewer, self.owed + fewer);
        } else if is_quick && self.answers >= self.limit && self.limit < MOST {
            self.limit += 1;
            if self.owed > 0 { self.owed -= 1 } else { turns.add_permits(1) }
        } else {
            return;
        }
        (self.answers, self.changed) = (0, Some(Instant::now()));
    }
}

/// Requests at a time at first. Lower: a start takes more rounds. Higher: more connections than a
/// simple server keeps for its next accept, which are five in Python's.
const FIRST: usize = 4;

/// Requests at a time at most, until their answers begin. Lower: a server that works on many is
/// not used fully. Higher: more connections wait to be accepted.
const MOST: usize = 64;

/// Answers in turn that close their connections, which show that each does; by HTTP/1.0, which has
/// no other way, one is enough. Lower: a server that
/// keeps connections, and closes one after a hundred requests, is asked for few things at a time.
/// Higher: more are asked for at once before it shows.
const CLOSING_MIN: usize = 4;

/// How long a request waits for its turn, at most. Lower: more connections are dropped by a server
/// that is slow. Higher: a request is taken for one that the storage does not answer, after ten
/// seconds.
const WAIT_MAX: Duration = Duration::from_secs(8);

/// The quickest answers are forgotten by one part in so many of the difference at each answer.
/// Lower: a pause of the server makes answers look quick. Higher: one answer that was quick by
/// chance is remembered for longer.
const LEAST_OF: u32 = 64;

/// How many times as long as the quickest one an answer takes that did not wait for others. Lower:
/// answers that are slow by chance keep the limit low. Higher: more wait at the server, and some
/// are dropped.
const QUICK_TIMES: u32 = 2;

/// How long an answer takes whose connection the server has dropped once: a second, after which a
/// client's kernel repeats it. Lower: the answers of a far server look lost. Higher: lost ones
/// look slow.
const LOST_MIN: Duration = Duration::from_secs(1);

/// How many times as long as the quickest one such an answer takes. Lower: those of a slow server
/// look lost. Higher: lost ones look slow.
const LOST_TIMES: u32 = 4;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::StreamExt;
    use futures::stream::FuturesUnordered;
    use tokio::time::sleep;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A server that accepts one connection every `accept`, keeps five, and drops the others for a
    /// second, then for two, four and eight more. Returns how long it took to have 300 answers,
    /// and how many connections were dropped.
    async fn ask(admission: &Admission, accept: Duration) -> (Duration, usize) {
        let (began, free_at, dropped) = (Instant::now(), Cell::new(Instant::now()), Cell::new(0));
        let one = || async {
            let turn = admission.turn().await;
            let mut again = Duration::from_secs(1);
            let queued = loop {
                let queued = free_at.get().saturating_duration_since(Instant::now());
                if queued <= 5 * accept {
                    break queued;
                }
                dropped.set(dropped.get() + 1);
                sleep(again).await;
                again *= 2;
            };
            free_at.set(Instant::now() + queued + accept);
            sleep(queued + 30 * MS).await;
            if let Some(turn) = turn {
                turn.answered();
            }
        };
        let mut running: FuturesUnordered<_> = (0..300).map(|_| one()).collect();
        while running.next().await.is_some() {}
        (began.elapsed(), dropped.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_room_for_five_connections_drops_few() {
        for accept in [MS / 10, MS, 3 * MS] {
            let (unlimited, paced) = (Admission::default(), Admission::default());
            paced.learn(Version::HTTP_10, &HeaderMap::new());
            let ((at_once, lost_at_once), (elapsed, lost)) = (ask(&unlimited, accept).await, ask(&paced, accept).await);
            let of = format!("{accept:?}: {elapsed:?}, {lost} dropped; at once {at_once:?}, {lost_at_once} dropped");
            println!("{of}");
            assert!(elapsed * 2 <= at_once, "{of}");
            assert!(lost * 8 <= lost_at_once, "{of}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_connections_has_no_limit() {
        for (version, connection, closes) in [
            (Version::HTTP_11, None, false),
            (Version::HTTP_11, Some("upgrade, Close"), true),
            (Version::HTTP_10, None, true),
            (Version::HTTP_10, Some("Keep-Alive, Upgrade"), false),
        ] {
            let admission = Admission::default();
            let headers: HeaderMap = connection.map(|value| (CONNECTION, value.parse().unwrap())).into_iter().collect();
            (0..CLOSING_MIN).for_each(|_| admission.learn(version, &headers));
            assert_eq!(admission.turn().await.is_some(), closes, "{version:?} {connection:?}");
            // One that keeps them closes some.
            let close = [(CONNECTION, "close".parse().unwrap())].into_iter().collect();
            admission.learn(Version::HTTP_11, &HeaderMap::new());
            admission.learn(Version::HTTP_11, &close);
            assert!(admission.turn().await.is_none(), "{version:?} {connection:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_that_is_lost_halves_the_limit_once_and_a_failure_says_nothing() {
        let admission = Admission::default();
        admission.learn(Version::HTTP_10, &HeaderMap::new());
        let limit = || admission.pace().limit;
        for _ in 0..40 {
            let turn = admission.turn().await.unwrap();
            sleep(30 * MS).await;
            turn.answered();
        }
        let before = limit();
        assert!(before >= 8, "{before}");
        let mut turns = Vec::new();
        for _ in 0..before {
            turns.push(admission.turn().await.unwrap());
        }
        // A storage that answers none of them: half wait for a second, the others are given up.
        drop(turns.pop());
        assert_eq!(limit(), before);
        sleep(2_000 * MS).await;
        drop(turns);
        assert_eq!(limit(), before - before / 2);
        assert_eq!(admission.turns.available_permits(), limit());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_does_not_wait_for_its_turn_for_ever() {
        let admission = Admission::default();
        admission.learn(Version::HTTP_10, &HeaderMap::new());
        let mut turns = Vec::new();
        for _ in 0..FIRST {
            turns.push(admission.turn().await.unwrap());
        }
        let began = Instant::now();
        assert!(admission.turn().await.is_none());
        let simulated = began.elapsed();
        assert_eq!(simulated, WAIT_MAX);
    }
}
