//! A cache on a disk in numbers: which pages lie in which segment. It drives [`TierPath`] as a
//! cache that keeps bytes does, for tests and simulations.
//!
//! ```text
//!   offer ── admitted ──> the pages that are absent ──> active segment ── full ──> sealed
//!                                                          ^   │ no room for the next one
//!                                     what is hot in it ───┘   v
//!                                                           the victim leaves
//! ```
//!
//! *Invariants:* a page lies in one segment at most. The segments that are sealed, and a whole one
//! for the active one, are never more than the capacity.
//!
//! What is written is there at once, by one process, without headers. Nothing fails. The file
//! decides nothing (`tier`). Source: `crates/tier/src/writer.rs`, whose steps it repeats.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::tier::{TierBlock, TierPath, TierRoom};

/// A cache on a disk, of which pages are known and no bytes.
#[derive(Debug)]
pub struct TierModel {
    path: TierPath,
    capacity_pages: u64,
    segment_pages: u64,
    /// Where the pages of each block are.
    blocks: BTreeMap<u64, Vec<Piece>>,
    segments: BTreeMap<u64, Held>,
    active: Option<u64>,
    next: u64,
    /// Pages that can be written before a segment leaves.
    room_pages: u64,
    counts: TierCounts,
}

/// Pages of a block in one segment.
#[derive(Debug, Clone, Copy)]
struct Piece {
    segment: u64,
    pages: u32,
    hits: u32,
}

#[derive(Debug, Default)]
struct Held {
    /// Each block that was written to it, once for each time, with its pages.
    written: Vec<(u64, u32)>,
    pages: u64,
    /// It took the place of another one.
    is_replacement: bool,
}

/// What a [`TierModel`] has done, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Offered, of those that it did not have.
    pub offered: u64,
    /// Written of what was offered.
    pub admitted: u64,
    /// Written again when their segment left.
    pub carried: u64,
    /// Left with their segments; those that were carried over are among them.
    pub left: u64,
}

impl TierModel {
    /// An empty cache of so many pages, in segments of `segment_pages`.
    pub fn new(capacity_pages: u64, segment_pages: u64) -> Self {
        let segment_pages = segment_pages.max(1);
        Self {
            path: TierPath::new(capacity_pages, segment_pages),
            capacity_pages,
            segment_pages,
            blocks: BTreeMap::new(),
            segments: BTreeMap::new(),
            active: None,
            next: 0,
            room_pages: capacity_pages / segment_pages * segment_pages,
            counts: TierCounts::default(),
        }
    }

    /// What an earlier process left: blocks with their pages, in sealed segments. What finds no
    /// room is left out.
    pub fn fill(&mut self, blocks: impl IntoIterator<Item = (u64, u32)>) {
        let mut blocks = blocks.into_iter().peekable();
        while blocks.peek().is_some() && self.used_pages() + self.segment_pages <= self.capacity_pages {
            let (segment, mut held) = (self.next, Held::default());
            while let Some((block, pages)) = blocks.next_if(|(_, pages)| self.fits(held.pages, *pages)) {
                held.take(block, pages);
                self.blocks.entry(block).or_default().push(Piece { segment, pages, hits: 0 });
            }
            self.path.found(segment, held.pages);
            self.segments.insert(segment, held);
            self.next += 1;
        }
        let free = self.capacity_pages.saturating_sub(self.used_pages());
        self.room_pages = free / self.segment_pages * self.segment_pages;
    }

    /// Pages of a block are read, if it has all of them. Whether it has.
    pub fn read(&mut self, block: u64, pages: u32) -> bool {
        if self.kept(block) & pages != pages {
            return false;
        }
        for piece in self.blocks.get_mut(&block).into_iter().flatten().filter(|piece| piece.pages & pages != 0) {
            piece.hits = piece.hits.saturating_add(1);
            self.path.hit(piece.segment, count(piece.pages & pages));
        }
        true
    }

    /// Pages of a block are offered. Whether it has them since.
    pub fn offer(&mut self, block: u64, pages: u32) -> bool {
        let absent = pages & !self.kept(block);
        if absent == 0 {
            return true;
        }
        self.counts.offered += count(absent);
        let room = if self.room_pages < count(pages) { TierRoom::Disk } else { TierRoom::Free };
        self.path.offered(block, pages, room) && self.write(block, absent, false)
    }

    /// The pages of a block that it has.
    pub fn kept(&self, block: u64) -> u32 {
        pages_of(self.blocks.get(&block).map_or(&[], Vec::as_slice))
    }

    /// The blocks that it has pages of, and these, in order.
    pub fn kept_within(&self, blocks: RangeInclusive<u64>) -> impl Iterator<Item = (u64, u32)> {
        self.blocks.range(blocks).map(|(&block, pieces)| (block, pages_of(pieces)))
    }

