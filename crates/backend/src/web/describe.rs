//! One page of a listing whose entries are asked for one by one.
//!
//! ```text
//!   names    a  b  c  d  e  f ..
//!   HEADs    |--|--|--|           at once: DESCRIBED_AT_ONCE; new ones for PAGE_TIME
//!            ok ok x              the page is a, b: the next one begins with c
//! ```
//!
//! A server describes one file a request, so a directory takes as many requests as it has files. A
//! page ends before its caller's patience does: with each HEAD that succeeded, and before the
//! first that failed or hangs. That one begins the next page, so it gets the caller's patience and
//! retries to itself, and only the HEADs behind it, fewer than [`DESCRIBED_AT_ONCE`], are made
//! again.

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout};

use crate::error::Error;

/// Describes the first of `names`, in order: at least one, unless that fails or there is none. An
/// error is that of the first name.
pub(super) async fn page<'a, T, F: Future<Output = Result<T, Error>>>(
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
        let end = if goes_on { names.len().min(PAGE_ENTRIES_MAX).min(front + DESCRIBED_AT_ONCE) } else { 0 };
        for (at, name) in names.iter().enumerate().take(end).skip(described.len()) {
            let describing = describe(name);
            running.push(async move { (at, describing.await) });
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

/// HEADs at the same time, all for names next to each other. Lower: a directory takes longer.
/// Higher: more connections than a web server may allow one client.
const DESCRIBED_AT_ONCE: usize = 64;

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
        let asked = RefCell::new(Vec::<String>::new());
        let (mut described, mut pages) = (Vec::new(), 0);
        while described.len() < names.len() {
            let page = page(&names[described.len()..], |name| {
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
            // 60 at once, pages that wait for each other included.
            let bound = Duration::from_millis(millis * 1000 / 60) + Duration::from_millis(100);
            let simulated = began.elapsed();
            assert!(simulated <= bound, "{simulated:?} at {millis} ms");
        }
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
