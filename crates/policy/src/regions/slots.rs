//! Slots: where in the spill file a page lies.
//!
//! ```text
//!   region   . 7 . . 8 . . . . . 9 . .         pages that are evicted together, wherever
//!                \   |     ______/              they are in the region,
//!   file     |x x 7 8 9 . . x . . x . . . |    have slots side by side: one request writes them
//!                       ^ next
//! ```
//!
//! A page has a slot from the start of its cleaning until it is written to or given up. Slots are
//! given out in order, from `next` on: a free run that is long enough if there is one near,
//! otherwise the longest one near. `next` returns to the start after four times as many slots as
//! are in use. So used slots lie close together, and the slots behind `next` have been free for
//! long, in long runs.
//!
//! The driver may have room for fewer slots than there are pages: for those before a *limit*. The
//! limit rises at once, and falls as far as the slots behind it are free.
//!
//! *Invariants:* no two pages have one slot. A page gets no slot at or beyond the limit. Where
//! there are as many slots as pages, a page without a slot always finds one.
//!
//! This file does not choose pages, and knows no requests: the slot of a page that is being
//! written is not free. Source: docs/decisions/0038; the alternative, page n at place n of the
//! file, costs a request for each page where pages are evicted in no order.

use alloc::vec;
use alloc::vec::Vec;

use crate::units::Extent;

/// The slots of all pages.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The slot of each page; meaningless for a page that has none.
    of: Vec<u32>,
    /// A bit for each slot: whether it is taken.
    taken: Vec<u64>,
    /// Slots that are taken.
    used: u64,
    /// Where the search for a free run begins.
    next: u64,
    /// Slots that there is room for, from the first one on.
    limit: u64,
}

impl Slots {
    /// As many slots as `pages`, less than 2^32. No page has one.
    pub(crate) fn new(pages: u64) -> Self {
        let mut taken = vec![0; pages.div_ceil(64) as usize];
        if let Some(last) = taken.last_mut().filter(|_| !pages.is_multiple_of(64)) {
            // Bits beyond the last slot are never free.
            *last = u64::MAX << (pages % 64);
        }
        Self { of: vec![0; pages as usize], taken, used: 0, next: 0, limit: pages }
    }

    /// Slots that may be given out, or are taken, from the first one on.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Slots that are free.
    pub(crate) fn free_slots(&self) -> u64 {
        self.limit - self.used
    }

    /// There is room for `slots` slots from now on; for more, while one behind them is taken.
    ///
    /// Costs O(slots given up / 64).
    pub(crate) fn set_limit(&mut self, slots: u64) {
        let slots = slots.min(self.of.len() as u64);
        while self.limit > slots {
            // The bits of the slots from the word's start to before the limit.
            let word = (self.limit - 1) / 64;
            let taken = self.taken[word as usize] & (u64::MAX >> (63 - (self.limit - 1) % 64));
            if taken != 0 {
                self.limit = (word * 64 + 64 - u64::from(taken.leading_zeros())).max(slots);
                break;
            }
            self.limit = word * 64;
        }
        self.limit = self.limit.max(slots);
        if self.next >= self.limit {
            self.next = 0;
        }
    }

    /// The slot of a page that has one.
    pub(crate) fn of(&self, page: u64) -> u64 {
        u64::from(self.of[page as usize])
    }

    /// Gives the first of `pages`, in this order, slots side by side. Returns how many: as many as
    /// are free together, at least one.
    ///
    /// # Panics
    ///
    /// If `pages` is empty, or all slots are taken. The latter cannot happen while `pages` have no
    /// slots and the limit is not below the number of pages.
    pub(crate) fn take(&mut self, pages: &[u64]) -> usize {
        let run = self.find(pages.len() as u64);
        for (slot, &page) in (run.start..run.end).zip(pages) {
            self.of[page as usize] = slot as u32;
            self.taken[(slot / 64) as usize] |= 1 << (slot % 64);
        }
        self.used += run.pages();
        self.next = if run.end >= (self.used * SPAN_OF_USED).min(self.limit) { 0 } else { run.end };
        run.pages() as usize
    }

    /// The page gives up its slot.
    pub(crate) fn free(&mut self, page: u64) {
        let slot = self.of(page);
        self.taken[(slot / 64) as usize] &= !(1 << (slot % 64));
        self.used -= 1;
    }

    /// A free run of `wanted` slots, or the longest one among the slots searched.
    fn find(&self, wanted: u64) -> Extent {
        let slots = self.limit;
        assert!(wanted > 0 && self.used < slots, "{wanted} slots, where {} of {slots} are taken", self.used);
        let mut longest = Extent::new(0, 0);
        let (mut at, mut seen) = (self.next, 0);
        while seen < SEARCHED_SLOTS || longest.pages() == 0 {
            let start = self.first(at, slots, false);
            let end = self.first(start, slots.min(start + wanted), true);
            if end - start > longest.pages() {
                longest = Extent::new(start, end);
            }
            if longest.pages() == wanted {
                break;
            }
            seen += end - at;
            at = if end == slots { 0 } else { end };
        }
        longest
    }

