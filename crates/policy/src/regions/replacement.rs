//! Replacement: which page of a region is evicted first.
//!
//! Touches of mapped pages are not seen. How soon an evicted page is wanted again is seen, and is
//! enough to compare two kinds of pages:
//!
//! ```text
//!   arrives ──> Passing ── more than a 64th of the budget ──> leaves     while settled pages win
//!                  └────── is the oldest ──> Settled ── the oldest ──> leaves  while passing do
//! ```
//!
//! - In a *loop* over more pages than there is memory for, the page just used is used last again.
//!   Settled pages stay and the rest passes. Only the pages that there is no room for are missed,
//!   the least possible.
//! - *After a change* of what is used, settled pages do not return, and leave from then on.
//! - *At random*, the order does not change how many touches miss, but which threads they delay: a
//!   thread with settled pages would miss none, and another all. So the page that has been there
//!   longest leaves.
//!
//! A *race* tells these apart: 32 pages of each kind leave at the same time.
//!
//! ```text
//!   waits ──(1,024 pages left since the last began)──> on ──┬─ half of one kind is back: it wins
//!     ^                                                     ├─ four of both kinds are back: a tie
//!     │                                                     └─ it takes eight times the mean time
//!     └───────────────────────── ends <──────────────────────  away: the kind with more back wins
//! ```
//!
//! A kind that wins stays. Settled pages leave after two won races of passing pages in a row, or
//! after a tie. Races compare pages that left together, since times of return cannot be compared:
//! in a loop no page returns for long, and then all do. A page that returns sixteen times sooner
//! than passing pages do in the mean becomes settled at once.
//!
//! *Invariants:* a page that is being cleaned or read is not chosen. The work for a page is O(1),
//! but for busy pages skipped.
//!
//! This file does not decide when pages are evicted or cleaned (`path/cleaning`). It serves the
//! blocks of a view as well. Source: docs/decisions/0032, points 1, 2 and 8; 0038, point 4; 0039
//! for views.

use crate::regions::page::{Flag, List, Pages, Place};

/// A race between the pages of both kinds that left at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Race {
    /// When it begins, in pages that left.
    begun: u32,
    /// Pages that were chosen for it against the present order.
    tried: u32,
    /// For each [`Kind`], the pages that left for it, and those that are back.
    left: [u32; 2],
    back: [u32; 2],
}

/// The order of eviction.
#[derive(Debug)]
pub(crate) struct Eviction {
    race: Race,
    /// Settled pages leave first.
    settled_go: bool,
    /// Passing pages won the last race that was decided.
    passed_won: bool,
    /// Pages that left so far. It is the clock of this file.
    left: u32,
    /// How long passing pages are away until they return, in pages that left: a mean of the last
    /// ones.
    away: u64,
}

/// The kind of a page when it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    Settled,
}

impl Kind {
    fn of(was_settled: bool) -> Self {
        if was_settled { Self::Settled } else { Self::Passed }
    }
}

impl Eviction {
    pub(crate) fn new() -> Self {
        Self { race: Race::default(), settled_go: false, passed_won: false, left: 0, away: 0 }
    }

    /// A page has arrived. It is settled while more than a 32nd of the budget is free.
    pub(crate) fn arrived(&mut self, pages: &mut Pages, page: u64, budget: u64) {
        let settled = self.returned(pages, page, budget) || pages.held() < budget - budget / SPARE_PART;
        pages.put(page, if settled { List::Settled } else { List::Passing });
    }

    /// The page is known to be in use.
    pub(crate) fn settle(pages: &mut Pages, page: u64) {
        pages.put(page, List::Settled);
    }

    /// A page returns. Returns whether it becomes settled.
    fn returned(&mut self, pages: &mut Pages, page: u64, budget: u64) -> bool {
        if !pages.take(page, Flag::Left) {
            return false;
        }
        let left = pages.left(page);
        let away = u64::from(self.left.wrapping_sub(left));
        let kind = Kind::of(pages.take(page, Flag::Settled));
        let left_for_it = self.is_on() && away <= u64::from(self.left.wrapping_sub(self.race.begun));
        if pages.take(page, Flag::Races) && left_for_it {
            self.race.back[kind as usize] += 1;
            if self.race.back.iter().all(|&back| back >= TIE_PAGES) {
                self.settled_go = true;
                self.end(None);
            } else if self.race.back[kind as usize] == RUN_PAGES / 2 {
                self.end(Some(kind == Kind::Passed));
            }
        }
        if kind == Kind::Settled {
            // Not if passing pages would have no room left: settled pages would have to leave for
            // them.
            return !self.settled_go && pages.on(List::Passing) > passing(budget);
        }
        let soon = away * SOONER < self.away;
        self.away = if self.away == 0 { away } else { self.away - self.away / MEAN_PAGES + away / MEAN_PAGES };
        soon
    }

