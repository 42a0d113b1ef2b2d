//! One version of one object, and what is resident of it.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, OnceLock};

use foreread_backend::lock::Mutex;
use foreread_backend::{Object, Positioned};
use foreread_layout::{Access, Directory};
use foreread_policy::{Chunks, Ends, Event, Extent, FileId, Found, PAGE_BYTES};
use foreread_tier::{ObjectId, Tier};

use crate::pages::pinned::Pages;
use crate::pages::table::{Lookup, PageTable};
use crate::pages::uses::Uses;

/// An object in the tier.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) tier: Arc<Tier>,
    pub(crate) object: ObjectId,
}

/// One version of one object and what is resident of it. All handles of it share this; it stays
/// for a while after the last one is dropped.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: FileId,
    pub(crate) object: Object,
    pub(crate) table: PageTable,
    pub(crate) uses: Uses,
    /// How it is read in place, if it can be.
    pub(crate) positioned: Option<Arc<dyn Positioned>>,
    /// Its place in the tier, if there is one.
    pub(crate) kept: Option<Kept>,
    /// The byte whose read tells where the parts of the file lie, or nothing more is to be told.
    tells_at: AtomicU64,
    /// The directory of an archive, as far as it has been read.
    directory: Mutex<Option<Box<Directory>>>,
    /// It has told nothing, since there was no room.
    lacks_room: AtomicBool,
    /// What its directory has said of its chunks. Few files have one.
    chunks: OnceLock<Box<Chunks>>,
    /// How many [`File`](crate::File)s there are.
    pub(crate) handles: AtomicUsize,
}

impl Opened {
    /// A file with one handle and nothing resident.
    pub(crate) fn new(
        id: FileId,
        object: Object,
        positioned: Option<Arc<dyn Positioned>>,
        kept: Option<Kept>,
    ) -> Arc<Self> {
        let (table, uses, handles) = (PageTable::default(), Uses::default(), AtomicUsize::new(1));
        let size = object.version.size;
        let tells_at = AtomicU64::new(if size < LAYOUT_BYTES_MIN { TOLD } else { size - foreread_layout::TAIL_BYTES });
        let (directory, lacks_room, chunks) = (Mutex::new(None), AtomicBool::new(false), OnceLock::new());
        Arc::new(Self { id, object, table, uses, positioned, kept, tells_at, directory, lacks_room, chunks, handles })
    }

