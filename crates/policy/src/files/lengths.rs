//! How long the runs of one file are. From the lengths of those that have ended follows how far a
//! run is likely to go on.
//!
//! ```text
//!   runs ended      1  1  .  2  . | .  7  .  .  1       by their length, four classes an octave
//!                            ^ pages   ^
//!                              |<----->|  further: of the runs that came as far as `pages`,
//!                                         one in three, or more, came to here
//! ```
//!
//! The runs of a file are often alike: column chunks, tiles, blocks of a database. A window that
//! runs past their ends wastes as much as it gains, and one that grows from nothing at each of
//! them waits several times. What has not ended yet says nothing: sixteen readers that go through
//! a file in step have shown no end. A belief without evidence weighs as much as a few runs. So it
//! decides in most files, and counts less and less in a file with many runs.
//!
//! *Invariant:* at most [`ENDED_MAX`] runs are counted. Then all counts are halved, so that a new
//! habit outweighs an old one.
//!
//! The file does not know runs or say when one has ended (`streams`). Source: survival analysis:
//! what goes on is estimated among those still at risk; docs/decisions/0052.

use alloc::boxed::Box;
use core::cmp::Ordering;

/// Runs of about the same length.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    runs: u16,
    /// How many were as long as the longest of them.
    at_longest: u16,
    /// Pages of that.
    longest: u32,
}

impl Class {
    /// Counts a run of `pages` pages.
    fn add(&mut self, pages: u64) {
        let pages = narrow(pages);
        self.runs += 1;
        if pages > self.longest {
            (self.longest, self.at_longest) = (pages, 0);
        }
        self.at_longest += u16::from(pages == self.longest);
    }

    /// Forgets every other run.
    fn halve(&mut self) {
        *self = if self.runs < 2 {
            Self::default()
        } else {
            Self { runs: self.runs / 2, longest: self.longest, at_longest: self.at_longest.div_ceil(2) }
        };
    }

    /// Its runs that came as far as `pages`.
    fn at_risk(self, pages: u64) -> u32 {
        match self.longest.cmp(&narrow(pages)) {
            Ordering::Less => 0,
            Ordering::Equal => u32::from(self.at_longest),
            Ordering::Greater => u32::from(self.runs),
        }
    }
}

/// The lengths of the runs that have ended.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    /// Nothing while none has ended.
    classes: Option<Box<[Class; CLASSES]>>,
}

/// `pages`, as the classes hold it: 16 TiB at most.
fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

/// The class of a run of `pages` pages: four an octave.
fn class(pages: u64) -> usize {
    let pages = pages.max(1);
    let octave = pages.ilog2();
    // The two bits below the highest one.
    let quarter = if octave >= 2 { (pages >> (octave - 2)) & 3 } else { 0 };
    (4 * octave as usize + quarter as usize).min(CLASSES - 1)
}

impl Lengths {
    /// A run of `pages` pages has ended; one of none was no run.
    pub(crate) fn end(&mut self, pages: u64) {
        if pages == 0 {
            return;
        }
        let classes = self.classes.get_or_insert_with(|| Box::new([Class::default(); CLASSES]));
        if classes.iter().map(|class| class.runs).sum::<u16>() >= ENDED_MAX {
            classes.iter_mut().for_each(Class::halve);
        }
        classes[class(pages)].add(pages);
    }

    /// A run of `pages` pages that had been taken for ended goes on.
    pub(crate) fn revive(&mut self, pages: u64) {
        if let Some(classes) = &mut self.classes
            && pages > 0
        {
            let class = &mut classes[class(pages)];
            class.runs = class.runs.saturating_sub(1);
            class.at_longest =
                class.at_longest.saturating_sub(u16::from(narrow(pages) == class.longest)).min(class.runs);
        }
    }

    /// How many pages further than `pages` a run of that length is likely to go, where it is
    /// believed to go `believed` pages further.
    pub(crate) fn further(&self, pages: u64, believed: u64) -> u64 {
        let believed_end = pages.saturating_add(believed);
        let all = BELIEF + self.runs_from(pages);
        let (mut going, mut end) = (all, pages);
        // A belief counts like runs that end where it says.
        let mut belief = BELIEF;
        for (longest, runs) in self.at_risk(pages) {
            if belief > 0 && believed_end <= longest {
                if going * LIKELY < all {
                    break;
                }
                (going, belief, end) = (going - belief, 0, end.max(believed_end));
            }
            if going * LIKELY < all {
                break;
            }
            (going, end) = (going - runs, longest);
        }
        if belief > 0 && going * LIKELY >= all {
            end = end.max(believed_end);
        }
        end.saturating_sub(pages)
    }

