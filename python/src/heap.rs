//! The memory of the native module: large blocks are the kernel's, small ones the C library's.
//!
//! ```text
//!   below 64 KiB ──> the C library's heap
//!   from it on   ──> mapped by itself, and unmapped when it is freed
//! ```
//!
//! Connections hold pieces of answers of up to 408 KiB. In the C library's heaps, whose threshold
//! for large blocks rises with the first one that is freed, they leave holes between small blocks
//! that live long: 130 MiB of a process that read 2 GiB from the end were such holes. The library's
//! threshold is not set instead, as that is the program's: its own arrays would be mapped each
//! time.
//!
//! *Invariant:* nothing is kept, so a child of a fork meets no lock.

#![allow(unsafe_code, reason = "an allocator, of mapped memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

/// Takes large blocks from the kernel, and the others from the C library.
struct Blocks;

#[global_allocator]
static BLOCKS: Blocks = Blocks;

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

// SAFETY: a block is the system's or a mapping of its own, which its layout tells: `is_large` of
// one layout is the same whenever it is asked.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout.align()) {
            return map(layout.size());
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
            // SAFETY: it was mapped in this length, and is not used any more.
            unsafe { libc::munmap(block.cast(), layout.size()) };
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
