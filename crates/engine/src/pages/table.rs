//! What is resident or in flight of one file: folios by where they lie, and the readers that wait for them.
//!
//! ```text
//!   insert (shard) --> in flight --> filled (its task) --> resident --> removed (shard)
//!                         │  waiting reads complete ──┘        │ pinned by Arc while a reply is written
//!                         └--> failed: waiting reads get the error, the shard removes it
//! ```
//!
//! Only the holder of the shard inserts and removes; anybody looks up. A folio that is removed while a reader holds it lives until
//! that reader is done with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use foreread_policy::{Extent, FOLIO_PAGES_MAX, PAGE_BYTES, Touch};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use crate::error::Error;
use crate::numbers::Numbers;
use crate::pages::buffer::Buffer;
use crate::pages::waiting::Waiting;
use crate::requests::fetch::Fetch;

/// Pages of one file held as one piece.
#[derive(Debug)]
pub(crate) struct Folio {
    pub(crate) extent: Extent,
    /// The request that fills it.
    pub(crate) fetch: Arc<Fetch>,
    outcome: OnceLock<Result<Buffer, Error>>,
    /// Touching it is an event for policy.
    marked: AtomicBool,
    /// Some of it has been given to a reader.
    referenced: AtomicBool,
    /// Its last page has.
    finished: AtomicBool,
    /// Some of it has after that: the reference bit that policy clears.
    again: AtomicBool,
    /// Reads to complete once the outcome is known; `None` from then on.
    waiting: Mutex<Option<SmallVec<[Arc<Waiting>; 1]>>>,
}

/// Several of them; most often it is one.
pub(crate) type Folios = SmallVec<[Arc<Folio>; 1]>;

impl Folio {
    /// A folio in flight.
    pub(crate) fn new(extent: Extent, marked: bool, fetch: Arc<Fetch>) -> Arc<Self> {
        Arc::new(Self {
            extent,
            fetch,
            outcome: OnceLock::new(),
            marked: AtomicBool::new(marked),
            referenced: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            again: AtomicBool::new(false),
            waiting: Mutex::new(Some(SmallVec::new())),
        })
    }

    /// Whether its bytes are there.
    pub(crate) fn is_resident(&self) -> bool {
        matches!(self.outcome.get(), Some(Ok(_)))
    }

    /// Whether its request gave up on it.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.outcome.get().and_then(|o| o.as_ref().err())
    }

    /// Takes the mark off. Whether there was one.
    fn take_mark(&self) -> bool {
        self.marked.load(Ordering::Relaxed) && self.marked.swap(false, Ordering::Relaxed)
    }

    /// Sets the bit for a read of the pages before `end`. What touch that was, if it is news.
    fn reference(&self, end: u64) -> Option<Touch> {
        let (bit, touch) = if self.finished.load(Ordering::Relaxed) {
            (&self.again, Touch::Again)
        } else if end >= self.extent.end {
            (&self.finished, Touch::Finished)
        } else {
            (&self.referenced, Touch::First)
        };
        let news = !bit.load(Ordering::Relaxed) && !bit.swap(true, Ordering::Relaxed);
        news.then_some(touch)
    }

    /// Clears the reference bit: the next touch is news.
    fn clear(&self) {
        self.again.store(false, Ordering::Relaxed);
    }

    /// Its bytes have come, or never will. Completes the reads that waited for nothing else.
    pub(crate) fn fill(&self, outcome: Result<Buffer, Error>) {
        if self.outcome.set(outcome).is_err() {
            return;
        }
        let waiting = self.waiting.lock().take();
        for read in waiting.into_iter().flatten() {
            read.ready(1);
        }
    }

    /// Tells `read` once its outcome is known; `false` if that is so already.
    pub(crate) fn tells(&self, read: &Arc<Waiting>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.as_mut().map(|waiting| waiting.push(Arc::clone(read))).is_some()
    }

    /// Whether reads are to be completed once its outcome is known.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.lock().as_ref().is_some_and(|waiting| !waiting.is_empty())
    }

    /// Its bytes, if they are there.
    fn bytes(&self) -> Option<&[u8]> {
        match self.outcome.get() {
            Some(Ok(buffer)) => Some(buffer),
            _ => None,
        }
    }
}

/// The bytes of one read, pinned in the page table until dropped.
#[derive(Debug, Clone)]
pub struct Pages {
    folios: Folios,
    /// Byte offset in the file.
    offset: u64,
    len: usize,
}

