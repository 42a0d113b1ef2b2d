//! The one error type of this crate's boundary.

use std::io;
use std::path::PathBuf;

/// Why something about a mount did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel or `fusermount3` refused to mount.
    #[error("cannot mount on {}: {cause}", dir.display())]
    Mount {
        /// The directory.
        dir: PathBuf,
        /// What it said.
        cause: io::Error,
    },
    /// The kernel or `fusermount3` refused to unmount.
    #[error("cannot unmount {}: {cause}", dir.display())]
    Unmount {
        /// The directory.
        dir: PathBuf,
        /// What it said.
        cause: io::Error,
    },
    /// The directory is not a mount of foreread, or its process is gone.
    #[error("{} does not answer as a foreread mount: {cause}", dir.display())]
    NotAMount {
        /// The directory.
        dir: PathBuf,
        /// What happened instead.
        cause: io::Error,
    },
    /// Somebody else records what is read through the mount.
    #[error("{}: a recording is being made already", dir.display())]
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// The session with the kernel ended badly.
    #[error("the FUSE session failed: {0}")]
    Session(io::Error),
}
