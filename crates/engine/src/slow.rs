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

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use foreread_backend::lock::Mutex;
use foreread_policy::PAGE_BYTES;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::Error;
use crate::live::LiveTime;
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
    /// What hears of them.
    ear: Mutex<Option<mpsc::Sender<SlowRead>>>,
}

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    left_out: u64,
}

/// A read that waited long, and what it waited for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SlowRead {
    /// The key of its object.
    pub key: String,
    /// Where it began, in bytes.
    pub offset: u64,
    /// How many bytes it asked for.
    pub len: usize,
    /// When it was made.
    pub began: SystemTime,
    /// How long it waited.
    pub waited: Duration,
    /// What it waited for longest; the error of one that failed.
    pub cause: SlowCause,
    /// The requests that brought its bytes, at most 32, in the order of the bytes.
    pub requests: Vec<SlowRequest>,
    /// Slow reads before it of which nothing was told, since there were too many.
    pub left_out: u64,
}

/// A request that a slow read waited for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SlowRequest {
    /// Its bytes.
    pub bytes: Range<u64>,
    /// When it was made: before the read, if it was read ahead.
    pub made: SystemTime,
    /// When it was asked for: its turn had come, and there was memory.
    pub asked: SystemTime,
    /// When its first byte came.
    pub answered: SystemTime,
    /// How often it was asked for.
    pub attempts: u32,
    /// Whether the disk of the cache was asked, not the storage.
    pub is_of_cache: bool,
    /// Whether it was asked for twice, since it was late.
    pub is_hedged: bool,
}

/// Why a read waited long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowCause {
    /// It failed, with this error.
    Failed(String),
    /// A request of it failed and was made again.
    AskedAgain,
    /// Others were first, or there was no memory.
    Turn,
    /// The first byte of the storage.
    Storage,
    /// The first byte of the cache's disk.
    Disk,
    /// What follows the first byte.
    Bytes,
}

impl fmt::Display for SlowCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed(error) => error,
            Self::AskedAgain => "the storage failed, and was asked again",
            Self::Turn => "its turn: others were first, or there was no memory",
            Self::Storage => "the storage answered late",
            Self::Disk => "the disk of the cache answered late",
            Self::Bytes => "its bytes came slowly",
        })
    }
}

/// The times that a read has waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Parts {
    turn: Duration,
    first_byte: Duration,
    bytes: Duration,
}

impl SlowRequest {
    /// Of a request whose read is over at `end`, which is `now`.
    fn of(request: &Request, end: Instant, now: SystemTime) -> Self {
        let (made, course) = (request.made(), request.course());
        let at = |time: Instant| now.checked_sub(end.saturating_duration_since(time)).unwrap_or(now);
        let passed = |time: Option<Duration>| at(time.map_or(end, |time| made + time));
        let extent = request.extent();
        Self {
            bytes: extent.start * PAGE_BYTES..extent.end * PAGE_BYTES,
            made: at(made),
            asked: passed(course.asked()),
            answered: passed(course.answered()),
            attempts: course.attempts(),
            is_of_cache: course.is_of_tier(),
            is_hedged: request.is_hedged(),
        }
    }

    /// What a read that was made at `began` has waited for here, until `end`.
    fn parts(&self, began: SystemTime, end: SystemTime) -> Parts {
        let (asked, answered) = (self.asked.clamp(began, end), self.answered.clamp(began, end));
        let between = |from: SystemTime, to: SystemTime| to.duration_since(from).unwrap_or_default();
        Parts { turn: between(began, asked), first_byte: between(asked, answered), bytes: between(answered, end) }
    }

    fn cause(&self, parts: Parts) -> SlowCause {
        let longest = parts.turn.max(parts.first_byte).max(parts.bytes);
        match longest {
            _ if self.attempts > 1 => SlowCause::AskedAgain,
            longest if longest == parts.turn => SlowCause::Turn,
            longest if longest == parts.first_byte && self.is_of_cache => SlowCause::Disk,
            longest if longest == parts.first_byte => SlowCause::Storage,
            _ => SlowCause::Bytes,
        }
    }
}

impl SlowRead {
    /// Of a read that is over now.
    fn of(read: &Finished<'_>, waited: Duration, left_out: u64) -> Self {
        let (now, end) = (SystemTime::now(), read.since + waited);
        let began = now.checked_sub(waited).unwrap_or(now);
        let folios = read.result.map_or(&[][..], Pages::folios);
        let mut requests: Vec<&Arc<Request>> = folios.iter().map(|folio| &folio.request).collect();
        requests.dedup_by(|one, other| Arc::ptr_eq(one, other));
        requests.truncate(REQUESTS_MAX);
        let requests: Vec<_> = requests.into_iter().map(|request| SlowRequest::of(request, end, now)).collect();
        let last = requests.iter().max_by_key(|request| request.answered);
        let cause = match (read.result, last) {
            (Err(error), _) => SlowCause::Failed(error.to_string()),
            (Ok(_), Some(last)) => last.cause(last.parts(began, now)),
            (Ok(_), None) => SlowCause::Bytes,
        };
        let Finished { key, offset, len, .. } = *read;
        Self { key: key.to_owned(), offset, len, began, waited, cause, requests, left_out }
    }

