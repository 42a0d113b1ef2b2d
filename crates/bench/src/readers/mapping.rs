//! A file, or a window of it, mapped for reading: to measure what a page fault costs, and to
//! compare what faults bring.
//!
//! The only unsafe code of this crate: the mapping, and its bytes.

#![allow(unsafe_code, reason = "maps a file and reads its bytes")]

use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// A read-only mapping.
pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: nothing is ever written through the mapping, and reads of different threads do not
// disturb each other.
unsafe impl Sync for Mapping {}
// SAFETY: a mapping belongs to the process; any thread may unmap it.
unsafe impl Send for Mapping {}

impl Mapping {
    pub(crate) fn new(file: &File, size_bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(size_bytes).map_err(io::Error::other)?;
        Self::window(file, 0, len)
    }

    /// A mapping of `len` bytes from `offset` on, which is a multiple of the page size.
    pub(crate) fn window(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free address range, so no memory in use changes.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
        Ok(Self { start: start.cast(), len })
    }

    /// Copies the first bytes of the mapping into all of `out`.
    pub(crate) fn copy(&self, out: &mut [u8]) {
        assert!(out.len() <= self.len, "{} bytes of a mapping of {}", out.len(), self.len);
        // SAFETY: the range is inside the mapping, which is readable, and `out` is other memory. A
        // page that storage cannot deliver raises SIGBUS, as in `touch`.
        unsafe { ptr::copy_nonoverlapping(self.start, out.as_mut_ptr(), out.len()) }
    }

    /// Reads the byte at `offset`, by a page fault if its page is not there.
    pub(crate) fn touch(&self, offset: u64) -> u8 {
        let offset = offset as usize;
        assert!(offset < self.len, "offset {offset} lies past the mapping");
        // SAFETY: the offset is inside the mapping, which is readable. A page that storage cannot
        // deliver raises SIGBUS, which ends this process: the benchmark then reports the row as
        // failed.
        unsafe { self.start.add(offset).read_volatile() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what mmap returned, and no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
    }
}
