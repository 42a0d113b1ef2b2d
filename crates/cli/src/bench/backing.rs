//! Makes the machine's free memory real before a run.
//!
//! A virtual machine gives memory that lies free back to its host and gets it again, page by page, when it is touched: up to a second a
//! GiB, spent by whoever fills the page cache first. That is neither the storage nor the client, so it is spent
//! before the clock runs (docs/decisions/0007).

use foreread_workload::{Pattern, Workload};

/// What a run needs besides the data that it reads and the mount's budget.
const REST_BYTES: u64 = 512 << 20;

/// Freed memory is given back again after about two seconds. Where a run takes longer that happens during it, and disturbs it more than
/// cold memory does; so only runs that are short are prepared for.
const MOST_BYTES: u64 = 3 << 30;

/// Touches as much memory as a run of `workload` will fill, and frees it; nothing where that is more than a short run fills.
pub(super) fn restore(workload: &Workload) {
    let data = workload.all_files().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    let filled = data.saturating_add(workload.mount.memory_bytes);
    let bytes = workload.mount.cgroup_bytes.map_or(filled, |limit| filled.min(limit)).saturating_add(REST_BYTES);
    let fills =
        matches!(workload.pattern, Pattern::Sequential { .. } | Pattern::Backward { .. } | Pattern::Interleaved { .. });
    let room = crate::memory::available_bytes().is_some_and(|available| bytes <= available / 2);
    if fills && room && bytes <= MOST_BYTES {
        // Not zero: the kernel has zeros without touching anything.
        drop(std::hint::black_box(vec![1u8; bytes as usize]));
    }
}
