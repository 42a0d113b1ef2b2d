//! How far each stream may go where all together want more than there is room for: max-min fair
//! shares.
//!
//! ```text
//!   wants   ##  ####  ##########  ############      the wants of the streams, least first
//!   level ------------######------######------      the same for all that want more than it
//!           ##  ####  ######      ######            what each may have: together all the room
//! ```
//!
//! No stream gets more than it wants, and none gets less than another that wants as much. A share
//! in proportion to the want would let the first of sixteen readers stay ahead for good: the want
//! grows with what a stream has been given. With equal shares alone, chance decides which stream
//! is ahead, and the differences add up. So a stream that has read less than the mean of its round
//! has its share raised by the difference, and one that has read more has it lowered, both within
//! a bound.
//!
//! *Invariant:* before the correction, all streams together are given no more than the room.
//!
//! The file does not know streams or memory: it is given wants and room in pages. Source: max-min
//! fairness, as in the allocation of bandwidth to flows; docs/decisions/0006, 0018.

use alloc::vec::Vec;

/// A round: the pages that each contending stream has read since the number of contenders last
/// changed. Compared with their mean, they correct the shares.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Counts up whenever the number of contenders changes.
    pub(crate) number: u64,
    contenders: u64,
    mean: u64,
}

impl Round {
    /// Takes the pages that each contender has read in this round. The mean leaves out those far
    /// behind it: they have stopped, or something that no share mends slows them.
    pub(crate) fn observe(&mut self, read: impl Iterator<Item = u64>) {
        let mean = self.mean;
        let (mut count, mut reading, mut sum) = (0, 0, 0);
        for read in read {
            count += 1;
            if read >= mean / FAR_BEHIND {
                (reading, sum) = (reading + 1, sum + read);
            }
        }
        if count == self.contenders {
            self.mean = sum / u64::max(reading, 1);
        } else {
            *self = Self { number: self.number + 1, contenders: count, mean: 0 };
        }
    }

    /// The share of a contender that has read `read` pages in this round, where `level` is the
    /// share of all.
    pub(crate) fn share(&self, level: u64, read: u64) -> u64 {
        let most = if level >= ROOMY_PAGES { level / ADJUSTMENT } else { level / ADJUSTMENT_TIGHT };
        if self.mean == 0 {
            level
        } else {
            level + self.mean.saturating_sub(read).min(most) - read.saturating_sub(self.mean).min(most)
        }
    }
}

/// Divisor of a share: it is raised or lowered by at most one part in this many, a half. Lower: no
/// gain; with the whole share the slowest of sixteen has .992 of what the fastest has. Higher: the
/// slowest catches up too late; .99 with a half, .89 with a quarter. Source: docs/decisions/0018,
/// measured with `files-16-shared-link` in the simulator.
const ADJUSTMENT: u64 = 2;

/// The same divisor where a share is less than [`ROOMY_PAGES`]: a quarter. Lower: a reader reaches
/// more than its share holds before the next request is answered; with a half 809 reads of
/// `thrash-200-streams` are late. Higher: small shares stay unequal for longer. Source:
/// docs/decisions/0018.
const ADJUSTMENT_TIGHT: u64 = 4;

/// Pages of a share from which on [`ADJUSTMENT`] holds: 4 MiB, which are two parts of many
/// streams. Lower: shares of a few folios are halved, and their readers wait. Higher: sixteen
/// readers of one link are less equal. Source: docs/decisions/0018.
const ROOMY_PAGES: u64 = 1024;

/// Divisor of the mean of a round: a contender that has read less than one part in this many is
/// not counted in the mean. Lower: a stream that catches up is left out, and the others are not
/// held back for it; with 8, 13 reads of `thrash-200-streams` are late. Higher: a stream that has
/// stopped lowers the shares of all that go on, until it is no longer active. Source: `foreread
/// simulate --grid`; sixteen backward readers in 64 MiB, each of which leaves such a stream
/// behind. docs/decisions/0050.
const FAR_BEHIND: u64 = 16;