    /// Length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.object.version.size
    }

    /// Whether a read of these bytes may tell where the parts of the file lie.
    pub(crate) fn may_tell(&self, offset: u64, len: usize) -> bool {
        self.tells_at.load(Relaxed).wrapping_sub(offset) < len as u64
    }

    /// The same of a read of bytes that have come just now. The thread that needs one of them says
    /// so and looks whether it is there; the one that brings it has it there and looks whether it
    /// is needed. One of the two sees what the other one did, if neither looks before what it has
    /// done is seen: processors may.
    pub(crate) fn may_tell_of_new(&self, offset: u64, len: usize) -> bool {
        fence(SeqCst);
        self.may_tell(offset, len)
    }

    /// Whether something is still to be told: for the one that looks, and for no other.
    pub(crate) fn take_tells_at(&self) -> bool {
        self.tells_at.swap(TOLD, AcqRel) != TOLD
    }

    /// The byte at `at` is needed for that.
    pub(crate) fn tells_at(&self, at: u64) {
        self.tells_at.store(at, Release);
        // What is looked at next has come, or its reader sees what is stored.
        fence(SeqCst);
    }

    /// Its directory, if some of it has been read, for the one that looks.
    pub(crate) fn take_directory(&self) -> Option<Box<Directory>> {
        self.directory.lock().take()
    }

    /// The rest of `directory` is still to be read.
    pub(crate) fn keep_directory(&self, directory: Box<Directory>) {
        *self.directory.lock() = Some(directory);
    }

    /// There was no room for what it would have told: it tells that when it is opened again.
    pub(crate) fn lacks_room(&self) {
        self.lacks_room.store(true, Relaxed);
    }

    /// No program has it open any more: what was read of its directory is dropped.
    pub(crate) fn rest(&self) {
        let lacked_room = self.lacks_room.swap(false, Relaxed);
        if self.take_directory().is_some() || lacked_room {
            self.tells_again();
        }
    }

    /// What it has told is held no more: a read of its end tells again.
    pub(crate) fn tells_again(&self) {
        self.tells_at(self.size() - foreread_layout::TAIL_BYTES);
    }

    /// The first byte of `[start, end)` that has not come.
    pub(crate) fn first_lacking(&self, start: u64, end: u64) -> Option<u64> {
        let extent = Extent::of_bytes(start, end - start);
        let (folios, hole) = self.table.up_to_hole(extent);
        let lacking = folios.iter().find(|folio| !folio.is_resident()).map(|folio| folio.extent.start);
        let page = lacking.or_else(|| (hole < extent.end).then_some(hole))?;
        Some((page * PAGE_BYTES).max(start))
    }

    /// The bytes `[start, end)`, if all have come.
    pub(crate) fn resident(&self, start: u64, end: u64) -> Option<Pages> {
        match self.table.look_up(start, (end - start) as usize) {
            Lookup::Present(pages) if pages.is_resident() => Some(pages),
            Lookup::Present(_) | Lookup::Absent => None,
        }
    }

    /// Its directory says this of its chunks.
    pub(crate) fn has(&self, chunks: Chunks) {
        let _ = self.chunks.set(Box::new(chunks));
    }

    /// Its end is no directory that is known: its name has told nothing.
    pub(crate) fn is_unknown(&self) {
        if self.access() == Some(Access::Pieces) {
            self.has(Chunks::None);
        }
    }

    /// Whether its footer has said that it has chunks that are read by one call.
    pub(crate) fn has_chunks(&self) -> bool {
        self.chunks.get().is_some_and(|own| matches!(**own, Chunks::Of(_)))
    }

    /// How programs read it, as far as its name says.
    fn access(&self) -> Option<Access> {
        foreread_layout::access(self.object.key.as_str()).filter(|_| self.size() >= LAYOUT_BYTES_MIN)
    }

    /// Whether its name says that programs read parts of it in pieces.
    pub(crate) fn is_named_for_parts(&self) -> bool {
        self.access() == Some(Access::Pieces)
    }

    /// What its directory or its name says of its chunks; `latest` is what another footer said.
    pub(crate) fn chunks(&self, latest: Option<Chunks>) -> Chunks {
        let named = match self.access() {
            None => Chunks::None,
            Some(Access::Whole) => Chunks::Named,
            Some(Access::Pieces) => Chunks::Pieces,
        };
        Chunks::expected(self.chunks.get().map(|own| **own), named, latest)
    }

    /// What the tier has of it.
    pub(crate) fn cached(&self) -> Vec<Event> {
        let ranges = self.kept.as_ref().map(|kept| kept.tier.kept(kept.object)).unwrap_or_default();
        let event = |pages: Range<u64>| Event::Cached { file: self.id, extent: Extent::new(pages.start, pages.end) };
        ranges.into_iter().map(event).collect()
    }

    /// `reader` asks for bytes, which are in the file.
    pub(crate) fn asked(&self, reader: u64, offset: u64, len: usize) {
        self.uses.asked_by(reader);
        self.uses.asked_for(Extent::of_bytes(offset, len as u64), self.size().div_ceil(PAGE_BYTES));
    }

    /// How much of its contents is resident or in flight, as far as one read reaches.
    pub(crate) fn found(&self) -> Found {
        self.found_in(0, self.size())
    }

    /// The same of some of its ends: of the worst of them.
    pub(crate) fn found_ends(&self, ends: Ends) -> Found {
        self.found_of(ends.extents(self.size().div_ceil(PAGE_BYTES)))
    }

    /// The same of some of its pages.
    pub(crate) fn found_of(&self, extents: impl IntoIterator<Item = Extent>) -> Found {
        let found = |pages: Extent| self.found_in(pages.start * PAGE_BYTES, pages.pages() * PAGE_BYTES);
        extents.into_iter().map(found).min().unwrap_or(Found::Resident)
    }

    fn found_in(&self, offset: u64, len: u64) -> Found {
        match self.table.look_up(offset, len.min(self.size() - offset).min(READ_BYTES_MAX) as usize) {
            Lookup::Present(pages) if pages.is_resident() => Found::Resident,
            Lookup::Present(_) => Found::InFlight,
            Lookup::Absent => Found::Absent,
        }
    }
}

/// All is told: no read reaches this byte.
const TOLD: u64 = u64::MAX;

/// The shortest file that is asked where its parts lie, 1 MiB. Lower: more files are looked at
/// that come with a request or two anyway. Higher: columns of short files are guessed.
const LAYOUT_BYTES_MIN: u64 = 1 << 20;

/// The longest single read, 8 MiB: one of the largest requests. Longer reads are cut. Lower costs
/// long reads more calls; higher lets one read pin more of the budget at a time.
pub(crate) const READ_BYTES_MAX: u64 = 8 << 20;
