//! The error type of this crate.
//!
//! The text of an [`Error`] names its cause, and [`std::error::Error::source`] gives that cause as
//! a value: print either the text or the chain of sources.

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
        #[source]
        cause: io::Error,
    },
    /// The kernel or `fusermount3` refused to unmount.
    #[error("cannot unmount {}: {cause}", dir.display())]
    Unmount {
        /// The directory.
        dir: PathBuf,
        /// The kernel's or the program's error.
        #[source]
        cause: io::Error,
    },
    /// The directory is not a mount of foreread, or its process is gone.
    #[error("{} does not answer as a foreread mount: {cause}", dir.display())]
    NotAMount {
        /// The directory.
        dir: PathBuf,
        /// The answer of the directory.
        #[source]
        cause: io::Error,
    },
    /// No program has asked the mount for this name lately, or it has no such name.
    #[error("{}: no program has asked the mount for it lately", path.display())]
    Unknown {
        /// The path.
        path: PathBuf,
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
    /// The mount writes no events.
    #[error("{}: the mount has no log", dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },
    /// The mount is another user's.
    #[error("{}: only root and the user who mounted it may change its options", dir.display())]
    NotYours {
        /// The directory.
        dir: PathBuf,
    },
    /// The session with the kernel ended with an error.
    #[error("the FUSE session failed: {0}")]
    Session(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_keeps_its_cause() {
        let (dir, denied) = (|| PathBuf::from("/mnt/data"), || io::Error::from(io::ErrorKind::PermissionDenied));
        for error in [
            Error::Mount { dir: dir(), cause: denied() },
            Error::Unmount { dir: dir(), cause: denied() },
            Error::NotAMount { dir: dir(), cause: denied() },
            Error::Session(denied()),
        ] {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
            assert_eq!(cause, Some(io::ErrorKind::PermissionDenied), "{error}");
        }
        assert!(Error::Busy { dir: dir() }.source().is_none());
    }
}
