//! The streams of one file, and how a read finds those near it.
//!
//! ```text
//!   places      | stream | stream | . | stream | . . .      a place keeps its number
//!   near        where each may go on, in the order of the file
//!   anywhere    strided ones, which may go on at any place: their arithmetic is looked into
//!   recency     runs, and recognised streams, in the order of their last reads
//! ```
//!
//! A random read belongs to no stream. It is compared with those near it, and replaces the run
//! that was idle for longest. So a read costs as much beside 16,000 streams as beside 16
//! (docs/decisions/0089).
//!
//! *Invariants:* a stream is entered near all places where it may go on, under its pattern and
//! position: these are changed through [`Streams::change`] only. Time does not go back.
//!
//! The file does not decide when a run is recognised or how many streams there may be (`streams`).
//! Source: docs/decisions/0037, 0089.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::collections::intervals::Intervals;
use crate::collections::recency::Recency;
use crate::files::window::{Pattern, Read, Stream};
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

/// The streams and runs of one file, found by place, by position and by last use.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<Entry>>,
    /// Places that are free.
    free: Vec<u32>,
    near: Intervals,
    anywhere: Vec<u32>,
    /// Runs in one list, recognised streams in the other.
    recency: Recency,
    /// The places of those that were recognised once, by their identity.
    known: BTreeMap<u64, u32>,
    runs: usize,
}

#[derive(Debug)]
struct Entry {
    stream: Stream,
    /// What it is entered under in `near`; `None` for one that is anywhere.
    near: Option<(u64, u64)>,
}

impl Entry {
    /// Where it is to be entered in `near`: as it is, while that holds. A window moves on with
    /// each read: it is entered with as much before it as it is long, and again when it leaves
    /// that.
    fn wanted(&self) -> Option<(u64, u64)> {
        if matches!(self.stream.pattern, Pattern::Strided { .. }) {
            return None;
        }
        let (from, to) = self.stream.reach();
        if !self.stream.is_recognised() {
            // A read that ends where a run begins is looked for as well.
            return Some((self.stream.start.min(from), to));
        }
        let holds = |&(first, last): &(u64, u64)| first <= from && to <= last && from - first <= 2 * (to - from);
        self.near.filter(holds).or(Some((from, to.saturating_add(to - from))))
    }
}

impl Streams {
    /// Removes all but the `most` runs and the `most` streams that were read last.
    pub(crate) fn keep_latest(&mut self, most: usize) {
        for (is_stream, len) in [(false, self.runs()), (true, self.recognised())] {
            for _ in most..len {
                if let Some(at) = self.idle(is_stream) {
                    self.remove(at);
                }
            }
        }
        self.places.shrink_to_fit();
        self.free.shrink_to_fit();
    }

    /// The stream at a place that is taken.
    pub(crate) fn get(&self, at: u32) -> &Stream {
        &self.entry(at).stream
    }

    fn entry(&self, at: u32) -> &Entry {
        self.places[at as usize].as_ref().expect("the place is taken")
    }

    fn entry_mut(&mut self, at: u32) -> &mut Entry {
        self.places[at as usize].as_mut().expect("the place is taken")
    }

    /// Changes the stream at `at`.
    pub(crate) fn change<R>(&mut self, at: u32, change: impl FnOnce(&mut Stream) -> R) -> R {
        let entry = self.entry_mut(at);
        let (before, old) = (entry.stream.last, entry.stream.is_recognised());
        let result = change(&mut entry.stream);
        let (last, new, id) = (entry.stream.last, entry.stream.is_recognised(), entry.stream.id);
        let (near, wanted) = (entry.near, entry.wanted());
        if near != wanted {
            self.enter(at, wanted);
        }
        if last != before || new != old {
            self.recency.remove(old, at);
            self.recency.push(new, at);
        }
        match (old, new) {
            (false, true) => {
                self.runs -= 1;
                self.known.insert(id, at);
            }
            (true, false) => self.runs += 1,
            _ => {}
        }
        result
    }

    /// Enters the stream at `at` under `to`.
    fn enter(&mut self, at: u32, to: Option<(u64, u64)>) {
        let from = core::mem::replace(&mut self.entry_mut(at).near, to);
        match from {
            Some(from) => self.near.remove(from, at),
            None => self.anywhere.retain(|&other| other != at),
        }
        match to {
            Some(to) => self.near.insert(to, at),
            None => self.anywhere.push(at),
        }
    }

