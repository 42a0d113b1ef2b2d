//! What the kernel has of a file in its memory: asked without making it read.
//!
//! A `preadv2` that may not wait tells the same, but on a kernel that reads ahead it has begun the read by then, through the page cache.

#![allow(unsafe_code, reason = "a system call that no library has yet")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `struct cachestat_range` of the kernel.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat` of the kernel, in pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of `[offset, offset + len)` are in the kernel's memory.
///
/// Errors: `NOSYS` before Linux 6.5, `PERM` for a file that this user could not write, and others of file systems that have no pages.
pub(crate) fn pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    let (range, mut counts) = (Range { offset, len }, Counts::default());
    // SAFETY: both point to live memory with the kernel's layout, of which it reads the first and writes the second before it returns.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    match result {
        0 => Ok(counts.cached),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}

/// The call's number: the same on every architecture whose numbers are not shifted, and none of those is built for.
const CACHESTAT: libc::c_long = 451;
