//! One listing in several chains of requests, each for the keys between two cuts.
//!
//! ```text
//!   (start .......... cut 1] (cut 1 .......... cut 2] (cut 2 ................ end)
//!    page page ->             page ->                  page -> page ->
//!    given out as they come   kept until it is their turn
//! ```
//!
//! Every key lies in one segment, and each segment is listed to its end: the cuts decide how many
//! requests are made, never which keys are found (`docs/decisions/0030`). A store that does not
//! begin where it is asked to is listed in one chain from then on.

use std::collections::VecDeque;

use foreread_backend::ListPage;
use tokio::time::Instant;

use crate::directories::key_space::Progression;
use crate::requests::storage::Cursor;

/// The number of a segment, unique within its listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SegmentId(u64);

#[derive(Debug)]
struct Segment {
    id: SegmentId,
    cursor: Cursor,
    /// Its first key comes after this one.
    after: Option<String>,
    /// Its last key is not after this one.
    end: Option<String>,
    /// The last key that has come.
    last: Option<String>,
    busy: bool,
    /// All of it has come.
    done: bool,
    /// Pages that have come before their turn.
    pages: Vec<(ListPage, Instant)>,
    /// Pages that have come since it was made or last cut.
    count: u32,
}

/// The segments of one listing, in the order of their keys.
#[derive(Debug)]
pub(crate) struct Segments {
    queue: VecDeque<Segment>,
    next: u64,
    /// The last segment's latest page, as numbers.
    progression: Option<Progression>,
    /// How many steps of it have been used for cuts.
    steps: u32,
    /// How far apart cuts are, in thousandths of a page.
    per_mille: u32,
    /// The storage can begin after a key, and does.
    divisible: bool,
    /// The last key has been seen.
    ended: bool,
}

impl Segments {
    /// One segment of all keys. `divisible` tells whether the storage can begin after a key.
    pub(crate) fn new(divisible: bool) -> Self {
        let mut segments = Self { divisible, ended: false, ..Self::over() };
        segments.push(None);
        segments
    }

    /// One segment of all keys after `after`.
    pub(crate) fn after(after: String) -> Self {
        let mut segments = Self::over();
        (segments.divisible, segments.ended) = (true, false);
        segments.push(Some(after));
        segments
    }

    /// Nothing is left to be asked for.
    pub(crate) fn over() -> Self {
        Self {
            queue: VecDeque::new(),
            next: 0,
            progression: None,
            steps: 0,
            per_mille: 1000,
            divisible: false,
            ended: true,
        }
    }

    fn push(&mut self, after: Option<String>) {
        self.next += 1;
        self.queue.push_back(Segment {
            id: SegmentId(self.next),
            cursor: after.clone().map_or(Cursor::Start, Cursor::After),
            after,
            end: None,
            last: None,
            busy: false,
            done: false,
            pages: Vec::new(),
            count: 0,
        });
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.queue.iter().filter(|segment| segment.busy).count()
    }

    /// Requests to make so that `parallel` are in flight: for existing segments in order, then for
    /// new ones.
    pub(crate) fn ask(&mut self, parallel: u32) -> Vec<(SegmentId, Cursor)> {
        let mut asked = Vec::new();
        let mut free = (parallel as usize).saturating_sub(self.in_flight());
        // The reader waits for the first segment: it is asked for in any case.
        let front = self.queue.front().is_some_and(|front| !front.busy && !front.done);
        free = free.max(usize::from(front));
        for at in 0.. {
            if free == 0 || (at == self.queue.len() && !self.cut()) {
                break;
            }
            let segment = &mut self.queue[at];
            if !segment.busy && !segment.done {
                segment.busy = true;
                asked.push((segment.id, segment.cursor.clone()));
                free -= 1;
            }
        }
        asked
    }

    /// Cuts the last segment in two. Returns `false` if there is no guess where.
    fn cut(&mut self) -> bool {
        if !self.divisible || self.ended || self.queue.len() >= SEGMENTS_MAX {
            return false;
        }
        let Some(last) = self.queue.back_mut().filter(|last| !last.done) else { return false };
        let Some(progression) = &self.progression else { return false };
        let Some(cut) = progression.after(self.steps + 1, self.per_mille) else { return false };
        // The segment may have passed the cut already.
        if last.last.as_ref().max(last.after.as_ref()).is_some_and(|passed| *passed >= cut) {
            return false;
        }
        self.steps += 1;
        (last.end, last.count) = (Some(cut.clone()), 0);
        self.push(Some(cut));
        true
    }