    /// The race is over; passing pages may have won it. The next one begins [`RACE_EVERY`]
    /// departures after this one began. Settled pages leave only after two lost races: where a
    /// loop comes to pages that were missing, one race goes the wrong way.
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

    /// A page has left. [`Eviction::next`] has recorded its kind.
    pub(crate) fn evicted(&mut self, pages: &mut Pages, page: u64) {
        self.left = self.left.wrapping_add(1);
        pages.set_left(page, self.left);
        pages.set(page, Flag::Left, true);
        let kind = Kind::of(pages.has(page, Flag::Settled)) as usize;
        let races = self.is_on() && self.race.left[kind] < RUN_PAGES;
        self.race.left[kind] += u32::from(races);
        pages.set(page, Flag::Races, races);
    }

    /// The contents of a page that is away are given up: it will not return.
    pub(crate) fn forget(pages: &mut Pages, page: u64) {
        for flag in [Flag::Left, Flag::Settled, Flag::Races] {
            pages.set(page, flag, false);
        }
    }

    /// Takes the page that leaves next off its list; `None` if none can leave.
    pub(crate) fn next(&mut self, pages: &mut Pages, budget: u64) -> Option<u64> {
        let long = (self.away * RACE_AWAY_TIMES).clamp(u64::from(RACE_EVERY), 2 * budget.max(u64::from(RACE_EVERY)));
        if self.is_on() && u64::from(self.left.wrapping_sub(self.race.begun)) > long {
            let [passed, settled] = self.race.back;
            self.end((passed != settled).then_some(passed > settled));
        }
        let for_race = self.is_on() && self.race.tried < RUN_PAGES;
        self.race.tried += u32::from(for_race);
        let settled_leaves = self.settled_go != for_race;
        let passing_min = passing(budget);
        if settled_leaves {
            // Passing pages become settled, unless settled pages return to that room.
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
            for _ in 0..pages.on(list).min(BUSY_SKIPPED_MAX) {
                let page = pages.oldest(list)?;
                let busy = pages.has(page, Flag::Cleaning) || pages.place(page) == Place::Arriving;
                if !busy {
                    pages.set(page, Flag::Settled, list == List::Settled);
                    pages.unlist(page);
                    return Some(page);
                }
                pages.put(page, list);
            }
        }
        None
    }
}

/// The number of passing pages for a budget of `budget` pages.
pub(crate) fn passing(budget: u64) -> u64 {
    (budget / PASSING_PART).max(PASSING_MIN.min(budget / 4))
}

/// Passing pages are a 64th of the budget. Lower: a larger part passes, and is missed in every
/// loop. Higher: no room for pages that are read ahead. Source: docs/decisions/0032, point 1.
const PASSING_PART: u64 = 64;

/// Passing pages of a small budget, at least, unless that is more than a quarter of it. Lower:
/// pages read ahead, or those of threads in step, leave before they are used. Higher: less of a
/// small budget is settled. Source: a guess, not measured; docs/decisions/0039 has what 16 costs a
/// view.
const PASSING_MIN: u64 = 16;

/// While more than a 32nd of the budget is free, pages that arrive are settled. Lower: more must
/// be free, and pages pass by though there is room. Higher: the last pages to arrive before the
/// memory is full are settled as well. Source: a guess, not measured.
const SPARE_PART: u64 = 32;

/// A page that returns so many times sooner than the mean is settled. In a loop none does, at
/// random one in sixteen. Lower: so many pages of several streams are settled that settled pages
/// leave for them: with 4, mixed touches take 47 s in place of 45.8, with 800 MiB 109 in place of
/// 90. Higher: hot pages beside a scan are settled later. Source: docs/decisions/0032, point 8.
const SOONER: u64 = 16;

/// Returned pages that the mean time away is averaged over. Lower: single pages show. Higher: a
/// change of the load is followed later. Source: a guess, not measured.
const MEAN_PAGES: u64 = 64;

