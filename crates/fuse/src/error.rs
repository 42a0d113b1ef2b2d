//! The error type of this crate.

use std::io;
use std::path::PathBuf;

/// Why a call about a mount failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel or `fusermount3` refused to mount.
    #[error("cannot mount on {}: {cause}", dir.display())]
    Mount {
        /// The directory.
        dir: PathBuf,
        /// The kernel's or the program's error.
        cause: io::Error,
    },
    /// The kernel or `fusermount3` refused to unmount.
    #[error("cannot unmount {}: {cause}", dir.display())]
    Unmount {
        /// The directory.
        dir: PathBuf,
        /// The kernel's or the program's error.
        cause: io::Error,
    },
    /// The directory is not a mount of foreread, or its process is gone.
    #[error("{} does not answer as a foreread mount: {cause}", dir.display())]
    NotAMount {
        /// The directory.
        dir: PathBuf,
        /// The answer of the directory.
        cause: io::Error,
    },
    /// Another recording is made through the mount.
    #[error("{}: a recording is being made already", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// The recording has ended: its recorder was silent for five seconds, or it was the last part.
    #[error("{}: the recording has ended, since nothing was taken from it for five seconds", dir.display())]
    Ended {
        /// The directory.
        dir: PathBuf,
    },
    /// The budget is less than the least one.
    #[error("{}: the budget is too little", dir.display())]
    TooLittle {
        /// The directory.
        dir: PathBuf,
    },
    /// The mount is another user's.
    #[error("{}: only root and the user who mounted it may change its budget", dir.display())]
    NotYours {
        /// The directory.
        dir: PathBuf,
    },
    /// The session with the kernel ended with an error.
    #[error("the FUSE session failed: {0}")]
    Session(io::Error),
}
