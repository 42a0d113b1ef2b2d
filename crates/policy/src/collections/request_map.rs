//! A map by request. Requests are numbered in the order in which they are made, and most are over
//! soon, so the latest ones lie side by side.
//!
//! ```text
//!   old     { 3, 17 }                     a tree: the few that last much longer than others
//!   recent  | 80 | . | 82 | . | . | 85 |  from number 80 on: a place a number, empty once over
//!             ^ first                ^ push
//!
//!   push ──> recent ──(too many empty places)──> old
//!               └── remove ──> over <── remove ──┘
//! ```
//!
//! *Invariants:* numbers that are pushed grow. `recent` begins with a taken place or is empty. A
//! push leaves it at most [`SPREAD`] places an entry and [`PLACES_MIN`] more.
//!
//! The map does not number requests. Source: a profile of random reads: a request takes a dozen
//! look-ups, and a tree alone needs two or three steps for each, and an allocation now and then.

use alloc::collections::{BTreeMap, VecDeque};

use crate::units::RequestId;

/// A map from a request to a value, in the order in which the requests were made.
#[derive(Debug)]
pub(crate) struct RequestMap<V> {
    old: BTreeMap<RequestId, V>,
    /// The number of the first place of `recent`; that place is taken.
    first: u64,
    recent: VecDeque<Option<V>>,
    /// How many places of `recent` are taken.
    used: usize,
}

impl<V> Default for RequestMap<V> {
    fn default() -> Self {
        Self { old: BTreeMap::new(), first: 0, recent: VecDeque::new(), used: 0 }
    }
}

impl<V> RequestMap<V> {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.old.len() + self.used
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&V> {
        match self.place(id) {
            Some(at) => self.recent.get(at)?.as_ref(),
            None => self.old.get(&id),
        }
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut V> {
        match self.place(id) {
            Some(at) => self.recent.get_mut(at)?.as_mut(),
            None => self.old.get_mut(&id),
        }
    }

    /// Adds an entry. Its number is higher than that of every entry before it.
    pub(crate) fn push(&mut self, id: RequestId, value: V) {
        while self.used > 0 && (id.0 - self.first) as usize > SPREAD * self.used + PLACES_MIN {
            self.move_first_to_old();
        }
        if self.used == 0 {
            (self.first, self.used) = (id.0, 0);
            self.recent.clear();
        }
        let places = (id.0 - self.first) as usize;
        debug_assert!(places >= self.recent.len(), "request numbers grow");
        self.recent.resize_with(places, || None);
        self.recent.push_back(Some(value));
        self.used += 1;
    }

    /// Removes an entry and returns its value.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<V> {
        let Some(at) = self.place(id) else { return self.old.remove(&id) };
        let removed = self.recent.get_mut(at)?.take()?;
        self.used -= 1;
        self.drop_empty_front();
        Some(removed)
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (RequestId, &V)> {
        let recent = self.recent.iter().enumerate();
        let recent = recent.filter_map(|(at, value)| Some((RequestId(self.first + at as u64), value.as_ref()?)));
        self.old.iter().map(|(&id, value)| (id, value)).chain(recent)
    }

    /// The place in `recent` where an entry would be; `None` if it is older than those.
    fn place(&self, id: RequestId) -> Option<usize> {
        id.0.checked_sub(self.first).map(|at| at as usize)
    }

    /// Moves the first recent entry to the old ones.
    fn move_first_to_old(&mut self) {
        if let Some(value) = self.recent.pop_front().flatten() {
            self.old.insert(RequestId(self.first), value);
            self.used -= 1;
        }
        self.first += 1;
        self.drop_empty_front();
    }

    fn drop_empty_front(&mut self) {
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first += 1;
        }
    }
}

/// Places of `recent` for each entry. Lower: requests only somewhat slower than others move to the
/// tree. Higher: an iteration passes more empty places. Source: a guess, not measured.
const SPREAD: usize = 8;

/// Places of `recent` besides, however few entries there are. Lower: with a few entries, one slow
/// request soon moves to the tree. Higher: an iteration passes more empty places. Source: a guess,
/// not measured.
const PLACES_MIN: usize = 256;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_in_order(steps in proptest::collection::vec((0..4_u8, 0..1_000_u64), 1..600)) {
            let (mut map, mut model, mut next) = (RequestMap::default(), BTreeMap::new(), 0);
            for (at, (step, number)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        // Now and then numbers are skipped.
                        next += if number % 10 == 0 { number.max(1) } else { 1 };
                        map.push(RequestId(next), at);
                        model.insert(RequestId(next), at);
                    }
                    1 => {
                        let id = RequestId(next.saturating_sub(number % 40));
                        prop_assert_eq!(map.remove(id), model.remove(&id));
                    }
                    2 => {
                        let id = RequestId(next.saturating_sub(number));
                        prop_assert_eq!(map.remove(id), model.remove(&id));
                    }
                    _ => {
                        let id = RequestId(number);
                        prop_assert_eq!(map.get(id), model.get(&id));
                        prop_assert_eq!(map.get_mut(id).copied(), model.get(&id).copied());
                    }
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.recent.len() <= SPREAD * (map.used + 1) + PLACES_MIN + 1);
                let all: Vec<_> = map.iter().map(|(id, &value)| (id, value)).collect();
                prop_assert_eq!(&all, &model.iter().map(|(&id, &value)| (id, value)).collect::<Vec<_>>());
                let back: Vec<_> = map.iter().rev().map(|(id, _)| id).collect();
                prop_assert_eq!(back, model.keys().rev().copied().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn an_entry_that_stays_keeps_no_places_for_later_ones() {
        let mut map = RequestMap::default();
        for number in 0..100_000 {
            map.push(RequestId(number), number);
            if number > 0 {
                assert_eq!(map.remove(RequestId(number)), Some(number));
            }
        }
        assert!(map.recent.len() <= PLACES_MIN + SPREAD + 1, "{} places", map.recent.len());
        assert_eq!((map.len(), map.get(RequestId(0))), (1, Some(&0)));
    }
}