impl Pages {
    pub(crate) fn empty() -> Self {
        Self { folios: Folios::new(), offset: 0, len: 0 }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the reference bits of what is read. What is news: the folio, and which touch of it.
    pub(crate) fn reference(&self) -> impl Iterator<Item = (&Folio, Touch)> {
        let end = Extent::of_bytes(self.offset, self.len as u64).end;
        self.folios.iter().filter_map(move |f| f.reference(end).map(|touch| (&**f, touch)))
    }

    pub(crate) fn folios(&self) -> &[Arc<Folio>] {
        &self.folios
    }

    /// Takes all marks off. Whether there was one.
    pub(crate) fn take_marks(&self) -> bool {
        self.folios.iter().filter(|f| f.take_mark()).count() > 0
    }

    /// The bytes, in order, in as many pieces as there are folios.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let end = self.offset + self.len as u64;
        self.folios.iter().filter_map(move |folio| {
            let at = folio.extent.start * PAGE_BYTES;
            let bytes = folio.bytes()?;
            let from = self.offset.saturating_sub(at) as usize;
            let to = ((end - at) as usize).min(bytes.len());
            bytes.get(from..to)
        })
    }

    /// The bytes as one slice, where they lie in one folio.
    pub fn as_slice(&self) -> Option<&[u8]> {
        match self.folios.len() {
            0 => Some(&[]),
            1 => self.slices().next(),
            _ => None,
        }
    }

    /// Copies all bytes to `to`, which is as long as they are.
    pub fn copy_to(&self, to: &mut [u8]) {
        let mut rest = to;
        for piece in self.slices() {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        }
        debug_assert!(rest.is_empty());
    }
}

/// What a look-up found.
pub(crate) enum Lookup {
    /// Every page is resident or in flight.
    Present(Pages),
    /// A page is neither.
    Absent,
}

/// The folios of one file, by the block of pages that they lie in: no folio crosses from one block to the next, so a look-up of a page
/// is one of its block, however many folios there are.
#[derive(Debug, Default)]
pub(crate) struct PageTable {
    blocks: RwLock<Numbers<u64, Block>>,
}

/// Folios of [`FOLIO_PAGES_MAX`] pages, in order, each with its first page: where it lies is known without looking into it. Most often it is one.
type Block = SmallVec<[(u64, Arc<Folio>); 1]>;

/// The blocks that hold some of `extent`.
fn blocks_of(extent: Extent) -> std::ops::RangeInclusive<u64> {
    extent.start / FOLIO_PAGES_MAX..=extent.end.saturating_sub(1) / FOLIO_PAGES_MAX
}

impl PageTable {
    /// The folios that hold bytes `[offset, offset + len)`.
    pub(crate) fn look_up(&self, offset: u64, len: usize) -> Lookup {
        let extent = Extent::of_bytes(offset, len as u64);
        let table = self.blocks.read();
        let mut folios = Folios::new();
        let mut next = extent.start;
        for block in blocks_of(extent) {
            for (_, folio) in table.get(&block).into_iter().flatten() {
                if folio.extent.end <= next {
                    continue;
                }
                if folio.extent.start > next {
                    return Lookup::Absent;
                }
                next = folio.extent.end;
                folios.push(Arc::clone(folio));
                if next >= extent.end {
                    return Lookup::Present(Pages { folios, offset, len });
                }
            }
        }
        Lookup::Absent
    }

    /// Puts a folio, made by `new`, in for each that is neither resident nor in flight in `within`, and gives all of those. For the holder of the
    /// shard.
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

    /// Clears the reference bit of the folio that starts at `start`.
    pub(crate) fn clear(&self, start: u64) {
        let table = self.blocks.read();
        let block = table.get(&(start / FOLIO_PAGES_MAX)).into_iter().flatten();
        block.filter(|(known, _)| *known == start).for_each(|(_, folio)| folio.clear());
    }

    /// Takes the folio that starts at `start` out. For the holder of the shard.
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

    fn folio(extent: Extent) -> Arc<Folio> {
        Folio::new(extent, false, Fetch::new(RequestId(0), extent, true, extent.end, None))
    }

    #[test]
    fn holes_are_filled_with_whole_folios_around_what_is_there() {
        let table = PageTable::default();
        let fill = |start, end| {
            let filled = table.fill_holes(Extent::new(start, end), folio);
            filled.iter().map(|folio| (folio.extent.start, folio.extent.end)).collect::<Vec<_>>()
        };
        assert_eq!(fill(4, 6), [(4, 6)]);
        assert_eq!(fill(10, 12), [(10, 12)]);
        assert_eq!(fill(5, 11), [(6, 10)], "it begins and ends in what is there");
        assert_eq!(fill(4, 12), []);
        assert_eq!(fill(0, 70), [(0, 4), (12, 32), (32, 64), (64, 70)]);
        assert_eq!(table.remove(32).map(|folio| folio.extent), Some(Extent::new(32, 64)));
        assert!(table.remove(33).is_none());
        assert_eq!(fill(20, 66), [(32, 64)]);
        assert!(
            matches!(table.look_up(0, 70 * PAGE_BYTES as usize), Lookup::Present(pages) if pages.folios().len() == 7)
        );
    }
}
