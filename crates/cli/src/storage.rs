//! From a URL to storage that answers: the options, and each failure of the first contact in the
//! user's words.
//!
//! The library connects and makes the first contact (`foreread::contact`): bounded in total,
//! repeated a few times where that may help. This file says what is wrong and what to do: a missing
//! bucket, wrong credentials, an endpoint that refuses or one that keeps silent.

use foreread::backend::{ConnectOptions, Connected, ErrorKind, Mechanism, shown};
use foreread::contact::{self, ContactError};
use foreread::{Object, Target};

use crate::failure::Failure;
use crate::told::Told;

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

/// Makes the backend of `url`. No request is made yet.
pub(crate) fn connect(url: &str, args: &StorageArgs) -> Result<Connected, Failure> {
    let mut options = ConnectOptions::default().with_anonymous(args.anonymous).with_local(args.local_reads.mechanism());
    options.endpoint.clone_from(&args.endpoint);
    options.region.clone_from(&args.region);
    options.profile.clone_from(&args.profile);
    foreread::backend::connect(url, &options).map_err(|cause| match cause.kind() {
        // Only a local path is looked at this early.
        ErrorKind::NotFound => Failure::NothingThere { url: shown(url) },
        _ => explained(url, ContactError::Failed(cause)),
    })
}

/// Finds out whether the storage answers and what `connected` names there: an object or a prefix with something below.
pub(crate) async fn locate(url: &str, connected: &Connected) -> Result<Target, Failure> {
    let slash = if url.ends_with('/') && !connected.path.is_empty() { "/" } else { "" };
    let path = format!("{}{slash}", connected.path);
    contact::locate(&*connected.backend, &path).await.map_err(|cause| explained(url, cause))
}

/// Describes the one object that `connected` names.
pub(crate) async fn stat(url: &str, connected: &Connected) -> Result<Object, Failure> {
    contact::describe(&*connected.backend, &connected.path).await.map_err(|cause| explained(url, cause))
}

fn explained(url: &str, contact: ContactError) -> Failure {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let url = shown(url);
    let cause = match contact {
        ContactError::ObjectMissing { .. } => return Failure::ObjectMissing { url },
        ContactError::NothingThere { .. } => return Failure::NothingThere { url },
        ContactError::Failed(cause) => cause,
        // Silence, and what the library may tell one day.
        _ => return Failure::Silent { url, seconds: contact::CONTACT_MAX.as_secs() },
    };
    let (kind, cause) = (cause.kind(), Told::from(&cause));
    match kind {
        ErrorKind::NotFound => Failure::BucketMissing { url, cause },
        ErrorKind::PermissionDenied => Failure::Denied { url, help: credentials_help(scheme), cause },
        ErrorKind::Invalid => Failure::Url { url, cause },
        ErrorKind::Unsupported => Failure::Unsupported { url, cause },
        _ => Failure::Unreachable { url, cause },
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
