//! Pages that are being written to the spill, or were: taken out of the mapping, each in a frame.
//!
//! ```text
//!   mapped ── take ──> held: writing ── written ──> held ── let_go ──> its frame is free
//!     ^  ^                │                           │
//!     │  └─ a touch: copied back, and the frame is free when it is written
//!     │                                               │
//!     ^───── a touch: copied back, the frame is free ─┘
//!
//!   kept: the kernel, a device or another process has the page as well (pinned memory)
//! ```
//!
//! The kernel moves a page in one step (`UFFDIO_MOVE`, Linux 6.8). A thread that writes to it
//! either wrote before, or finds it absent and waits for the pager. A page is *pinned* while a
//! device may write to it past all protection. A pinned page is not moved: it stays. Once moved it
//! cannot be pinned, since the frame's address is this crate's alone. So what is written to the
//! spill is what the page holds.
//!
//! Where the kernel cannot move, a page is protected and copied, and stays mapped until it is
//! dropped. Protection does not stop a device, so there a page that a device writes to can lose
//! what it wrote.
//!
//! Source: docs/decisions/0045.

#![allow(unsafe_code, reason = "pages are moved by address")]

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use foreread_policy::{Extent, PAGE_BYTES};
use rustix::io::Errno;

use crate::kernel::frames::{Frames, Pool};
use crate::kernel::mapping::Mapping;
use crate::kernel::uffd::Uffd;

/// See the head of this file.
pub(super) struct Held {
    mapping: Arc<Mapping>,
    uffd: Arc<Uffd>,
    /// Frames that pages are moved to. They are absent until then, so nothing else is kept there.
    pool: Pool,
    moves: bool,
    pages: HashMap<u64, Page>,
    /// Frames of no use any more, which still have their memory.
    gone: Vec<Frames>,
}

struct Page {
    frame: Frames,
    /// The spill's transfer still reads the frame.
    writing: bool,
    /// The page is in the mapping, protected or changed.
    returned: bool,
}

/// What became of pages that were to be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// They are held.
    Out,
    /// They stay in the mapping: they are pinned, or the program forbade itself to write there.
    Kept,
    /// The program gave them up behind the pager's back: there is nothing.
    Absent,
}

impl Held {
    pub(super) fn new(mapping: Arc<Mapping>, uffd: Arc<Uffd>) -> io::Result<Self> {
        let mut pool = Pool::registered(Arc::clone(&uffd));
        let moves = uffd.can_move() && moves(&uffd, &mut pool)?;
        if !moves {
            pool = Pool::new(0);
        }
        Ok(Self { mapping, uffd, pool, moves, pages: HashMap::new(), gone: Vec::new() })
    }

    /// Whether pages are moved; otherwise they have to be protected first, and are copied.
    pub(super) fn moves(&self) -> bool {
        self.moves
    }

    /// Room for `pages` pages side by side.
    pub(super) fn room(&mut self, pages: u64) -> io::Result<Frames> {
        self.pool.take(pages)
    }

    /// Takes mapped pages out, to `frames`, of which there are as many. Returns what became of
    /// them, in order.
    pub(super) fn take(&mut self, pages: Extent, mut frames: Frames) -> Vec<(Extent, Taken)> {
        let mut taken: Vec<(Extent, Taken)> = Vec::new();
        let mut became = |pages: Extent, what| match taken.last_mut() {
            Some((last, before)) if *before == what && last.end == pages.start => last.end = pages.end,
            _ if pages.is_empty() => {}
            _ => taken.push((pages, what)),
        };
        if !self.moves {
            // SAFETY: the pages are there and protected: a thread that writes to them waits for
            // this thread.
            self.pool.bytes(&mut frames).copy_from_slice(unsafe { self.mapping.bytes(pages) });
            self.hold(pages, &mut frames, true);
            became(pages, Taken::Out);
            return taken;
        }
        let (mut at, mut most) = (pages.start, u64::MAX);
        let (mut unlocked, mut emptied) = (false, false);
        while at < pages.end {
            let end = pages.end.min(at.saturating_add(most));
            let to = self.pool.at(&frames).addr() as u64;
            // SAFETY: the frames are of this pool, whose free frames are absent; the pages are the
            // region's.
            let moved = unsafe { self.uffd.take_out(self.mapping.range(Extent::new(at, end)), to) };
            let middle = at + moved.bytes / PAGE_BYTES;
            self.hold(Extent::new(at, middle), &mut frames, false);
            became(Extent::new(at, middle), Taken::Out);
            at = middle;
            let what = match moved.stopped {
                None => continue,
                // The pages lie in parts of the region with protection or advice of their own.
                Some(Errno::INVAL) if end - at > 1 => {
                    most = 1;
                    continue;
                }
                // The program has locked the page, or the memory of the frames.
                Some(Errno::INVAL) if !unlocked => {
                    unlocked = true;
                    self.mapping.unlock(self.mapping.all());
                    self.pool.unlock();
                    continue;
                }
                // A free frame is there: see `Resident::touched`.
                Some(Errno::EXIST) if !emptied => {
                    emptied = true;
                    self.pool.empty(&frames);
                    continue;
                }
                Some(Errno::NOENT) => Taken::Absent,
                Some(_) => Taken::Kept,
            };
            self.pool.give(&frames.split_to(1));
            became(Extent::new(at, at + 1), what);
            at += 1;
        }
        taken
    }