    /// Adds a stream whose last read is the latest. Returns its place.
    pub(crate) fn push(&mut self, stream: Stream) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            if self.places.len() == self.places.capacity() {
                // Most files have one stream: a vector would have places for four.
                self.places.reserve_exact((self.places.len() / 2).max(1));
            }
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        let (id, is_recognised) = (stream.id, stream.is_recognised());
        let mut entry = Entry { stream, near: None };
        entry.near = entry.wanted();
        match entry.near {
            Some(near) => self.near.insert(near, at),
            None => self.anywhere.push(at),
        }
        self.places[at as usize] = Some(entry);
        self.recency.push(is_recognised, at);
        if is_recognised {
            self.known.insert(id, at);
        } else {
            self.runs += 1;
        }
        at
    }

    /// Removes the stream at `at`.
    pub(crate) fn remove(&mut self, at: u32) -> Stream {
        let Entry { stream, near } = self.places[at as usize].take().expect("the place is taken");
        match near {
            Some(near) => self.near.remove(near, at),
            None => self.anywhere.retain(|&other| other != at),
        }
        self.recency.remove(stream.is_recognised(), at);
        self.runs -= usize::from(!stream.is_recognised());
        self.known.remove(&stream.id);
        self.free.push(at);
        stream
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.places.iter().flatten().map(|entry| &entry.stream)
    }

    /// To change fields that no order depends on.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().flatten().map(|entry| &mut entry.stream)
    }

    /// The place of the stream `id`, which was recognised once.
    pub(crate) fn position(&self, id: u64) -> Option<u32> {
        self.known.get(&id).copied()
    }

    /// The stream `id`, which was recognised once.
    pub(crate) fn find(&self, id: u64) -> Option<&Stream> {
        self.position(id).map(|at| self.get(at))
    }

    /// The same, to change fields that no order depends on.
    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.entry_mut(at).stream)
    }

    /// Those that may go on at a page of `from..=to`, and others near it; not those that are
    /// anywhere.
    fn near(&self, from: u64, to: u64) -> impl Iterator<Item = (u32, &Stream)> {
        self.near.near((from, to)).map(|at| (at, self.get(at)))
    }

    /// The stream that `read` belongs to. Recognised ones come first, then the one that stands
    /// nearest. Those that were not read since the file was `closed` are read on where they ended,
    /// or not at all.
    pub(crate) fn expecting(&self, read: Read, closed: Option<Nanos>) -> Option<u32> {
        let start = read.extent.start;
        let anywhere = self.anywhere.iter().map(|&at| (at, self.get(at)));
        let is_left = |s: &Stream| closed.is_some_and(|closed| s.last < closed);
        let expects = |s: &Stream| s.expects(read) && (!is_left(s) || s.is_read_on_by(read));
        let expecting = self.near(start, start).chain(anywhere).filter(|(_, s)| expects(s));
        expecting.min_by_key(|(at, s)| (!s.is_recognised(), s.pos.abs_diff(start), *at)).map(|(at, _)| at)
    }

    /// The progression of which `read` begins another row, if there is one.
    pub(crate) fn begins_row(&mut self, read: Read) -> Option<u32> {
        let mut anywhere = self.anywhere.iter().copied();
        let places = &mut self.places;
        anywhere.find(|&at| places[at as usize].as_mut().is_some_and(|entry| entry.stream.begins_row(read)))
    }

    /// The run or stream that ends nearest before `page`, at most `most` pages away.
    pub(crate) fn before(&self, page: u64, most: u64) -> Option<u32> {
        let from = page.saturating_sub(most);
        let near = self.near(from, page).filter(|(_, s)| (from..=page).contains(&s.pos));
        near.max_by_key(|&(at, s)| (s.pos, at)).map(|(at, _)| at)
    }

    /// Whether `read` lies behind a forward stream that was read a moment ago, so near that
    /// requests may have overtaken each other, and may be the piece of a longer one that a kernel
    /// has cut.
    pub(crate) fn has_just_read(&self, read: Extent, now: Nanos) -> bool {
        if read.pages() < FOLIO_PAGES_MAX {
            return false;
        }
        let reaches = |s: &Stream| (s.reach().0..=s.reach().1).contains(&read.start);
        let is_forward = |s: &Stream| s.is_recognised() && s.pattern == Pattern::Forward;
        let just_read = |s: &Stream| read.end <= s.pos && now.since(s.last) <= OVERTAKEN;
        self.near(read.start, read.start).any(|(_, s)| is_forward(s) && just_read(s) && reaches(s))
    }

    /// The run that begins at `page`.
    pub(crate) fn run_from(&self, page: u64) -> Option<u32> {
        let mut near = self.near(page, page);
        near.find(|(_, s)| !s.is_recognised() && s.start == page).map(|(at, _)| at)
    }

    /// The run that begins where `read` ends, or with its last page: of reads that are no whole
    /// number of pages two have one in common.
    pub(crate) fn run_behind(&self, read: Extent) -> Option<u32> {
        let with_last = || self.run_from(read.end - 1).filter(|_| read.pages() > 1);
        self.run_from(read.end).or_else(with_last)
    }

    /// How many runs have been read after `last`.
    pub(crate) fn runs_after(&self, last: Nanos) -> usize {
        self.recency.newest_first(false).take_while(|&at| self.get(at).last > last).count()
    }

    /// Whether at least `many` runs have been read after `last`.
    pub(crate) fn has_runs_after(&self, last: Nanos, many: usize) -> bool {
        let mut later = self.recency.newest_first(false).take_while(|&at| self.get(at).last > last);
        many == 0 || later.nth(many - 1).is_some()
    }

    /// How many are runs, which may become streams.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// How many are recognised.
    pub(crate) fn recognised(&self) -> usize {
        self.len() - self.runs
    }

    /// One that was last read by `until`, and was not returned since its last read.
    pub(crate) fn take_ended(&mut self, until: Nanos) -> Option<&Stream> {
        let has_ended = |&(_, at): &(bool, u32)| self.get(at).last <= until;
        let oldest = [false, true].into_iter().filter_map(|list| Some((list, self.recency.unmarked(list)?)));
        let (list, at) = oldest.filter(has_ended).min_by_key(|&(_, at)| self.get(at).last)?;
        self.recency.mark(list);
        Some(self.get(at))
    }

    /// The recognised stream, or the run, that was read longest ago.
    pub(crate) fn idle(&self, recognised: bool) -> Option<u32> {
        self.recency.oldest(recognised)
    }
}

