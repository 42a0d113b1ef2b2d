//! The page table of one file: its folios, by where they lie.
//!
//! ```text
//!   block        0                    1                    2
//!   pages        0 ............. 31   32 ............ 63   64 ...
//!   folios       |##|    |######|     |##############|     |##|
//!                     ^ a hole: a new folio fills it
//! ```
//!
//! Only the holder of the shard inserts and removes; any thread looks up.

use std::sync::Arc;

use foreread_policy::{Extent, FOLIO_PAGES_MAX};
use smallvec::SmallVec;

use crate::numbers::Numbers;
use crate::pages::folio::{Folio, Folios};
use crate::pages::pinned::Pages;
use crate::sync::RwLock;

/// What a look-up found.
pub(crate) enum Lookup {
    /// Every page is resident or in flight.
    Present(Pages),
    /// A page is neither.
    Absent,
}

/// The folios of one file, by the block of [`FOLIO_PAGES_MAX`] pages that they lie in. No folio
/// crosses from one block to the next, so looking up a page is looking up its block, however many
/// folios there are.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    blocks: RwLock<Numbers<u64, Block>>,
}

/// The folios of one block, in order, each with its first page, so that a search does not follow
/// the pointer. Most often it is one.
type Block = SmallVec<[(u64, Arc<Folio>); 1]>;

/// The blocks that hold some of `extent`.
fn blocks_of(extent: Extent) -> std::ops::RangeInclusive<u64> {
    extent.start / FOLIO_PAGES_MAX..=extent.end.saturating_sub(1) / FOLIO_PAGES_MAX
}

impl PageTable {
    /// The folios that hold bytes `[offset, offset + len)`.
    pub(crate) fn look_up(&self, offset: u64, len: usize) -> Lookup {
        let extent = Extent::of_bytes(offset, len as u64);
        let (folios, end) = self.up_to_hole(extent);
        if end < extent.end || folios.is_empty() {
            return Lookup::Absent;
        }
        Lookup::Present(Pages::new(folios, offset, len))
    }

    /// The folios that hold pages of `extent` from its start on, up to the first hole or beyond
    /// its end, and the page after the last one of them.
    pub(crate) fn up_to_hole(&self, extent: Extent) -> (Folios, u64) {
        let table = self.blocks.read();
        let mut folios = Folios::new();
        let mut next = extent.start;
        for block in blocks_of(extent) {
            for (_, folio) in table.get(&block).into_iter().flatten() {
                if folio.extent.end <= next {
                    continue;
                }
                if folio.extent.start > next {
                    return (folios, next);
                }
                next = folio.extent.end;
                folios.push(Arc::clone(folio));
                if next >= extent.end {
                    return (folios, next);
                }
            }
        }
        (folios, next)
    }

    /// Puts a folio, made by `new`, into each hole of `within`: pages that are neither resident
    /// nor in flight. Returns the new folios. For the holder of the shard.
    pub(crate) fn fill_holes(&self, within: Extent, new: impl Fn(Extent) -> Arc<Folio>) -> Folios {
        let mut table = self.blocks.write();
        let mut filled = Folios::new();
        for number in blocks_of(within) {
            let first = number * FOLIO_PAGES_MAX;
            let (mut start, end) = (within.start.max(first), within.end.min(first + FOLIO_PAGES_MAX));
            let block = table.entry(number).or_default();
            let mut at = 0;
            while start < end {
                let next = block.get(at).map(|(_, folio)| folio.extent);
                let hole = Extent::new(start, next.map_or(end, |next| next.start.min(end)));
                if !hole.is_empty() {
                    let folio = new(hole);
                    filled.push(Arc::clone(&folio));
                    block.insert(at, (hole.start, folio));
                    at += 1;
                }
                start = start.max(next.map_or(end, |next| next.end));
                at += 1;
            }
        }
        filled
    }

    /// The folio that starts at `start`.
    pub(crate) fn folio(&self, start: u64) -> Option<Arc<Folio>> {
        let table = self.blocks.read();
        let block = table.get(&(start / FOLIO_PAGES_MAX))?;
        block.iter().find(|(known, _)| *known == start).map(|(_, folio)| Arc::clone(folio))
    }

    /// Clears the reference bit of the folio that starts at `start`.
    pub(crate) fn clear(&self, start: u64) {
        let table = self.blocks.read();
        let block = table.get(&(start / FOLIO_PAGES_MAX)).into_iter().flatten();
        block.filter(|(known, _)| *known == start).for_each(|(_, folio)| folio.clear());
    }

    /// Marks the folio that starts at `start`.
    pub(crate) fn mark(&self, start: u64) {
        let table = self.blocks.read();
        let block = table.get(&(start / FOLIO_PAGES_MAX)).into_iter().flatten();
        block.filter(|(known, _)| *known == start).for_each(|(_, folio)| folio.mark());
    }

    /// Removes all folios. For the holder of the shard.
    pub(crate) fn clear_all(&self) -> Vec<Arc<Folio>> {
        let blocks = std::mem::take(&mut *self.blocks.write());
        blocks.into_values().flatten().map(|(_, folio)| folio).collect()
    }

    /// Removes the folio that starts at `start`. For the holder of the shard.
    pub(crate) fn remove(&self, start: u64) -> Option<Arc<Folio>> {
        let mut table = self.blocks.write();
        let key = start / FOLIO_PAGES_MAX;
        let block = table.get_mut(&key)?;
        let at = block.iter().position(|(known, _)| *known == start)?;
        let (_, folio) = block.remove(at);
        if block.is_empty() {
            table.remove(&key);
        }
        Some(folio)
    }
}

#[cfg(test)]
mod tests {
    use foreread_policy::RequestId;

    use super::*;
    use crate::pages::request::Request;

    fn folio(extent: Extent) -> Arc<Folio> {
        Folio::new(extent, false, Request::new(RequestId(0), extent, true, extent.end, None))
    }

    #[test]
    fn holes_around_present_folios_are_filled() {
        let table = PageTable::default();
        let fill = |start, end| {
            let filled = table.fill_holes(Extent::new(start, end), folio);
            filled.iter().map(|folio| (folio.extent.start, folio.extent.end)).collect::<Vec<_>>()
        };
        assert_eq!(fill(4, 6), [(4, 6)]);
        assert_eq!(fill(10, 12), [(10, 12)]);
        assert_eq!(fill(5, 11), [(6, 10)], "the range begins and ends in present folios");
        assert_eq!(fill(4, 12), []);
        assert_eq!(fill(0, 70), [(0, 4), (12, 32), (32, 64), (64, 70)]);
        assert_eq!(table.remove(32).map(|folio| folio.extent), Some(Extent::new(32, 64)));
        assert!(table.remove(33).is_none());
        let up_to_hole = |start, end| {
            let (folios, end) = table.up_to_hole(Extent::new(start, end));
            (folios.len(), end)
        };
        assert_eq!([up_to_hole(5, 70), up_to_hole(11, 20), up_to_hole(32, 70)], [(4, 32), (2, 32), (0, 32)]);
        assert_eq!(fill(20, 66), [(32, 64)]);
        assert!(
            matches!(table.look_up(0, 70 * foreread_policy::PAGE_BYTES as usize), Lookup::Present(pages) if pages.folios().len() == 7)
        );
    }
}