/// Pages of each kind that race. Lower: chance decides. Higher: more pages of the better kind
/// leave for the race. Source: docs/decisions/0032, point 2.
const RUN_PAGES: u32 = 32;

/// Pages of each kind that are back when a race is a tie. At random nearly every race is one: once
/// in five hundred half of one kind is back before. Lower: ties where one kind is better. Higher:
/// mixed touches with room for 500 MiB take 326 s (8) or 315 s (12) in place of 373, but with 875
/// MiB 63 or 59 in place of 53. Source: docs/decisions/0038, point 4.
const TIE_PAGES: u32 = 4;

/// Departures between the starts of two races, at least. Lower: too many pages leave for races
/// where all return at once. Higher: a change of the load is noticed later. Source: a guess, not
/// measured.
const RACE_EVERY: u32 = 1024;

/// A race ends after so many times the mean time away, at most twice the budget. Lower: races end
/// before their pages could return. Higher: a race of pages that are no longer wanted delays the
/// next one. Source: a guess, not measured.
const RACE_AWAY_TIMES: u64 = 8;

/// Busy pages, those that are being cleaned or read, that a search skips, at most. Lower: no page
/// is found though one could leave. Higher: a longer search where many pages are busy. Source: a
/// guess, not measured.
const BUSY_SKIPPED_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Touches pages one by one, with room for `budget`. Returns how many were away.
    fn misses(pages: &mut Pages, eviction: &mut Eviction, budget: u64, touches: impl Iterator<Item = u64>) -> u64 {
        let mut missed = 0;
        for page in touches {
            if pages.place(page) != Place::Away {
                continue;
            }
            missed += 1;
            if pages.held() == budget {
                let gone = eviction.next(pages, budget).unwrap();
                pages.set_place(gone, Place::Away);
                eviction.evicted(pages, gone);
            }
            pages.set_place(page, Place::Clean);
            eviction.arrived(pages, page, budget);
        }
        missed
    }

    #[test]
    fn a_loop_misses_little_more_than_the_pages_without_room() {
        let (mut pages, mut eviction) = (Pages::new(10_000), Eviction::new());
        for _ in 0..2 {
            misses(&mut pages, &mut eviction, 9_000, 0..10_000);
        }
        let missed = misses(&mut pages, &mut eviction, 9_000, 0..10_000);
        assert!((1_000..1_350).contains(&missed), "{missed}");
    }

    #[test]
    fn pages_no_longer_used_make_room_for_those_that_are() {
        let (mut pages, mut eviction) = (Pages::new(20_000), Eviction::new());
        for _ in 0..3 {
            misses(&mut pages, &mut eviction, 9_000, 0..10_000);
        }
        // Another 8,000 pages, for which there is room if all others leave.
        let mut rounds = 0;
        while misses(&mut pages, &mut eviction, 9_000, 12_000..20_000) > 0 {
            rounds += 1;
            assert!(rounds < 30, "settled pages never leave");
        }
    }

    #[test]
    fn a_scan_does_not_evict_pages_in_constant_use() {
        let (mut pages, mut eviction) = (Pages::new(100_000), Eviction::new());
        // From the second round on, one of a thousand hot pages is used after each page of a scan.
        // The scan is larger than the memory.
        let mut hot = 0;
        let mut missed = 0;
        for round in 0..6 {
            for page in 1_000..100_000 {
                hot = (hot + 617) % 1_000;
                if round > 0 {
                    let hot_missed = misses(&mut pages, &mut eviction, 9_000, core::iter::once(hot));
                    missed += if round > 1 { hot_missed } else { 0 };
                }
                misses(&mut pages, &mut eviction, 9_000, core::iter::once(page));
            }
        }
        assert!(missed < 4_000, "{missed} of 396,000");
    }

    #[test]
    fn at_random_no_order_is_worse_than_another() {
        let (mut pages, mut eviction) = (Pages::new(10_000), Eviction::new());
        let mut state = 1_u64;
        let mut random = core::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % 10_000
        });
        misses(&mut pages, &mut eviction, 9_000, random.by_ref().take(100_000));
        let missed = misses(&mut pages, &mut eviction, 9_000, random.take(50_000));
        assert!((4_750..5_250).contains(&missed), "{missed}");
    }
}
