//! How far the kernel reads ahead of a program, for this mount.
//!
//! ```text
//!   mountinfo: dir ──> 0:50 ── root ──> /sys/class/bdi/0:50/read_ahead_kb
//!                        └──── others: not permitted, the kernel's 128 KiB stay
//! ```
//!
//! A program's read of more than this arrives in pieces, one after the other: each waits for the
//! one before it. With a longer window it arrives at once, in requests of up to 1 MiB.
//!
//! *Invariant:* nothing here asks the mount. The device's number comes from the table of mounts,
//! not from `stat`: the mount could not answer itself while it is killed.
//!
//! Source: docs/decisions/0058.

use std::io;
use std::path::Path;

use crate::mount_table;

/// Tells the kernel how far to read ahead in the mount at `dir`. It must have accepted the mount:
/// it shortens the window then.
pub(crate) fn set(dir: &Path) -> io::Result<()> {
    let point = mount_table::resolve(dir)?;
    let mount = mount_table::at(&point)?.filter(mount_table::Mount::is_ours);
    let mount = mount.ok_or(io::ErrorKind::NotFound)?;
    std::fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device), WINDOW_KIB.to_string())
}

/// The kernel's largest window, in KiB. Lower: a large read of a program, as of a column, is cut
/// into pieces that wait for one another. Higher: the kernel asks for more that is not read, above
/// all around the first hundred faults of a mapping. Source: measured with columns, one and two
/// sequential readers; docs/decisions/0058.
const WINDOW_KIB: u32 = 4096;