/// The wants of the streams that share a room, as of one moment.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The least first.
    wants: Vec<u64>,
    /// `below[i]` is the sum of the first `i` wants.
    below: Vec<u64>,
}

impl Shares {
    /// Replaces the wants.
    pub(crate) fn set(&mut self, wants: impl Iterator<Item = u64>) {
        self.wants.clear();
        self.wants.extend(wants);
        self.wants.sort_unstable();
        self.below.clear();
        self.below.push(0);
        self.below.extend(self.wants.iter().scan(0, |sum: &mut u64, want| {
            *sum = sum.saturating_add(*want);
            Some(*sum)
        }));
    }

    /// The share of `room` that each stream may have at most; one that wants less has what it
    /// wants.
    pub(crate) fn level(&self, room: u64) -> u64 {
        let count = self.wants.len();
        let satisfied = self.first(|at| self.up_to(at, self.wants[at]) > room);
        if satisfied == count { room } else { (room - self.below[satisfied]) / (count - satisfied) as u64 }
    }

    /// The number of streams, at least one, that would want as much together as all streams do, if
    /// each wanted `want`. No stream is counted for more than `want`.
    pub(crate) fn like(&self, want: u64) -> u64 {
        let at = self.first(|at| self.wants[at] >= want);
        if self.wants.is_empty() { 1 } else { self.up_to(at, want).div_ceil(want.max(1)).max(1) }
    }

    /// The sum of the wants, none counted for more than `most`, which the first `at` do not
    /// exceed.
    fn up_to(&self, at: usize, most: u64) -> u64 {
        self.below[at].saturating_add(most.saturating_mul((self.wants.len() - at) as u64))
    }

    /// The first index at which `over` holds; it holds from there on.
    fn first(&self, over: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.wants.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            (low, high) = if over(middle) { (low, middle) } else { (middle + 1, high) };
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(wants: &[u64]) -> Shares {
        let mut shares = Shares::default();
        shares.set(wants.iter().copied());
        shares
    }

    #[test]
    fn a_small_want_is_met_and_the_others_share_the_rest() {
        let shares = shares(&[100, 2, 50, 4]);
        assert_eq!(shares.level(46), 20);
        assert_eq!(shares.level(8), 2);
        assert_eq!(shares.level(1000), 1000, "no stream is limited where there is room for all");
    }

    #[test]
    fn shares_add_up_to_the_room() {
        for room in 1..400 {
            let wants = [3, 90, 17, 17, 200, 1];
            let level = shares(&wants).level(room);
            let given: u64 = wants.iter().map(|w| level.min(*w)).sum();
            assert!(given <= room, "{room}: {given}");
            assert!(given + wants.len() as u64 > room.min(328), "{room}: {given}");
        }
    }

    #[test]
    fn a_stream_that_has_read_less_has_a_larger_share() {
        let mut round = Round::default();
        for _ in 0..2 {
            round.observe([100, 300].into_iter());
        }
        assert_eq!((round.share(1000, 100), round.share(1000, 300)), (1100, 900));
        assert_eq!((round.share(80, 100), round.share(80, 300)), (100, 60), "a small share by a quarter");
        let mut far = Round::default();
        for _ in 0..2 {
            far.observe([1_000, 5_000].into_iter());
        }
        assert_eq!((far.share(2_048, 1_000), far.share(2_048, 5_000)), (3_072, 1_024), "a large share by a half");
        round.observe([100, 300, 0].into_iter());
        assert_eq!(round.share(1000, 100), 1000, "another contender begins another round");
        round.observe([800, 800, 800].into_iter());
        round.observe([900, 900, 40].into_iter());
        assert_eq!(round.share(1000, 900), 1000, "one that has stopped lowers no other's share");
        assert_eq!(round.share(1000, 40), 1250, "and has the largest one itself if it goes on");
    }

    #[test]
    fn streams_are_counted_by_their_wants() {
        assert_eq!(shares(&[100; 16]).like(100), 16);
        assert_eq!(shares(&[1, 1, 1, 1, 100]).like(100), 2);
        assert_eq!(shares(&[1, 100, 100]).like(1), 3);
        assert_eq!(shares(&[]).like(7), 1);
    }
}