/// Time in which requests of one reader overtake each other on their way: 2 ms. Lower: of a fast
/// reader behind a busy mount, one that is late begins a stream of its own, which takes a share of
/// memory. Higher: a reader that follows another one closely is not seen: with 5 ms
/// `fio-stream-plain` has 90.0 MB/s in place of 91.5. Source: a guess; a mount's four threads,
/// each of which may lose the processor for a while.
const OVERTAKEN: Nanos = Nanos::from_millis(2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::lengths::Lengths;
    use crate::files::stride::Stride;
    use crate::units::Extent;

    proptest! {
        #[test]
        fn outlines_agree_with_their_streams(steps in proptest::collection::vec((0..6_u8, 0..400_u64, 1..40_u64), 1..200)) {
            let mut streams = Streams::default();
            for (at, (step, page, pages)) in steps.into_iter().enumerate() {
                let (now, read) = (Nanos(at as u64 / 3), Extent::new(page, page + pages));
                let taken: Vec<u32> = (0..streams.places.len() as u32).filter(|&at| streams.places[at as usize].is_some()).collect();
                let any = (!taken.is_empty()).then(|| taken[page as usize % taken.len()]);
                match (step, any) {
                    (0, Some(any)) => { streams.remove(any); }
                    (1, Some(any)) if streams.get(any).expects(Read::alone(read, Some(page))) => {
                        streams.change(any, |s| s.advance(now, Read::alone(read, Some(page)), &Lengths::default()));
                    }
                    (2, Some(any)) if streams.get(any).pattern == Pattern::Forward => streams.change(any, |s| s.recognise(Some(page), &Lengths::default())),
                    (3, Some(any)) => streams.change(any, |s| s.recognise_stride(Stride::even(-(pages as i64), pages, 3))),
                    (4, Some(any)) => streams.change(any, |s| s.prepend(now, read, false, false)),
                    _ => { streams.push(Stream::new(at as u64, now, read)); }
                }
                let all = || (0..).zip(&streams.places).filter_map(|(at, entry)| Some((at, &entry.as_ref()?.stream)));
                let runs = || all().filter(|(_, s)| !s.is_recognised());
                prop_assert_eq!(streams.runs(), runs().count());
                prop_assert_eq!(streams.recognised(), all().filter(|(_, s)| s.is_recognised()).count());
                let idle = streams.idle(false).map(|at| streams.get(at));
                prop_assert!(idle.is_none_or(|idle| !idle.is_recognised()));
                prop_assert_eq!(idle.map(|idle| idle.last), runs().map(|(_, s)| s.last).min());
                prop_assert_eq!(streams.runs_after(Nanos(5)), runs().filter(|(_, s)| s.last > Nanos(5)).count());
                for page in 0..450 {
                    let read = Read::alone(Extent::new(page, page + 4), None);
                    let expecting = all().filter(|(_, s)| s.expects(read));
                    let nearest = expecting.min_by_key(|(at, s)| (!s.is_recognised(), s.pos.abs_diff(page), *at));
                    prop_assert_eq!(streams.expecting(read, None), nearest.map(|(at, _)| at));
                    let found = streams.run_from(page).map(|at| streams.get(at).start);
                    prop_assert_eq!(found, runs().find(|(_, s)| s.start == page).map(|(_, s)| s.start));
                    let ends = all().filter(|(_, s)| s.pos <= page && page <= s.pos + 20);
                    let ends = ends.filter(|(_, s)| !matches!(s.pattern, Pattern::Strided { .. }));
                    prop_assert_eq!(streams.before(page, 20).map(|at| streams.get(at).pos), ends.map(|(_, s)| s.pos).max());
                }
            }
        }
    }
}