    fn hold(&mut self, pages: Extent, frames: &mut Frames, returned: bool) {
        for page in pages.start..pages.end {
            let frame = frames.split_to(1);
            let before = self.pages.insert(page, Page { frame, writing: true, returned });
            self.gone.extend(before.map(|page| page.frame));
        }
    }

    /// Whether the page is held and not in the mapping.
    pub(super) fn has(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|held| !held.returned)
    }

    /// The address of held pages, which were taken out together.
    pub(super) fn at(&self, page: u64) -> *mut u8 {
        self.pool.at(&self.pages[&page].frame)
    }

    /// The bytes of a held page.
    pub(super) fn bytes(&mut self, page: u64) -> &[u8] {
        let held = self.pages.get_mut(&page).unwrap_or_else(|| panic!("page {page} is not held"));
        self.pool.bytes(&mut held.frame)
    }

    /// Copies a held page back into the mapping. Whether it was held, and whether it is there now.
    pub(super) fn give_back(&mut self, page: u64, protect: bool) -> Option<Result<(), Errno>> {
        let held = self.pages.get_mut(&page).filter(|held| !held.returned)?;
        let from = self.pool.at(&held.frame).addr() as u64;
        // SAFETY: the frame is held, and no code writes there; the page is the region's.
        let copied = unsafe { self.uffd.copy(from, self.mapping.range(Extent::new(page, page + 1)), protect) };
        held.returned = true;
        if !held.writing {
            self.let_go(page);
        }
        Some(copied.map(|_| ()))
    }

    /// No transfer reads the frames of `pages` any more.
    pub(super) fn written(&mut self, pages: Extent) {
        for page in pages.start..pages.end {
            if let Some(held) = self.pages.get_mut(&page) {
                held.writing = false;
                if held.returned {
                    self.let_go(page);
                }
            }
        }
    }

    /// Gives the frame of a page up. Whether there was one.
    pub(super) fn let_go(&mut self, page: u64) -> bool {
        let held = self.pages.remove(&page);
        let was = held.is_some();
        self.gone.extend(held.map(|held| held.frame));
        was
    }

    /// Frames that [`Held::free`] frees.
    pub(super) fn gone_pages(&self) -> u64 {
        self.gone.iter().map(Frames::len).sum()
    }

    /// Gives the memory of pages that are held no more back to the kernel.
    pub(super) fn free(&mut self) {
        self.pool.give_all(&mut self.gone);
    }
}

/// Whether the kernel moves a page, tried out: a sandbox may forbid it.
fn moves(uffd: &Uffd, pool: &mut Pool) -> io::Result<bool> {
    let zero = vec![0_u8; PAGE_BYTES as usize];
    let (from, to) = (pool.take(1)?, pool.take(1)?);
    // SAFETY: the vector holds a page; the frames are absent, registered, and this function's.
    let moved = unsafe {
        uffd.copy(zero.as_ptr().addr() as u64, pool.range(&from), false).is_ok()
            && uffd.take_out(pool.range(&from), pool.at(&to).addr() as u64).stopped.is_none()
    };
    pool.give(&from);
    pool.give(&to);
    Ok(moved)
}
