//! How far each stream may go where all together want to go further than there is room for: max-min fair shares.
//!
//! ```text
//!   wants   ##  ####  ##########  ############      what is wanted, least first
//!   level ------------######------######------      the same for all who want more than it
//!           ##  ####  ######      ######            what each may have: together all the room
//! ```
//!
//! Nobody gets more than it wants, and nobody gets less than another unless it wants less. In proportion to what each wants
//! would be another rule, but what a stream wants grows with what it has been given: the first of sixteen readers then
//! stays ahead of the last for good. Origin: max-min fairness, as in the allocation of bandwidth to flows.

use alloc::vec::Vec;

/// What those who share alike have read since their number last changed: whoever has read less than the others has its share
/// raised, and the other way round, by up to a half. Equal shares alone leave to chance who is ahead, and chances add up.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Counts up whenever the number of contenders changes.
    pub(crate) number: u64,
    contenders: u64,
    mean: u64,
}

impl Round {
    /// Takes what each contender has read in this round.
    pub(crate) fn observe(&mut self, read: impl Iterator<Item = u64>) {
        let (count, sum) = read.fold((0, 0), |(count, sum), read| (count + 1, sum + read));
        if count == self.contenders {
            self.mean = sum / count.max(1);
        } else {
            *self = Self { number: self.number + 1, contenders: count, mean: 0 };
        }
    }

    /// The share of one that has read `read` pages in this round, where `level` is that of all.
    pub(crate) fn share(&self, level: u64, read: u64) -> u64 {
        let most = if level >= ROOMY_PAGES { level / ADJUSTMENT } else { level / ADJUSTMENT_TIGHT };
        if self.mean == 0 {
            level
        } else {
            level + self.mean.saturating_sub(read).min(most) - read.saturating_sub(self.mean).min(most)
        }
    }
}

/// The part of a share by which it may be raised or lowered: a half. With a quarter the slowest of sixteen on a link that is full has
/// .89 of what the fastest has, with a half .99; with all of it no more.
const ADJUSTMENT: u64 = 2;

/// The same where a share is a few folios: a quarter. Half of so little is less than a reader comes to before the next request is
/// answered (of two hundred streams on a disk 809 reads would be late).
const ADJUSTMENT_TIGHT: u64 = 4;

/// A share that holds several of the parts that many streams have: 4 MiB.
const ROOMY_PAGES: u64 = 1024;

/// What the streams that share a room want, as of some moment.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// The least first.
    wants: Vec<u64>,
    /// `below[i]` is the sum of the first `i` wants.
    below: Vec<u64>,
}

impl Shares {
    /// Replaces what is wanted.
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

    /// The most that one may have of `room`; what wants less has all that it wants.
    pub(crate) fn level(&self, room: u64) -> u64 {
        let count = self.wants.len();
        let satisfied = self.first(|at| self.up_to(at, self.wants[at]) > room);
        if satisfied == count { room } else { (room - self.below[satisfied]) / (count - satisfied) as u64 }
    }

    /// How many streams wanting `want` would want as much as all together, none counted for more than that: at least one.
    pub(crate) fn like(&self, want: u64) -> u64 {
        let at = self.first(|at| self.wants[at] >= want);
        if self.wants.is_empty() { 1 } else { self.up_to(at, want).div_ceil(want.max(1)).max(1) }
    }

    /// What is wanted if nobody wants more than `most`, which the first `at` do not.
    fn up_to(&self, at: usize, most: u64) -> u64 {
        self.below[at].saturating_add(most.saturating_mul((self.wants.len() - at) as u64))
    }

    /// The first place where `over` holds, which does from there on.
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
    fn who_wants_little_has_it_and_the_others_share_the_rest() {
        let shares = shares(&[100, 2, 50, 4]);
        assert_eq!(shares.level(46), 20);
        assert_eq!(shares.level(8), 2);
        assert_eq!(shares.level(1000), 1000, "nobody is held back where there is room for all");
    }

    #[test]
    fn all_the_room_is_shared_and_no_more() {
        for room in 1..400 {
            let wants = [3, 90, 17, 17, 200, 1];
            let level = shares(&wants).level(room);
            let given: u64 = wants.iter().map(|w| level.min(*w)).sum();
            assert!(given <= room, "{room}: {given}");
            assert!(given + wants.len() as u64 > room.min(328), "{room}: {given}");
        }
    }

    #[test]
    fn who_has_read_less_than_the_others_may_go_further() {
        let mut round = Round::default();
        for _ in 0..2 {
            round.observe([100, 300].into_iter());
        }
        assert_eq!((round.share(1000, 100), round.share(1000, 300)), (1100, 900));
        assert_eq!((round.share(80, 100), round.share(80, 300)), (100, 60), "by a quarter of so little");
        let mut far = Round::default();
        for _ in 0..2 {
            far.observe([1_000, 5_000].into_iter());
        }
        assert_eq!((far.share(2_048, 1_000), far.share(2_048, 5_000)), (3_072, 1_024), "by a half where there is room");
        round.observe([100, 300, 0].into_iter());
        assert_eq!(round.share(1000, 100), 1000, "another contender begins another round");
    }

    #[test]
    fn likes_are_counted_by_what_they_want() {
        assert_eq!(shares(&[100; 16]).like(100), 16);
        assert_eq!(shares(&[1, 1, 1, 1, 100]).like(100), 2);
        assert_eq!(shares(&[1, 100, 100]).like(1), 3);
        assert_eq!(shares(&[]).like(7), 1);
    }
}
