//! The one error type of this crate's boundary.

use std::sync::Arc;

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object, prefix or bucket.
    NotFound,
    /// Credentials are missing, wrong or not allowed to do this.
    PermissionDenied,
    /// The object is no longer the version that was opened.
    Changed,
    /// The storage did not answer within the time allowed.
    TimedOut,
    /// The storage failed, and kept failing while it was retried.
    Io,
    /// The storage cannot do this.
    Unsupported,
    /// The request or the configuration is wrong.
    Invalid,
}

/// A failed operation: the storage refused it, or it took longer than the engine's patience. Cheap
/// to clone: one failure may end many reads.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}")]
pub struct Error {
    kind: ErrorKind,
    cause: Arc<str>,
}

impl Error {
    /// A failure whose text is `cause`.
    pub(crate) fn new(kind: ErrorKind, cause: impl Into<Arc<str>>) -> Self {
        Self { kind, cause: cause.into() }
    }

    /// There is nothing of that name, which `cause` explains.
    pub fn not_found(cause: &str) -> Self {
        Self::new(ErrorKind::NotFound, cause)
    }

    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<foreread_backend::Error> for Error {
    fn from(error: foreread_backend::Error) -> Self {
        use foreread_backend::ErrorKind as Backend;
        let kind = match error.kind() {
            Backend::NotFound => ErrorKind::NotFound,
            Backend::PermissionDenied => ErrorKind::PermissionDenied,
            Backend::Changed => ErrorKind::Changed,
            Backend::Unsupported => ErrorKind::Unsupported,
            Backend::Invalid => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}
