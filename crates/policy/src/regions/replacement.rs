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
//! - *Something else than before*: what is settled is not wanted any more, does not return, and is what leaves from then on.
//! - *At random* it makes no difference to how many are missed, but to who misses them: a thread whose pages are settled would miss none, and
//!   another all. So what has been there longest leaves.
//!
//! Which of the two it is, a *race* tells: a run of pages of each kind leaves at the same time, and the kind of which half is back first is
//! the one that stays from then on; where some of both are back it is neither. Times at which pages return cannot be compared otherwise: in a loop no page returns for long, and then all
//! do. A race that takes much longer than pages are away that pass is void. A page that comes back sixteen times sooner than such pages do is settled
//! at once.

use crate::regions::page::{Flag, List, Pages, Place};

/// Two runs of pages that left at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Race {
    /// When it began, in pages that left.
    begun: u32,
    /// Pages that were chosen to leave only for it.
    tried: u32,
    /// Of each kind, the pages that left for it, and those that came back.
    left: [u32; 2],
    back: [u32; 2],
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Leaving {
    race: Race,
    /// What is settled leaves first.
    settled_go: bool,
    /// The last race was won by what passes.
    passed_won: bool,
    /// Pages that left so far: the clock.
    left: u32,
    /// For how long pages that pass are away, of those that came back: a mean of the last ones.
    away: u64,
}

/// Which kind a page is: the place of its counts.
const PASSED: usize = 0;
const SETTLED: usize = 1;

impl Leaving {
    pub(crate) fn new() -> Self {
        Self { race: Race::default(), settled_go: false, passed_won: false, left: 0, away: 0 }
    }

    /// A page has come, in a place of its own: while there is room to spare it is settled.
    pub(crate) fn came(&mut self, pages: &mut Pages, page: u64, budget: u64) {
        let settled = self.returned(pages, page, budget) || pages.held() < budget - budget / SPARE;
        pages.put(page, if settled { List::Settled } else { List::Passing });
    }

    /// It is known to be in use: it is settled.
    pub(crate) fn used(pages: &mut Pages, page: u64) {
        pages.put(page, List::Settled);
    }

    /// A page comes back. Whether it is to be settled.
    fn returned(&mut self, pages: &mut Pages, page: u64, budget: u64) -> bool {
        if !pages.take(page, Flag::LEFT) {
            return false;
        }
        let left = pages.left(page);
        let away = u64::from(self.left.wrapping_sub(left));
        let kind = usize::from(pages.take(page, Flag::SETTLED));
        let left_for_it = self.is_on() && away <= u64::from(self.left.wrapping_sub(self.race.begun));
        if pages.take(page, Flag::RACES) && left_for_it {
            self.race.back[kind] += 1;
            if self.race.back.iter().all(|&back| back >= TIE) {
                self.settled_go = true;
                self.end(None);
            } else if self.race.back[kind] == RUN / 2 {
                self.end(Some(kind == PASSED));
            }
        }
        if kind == SETTLED {
            // Never so many that those who pass have no room left: then what is settled would have to go for them.
            return !self.settled_go && pages.on(List::Passing) > passing(budget);
        }
        let soon = away * SOON < self.away;
        self.away = if self.away == 0 { away } else { self.away - self.away / AWAY_OF + away / AWAY_OF };
        soon
    }

    /// The race is over, and may have been won by what passes; the next one begins when the one before began long enough ago. What is settled
    /// goes when it has lost twice: where a loop comes to pages that were missing, one race goes the wrong way.
    fn end(&mut self, passed_won: Option<bool>) {
        if let Some(won) = passed_won {
            self.settled_go = won && self.passed_won;
            self.passed_won = won;
        }
        let next = self.race.begun.wrapping_add(RACE_EVERY);
        let begun = if self.left.wrapping_sub(self.race.begun) < RACE_EVERY { next } else { self.left.wrapping_add(1) };
        self.race = Race { begun, ..Race::default() };
    }

