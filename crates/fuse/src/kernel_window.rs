//! How far the kernel reads ahead of a program, for this mount.
//!
//! ```text
//!   mountinfo: dir ──> 0:50 ── root ──> /sys/class/bdi/0:50/read_ahead_kb
//!                        └──── others: not permitted, the kernel's 128 KiB stay
//! ```
//!
//! A program's read of more than this arrives in pieces, one after the other: each waits for the
//! one before it. With a longer window it arrives at once, in requests of up to 1 MiB. Policy says
//! how long the window is.
//!
//! *Invariant:* nothing here asks the mount. The device's number comes from the table of mounts,
//! not from `stat`: the mount could not answer itself while it is killed.
//!
//! Source: docs/decisions/0058.

use std::io;
use std::path::Path;

use crate::mount_table;

/// Tells the kernel to read at most `bytes` ahead in the mount at `dir`. It must have accepted the
/// mount: it shortens the window then.
pub(crate) fn set(dir: &Path, bytes: u64) -> io::Result<()> {
    let point = mount_table::resolve(dir)?;
    let mount = mount_table::at(&point)?.filter(mount_table::Mount::is_ours);
    let mount = mount.ok_or(io::ErrorKind::NotFound)?;
    std::fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device), (bytes / 1024).to_string())
}
