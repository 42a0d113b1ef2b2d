//! Where names are in a listing whose storage keeps no order: a table of places.
//!
//! *Invariant:* of two entries with one name the first counts. An entry that is gone is not found.
//!
//! This file does not know whether a listing is in order (`listing`): there, bisection needs no
//! table.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::directories::listing::page::{Page, locate, name_at};

/// The places of names that are in no order.
#[derive(Debug, Default)]
pub(super) struct ByName {
    seeds: RandomState,
    pub(super) places: HashTable<u32>,
    /// The place after the last one that it knows.
    end: u32,
}

impl ByName {
    /// Knows no name before the one at `place`.
    pub(super) fn from(place: u32) -> Self {
        Self { end: place, ..Self::default() }
    }

    /// Adds the names of those `pages` that it does not know. Of two entries with one name the
    /// first counts.
    pub(super) fn add(&mut self, pages: &[Page]) {
        let seeds = &self.seeds;
        let known = pages.partition_point(|page| page.end() <= self.end);
        for page in &pages[known..] {
            for at in 0..page.records.len() {
                let name = page.name(at);
                let same = |&place: &u32| name_at(pages, place) == name;
                let entry =
                    self.places.entry(seeds.hash_one(name), same, |&place| seeds.hash_one(name_at(pages, place)));
                entry.or_insert(page.first + at as u32);
            }
        }
        self.end = pages.last().map_or(self.end, Page::end);
    }

    /// The entries before `place` are gone.
    pub(super) fn forget(&mut self, place: u32) {
        self.places.retain(|&mut at| at >= place);
    }

    pub(super) fn find<'a>(&self, name: &str, pages: &'a [Page]) -> Option<(&'a Page, usize)> {
        let place = self.places.find(self.seeds.hash_one(name), |&place| name_at(pages, place) == name)?;
        Some(locate(pages, *place))
    }
}
