//! Admission: how many requests a server that takes a connection for each has at a time.
//!
//! ```text
//!   at a time   4 4 4 4 5 5 ..      one more with as many answers that did not wait at the server
//!               .. 8 8 | 4 4 ..     half as many after one that was lost
//! ```
//!
//! A simple server has room for five connections that it has not accepted yet, and drops the
//! others. The client's kernel repeats these after a second, then after two, four and eight more.
//! Of 64 requests at once the last was answered after half a minute. So such a server is asked for
//! a few things at first. Servers that keep connections open have no limit: a connection that is
//! accepted serves many requests.
//!
//! This file does not send requests (`wire`). How many are made is the engine's business.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::CONNECTION;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// What a server is asked for at a time.
pub(super) struct Admission {
    closes: AtomicBool,
    turns: Semaphore,
    pace: Mutex<Pace>,
}

struct Pace {
    limit: usize,
    /// The quickest answer so far.
    least: Duration,
    /// Answers since the limit last changed.
    answers: usize,
    /// Turns that are not given again when they end, since the limit fell.
    owed: usize,
}

/// The turn of one request, until its answer begins.
pub(super) struct Turn<'a> {
    permit: SemaphorePermit<'a>,
    began: Instant,
}

impl Default for Admission {
    fn default() -> Self {
        let pace = Pace { limit: FIRST, least: Duration::MAX, answers: 0, owed: 0 };
        Self { closes: AtomicBool::new(false), turns: Semaphore::new(FIRST), pace: Mutex::new(pace) }
    }
}

impl Admission {
    /// Waits until the server may be asked for one thing more. `None` if it keeps connections.
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        if !self.closes.load(Relaxed) {
            return None;
        }
        let permit = self.turns.acquire().await.ok()?;
        Some(Turn { permit, began: Instant::now() })
    }

    /// The head of an answer says whether the server closes the connection.
    pub(super) fn learn(&self, version: http::Version, headers: &http::HeaderMap) {
        let says = |word: &str| {
            headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
        };
        let closes = if version < http::Version::HTTP_11 { !says("keep-alive") } else { says("close") };
        self.closes.store(closes, Relaxed);
    }

    /// A request is answered, or has failed.
    pub(super) fn ended(&self, turn: Turn<'_>, is_answered: bool) {
        let elapsed = turn.began.elapsed();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.least = pace.least.min(elapsed);
        pace.answers += 1;
        let was_lost = !is_answered || (elapsed >= LOST_MIN && elapsed / LOST_TIMES >= pace.least);
        // Of a burst several are lost, and count once.
        let is_due = pace.answers >= pace.limit;
        let is_quick = elapsed <= pace.least * QUICK_TIMES;
        if was_lost && is_due {
            let fewer = pace.limit / 2;
            (pace.limit, pace.owed) = (pace.limit - fewer, pace.owed + fewer);
            pace.answers = 0;
        } else if is_quick && is_due && pace.limit < MOST {
            (pace.limit, pace.answers) = (pace.limit + 1, 0);
            self.turns.add_permits(1);
        }
        if pace.owed > 0 {
            pace.owed -= 1;
            turn.permit.forget();
        }
    }
}

/// Requests at a time at first. Lower: a start takes more rounds. Higher: more connections than a
/// simple server keeps for its next accept, which are five in Python's.
const FIRST: usize = 4;

/// Requests at a time at most. Lower: a server that works on many is not used fully. Higher: more
/// threads than a simple server bears.
const MOST: usize = 64;

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
    use http::{HeaderMap, Version};
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
                admission.ended(turn, true);
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
        let admission = Admission::default();
        for (version, connection, closes) in [
            (Version::HTTP_11, None, false),
            (Version::HTTP_11, Some("close"), true),
            (Version::HTTP_10, None, true),
            (Version::HTTP_10, Some("Keep-Alive"), false),
        ] {
            let headers = connection.map(|value| (CONNECTION, value.parse().unwrap()));
            admission.learn(version, &headers.into_iter().collect());
            assert_eq!(admission.turn().await.is_some(), closes, "{version:?} {connection:?}");
        }
    }
}
