//! The pages of a region that are in memory, and the system calls that bring them in and out.
//!
//! ```text
//!   absent ── map_zeroes ──────────> mapped <──> protected     a write to it is a fault
//!     │                                ^  │  ^
//!     │                                │  │  └── take_out ──> held        in a frame (held.rs)
//!     ├── stage ──> staged ── map ─────┘  │ drop_pages          │          staged: in a frame
//!     │               │ drop_pages        v                     │
//!     ^───────────────┴──── unmap ──── leaving <── drop_pages ──┘          dropped by policy
//! ```
//!
//! Policy knows no held pages: to it they are mapped and clean. A touch of one copies it back.
//!
//! Pages that leave are unmapped together, [`LEAVING_MAX`] at a time, with one flush of the
//! processors' address caches. Until then a touch finds a leaving page in the mapping, and the
//! pager does not learn of the touch. It does not need to: the page is clean and protected, so the
//! spill holds the same bytes. A write to it waits for the pager, which answers it as a fault on
//! an absent page.
//!
//! *Invariant:* nothing here touches a page of the region that is absent: the pager would wait for
//! itself. Which page goes where is decided in `policy`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreread_policy::{Extent, PAGE_BYTES, RegionEvent};
use rustix::io::Errno;

use crate::kernel::frames::{Frames, Pool};
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::{How, Range, Touch, Uffd};
use crate::region::cipher::Cipher;
use crate::region::held::{Held, Taken};
use crate::region::page_states::{PageStates, pieces, runs};

/// See the head of this file.
pub(super) struct Resident {
    mapping: Arc<Mapping>,
    uffd: Arc<Uffd>,
    states: PageStates,
    /// Frames of transfers, and of staged pages.
    pub(super) pool: Pool,
    /// [`ZEROES`] pages of zeroes.
    zeroes: Frames,
    /// Pages that were read and are not mapped yet, one frame each.
    staged: HashMap<u64, Frames>,
    held: Held,
    /// Pages given up, whose touch is a signal until they are tried again, in the order of time.
    refused: Vec<(Extent, Instant)>,
    /// Pages that policy has dropped and that are still in the mapping.
    leaving: Vec<Extent>,
    leaving_pages: u64,
}

impl Resident {
    /// No page is in memory. At most `idle_frames` free frames keep their memory.
    pub(super) fn new(mapping: Arc<Mapping>, uffd: Arc<Uffd>, idle_frames: u64) -> io::Result<Self> {
        let pages = mapping.all().pages();
        let mut pool = Pool::new(idle_frames);
        let mut zeroes = pool.take(ZEROES)?;
        // The kernel copies from there: with the pages in place it does not bring them in then.
        pool.bytes(&mut zeroes).fill(0);
        let held = Held::new(Arc::clone(&mapping), Arc::clone(&uffd))?;
        Ok(Self {
            held,
            refused: Vec::new(),
            mapping,
            uffd,
            states: PageStates::new(pages),
            pool,
            zeroes,
            staged: HashMap::new(),
            leaving: Vec::new(),
            leaving_pages: 0,
        })
    }

    /// Reads the touches that threads wait with.
    pub(super) fn read_touches(&self, touches: &mut Vec<Touch>) {
        self.uffd.read_touches(touches);
    }

    /// The event that policy learns of a touch by; `None` where the thread goes on without one.
    pub(super) fn touched(&mut self, touch: Touch) -> Option<RegionEvent> {
        let Some(page) = self.mapping.page_of(touch.address) else {
            // The kernel brings a free frame of held pages in, for a program that locks all its
            // memory. It is empty again before a page is moved there.
            self.fill_if_absent(touch.page());
            return None;
        };
        let here = Extent::new(page, page + 1);
        let write = touch.how != How::Read;
        if !self.states.is_mapped(page) {
            return Some(RegionEvent::Fault { page, thread: touch.thread, write });
        }
        if let Some(back) = self.held.give_back(page, !write) {
            self.came_in(back, here);
            self.states.protect(here, !write);
            return write.then_some(RegionEvent::Written { page });
        }
        if touch.how != How::WriteProtected && self.fill_if_absent(self.mapping.range(here)) {
            // The program gave the page up by itself (madvise). It is zeroes now, and what the
            // spill holds of it is of no use.
            self.states.protect(here, false);
            return Some(RegionEvent::Written { page });
        }
        if write && self.states.is_protected(page) {
            self.protect(here, false);
            return Some(RegionEvent::Written { page });
        }
        // An earlier touch of the page was answered, perhaps before this thread waited.
        let _ = self.uffd.wake(self.mapping.range(here));
        None
    }

    /// Maps zeroes at a page if there is nothing. Whether there was nothing.
    #[expect(unsafe_code, reason = "memory is named by address")]
    fn fill_if_absent(&self, page: Range) -> bool {
        let from = self.pool.at(&self.zeroes).addr() as u64;
        // SAFETY: the zeroes are frames of this pool; the page is in a range that was registered.
        unsafe { self.uffd.copy(from, page, false) }.is_ok_and(|copied| copied > 0)
    }