    /// The first slot in `[from, to)` that is taken, or is free; `to` if there is none.
    fn first(&self, from: u64, to: u64, taken: bool) -> u64 {
        let mut at = from;
        while at < to {
            let word = self.taken[(at / 64) as usize];
            let sought = if taken { word } else { !word };
            let rest = sought >> (at % 64);
            if rest != 0 {
                return (at + u64::from(rest.trailing_zeros())).min(to);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }
}

/// Slots are given out from the start again after so many times the slots in use. Lower: less time
/// for slots to become free, and shorter runs. Higher: used slots lie farther apart, which costs a
/// disk positioning. Source: docs/decisions/0038.
const SPAN_OF_USED: u64 = 4;

/// Slots that are searched for a run that is long enough. Lower: more requests, of shorter runs.
/// Higher: a longer search for each request to clean pages, and runs farther away. Source: a
/// guess, not measured.
const SEARCHED_SLOTS: u64 = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_taken_together_lie_side_by_side() {
        let mut slots = Slots::new(1_000);
        assert_eq!(slots.take(&[900, 7, 31]), 3);
        assert_eq!([900, 7, 31].map(|page| slots.of(page)), [0, 1, 2]);
        slots.free(7);
        assert_eq!(slots.take(&[1, 2]), 2);
        assert_eq!([1, 2].map(|page| slots.of(page)), [3, 4]);
    }

    #[test]
    fn slots_in_use_lie_close_together() {
        let mut slots = Slots::new(100_000);
        let mut state = 1_u64;
        let mut pages: Vec<u64> = (0..100_000).collect();
        slots.take(&pages[..1_000]);
        let mut runs = 0;
        for _ in 0..1_000 {
            // 32 pages come back, at random, and 32 others leave.
            for nth in 0..32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let back = nth + (state >> 33) as usize % (1_000 - nth);
                pages.swap(nth, back);
                slots.free(pages[nth]);
                let other = 1_000 + (state >> 20) as usize % 99_000;
                pages.swap(nth, other);
            }
            let mut left = &pages[..32];
            while !left.is_empty() {
                left = &left[slots.take(left)..];
                runs += 1;
            }
        }
        let highest = pages[..1_000].iter().map(|&page| slots.of(page)).max().unwrap();
        assert!(highest < 4_000 + SEARCHED_SLOTS, "slot {highest} is in use, where 1,000 slots are");
        assert!(runs < 4_000, "{runs} runs for 1,000 times 32 pages");
    }

    #[test]
    fn a_limit_falls_to_the_last_slot_that_is_taken() {
        let mut slots = Slots::new(1_000);
        slots.set_limit(200);
        let pages: Vec<u64> = (500..700).collect();
        assert_eq!((slots.take(&pages), slots.free_slots()), (200, 0));
        (500..690).filter(|page| *page != 640).for_each(|page| slots.free(page));
        for (freed, limit) in [(0..0, 200), (690..699, 200), (699..700, 141), (640..641, 10)] {
            freed.for_each(|page| slots.free(page));
            slots.set_limit(10);
            assert_eq!(slots.limit(), limit);
        }
        slots.set_limit(5_000);
        assert_eq!((slots.limit(), slots.free_slots()), (1_000, 1_000));
    }

    proptest! {
        #[test]
        fn no_two_pages_have_one_slot(
            count in 1..200_u64,
            steps in prop::collection::vec((0..200_u64, 1..40_u64, prop::option::weighted(0.2, 0..220_u64)), 1..200),
        ) {
            let mut slots = Slots::new(count);
            let mut has = vec![false; count as usize];
            for (page, pages, limit) in steps {
                if let Some(limit) = limit {
                    slots.set_limit(limit);
                    let last = (0..count).filter(|&page| has[page as usize]).map(|page| slots.of(page) + 1).max();
                    let old_or_wanted = slots.limit() == limit.min(count).max(last.unwrap_or(0));
                    prop_assert!(old_or_wanted, "{} slots, {limit} wanted, {last:?} taken", slots.limit());
                }
                let page = page % count;
                if slots.free_slots() == 0 && !has[page as usize] {
                    continue;
                }
                if has[page as usize] {
                    slots.free(page);
                    has[page as usize] = false;
                    continue;
                }
                let wanted: Vec<u64> = (page..(page + pages).min(count)).filter(|&page| !has[page as usize]).collect();
                let took = slots.take(&wanted);
                prop_assert!((1..=wanted.len()).contains(&took));
                wanted[..took].iter().for_each(|&page| has[page as usize] = true);
                let used: Vec<u64> = (0..count).filter(|&page| has[page as usize]).map(|page| slots.of(page)).collect();
                let mut distinct = used.clone();
                distinct.sort_unstable();
                distinct.dedup();
                prop_assert_eq!(distinct.len(), used.len());
                prop_assert!(used.iter().all(|&slot| slot < slots.limit()));
                let side_by_side = wanted[..took].windows(2).all(|two| slots.of(two[0]) + 1 == slots.of(two[1]));
                prop_assert!(side_by_side);
            }
        }
    }
}
