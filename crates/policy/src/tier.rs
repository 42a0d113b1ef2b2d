//! A cache on a local disk: what is written to it, and which segment of it leaves when it is full.
//!
//! ```text
//!   offered ── room ──────────────────────────────────> admitted ── written ──> a segment
//!      │                                                   ^                      │ hit: value
//!      └─ full ── known, and its value so far is clearly ──┘                      │
//!            │    above the least mean of a segment           victim, leave: least mean value
//!            └─ else: remembered (ghost) <──────────────────────┤
//!                                                               └─ hit more than the mean:
//!                                                                  carried over, by credit
//! ```
//!
//! The *value* of a page is the number of its uses. A use is worth half after as many pages as the
//! cache holds have been used (hits and offers). What is compared is what a block was worth before
//! this offer. In a loop over more than the cache each kept page has been used as often as the
//! block that comes back, and not longer ago: nothing is rewritten, and the part that fits stays.
//!
//! That is all that can be had, in any order: each of N pages is read once a round, so what hits
//! was in the cache of C pages when the round began. That is C of N at most, for Belady's rule as
//! well, which knows the order.
//!
//! *Invariants:* a block that was not offered twice before, and never was in the cache, is not
//! admitted once it is full, so a scan evicts nothing. What is carried over is at most a sixteenth
//! of what was admitted. There is no state a block but ghosts, and these are bounded.
//!
//! The file does not know bytes, objects or files: a block is a number, and the driver keeps how
//! often each block was hit. `model` is a driver for tests and simulations. Source: ghosts, after
//! 2Q (Johnson and Shasha, VLDB 1994); values that decay, after LRFU (Lee et al., IEEE Trans.
//! Computers 2001); the units in which a log is cleaned, after LFS (Rosenblum and Ousterhout, SOSP
//! 1991).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::tier::decay::{USE, decayed, step};
use crate::tier::ghosts::Ghosts;

pub(crate) mod backlog;
mod decay;
mod ghosts;
pub(crate) mod model;
#[cfg(test)]
mod tests;
pub(crate) mod write_pace;

/// A block of up to 32 pages that leaves with its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierBlock {
    /// The number of the block: a hash of the object and of its place in it.
    pub block: u64,
    /// Which of its 32 pages are there, one bit for each.
    pub pages: u32,
    /// How often it was hit since it was written.
    pub hits: u32,
}

/// What has to make room for pages that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierRoom {
    /// Nothing.
    Free,
    /// A segment leaves the disk.
    Disk,
    /// A segment stays on the disk, and it is forgotten in memory what it holds.
    Memory,
}

/// The decisions of one cache on a disk.
#[derive(Debug)]
pub struct TierPath {
    capacity_pages: u64,
    used_pages: u64,
    segments: BTreeMap<u64, Segment>,
    ghosts: Ghosts,
    /// Pages that may be carried over, times [`CARRIED_OF`].
    credit: u64,
    credit_max: u64,
}

#[derive(Debug, Default)]
struct Segment {
    pages: u64,
    /// The values of its pages, as of `step`.
    value: u64,
    step: u64,
    is_sealed: bool,
    /// It is not in memory what it holds: nothing of it is hit.
    is_forgotten: bool,
}

impl Segment {
    fn value_at(&self, step: u64) -> u64 {
        decayed(self.value, step - self.step)
    }

    fn mean_at(&self, step: u64) -> u64 {
        self.value_at(step) / self.pages.max(1)
    }

    fn add(&mut self, step: u64, value: u64) {
        self.value = self.value_at(step).saturating_add(value);
        self.step = step;
    }
}

impl TierPath {
    /// For a cache of so many pages, in segments of `segment_pages`.
    pub fn new(capacity_pages: u64, segment_pages: u64) -> Self {
        Self {
            capacity_pages: capacity_pages.max(1),
            used_pages: 0,
            segments: BTreeMap::new(),
            ghosts: Ghosts::new(capacity_pages / BLOCK_PAGES),
            credit: 0,
            credit_max: segment_pages / 2 * CARRIED_OF,
        }
    }

    /// Pages of a block were read from the storage: `pages` has their bits. Whether to write them.
    pub fn offered(&mut self, block: u64, pages: u32, room: TierRoom) -> bool {
        self.used_pages += u64::from(pages.count_ones());
        let step = self.step();
        let before = self.ghosts.offered(block, pages, step);
        if room == TierRoom::Free {
            return true;
        }
        let may_go = |segment: &Segment| room == TierRoom::Disk || !segment.is_forgotten;
        let rivals = self.sealed().filter(|(_, segment)| may_go(segment));
        let least = rivals.map(|(_, segment)| segment.mean_at(step)).min();
        before.zip(least).is_some_and(|(before, least)| before * CLEARLY_OF > least * CLEARLY)
    }

    /// What a segment holds is no longer in memory.
    pub fn forgotten(&mut self, segment: u64) {
        self.set_forgotten(segment, true);
    }

