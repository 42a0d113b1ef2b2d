//! Where the storage is, and the credentials to use: options of the commands that read it.

use foreread::backend::Mechanism;

/// Where the storage is, and the credentials to use. An option wins over environment variables and
/// profiles.
#[derive(Debug, Clone, Default, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these comments are the text of --help, which shows backticks as they are")]
#[command(next_help_heading = "Storage")]
pub(crate) struct StorageArgs {
    /// Server to talk to instead of the cloud's own, such as `http://127.0.0.1:9000`
    ///
    /// For servers that speak the same protocol: MinIO, Ceph, `foreread testbed`, emulators.
    /// AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3 are read too; this option wins.
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

    /// How local files are read: by io_uring, if kernel and container allow it, or by threads that
    /// wait
    #[arg(long, value_name = "MECHANISM", value_enum, default_value_t)]
    pub(crate) local_reads: LocalReads,
}

/// How local files are read.
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
