//! How much of a file is in the kernel's page cache: asked without starting a read (cachestat).
//!
//! A `preadv2` with `RWF_NOWAIT` shows this too, but on a kernel that reads ahead it has by then
//! started a read through the page cache.

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

/// How many pages of `[offset, offset + len)` are in the kernel's page cache.
///
/// Errors: `NOSYS` before Linux 6.5; `PERM` for a file that this user may not write; others from
/// file systems that have no pages.
pub(crate) fn pages(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<u64, Errno> {
    let (range, mut counts) = (Range { offset, len }, Counts::default());
    // SAFETY: both pointers are to live memory with the kernel's layout. The kernel reads the
    // first and writes the second before the call returns.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    match result {
        0 => Ok(counts.cached),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOSYS)),
    }
}

/// The number of `cachestat`: the same on all architectures but a few that shift their numbers,
/// which this is not built for.
const CACHESTAT: libc::c_long = 451;
