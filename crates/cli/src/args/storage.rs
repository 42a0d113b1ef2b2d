//! Where the storage is, and the credentials to use: options of the commands that read it.

use foreread_backend::Mechanism;

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

/// `url` without its secret parts: user information, and the query and fragment of an HTTP URL
/// (signed links).
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let rest = if is_http { rest.split(['?', '#']).next().unwrap_or_default() } else { rest };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    let host_at = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[host_at..])
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
