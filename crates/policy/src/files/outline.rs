//! The streams of one file, and of each what a read is compared with, side by side: most reads belong to none of them.
//!
//! ```text
//!   streams    | window, pace, evidence, ... | window, pace, evidence, ... | . . .       looked into where the outline says so
//!   reaches    | from..to | from..to | . . .                                             gone through at each read
//!   starts     | page | page | . . .                                                     and so is this; of runs alone
//!   turns      | 7 | 2 | 5 | . . .                                                       which was touched first
//! ```
//!
//! A random read is compared with more than a hundred runs, and takes the place of the one that was idle for longest. Gone through in the streams
//! themselves that was a fifth of all that policy does for such a read.
//!
//! *Invariant:* the outline of a stream is that of the stream as it is: it is changed through [`Streams::change`] only. Time does not go back.

use alloc::vec::Vec;

use crate::files::window::Stream;
use crate::units::{Extent, Nanos};

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    /// In the same order: a read that the stream expects begins at one of these pages.
    reaches: Vec<(u64, u64)>,
    /// In the same order: where each begins that is not recognised, [`NOWHERE`] for the others.
    starts: Vec<u64>,
    /// Which of them was touched first, and so on.
    turns: Vec<u32>,
    /// Those that are not recognised.
    runs: usize,
}

/// Where a run begins.
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
            let turn = self.turn(at);
            self.turns[turn..].rotate_left(1);
        }
        result
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        let start = start_of(&stream);
        self.runs += usize::from(start != NOWHERE);
        self.reaches.push(stream.reach());
        self.starts.push(start);
        self.turns.push(self.all.len() as u32);
        self.all.push(stream);
    }

    /// Takes the one at `at` out; the last one has its place.
    pub(crate) fn swap_remove(&mut self, at: usize) -> Stream {
        self.turns.remove(self.turn(at));
        let last = self.all.len() - 1;
        if at != last {
            let turn = self.turn(last);
            self.turns[turn] = at as u32;
        }
        self.reaches.swap_remove(at);
        self.runs -= usize::from(self.starts.swap_remove(at) != NOWHERE);
        self.all.swap_remove(at)
    }

    /// Which turn the one at `at` has.
    fn turn(&self, at: usize) -> usize {
        let turn = self.turns.iter().position(|&turn| turn as usize == at);
        turn.expect("each stream has a turn")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.all.iter()
    }

    /// For what no outline has.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.all.iter_mut()
    }

    /// Where the stream `id` is.
    pub(crate) fn position(&self, id: u64) -> Option<usize> {
        self.all.iter().position(|stream| stream.id == id)
    }

    /// The stream that `read` belongs to, which comes behind `skipped` pages that are there and unread: recognised ones first, the one that
    /// stands nearest before it.
    pub(crate) fn expecting(&self, read: Extent, skipped: u64) -> Option<usize> {
        let within = |&(from, to): &(u64, u64)| from <= read.start && read.start <= to;
        // Most often none is, and that is told soonest by itself.
        if !self.reaches.iter().any(within) {
            return None;
        }
        let near = self.reaches.iter().enumerate().filter(|(_, reach)| within(reach));
        let expecting = near.map(|(at, _)| (at, &self.all[at])).filter(|(_, s)| s.expects(read, skipped));
        expecting.min_by_key(|(_, s)| (!s.is_recognised(), s.pos.abs_diff(read.start))).map(|(at, _)| at)
    }

    /// The run that begins at `page`.
    pub(crate) fn run_from(&self, page: u64) -> Option<usize> {
        self.starts.iter().position(|&start| start == page)
    }

    /// How many runs have been read after `last`.
    pub(crate) fn runs_after(&self, last: Nanos) -> usize {
        let by_turn = self.turns.iter().rev().map(|&at| &self.all[at as usize]);
        by_turn.take_while(|stream| stream.last > last).filter(|stream| !stream.is_recognised()).count()
    }

    /// How many are runs that may become streams.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    /// How many are recognised.
    pub(crate) fn recognised(&self) -> usize {
        self.all.len() - self.runs
    }

    /// Of those that are `recognised`, or are not, the one that has not been read for longest.
    pub(crate) fn idle(&self, recognised: bool) -> Option<usize> {
        self.turns.iter().map(|&at| at as usize).find(|&at| (self.starts[at] == NOWHERE) == recognised)
    }
}

/// No run begins there: no file has as many pages.
const NOWHERE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn outlines_say_what_the_streams_do(steps in proptest::collection::vec((0..6_u8, 0..400_u64, 1..40_u64), 1..200)) {
            let mut streams = Streams::default();
            for (at, (step, page, pages)) in steps.into_iter().enumerate() {
                let (now, read) = (Nanos(at as u64 / 3), Extent::new(page, page + pages));
                let any = (!streams.all.is_empty()).then(|| page as usize % streams.all.len());
                match (step, any) {
                    (0, Some(any)) => { streams.swap_remove(any); }
                    (1, Some(any)) if streams.get(any).expects(read, 0) => {
                        streams.change(any, |s| s.advance(now, read, true, Some(page)));
                    }
                    (2, Some(any)) => streams.change(any, |s| s.recognise(Some(page))),
                    (3, Some(any)) => streams.change(any, |s| s.recognise_stride(-(pages as i64), pages, 3)),
                    (4, Some(any)) => streams.change(any, |s| s.prepend(now, read)),
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
                    let read = Extent::new(page, page + 4);
                    let expecting = all().filter(|(_, s)| s.expects(read, 0));
                    let nearest = expecting.min_by_key(|(_, s)| (!s.is_recognised(), s.pos.abs_diff(page)));
                    prop_assert_eq!(streams.expecting(read, 0), nearest.map(|(at, _)| at));
                    prop_assert_eq!(streams.run_from(page), runs().find(|(_, s)| s.start == page).map(|(at, _)| at));
                }
            }
        }
    }
}
