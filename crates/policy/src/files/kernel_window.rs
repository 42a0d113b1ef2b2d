//! How far a kernel should read ahead of a program in a mount.
//!
//! ```text
//!   budget    below 128 MiB    128 MiB   256 MiB   512 MiB   1 GiB and more
//!   window    the kernel's     512 KiB   1 MiB     2 MiB     4 MiB
//! ```
//!
//! What a kernel reads ahead arrives as demand: policy cannot refuse it, and many streams have a
//! window each. So windows grow with the budget: those of 256 streams fill it.
//!
//! This file does not set a window: a mount does, where it is permitted. Source:
//! docs/decisions/0058.

/// The window to ask a kernel for, in bytes; `None` where the kernel's own is to stay.
pub const fn kernel_window_bytes(budget_bytes: u64) -> Option<u64> {
    let share = budget_bytes / STREAMS;
    if share < WINDOW_BYTES_MIN {
        return None;
    }
    let window = 1 << share.ilog2();
    Some(if window < WINDOW_BYTES_MAX { window } else { WINDOW_BYTES_MAX })
}

/// Streams whose windows fill the budget. Lower: a few hundred slow streams evict what they have
/// not read: 200 in 64 MiB with windows of 4 MiB fetched 3.8 times what they read. Higher: a
/// column chunk comes in several windows. Source: docs/decisions/0058.
const STREAMS: u64 = 256;

/// The least window that is asked for, in bytes. Lower: small budgets have longer windows, which
/// spare no round trip of a usual column chunk. Higher: fewer mounts read chunks at once. Source:
/// a guess, not measured.
const WINDOW_BYTES_MIN: u64 = 512 << 10;

/// The longest window, in bytes. Lower: a large read of a program, as of a column, is cut into
/// pieces that wait for one another. Higher: the kernel asks for more that is not read, above all
/// around the first hundred faults of a mapping. Source: measured with columns, one and two
/// sequential readers; docs/decisions/0058.
const WINDOW_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_256_streams_fit_in_any_budget() {
        for mib in [1, 16, 64, 100, 127] {
            assert_eq!(kernel_window_bytes(mib << 20), None, "{mib} MiB");
        }
        for (mib, kib) in [(128, 512), (255, 512), (256, 1024), (1000, 2048), (1024, 4096), (1 << 20, 4096)] {
            assert_eq!(kernel_window_bytes(mib << 20), Some(kib << 10), "{mib} MiB");
        }
    }
}
