//! Questions to a mount, by an ioctl on any of its directories: its statistics, what is being read
//! just now, a record of its reads, the announcement of files in the order in which they will be
//! read, and the change of an option.
//!
//! ```text
//!   command ── ioctl(directory, question, text) ──> filesystem.rs ──> engine
//!           <── the answer overwrites the text, and ends with a zero byte
//! ```
//!
//! The question goes to the root of the mount, which waits for no storage.
//!
//! An ioctl needs no name in the file system that an object could have. Every user who may read
//! the directory may ask; only root and the user of the mount's process may change an option.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use foreread_engine::{Order, Wanted};

use crate::error::Error;
use crate::kernel_window;
use crate::mount_table;
use crate::setting::Setting;

/// The longest answer in bytes: the size field of an ioctl's number has 14 bits.
pub(crate) const BYTES_MAX: usize = 16_383;

/// What a mount can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Stats,
    /// Start to record reads. The answer is the recording's number.
    Record,
    /// The reads of the recording with this number since the last such question.
    Recorded,
    /// The same, and the recording ends.
    RecordedLast,
    /// These files will be read, in this order.
    Expect,
    /// An option has another value from now on: a [`Setting`]. The answer is the text again.
    Change,
    /// What is being read just now: of a file, or of all.
    Watch,
}

impl Question {
    const ALL: [Self; 7] =
        [Self::Stats, Self::Record, Self::Recorded, Self::RecordedLast, Self::Expect, Self::Change, Self::Watch];

    /// `_IOR(0xf5, n, char[16383])`, or `_IOWR` where the question has a text.
    const fn command(self) -> u32 {
        let direction = if matches!(self, Self::Stats | Self::Record) { 2 } else { 3 };
        (direction << 30) | ((BYTES_MAX as u32) << 16) | (0xf5 << 8) | (self as u32 + 1)
    }

    pub(crate) fn of(command: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.command() == command)
    }
}

/// Asks the mount at `dir` for its statistics, as JSON.
///
/// Errors: [`Error::NotAMount`] where `dir` is something else, or the mount's process is gone.
pub fn query_stats(dir: &Path) -> Result<String, Error> {
    ask(dir, Question::Stats, b"")
}

