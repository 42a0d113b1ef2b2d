//! The streams of one file, with the few fields that every read is compared with kept side by
//! side.
//!
//! ```text
//!   all        | window, pace, evidence, ... | window, pace, evidence, ... | . . .
//!              looked into where the outline matches
//!   reaches    | from..to | from..to | . . .       scanned at each read
//!   starts     | page | page | . . .               scanned at each read; of runs alone
//!   by_last    | 7 | 2 | 5 | . . .                 the stream read longest ago first
//! ```
//!
//! A random read belongs to no stream. It is compared with more than a hundred runs, and replaces
//! the one that was idle for longest. Scanning the streams themselves took a third of the time
//! that policy spends on such a read (docs/decisions/0037).
//!
//! *Invariants:* the outline of a stream agrees with the stream: its pattern, position and start
//! are changed through [`Streams::change`] only. Time does not go back.
//!
//! The file does not decide when a run is recognised or how many streams there may be (`streams`).
//! Source: docs/decisions/0037.

use alloc::vec::Vec;

use crate::files::window::{Pattern, Read, Stream};
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

/// The streams and runs of one file, and their outline.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    /// In the same order: the first and the last page at which a read that the stream expects may
    /// begin.
    reaches: Vec<(u64, u64)>,
    /// In the same order: where each run begins, and [`NOWHERE`] for recognised streams.
    starts: Vec<u64>,
    /// Their indices, the one read longest ago first.
    by_last: Vec<u32>,
    /// How many are not recognised.
    runs: usize,
}

/// Where a run begins, or [`NOWHERE`] for a recognised stream.
fn start_of(stream: &Stream) -> u64 {
    if stream.is_recognised() { NOWHERE } else { stream.start }
}

impl Streams {
    pub(crate) fn get(&self, at: usize) -> &Stream {
        &self.all[at]
    }

    /// Changes the stream at `at`.
    pub(crate) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Stream) -> R) -> R {
        let stream = &mut self.all[at];
        let before = stream.last;
        let result = change(stream);
        let start = start_of(stream);
        self.runs = self.runs + usize::from(start != NOWHERE) - usize::from(self.starts[at] != NOWHERE);
        (self.reaches[at], self.starts[at]) = (stream.reach(), start);
        if stream.last != before {
            let place = self.place(at);
            self.by_last[place..].rotate_left(1);
        }
        result
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        let start = start_of(&stream);
        self.runs += usize::from(start != NOWHERE);
        self.reaches.push(stream.reach());
        self.starts.push(start);
        self.by_last.push(self.all.len() as u32);
        self.all.push(stream);
    }

    /// Removes the stream at `at`; the last one takes its index.
    pub(crate) fn swap_remove(&mut self, at: usize) -> Stream {
        self.by_last.remove(self.place(at));
        let last = self.all.len() - 1;
        if at != last {
            let place = self.place(last);
            self.by_last[place] = at as u32;
        }
        self.reaches.swap_remove(at);
        self.runs -= usize::from(self.starts.swap_remove(at) != NOWHERE);
        self.all.swap_remove(at)
    }

    /// The position of the stream at `at` in `by_last`.
    fn place(&self, at: usize) -> usize {
        let place = self.by_last.iter().position(|&index| index as usize == at);
        place.expect("each stream has a place in by_last")
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    /// To change fields that the outline does not hold.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all.iter_mut()
    }

    /// The index of the stream `id`.
    pub(crate) fn position(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|stream| stream.id == id)
    }

    /// The stream that `read` belongs to. Recognised ones come first, then the one that stands
    /// nearest.
    pub(crate) fn expecting(&self, read: Read) -> Option<usize> {
        let start = read.extent.start;
        let within = |&(from, to): &(u64, u64)| from <= start && start <= to;
        // Most reads belong to none, and a scan without look-ups tells that soonest.
        if !self.reaches.iter().any(within) {
            return None;
        }
        let near = self.reaches.iter().enumerate().filter(|(_, reach)| within(reach));
        let expecting = near.map(|(at, _)| (at, &self.all[at])).filter(|(_, s)| s.expects(read));
        expecting.min_by_key(|(_, s)| (!s.is_recognised(), s.pos.abs_diff(start))).map(|(at, _)| at)
    }

    /// The run or stream that ends nearest before `page`, at most `most` pages away.
    pub(crate) fn before(&self, page: u64, most: u64) -> Option<usize> {
        let from = page.saturating_sub(most);
        let near = self.reaches.iter().enumerate().filter(|(_, reach)| reach.0 <= page && from <= reach.1);
        let before = near.map(|(at, _)| (at, self.all[at].pos)).filter(|(_, pos)| (from..=page).contains(pos));
        before.max_by_key(|&(_, pos)| pos).map(|(at, _)| at)
    }

    /// Whether `read` lies behind a forward stream that was read a moment ago, so near that
    /// requests may have overtaken each other, and may be the piece of a longer one that a kernel
    /// has cut.
    pub(crate) fn has_just_read(&self, read: Extent, now: Nanos) -> bool {
        if read.pages() < FOLIO_PAGES_MAX {
            return false;
        }
        let within = |&(from, to): &(u64, u64)| from <= read.start && read.start <= to;
        let near = self.reaches.iter().enumerate().filter(|(_, reach)| within(reach));
        let mut near = near.map(|(at, _)| &self.all[at]);
        let is_forward = |s: &Stream| s.is_recognised() && s.pattern == Pattern::Forward;
        near.any(|s| is_forward(s) && read.end <= s.pos && now.since(s.last) <= OVERTAKEN)
    }

    /// The run that begins at `page`.
    pub(crate) fn run_from(&self, page: u64) -> Option<usize> {
        self.starts.iter().position(|&start| start == page)
    }

    /// How many runs have been read after `last`.
    pub(crate) fn runs_after(&self, last: Nanos) -> usize {
        let latest_first = self.by_last.iter().rev().map(|&at| &self.all[at as usize]);
        latest_first.take_while(|stream| stream.last > last).filter(|stream| !stream.is_recognised()).count()
    }

    /// How many are runs, which may become streams.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// How many are recognised.
    pub(crate) fn recognised(&self) -> usize {
        self.all.len() - self.runs
    }

    /// Those that were last read after `from`, and not after `until`.
    pub(crate) fn last_read(&self, from: Option<Nanos>, until: Nanos) -> impl Iterator<Item = &Stream> {
        let last = |&at: &u32| self.all[at as usize].last;
        let first = self.by_last.partition_point(|at| from.is_some_and(|from| last(at) <= from));
        self.by_last[first..].iter().map(|&at| &self.all[at as usize]).take_while(move |s| s.last <= until)
    }

    /// The recognised stream, or the run, that was read longest ago.
    pub(crate) fn idle(&self, recognised: bool) -> Option<usize> {
        self.by_last.iter().map(|&at| at as usize).find(|&at| (self.starts[at] == NOWHERE) == recognised)
    }
}

