//! A map by file and page for values that lie in blocks of 32 pages, such as folios.
//!
//! ```text
//!   (file, page / 32) ──table──> block  starts 0b..0100_0001   pages at which a value starts
//!                                       slots  [ 17 | 4 ]      where those are kept, in order
//!                                                 │
//!   slots   [ . . . . | . . . | value of (file, 0) | . . ]     reused when their value is gone
//! ```
//!
//! A look-up of a page, of the pages around it and of the next ones costs one step each, whatever
//! the number of values. A balanced tree would take five or six steps through memory that no cache
//! holds; a read makes a dozen look-ups.
//!
//! *Invariants:* a block exists as long as a value starts in it. A value that starts in a block
//! ends in it, so the value that covers a page starts in the page's own block.
//!
//! The map does not know what its values are, nor where they end. Source: own; a bitmap with ranks
//! in place of the ordered map of docs/decisions/0001 (see 0020, point 5).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::collections::hash_table::HashTable;
use crate::units::{Extent, FOLIO_PAGES_MAX, FileId};

/// A map from file and first page to `V`.
#[derive(Debug)]
pub(crate) struct FolioMap<V> {
    blocks: HashTable<Block>,
    slots: Vec<Slot<V>>,
    /// Slots without a value.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<V> {
    file: FileId,
    start: u64,
    value: Option<V>,
}

#[derive(Debug, Default)]
struct Block {
    /// A bit for each page at which a value starts.
    starts: u32,
    few: [u32; FEW],
    /// Used in place of `few` where that is too small.
    many: Option<Box<[u32; BLOCK_PAGES]>>,
}

impl Block {
    fn slots(&self) -> &[u32] {
        let all: &[u32] = self.many.as_deref().map_or(&self.few, |many| many);
        &all[..self.starts.count_ones() as usize]
    }

    /// The rank among its slots of the one of `page`, present or not.
    fn rank(&self, page: u32) -> usize {
        (self.starts & ((1 << page) - 1)).count_ones() as usize
    }

    fn slot(&self, page: u32) -> Option<usize> {
        let has = (self.starts >> page) & 1 == 1;
        has.then(|| self.slots()[self.rank(page)] as usize)
    }

    fn insert(&mut self, page: u32, slot: u32) {
        let (rank, len) = (self.rank(page), self.slots().len());
        if len == FEW && self.many.is_none() {
            let mut many = Box::new([0; BLOCK_PAGES]);
            many[..FEW].copy_from_slice(&self.few);
            self.many = Some(many);
        }
        let all: &mut [u32] = self.many.as_deref_mut().map_or(&mut self.few, |many| many);
        all.copy_within(rank..len, rank + 1);
        all[rank] = slot;
        self.starts |= 1 << page;
    }

    fn remove(&mut self, page: u32) {
        let (rank, len) = (self.rank(page), self.slots().len());
        let all: &mut [u32] = self.many.as_deref_mut().map_or(&mut self.few, |many| many);
        all.copy_within(rank + 1..len, rank);
        self.starts &= !(1 << page);
    }
}

