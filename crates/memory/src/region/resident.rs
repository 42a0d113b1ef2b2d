//! The pages of a region that are in memory, and the system calls that bring them in and out.
//!
//! ```text
//!   absent ── map_zeroes ──────────> mapped <──> protected     a write to it is a fault
//!     │                                ^  │
//!     ├── stage ──> staged ── map ─────┘  │ drop_pages         staged: read, in a frame
//!     │               │ drop_pages        v
//!     ^───────────────┴──── unmap ──── leaving                 dropped by policy, still mapped
//! ```
//!
//! Pages that leave are unmapped together, [`LEAVING_MAX`] at a time, with one flush of the
//! processors' address caches. Until then a touch of such a page finds it there; the pager does
//! not learn of it, and does not need to: the page is clean and protected, so the spill holds the
//! same. A write to it waits for the pager, which answers it as a fault on an absent page.
//!
//! *Invariant:* nothing here touches a page of the region that is absent: the pager would wait for
//! itself. Which page goes where is decided in `policy`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use foreread_policy::{Extent, PAGE_BYTES, RegionEvent};
use rustix::io::Errno;

use crate::kernel::frames::{Frames, Pool};
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::{How, Touch, Uffd};
use crate::region::cipher::Cipher;
use crate::region::page_states::{PageStates, pieces};

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
    /// Pages that policy has dropped and that are still in the mapping.
    leaving: Vec<Extent>,
    leaving_pages: u64,
}

impl Resident {
    /// No page is in memory. At most `idle_frames` free frames keep their memory.
    pub(super) fn new(mapping: Arc<Mapping>, uffd: Arc<Uffd>, idle_frames: u64) -> io::Result<Self> {
        let pages = mapping.all().pages();
        let mut pool = Pool::new(idle_frames);
        let zeroes = pool.take(ZEROES)?;
        Ok(Self {
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
        let page = self.mapping.page_of(touch.address);
        let here = Extent::new(page, page + 1);
        let write = touch.how != How::Read;
        if !self.states.is_mapped(page) {
            return Some(RegionEvent::Fault { page, thread: touch.thread, write });
        }
        if write && self.states.is_protected(page) {
            self.protect(here, false);
            return Some(RegionEvent::Written { page });
        }
        // An earlier touch of the page was answered, perhaps before this thread waited.
        let _ = self.uffd.wake(self.mapping.range(here));
        None
    }

    /// Pages in the mapping, those that leave included.
    pub(super) fn mapped_pages(&self) -> u64 {
        self.states.mapped_pages() + self.leaving_pages
    }

    pub(super) fn staged_pages(&self) -> u64 {
        self.staged.len() as u64
    }

    /// Whether enough pages leave that it is time to unmap them.
    pub(super) fn should_unmap(&self) -> bool {
        self.leaving_pages >= LEAVING_MAX
    }

    /// Unmaps the pages that leave.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn unmap(&mut self) {
        // SAFETY: the pages were clean and protected, or the program has given them up. A later
        // write waits for this thread.
        unsafe { self.mapping.forget_all(&self.leaving) };
        self.leaving.clear();
        self.leaving_pages = 0;
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

    /// Whether a protected page holds only zeroes.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn is_zero(&self, page: u64) -> bool {
        // SAFETY: policy cleans mapped pages only, and this one is protected: a thread that writes
        // to it waits for this thread.
        self.states.is_mapped(page) && unsafe { self.mapping.is_zero(page) }
    }

    /// The address of a page in the mapping.
    pub(super) fn at(&self, page: u64) -> *mut u8 {
        self.mapping.at(page)
    }

    /// Copies of protected pages, side by side, as the spill is to hold them. `pages`: how many in
    /// all.
    #[expect(unsafe_code, reason = "memory is named by address")]
    pub(super) fn copies(
        &mut self,
        extents: impl Iterator<Item = Extent>,
        pages: u64,
        cipher: Option<&Cipher>,
    ) -> io::Result<Frames> {
        let mut frames = self.pool.take(pages)?;
        let mut rest = self.pool.bytes(&mut frames);
        for pages in extents {
            let into = rest.split_off_mut(..(pages.pages() * PAGE_BYTES) as usize).expect("room for all extents");
            let from = self.mapping.at(pages.start);
            // SAFETY: as for `is_zero`: the pages are there, and no thread writes to them while
            // this thread is here.
            unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
            if let Some(cipher) = cipher {
                cipher.encrypt(into, pages.start);
            }
        }
        Ok(frames)
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
        if self.states.unmap(pages) {
            self.leaving.push(pages);
            self.leaving_pages += pages.pages();
        }
    }

    /// Gives absent pages up: a thread that touches one is sent a signal.
    pub(super) fn fail(&mut self, pages: Extent) {
        self.unmap_if_leaving(pages);
        self.refuse(pages);
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

/// Pages of zeroes that one system call maps. Lower: more calls for a long run of new pages.
/// Higher: more memory that only holds zeroes (64 are 256 KiB).
const ZEROES: u64 = 64;