/// The page that stands for "no run starts here". Lower: a run could start at that page, and a
/// stream would be taken for it. Higher: not possible. Source: the largest page number, beyond the
/// end of any file.
const NOWHERE: u64 = u64::MAX;

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
    use crate::units::Extent;

    proptest! {
        #[test]
        fn outlines_agree_with_their_streams(steps in proptest::collection::vec((0..6_u8, 0..400_u64, 1..40_u64), 1..200)) {
            let mut streams = Streams::default();
            for (at, (step, page, pages)) in steps.into_iter().enumerate() {
                let (now, read) = (Nanos(at as u64 / 3), Extent::new(page, page + pages));
                let any = (!streams.all.is_empty()).then(|| page as usize % streams.all.len());
                match (step, any) {
                    (0, Some(any)) => { streams.swap_remove(any); }
                    (1, Some(any)) if streams.get(any).expects(Read::alone(read, Some(page))) => {
                        streams.change(any, |s| s.advance(now, Read::alone(read, Some(page)), &Lengths::default()));
                    }
                    (2, Some(any)) => streams.change(any, |s| s.recognise(Some(page), &Lengths::default())),
                    (3, Some(any)) => streams.change(any, |s| s.recognise_stride(-(pages as i64), pages, 3)),
                    (4, Some(any)) => streams.change(any, |s| s.prepend(now, read, false, false)),
                    _ => streams.push(Stream::new(at as u64, now, read)),
                }
                let all = || streams.all.iter().enumerate();
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
                    let nearest = expecting.min_by_key(|(_, s)| (!s.is_recognised(), s.pos.abs_diff(page)));
                    prop_assert_eq!(streams.expecting(read), nearest.map(|(at, _)| at));
                    prop_assert_eq!(streams.run_from(page), runs().find(|(_, s)| s.start == page).map(|(at, _)| at));
                }
            }
        }
    }
}