    /// Whether the race has begun.
    fn is_on(&self) -> bool {
        self.left.wrapping_sub(self.race.begun) < u32::MAX / 2
    }

    /// A page has left. Which kind it was is as [`Leaving::next`] has left it in its record.
    pub(crate) fn gone(&mut self, pages: &mut Pages, page: u64) {
        self.left = self.left.wrapping_add(1);
        pages.set_left(page, self.left);
        pages.set(page, Flag::LEFT, true);
        let kind = usize::from(pages.has(page, Flag::SETTLED));
        let races = self.is_on() && self.race.left[kind] < RUN;
        self.race.left[kind] += u32::from(races);
        pages.set(page, Flag::RACES, races);
    }

    /// A page that was away will not come back: its contents are given up.
    pub(crate) fn forget(pages: &mut Pages, page: u64) {
        for flag in [Flag::LEFT, Flag::SETTLED, Flag::RACES] {
            pages.set(page, flag, false);
        }
    }

    /// Takes the page that leaves next off its list; `None` where none can.
    pub(crate) fn next(&mut self, pages: &mut Pages, budget: u64) -> Option<u64> {
        let long = (self.away * VOID_AFTER).clamp(u64::from(RACE_EVERY), 2 * budget.max(u64::from(RACE_EVERY)));
        if self.is_on() && u64::from(self.left.wrapping_sub(self.race.begun)) > long {
            let [passed, settled] = self.race.back;
            self.end((passed != settled).then_some(passed > settled));
        }
        let for_race = self.is_on() && self.race.tried < RUN;
        self.race.tried += u32::from(for_race);
        let settled_leaves = self.settled_go != for_race;
        let passing_min = passing(budget);
        if settled_leaves {
            // Room among the settled is for those that have passed, unless what is settled returns to it.
            let passing_max = if self.settled_go { passing_min } else { 2 * passing_min };
            while pages.on(List::Passing) > passing_max
                && let Some(oldest) = pages.oldest(List::Passing)
            {
                pages.put(oldest, List::Settled);
            }
        }
        let passing_leaves = !settled_leaves && (self.settled_go || pages.on(List::Passing) > passing_min / 2);
        let lists = if passing_leaves { [List::Passing, List::Settled] } else { [List::Settled, List::Passing] };
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

/// A page that returns so many times sooner than the mean is settled. In a loop none does; at random every
/// sixteenth. With four times, so much is settled of what several threads go through that what was settled goes for it.
const SOON: u64 = 16;

/// The mean is that of about so many pages.
const AWAY_OF: u64 = 64;

/// Pages of each kind that race. Fewer, and chance decides; more, and more of the better kind leave for it.
const RUN: u32 = 32;

/// A race in which so many of each kind are back shows no difference. At random nearly each one does: once in five hundred half of one kind is back
/// before.
const TIE: u32 = 4;

/// A race begins so many departures after the one before at the earliest. Sooner, and too many leave for races where all return at once.
const RACE_EVERY: u32 = 1024;

/// A race is void after so many times the mean: what has come since then is not what raced.
const VOID_AFTER: u64 = 8;

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
    fn a_scan_does_not_drive_out_what_is_used_all_the_time() {
        let (mut pages, mut leaving) = (Pages::new(100_000), Leaving::new());
        // A thousand pages of which one is used after each page of a scan that never comes back within memory; from the second round on.
        let mut hot = 0;
        let mut missed = 0;
        for round in 0..6 {
            for page in 1_000..100_000 {
                hot = (hot + 617) % 1_000;
                if round > 0 {
                    let hot_missed = misses(&mut pages, &mut leaving, 9_000, core::iter::once(hot));
                    missed += if round > 1 { hot_missed } else { 0 };
                }
                misses(&mut pages, &mut leaving, 9_000, core::iter::once(page));
            }
        }
        assert!(missed < 4_000, "{missed} of 396,000");
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
