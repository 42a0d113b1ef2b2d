//! What goes wrong at the command line: each failure names its cause and the next step.
//!
//! The library crates classify (`kind()`); this file is where a class becomes advice. Texts never hold a credential: URLs
//! arrive here without user information and query (see [`foreread::backend::shown`]).

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::size::Size;
use crate::told::Told;

/// A failure of a subcommand; its process ends with status 1.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Failure {
    #[error("{}: no such directory", .dir.display())]
    #[diagnostic(code(foreread::directory::missing), help("create it first: mkdir -p '{}'", .dir.display()))]
    DirectoryMissing { dir: PathBuf },

    #[error("{}: not a directory", .path.display())]
    #[diagnostic(
        code(foreread::directory::not_a_directory),
        help("storage is mounted on a directory; to read a single object without a mount, see `foreread cat --help`")
    )]
    NotADirectory { path: PathBuf },

    #[error("{}: cannot be used as a mount point", .dir.display())]
    #[diagnostic(code(foreread::directory::unusable), help("check who owns it and each directory above it"))]
    DirectoryUnusable {
        dir: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: {source_shown} is mounted here already", .dir.display())]
    #[diagnostic(
        code(foreread::directory::already_mounted),
        help("unmount it first, `foreread umount '{}'`, or choose another directory", .dir.display())
    )]
    AlreadyMounted { dir: PathBuf, source_shown: String },

    #[error("{}: left behind by a foreread that was killed, and could not be unmounted", .dir.display())]
    #[diagnostic(
        code(foreread::directory::left_behind),
        help("run `foreread umount --lazy '{}'` as the user who mounted it, then mount again", .dir.display())
    )]
    LeftBehind {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("/dev/fuse does not exist")]
    #[diagnostic(
        code(foreread::fuse::absent),
        help(
            "load the kernel's module with `modprobe fuse`; in a container, start it with `--device /dev/fuse --cap-add \
             SYS_ADMIN`. `foreread cat` needs no mount"
        )
    )]
    FuseAbsent,

    #[error("/dev/fuse cannot be opened")]
    #[diagnostic(
        code(foreread::fuse::forbidden),
        help(
            "its usual mode is 0666: ask for `chmod 666 /dev/fuse`, or for membership in the group that may use it; in \
             a container, start it with `--device /dev/fuse --cap-add SYS_ADMIN`. `foreread cat` needs no mount"
        )
    )]
    FuseForbidden {
        #[source]
        cause: std::io::Error,
    },

    #[error("fusermount3 is not installed, and only root can mount without it")]
    #[diagnostic(
        code(foreread::fuse::fusermount_absent),
        help("install the package fuse3 (`apt install fuse3`, `dnf install fuse3`), or mount as root")
    )]
    FusermountAbsent,

    #[error("--allow-other is not permitted on this machine")]
    #[diagnostic(
        code(foreread::fuse::allow_other),
        help(
            "let root add the line `user_allow_other` to /etc/fuse.conf, or mount as root, or leave --allow-other out"
        )
    )]
    AllowOtherForbidden,

    #[error("{}: the mount failed", .dir.display())]
    #[diagnostic(
        code(foreread::fuse::mount),
        help("mounting needs root or fusermount3; in a container, also `--device /dev/fuse --cap-add SYS_ADMIN`")
    )]
    Mount {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("{}: the mount does not answer", .dir.display())]
    #[diagnostic(code(foreread::fuse::dead), help("try again in the foreground with `--foreground -v`"))]
    MountDead {
        dir: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: the mount ended with an error", .dir.display())]
    #[diagnostic(code(foreread::fuse::ended), help("`foreread umount '{}'` removes what is left of it", .dir.display()))]
    MountEnded {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("the background process ended before the mount stood ({how})")]
    #[diagnostic(code(foreread::background), help("mount in the foreground to see why: `--foreground -v`"))]
    BackgroundDied { how: String },

    #[error("cannot go to the background")]
    #[diagnostic(code(foreread::background), help("mount in the foreground: `--foreground`"))]
    Background {
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: not mounted", .dir.display())]
    #[diagnostic(code(foreread::umount::not_mounted), help("`grep fuse.foreread /proc/mounts` shows what is mounted"))]
    NotMounted { dir: PathBuf },

    #[error("{}: mounted, but not by foreread (type {kind})", .dir.display())]
    #[diagnostic(code(foreread::umount::not_ours), help("umount(8) unmounts it: `umount '{}'`", .dir.display()))]
    NotOurs { dir: PathBuf, kind: String },

    #[error("{}: in use", .dir.display())]
    #[diagnostic(
        code(foreread::umount::busy),
        help(
            "`fuser -vm '{0}'` shows by whom; `foreread umount --lazy '{0}'` removes it from the tree now and ends it when \
             the last file is closed",
            .dir.display()
        )
    )]
    Busy { dir: PathBuf },

    #[error("{}: could not be unmounted", .dir.display())]
    #[diagnostic(
        code(foreread::umount::failed),
        help(
            "unmount as the user who mounted it, or as root; `fusermount3` (package fuse3) must be installed for users"
        )
    )]
    Unmount {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("{}: gives no statistics", .dir.display())]
    #[diagnostic(
        code(foreread::stats),
        help("name a directory on which `foreread mount` mounted; `grep fuse.foreread /proc/mounts` shows them")
    )]
    NoStats {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("{}: files cannot be made ready there", .dir.display())]
    #[diagnostic(
        code(foreread::prefetch),
        help("name a directory of a mount by `foreread mount`; `grep fuse.foreread /proc/mounts` shows them")
    )]
    NoPrefetch {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("{}: none of the {count} files of the list is there", .dir.display())]
    #[diagnostic(
        code(foreread::prefetch::unknown),
        help("each line is a path below {}, such as `find . -type f` prints in it", .dir.display())
    )]
    NothingToPrefetch { dir: PathBuf, count: usize },

    #[error("{}: what is read there cannot be recorded", .dir.display())]
    #[diagnostic(
        code(foreread::record),
        help("name a directory on which `foreread mount` mounted; one recording of a mount can be made at a time")
    )]
    NotRecorded {
        dir: PathBuf,
        #[source]
        cause: foreread_fuse::Error,
    },

    #[error("{}: cannot be written", .path.display())]
    #[diagnostic(code(foreread::record::output), help("check the directory's owner and the space that is left"))]
    Unwritable {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

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
        cause: Told,
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
        cause: Told,
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
        cause: Told,
    },

    #[error("{url}: the storage cannot be reached")]
    #[diagnostic(
        code(foreread::storage::unreachable),
        help("check --endpoint, the network and the proxy variables (HTTPS_PROXY, NO_PROXY); -v shows each attempt")
    )]
    Unreachable {
        url: String,
        #[source]
        cause: Told,
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
        cause: Told,
    },

    #[error("the engine could not be started")]
    #[diagnostic(code(foreread::engine::start), help("check --memory, --record and the limits of the process"))]
    Engine {
        #[source]
        cause: Told,
    },

    #[error("{url}: reading failed")]
    #[diagnostic(code(foreread::engine::read), help("{help}"))]
    Read {
        url: String,
        help: &'static str,
        #[source]
        cause: Told,
    },

    #[error("{url}: ended at byte {offset} of {size}")]
    #[diagnostic(code(foreread::engine::read), help("the object was cut while it was read: start again"))]
    Cut { url: String, offset: u64, size: u64 },

    #[error("{url}: the range starts behind the end of the object, which has {size} bytes")]
    #[diagnostic(code(foreread::cat::range), help("offsets count from 0; `--range -N` reads the last N bytes"))]
    RangeBehindEnd { url: String, size: u64 },

    #[error("writing the output failed")]
    #[diagnostic(code(foreread::output), help("check the space and the permissions where the output goes"))]
    Output {
        #[source]
        cause: std::io::Error,
    },

    #[error("--memory {given} is too little")]
    #[diagnostic(code(foreread::memory), help("the smallest budget that works is {min}", min = crate::memory::MIN))]
    MemoryTooSmall { given: Size },

    #[error("{}: cannot be used", .path.display())]
    #[diagnostic(code(foreread::file), help("check the path and its permissions"))]
    File {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: not a valid configuration", .path.display())]
    #[diagnostic(code(foreread::file), help("the names are those of the options, with _ for -"))]
    Toml {
        path: PathBuf,
        #[source]
        cause: Box<toml::de::Error>,
    },

    #[error("the testbed could not be started")]
    #[diagnostic(code(foreread::testbed), help("choose another address with --listen; port 0 takes any free one"))]
    Testbed {
        #[source]
        cause: foreread_testbed::Error,
    },
}