    /// What it has done so far.
    pub fn counts(&self) -> TierCounts {
        self.counts
    }

    fn write(&mut self, block: u64, pages: u32, is_carried: bool) -> bool {
        let has_room = |active| self.fits(self.segments.get(&active).map_or(0, |held| held.pages), pages);
        let active = match self.active.filter(|&active| has_room(active)) {
            Some(active) => active,
            None => match self.begin() {
                Some(begun) => begun,
                None => return false,
            },
        };
        let held = self.segments.entry(active).or_default();
        held.take(block, pages);
        if !held.is_replacement {
            self.room_pages = self.room_pages.saturating_sub(count(pages));
        }
        self.blocks.entry(block).or_default().push(Piece { segment: active, pages, hits: 0 });
        self.path.written(active, block, pages, is_carried);
        *if is_carried { &mut self.counts.carried } else { &mut self.counts.admitted } += count(pages);
        true
    }

    /// Seals the active segment and begins the next one, with what is carried over. `None` if no
    /// segment can leave.
    fn begin(&mut self) -> Option<u64> {
        if let Some(active) = self.active.take() {
            self.path.sealed_segment(active);
        }
        let (mut carried, mut is_replacement) = (Vec::new(), false);
        while self.used_pages() + self.segment_pages > self.capacity_pages {
            let victim = self.path.victim()?;
            carried.extend(self.leave(victim));
            is_replacement = true;
        }
        let free = self.capacity_pages - self.used_pages();
        self.room_pages = if is_replacement { 0 } else { free / self.segment_pages * self.segment_pages };
        self.segments.insert(self.next, Held { is_replacement, ..Held::default() });
        self.active = Some(self.next);
        self.next += 1;
        for (block, pages) in carried {
            self.write(block, pages, true);
        }
        self.active
    }

    /// A segment leaves. Returns what is carried over of it.
    fn leave(&mut self, segment: u64) -> Vec<(u64, u32)> {
        let left = self.segments.remove(&segment).unwrap_or_default();
        let mut blocks = Vec::new();
        for &(block, pages) in &left.written {
            let Some(pieces) = self.blocks.get_mut(&block) else { continue };
            let is_it = |piece: &Piece| piece.segment == segment && piece.pages == pages;
            let Some(at) = pieces.iter().position(is_it) else { continue };
            blocks.push(TierBlock { block, pages, hits: pieces.swap_remove(at).hits });
            if pieces.is_empty() {
                self.blocks.remove(&block);
            }
        }
        self.counts.left += left.pages;
        let carried = self.path.leave(segment, &blocks);
        carried.into_iter().map(|at| (blocks[at].block, blocks[at].pages)).collect()
    }

    /// What the segments take: a short one counts as a quarter of a whole one, and one that is
    /// written to as a whole one.
    fn used_pages(&self) -> u64 {
        let taken = |(&number, held): (&u64, &Held)| match self.active {
            Some(active) if active == number => self.segment_pages,
            _ => held.pages.max(self.segment_pages / 4),
        };
        self.segments.iter().map(taken).sum()
    }

    fn fits(&self, held_pages: u64, pages: u32) -> bool {
        held_pages == 0 || held_pages + count(pages) <= self.segment_pages
    }
}

impl Held {
    fn take(&mut self, block: u64, pages: u32) {
        self.written.push((block, pages));
        self.pages += count(pages);
    }
}

fn pages_of(pieces: &[Piece]) -> u32 {
    pieces.iter().fold(0, |pages, piece| pages | piece.pages)
}

fn count(pages: u32) -> u64 {
    u64::from(pages.count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_in_part_is_written_in_part_and_leaves_in_parts() {
        let mut model = TierModel::new(8 * 32, 2 * 32);
        assert!(model.offer(7, 0xff) && model.offer(7, 0xffff) && !model.read(7, 0x1_0000));
        assert!(model.read(7, 0xffff) && model.offer(7, 0xf));
        assert_eq!(model.counts(), TierCounts { offered: 16, admitted: 16, ..TierCounts::default() });
        assert_eq!(model.kept_within(0..=9).collect::<Vec<_>>(), [(7, 0xffff)]);
        let carried = model.leave(0);
        assert_eq!((carried, model.kept(7), model.counts().left), (Vec::new(), 0, 16));
    }

    #[test]
    fn what_was_left_by_another_process_takes_room() {
        let mut model = TierModel::new(8 * 32, 2 * 32);
        model.fill((0..20).map(|block| (block, u32::MAX)));
        assert_eq!(model.kept_within(0..=99).count(), 8);
        assert!(model.read(0, 1) && !model.offer(50, 1), "it is full");
        let mut model = TierModel::new(8 * 32, 2 * 32);
        model.fill((0..3).map(|block| (block, u32::MAX)));
        assert_eq!((model.room_pages, model.segments.len()), (5 * 32 / 64 * 64, 2));
    }
}
