//! The streams of one file, and of each what a read is compared with, side by side: most reads belong to none of them.
//!
//! ```text
//!   streams    | window, pace, evidence, ... | window, pace, evidence, ... | . . .       looked into where the outline says so
//!   outlines   | from..to, start, last | from..to, start, last | . . .                   gone through at each read
//! ```
//!
//! A random read is compared with more than a hundred runs. Gone through in the streams themselves that was a fifth of all that policy does for
//! such a read.
//!
//! *Invariant:* the outline of a stream is that of the stream as it is: it is changed through [`Streams::change`] only.

use alloc::vec::Vec;

use crate::stream::Stream;
use crate::units::{Extent, Nanos};

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    /// In the same order.
    outlines: Vec<Outline>,
    /// Those that are not recognised.
    runs: usize,
}

/// What of a stream a read is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outline {
    /// A read that the stream expects begins at one of these pages.
    from: u64,
    to: u64,
    start: u64,
    last: Nanos,
    recognised: bool,
}

impl Outline {
    fn of(stream: &Stream) -> Self {
        let (from, to) = stream.reach();
        Self { from, to, start: stream.start, last: stream.last, recognised: stream.is_recognised() }
    }
}

impl Streams {
    pub(crate) fn get(&self, at: usize) -> &Stream {
        &self.all[at]
    }

    /// Changes the stream at `at`.
    pub(crate) fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Stream) -> R) -> R {
        let stream = &mut self.all[at];
        let result = change(stream);
        let outline = Outline::of(stream);
        self.runs = self.runs + usize::from(!outline.recognised) - usize::from(!self.outlines[at].recognised);
        self.outlines[at] = outline;
        result
    }

    pub(crate) fn push(&mut self, stream: Stream) {
        let outline = Outline::of(&stream);
        self.runs += usize::from(!outline.recognised);
        self.outlines.push(outline);
        self.all.push(stream);
    }

    /// Takes the one at `at` out; the last one has its place.
    pub(crate) fn swap_remove(&mut self, at: usize) -> Stream {
        let outline = self.outlines.swap_remove(at);
        self.runs -= usize::from(!outline.recognised);
        self.all.swap_remove(at)
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
        let within = |(_, outline): &(usize, &Outline)| outline.from <= read.start && read.start <= outline.to;
        let near = self.outlines.iter().enumerate().filter(within);
        let expecting = near.map(|(at, _)| (at, &self.all[at])).filter(|(_, s)| s.expects(read, skipped));
        expecting.min_by_key(|(_, s)| (!s.is_recognised(), s.pos.abs_diff(read.start))).map(|(at, _)| at)
    }

    /// The run that begins at `page`.
    pub(crate) fn run_from(&self, page: u64) -> Option<usize> {
        self.outlines.iter().position(|outline| outline.start == page && !outline.recognised)
    }

    /// How many runs have been read after `last`.
    pub(crate) fn runs_after(&self, last: Nanos) -> usize {
        self.outlines.iter().filter(|outline| !outline.recognised && outline.last > last).count()
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
        let of_kind = self.outlines.iter().enumerate().filter(|(_, outline)| outline.recognised == recognised);
        of_kind.min_by_key(|(_, outline)| outline.last).map(|(at, _)| at)
    }
}

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
                prop_assert_eq!(streams.idle(false), runs().min_by_key(|(_, s)| s.last).map(|(at, _)| at));
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
