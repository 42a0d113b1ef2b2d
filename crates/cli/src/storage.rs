//! The first contact with the storage that a URL names: does it answer, and is anything there.
//!
//! The contact is bounded in total and retries failures that may pass. A failure names its cause:
//! a missing bucket, wrong credentials, an endpoint that refuses or one that does not answer.

use std::future::Future;
use std::time::Duration;

use foreread_backend::{ConnectOptions, Connected, ErrorKind, Key, Object};
use miette::Diagnostic;
use thiserror::Error as ThisError;
use tokio::time::{Instant, sleep, timeout_at};

use crate::args::storage::{StorageArgs, shown};

/// What a URL names.
#[derive(Debug)]
pub(crate) enum Target {
    /// Everything below a prefix: empty, or ending in `/`.
    Prefix(String),
    /// A single object.
    Object(Object),
}

/// Makes the backend of `url`. No request is made yet.
pub(crate) fn connect(url: &str, args: &StorageArgs) -> Result<Connected, Error> {
    let options = ConnectOptions {
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        profile: args.profile.clone(),
        anonymous: args.anonymous,
        local: args.local_reads.mechanism(),
    };
    foreread_backend::connect(url, &options).map_err(|cause| match cause.kind() {
        // Only a local path is checked this early.
        ErrorKind::NotFound => Error::NothingThere { url: shown(url) },
        _ => Contact::Failed(cause).explained(url),
    })
}

/// Finds out what `connected` names: an object, or a prefix with an object below.
pub(crate) async fn locate(url: &str, connected: &Connected) -> Result<Target, Error> {
    let (backend, path) = (&*connected.backend, connected.path.as_str());
    let deadline = Instant::now() + CONTACT_MAX;
    let can_list = backend.capabilities().list;

    if !path.is_empty() && !url.ends_with('/') {
        let key = Key::new(path);
        match attempt(deadline, || backend.stat(&key)).await {
            Ok(object) => return Ok(Target::Object(object)),
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound && can_list => {}
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
                return Err(Error::ObjectMissing { url: shown(url) });
            }
            // Credentials that may list but not stat are common; then only the listing decides.
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::PermissionDenied && can_list => {}
            Err(contact) => return Err(contact.explained(url)),
        }
    }
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let page = attempt(deadline, || backend.list(&prefix, None)).await.map_err(|contact| contact.explained(url))?;
    // An empty bucket exists; an empty prefix does not.
    if page.entries.is_empty() && page.continuation.is_none() && !prefix.is_empty() {
        return Err(Error::NothingThere { url: shown(url) });
    }
    Ok(Target::Prefix(prefix))
}

/// Describes the one object that `connected` names.
pub(crate) async fn stat(url: &str, connected: &Connected) -> Result<Object, Error> {
    let key = Key::new(connected.path.as_str());
    let deadline = Instant::now() + CONTACT_MAX;
    match attempt(deadline, || connected.backend.stat(&key)).await {
        Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
            Err(Error::ObjectMissing { url: shown(url) })
        }
        other => other.map_err(|contact| contact.explained(url)),
    }
}

/// The longest first contact, all attempts together. A user is to wait 10 s at most for a verdict,
/// and the process needs time before and after. Lower, and a slow proxy or a cold token service
/// counts as silent.
const CONTACT_MAX: Duration = Duration::from_secs(8);

/// Pauses between attempts, for failures that may pass. A refused connection is reported after 2
/// s; a server that is starting has that time.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(1250)];

/// How the first contact failed.
enum Contact {
    /// No answer before the deadline.
    Silent,
    /// The last attempt's error.
    Failed(foreread_backend::Error),
}

impl Contact {
    fn explained(self, url: &str) -> Error {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let url = shown(url);
        let cause = match self {
            Self::Silent => return Error::Silent { url, seconds: CONTACT_MAX.as_secs() },
            Self::Failed(cause) => Box::new(cause),
        };
        match cause.kind() {
            ErrorKind::NotFound => Error::BucketMissing { url, cause },
            ErrorKind::PermissionDenied => Error::Denied { url, help: credentials_help(scheme), cause },
            ErrorKind::Invalid => Error::Url { url, cause },
            ErrorKind::Unsupported => Error::Unsupported { url, cause },
            _ => Error::Unreachable { url, cause },
        }
    }
}

