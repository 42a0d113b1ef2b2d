//! The engine's statistics, asked of a mount by an ioctl on any of its directories: no name is taken from the objects, and whoever
//! may read the directory may read these.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::Error;

/// The longest answer: the size field of an ioctl number has 14 bits.
pub(crate) const BYTES_MAX: usize = 16_383;

/// `_IOR(0xf5, 1, char[16383])`.
pub(crate) const COMMAND: u32 = (2 << 30) | ((BYTES_MAX as u32) << 16) | (0xf5 << 8) | 1;

/// Asks the mount at `dir` for its statistics: JSON text.
///
/// Errors: [`Error::NotAMount`] where `dir` is something else, or the mount's process is gone.
pub fn query_stats(dir: &Path) -> Result<String, Error> {
    let not_a_mount = |cause| Error::NotAMount { dir: dir.to_owned(), cause };
    let file = File::open(dir).map_err(not_a_mount)?;
    let mut answer = vec![0u8; BYTES_MAX];
    // SAFETY: the command's number says that the kernel writes at most BYTES_MAX bytes to the pointer, and `answer` has as
    // many. There is no safe wrapper for a command of our own.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(COMMAND), answer.as_mut_ptr()) };
    if result < 0 {
        return Err(not_a_mount(io::Error::last_os_error()));
    }
    let len = answer.iter().position(|&b| b == 0).unwrap_or(BYTES_MAX);
    answer.truncate(len);
    String::from_utf8(answer).map_err(|e| not_a_mount(io::Error::new(io::ErrorKind::InvalidData, e)))
}