    /// Whether so many runs have come as far as `pages` that they say how one goes on.
    pub(crate) fn know(&self, pages: u64) -> bool {
        self.runs_from(pages) >= KNOWN
    }

    /// The memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        if self.classes.is_some() { size_of::<[Class; CLASSES]>() as u64 } else { 0 }
    }

    /// How many runs came as far as `pages`.
    fn runs_from(&self, pages: u64) -> u32 {
        self.at_risk(pages).map(|(_, runs)| runs).sum()
    }

    /// The runs that came as far as `pages`: where those of a class have ended, and how many they
    /// are, the shortest first.
    fn at_risk(&self, pages: u64) -> impl Iterator<Item = (u64, u32)> {
        let classes = self.classes.iter().flat_map(move |classes| classes[class(pages)..].iter());
        classes.map(move |class| (u64::from(class.longest), class.at_risk(pages))).filter(|(_, runs)| *runs > 0)
    }
}

/// Classes of lengths: up to 16 GiB. Lower: long runs are taken for alike. Higher: more memory for
/// each file that is read in runs. Source: chosen here.
const CLASSES: usize = 4 * 22;

/// The runs that are counted at most. Lower: chance decides. Higher: a file that is read in
/// another way than before is read ahead of in the old way for longer. Source: a guess, not
/// measured.
const ENDED_MAX: u16 = 256;

/// How many runs a belief weighs as much as. Lower: a few runs that ended early limit a stream
/// that does not. Higher: more is wasted on short runs before they are known. Source: measured
/// with a recording of a virtual machine's reads; docs/decisions/0052.
const BELIEF: u32 = 4;

/// A page is read ahead if one run in this many, or more, of those that came as far reaches it.
/// Lower: a run that goes on waits more often. Higher: more is wasted on runs that end. Source:
/// measured with a recording of a virtual machine's reads; docs/decisions/0052.
const LIKELY: u32 = 3;

/// The number of runs from which on they say alone how far to read ahead. Lower: chance decides.
/// Higher: runs that are all alike are waited for more often before that is used. Source: twice
/// [`BELIEF`], so that they outweigh it.
const KNOWN: u32 = 2 * BELIEF;

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(ended: &[(u64, usize)]) -> Lengths {
        let mut lengths = Lengths::default();
        for &(pages, runs) in ended {
            (0..runs).for_each(|_| lengths.end(pages));
        }
        lengths
    }

    #[test]
    fn a_belief_decides_where_nothing_has_ended() {
        assert_eq!(lengths(&[]).further(64, 256), 256);
        assert_eq!(lengths(&[(32, 200)]).further(64, 256), 256, "shorter runs say nothing of one that came so far");
        assert_eq!(lengths(&[(1_000, 1)]).further(64, 256), 256, "one run does not outweigh it");
    }

    #[test]
    fn runs_that_are_alike_are_read_to_their_end_and_not_past_it() {
        let alike = lengths(&[(384, 20)]);
        assert_eq!(alike.further(32, 32), 352);
        assert_eq!(alike.further(32, 0), 352, "at the first read, too");
        assert_eq!(alike.further(380, 4 * 380), 4);
        assert_eq!(alike.further(384, 4 * 384), 0);
        assert_eq!(alike.further(400, 4 * 400), 4 * 400, "one that is longer is believed again");
        assert!(alike.know(384) && !alike.know(400));
    }

    #[test]
    fn a_window_ends_where_too_few_runs_go_on() {
        // Of forty, twenty go past 64 pages, and five past 256.
        let mixed = lengths(&[(64, 20), (256, 15), (4_096, 5)]);
        assert_eq!(mixed.further(32, 128), 224);
        assert_eq!(mixed.further(200, 0), 56);
        assert_eq!(lengths(&[(64, 90), (256, 10)]).further(32, 128), 32);
        let mut short = lengths(&[(33, 60), (2_000, 1)]);
        assert_eq!(short.further(32, 0), 1);
        (0..60).for_each(|_| short.revive(33));
        assert_eq!(short.further(32, 96), 96);
    }

    #[test]
    fn a_new_habit_outweighs_an_old_one() {
        let mut lengths = lengths(&[(4_096, 250)]);
        (0..100).for_each(|_| lengths.end(64));
        assert_eq!(lengths.further(32, 0), 4_064);
        (0..400).for_each(|_| lengths.end(64));
        assert_eq!(lengths.further(32, 0), 32);
    }

    #[test]
    fn classes_are_in_the_order_of_lengths() {
        assert!((1..100_000).map(class).is_sorted());
        assert_eq!(class(u64::MAX), CLASSES - 1);
        assert!((4..1 << 21).step_by(997).all(|pages| class(pages * 5 / 4 + 1) > class(pages)));
    }
}
