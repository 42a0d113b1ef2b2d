//! The engine's errors as Python's.
//!
//! | kind | exception | errno |
//! |---|---|---|
//! | not found | `FileNotFoundError` | `ENOENT` |
//! | permission denied | `PermissionError` | `EACCES` |
//! | changed | `foreread.VersionChanged` | `ESTALE` |
//! | timed out | `TimeoutError` | `ETIMEDOUT` |
//! | throttled | `OSError` | `EBUSY` |
//! | input or output | `OSError` | `EIO` |
//! | unsupported | `OSError` | `EOPNOTSUPP` |
//! | invalid | `ValueError` | |
//!
//! The text is the engine's, which names the cause; `filename` is the key.

use foreread::{Error, ErrorKind};
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyPermissionError, PyTimeoutError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    foreread,
    VersionChanged,
    PyOSError,
    "The object is no longer the version that was opened (errno ESTALE). Open it again to read the new one."
);

/// `error` as Python's.
pub(crate) fn raised(error: &Error) -> PyErr {
    let (text, key) = (error.to_string(), error.key().map(str::to_owned));
    match error.kind() {
        ErrorKind::NotFound => PyFileNotFoundError::new_err((libc::ENOENT, text, key)),
        ErrorKind::PermissionDenied => PyPermissionError::new_err((libc::EACCES, text, key)),
        ErrorKind::Changed => VersionChanged::new_err((libc::ESTALE, text, key)),
        ErrorKind::TimedOut => PyTimeoutError::new_err((libc::ETIMEDOUT, text, key)),
        ErrorKind::Throttled => PyOSError::new_err((libc::EBUSY, text, key)),
        ErrorKind::Unsupported => PyOSError::new_err((libc::EOPNOTSUPP, text, key)),
        ErrorKind::Invalid => PyValueError::new_err(text),
        // `Io`, and kinds that this crate does not know yet.
        _ => PyOSError::new_err((libc::EIO, text, key)),
    }
}

/// The engine ended while it was waited for: the interpreter is about to exit.
pub(crate) fn stopped() -> PyErr {
    PyOSError::new_err((libc::EIO, "the engine has been shut down"))
}
