//! Numbers in the order of their last use, in two lists, each marked from its oldest on.
//!
//! ```text
//!   list 0   oldest <-> . <-> . <-> . <-> newest       a number is in one list at a time;
//!            |-- marked --|                            its neighbours lie at its place
//!   list 1   oldest <-> . <-> newest
//! ```
//!
//! *Invariants:* each number that was pushed and not removed is in one list, once. All that is
//! older than a marked number is marked.
//!
//! The lists do not know times. Source: the doubly linked list of every cache that evicts what was
//! used longest ago; by number instead of address, since the entries move.

use alloc::vec::Vec;

/// The end of a list.
const NONE: u32 = u32::MAX;

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
    pub(crate) fn push(&mut self, list: usize, number: u32) {
        let places = self.links.len().max(number as usize + 1);
        self.links.resize(places, Link { older: NONE, newer: NONE });
        let older = self.newest[list];
        self.links[number as usize] = Link { older, newer: NONE };
        self.set_newer(list, older, number);
        self.newest[list] = number;
    }

    /// `number` leaves `list`, which it is in.
    pub(crate) fn remove(&mut self, list: usize, number: u32) {
        let Link { older, newer } = self.links[number as usize];
        self.set_newer(list, older, newer);
        if self.marked[list] == number {
            self.marked[list] = older;
        }
        match newer {
            NONE => self.newest[list] = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    fn set_newer(&mut self, list: usize, of: u32, newer: u32) {
        match of {
            NONE => self.oldest[list] = newer,
            of => self.links[of as usize].newer = newer,
        }
    }

    /// The oldest of `list` that is not marked.
    pub(crate) fn unmarked(&self, list: usize) -> Option<u32> {
        let next = match self.marked[list] {
            NONE => self.oldest[list],
            marked => self.links[marked as usize].newer,
        };
        Some(next).filter(|&number| number != NONE)
    }

    /// Marks the oldest of `list` that is not.
    pub(crate) fn mark(&mut self, list: usize) {
        if let Some(number) = self.unmarked(list) {
            self.marked[list] = number;
        }
    }

    /// The oldest of `list`.
    pub(crate) fn oldest(&self, list: usize) -> Option<u32> {
        Some(self.oldest[list]).filter(|&number| number != NONE)
    }

    /// Those of `list`, the newest first.
    pub(crate) fn newest_first(&self, list: usize) -> impl Iterator<Item = u32> {
        let some = |number: u32| Some(number).filter(|&number| number != NONE);
        core::iter::successors(some(self.newest[list]), move |&number| some(self.links[number as usize].older))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lists_are_in_the_order_of_pushes(steps in proptest::collection::vec((0..2_usize, 0..30_u32), 1..200)) {
            let mut recency = Recency::default();
            let mut model: [Vec<u32>; 2] = Default::default();
            let mut marked: Vec<u32> = Vec::new();
            for (list, number) in steps {
                if number >= 20 {
                    let expected = model[list].iter().copied().find(|other| !marked.contains(other));
                    prop_assert_eq!(recency.unmarked(list), expected);
                    recency.mark(list);
                    marked.extend(expected);
                    continue;
                }
                marked.retain(|&other| other != number);
                for (old, numbers) in model.iter_mut().enumerate() {
                    if numbers.contains(&number) {
                        numbers.retain(|&other| other != number);
                        recency.remove(old, number);
                    }
                }
                if number % 5 != 0 {
                    recency.push(list, number);
                    model[list].push(number);
                }
                for (list, numbers) in model.iter().enumerate() {
                    let mut newest: Vec<u32> = recency.newest_first(list).collect();
                    newest.reverse();
                    prop_assert_eq!(&newest, numbers);
                    prop_assert_eq!(recency.oldest(list), numbers.first().copied());
                }
            }
        }
    }
}
