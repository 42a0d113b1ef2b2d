//! The C library's heap, as a process that serves a mount needs it.

/// Makes the C library give large blocks back when they are freed.
///
/// Left alone it takes the first one freed as a sign to keep all blocks of that size in its heaps, where what a mount frees in one
/// place it takes in another: a resident size of a tenth more than what is in use.
pub(crate) fn return_freed_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number in the C library, before any other thread is there to allocate. No library call does this for us.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) };
}

/// From this size on, 64 KiB, a block has pages of its own.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK_BYTES: libc::c_int = 64 << 10;
