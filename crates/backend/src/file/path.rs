//! Opens files below the root directory, and nothing outside of it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
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
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        // Opening a pipe must not wait for its writer.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    loop {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
            // A rename raced with the resolution of `..` in a symlink.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Opens the object of a key without waiting: if the kernel has its path in memory, on the root's
/// own file system.
pub(super) fn remembered(root: &OwnedFd, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
    if !is_literal(key.as_str()) {
        return Err(Errno::NOENT);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC;
    let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK | OFlags::NOCTTY };
    rustix::fs::openat2(root, key.as_str(), flags, Mode::empty(), resolve)
}

/// Whether the kernel takes the path for its exact text.
pub(super) fn is_literal(path: &str) -> bool {
    !path.split('/').any(|name| matches!(name, "" | "." | ".."))
}
