//! The error number that a program gets for each failure of the engine.

use foreread_engine::{Error, ErrorKind};
use fuser::Errno;

/// For operations on names.
pub(crate) fn of_name(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::Changed => Errno::ESTALE,
        ErrorKind::PermissionDenied => Errno::EACCES,
        ErrorKind::TimedOut => Errno::ETIMEDOUT,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::Invalid => Errno::EINVAL,
        _ => Errno::EIO,
    }
}

/// For reads of an open file. An object that was removed counts as replaced (ESTALE). Most
/// other failures are EIO.
pub(crate) fn of_read(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::Changed | ErrorKind::NotFound => Errno::ESTALE,
        ErrorKind::PermissionDenied => Errno::EACCES,
        _ => Errno::EIO,
    }
}
