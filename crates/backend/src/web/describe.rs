//! One page of a listing whose entries are asked for one by one.
//!
//! ```text
//!   names    a  b  c  d  e  f ..
//!   HEADs    |--|--|--|           at once: AtOnce; new ones for PAGE_TIME
//!            ok ok x              the page is a, b: the next one begins with c
//!
//!   at once  4 5 6 .. 64          one more with each answer, half as many after one that took
//!                                 longer than a lost packet
//! ```
//!
//! A server describes one file a request, so a directory takes as many requests as it has files. A
//! page ends before its caller's patience does: with each HEAD that succeeded, and before the
//! first that failed or hangs. That one begins the next page, so it gets the caller's patience and
//! retries to itself, and only the HEADs behind it, fewer than [`AT_ONCE_MAX`], are made
//! again.
//!
//! A simple server has room for five connections that it has not accepted yet, and drops the
//! others. The client's kernel repeats them after a second, then after two, four and eight: of 64 at once
//! the last came after 31 seconds. So a server is asked for few at first, and for more with each
//! answer.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout};

use crate::error::Error;

/// How many HEADs a server is asked for at the same time.
pub(super) struct AtOnce(Mutex<Pace>);

struct Pace {
    at_once: usize,
    /// The quickest answer so far.
    least: Duration,
}

impl Default for AtOnce {
    fn default() -> Self {
        Self(Mutex::new(Pace { at_once: AT_ONCE_FIRST, least: Duration::MAX }))
    }
}

impl AtOnce {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> usize {
        self.pace().at_once
    }

    /// A HEAD was answered after `elapsed`.
    fn answered(&self, elapsed: Duration) {
        let mut pace = self.pace();
        pace.least = pace.least.min(elapsed);
        let was_lost = elapsed >= LOST_MIN && elapsed / LOST_TIMES >= pace.least;
        let next = if was_lost { pace.at_once / 2 } else { pace.at_once + 1 };
        pace.at_once = next.clamp(AT_ONCE_FIRST, AT_ONCE_MAX);
    }
}

/// Describes the first of `names`, in order: at least one, unless that fails or there is none. An
/// error is that of the first name.
pub(super) async fn page<'a, T, F: Future<Output = Result<T, Error>>>(
    at_once: &AtOnce,
    names: &'a [String],
    describe: impl Fn(&'a str) -> F,
) -> Result<Vec<T>, Error> {
    let began = Instant::now();
    let mut running = FuturesUnordered::new();
    let mut described: Vec<Option<T>> = Vec::new();
    let mut failed: Option<(usize, Error)> = None;
    // The first name that is not described yet: the page ends here, if it ends now.
    let mut front = 0;
    while failed.as_ref().is_none_or(|(at, _)| front < *at) {
        // Behind a failure nothing is of use to this page.
        let goes_on = failed.is_none() && (described.is_empty() || began.elapsed() < PAGE_TIME);
        let end = if goes_on { names.len().min(PAGE_ENTRIES_MAX).min(front + at_once.now()) } else { 0 };
        for (at, name) in names.iter().enumerate().take(end).skip(described.len()) {
            let describing = describe(name);
            let begins = Instant::now();
            running.push(async move {
                let described = describing.await;
                at_once.answered(begins.elapsed());
                (at, described)
            });
            described.push(None);
        }
        // The first entry is waited for as long as the caller has patience.
        match timeout(SILENCE_MAX, running.next()).await {
            Ok(None) => break,
            Ok(Some((at, Ok(entry)))) => described[at] = Some(entry),
            Ok(Some((at, Err(error)))) => {
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    failed = Some((at, error));
                }
            }
            Err(_) if front > 0 => break,
            Err(_) => {}
        }
        front += described[front..].iter().take_while(|entry| entry.is_some()).count();
    }
    match failed {
        Some((0, error)) => Err(error),
        _ => Ok(described.into_iter().map_while(|entry| entry).collect()),
    }
}

/// HEADs at the same time, all for names next to each other, at first. Lower: a directory takes
/// more rounds. Higher: more connections than a simple server keeps for its next accept, which are
/// five in Python's.
const AT_ONCE_FIRST: usize = 4;

/// The same, at most. Lower: a directory takes longer. Higher: more connections than a web server
/// may allow one client.
const AT_ONCE_MAX: usize = 64;

/// How long an answer takes whose connection the server has dropped once: a second, after which a
/// client's kernel repeats it. Lower: the answers of a far server look lost. Higher: lost ones look
/// slow.
const LOST_MIN: Duration = Duration::from_secs(1);

/// How many times as long as the quickest one such an answer takes. Lower: those of a server that is slow
/// look lost. Higher: lost ones look slow.
const LOST_TIMES: u32 = 4;

