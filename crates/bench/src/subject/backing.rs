//! Makes the machine's free memory real before a run.
//!
//! A virtual machine returns free memory to its host, and gets it back page by page when it is
//! touched. That takes up to a second a GiB, spent by the program that fills the page cache first.
//! It is a cost of neither the storage nor the client, so it is paid before the clock runs
//! (`docs/decisions/0007`).

use foreread_workload::{Pattern, Workload};

use crate::process::usage;

/// Memory that a run needs besides the data that it reads and the mount's budget.
const REST_BYTES: u64 = 512 << 20;

/// The most memory that is touched. The guest returns freed memory after about two seconds. In a
/// longer run, that happens during the run and disturbs it more than cold memory does, so only
/// short runs are prepared.
const MOST_BYTES: u64 = 3 << 30;

/// Touches as much memory as a run of `workload` fills, and frees it. Does nothing for a run that
/// fills more than a short one.
pub(crate) fn restore(workload: &Workload) {
    let data = workload.all_files().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
    let filled = data.saturating_add(workload.mount.memory_bytes);
    let fills =
        matches!(workload.pattern, Pattern::Sequential { .. } | Pattern::Backward { .. } | Pattern::Interleaved { .. });
    if fills {
        touch(workload.mount.cgroup_bytes.map_or(filled, |limit| filled.min(limit)));
    }
}

/// Touches as much memory as a run needs that fills `bytes`, and frees it, unless the run is long.
pub(crate) fn touch(bytes: u64) {
    let bytes = bytes.saturating_add(REST_BYTES);
    let room = usage::available_bytes().is_some_and(|available| bytes <= available / 2);
    if room && bytes <= MOST_BYTES {
        // Not zero: the kernel gives zeros without touching memory.
        drop(std::hint::black_box(vec![1u8; bytes as usize]));
    }
}
