//! What a mount can be asked, by an ioctl on any of its directories: its statistics, what is read, and to
//! have files ready in an order. No name is taken from the
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
    /// Have these files ready, in this order.
    Expect,
}

impl Question {
    const ALL: [Self; 5] = [Self::Stats, Self::Record, Self::Recorded, Self::RecordedLast, Self::Expect];

    /// `_IOR(0xf5, n, char[16383])`, or `_IOWR` where the question has a text.
    const fn command(self) -> u32 {
        let direction = if matches!(self, Self::Expect) { 3 } else { 2 };
        (direction << 30) | ((BYTES_MAX as u32) << 16) | (0xf5 << 8) | (self as u32 + 1)
    }

    pub(crate) fn of(command: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.command() == command)
    }
}

/// Asks the mount at `dir` for its statistics: JSON text.
///
/// Errors: [`Error::NotAMount`] where `dir` is something else, or the mount's process is gone.
pub fn query_stats(dir: &Path) -> Result<String, Error> {
    ask(dir, Question::Stats, b"")
}

/// Starts to record what is read through the mount at `dir`.
///
/// Errors: as [`query_stats`]; [`Error::Busy`] where somebody else records.
pub fn start_recording(dir: &Path) -> Result<(), Error> {
    ask(dir, Question::Record, b"").map(drop)
}

/// What has been read since this was last asked: JSON of a [`foreread_engine::Recorded`]. `last` ends the recording once there is no
/// more; so does not asking for five seconds.
///
/// Errors: as [`query_stats`].
pub fn query_recorded(dir: &Path, last: bool) -> Result<String, Error> {
    ask(dir, if last { Question::RecordedLast } else { Question::Recorded }, b"")
}

/// Says that the files with these paths below `dir`, a directory of a mount, will be read one after the other: the first are fetched now,
/// the others as readers come by. How many of them there are.
///
/// Errors: as [`query_stats`]; [`Error::NotAMount`] also for a path of 16 KiB.
pub fn expect_files<'a>(dir: &Path, paths: impl IntoIterator<Item = &'a str>) -> Result<u64, Error> {
    let (mut known, mut text) = (0, Vec::new());
    let tell = |text: &mut Vec<u8>| -> Result<u64, Error> {
        let answer = ask(dir, Question::Expect, text)?;
        text.clear();
        answer.parse().map_err(|_| Error::NotAMount { dir: dir.to_owned(), cause: io::ErrorKind::InvalidData.into() })
    };
    for path in paths {
        if text.len() + path.len() + 1 >= BYTES_MAX {
            known += tell(&mut text)?;
        }
        text.extend_from_slice(path.as_bytes());
        text.push(0);
    }
    Ok(known + tell(&mut text)?)
}

/// The paths that [`expect_files`] has sent.
pub(crate) fn paths(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|&byte| byte == 0).filter_map(|path| std::str::from_utf8(path).ok()).filter(|path| !path.is_empty())
}

fn ask(dir: &Path, question: Question, text: &[u8]) -> Result<String, Error> {
    let not_a_mount = |cause| Error::NotAMount { dir: dir.to_owned(), cause };
    let file = File::open(dir).map_err(not_a_mount)?;
    let mut answer = vec![0u8; BYTES_MAX];
    let Some(asked) = answer.get_mut(..text.len()) else {
        return Err(not_a_mount(io::Error::new(io::ErrorKind::InvalidInput, "a path is too long")));
    };
    asked.copy_from_slice(text);
    // SAFETY: the command's number says that the kernel reads and writes at most BYTES_MAX bytes at the pointer, and `answer` has as
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
