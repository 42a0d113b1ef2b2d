//! The memory of the native module: large blocks are the kernel's, small ones the C library's.
//!
//! ```text
//!   below 64 KiB ──> the C library's heap
//!   from it on   ──> mapped by itself ── freed ──> kept for the next one of its length:
//!                                                  4 MiB in all; the oldest are unmapped
//! ```
//!
//! Connections hold pieces of answers of up to 408 KiB. In the C library's heaps, whose threshold
//! for large blocks rises with the first one that is freed, they leave holes between small blocks
//! that live long: 130 MiB of a process that read 2 GiB from the end were such holes. The
//! library's threshold is not set instead, as that is the program's: its own arrays would be
//! mapped each time.
//!
//! *Invariant:* no thread waits for what is kept: one that finds it in use maps and unmaps. So
//! does a child of a fork that was made in such a moment, from then on.

#![allow(unsafe_code, reason = "an allocator, of mapped memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes large blocks from the kernel, and the others from the C library.
struct Blocks {
    /// A thread uses `kept`.
    busy: AtomicBool,
    kept: UnsafeCell<Kept>,
}

// SAFETY: `kept` is reached through `with_kept` alone, by one thread at a time.
unsafe impl Sync for Blocks {}

#[global_allocator]
static BLOCKS: Blocks = Blocks {
    busy: AtomicBool::new(false),
    kept: UnsafeCell::new(Kept { blocks: [(ptr::null_mut(), 0); KEPT_MAX], bytes: 0 }),
};

/// Blocks that were freed, the latest first, each with its length; at the end places without one.
struct Kept {
    blocks: [(*mut u8, usize); KEPT_MAX],
    bytes: usize,
}

/// Blocks that are kept. Lower: smaller ones are mapped more often. Higher: each allocation
/// searches more.
const KEPT_MAX: usize = 32;

/// Bytes that are kept, 4 MiB: ten pieces of the longest kind. Lower: connections that are read
/// from side by side map a piece each time, and take its pages one by one. Higher: more memory
/// that no budget counts.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// From this size on, 64 KiB, a block is mapped by itself. Lower, and more allocations are system
/// calls; higher, and more freed memory stays resident.
/// Source: that of the command, `crates/cli/src/heap.rs`.
const LARGE_BLOCK_BYTES: usize = 64 << 10;

/// Mappings begin at a page of the smallest size that a processor has.
const ALIGN_MAX: usize = 4096;

fn is_large(size: usize, align: usize) -> bool {
    size >= LARGE_BLOCK_BYTES && align <= ALIGN_MAX
}

/// `size` zeroes from the kernel; null where there is no memory.
fn map(size: usize) -> *mut u8 {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses a free place, so no memory in use changes.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
    if start == libc::MAP_FAILED { ptr::null_mut() } else { start.cast() }
}

/// Gives a mapping back.
///
/// # Safety
///
/// It was mapped in this length, and is not used any more.
unsafe fn unmap(block: *mut u8, size: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::munmap(block.cast(), size) };
}

impl Kept {
    /// A block of this length.
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        let at = self.blocks.iter().position(|&(_, kept)| kept == size)?;
        let (block, _) = self.blocks[at];
        self.blocks[at..].rotate_left(1);
        self.blocks[KEPT_MAX - 1] = (ptr::null_mut(), 0);
        self.bytes -= size;
        Some(block)
    }

    /// Keeps a block, in the place of older ones.
    ///
    /// # Safety
    ///
    /// As for [`unmap`].
    unsafe fn give(&mut self, block: *mut u8, size: usize) {
        let mut last = KEPT_MAX;
        while last > 0 && (self.blocks[KEPT_MAX - 1].1 > 0 || self.bytes + size > KEPT_BYTES_MAX) {
            last -= 1;
            let (oldest, length) = std::mem::replace(&mut self.blocks[last], (ptr::null_mut(), 0));
            if length > 0 {
                self.bytes -= length;
                // SAFETY: no program has it.
                unsafe { unmap(oldest, length) };
            }
        }
        self.blocks.rotate_right(1);
        self.blocks[0] = (block, size);
        self.bytes += size;
    }
}

impl Blocks {
    /// Runs `f` with what is kept, unless another thread does.
    fn with_kept<R>(&self, f: impl FnOnce(&mut Kept) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `busy` was not set, so no other thread is here. `f` allocates nothing.
        let result = f(unsafe { &mut *self.kept.get() });
        self.busy.store(false, Ordering::Release);
        Some(result)
    }
}

// SAFETY: a block is the system's or a mapping of its own, which its layout tells: `is_large` of
// one layout is the same whenever it is asked.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout.align()) {
            let kept = self.with_kept(|kept| kept.take(layout.size()));
            return kept.flatten().unwrap_or_else(|| map(layout.size()));
        }
        // SAFETY: the caller's layout, whose size is not zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout.size(), layout.align()) {
            let is_short = layout.size() <= KEPT_BYTES_MAX / 4;
            // SAFETY: it was mapped in this length, and is not used any more.
            let kept = is_short && self.with_kept(|kept| unsafe { kept.give(block, layout.size()) }).is_some();
            if !kept {
                // SAFETY: as above.
                unsafe { unmap(block, layout.size()) };
            }
            return;
        }
        // SAFETY: it is the system's, by the same layout.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (was, will) = (is_large(layout.size(), layout.align()), is_large(size, layout.align()));
        match (was, will) {
            // SAFETY: it is the system's, by the same layout.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) => {
                // SAFETY: it was mapped in this length. The kernel may move it to a free place.
                let moved = unsafe { libc::mremap(block.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
                if moved == libc::MAP_FAILED { ptr::null_mut() } else { moved.cast() }
            }
            _ => {
                // SAFETY: the alignment is a layout's, and the caller sees to the size.
                let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
                if !new.is_null() {
                    // SAFETY: two blocks that are at least so long; the old one is not used any
                    // more.
                    unsafe {
                        ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                        self.dealloc(block, layout);
                    }
                }
                new
            }
        }
    }
}
