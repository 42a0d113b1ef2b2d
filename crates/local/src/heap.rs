//! Memory of the C library's heap that is free, given back to the kernel.
//!
//! Small blocks that are freed among others stay resident: the library gives back only the end of
//! a heap. After many blocks have gone at once, as when a budget is made smaller, whole pages of
//! free blocks go back on request. The library does that heap by heap, and a thread that allocates
//! in one of them waits meanwhile.

#![allow(unsafe_code, reason = "a call of the C library")]

/// Gives free pages of the heap back to the kernel, where the C library can do that. Takes time
/// with the size of the heap: not for each block.
pub fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes no block that is in use. rustix has no such call.
    let _ = unsafe { libc::malloc_trim(0) };
}
