//! How far the kernel reads ahead of a program, for this mount and for each file.
//!
//! ```text
//!   mountinfo: dir ──> 0:50 ── root ──> /sys/class/bdi/0:50/read_ahead_kb
//!                        └──── others: not permitted, the kernel's 128 KiB stay
//!
//!   open of a file ──> its chunks ──> policy: how far ──> read_ahead_kb ──> the answer
//!                                          the kernel copies it to the open file ──┘
//! ```
//!
//! A program's read of more than this arrives in pieces, one after the other: each waits for the
//! one before it. With a longer window it arrives at once, in requests of up to 1 MiB. Policy says
//! how long the window is, and the process that changes the budget of a mount sets it anew.
//!
//! A kernel copies the window of the mount to a file once the open is answered. So a file has the
//! one that is set before the answer. Two opens at once may have that of each other: it is a hint.
//!
//! *Invariant:* nothing here asks the mount. The device's number comes from the table of mounts,
//! not from `stat`: the mount could not answer itself while it is killed.
//!
//! Source: `file_ra_state_init` of Linux; docs/decisions/0058, 0101.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use foreread_policy::{Chunks, kernel_window_bytes};
use parking_lot::Mutex;

use crate::mount_table;

/// The window of a mount of this process.
#[derive(Debug, Default)]
pub(crate) struct KernelWindow {
    /// Where the kernel has it, if this process may set it.
    setting: OnceLock<File>,
    /// Whether it is that of files with chunks now.
    is_of_chunks: Mutex<bool>,
}

impl KernelWindow {
    /// Tells the kernel to read as far ahead in the mount at `dir` as policy asks for with a
    /// budget of so many bytes. It must have accepted the mount: it shortens the window then.
    pub(crate) fn begin(&self, dir: &Path, budget_bytes: u64) {
        let setting = mount_table::resolve(dir).and_then(|point| of(&point));
        told(setting.and_then(|setting| {
            if let Some(bytes) = kernel_window_bytes(budget_bytes, Chunks::None) {
                set(&setting, bytes)?;
            }
            let _ = self.setting.set(setting);
            Ok(())
        }));
    }

    /// A file with these chunks is about to be opened: `answer` lets the kernel go on.
    pub(crate) fn open(&self, chunks: Chunks, budget_bytes: impl Fn() -> u64, answer: impl FnOnce()) {
        let Some(setting) = self.setting.get() else { return answer() };
        let has_chunks = chunks != Chunks::None;
        if !has_chunks && !*self.is_of_chunks.lock() {
            return answer();
        }
        let bytes = kernel_window_bytes(budget_bytes(), chunks).unwrap_or(KERNEL_BYTES);
        let mut is_of_chunks = self.is_of_chunks.lock();
        told(set(setting, bytes));
        *is_of_chunks = has_chunks;
        answer();
    }
}

/// Sets the window of a mount whose budget has changed, and in which `dir` lies.
pub(crate) fn follow(dir: &Path, budget_bytes: u64) {
    let bytes = kernel_window_bytes(budget_bytes, Chunks::None).unwrap_or(KERNEL_BYTES);
    let point = mount_table::around(dir).and_then(|point| point.ok_or_else(|| io::ErrorKind::NotFound.into()));
    told(point.and_then(|point| set(&of(&point)?, bytes)));
}

fn told(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "the kernel's readahead stays as it is");
    }
}

/// Where the kernel has the window of the mount at `point`.
fn of(point: &Path) -> io::Result<File> {
    let mount = mount_table::at(point)?.filter(mount_table::Mount::is_ours);
    let mount = mount.ok_or(io::ErrorKind::NotFound)?;
    File::options().write(true).open(format!("/sys/class/bdi/{}/read_ahead_kb", mount.device))
}

fn set(setting: &File, bytes: u64) -> io::Result<()> {
    setting.write_all_at((bytes / 1024).to_string().as_bytes(), 0)
}

/// The kernel's own window, in bytes. Lower or higher: a mount whose budget was large and is small
/// now has another window than one whose budget was small from the start. Source:
/// `VM_READAHEAD_PAGES` of Linux.
const KERNEL_BYTES: u64 = 128 << 10;
