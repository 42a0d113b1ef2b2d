//! The error type of this crate: the class of a failure, its operation, its object, and its cause.
//!
//! The text of an [`Error`] names its cause in words. [`std::error::Error::source`] gives the same
//! cause as a value where there is one, so print either the text or the chain of sources.

use std::error::Error as StdError;
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
    /// The credentials are known, or none are needed, and this is not allowed. Retrying does not
    /// help.
    PermissionDenied,
    /// Credentials are missing, wrong or expired, so nothing is allowed. Retrying does not help.
    Unauthenticated,
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
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    operation: Operation,
    key: String,
    extent: Option<Range<u64>>,
    retry_after: Option<Duration>,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure of `operation` on `key`; `message` names the cause.
    pub fn new(kind: ErrorKind, operation: Operation, key: impl Into<String>, message: impl Into<String>) -> Self {
        let (key, message) = (key.into(), message.into());
        Self { kind, operation, key, extent: None, retry_after: None, message, source: None }
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

    /// The same failure, with the error that caused it. Neither text may hold a credential or a
    /// signed URL.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
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

    /// The object's key or the prefix; of [`Operation::Configure`] the URL or the path, without
    /// secrets.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The cause in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether another attempt at the same request may succeed.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }

    /// How long the storage asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.key)?;
        if let Some(extent) = &self.extent {
            write!(f, " [{}, {})", extent.start, extent.end)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_cause_its_key_and_whether_to_retry() {
        let cause = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let error = Error::new(ErrorKind::Throttled, Operation::Read, "a/b", "slow down").with_source(cause);
        let error = error.with_extent(0..10);
        assert_eq!(error.to_string(), "read a/b [0, 10): slow down");
        assert_eq!((error.key(), error.is_retryable()), ("a/b", true));
        let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
        assert_eq!(cause, Some(std::io::ErrorKind::ConnectionReset));
        assert!(!Error::new(ErrorKind::NotFound, Operation::Stat, "a", "gone").is_retryable());
    }
}
