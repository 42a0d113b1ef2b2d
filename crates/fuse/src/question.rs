//! What a mount can be asked, by an ioctl on any of its directories: its statistics, and what is read. No name is taken from the
//! objects, and whoever may read the directory may ask.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::Error;

/// The longest answer: the size field of an ioctl number has 14 bits.
pub(crate) const BYTES_MAX: usize = 16_383;

/// What a mount can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Stats,
    /// Start to record what is read.
    Record,
    /// What has been read since.
    Recorded,
    /// The same, for the last time.
    RecordedLast,
}

impl Question {
    const ALL: [Self; 4] = [Self::Stats, Self::Record, Self::Recorded, Self::RecordedLast];

    /// `_IOR(0xf5, n, char[16383])`.
    const fn command(self) -> u32 {
        (2 << 30) | ((BYTES_MAX as u32) << 16) | (0xf5 << 8) | (self as u32 + 1)
    }

    pub(crate) fn of(command: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.command() == command)
    }
}

/// Asks the mount at `dir` for its statistics: JSON text.
///
/// Errors: [`Error::NotAMount`] where `dir` is something else, or the mount's process is gone.
pub fn query_stats(dir: &Path) -> Result<String, Error> {
    ask(dir, Question::Stats)
}

/// Starts to record what is read through the mount at `dir`.
///
/// Errors: as [`query_stats`]; [`Error::Busy`] where somebody else records.
pub fn start_recording(dir: &Path) -> Result<(), Error> {
    ask(dir, Question::Record).map(drop)
}

/// What has been read since this was last asked: JSON of a [`foreread_engine::Recorded`]. `last` ends the recording once there is no
/// more; so does not asking for five seconds.
///
/// Errors: as [`query_stats`].
pub fn query_recorded(dir: &Path, last: bool) -> Result<String, Error> {
    ask(dir, if last { Question::RecordedLast } else { Question::Recorded })
}

fn ask(dir: &Path, question: Question) -> Result<String, Error> {
    let not_a_mount = |cause| Error::NotAMount { dir: dir.to_owned(), cause };
    let file = File::open(dir).map_err(not_a_mount)?;
    let mut answer = vec![0u8; BYTES_MAX];
    // SAFETY: the command's number says that the kernel writes at most BYTES_MAX bytes to the pointer, and `answer` has as
    // many. There is no safe wrapper for a command of our own.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(question.command()), answer.as_mut_ptr()) };
    if result < 0 {
        let cause = io::Error::last_os_error();
        let busy = cause.kind() == io::ErrorKind::ResourceBusy;
        return Err(if busy { Error::Busy { dir: dir.to_owned() } } else { not_a_mount(cause) });
    }
    let len = answer.iter().position(|&b| b == 0).unwrap_or(BYTES_MAX);
    answer.truncate(len);
    String::from_utf8(answer).map_err(|e| not_a_mount(io::Error::new(io::ErrorKind::InvalidData, e)))
}
