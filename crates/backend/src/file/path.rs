//! Opens files below the root directory, and nothing outside of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::errno::failure;
use crate::error::{Error, Operation};
use crate::object::Key;

/// Opens the object of a key. Other spellings of its path (`a//b`, `./a`, `a/`) name no object.
pub(super) fn open_file(root: &OwnedFd, key: &Key, flags: OFlags, operation: Operation) -> Result<OwnedFd, Error> {
    if !is_literal(key.as_str()) {
        return Err(failure(Errno::NOENT, operation, key.as_str()));
    }
    beneath(root, key.as_str(), flags).map_err(|e| failure(e, operation, key.as_str()))
}

/// Opens a path below the root. May wait for the disk.
pub(super) fn beneath(root: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve(root.as_fd(), path, flags, ResolveFlags::empty())
}

/// Opens the object of a key without waiting: if the kernel has its path in memory, on the root's
/// own file system.
pub(super) fn remembered(root: &OwnedFd, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
    if !is_literal(key.as_str()) {
        return Err(Errno::NOENT);
    }
    resolve(root.as_fd(), key.as_str(), flags, ResolveFlags::CACHED | ResolveFlags::NO_XDEV)
}

/// Opens a path below the root. A path that comes through a link to a directory that it has come
/// through already leads in a circle, and names nothing: `find` would never end.
fn resolve(root: BorrowedFd<'_>, path: &str, flags: OFlags, how: ResolveFlags) -> Result<OwnedFd, Errno> {
    match open(root, path, flags, how | ResolveFlags::NO_SYMLINKS) {
        Err(Errno::LOOP) if is_circle(root, path, how)? => Err(Errno::LOOP),
        Err(Errno::LOOP) => open(root, path, flags, how),
        result => result,
    }
}

/// Whether two beginnings of the path are one directory.
fn is_circle(root: BorrowedFd<'_>, path: &str, how: ResolveFlags) -> Result<bool, Errno> {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let mut passed = vec![identity(&rustix::fs::fstat(root)?)];
    for end in ends {
        let stat = rustix::fs::fstat(open(root, &path[..end], OFlags::PATH, how)?)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            if passed.contains(&identity(&stat)) {
                return Ok(true);
            }
            passed.push(identity(&stat));
        }
    }
    Ok(false)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn open(root: BorrowedFd<'_>, path: &str, flags: OFlags, how: ResolveFlags) -> Result<OwnedFd, Errno> {
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        // Opening a pipe must not wait for its writer.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    let how = how | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), how) {
            // A rename raced with the resolution of `..` in a symlink.
            Err(Errno::AGAIN) if !how.contains(ResolveFlags::CACHED) => {}
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Whether the kernel takes the path for its exact text.
pub(super) fn is_literal(path: &str) -> bool {
    !path.split('/').any(|name| matches!(name, "" | "." | ".."))
}