    /// A page of a segment has come. Returns the pages to give out now, in order. The
    /// listing's last page has no continuation; all others have one.
    pub(crate) fn arrived(&mut self, id: SegmentId, page: ListPage, requested: Instant) -> Vec<(ListPage, Instant)> {
        let Some(at) = self.queue.iter().position(|segment| segment.id == id) else { return Vec::new() };
        let segment = &mut self.queue[at];
        segment.busy = false;
        segment.count += 1;
        let mut page = page;
        if let Cursor::After(after) = &segment.cursor
            && page.entries.first().is_some_and(|first| first.key() < after.as_str())
        {
            self.join();
            return Vec::new();
        }
        if let Some(after) = &segment.after {
            page.entries.retain(|entry| entry.key() > after.as_str());
        }
        let (mut useful, listed) = (page.entries.len(), page.entries.len());
        let bounds = page.entries.first().zip(page.entries.last());
        let progression = bounds.filter(|_| listed >= PAGE_MIN).and_then(|(a, b)| Progression::new(a.key(), b.key()));
        let is_end = page.continuation.is_none();
        segment.done = is_end;
        if let Some(end) = &segment.end {
            useful = page.entries.partition_point(|entry| entry.key() <= end.as_str());
            segment.done |= useful < listed;
            page.entries.truncate(useful);
        }
        segment.last = page.entries.last().map(|last| last.key().to_owned()).or(segment.last.take());
        if let Some(token) = page.continuation.take() {
            segment.cursor = Cursor::Token(token);
        }
        segment.pages.push((page, requested));
        let (done, count, bounded) = (segment.done, segment.count, segment.end.is_some());
        if at + 1 == self.queue.len() && progression.is_some() {
            // Steps are counted from the new page on.
            (self.progression, self.steps) = (progression, 0);
        }
        if is_end {
            self.ended = true;
            let mut later = 0..;
            self.queue.retain(|segment| {
                later.next().is_none_or(|place: usize| place <= at) || segment.busy || segment.last.is_some()
            });
        }
        // Cuts should be a page apart.
        if bounded && done && useful * 4 < listed && count == 1 {
            self.per_mille = (self.per_mille * 2).min(PER_MILLE_MAX);
        } else if bounded && count == 3 {
            self.per_mille = (self.per_mille / 2).max(PER_MILLE_MIN);
        }
        self.turn()
    }

    /// The pages to give out.
    fn turn(&mut self) -> Vec<(ListPage, Instant)> {
        let mut pages = Vec::new();
        while let Some(front) = self.queue.front_mut() {
            pages.append(&mut front.pages);
            if !front.done {
                break;
            }
            self.queue.pop_front();
        }
        let over = self.queue.is_empty();
        let count = pages.len();
        for (at, (page, _)) in pages.iter_mut().enumerate() {
            page.continuation = (!over || at + 1 < count).then(String::new);
        }
        pages
    }

    /// The storage does not begin where it is asked to: only one chain, from the first segment on,
    /// can be trusted.
    fn join(&mut self) {
        self.divisible = false;
        self.queue.truncate(1);
        if let Some(front) = self.queue.front_mut() {
            front.end = None;
            if matches!(front.cursor, Cursor::After(_)) {
                front.cursor = Cursor::Start;
            }
        }
    }
}

/// Segments at a time. Lower limits how many requests can be in flight; higher keeps more pages in
/// memory that came before their turn.
const SEGMENTS_MAX: usize = 64;

/// Entries of a page that is used for guesses. Lower guesses from pages that say little; higher
/// makes no guesses for stores with short pages.
const PAGE_MIN: usize = 100;

/// How far apart cuts may be, in thousandths of a page. A lower minimum makes more requests for
/// sparse pages; a higher maximum makes fewer segments where guesses are bad.
const PER_MILLE_MIN: u32 = 125;
const PER_MILLE_MAX: u32 = 64_000;

#[cfg(test)]
mod tests {
    use foreread_backend::{Entry, Key, Object, Version};
    use proptest::prelude::*;

    use super::*;

    /// Lists `keys` (sorted) with `parallel` requests under way, answered in an order that `turns`
    /// chooses. What came, how many rounds it took where all that is under way is answered in one,
    /// and how many requests.
    fn list(
        keys: &[String],
        page: usize,
        parallel: u32,
        turns: &[usize],
        divides: bool,
    ) -> (Vec<String>, usize, usize) {
        let mut segments = Segments::new(true);
        let (mut found, mut open, mut rounds, mut requests) = (Vec::new(), Vec::new(), 0, 0);
        for turn in 0.. {
            let before = open.len();
            open.extend(segments.ask(parallel));
            requests += open.len() - before;
            rounds += 1;
            let answered: Vec<_> = match turns {
                [] => std::mem::take(&mut open),
                turns => vec![open.remove(turns[turn % turns.len()] % open.len())],
            };
            for (id, from) in answered {
                let start = match &from {
                    Cursor::Token(token) => token.parse().unwrap(),
                    Cursor::After(after) if divides => keys.partition_point(|key| key <= after),
                    Cursor::Start | Cursor::After(_) => 0,
                };
                let end = (start + page).min(keys.len());
                let version = Version { size: 1, tag: None, modified: None };
                let entry =
                    |key: &String| Entry::Object(Object { key: Key::new(key.as_str()), version: version.clone() });
                let continuation = (end < keys.len()).then(|| end.to_string());
                let page = ListPage { entries: keys[start..end].iter().map(entry).collect(), continuation };
                for (page, _) in segments.arrived(id, page, Instant::now()) {
                    found.extend(page.entries.iter().map(|entry| entry.key().to_owned()));
                    if page.continuation.is_none() {
                        return (found, rounds, requests);
                    }
                }
            }
        }
        unreachable!("a listing ends")
    }

