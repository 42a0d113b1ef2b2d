//! How far the kernel reads ahead of a program, for this mount.
//!
//! ```text
//!   mountinfo: dir ──> 0:50 ── root ──> /sys/class/bdi/0:50/read_ahead_kb
//!                        └──── others: not permitted, the kernel's 128 KiB stay
//! ```
//!
//! A program's read of more than this arrives in pieces, one after the other: each waits for the
//! one before it. With a longer window it arrives at once, in requests of up to 1 MiB. Policy says
//! how long the window is, and the process that changes the budget of a mount sets it anew.
//!
//! *Invariant:* nothing here asks the mount. The device's number comes from the table of mounts,
//! not from `stat`: the mount could not answer itself while it is killed.
//!
//! Source: docs/decisions/0058.

use std::io;
use std::path::Path;

use foreread_policy::kernel_window_bytes;

use crate::mount_table;

/// Tells the kernel to read as far ahead in the mount at `dir` as policy asks for with a budget of
/// so many bytes. It must have accepted the mount: it shortens the window then.
pub(crate) fn begin(dir: &Path, budget_bytes: u64) {
    if let Some(bytes) = kernel_window_bytes(budget_bytes) {
        told(mount_table::resolve(dir).and_then(|point| set(&point, bytes)));
    }
}

/// The same for a mount whose budget has changed, and in which `dir` lies.
pub(crate) fn follow(dir: &Path, budget_bytes: u64) {
    let bytes = kernel_window_bytes(budget_bytes).unwrap_or(KERNEL_BYTES);
    let point = mount_table::around(dir).and_then(|point| point.ok_or_else(|| io::ErrorKind::NotFound.into()));
    told(point.and_then(|point| set(&point, bytes)));
}

fn told(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "the kernel's readahead stays as it is");
    }
}

fn set(point: &Path, bytes: u64) -> io::Result<()> {
    let mount = mount_table::at(point)?.filter(mount_table::Mount::is_ours);
    let mount = mount.ok_or(io::ErrorKind::NotFound)?;
    std::fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device), (bytes / 1024).to_string())
}

/// The kernel's own window, in bytes. Lower or higher: a mount whose budget was large and is small
/// now has another window than one whose budget was small from the start. Source:
/// `VM_READAHEAD_PAGES` of Linux.
const KERNEL_BYTES: u64 = 128 << 10;
