//! Where the pages of a region lie in its spill file.
//!
//! ```text
//!   region   . 7 . . 8 . . . . . 9 ..          pages that leave together, wherever they are,
//!                \   |     ______/
//!   file     |x x 7 8 9 . . x . . x . . . . |  lie together: one request writes them
//!                       ^ next
//! ```
//!
//! A page has a slot from when it is to be written until it is written to again or given up. Slots are taken in order from where the last ones
//! were, a run that is long enough if there is one near, and from the start again after four times as many as are in use: what is in use lies
//! close together, and what lies before `next` has been free for long enough that free slots are many and side by side.
//!
//! That a page had a slot of its own was simpler, and cost a request for each page that leaves where pages leave in no order (decision 0038).

use alloc::vec;
use alloc::vec::Vec;

use crate::units::Extent;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Of each page; only of those that have one.
    of: Vec<u32>,
    /// A bit a slot: taken.
    taken: Vec<u64>,
    used: u64,
    next: u64,
}

impl Slots {
    /// As many slots as `pages`, less than 2^32, none of which has one.
    pub(crate) fn new(pages: u64) -> Self {
        let mut taken = vec![0; pages.div_ceil(64) as usize];
        if let Some(last) = taken.last_mut().filter(|_| !pages.is_multiple_of(64)) {
            // What is beyond the end is nobody's.
            *last = u64::MAX << (pages % 64);
        }
        Self { of: vec![0; pages as usize], taken, used: 0, next: 0 }
    }

    /// The slot of a page that has one.
    pub(crate) fn of(&self, page: u64) -> u64 {
        u64::from(self.of[page as usize])
    }

    /// Gives `pages`, in this order, slots side by side: as many of them as are free together, and at least one.
    ///
    /// # Panics
    ///
    /// Where there are no pages, or all slots are taken: a page that is to have one has none, so there are as many.
    pub(crate) fn take(&mut self, pages: &[u64]) -> usize {
        let run = self.find(pages.len() as u64);
        for (slot, &page) in (run.start..run.end).zip(pages) {
            self.of[page as usize] = slot as u32;
            self.taken[(slot / 64) as usize] |= 1 << (slot % 64);
        }
        self.used += run.pages();
        self.next = if run.end >= self.used * SPAN { 0 } else { run.end };
        run.pages() as usize
    }

    /// The slot of a page is free again.
    pub(crate) fn free(&mut self, page: u64) {
        let slot = self.of(page);
        self.taken[(slot / 64) as usize] &= !(1 << (slot % 64));
        self.used -= 1;
    }

    /// A free run of `wanted` slots, or the longest one near.
    fn find(&self, wanted: u64) -> Extent {
        let slots = self.of.len() as u64;
        assert!(wanted > 0 && self.used < slots, "{wanted} slots, where {} of {slots} are taken", self.used);
        let mut longest = Extent::new(0, 0);
        let (mut at, mut seen) = (self.next, 0);
        while seen < NEAR || longest.pages() == 0 {
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

    /// The first slot from `from` to before `to` that is taken or is not; `to` if there is none.
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

/// Slots go from the start again after so many times those in use.
const SPAN: u64 = 4;

/// A run that is long enough is looked for among so many slots.
const NEAR: u64 = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_leaves_together_lies_together() {
        let mut slots = Slots::new(1_000);
        assert_eq!(slots.take(&[900, 7, 31]), 3);
        assert_eq!([900, 7, 31].map(|page| slots.of(page)), [0, 1, 2]);
        slots.free(7);
        assert_eq!(slots.take(&[1, 2]), 2);
        assert_eq!([1, 2].map(|page| slots.of(page)), [3, 4]);
    }

    #[test]
    fn what_is_in_use_lies_close_together() {
        let mut slots = Slots::new(100_000);
        let mut state = 1_u64;
        let mut pages: Vec<u64> = (0..100_000).collect();
        slots.take(&pages[..1_000]);
        let mut runs = 0;
        for _ in 0..1_000 {
            // Thirty-two come back, whichever, and as many others leave.
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
        assert!(highest < 4_000 + NEAR, "slot {highest} is in use, and 1,000 are");
        assert!(runs < 4_000, "{runs} runs for 1,000 times 32 pages");
    }

    proptest! {
        #[test]
        fn no_two_pages_have_one_slot(count in 1..200_u64, steps in prop::collection::vec((0..200_u64, 1..40_u64), 1..200)) {
            let mut slots = Slots::new(count);
            let mut has = vec![false; count as usize];
            for (page, pages) in steps {
                let page = page % count;
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
                prop_assert!(used.iter().all(|&slot| slot < count));
                let side_by_side = wanted[..took].windows(2).all(|two| slots.of(two[0]) + 1 == slots.of(two[1]));
                prop_assert!(side_by_side);
            }
        }
    }
}