    /// What a segment holds is in memory again.
    pub fn known_again(&mut self, segment: u64) {
        self.set_forgotten(segment, false);
    }

    fn set_forgotten(&mut self, segment: u64, is_forgotten: bool) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.is_forgotten = is_forgotten;
        }
    }

    /// Pages of a block were written to a segment.
    pub fn written(&mut self, segment: u64, block: u64, pages: u32, is_carried: bool) {
        let (step, count) = (self.step(), u64::from(pages.count_ones()));
        let value = self.ghosts.take(block, pages, step).unwrap_or(count * USE);
        if !is_carried {
            self.credit = (self.credit + count).min(self.credit_max);
        }
        let to = self.segments.entry(segment).or_default();
        to.pages += count;
        to.add(step, value);
    }

    /// A sealed segment was found, with so many pages. Each counts as used once.
    pub fn found(&mut self, segment: u64, pages: u64) {
        let step = self.step();
        self.segments
            .insert(segment, Segment { pages, value: pages * USE, step, is_sealed: true, is_forgotten: false });
    }

    /// Nothing more will be written to a segment: it may leave.
    pub fn sealed_segment(&mut self, segment: u64) {
        if let Some(sealed) = self.segments.get_mut(&segment) {
            sealed.is_sealed = true;
        }
    }

    /// So many pages were read from a segment.
    pub fn hit(&mut self, segment: u64, pages: u64) {
        self.used_pages += pages;
        let step = self.step();
        if let Some(hit) = self.segments.get_mut(&segment) {
            hit.add(step, pages * USE);
        }
    }

    /// Which segment leaves next: that of the least mean value, the oldest of several.
    pub fn victim(&self) -> Option<u64> {
        let step = self.step();
        self.sealed().min_by_key(|(number, segment)| (segment.mean_at(step), *number)).map(|(number, _)| number)
    }

    /// A segment leaves. Returns which of its blocks are carried over, by their places in
    /// `blocks`, ascending: the driver writes them to another segment. All are remembered.
    pub fn leave(&mut self, segment: u64, blocks: &[TierBlock]) -> Vec<usize> {
        let step = self.step();
        let Some(left) = self.segments.remove(&segment) else { return Vec::new() };
        let pages = |block: &TierBlock| u64::from(block.pages.count_ones());
        // Its value is shared out by use: each hit is one, and so is having been written.
        let uses: u64 = blocks.iter().map(|block| pages(block) * (u64::from(block.hits) + 1)).sum();
        let all: u64 = blocks.iter().map(pages).sum();
        let value = left.value_at(step);
        for block in blocks {
            let share = u128::from(value) * u128::from(u64::from(block.hits) + 1) / u128::from(uses.max(1));
            self.ghosts.remember(block.block, block.pages, share as u64, step);
        }
        let is_above = |block: &TierBlock| (u64::from(block.hits) + 1) * all > uses;
        let mut carried: Vec<usize> = (0..blocks.len()).filter(|&at| is_above(&blocks[at])).collect();
        carried.sort_by_key(|&at| core::cmp::Reverse(blocks[at].hits));
        carried.retain(|&at| {
            let cost = pages(&blocks[at]) * CARRIED_OF;
            let is_paid = cost <= self.credit;
            self.credit -= if is_paid { cost } else { 0 };
            is_paid
        });
        carried.sort_unstable();
        carried
    }

    /// A segment is no longer there.
    pub fn gone(&mut self, segment: u64) {
        self.segments.remove(&segment);
    }

    fn sealed(&self) -> impl Iterator<Item = (u64, &Segment)> {
        self.segments.iter().filter(|(_, segment)| segment.is_sealed).map(|(&number, segment)| (number, segment))
    }

    fn step(&self) -> u64 {
        step(self.used_pages, self.capacity_pages)
    }
}

/// Pages of a block. Lower: more ghosts for the same cache. Higher: a block that is used in part
/// is judged by pages that are not. Source: the longest folio, [`crate::FOLIO_PAGES_MAX`].
const BLOCK_PAGES: u64 = 32;

/// The numerator of how many times the least mean of a segment a block must be worth. Lower: in a
/// loop in random order, blocks that happen to come back soon are written each round; 1.5 is the
/// bound for a loop over 1.25 of the cache. Higher: a working set that shifts is followed later.
/// Source: the loop and the shift in this file's tests.
const CLEARLY: u64 = 13;

/// The denominator of that factor. Lower: a higher factor, followed later. Higher: a lower factor,
/// more written. Source: see [`CLEARLY`].
const CLEARLY_OF: u64 = 8;

/// Of so many pages written, one may be carried over. Lower: more is written than a tenth more
/// than what was admitted, with headers and indexes. Higher: hot blocks leave with cold segments.
/// Source: a tenth, less what the format takes for records of one page.
const CARRIED_OF: u64 = 16;
