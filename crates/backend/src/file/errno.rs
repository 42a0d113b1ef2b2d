//! The meaning of a system call's error on a file.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Operation};

/// Classifies a system call's error.
pub(super) fn failure(errno: Errno, operation: Operation, object: &str) -> Error {
    let (kind, message) = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => (ErrorKind::NotFound, "no such file".to_owned()),
        Errno::XDEV => (ErrorKind::NotFound, "the symlink leads out of the directory".to_owned()),
        Errno::LOOP => (ErrorKind::NotFound, "its symlinks lead in a circle".to_owned()),
        Errno::ACCESS | Errno::PERM => (ErrorKind::PermissionDenied, errno.to_string()),
        Errno::NOSYS => (ErrorKind::Unsupported, "the kernel has no openat2 (Linux 5.6)".to_owned()),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::STALE => {
            (ErrorKind::Transient, errno.to_string())
        }
        _ => (ErrorKind::Invalid, errno.to_string()),
    };
    Error::new(kind, operation, object, message).with_source(std::io::Error::from(errno))
}
