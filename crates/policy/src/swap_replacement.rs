//! Which page of a region leaves memory first.
//!
//! Nobody tells which mapped pages are used. What can be seen is how soon a page that left is wanted again, and that is enough to compare two
//! kinds of pages:
//!
//! ```text
//!   comes ──> Passing ── more than a 64th of memory ──> leaves               while what was settled returns sooner
//!                └─────── grows old here ──> Settled ── oldest first ──> leaves       while what has just come returns sooner
//! ```
//!
//! - A *loop* over more than there is memory for: what has just been used is used last again. What is settled stays, the rest passes by, and
//!   as few pages are missed as can be: those that there is no room for.
//! - *Something else than before*: what is settled is not wanted any more, returns less often, and is what leaves from then on.
//! - *At random* it makes no difference.
//!
//! Of each kind, the *rate of return* is how many of those away came back, divided by how many were away and for how long; time is counted in
//! pages that left. Now and then a run of pages of the other kind leaves, so that both are known. A page that comes back four
//! times sooner than such pages do is settled at once.

use crate::swap_page::{Flag, List, Pages, Place};

/// How often pages of one kind came back.
#[derive(Debug, Clone, Copy, Default)]
struct Returns {
    /// Pages of this kind that are away.
    away: u64,
    /// Those who came back.
    came: u64,
    /// The sum of `away` over the time.
    exposure: u64,
}

impl Returns {
    /// Whether pages of this kind come back at less than three quarters of the other's rate, also if a few more had.
    fn rarer_than(self, other: Self) -> bool {
        let (own, others) = (u128::from(self.came + DOUBT), u128::from(other.came));
        own * u128::from(other.exposure) * 4 < others * u128::from(self.exposure) * 3
    }

    /// How long a page is away, if that is known.
    fn mean(self) -> Option<u64> {
        self.exposure.checked_div(self.came).filter(|_| self.came >= DOUBT)
    }
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Leaving {
    passing: Returns,
    settled: Returns,
    /// Pages that left so far: the clock.
    left: u32,
    /// Pages that were chosen so far.
    chosen: u64,
    /// When the counts are halved next, in pages that left.
    halve: u32,
}

impl Leaving {
    pub(crate) fn new() -> Self {
        let none = Returns::default();
        Self { passing: none, settled: none, left: 0, chosen: 0, halve: HALVED_EVERY }
    }

    /// A page has come, in a place of its own: while there is room to spare it is settled.
    pub(crate) fn came(&mut self, pages: &mut Pages, page: u64, budget: u64) {
        // Never so many that those who pass have no room left: then what is settled would have to go for them.
        let soon = self.returned(pages, page) && pages.on(List::Passing) > passing(budget);
        let settled = soon || pages.held() < budget - budget / SPARE;
        pages.put(page, if settled { List::Settled } else { List::Passing });
    }

    /// It is known to be in use: it is settled.
    pub(crate) fn used(pages: &mut Pages, page: u64) {
        pages.put(page, List::Settled);
    }

    /// A page comes back. Whether it was away for a short time only.
    fn returned(&mut self, pages: &mut Pages, page: u64) -> bool {
        if !pages.take(page, Flag::LEFT) {
            return false;
        }
        let away = u64::from(self.left.wrapping_sub(pages.left(page)));
        let passing = self.passing.mean();
        let was_settled = pages.take(page, Flag::SETTLED);
        let kind = if was_settled { &mut self.settled } else { &mut self.passing };
        kind.away -= 1;
        kind.came += 1;
        let soon = if was_settled { 1 } else { SOON };
        passing.is_some_and(|mean| away * soon < mean)
    }

    /// A page has left. Whether it was settled is as [`Leaving::next`] has left it in its record.
    pub(crate) fn gone(&mut self, pages: &mut Pages, page: u64) {
        self.left = self.left.wrapping_add(1);
        pages.set_left(page, self.left);
        pages.set(page, Flag::LEFT, true);
        let kind = if pages.has(page, Flag::SETTLED) { &mut self.settled } else { &mut self.passing };
        kind.away += 1;
        for kind in [&mut self.settled, &mut self.passing] {
            kind.exposure += kind.away;
        }
        self.halve -= 1;
        if self.halve == 0 {
            self.halve = HALVED_EVERY;
            for kind in [&mut self.settled, &mut self.passing] {
                kind.came /= 2;
                kind.exposure /= 2;
            }
        }
    }

    /// A page that was away will not come back: its contents are given up.
    pub(crate) fn forget(&mut self, pages: &mut Pages, page: u64) {
        if pages.take(page, Flag::LEFT) {
            let was_settled = pages.take(page, Flag::SETTLED);
            let kind = if was_settled { &mut self.settled } else { &mut self.passing };
            kind.away -= 1;
        }
    }