    /// Pages in the mapping or held, those that leave included.
    pub(super) fn mapped_pages(&self) -> u64 {
        self.states.mapped_pages() + self.leaving_pages + self.held.gone_pages()
    }

    /// Memory that the tables of all pages take, here and in policy.
    pub(super) fn tables_bytes(&self) -> u64 {
        self.states.tables_bytes()
    }

    pub(super) fn staged_pages(&self) -> u64 {
        self.staged.len() as u64
    }

    /// Whether enough pages leave that it is time to unmap them.
    pub(super) fn should_unmap(&self) -> bool {
        self.leaving_pages + self.held.gone_pages() >= LEAVING_MAX
    }

    /// Unmaps the pages that leave.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn unmap(&mut self) {
        // SAFETY: the pages were clean and protected, or the program has given them up. A later
        // write waits for this thread.
        unsafe { self.mapping.forget_all(&self.leaving) };
        self.leaving.clear();
        self.leaving_pages = 0;
        self.held.free();
    }

    /// Pages can only be mapped where none is left.
    fn unmap_if_leaving(&mut self, pages: Extent) {
        if self.leaving.iter().any(|leaving| leaving.overlaps(pages)) {
            self.unmap();
        }
    }

    /// Maps pages of zeroes.
    pub(super) fn map_zeroes(&mut self, pages: Extent, protect: bool) {
        self.unmap_if_leaving(pages);
        for piece in pieces(pages, ZEROES) {
            self.copy(self.pool.at(&self.zeroes), piece, protect);
        }
        self.states.map(pages, protect);
    }

    /// Keeps pages that were read, until they are mapped or dropped.
    pub(super) fn stage(&mut self, pages: Extent, mut frames: Frames) {
        for page in pages.start..pages.end {
            self.staged.insert(page, frames.split_to(1));
        }
    }

    /// Maps staged pages.
    pub(super) fn map(&mut self, pages: Extent, protect: bool) {
        self.unmap_if_leaving(pages);
        // Adjacent frames are copied by one system call.
        let mut run: Option<(u64, Frames, Vec<Frames>)> = None;
        for page in pages.start..pages.end {
            let frame =
                self.staged.remove(&page).unwrap_or_else(|| panic!("page {page} is to be mapped and was not staged"));
            match &mut run {
                Some((_, first, rest)) if rest.last().unwrap_or(first).is_before(&frame) => rest.push(frame),
                _ => {
                    self.copy_run(run.take(), page, protect);
                    run = Some((page, frame, Vec::new()));
                }
            }
        }
        self.copy_run(run, pages.end, protect);
        self.states.map(pages, protect);
    }

    fn copy_run(&mut self, run: Option<(u64, Frames, Vec<Frames>)>, end: u64, protect: bool) {
        let Some((start, first, rest)) = run else { return };
        self.copy(self.pool.at(&first), Extent::new(start, end), protect);
        self.pool.give(&first);
        for frame in &rest {
            self.pool.give(frame);
        }
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn copy(&self, from: *mut u8, pages: Extent, protect: bool) {
        // SAFETY: `from` is frames of this pool, as many as there are pages, and no transfer has
        // them; the pages are the region's.
        let copied = unsafe { self.uffd.copy(from.addr() as u64, self.mapping.range(pages), protect) };
        self.came_in(copied.map(|_| ()), pages);
    }

    fn came_in(&self, copied: Result<(), Errno>, pages: Extent) {
        match copied {
            // SRCH: the process is ending, and no thread goes on here.
            Ok(()) | Err(Errno::SRCH) => {}
            // The kernel has no memory, and a thread that waits for the page cannot go on without
            // it.
            Err(_) => self.refuse(pages),
        }
    }

    /// Protects mapped pages, or takes the protection away. Whether the kernel did.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn protect(&mut self, pages: Extent, protect: bool) -> bool {
        // SAFETY: the pages are the region's, which is registered.
        let changed = unsafe { self.uffd.protect(self.mapping.range(pages), protect) };
        if changed.is_ok() {
            self.states.protect(pages, protect);
        }
        changed.is_ok()
    }

    /// Room for `pages` pages that are taken out, side by side.
    pub(super) fn room_to_hold(&mut self, pages: u64) -> io::Result<Frames> {
        self.held.room(pages)
    }

    /// Takes mapped pages out, to be written to the spill. `room`: for as many pages. Returns what
    /// became of them, in order.
    pub(super) fn take_out(&mut self, pages: Extent, room: Frames) -> Vec<(Extent, Taken)> {
        if !self.held.moves() && !self.protect(pages, true) {
            return vec![(pages, Taken::Kept)];
        }
        let taken = self.held.take(pages, room);
        for (pages, what) in &taken {
            match what {
                Taken::Out => self.states.protect(*pages, true),
                Taken::Kept => {}
                Taken::Absent => self.map_zeroes(*pages, true),
            }
        }
        taken
    }

    /// Whether a held page holds only zeroes.
    pub(super) fn is_zero(&mut self, page: u64) -> bool {
        // The first words decide most often.
        let bytes = self.held.bytes(page);
        bytes[..64].iter().all(|byte| *byte == 0) && bytes.iter().all(|byte| *byte == 0)
    }

    /// The address of pages that were taken out together.
    pub(super) fn held_at(&self, page: u64) -> *mut u8 {
        self.held.at(page)
    }

    /// Encrypted copies of held pages, side by side. `pages`: how many in all.
    pub(super) fn encrypted(
        &mut self,
        extents: impl Iterator<Item = Extent>,
        pages: u64,
        cipher: &Cipher,
    ) -> io::Result<Frames> {
        let mut frames = self.pool.take(pages)?;
        let mut rest = self.pool.bytes(&mut frames);
        for page in extents.flat_map(|pages| pages.start..pages.end) {
            let into = rest.split_off_mut(..PAGE_BYTES as usize).expect("room for all pages");
            into.copy_from_slice(self.held.bytes(page));
            cipher.encrypt(into, page);
        }
        Ok(frames)
    }

    /// No transfer needs the held pages any more.
    pub(super) fn written_out(&mut self, pages: Extent) {
        self.held.written(pages);
    }

    /// Pages that could not be written go back to the mapping, and are dirty.
    pub(super) fn put_back(&mut self, pages: Extent) {
        for page in pages.start..pages.end {
            let here = Extent::new(page, page + 1);
            if let Some(back) = self.held.give_back(page, false) {
                self.came_in(back, here);
                self.states.protect(here, false);
            }
        }
        self.held.written(pages);
    }

    /// Drops pages: a staged one gives its frame back, a mapped one leaves.
    pub(super) fn drop_pages(&mut self, pages: Extent) {
        if !self.staged.is_empty() {
            for page in pages.start..pages.end {
                if let Some(frame) = self.staged.remove(&page) {
                    self.pool.give(&frame);
                }
            }
        }
        let held = &self.held;
        for (run, held) in runs(pages, |page| held.has(page)).collect::<Vec<_>>() {
            if held {
                (run.start..run.end).for_each(|page| _ = self.held.let_go(page));
                self.states.unmap(run);
            } else if self.states.unmap(run) {
                self.leaving.push(run);
                self.leaving_pages += run.pages();
            }
        }
    }

    /// Gives absent pages up: a thread that touches one is sent a signal, for a while.
    pub(super) fn fail(&mut self, pages: Extent) {
        self.unmap_if_leaving(pages);
        self.refuse(pages);
        self.refused.push((pages, Instant::now()));
    }

    /// Until when the next page that was given up is given up.
    pub(super) fn refused_until(&self) -> Option<Instant> {
        self.refused.first().map(|(_, since)| *since + REFUSED)
    }

    /// A touch of pages that were given up is a fault again: of those that it is time for, and of
    /// all that are in `also`.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn try_again(&mut self, also: Extent) {
        let now = Instant::now();
        let over = |(pages, since): &(Extent, Instant)| now >= *since + REFUSED || pages.overlaps(also);
        for (pages, _) in self.refused.extract_if(.., |refused| over(refused)) {
            // Where the kernel has no poison.
            let _ = self.mapping.allow(pages);
            for page in (pages.start..pages.end).filter(|page| !self.states.is_mapped(*page)) {
                // SAFETY: the page is not mapped, so there are no contents.
                let _ = unsafe { self.mapping.forget(Extent::new(page, page + 1)) };
            }
        }
    }

    #[expect(unsafe_code, reason = "memory is named by address")]
    fn refuse(&self, pages: Extent) {
        // SAFETY: the pages are the region's, and policy gives up absent ones only.
        let poisoned = unsafe { self.uffd.poison(self.mapping.range(pages)) };
        if !poisoned {
            let _ = self.mapping.forbid(pages);
        }
        let _ = self.uffd.wake(self.mapping.range(pages));
    }
}

/// Pages that are unmapped together. Lower: the other processors are interrupted more often.
/// Higher: more of the budget holds pages that policy has dropped.
pub(super) const LEAVING_MAX: u64 = 16;

/// How long a touch of a page that was given up is answered by a signal without another try: long
/// enough that the thread that waited for it has seen its signal. Lower: a thread that is late
/// waits for another try. Higher: the page is refused for longer after the spill works again.
const REFUSED: Duration = Duration::from_millis(100);

/// Pages of zeroes that one system call maps. Lower: more calls for a long run of new pages.
/// Higher: more memory that only holds zeroes (64 are 256 KiB).
const ZEROES: u64 = 64;
