//! From a URL to storage that answers: options, connecting, and the question whether anything is there.
//!
//! The first contact is bounded in total, retries a few times what may pass, and says in the user's words what is wrong:
//! a missing bucket, wrong credentials, an endpoint that refuses or one that keeps silent.

use std::future::Future;
use std::time::Duration;

use foreread_backend::{ConnectOptions, Connected, ErrorKind, Key, Mechanism, Object};
use tokio::time::{Instant, sleep, timeout_at};

use crate::failure::Failure;

/// Where the storage is and who asks. Each has its usual environment variables and profiles; an option wins over them.
#[derive(Debug, Clone, Default, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the text of --help, which shows backticks as they are")]
#[command(next_help_heading = "Storage")]
pub(crate) struct StorageArgs {
    /// Server to talk to instead of the cloud's own, such as `http://127.0.0.1:9000`
    ///
    /// For servers that speak the same protocol: MinIO, Ceph, `foreread testbed`, emulators. AWS_ENDPOINT_URL and its
    /// relatives are honoured too; this option wins.
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,

    /// Region of the bucket
    ///
    /// Otherwise AWS_REGION, AWS_DEFAULT_REGION or the profile's.
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,

    /// Profile in the AWS configuration files to take credentials and region from
    #[arg(long, value_name = "NAME", conflicts_with = "anonymous")]
    pub(crate) profile: Option<String>,

    /// Send no credentials, for public buckets
    #[arg(long)]
    pub(crate) anonymous: bool,

    /// How local files are read: by io_uring, where kernel and container allow it, or by threads that wait
    #[arg(long, value_name = "MECHANISM", value_enum, default_value_t)]
    pub(crate) local_reads: LocalReads,
}

/// What carries reads of local files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LocalReads {
    #[default]
    IoUring,
    Threads,
}

impl LocalReads {
    pub(crate) fn mechanism(self) -> Mechanism {
        match self {
            Self::IoUring => Mechanism::IoUring,
            Self::Threads => Mechanism::Threads,
        }
    }
}

/// What a URL turned out to name.
#[derive(Debug)]
pub(crate) enum Target {
    /// Everything below a prefix: empty, or ending in `/`.
    Prefix(String),
    /// A single object.
    Object(Object),
}

/// Makes the backend of `url`. No request is made yet.
pub(crate) fn connect(url: &str, args: &StorageArgs) -> Result<Connected, Failure> {
    let options = ConnectOptions {
        endpoint: args.endpoint.clone(),
        region: args.region.clone(),
        profile: args.profile.clone(),
        anonymous: args.anonymous,
        local: args.local_reads.mechanism(),
    };
    foreread_backend::connect(url, &options).map_err(|cause| match cause.kind() {
        // Only a local path is looked at this early.
        ErrorKind::NotFound => Failure::NothingThere { url: shown(url) },
        _ => Contact::Failed(cause).explained(url),
    })
}

/// Finds out whether the storage answers and what `connected` names there: an object or a prefix with something below.
pub(crate) async fn locate(url: &str, connected: &Connected) -> Result<Target, Failure> {
    let (backend, path) = (&*connected.backend, connected.path.as_str());
    let deadline = Instant::now() + CONTACT_MAX;
    let can_list = backend.capabilities().list;

    if !path.is_empty() && !url.ends_with('/') {
        let key = Key::new(path);
        match attempt(deadline, || backend.stat(&key)).await {
            Ok(object) => return Ok(Target::Object(object)),
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound && can_list => {}
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
                return Err(Failure::ObjectMissing { url: shown(url) });
            }
            // A key that may list but not stat is common; only the listing decides then.
            Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::PermissionDenied && can_list => {}
            Err(contact) => return Err(contact.explained(url)),
        }
    }
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let page = attempt(deadline, || backend.list(&prefix, None)).await.map_err(|contact| contact.explained(url))?;
    // An empty bucket is there; an empty prefix is not.
    if page.entries.is_empty() && page.continuation.is_none() && !prefix.is_empty() {
        return Err(Failure::NothingThere { url: shown(url) });
    }
    Ok(Target::Prefix(prefix))
}

/// Describes the one object that `connected` names.
pub(crate) async fn stat(url: &str, connected: &Connected) -> Result<Object, Failure> {
    let key = Key::new(connected.path.as_str());
    let deadline = Instant::now() + CONTACT_MAX;
    match attempt(deadline, || connected.backend.stat(&key)).await {
        Err(Contact::Failed(cause)) if cause.kind() == ErrorKind::NotFound => {
            Err(Failure::ObjectMissing { url: shown(url) })
        }
        other => other.map_err(|contact| contact.explained(url)),
    }
}

/// `url` without what may be secret: user information, and the query and fragment of an HTTP URL (signed links).
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let rest = if is_http { rest.split(['?', '#']).next().unwrap_or_default() } else { rest };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let host_at = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host_at..])
}

/// The longest that the first contact may take, all attempts together: a user waits no longer than 10 s for a verdict, and
/// the process needs time around it. Lower, and a slow proxy or a cold token service counts as silence.
const CONTACT_MAX: Duration = Duration::from_secs(8);

/// Pauses between attempts at what may pass: a refused connection is told after 2 s, a server that starts is waited for.
const PAUSES: [Duration; 3] = [Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(1250)];

/// How the first contact went wrong.
enum Contact {
    /// No verdict before the deadline.
    Silent,
    /// The last attempt's error.
    Failed(foreread_backend::Error),
}

impl Contact {
    fn explained(self, url: &str) -> Failure {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let url = shown(url);
        let cause = match self {
            Self::Silent => return Failure::Silent { url, seconds: CONTACT_MAX.as_secs() },
            Self::Failed(cause) => Box::new(cause),
        };
        match cause.kind() {
            ErrorKind::NotFound => Failure::BucketMissing { url, cause },
            ErrorKind::PermissionDenied => Failure::Denied { url, help: credentials_help(scheme), cause },
            ErrorKind::Invalid => Failure::Url { url, cause },
            ErrorKind::Unsupported => Failure::Unsupported { url, cause },
            _ => Failure::Unreachable { url, cause },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_holds_no_secret() {
        assert_eq!(shown("s3://bucket/a?b#c"), "s3://bucket/a?b#c");
        assert_eq!(shown("s3://key:secret@bucket/a@b"), "s3://bucket/a@b");
        assert_eq!(shown("https://user:pw@host:1/a?X-Amz-Signature=s#f"), "https://host:1/a");
        assert_eq!(shown("https://host?token=s"), "https://host");
        assert_eq!(shown("HTTP://u@host/p?q"), "HTTP://host/p");
        assert_eq!(shown("/a/local@dir"), "/a/local@dir");
    }
}
