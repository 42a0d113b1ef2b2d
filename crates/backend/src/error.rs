//! The error type of this crate.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Making the backend: the URL, credentials, certificates.
    Configure,
    /// Describing one object.
    Stat,
    /// Reading a range.
    Read,
    /// Listing a prefix.
    List,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configure => "configure",
            Self::Stat => "stat",
            Self::Read => "read",
            Self::List => "list",
        })
    }
}

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object (or bucket). Retrying does not help.
    NotFound,
    /// Credentials are missing, wrong or not allowed to do this. Retrying does not help.
    PermissionDenied,
    /// The object is no longer the version that was asked for.
    Changed,
    /// The storage asks for fewer requests (429, 503). Retry, not before [`Error::retry_after`].
    Throttled,
    /// A fault that may pass: 5xx, a reset, a stall, a truncated body, a response that contradicts
    /// itself. Retry.
    Transient,
    /// The storage cannot do this at all (archived object, no range support, transcoded body).
    /// Retrying does not help.
    Unsupported,
    /// The request or the configuration is wrong. Retrying does not help.
    Invalid,
}

impl ErrorKind {
    /// Whether another attempt at the same request may succeed.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Transient)
    }
}

/// A failed operation on one object or prefix. Its text never holds a credential or a signed URL.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {object}{}: {message}", .extent.as_ref().map(|e| format!(" [{}, {})", e.start, e.end)).unwrap_or_default())]
pub struct Error {
    kind: ErrorKind,
    operation: Operation,
    object: String,
    extent: Option<Range<u64>>,
    retry_after: Option<Duration>,
    message: String,
}

impl Error {
    /// A failure of `operation` on `object`; `message` names the cause.
    pub fn new(kind: ErrorKind, operation: Operation, object: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, operation, object: object.into(), extent: None, retry_after: None, message: message.into() }
    }

    /// The same failure, of a read of `extent` (bytes).
    #[must_use]
    pub fn with_extent(mut self, extent: Range<u64>) -> Self {
        self.extent = Some(extent);
        self
    }

    /// The same failure, with the storage's wish for the earliest retry.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.retry_after = after;
        self
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation that failed.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The object's key, or the prefix.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// The cause in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long the storage asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}
