//! Memory that a file is read into: whole pages, aligned for reads past the kernel's page cache.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// One page of memory, aligned to 512 bytes as disks want it. Aligned to a page, each would cost
/// an allocator two.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(512))]
struct Frame([u8; FRAME_BYTES]);

/// Memory for one read, usually one piece.
pub type Buffers = SmallVec<[Frames; 1]>;

/// Page frames, seen as `len` bytes. The memory goes on to the end of the last page.
pub struct Frames {
    frames: Box<[Frame]>,
    len: usize,
}

impl Frames {
    /// `len` zero bytes. Panics where there is no memory, as allocations do.
    pub fn new(len: usize) -> Self {
        let frames = <[Frame]>::new_box_zeroed_with_elems(len.div_ceil(FRAME_BYTES)).expect("memory for a read");
        Self { frames, len }
    }

    /// All of the memory: a multiple of a page.
    pub(crate) fn whole(&mut self) -> &mut [u8] {
        self.frames.as_mut_bytes()
    }
}

impl Default for Frames {
    /// No bytes.
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

/// Bytes of a page: every file system accepts it as the unit of offsets and lengths of direct
/// reads.
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