async fn attempt<T, F>(deadline: Instant, mut make: impl FnMut() -> F) -> Result<T, Contact>
where
    F: Future<Output = Result<T, foreread_backend::Error>>,
{
    let mut pauses = PAUSES.into_iter();
    loop {
        let failure = match timeout_at(deadline, make()).await {
            Err(_) => return Err(Contact::Silent),
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
        };
        tracing::info!(error = %failure, "first contact failed");
        let pause = pauses.next().map(|pause| failure.retry_after().map_or(pause, |wish| wish.max(pause)));
        match pause {
            Some(pause) if failure.kind().is_retryable() && Instant::now() + pause < deadline => sleep(pause).await,
            _ => return Err(Contact::Failed(failure)),
        }
    }
}

fn credentials_help(scheme: &str) -> &'static str {
    match scheme {
        "s3" => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --profile (`aws sso login` renews \
             an expired one); a public bucket is read with --anonymous"
        }
        "gs" => {
            "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file; a public \
             bucket is read with --anonymous"
        }
        "az" => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_SAS_TOKEN); a public \
             container is read with --anonymous"
        }
        "http" | "https" => "the server wants a login or a signed link that is still valid",
        _ => "check who owns the directory and its mode",
    }
}

/// Why the storage cannot be used.
#[derive(Debug, ThisError, Diagnostic)]
pub(crate) enum Error {
    #[error("{url}: this URL cannot be used")]
    #[diagnostic(
        code(foreread::storage::url),
        help(
            "write s3://BUCKET[/PREFIX], gs://BUCKET[/PREFIX], az://CONTAINER[/PREFIX], http(s)://HOST/PATH or a local \
             directory; another S3 server is named with --endpoint http(s)://HOST[:PORT]"
        )
    )]
    Url {
        url: String,
        #[source]
        cause: Box<foreread_backend::Error>,
    },

    #[error("{url}: no such bucket, or no such server to hold it")]
    #[diagnostic(
        code(foreread::storage::missing),
        help(
            "check the spelling of the bucket, and --region and --endpoint: a bucket is known at its own server only"
        )
    )]
    BucketMissing {
        url: String,
        #[source]
        cause: Box<foreread_backend::Error>,
    },

    #[error("{url}: there is neither an object nor a prefix of this name")]
    #[diagnostic(
        code(foreread::storage::missing),
        help("the storage itself can be reached: check the spelling of the path. Names are case-sensitive")
    )]
    NothingThere { url: String },

    #[error("{url}: no such object")]
    #[diagnostic(
        code(foreread::storage::missing),
        help(
            "check the spelling; names are case-sensitive, and a prefix is not an object (`foreread mount` shows it)"
        )
    )]
    ObjectMissing { url: String },

    #[error("{url}: access denied")]
    #[diagnostic(code(foreread::storage::denied), help("{help}"))]
    Denied {
        url: String,
        help: &'static str,
        #[source]
        cause: Box<foreread_backend::Error>,
    },

    #[error("{url}: the storage cannot be reached")]
    #[diagnostic(
        code(foreread::storage::unreachable),
        help("check --endpoint, the network and the proxy variables (HTTPS_PROXY, NO_PROXY); -v shows each attempt")
    )]
    Unreachable {
        url: String,
        #[source]
        cause: Box<foreread_backend::Error>,
    },

    #[error("{url}: no answer within {seconds} s")]
    #[diagnostic(
        code(foreread::storage::silent),
        help(
            "something accepts the connection or drops it without a word: check --endpoint, its port, and firewalls and \
             proxies on the way (HTTPS_PROXY, NO_PROXY)"
        )
    )]
    Silent { url: String, seconds: u64 },

    #[error("{url}: not supported")]
    #[diagnostic(
        code(foreread::storage::unsupported),
        help("`foreread mount --help` lists what each kind of storage must offer")
    )]
    Unsupported {
        url: String,
        #[source]
        cause: Box<foreread_backend::Error>,
    },
}
