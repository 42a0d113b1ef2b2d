//! A map in parts: as it grows and shrinks, no more than one part is moved at a time.
//!
//! A map of a million entries that is moved as a whole takes a tenth of a second, under a lock
//! that readers wait for. And one that has held a million entries keeps room for them: this one
//! gives it back as they go.
//!
//! The file does not know what is kept.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

/// A map.
pub(crate) struct Parted<K, V> {
    seeds: RandomState,
    parts: Box<[Part<K, V>]>,
}

struct Part<K, V> {
    entries: HashMap<K, V>,
    /// The most entries that it has had since it was last shrunk. Its capacity does not tell: that
    /// becomes less as entries go.
    most: usize,
}

impl<K: Hash + Eq, V> Default for Parted<K, V> {
    fn default() -> Self {
        Self {
            seeds: RandomState::new(),
            parts: (0..PARTS).map(|_| Part { entries: HashMap::new(), most: 0 }).collect(),
        }
    }
}

impl<K: Hash + Eq, V> Parted<K, V> {
    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.seeds.hash_one(key) as usize % PARTS
    }

    pub(crate) fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.parts[self.part(key)].entries.get(key)
    }

    pub(crate) fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        self.parts[part].entries.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let part = self.part(&key);
        let Part { entries, most } = &mut self.parts[part];
        entries.insert(key, value);
        *most = entries.len().max(*most);
    }

    pub(crate) fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        let Part { entries, most } = &mut self.parts[part];
        let value = entries.remove(key)?;
        if *most > SHRINK_MIN && entries.len() < *most / SHRINK_AT {
            entries.shrink_to(entries.len() * 9 / 8);
            *most = entries.len();
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| &part.entries)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.parts.iter_mut().flat_map(|part| part.entries.values_mut())
    }

    /// Entries that there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.parts.iter().map(|part| part.entries.capacity()).sum()
    }
}

/// Parts of a map. Lower: more entries are moved at a time. Higher: more memory for a few entries.
const PARTS: usize = 64;

/// Entries that a part must have had before it shrinks. Lower: small parts are moved more often.
/// Higher: more memory stays when entries have gone.
const SHRINK_MIN: usize = 32;

/// Divisor of the most entries that a part has had: so many are left when it shrinks, a half.
/// Lower: it may have to grow again soon. Higher: more memory stays.
const SHRINK_AT: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_that_gives_room_back_as_entries_go() {
        let mut map = Parted::default();
        (0..100_000_u32).for_each(|n| map.insert(n, n + 1));
        assert!(map.room() >= 100_000);
        for n in (0..100_000).filter(|n| n % 1000 != 7) {
            assert_eq!((map.remove(&n), map.remove(&n)), (Some(n + 1), None));
        }
        for n in (7..100_000).step_by(1000) {
            assert_eq!((map.get(&n).copied(), map.get_mut(&n).copied()), (Some(n + 1), Some(n + 1)));
        }
        assert!(map.room() <= PARTS * SHRINK_MIN * 2, "room for {}", map.room());
    }
}
