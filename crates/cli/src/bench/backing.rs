//! Makes the machine's free memory real before a run.
//!
//! A virtual machine gives memory that lies free back to its host and gets it again, page by page, when it is touched: up to a second a
//! GiB, spent by whoever fills the page cache first. That is neither the storage nor the client, so it is spent
//! before the clock runs (docs/decisions/0007).

use foreread_workload::Workload;

/// What a run needs besides the data that it reads and the mount's budget.
const REST_BYTES: u64 = 512 << 20;

/// Touches as much memory as a run of `workload` may fill, up to half of what is available, and frees it.
pub(super) fn restore(workload: &Workload) {
    let data = workload.files.size_bytes.saturating_mul(u64::from(workload.files.count));
    let data = workload.mount.cgroup_bytes.map_or(data, |cgroup| data.min(cgroup));
    let wanted = data.saturating_add(workload.mount.memory_bytes).saturating_add(REST_BYTES);
    let bytes = wanted.min(crate::memory::available_bytes().unwrap_or(0) / 2);
    // Not zero: the kernel has zeros without touching anything.
    drop(std::hint::black_box(vec![1u8; bytes as usize]));
}
