//! The first contact with storage: does it answer, and what does a URL name there?
//!
//! ```text
//!   path ── ends in `/`, or empty? ── no ──> stat ── found ──────────────────────> Target::Object
//!              └ yes ──> list <── not found, or only a listing is allowed ─┘
//!                         └── something is there, or the bucket is empty ──> Target::Prefix
//! ```
//!
//! The contact is bounded in total ([`CONTACT_MAX`]) and repeats a request that may succeed later,
//! so a user learns within seconds that a bucket is missing, credentials are wrong, or an endpoint
//! is silent. The engine's own patience is longer: it serves readers that are in the middle of
//! their work.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use foreread_backend::{Backend, Error, ErrorKind, Key, Object};
use tokio::time::{Instant, sleep, timeout_at};

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Everything below a prefix: empty, or ending in `/`.
    Prefix(String),
    /// A single object.
    Object(Object),
}

/// Why the first contact failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ContactError {
    /// There is no object of this key, and the storage lists nothing or was not to be asked for a
    /// listing.
    ObjectMissing {
        /// The key.
        key: String,
    },
    /// The storage answers, and has neither an object nor a prefix of this name.
    NothingThere {
        /// The prefix.
        key: String,
    },
    /// No verdict within the time of a first contact.
    Silent {
        /// The key or the prefix.
        key: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The last attempt's error. [`ErrorKind::NotFound`] says that the bucket is missing.
    Failed(Error),
}

impl ContactError {
    /// The key, the prefix, or the URL that it is about.
    pub fn key(&self) -> &str {
        match self {
            Self::ObjectMissing { key } | Self::NothingThere { key } | Self::Silent { key, .. } => key,
            Self::Failed(error) => error.key(),
        }
    }

    /// Whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::ObjectMissing { .. } | Self::NothingThere { .. } => false,
            Self::Silent { .. } => true,
            Self::Failed(error) => error.is_retryable(),
        }
    }
}

impl fmt::Display for ContactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ObjectMissing { key } => write!(f, "{key}: no such object"),
            Self::NothingThere { key } => write!(f, "{key}: neither an object nor a prefix of this name"),
            Self::Silent { key, waited } => write!(f, "{key}: no answer within {} s", waited.as_secs()),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl StdError for ContactError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for ContactError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Finds out whether `backend` answers and what `path` names there. A path that is empty or ends
/// in `/` is a prefix; any other is looked for as an object first. An empty bucket is a prefix; an
/// empty prefix is [`ContactError::NothingThere`].
///
/// Needs the context of a tokio runtime: see [`crate::Engine::on_runtime`].
pub async fn locate(backend: &dyn Backend, path: &str) -> Result<Target, ContactError> {
    let deadline = Instant::now() + CONTACT_MAX;
    let can_list = backend.capabilities().list;
    if !path.is_empty() && !path.ends_with('/') {
        let key = Key::new(path);
        match attempt(deadline, path, || backend.stat(&key)).await {
            Ok(object) => return Ok(Target::Object(object)),
            Err(ContactError::Failed(cause)) if cause.kind() == ErrorKind::NotFound && can_list => {}
            Err(ContactError::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
                return Err(ContactError::ObjectMissing { key: path.to_owned() });
            }
            // Credentials that allow a listing and no stat are common; only the listing decides
            // then.
            Err(ContactError::Failed(cause))
                if matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::Unauthenticated) && can_list => {}
            Err(contact) => return Err(contact),
        }
    }
    let prefix = match path.strip_suffix('/').unwrap_or(path) {
        "" => String::new(),
        path => format!("{path}/"),
    };
    let page = attempt(deadline, &prefix, || backend.list(&prefix, None)).await?;
    if page.entries.is_empty() && page.continuation.is_none() && !prefix.is_empty() {
        return Err(ContactError::NothingThere { key: prefix });
    }
    Ok(Target::Prefix(prefix))
}

/// Describes the object `path` of `backend`.
///
/// Needs the context of a tokio runtime, as [`locate`].
pub async fn describe(backend: &dyn Backend, path: &str) -> Result<Object, ContactError> {
    let key = Key::new(path);
    let deadline = Instant::now() + CONTACT_MAX;
    match attempt(deadline, path, || backend.stat(&key)).await {
        Err(ContactError::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
            Err(ContactError::ObjectMissing { key: path.to_owned() })
        }
        other => other,
    }
}

/// The longest that a first contact may take, all attempts together: 8 s. A user of the command
/// waits no longer than 10 s for a verdict, and the process needs time around it. Lower, and a
/// slow proxy or a cold token service counts as silence; higher, and a dead endpoint is reported
/// late.
pub const CONTACT_MAX: Duration = Duration::from_secs(8);

/// Pauses between attempts at what may pass: a refused connection is told after 2 s, a server that
/// starts is waited for. Fewer or shorter, and a server that restarts is reported as dead; more,
/// and a dead one is reported late.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(1250)];

async fn attempt<T, F>(deadline: Instant, key: &str, mut make: impl FnMut() -> F) -> Result<T, ContactError>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pauses = PAUSES.into_iter();
    loop {
        let failure = match timeout_at(deadline, make()).await {
            Err(_) => return Err(ContactError::Silent { key: key.to_owned(), waited: CONTACT_MAX }),
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
        };
        tracing::info!(error = %failure, "first contact failed");
        let pause = pauses.next().map(|pause| failure.retry_after().map_or(pause, |wish| wish.max(pause)));
        match pause {
            // The storage may ask for any wait: it is compared, and never added to a moment.
            Some(pause) if failure.is_retryable() && pause < deadline.saturating_duration_since(Instant::now()) => {
                sleep(pause).await;
            }
            _ => return Err(ContactError::Failed(failure)),
        }
    }
}
