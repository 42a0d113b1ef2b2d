//! Memory that a file is read into: whole pages, aligned as a read beside the kernel's page cache wants them.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// One page of memory, aligned as disks want it. Aligned as a page is, each would cost an allocator two.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(512))]
struct Frame([u8; FRAME_BYTES]);

/// Memory for one read, most often in one piece.
pub type Buffers = SmallVec<[Frames; 1]>;

/// Page frames, as bytes: `len` of them, and up to the end of its page the memory behind.
pub struct Frames {
    frames: Box<[Frame]>,
    len: usize,
}

impl Frames {
    /// `len` zeros. Panics where there is no memory, as allocations do.
    pub fn new(len: usize) -> Self {
        let frames = <[Frame]>::new_box_zeroed_with_elems(len.div_ceil(FRAME_BYTES)).expect("memory for a read");
        Self { frames, len }
    }

    /// All of its memory, a multiple of the page's size.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        self.frames.as_mut_bytes()
    }
}

impl Default for Frames {
    /// None.
    fn default() -> Self {
        Self { frames: Box::default(), len: 0 }
    }
}

impl Deref for Frames {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.frames.as_bytes()[..self.len]
    }
}

impl DerefMut for Frames {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.frames.as_mut_bytes()[..self.len]
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

/// Bytes of a page: the unit of offsets and lengths in which every file system reads directly.
pub(crate) const FRAME_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_whole() {
        for len in [0, 1, 4095, 4096, 4097, 131_072] {
            let mut frames = Frames::new(len);
            assert_eq!((frames.len(), frames.iter().any(|byte| *byte != 0)), (len, false));
            assert_eq!(frames.whole().len(), len.next_multiple_of(FRAME_BYTES));
            assert_eq!(frames.whole().as_ptr().addr() % 512, 0);
        }
    }
}
