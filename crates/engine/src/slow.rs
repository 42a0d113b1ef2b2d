//! Tells the log of reads that waited long, and for what.
//!
//! ```text
//!   read ─────────────────────────────────────────────────────────> its answer
//!     made ── turn ──> asked ──────── first byte ──> ...... bytes ──┘
//!             |        |                            |
//!             |        └ the storage answers late   └ the bytes come slowly
//!             └ others were first, or there was no memory
//! ```
//!
//! The longest part is the cause. Of the requests that a read waited for, the one that was
//! answered last is looked at.
//!
//! At most ten a second are told; the next one says how many were not.

use std::sync::Arc;
use std::time::Duration;

use foreread_backend::lock::Mutex;
use tokio::time::Instant;

use crate::error::Error;
use crate::live::LiveTime;
use crate::pages::course::Course;
use crate::pages::pinned::Pages;
use crate::pages::request::Request;

/// A read that has its answer.
pub(crate) struct Finished<'r> {
    pub(crate) key: &'r str,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) since: Instant,
    pub(crate) result: Result<&'r Pages, &'r Error>,
}

/// What waited long, and how much of it was told.
#[derive(Debug)]
pub(crate) struct Slow {
    longest: LiveTime,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    left_out: u64,
}

/// The times that a read has waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    turn: Duration,
    first_byte: Duration,
    bytes: Duration,
}

impl Parts {
    /// Those of a read that began at `since` and had its answer at `end`, at a request.
    fn of(request: &Request, since: Instant, end: Instant) -> Self {
        let (made, course) = (request.made(), request.course());
        let at = |time: Option<Duration>| time.map_or(end, |time| (made + time).min(end)).max(since);
        let (asked, answered) = (at(course.asked()), at(course.answered()));
        Self {
            turn: asked.saturating_duration_since(since),
            first_byte: answered.saturating_duration_since(asked),
            bytes: end.saturating_duration_since(answered),
        }
    }

    fn cause(self, course: &Course) -> &'static str {
        let longest = self.turn.max(self.first_byte).max(self.bytes);
        match longest {
            _ if course.attempts() > 1 => "the storage failed, and was asked again",
            longest if longest == self.turn => "its turn: others were first, or there was no memory",
            longest if longest == self.first_byte && course.is_of_tier() => "the disk of the cache answered late",
            longest if longest == self.first_byte => "the storage answered late",
            _ => "its bytes came slowly",
        }
    }
}

impl Slow {
    /// Of reads that waited longer than this.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest: LiveTime::new(longest), told: Mutex::default() }
    }

    /// Tells of reads that waited longer than this from now on.
    pub(crate) fn set(&self, longest: Duration) {
        self.longest.set(longest);
    }

    /// Tells of a read, if it waited long. Returns whether it did.
    pub(crate) fn tell(&self, read: &Finished<'_>) -> bool {
        let waited = read.since.elapsed();
        if waited < self.longest.get() {
            return false;
        }
        let Some(left_out) = self.told.lock().next() else { return true };
        let Finished { key, offset, len, since, result } = *read;
        let waited_ms = waited.as_millis() as u64;
        match result {
            Err(error) => tracing::warn!(key, offset, len, waited_ms, left_out, %error, "a slow read failed"),
            Ok(pages) => {
                let end = since + waited;
                let requests = pages.folios().iter().map(|folio| &folio.request);
                let last = |request: &&Arc<Request>| request.course().answered().map(|time| request.made() + time);
                let Some(request) = requests.max_by_key(last) else { return true };
                let (parts, attempts) = (Parts::of(request, since, end), request.course().attempts());
                let cause = parts.cause(request.course());
                let [turn_ms, first_byte_ms, bytes_ms] =
                    [parts.turn, parts.first_byte, parts.bytes].map(|time| time.as_millis() as u64);
                let (ahead, hedged) = (request.made() < since, request.is_hedged());
                tracing::warn!(
                    key,
                    offset,
                    len,
                    waited_ms,
                    cause,
                    turn_ms,
                    first_byte_ms,
                    bytes_ms,
                    attempts,
                    ahead,
                    hedged,
                    left_out,
                    "a slow read"
                );
            }
        }
        true
    }
}

impl Told {
    /// Whether one more may be told, and how many were left out before it.
    fn next(&mut self) -> Option<u64> {
        let now = Instant::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The least time between two that are told. Lower: a storage that is away fills the log. Higher:
/// of different causes, fewer are seen. Source: a guess: ten lines a second.
const INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use foreread_policy::{Extent, RequestId, Source};

    use super::*;

    fn request() -> Arc<Request> {
        Request::new(RequestId(1), Extent::new(0, 32), true, 32, None)
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_part_is_the_cause() {
        let ms = Duration::from_millis;
        for (turn, first, bytes, cause) in
            [(900, 100, 50, "its turn"), (10, 2_000, 300, "answered late"), (1, 30, 4_000, "came slowly")]
        {
            let (since, request) = (Instant::now(), request());
            tokio::time::sleep(ms(turn)).await;
            request.course().ask(request.made(), Source::Storage);
            tokio::time::sleep(ms(first)).await;
            request.course().answer(request.made());
            tokio::time::sleep(ms(bytes)).await;
            let parts = Parts::of(&request, since, Instant::now());
            assert_eq!(parts, Parts { turn: ms(turn), first_byte: ms(first), bytes: ms(bytes) });
            assert!(parts.cause(request.course()).contains(cause));
            request.course().ask(request.made(), Source::Storage);
            assert!(parts.cause(request.course()).contains("asked again"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_passed_before_the_read_is_not_its_wait() {
        let request = request();
        request.course().ask(request.made(), Source::Tier);
        tokio::time::sleep(Duration::from_millis(700)).await;
        let since = Instant::now();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let parts = Parts::of(&request, since, Instant::now());
        assert_eq!((parts.turn, parts.first_byte), (Duration::ZERO, Duration::from_millis(300)));
        assert!(parts.cause(request.course()).contains("the disk"));
    }

    #[tokio::test(start_paused = true)]
    async fn ten_a_second_are_told() {
        let mut told = Told::default();
        assert_eq!([told.next(), told.next(), told.next()], [Some(0), None, None]);
        tokio::time::sleep(INTERVAL).await;
        assert_eq!([told.next(), told.next()], [Some(2), None]);
    }
}
