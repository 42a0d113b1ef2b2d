//! Intervals of pages, and which of them a page lies in.
//!
//! ```text
//!   length < 4     [)   [)        [)              each class in the order of its starts
//!   length < 16         [------)      [-----)
//!   length < 64    [------------------------)
//!                             ^ page               looked for from page - 4, page - 16, page - 64
//! ```
//!
//! An interval that holds a page begins no farther before it than it is long. Intervals of about
//! the same length are in one order, so those that may hold a page are neighbours there.
//!
//! *Invariant:* `counts` says how many intervals each class has.
//!
//! What the intervals stand for is the caller's. Source: the classes of a segregated free list,
//! on the lengths of intervals; a tree that is balanced and knows its subtrees' ends does the same
//! with more code.

use alloc::collections::BTreeSet;

/// Intervals by number.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// Class, start, number.
    ordered: BTreeSet<(u8, u64, u32)>,
    counts: [u32; CLASSES as usize],
}

/// The class of an interval of `pages`.
fn class(pages: u64) -> u8 {
    let bits = (u64::BITS - pages.leading_zeros()) as u8;
    bits.div_ceil(CLASS_BITS).min(CLASSES - 1)
}

/// The longest interval of `class`.
fn longest(class: u8) -> u64 {
    if class == CLASSES - 1 { u64::MAX } else { (1 << (CLASS_BITS * class)) - 1 }
}

impl Intervals {
    /// Enters the interval `from..=to` under `number`.
    pub(crate) fn insert(&mut self, (from, to): (u64, u64), number: u32) {
        let class = class(to - from);
        if self.ordered.insert((class, from, number)) {
            self.counts[usize::from(class)] += 1;
        }
    }

    /// Removes the interval `from..=to` of `number`.
    pub(crate) fn remove(&mut self, (from, to): (u64, u64), number: u32) {
        let class = class(to - from);
        if self.ordered.remove(&(class, from, number)) {
            self.counts[usize::from(class)] -= 1;
        }
    }

    /// The numbers of all intervals that have a page of `from..=to`, and of some others nearby.
    pub(crate) fn near(&self, (from, to): (u64, u64)) -> impl Iterator<Item = u32> {
        let classes = (0..CLASSES).filter(|&class| self.counts[usize::from(class)] > 0);
        classes.flat_map(move |class| {
            let first = from.saturating_sub(longest(class));
            self.ordered.range((class, first, 0)..=(class, to, u32::MAX)).map(|&(_, _, number)| number)
        })
    }
}

/// Classes of lengths: the last one has all that are longer than 4 GiB. Lower: more intervals that
/// do not hold a page are looked at. Higher: more memory for each file. Source: chosen here; no
/// window is longer.
const CLASSES: u8 = 12;

/// Bits by which lengths of a class may differ. Lower: more classes to look through. Higher: more
/// intervals that do not hold a page are looked at. Source: chosen here; four times as long.
const CLASS_BITS: u8 = 2;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_interval_with_a_page_is_near_it(steps in proptest::collection::vec((any::<bool>(), 0..500_u64, 0..200_u64), 1..100)) {
            let mut intervals = Intervals::default();
            let mut all: Vec<(u32, (u64, u64))> = Vec::new();
            for (number, (removes, from, pages)) in (0_u32..).zip(steps) {
                if removes && !all.is_empty() {
                    let (number, gone) = all.swap_remove(from as usize % all.len());
                    intervals.remove(gone, number);
                } else {
                    all.push((number, (from, from + pages)));
                    intervals.insert((from, from + pages), number);
                }
                for page in (0..700).step_by(7) {
                    let near: Vec<u32> = intervals.near((page, page + 3)).collect();
                    for &(number, (from, to)) in &all {
                        prop_assert!(near.contains(&number) || page + 3 < from || to < page);
                    }
                    prop_assert!(near.iter().all(|number| all.iter().any(|(known, _)| known == number)));
                }
            }
            prop_assert_eq!(intervals.counts.iter().sum::<u32>() as usize, all.len());
        }
    }
}
