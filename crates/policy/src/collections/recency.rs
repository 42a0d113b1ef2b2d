//! Numbers in the order of their last use, in two lists, each marked from its oldest on.
//!
//! ```text
//!   false   oldest <-> . <-> . <-> . <-> newest       a number is in one list at a time;
//!           |-- marked --|                            its neighbours lie at its place
//!   true    oldest <-> . <-> newest
//! ```
//!
//! *Invariants:* each number that was pushed and not removed is in one list, once. All that is
//! older than a marked number is marked.
//!
//! The lists do not know times. Source: the doubly linked list of every cache that evicts what was
//! used longest ago; by number instead of address, since the entries move.

use alloc::vec::Vec;

#[derive(Debug, Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

/// Two lists of numbers.
#[derive(Debug)]
pub(crate) struct Recency {
    /// By number.
    links: Vec<Link>,
    oldest: [u32; 2],
    newest: [u32; 2],
    /// The newest that is marked.
    marked: [u32; 2],
}

impl Default for Recency {
    fn default() -> Self {
        Self { links: Vec::new(), oldest: [NONE; 2], newest: [NONE; 2], marked: [NONE; 2] }
    }
}

impl Recency {
    /// `number`, which is in no list, becomes the newest of `list`.
    pub(crate) fn push(&mut self, list: bool, number: u32) {
        let places = self.links.len().max(number as usize + 1);
        self.links.resize(places, Link { older: NONE, newer: NONE });
        let older = self.newest[usize::from(list)];
        self.links[number as usize] = Link { older, newer: NONE };
        self.set_newer(list, older, number);
        self.newest[usize::from(list)] = number;
    }

    /// `number` leaves `list`, which it is in.
    pub(crate) fn remove(&mut self, list: bool, number: u32) {
        let Link { older, newer } = self.links[number as usize];
        self.set_newer(list, older, newer);
        if self.marked[usize::from(list)] == number {
            self.marked[usize::from(list)] = older;
        }
        match newer {
            NONE => self.newest[usize::from(list)] = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    fn set_newer(&mut self, list: bool, of: u32, newer: u32) {
        match of {
            NONE => self.oldest[usize::from(list)] = newer,
            of => self.links[of as usize].newer = newer,
        }
    }

    /// The oldest of `list` that is not marked.
    pub(crate) fn unmarked(&self, list: bool) -> Option<u32> {
        let next = match self.marked[usize::from(list)] {
            NONE => self.oldest[usize::from(list)],
            marked => self.links[marked as usize].newer,
        };
        Some(next).filter(|&number| number != NONE)
    }

    /// Marks the oldest of `list` that is not.
    pub(crate) fn mark(&mut self, list: bool) {
        if let Some(number) = self.unmarked(list) {
            self.marked[usize::from(list)] = number;
        }
    }

    /// The oldest of `list`.
    pub(crate) fn oldest(&self, list: bool) -> Option<u32> {
        Some(self.oldest[usize::from(list)]).filter(|&number| number != NONE)
    }

    /// Those of `list`, the newest first.
    pub(crate) fn newest_first(&self, list: bool) -> impl Iterator<Item = u32> {
        let some = |number: u32| Some(number).filter(|&number| number != NONE);
        core::iter::successors(some(self.newest[usize::from(list)]), move |&number| {
            some(self.links[number as usize].older)
        })
    }
}

/// The number that stands for the end of a list. Lower: a number could be that. Higher: not
/// possible. Source: the largest number; they are counted from 0.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lists_are_in_the_order_of_pushes(steps in proptest::collection::vec((any::<bool>(), 0..30_u32), 1..200)) {
            let mut recency = Recency::default();
            let mut model: [Vec<u32>; 2] = Default::default();
            let mut marked: Vec<u32> = Vec::new();
            for (list, number) in steps {
                if number >= 20 {
                    let expected = model[usize::from(list)].iter().copied().find(|other| !marked.contains(other));
                    prop_assert_eq!(recency.unmarked(list), expected);
                    recency.mark(list);
                    marked.extend(expected);
                    continue;
                }
                marked.retain(|&other| other != number);
                for (old, numbers) in [false, true].into_iter().zip(&mut model) {
                    if numbers.contains(&number) {
                        numbers.retain(|&other| other != number);
                        recency.remove(old, number);
                    }
                }
                if number % 5 != 0 {
                    recency.push(list, number);
                    model[usize::from(list)].push(number);
                }
                for (list, numbers) in [false, true].into_iter().zip(&model) {
                    let mut newest: Vec<u32> = recency.newest_first(list).collect();
                    newest.reverse();
                    prop_assert_eq!(&newest, numbers);
                    prop_assert_eq!(recency.oldest(list), numbers.first().copied());
                }
            }
        }
    }
}
