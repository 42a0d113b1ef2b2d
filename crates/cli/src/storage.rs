//! The first contact with the storage that a URL names, and each of its failures in the user's
//! words.
//!
//! The library connects and makes the contact (`foreread::contact`): bounded in total, with
//! retries of failures that may pass. Here a failure gets its cause and the next step: a missing
//! bucket, wrong credentials, an endpoint that refuses or one that does not answer.

use foreread::backend::{ConnectOptions, Connected, Error as BackendError, ErrorKind, Operation, shown};
use foreread::contact::{self, ContactError};
use foreread::{Object, Target};
use miette::Diagnostic;
use thiserror::Error as ThisError;

use crate::args::storage::StorageArgs;
use crate::last_cause::LastCause;

/// Makes the backend of `url`. No request is made yet.
pub(crate) fn connect(url: &str, args: &StorageArgs) -> Result<Connected, Error> {
    let mut options = ConnectOptions::default().with_anonymous(args.anonymous).with_local(args.local_reads.mechanism());
    options.endpoint.clone_from(&args.endpoint);
    options.region.clone_from(&args.region);
    options.profile.clone_from(&args.profile);
    foreread::backend::connect(url, &options).map_err(|cause| match cause.kind() {
        // Only a local path is checked this early.
        ErrorKind::NotFound => Error::NothingThere { url: shown(url) },
        _ => explained(url, ContactError::Failed(cause)),
    })
}

/// Finds out what `connected` names: an object, or a prefix with an object below. `unlisted`: what
/// may not be listed is a prefix.
pub(crate) async fn locate(url: &str, connected: &Connected, unlisted: bool) -> Result<Target, Error> {
    let slash = if url.ends_with('/') && !connected.path.is_empty() { "/" } else { "" };
    let path = format!("{}{slash}", connected.path);
    match contact::locate(&*connected.backend, &path).await {
        Err(ContactError::Failed(cause)) if unlisted && is_unlisted(&cause) => {
            Ok(Target::Prefix(if path.is_empty() { path } else { format!("{}/", connected.path) }))
        }
        target => target.map_err(|cause| explained(url, cause)),
    }
}

/// Whether the storage knows the credentials, or needs none, and forbids a listing.
fn is_unlisted(cause: &BackendError) -> bool {
    (cause.kind(), cause.operation()) == (ErrorKind::PermissionDenied, Operation::List)
}

/// Describes the one object that `connected` names.
pub(crate) async fn stat(url: &str, connected: &Connected) -> Result<Object, Error> {
    contact::describe(&*connected.backend, &connected.path).await.map_err(|cause| explained(url, cause))
}

fn explained(url: &str, contact: ContactError) -> Error {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let url = shown(url);
    let cause = match contact {
        ContactError::ObjectMissing { .. } => return Error::ObjectMissing { url },
        ContactError::NothingThere { .. } => return Error::NothingThere { url },
        ContactError::Failed(cause) => cause,
        // No answer; also any kind that the library adds later.
        _ => return Error::Silent { url, seconds: contact::CONTACT_MAX.as_secs() },
    };
    let (kind, unlisted, cause) = (cause.kind(), is_unlisted(&cause), LastCause::from(&cause));
    match kind {
        ErrorKind::NotFound => Error::BucketMissing { url, cause },
        ErrorKind::PermissionDenied if unlisted => Error::Unlisted { url, help: credentials_help(scheme), cause },
        ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => {
            Error::Denied { url, help: credentials_help(scheme), cause }
        }
        ErrorKind::Invalid => Error::Url { url, cause },
        ErrorKind::Unsupported => Error::Unsupported { url, cause },
        _ => Error::Unreachable { url, cause },
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
        cause: LastCause,
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
        cause: LastCause,
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
        cause: LastCause,
    },

    #[error("{url}: access denied: it may not be listed")]
    #[diagnostic(
        code(foreread::storage::unlisted),
        help("{help}. If names may be read that may not be listed, `foreread mount --unlisted` mounts all the same")
    )]
    Unlisted {
        url: String,
        help: &'static str,
        #[source]
        cause: LastCause,
    },

    #[error("{url}: the storage cannot be reached")]
    #[diagnostic(
        code(foreread::storage::unreachable),
        help("check --endpoint, the network and the proxy variables (HTTPS_PROXY, NO_PROXY); -v shows each attempt")
    )]
    Unreachable {
        url: String,
        #[source]
        cause: LastCause,
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
        cause: LastCause,
    },
}