    fn log(&self) {
        let Self { key, offset, len, waited, cause, left_out, .. } = self;
        let ms = |time: Duration| time.as_millis() as u64;
        let waited_ms = ms(*waited);
        if let SlowCause::Failed(error) = cause {
            tracing::warn!(key, offset, len, waited_ms, left_out, %error, "a slow read failed");
            return;
        }
        let Some(last) = self.requests.iter().max_by_key(|request| request.answered) else { return };
        let parts = last.parts(self.began, self.began + *waited);
        let [turn_ms, first_byte_ms, bytes_ms] = [parts.turn, parts.first_byte, parts.bytes].map(ms);
        let (attempts, ahead, hedged) = (last.attempts, last.made < self.began, last.is_hedged);
        tracing::warn!(
            key,
            offset,
            len,
            waited_ms,
            %cause,
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

impl Slow {
    /// Of reads that waited longer than this.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest: LiveTime::new(longest), told: Mutex::default(), ear: Mutex::default() }
    }

    /// Tells of reads that waited longer than this from now on.
    pub(crate) fn set(&self, longest: Duration) {
        self.longest.set(longest);
    }

    /// Slow reads that are told from now on, as well as in the log. One that nothing takes soon
    /// enough is left out.
    pub(crate) fn hear(&self) -> mpsc::Receiver<SlowRead> {
        let (told, heard) = mpsc::channel(HEARD_MAX);
        *self.ear.lock() = Some(told);
        heard
    }

    /// Tells of a read, if it waited long. Returns whether it did.
    pub(crate) fn tell(&self, read: &Finished<'_>) -> bool {
        let waited = read.since.elapsed();
        if waited < self.longest.get() {
            return false;
        }
        let Some(left_out) = self.told.lock().next() else { return true };
        let slow = SlowRead::of(read, waited, left_out);
        slow.log();
        let ear = self.ear.lock().clone();
        if let Some(ear) = ear {
            _ = ear.try_send(slow);
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

/// Requests of a read that are told. Lower: of a long read, that which was late may be missing.
/// Higher: more is told of one read than fits on a screen. Source: a guess.
const REQUESTS_MAX: usize = 32;

/// Slow reads that are told and not heard. Lower: some are left out when what hears them is busy.
/// Higher: they take memory. Source: a guess: six seconds of them.
const HEARD_MAX: usize = 64;

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
            [(900, 100, 50, SlowCause::Turn), (10, 2_000, 300, SlowCause::Storage), (1, 30, 4_000, SlowCause::Bytes)]
        {
            let (since, request) = (Instant::now(), request());
            tokio::time::sleep(ms(turn)).await;
            request.course().ask(request.made(), Source::Storage);
            tokio::time::sleep(ms(first)).await;
            request.course().answer(request.made());
            tokio::time::sleep(ms(bytes)).await;
            let now = SystemTime::now();
            let told = SlowRequest::of(&request, Instant::now(), now);
            let parts = told.parts(now - since.elapsed(), now);
            assert_eq!(parts, Parts { turn: ms(turn), first_byte: ms(first), bytes: ms(bytes) });
            assert_eq!(told.cause(parts), cause);
            request.course().ask(request.made(), Source::Storage);
            assert_eq!(SlowRequest::of(&request, Instant::now(), now).cause(parts), SlowCause::AskedAgain);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_passed_before_the_read_is_not_its_wait() {
        let request = request();
        request.course().ask(request.made(), Source::Tier);
        tokio::time::sleep(Duration::from_millis(700)).await;
        let since = Instant::now();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = SystemTime::now();
        let told = SlowRequest::of(&request, Instant::now(), now);
        let parts = told.parts(now - since.elapsed(), now);
        assert_eq!((parts.turn, parts.first_byte), (Duration::ZERO, Duration::from_millis(300)));
        assert_eq!(told.cause(parts), SlowCause::Disk);
        assert_eq!(now.duration_since(told.made).expect("before"), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hears_is_told_the_same() {
        let slow = Slow::new(Duration::from_millis(100));
        let mut heard = slow.hear();
        let error = Error::not_found("no such object");
        for (wait, is_told) in [(50, false), (250, true)] {
            let since = Instant::now();
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let read = Finished { key: "a", offset: 7, len: 9, since, result: Err(&error) };
            assert_eq!(slow.tell(&read), is_told);
        }
        let told = heard.try_recv().expect("one");
        assert_eq!((told.key.as_str(), told.offset, told.len), ("a", 7, 9));
        assert_eq!((told.waited, told.requests.len()), (Duration::from_millis(250), 0));
        assert!(matches!(&told.cause, SlowCause::Failed(error) if error.contains("no such object")));
        assert!(heard.try_recv().is_err());
        drop(heard);
        tokio::time::sleep(INTERVAL).await;
        let read = Finished { key: "a", offset: 0, len: 1, since: Instant::now() - INTERVAL, result: Err(&error) };
        assert!(slow.tell(&read), "nothing hears it any more");
    }

    #[tokio::test(start_paused = true)]
    async fn ten_a_second_are_told() {
        let mut told = Told::default();
        assert_eq!([told.next(), told.next(), told.next()], [Some(0), None, None]);
        tokio::time::sleep(INTERVAL).await;
        assert_eq!([told.next(), told.next()], [Some(2), None]);
    }
}