    /// Takes the page that leaves next off its list; `None` where none can.
    pub(crate) fn next(&mut self, pages: &mut Pages, budget: u64) -> Option<u64> {
        let passing_min = passing(budget);
        let settled_go = self.settled.rarer_than(self.passing);
        let on_trial = self.chosen % TRIAL_EVERY >= TRIAL_EVERY - TRIAL;
        self.chosen += 1;
        if settled_go != on_trial {
            // Room among the settled is for those that have passed, unless what is settled returns to it.
            let passing_max = if settled_go { passing_min } else { 2 * passing_min };
            while pages.on(List::Passing) > passing_max
                && let Some(oldest) = pages.oldest(List::Passing)
            {
                pages.put(oldest, List::Settled);
            }
        }
        let passing_go = settled_go == on_trial && (settled_go || pages.on(List::Passing) > passing_min);
        let lists = if passing_go { [List::Passing, List::Settled] } else { [List::Settled, List::Passing] };
        for list in lists {
            for _ in 0..pages.on(list).min(PASSED_OVER) {
                let page = pages.oldest(list)?;
                let busy = pages.has(page, Flag::CLEANING) || pages.place(page) == Place::Arriving;
                if !busy {
                    pages.set(page, Flag::SETTLED, list == List::Settled);
                    pages.unlist(page);
                    return Some(page);
                }
                pages.put(page, list);
            }
        }
        None
    }
}

/// Pages that pass, of a budget of so many.
pub(crate) fn passing(budget: u64) -> u64 {
    (budget / PASSING).max(PASSING_LEAST.min(budget / 4))
}

/// One of so many pages passes. More would be missed in every loop; fewer leave no room for what is read ahead.
const PASSING: u64 = 64;
const PASSING_LEAST: u64 = 16;

/// While one of so many pages of the budget is free, what comes is settled.
const SPARE: u64 = 32;

/// A page that returns so many times sooner than the mean is settled. In a loop none does; at random every fourth.
const SOON: u64 = 4;

/// So many returns may be missing from what was seen of a kind. Fewer, and a few runs on trial decide.
const DOUBT: u64 = 8 * TRIAL;

/// Pages of the other kind that leave on trial, and of how many. A run, since what left in a run is read in one.
const TRIAL: u64 = 32;
const TRIAL_EVERY: u64 = 1024;

/// What was seen so many departures ago counts half.
const HALVED_EVERY: u32 = 1 << 14;

/// Pages that are just being cleaned are passed over, so many at most.
const PASSED_OVER: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches pages one by one, with room for `budget`: how many were not there.
    fn misses(pages: &mut Pages, leaving: &mut Leaving, budget: u64, touches: impl Iterator<Item = u64>) -> u64 {
        let mut missed = 0;
        for page in touches {
            if pages.place(page) != Place::Away {
                continue;
            }
            missed += 1;
            if pages.held() == budget {
                let gone = leaving.next(pages, budget).unwrap();
                pages.set_place(gone, Place::Away);
                leaving.gone(pages, gone);
            }
            pages.set_place(page, Place::Clean);
            leaving.came(pages, page, budget);
        }
        missed
    }

    #[test]
    fn a_loop_misses_little_more_than_there_is_no_room_for() {
        let (mut pages, mut leaving) = (Pages::new(10_000), Leaving::new());
        for _ in 0..2 {
            misses(&mut pages, &mut leaving, 9_000, 0..10_000);
        }
        let missed = misses(&mut pages, &mut leaving, 9_000, 0..10_000);
        assert!((1_000..1_350).contains(&missed), "{missed}");
    }

    #[test]
    fn what_is_not_wanted_any_more_makes_room_for_what_is() {
        let (mut pages, mut leaving) = (Pages::new(20_000), Leaving::new());
        for _ in 0..3 {
            misses(&mut pages, &mut leaving, 9_000, 0..10_000);
        }
        // Another 8,000, for which there is room if all else goes.
        let mut rounds = 0;
        while misses(&mut pages, &mut leaving, 9_000, 12_000..20_000) > 0 {
            rounds += 1;
            assert!(rounds < 30, "what is settled never leaves");
        }
    }

    #[test]
    fn at_random_no_order_is_worse_than_another() {
        let (mut pages, mut leaving) = (Pages::new(10_000), Leaving::new());
        let mut state = 1_u64;
        let mut random = core::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % 10_000
        });
        misses(&mut pages, &mut leaving, 9_000, random.by_ref().take(100_000));
        let missed = misses(&mut pages, &mut leaving, 9_000, random.take(50_000));
        assert!((4_750..5_250).contains(&missed), "{missed}");
    }
}
