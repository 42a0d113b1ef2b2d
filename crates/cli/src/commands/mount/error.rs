//! Why a mount fails, and the next step.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

use crate::args::engine;
use crate::failure::Failure;
use crate::last_cause::LastCause;
use crate::storage;

/// A failure of `foreread mount`.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum Error {
    #[error("{}: not a directory", .path.display())]
    #[diagnostic(
        code(foreread::directory::not_a_directory),
        help("storage is mounted on a directory; to read a single object without a mount, see `foreread cat --help`")
    )]
    NotADirectory { path: PathBuf },

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
        cause: LastCause,
    },

    #[error("{}: a user mounts on a directory of its own, and may not write to it", .dir.display())]
    #[diagnostic(
        code(foreread::directory::not_yours),
        help(
            "let root give it away, `chown USER '{}'`; or let root mount for all users, with --allow-other (in \
             /etc/fstab: `allow_other`, without `user`)",
            .dir.display()
        )
    )]
    NotYours {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },

    #[error("there is nothing to mount on")]
    #[diagnostic(
        code(foreread::directory::missing),
        help("name a directory, or a descriptor of /dev/fuse with --fuse-fd")
    )]
    NoPlace,

    #[error("descriptor {number} cannot be used")]
    #[diagnostic(
        code(foreread::fuse::descriptor),
        help("the process that starts this one has to open /dev/fuse, and to pass it without close-on-exec")
    )]
    Descriptor {
        number: i32,
        #[source]
        cause: std::io::Error,
    },

    #[error("descriptor {number} is none of /dev/fuse")]
    #[diagnostic(
        code(foreread::fuse::other_descriptor),
        help("pass the descriptor whose number is in the options of mount(2), `fd=N`")
    )]
    NoFuseDescriptor { number: i32 },

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
        cause: LastCause,
    },

    #[error("{}: the command that started it cannot be told that it is mounted", .dir.display())]
    #[diagnostic(code(foreread::fuse::untold), help("try again in the foreground with `--foreground -v`"))]
    Untold {
        dir: PathBuf,
        #[source]
        cause: std::io::Error,
    },

    #[error("{}: the mount ended with an error", .dir.display())]
    #[diagnostic(code(foreread::fuse::ended), help("`foreread umount '{}'` removes what is left of it", .dir.display()))]
    MountEnded {
        dir: PathBuf,
        #[source]
        cause: LastCause,
    },

    #[error("{place} cannot be served any more")]
    #[diagnostic(
        code(foreread::fuse::served),
        help("the process that passed it has to call mount(2) with it, once, and to unmount what is left")
    )]
    Served {
        place: String,
        #[source]
        cause: LastCause,
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

    #[error(transparent)]
    #[diagnostic(transparent)]
    Storage(#[from] storage::Error),

    #[error(transparent)]
    #[diagnostic(transparent)]
    Engine(#[from] engine::Error),

    #[error(transparent)]
    #[diagnostic(transparent)]
    Shared(#[from] Failure),
}
