//! Memory that a file is read into: whole pages, aligned to pages for reads past the kernel's page
//! cache.
//!
//! - `arena`: memory of up to 32 pages, from which holes go back to the kernel.
//! - `runs`: which pages of the arena are free.
//!
//! Longer memory is the allocator's, which takes each from the kernel by itself.

#![allow(unsafe_code, reason = "pages of the arena are seen as bytes")]

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

mod arena;
pub(crate) mod runs;

use arena::{Arena, Run};
use runs::{FRAME_BYTES, RUN_PAGES_MAX};

/// One page of memory that the allocator gives.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Frame([u8; FRAME_BYTES]);

/// Memory for one read, usually one piece.
pub type Buffers = SmallVec<[Frames; 1]>;

/// Page frames, seen as `len` bytes. The memory goes on to the end of the last page.
pub struct Frames {
    memory: Memory,
    len: usize,
}

enum Memory {
    Run(Run),
    Long(Box<[Frame]>),
}

/// One for the whole program, so that frames need not point to it.
static ARENA: Arena = Arena::new();

impl Frames {
    /// Memory of `len` bytes with arbitrary content: zeroes, or what earlier frames held.
    /// Panics where there is no memory, as allocations do.
    pub fn new(len: usize) -> Self {
        let memory = match len.div_ceil(FRAME_BYTES) {
            pages @ 1..=RUN_PAGES_MAX => Memory::Run(ARENA.take(pages)),
            pages => Memory::Long(<[Frame]>::new_box_zeroed_with_elems(pages).expect("memory for a read")),
        };
        Self { memory, len }
    }

    /// Memory of the process for frames of up to 32 pages, in bytes: what is in use, and what is
    /// kept for the next use (at most 4 MiB).
    pub fn process_bytes() -> (u64, u64) {
        ARENA.bytes()
    }

    /// All of the memory: a multiple of a page.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        match &mut self.memory {
            // SAFETY: the run owns so many bytes from there on. The kernel gave them as zeroes, so
            // they have values.
            Memory::Run(run) => unsafe {
                let len = self.len.next_multiple_of(FRAME_BYTES);
                std::slice::from_raw_parts_mut(run.start.as_ptr(), len)
            },
            Memory::Long(frames) => frames.as_mut_bytes(),
        }
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        if let Memory::Run(run) = &self.memory {
            ARENA.give(run);
        }
    }
}

impl Default for Frames {
    /// No bytes.
    fn default() -> Self {
        Self { memory: Memory::Long(Box::default()), len: 0 }
    }
}

impl Deref for Frames {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: as in `whole`.
            Memory::Run(run) => unsafe { std::slice::from_raw_parts(run.start.as_ptr(), self.len) },
            Memory::Long(frames) => &frames.as_bytes()[..self.len],
        }
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.whole()[..len]
    }
}

impl AsRef<[u8]> for Frames {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_whole() {
        for len in [0, 1, 4095, 4096, 4097, 131_072, 131_073, 1 << 20] {
            let mut frames = Frames::new(len);
            assert_eq!(frames.len(), len);
            assert_eq!(frames.whole().len(), len.next_multiple_of(FRAME_BYTES));
            assert_eq!(frames.whole().as_ptr().addr() % FRAME_BYTES, 0);
            frames.whole().fill(7);
            assert!(frames.iter().all(|&byte| byte == 7));
        }
    }
}
