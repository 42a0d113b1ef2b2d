//! A map by request. Requests are numbered in the order in which they are made and most are over soon, so the latest lie side by side.
//!
//! ```text
//!   old    { 3, 17 }                     the few that are in flight for much longer than others
//!   recent | 80 | . | 82 | . | . | 85 |  from number 80 on: a place for each, empty where it is over
//! ```
//!
//! A balanced tree would do the same with two or three steps and an allocation now and then; a request takes a dozen look-ups.

use alloc::collections::{BTreeMap, VecDeque};

use crate::units::RequestId;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct RequestMap<V> {
    old: BTreeMap<RequestId, V>,
    /// The number of the first of `recent`, which is not empty.
    first: u64,
    recent: VecDeque<Option<V>>,
    /// How many of `recent` there are.
    used: usize,
}

impl<V> Default for RequestMap<V> {
    fn default() -> Self {
        Self { old: BTreeMap::new(), first: 0, recent: VecDeque::new(), used: 0 }
    }
}

impl<V> RequestMap<V> {
    /// How many there are.
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

    /// Puts in what comes after all that were ever put in.
    pub(crate) fn push(&mut self, id: RequestId, value: V) {
        while self.used > 0 && (id.0 - self.first) as usize > SPREAD * self.used + PLACES_MIN {
            self.let_go_of_first();
        }
        if self.used == 0 {
            (self.first, self.used) = (id.0, 0);
            self.recent.clear();
        }
        let places = (id.0 - self.first) as usize;
        debug_assert!(places >= self.recent.len(), "numbers grow");
        self.recent.resize_with(places, || None);
        self.recent.push_back(Some(value));
        self.used += 1;
    }

    /// Takes it out.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<V> {
        let Some(at) = self.place(id) else { return self.old.remove(&id) };
        let removed = self.recent.get_mut(at)?.take()?;
        self.used -= 1;
        self.close_up();
        Some(removed)
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (RequestId, &V)> {
        let recent = self.recent.iter().enumerate();
        let recent = recent.filter_map(|(at, value)| Some((RequestId(self.first + at as u64), value.as_ref()?)));
        self.old.iter().map(|(&id, value)| (id, value)).chain(recent)
    }

    /// Where in `recent` it would be.
    fn place(&self, id: RequestId) -> Option<usize> {
        id.0.checked_sub(self.first).map(|at| at as usize)
    }

    /// The first of the recent ones is one of the old.
    fn let_go_of_first(&mut self) {
        if let Some(value) = self.recent.pop_front().flatten() {
            self.old.insert(RequestId(self.first), value);
            self.used -= 1;
        }
        self.first += 1;
        self.close_up();
    }

    fn close_up(&mut self) {
        while let Some(None) = self.recent.front() {
            self.recent.pop_front();
            self.first += 1;
        }
    }
}

/// Places for each that is used, and besides: more, and what is gone through grows; fewer, and what is only somewhat slower than others is
/// kept in the tree.
const SPREAD: usize = 8;
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
                        // Now and then many are made elsewhere.
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
    fn one_that_stays_keeps_no_places_for_the_others() {
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
