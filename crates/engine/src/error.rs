//! The error type of this crate: the class of a failure, its object, its cause, and whether to try
//! again.
//!
//! The text of an [`Error`] names its cause in words. [`std::error::Error::source`] gives the
//! storage's error as a value where there is one, so print either the text or the chain of
//! sources.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

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
    /// The storage asked for fewer requests, and kept asking while the request was retried.
    Throttled,
    /// The storage failed, and kept failing while it was retried.
    Io,
    /// The storage cannot do this.
    Unsupported,
    /// The request or the configuration is wrong.
    Invalid,
}

/// A failed operation: the storage refused it, or it took longer than the engine's patience. Cheap
/// to clone: one failure may end many reads.
///
/// ```
/// # use foreread_engine::Error;
/// # fn read() -> Result<(), Error> { Err(Error::not_found("no such object")) }
/// if let Err(error) = read() {
///     eprintln!("{error}; try again: {}, key: {:?}", error.is_retryable(), error.key());
/// }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Failed>);

#[derive(Debug, Clone)]
struct Failed {
    kind: ErrorKind,
    text: Box<str>,
    key: Option<Box<str>>,
    retryable: bool,
    /// A consequence of another failure, or of the end of the engine.
    given_up: bool,
    retry_after: Option<Duration>,
    source: Option<Arc<foreread_backend::Error>>,
}

impl Error {
    /// A failure whose text is `text`.
    pub(crate) fn new(kind: ErrorKind, text: impl Into<Box<str>>) -> Self {
        let retryable = matches!(kind, ErrorKind::TimedOut | ErrorKind::Throttled);
        let text = text.into();
        Self(Arc::new(Failed { kind, text, key: None, retryable, given_up: false, retry_after: None, source: None }))
    }

    /// There is nothing of that name, which `cause` explains.
    pub fn not_found(cause: &str) -> Self {
        Self::new(ErrorKind::NotFound, cause)
    }

    /// A failure that another process tells of: what is known of it there, but for its cause as a
    /// value.
    pub fn told(kind: ErrorKind, text: &str, key: Option<&str>, retryable: bool) -> Self {
        let (text, key) = (text.into(), key.map(Into::into));
        Self(Arc::new(Failed { kind, text, key, retryable, given_up: false, retry_after: None, source: None }))
    }

    /// The same failure, of this object or prefix.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        Arc::make_mut(&mut self.0).key = Some(key.into());
        self
    }

    /// The same failure, which may pass.
    pub(crate) fn with_retry(mut self) -> Self {
        Arc::make_mut(&mut self.0).retryable = true;
        self
    }

    /// The same failure, of what was given up because of another one: where a read has both, the
    /// other one is its error.
    pub(crate) fn with_given_up(mut self) -> Self {
        Arc::make_mut(&mut self.0).given_up = true;
        self
    }

    /// The same failure in other words.
    pub(crate) fn with_text(mut self, text: impl Into<Box<str>>) -> Self {
        Arc::make_mut(&mut self.0).text = text.into();
        self
    }

    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The key of the object, or the prefix, that it is about. None where it is about neither.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Whether the same operation may succeed later. The engine itself has retried it within its
    /// [`crate::Patience`].
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// Whether the storage knows the credentials, or needs none, and does not allow this.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.0.source.as_ref().is_some_and(|source| source.kind() == foreread_backend::ErrorKind::PermissionDenied)
    }

    /// Whether it is of what was given up because of another failure.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.given_up
    }

    /// How long the storage asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { kind, text, key, retryable, source, .. } = &*self.0;
        let mut shown = f.debug_struct("Error");
        shown.field("kind", kind).field("text", text).field("key", key).field("retryable", retryable);
        shown.field("source", source).finish_non_exhaustive()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

impl From<foreread_backend::Error> for Error {
    fn from(error: foreread_backend::Error) -> Self {
        use foreread_backend::ErrorKind as Backend;
        let kind = match error.kind() {
            Backend::NotFound => ErrorKind::NotFound,
            Backend::PermissionDenied | Backend::Unauthenticated => ErrorKind::PermissionDenied,
            Backend::Changed => ErrorKind::Changed,
            Backend::Throttled => ErrorKind::Throttled,
            Backend::Unsupported => ErrorKind::Unsupported,
            Backend::Invalid => ErrorKind::Invalid,
            // `Transient`, and kinds that this crate does not know yet.
            _ => ErrorKind::Io,
        };
        Self(Arc::new(Failed {
            kind,
            text: error.to_string().into(),
            key: Some(error.key().into()),
            retryable: error.is_retryable(),
            given_up: false,
            retry_after: error.retry_after(),
            source: Some(Arc::new(error)),
        }))
    }
}

impl From<Error> for io::Error {
    /// An [`io::Error`] of the nearest kind, with the error inside.
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            ErrorKind::Changed => io::ErrorKind::StaleNetworkFileHandle,
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            ErrorKind::Throttled => io::ErrorKind::ResourceBusy,
            ErrorKind::Io => io::ErrorKind::Other,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Invalid => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use foreread_backend::{ErrorKind as Backend, Operation};

    use super::*;

    fn told(kind: Backend) -> Error {
        foreread_backend::Error::new(kind, Operation::Read, "a/b", "so it is").into()
    }

    #[test]
    fn what_the_storage_says_is_kept() {
        let error = told(Backend::Throttled);
        assert_eq!((error.kind(), error.key(), error.is_retryable()), (ErrorKind::Throttled, Some("a/b"), true));
        assert_eq!(error.to_string(), "read a/b: so it is");
        let source = error.source().and_then(|source| source.downcast_ref::<foreread_backend::Error>());
        assert_eq!(source.map(foreread_backend::Error::kind), Some(Backend::Throttled));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn only_what_may_pass_is_worth_a_retry() {
        for kind in [
            Backend::NotFound,
            Backend::PermissionDenied,
            Backend::Unauthenticated,
            Backend::Changed,
            Backend::Unsupported,
        ] {
            assert!(!told(kind).is_retryable(), "{kind:?}");
        }
        assert!(told(Backend::PermissionDenied).is_forbidden() && !told(Backend::Unauthenticated).is_forbidden());
        assert_eq!(told(Backend::Unauthenticated).kind(), ErrorKind::PermissionDenied);
        assert!(told(Backend::Transient).is_retryable());
        assert!(!Error::new(ErrorKind::Io, "the engine has been shut down").is_retryable());
        assert!(Error::new(ErrorKind::TimedOut, "silence").is_retryable());
    }

    #[test]
    fn other_words_keep_the_rest() {
        let error = told(Backend::Transient).with_text("after 3 attempts");
        assert_eq!((error.to_string(), error.key()), ("after 3 attempts".to_owned(), Some("a/b")));
        assert!(error.source().is_some());
    }
}