/// Entries of a page, at most. Lower: more pages. Higher: the first page comes later where answers
/// are fast.
pub(super) const PAGE_ENTRIES_MAX: usize = 1000;

/// How long a page begins new HEADs. Lower: each page waits once more for its slowest HEAD.
/// Higher: the first entries come later.
const PAGE_TIME: Duration = Duration::from_millis(500);

/// How long no HEAD may end before the page does without those that are left, once it has an
/// entry. Lower: slow answers are asked for twice. Higher: one that hangs holds the others back.
const SILENCE_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::sleep;

    use super::*;
    use crate::error::{ErrorKind, Operation};

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("{n:04}")).collect()
    }

    fn transient(name: &str) -> Error {
        Error::new(ErrorKind::Transient, Operation::Stat, name, "broken")
    }

    /// Lists all `names`, each page within ten seconds. Each description takes `answer`, which
    /// gets a name and how often it was asked for. Returns what was described, in order, the
    /// requests, and the pages.
    async fn list(names: &[String], answer: impl Fn(&str, usize) -> (Duration, bool)) -> (Vec<String>, usize, usize) {
        let (asked, at_once) = (RefCell::new(Vec::<String>::new()), AtOnce::default());
        let (mut described, mut pages) = (Vec::new(), 0);
        while described.len() < names.len() {
            let page = page(&at_once, &names[described.len()..], |name| {
                asked.borrow_mut().push(name.to_owned());
                let times = asked.borrow().iter().filter(|asked| *asked == name).count();
                let (after, comes) = answer(name, times);
                async move {
                    sleep(after).await;
                    if comes { Ok(name.to_owned()) } else { Err(transient(name)) }
                }
            });
            pages += 1;
            assert!(pages < 1000, "it goes on");
            match timeout(Duration::from_secs(10), page).await {
                Ok(Ok(page)) => described.extend(page),
                Ok(Err(error)) => assert_eq!(error.key(), names[described.len()], "only the first name's error counts"),
                Err(_) => {}
            }
        }
        (described, asked.into_inner().len(), pages)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_ends_within_patience_however_slow_each_answer_is() {
        let names = names(1000);
        for millis in [1, 50, 200, 1000, 3000, 9000] {
            let began = Instant::now();
            let (described, requests, _) = list(&names, |_, _| (Duration::from_millis(millis), true)).await;
            assert_eq!(described, names);
            assert_eq!(requests, 1000, "each name is asked for once at {millis} ms");
            // 60 at once, pages that wait for each other included, after four rounds of fewer.
            let bound = Duration::from_millis(millis * 1000 / 60 + millis * 4) + Duration::from_millis(100);
            let simulated = began.elapsed();
            assert!(simulated <= bound, "{simulated:?} at {millis} ms");
        }
    }

    /// A server that accepts one connection each millisecond, keeps five that wait, and drops the
    /// others: their clients try again after 1, 3, 7 and 15 seconds.
    #[tokio::test(start_paused = true)]
    async fn a_server_with_room_for_five_connections_drops_none() {
        let names = names(300);
        let (began, free_at) = (Instant::now(), std::cell::Cell::new(Instant::now()));
        let dropped = std::cell::Cell::new(0);
        let answer = |_: &str, _| {
            let queued = free_at.get().saturating_duration_since(Instant::now());
            if queued > Duration::from_millis(5) {
                dropped.set(dropped.get() + 1);
                return (Duration::from_secs(1), true);
            }
            free_at.set(Instant::now() + queued + Duration::from_millis(1));
            (queued + Duration::from_millis(30), true)
        };
        let (described, requests, _) = list(&names, answer).await;
        assert_eq!((described, requests), (names, 300));
        assert_eq!(dropped.get(), 0);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_that_hangs_or_fails_costs_only_those_behind_it() {
        let names = names(1000);
        let hangs = |name: &str, times| match (name, times) {
            ("0300", 1..3) => (Duration::from_hours(1), true),
            _ => (Duration::from_millis(100), true),
        };
        let fails = |name: &str, times| (Duration::from_millis(100), name != "0300" || times >= 4);
        for (requests_max, (described, requests, _)) in
            [(1000 + 2 * 64, list(&names, hangs).await), (1000 + 4 * 64, list(&names, fails).await)]
        {
            assert_eq!(described, names);
            assert!(requests <= requests_max, "{requests} requests");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_come_in_any_order_make_pages_in_order() {
        let names = names(300);
        let answer = |name: &str, _| (Duration::from_millis(name.parse::<u64>().unwrap() * 7919 % 700), true);
        let (described, requests, pages) = list(&names, answer).await;
        assert_eq!((described, requests), (names, 300), "{pages} pages");
    }
}