    #[test]
    fn numbered_names_are_listed_in_parallel() {
        let keys: Vec<_> = (0..100_000).map(|n| format!("big/file-{n:06}")).collect();
        let (found, rounds, requests) = list(&keys, 1000, 32, &[], true);
        assert_eq!(found, keys);
        assert!(rounds <= 7 && requests <= keys.len() / 1000 * 3 / 2, "{rounds} rounds, {requests} requests");
    }

    #[test]
    fn no_request_is_made_beyond_the_end_once_it_is_known() {
        let keys: Vec<_> = (0..100_000).map(|n| format!("big/file-{n:06}")).collect();
        // The first request is answered last.
        let (found, _, requests) = list(&keys, 1000, 8, &[7, 6, 5, 4, 3, 2, 1], true);
        assert_eq!(found, keys);
        assert!(requests <= 150, "{requests} requests");
    }

    #[test]
    fn hashed_names_are_listed_in_parallel() {
        let mut keys: Vec<_> =
            (0..50_000u64).map(|n| format!("h/{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        keys.sort();
        let (found, rounds, requests) = list(&keys, 1000, 32, &[], true);
        assert_eq!(found, keys);
        assert!(rounds <= 7 && requests <= keys.len() / 1000 * 3 / 2, "{rounds} rounds, {requests} requests");
    }

    proptest! {
        #[test]
        fn every_key_comes_once_and_in_order(
            names in prop::collection::btree_set("[a-c/0-9]{1,6}|[0-9]{4}|f[0-9]{3}", 1..400),
            page in 100usize..150,
            parallel in 1u32..40,
            turns in prop::collection::vec(any::<usize>(), 0..20),
            divides in any::<bool>(),
        ) {
            let keys: Vec<_> = names.into_iter().collect();
            let (found, ..) = list(&keys, page, parallel, &turns, divides);
            prop_assert_eq!(found, keys);
        }
    }

    /// A hostile storage's answers: a line an answer; its first byte chooses the request, the
    /// words are the keys, and `+` says that there are more.
    #[test]
    fn fuzz_answers_to_segments() {
        let page = (0..120).map(|n| format!("f{n:03} ")).collect::<Vec<_>>().concat();
        let (first, later) = (format!("0{page}+\n"), page.replace('f', "g"));
        let seeds = [format!("{first}1{later}+\n2z\n0y +\n"), format!("{first}3a b\n1{later}\n0\n"), first.clone()];
        let seeds: Vec<&[u8]> = seeds.iter().map(String::as_bytes).collect();
        foreread_fuzz::fuzz(
            "answers to segments",
            &seeds,
            &["+\n", "\n0", "\n1", "f", "g999 ", "\u{10ffff} "],
            |text| {
                let text = String::from_utf8_lossy(text);
                let (mut segments, mut open, mut ended) = (Segments::new(true), Vec::new(), false);
                for line in text.lines() {
                    open.extend(segments.ask(8));
                    assert!(open.len() <= 8 && segments.in_flight() == open.len(), "{} in flight", open.len());
                    if open.is_empty() {
                        assert!(ended, "it goes on or is over");
                        return;
                    }
                    let (id, _) = open.remove(usize::from(line.as_bytes().first().copied().unwrap_or(0)) % open.len());
                    let version = Version { size: 1, tag: None, modified: None };
                    let words = line.get(1..).unwrap_or_default().split_ascii_whitespace().filter(|word| *word != "+");
                    let entry = |key: &str| Entry::Object(Object { key: Key::new(key), version: version.clone() });
                    let continuation = line.ends_with('+').then(|| line.to_owned());
                    let page = ListPage { entries: words.map(entry).collect(), continuation };
                    for (page, _) in segments.arrived(id, page, Instant::now()) {
                        assert!(!ended, "nothing comes after the end");
                        ended = page.continuation.is_none();
                    }
                    // A request whose segment has gone is not waited for.
                    open.retain(|(id, _)| segments.queue.iter().any(|segment| segment.id == *id && segment.busy));
                }
            },
        );
    }
}
