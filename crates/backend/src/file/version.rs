//! The version of a file, from `fstat`.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

use super::errno::failure;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, Version};

/// The version of an open file.
pub(super) fn look(file: &OwnedFd, key: &Key, operation: Operation) -> Result<Version, Error> {
    let stat = rustix::fs::fstat(file).map_err(|e| failure(e, operation, key.as_str()))?;
    version(&stat).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, operation, key.as_str(), "this is a directory or a special file, not an object")
    })
}

/// The version of a regular file.
pub(super) fn version(stat: &Stat) -> Option<Version> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let (seconds, nanos) = (stat.st_mtime, stat.st_mtime_nsec);
    let mtime = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let ctime = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    let tag = format!("{:x}-{:x}-{mtime:x}-{ctime:x}", stat.st_dev, stat.st_ino);
    let since = |seconds: i64| Duration::new(seconds.unsigned_abs(), 0);
    let modified = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(since(seconds))
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since(seconds))
    };
    let modified = modified.and_then(|time| time.checked_add(Duration::from_nanos(nanos)));
    Some(Version { size: stat.st_size as u64, tag: Some(tag.into()), modified })
}