/// What the mount at `path` is doing just now, as JSON of a [`foreread_engine::Watched`]: its
/// streams, or those of the file if `path` is one. Of those that are `wanted`, as many as 16 KiB
/// have room for; its own key and number do not count. It is told from what the mount knows: the
/// storage, which may be silent, is not asked what `path` is.
///
/// Errors: as [`query_stats`]; [`Error::Unknown`] for a name that no program has asked the mount
/// for lately.
pub fn query_watched(path: &Path, wanted: &Wanted<'_>) -> Result<String, Error> {
    let not_a_mount = |cause| Error::NotAMount { dir: path.to_owned(), cause };
    if let Ok(Some((root, below))) = mount_table::way_into(path) {
        // Each name in a mount is text.
        let below = below.to_str().ok_or_else(|| Error::Unknown { path: path.to_owned() })?;
        let asked = if below.is_empty() { Asked::All } else { Asked::Path(below) };
        return ask(&root, Question::Watch, text_of(asked, wanted).as_bytes()).map_err(|error| match error {
            Error::NotAMount { cause, .. } if cause.kind() == io::ErrorKind::NotFound => {
                Error::Unknown { path: path.to_owned() }
            }
            error => error,
        });
    }
    let metadata = std::fs::metadata(path).map_err(not_a_mount)?;
    if metadata.is_dir() {
        return ask(path, Question::Watch, text_of(Asked::All, wanted).as_bytes());
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ask(dir, Question::Watch, text_of(Asked::Number(metadata.ino()), wanted).as_bytes())
}

/// The files of which a mount is asked what is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    All,
    /// The file with this inode number.
    Number(u64),
    /// The file at this path below the root of the mount; all of them if that is a directory.
    Path(&'a str),
}

/// The question for these files: an inode number or a path that begins with `/`, the order,
/// whether it is reversed, how many are passed over, and a part of the name, each with a zero byte
/// behind it.
fn text_of(asked: Asked<'_>, wanted: &Wanted<'_>) -> String {
    let order = match wanted.order {
        Order::Rate => "rate",
        Order::Window => "window",
        Order::Late => "late",
        Order::File => "file",
        _ => "idle",
    };
    let asked = match asked {
        Asked::All => String::new(),
        Asked::Number(number) => number.to_string(),
        Asked::Path(path) => format!("/{path}"),
    };
    let (reversed, part) = (u8::from(wanted.is_reversed), wanted.part.replace('\0', ""));
    format!("{asked}\0{order}\0{reversed}\0{}\0{part}\0", wanted.first)
}

/// What such a text asks for. What it lacks, or what is not understood, is as in [`Wanted`]'s
/// default.
pub(crate) fn wanted(text: &[u8]) -> (Asked<'_>, Wanted<'_>) {
    let mut parts = text.split(|&byte| byte == 0).map(|part| std::str::from_utf8(part).unwrap_or_default());
    let mut next = || parts.next().unwrap_or_default();
    let (asked, order, reversed, first, part) = (next(), next(), next(), next(), next());
    let order = match order {
        "rate" => Order::Rate,
        "window" => Order::Window,
        "late" => Order::Late,
        "file" => Order::File,
        _ => Order::Idle,
    };
    let first = first.parse().unwrap_or_default();
    let asked = match (asked.strip_prefix('/'), asked.parse()) {
        (Some(path), _) => Asked::Path(path),
        (None, Ok(number)) => Asked::Number(number),
        (None, Err(_)) => Asked::All,
    };
    (asked, Wanted::default().with_order(order, reversed == "1").with_first(first).with_part(part))
}

/// Starts to record the reads of the mount at `dir`. Returns the recording's number.
///
/// Errors: as [`query_stats`]; [`Error::Busy`] where another recording is made.
pub fn start_recording(dir: &Path) -> Result<u64, Error> {
    number(dir, &ask(dir, Question::Record, b"")?)
}

/// The reads of a recording since the last call, as JSON of a [`foreread_engine::Recorded`]. The
/// recording ends with `last`, once all is delivered, or after five seconds without a call.
///
/// Errors: as [`query_stats`]; [`Error::Ended`] where the recording has ended.
pub fn query_recorded(dir: &Path, recording: u64, last: bool) -> Result<String, Error> {
    let question = if last { Question::RecordedLast } else { Question::Recorded };
    ask(dir, question, format!("{recording}\0").as_bytes())
}

/// Announces that the files with these paths below `dir`, a directory of a mount, will be read one
/// after the other. The first are fetched now, the others as readers advance. Returns how many of
/// the files exist.
///
/// Errors: as [`query_stats`]; [`Error::NotAMount`] also for a path of 16 KiB.
pub fn expect_files<'a>(dir: &Path, paths: impl IntoIterator<Item = &'a str>) -> Result<u64, Error> {
    let (mut known, mut text) = (0, Vec::new());
    let tell = |text: &mut Vec<u8>| -> Result<u64, Error> {
        let answer = ask(dir, Question::Expect, text)?;
        text.clear();
        number(dir, &answer)
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

/// Changes an option of the mount at `dir`. It holds at once. Of a budget, where this process may,
/// how far the kernel reads ahead follows it.
///
/// Errors: as [`query_stats`]; [`Error::TooLittle`] below the least budget; [`Error::NoLog`] for
/// the level of a log that the mount does not write; [`Error::NotYours`] where neither root nor
/// the user of the mount's process asks.
pub fn change(dir: &Path, setting: Setting) -> Result<(), Error> {
    ask(dir, Question::Change, format!("{setting}\0").as_bytes())?;
    if let Setting::MemoryBytes(bytes) = setting {
        kernel_window::follow(dir, bytes);
    }
    Ok(())
}

/// The number that an answer is.
fn number(dir: &Path, answer: &str) -> Result<u64, Error> {
    answer.parse().map_err(|_| Error::NotAMount { dir: dir.to_owned(), cause: io::ErrorKind::InvalidData.into() })
}

/// The number that a text of [`query_recorded`] is.
pub(crate) fn number_in(text: &[u8]) -> Option<u64> {
    let digits = text.split(|&byte| byte == 0).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The paths of a text that [`expect_files`] has sent.
pub(crate) fn paths(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|&byte| byte == 0).filter_map(|path| std::str::from_utf8(path).ok()).filter(|path| !path.is_empty())
}

fn ask(dir: &Path, question: Question, text: &[u8]) -> Result<String, Error> {
    let not_a_mount = |cause| Error::NotAMount { dir: dir.to_owned(), cause };
    // To open a directory in the mount may wait for its listing. Paths are from that directory.
    let root = if question == Question::Expect { None } else { mount_table::around(dir).ok().flatten() };
    let file = File::open(root.as_deref().unwrap_or(dir)).map_err(not_a_mount)?;
    let mut answer = vec![0u8; BYTES_MAX];
    let Some(asked) = answer.get_mut(..text.len()) else {
        return Err(not_a_mount(io::Error::new(io::ErrorKind::InvalidInput, "a path is too long")));
    };
    asked.copy_from_slice(text);
    // SAFETY: the command's number says that the kernel reads and writes at most BYTES_MAX bytes
    // at the pointer, and `answer` has that many. No library wraps this command.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(question.command()), answer.as_mut_ptr()) };
    if result < 0 {
        let cause = io::Error::last_os_error();
        return Err(match cause.kind() {
            io::ErrorKind::ResourceBusy => Error::Busy { dir: dir.to_owned() },
            io::ErrorKind::StaleNetworkFileHandle => Error::Ended { dir: dir.to_owned() },
            io::ErrorKind::PermissionDenied if question == Question::Change => Error::NotYours { dir: dir.to_owned() },
            io::ErrorKind::InvalidInput if question == Question::Change => Error::TooLittle { dir: dir.to_owned() },
            io::ErrorKind::NotFound if question == Question::Change => Error::NoLog { dir: dir.to_owned() },
            _ => not_a_mount(cause),
        });
    }
    let len = answer.iter().position(|&b| b == 0).unwrap_or(BYTES_MAX);
    answer.truncate(len);
    String::from_utf8(answer).map_err(|e| not_a_mount(io::Error::new(io::ErrorKind::InvalidData, e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_payload_of_an_ioctl() {
        let seeds: [&[u8]; 5] = [
            b"17\0",
            b"a/b\0c d\0\0",
            b"18446744073709551615\0rest",
            b"17\0late\x001\x005\0part\0",
            b"/a/b\0rate\x000\x000\0\0",
        ];
        foreread_fuzz::fuzz("payload of an ioctl", &seeds, &["\0", "../", "/", "a"], |text| {
            let digits = text.split(|&byte| byte == 0).next().unwrap_or_default();
            assert!(number_in(text).is_none_or(|number| digits.ends_with(number.to_string().as_bytes())));
            for path in paths(text) {
                assert!(!path.is_empty() && !path.contains('\0'), "{path:?}");
            }
            let (number, asked) = wanted(text);
            let again = text_of(number, &asked);
            let (number_again, asked_again) = wanted(again.as_bytes());
            assert_eq!((number, format!("{asked:?}")), (number_again, format!("{asked_again:?}")), "{again:?}");
            let command = text.iter().fold(0u32, |command, byte| (command << 8) | u32::from(*byte));
            assert!(Question::of(command).is_none_or(|question| question.command() == command));
        });
    }
}
