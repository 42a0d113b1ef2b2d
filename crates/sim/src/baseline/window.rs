//! Size of the first window and its growth, the same in all kernels since 2.6.

/// The first window of a read of `req` pages: `req` rounded up to a power of two, times four; a
/// smaller factor near `max`.
pub(super) fn initial(req: u64, max: u64) -> u64 {
    let size = req.next_power_of_two();
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

/// The window after one of `size` pages.
pub(super) fn next(size: u64, max: u64) -> u64 {
    let factor = if size < max / 16 { 4 } else { 2 };
    (size * factor).min(max)
}