impl<V> Default for FolioMap<V> {
    fn default() -> Self {
        Self { blocks: HashTable::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<V> FolioMap<V> {
    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The value that starts at `page`.
    pub(crate) fn get(&self, file: FileId, page: u64) -> Option<&V> {
        self.slots[self.slot(file, page)?].value.as_ref()
    }

    /// The value that starts at `page`.
    pub(crate) fn get_mut(&mut self, file: FileId, page: u64) -> Option<&mut V> {
        let slot = self.slot(file, page)?;
        self.slots[slot].value.as_mut()
    }

    /// Inserts the value that starts at `page`, and returns the one that did before.
    pub(crate) fn insert(&mut self, file: FileId, page: u64, value: V) -> Option<V> {
        if let Some(known) = self.get_mut(file, page) {
            return Some(core::mem::replace(known, value));
        }
        let slot = Slot { file, start: page, value: Some(value) };
        let at = if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            at
        } else {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        self.blocks.entry(file, page / FOLIO_PAGES_MAX).insert((page % FOLIO_PAGES_MAX) as u32, at);
        None
    }

    /// Removes the value that starts at `page`.
    pub(crate) fn remove(&mut self, file: FileId, page: u64) -> Option<V> {
        let (number, within) = (page / FOLIO_PAGES_MAX, (page % FOLIO_PAGES_MAX) as u32);
        let block = self.blocks.get_mut(file, number)?;
        let slot = block.slot(within)?;
        block.remove(within);
        if block.starts == 0 {
            self.blocks.remove(file, number);
        }
        self.free.push(slot as u32);
        let removed = self.slots[slot].value.take();
        if self.slots.len() > SLOTS_MIN && self.len() * SHRINK_AT < self.slots.len() {
            self.shrink();
        }
        removed
    }

    /// The value that starts at `page`, or else the last one before it in its block.
    pub(crate) fn covering(&self, file: FileId, page: u64) -> Option<(u64, &V)> {
        let number = page / FOLIO_PAGES_MAX;
        let block = self.blocks.get(file, number)?;
        let up_to = ranks(block, number, Extent::new(0, page + 1));
        self.value(*block.slots()[up_to].last()?)
    }

    /// The values that start in `within`, in order.
    pub(crate) fn range(&self, file: FileId, within: Extent) -> impl Iterator<Item = (u64, &V)> {
        let blocks = blocks_of(within).filter_map(move |number| Some((number, self.blocks.get(file, number)?)));
        let slots = blocks.flat_map(move |(number, block)| &block.slots()[ranks(block, number, within)]);
        slots.filter_map(|&slot| self.value(slot))
    }

    /// Calls `f` with each value that starts in `within`, in order.
    pub(crate) fn for_each_mut(&mut self, file: FileId, within: Extent, mut f: impl FnMut(u64, &mut V)) {
        for number in blocks_of(within) {
            let Some(block) = self.blocks.get(file, number) else { continue };
            for &slot in &block.slots()[ranks(block, number, within)] {
                let slot = &mut self.slots[slot as usize];
                if let Some(value) = &mut slot.value {
                    f(slot.start, value);
                }
            }
        }
    }

    /// The values that start before `page`, the last first, up to the first block in which none
    /// starts.
    pub(crate) fn before(&self, file: FileId, page: u64) -> impl Iterator<Item = (u64, &V)> {
        let within = Extent::new(0, page);
        let blocks = blocks_of(within).rev().map_while(move |number| Some((number, self.blocks.get(file, number)?)));
        let slots = blocks.flat_map(move |(number, block)| block.slots()[ranks(block, number, within)].iter().rev());
        slots.filter_map(|&slot| self.value(slot))
    }

    /// Where the values of `file`, `count` in number, start, in order. The file has `pages` pages.
    pub(crate) fn starts_of(&self, file: FileId, pages: u64, count: usize) -> Vec<u64> {
        let mut starts: Vec<u64> = if pages / FOLIO_PAGES_MAX < self.slots.len() as u64 {
            self.range(file, Extent::new(0, pages)).map(|(start, _)| start).take(count).collect()
        } else {
            let own = self.slots.iter().filter(|slot| slot.file == file && slot.value.is_some());
            own.map(|slot| slot.start).take(count).collect()
        };
        starts.sort_unstable();
        starts
    }

    fn slot(&self, file: FileId, page: u64) -> Option<usize> {
        self.blocks.get(file, page / FOLIO_PAGES_MAX)?.slot((page % FOLIO_PAGES_MAX) as u32)
    }

    fn value(&self, slot: u32) -> Option<(u64, &V)> {
        let slot = &self.slots[slot as usize];
        Some((slot.start, slot.value.as_ref()?))
    }

    /// Moves the values together, so that no slot is free.
    fn shrink(&mut self) {
        let (slots, _) = (core::mem::take(&mut self.slots), core::mem::take(&mut self.free));
        self.blocks = HashTable::default();
        for Slot { file, start, value } in slots {
            if let Some(value) = value {
                self.insert(file, start, value);
            }
        }
    }
}

/// The numbers of the blocks that hold some of `extent`.
fn blocks_of(extent: Extent) -> core::ops::Range<u64> {
    let end = if extent.end > extent.start { extent.end.div_ceil(FOLIO_PAGES_MAX) } else { 0 };
    extent.start / FOLIO_PAGES_MAX..end
}

/// The range of slots of the block `number` that hold values that start in `within`.
fn ranks(block: &Block, number: u64, within: Extent) -> core::ops::Range<usize> {
    let first = number * FOLIO_PAGES_MAX;
    let rank = |page: u64| match page.saturating_sub(first) {
        all if all >= FOLIO_PAGES_MAX => block.starts.count_ones() as usize,
        page => block.rank(page as u32),
    };
    rank(within.start)..rank(within.end)
}

/// Pages of a block. Lower: a folio could lie in two blocks. Higher: `starts` has no bit for each
/// page. Source: the largest folio ([`FOLIO_PAGES_MAX`]) and the bits of `starts`.
const BLOCK_PAGES: usize = FOLIO_PAGES_MAX as usize;
const _: () = assert!(BLOCK_PAGES == u32::BITS as usize, "a bit for each page of a block");

/// Slots that a block has without an allocation. Lower: blocks of random reads take an allocation
/// each. Higher: every block is larger. Source: a guess, not measured: a block of a stream has one
/// value, of random reads in a large file one or two.
const FEW: usize = 4;

/// The slots are moved together when less than one in this many is used, an eighth. Lower: values
/// are moved more often. Higher: more memory is held for slots that are free. Source: a guess, not
/// measured.
const SHRINK_AT: usize = 8;

/// Slots up to which they are never moved together. Lower: a small map moves its values often.
/// Higher: up to that many free slots are kept. Source: a guess, not measured: 1024 slots take
/// little memory.
const SLOTS_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u64, u64),
        Remove(u64, u64),
        Look(u64, u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few files and pages, so that blocks fill up, and some pages far away.
        let page = prop_oneof![0..200_u64, 1_000_000..1_000_040_u64];
        let step = (0..3_u8, 0..3_u64, page, 0..100_u64).prop_map(|(kind, file, page, len)| match kind {
            0 => Step::Insert(file, page),
            1 => Step::Remove(file, page),
            _ => Step::Look(file, page, len),
        });
        proptest::collection::vec(step, 1..400)
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in steps()) {
            let (mut map, mut model) = (FolioMap::default(), BTreeMap::new());
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(file, page) => {
                        prop_assert_eq!(map.insert(FileId(file), page, value), model.insert((file, page), value));
                    }
                    Step::Remove(file, page) => {
                        prop_assert_eq!(map.remove(FileId(file), page), model.remove(&(file, page)));
                    }
                    Step::Look(file, page, len) => {
                        let (id, within) = (FileId(file), Extent::new(page, page + len));
                        prop_assert_eq!(map.get(id, page), model.get(&(file, page)));
                        let wanted: Vec<_> = model.range((file, page)..(file, page + len)).collect();
                        let found: Vec<_> = map.range(id, within).collect();
                        prop_assert_eq!(&found, &wanted.iter().map(|((_, at), v)| (*at, *v)).collect::<Vec<_>>());
                        let mut changed = Vec::new();
                        map.for_each_mut(id, within, |at, value| changed.push((at, *value)));
                        prop_assert_eq!(changed, wanted.iter().map(|((_, at), v)| (*at, **v)).collect::<Vec<_>>());
                        let last = model.range((file, page / 32 * 32)..=(file, page)).next_back();
                        prop_assert_eq!(map.covering(id, page), last.map(|((_, at), value)| (*at, value)));
                        let mut before = Vec::new();
                        for block in (0..page.div_ceil(32)).rev() {
                            let all = model.range((file, block * 32)..(file, block * 32 + 32));
                            if all.clone().next().is_none() {
                                break;
                            }
                            before.extend(all.rev().filter(|((_, at), _)| *at < page).map(|((_, at), v)| (*at, v)));
                        }
                        prop_assert_eq!(map.before(id, page).collect::<Vec<_>>(), before);
                    }
                }
                prop_assert_eq!(map.len(), model.len());
            }
            for file in 0..3 {
                let wanted: Vec<u64> = model.range((file, 0)..=(file, u64::MAX)).map(|((_, at), _)| *at).collect();
                for pages in [1_000_040, u64::MAX] {
                    prop_assert_eq!(map.starts_of(FileId(file), pages, wanted.len()), wanted.clone());
                }
            }
        }
    }

    #[test]
    fn it_shrinks_when_it_empties() {
        let mut map = FolioMap::default();
        (0..100_000).for_each(|page| assert_eq!(map.insert(FileId(1), page * 40, page), None));
        (10..100_000).for_each(|page| assert_eq!(map.remove(FileId(1), page * 40), Some(page)));
        assert_eq!(map.len(), 10);
        assert!(map.slots.len() <= SLOTS_MIN);
        assert_eq!(map.blocks.len(), 10);
        assert!((0..10).all(|page| map.get(FileId(1), page * 40) == Some(&page)));
    }
}
