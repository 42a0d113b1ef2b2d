//! The C library's heap, as a process that serves a mount needs it.

/// Makes the C library return large blocks to the kernel when they are freed.
///
/// By default, after the first such block is freed, the library keeps blocks of that size in its
/// heaps. A mount frees in one heap and allocates in another, which makes its resident size a
/// tenth larger than what is in use.
pub(crate) fn return_freed_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number in the C library, before another thread exists that could allocate.
    // rustix has no such call.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) };
}

/// From this size on, 64 KiB, a block has pages of its own, which are returned. Lower, and more
/// allocations are system calls; higher, and more freed memory stays resident.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK_BYTES: libc::c_int = 64 << 10;
