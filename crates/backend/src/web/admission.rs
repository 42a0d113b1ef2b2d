//! Admission: how many requests a server that takes a connection for each has at a time.
//!
//! ```text
//!   connections   |--|--|--|--|--|     five, until the answer to one begins
//!                                      x   a sixth might be dropped, and is made when one ends
//! ```
//!
//! A simple server has room for five connections that it has not accepted yet, and drops the
//! others. The client's kernel repeats these after a second, then after two more, and the engine
//! asks anew. Of 64 requests at once the last was answered after half a minute. Servers that keep
//! connections open have no limit: a connection that is accepted serves many requests.
//!
//! This file does not send requests (`wire`). How many are made is the engine's business.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, Version};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// What a server is asked for at a time.
pub(super) struct Admission {
    /// Answers in turn after which the server closed the connection.
    closing: AtomicUsize,
    turns: Semaphore,
}

impl Default for Admission {
    fn default() -> Self {
        Self { closing: AtomicUsize::new(0), turns: Semaphore::new(AT_A_TIME) }
    }
}

impl Admission {
    /// Waits until the server may be asked for one thing more, but no longer than [`WAIT_MAX`].
    /// `None` after that, and if the server keeps connections. A turn ends when its answer begins.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if self.closing.load(Relaxed) < CLOSING_MIN {
            return None;
        }
        timeout(WAIT_MAX, self.turns.acquire()).await.ok()?.ok()
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
}

/// Requests at a time, until their answers begin. Lower: a far server is asked for less. Higher:
/// more connections than a simple server keeps for its next accept, which are five in Python's:
/// one that is dropped costs a second.
const AT_A_TIME: usize = 5;

/// Answers in turn that close their connections, which show that each does; by HTTP/1.0, which has
/// no other way, one is enough. Lower: a server that keeps connections, and closes one after a
/// hundred requests, is asked for few things at a time. Higher: more are asked for at once before
/// it shows.
const CLOSING_MIN: usize = 4;

/// How long a request waits for its turn, at most. Lower: more connections are dropped by a server
/// that is slow. Higher: a request is taken for one that the storage does not answer, after ten
/// seconds.
const WAIT_MAX: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::StreamExt;
    use futures::stream::FuturesUnordered;
    use tokio::time::{Instant, sleep};

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
            drop(turn);
        };
        let mut running: FuturesUnordered<_> = (0..300).map(|_| one()).collect();
        while running.next().await.is_some() {}
        (began.elapsed(), dropped.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_room_for_five_connections_drops_none() {
        for accept in [MS / 10, MS, 3 * MS] {
            let (unlimited, limited) = (Admission::default(), Admission::default());
            limited.learn(Version::HTTP_10, &HeaderMap::new());
            let (_, lost_at_once) = ask(&unlimited, accept).await;
            let (simulated, lost) = ask(&limited, accept).await;
            assert!(lost_at_once > 100, "{accept:?}: at once {lost_at_once} are dropped");
            assert_eq!(lost, 0, "{accept:?}: {simulated:?}");
            assert!(simulated < Duration::from_secs(3), "{accept:?}: {simulated:?}");
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
    async fn a_request_does_not_wait_for_its_turn_for_ever() {
        let admission = Admission::default();
        admission.learn(Version::HTTP_10, &HeaderMap::new());
        let mut turns = Vec::new();
        for _ in 0..AT_A_TIME {
            turns.push(admission.turn().await.unwrap());
        }
        let began = Instant::now();
        assert!(admission.turn().await.is_none());
        let simulated = began.elapsed();
        assert_eq!(simulated, WAIT_MAX);
    }
}
