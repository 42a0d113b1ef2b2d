//! Why a region or view cannot be made, or a call fails. A page that cannot be delivered is no
//! error: the thread that touches it is sent a signal.
//!
//! The text of an [`Error`] names its cause, and [`std::error::Error::source`] gives that cause as
//! a value: print either the text or the chain of sources.

use std::io;
use std::path::PathBuf;

/// Why a region or view is not made, or a call on it fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This process may not answer page faults.
    #[error(
        "userfaultfd is forbidden here ({cause}): {}allow it by `sysctl vm.unprivileged_userfaultfd=1`, or let this user open {DEVICE} \
         (in a container: give it that device, or a seccomp profile that allows userfaultfd)",
        if *kernel { "answering faults of the kernel needs a privilege; without `kernel_faults` none is needed. Or " } else { "" }
    )]
    Forbidden {
        /// The region was to answer faults of the kernel, too.
        kernel: bool,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The kernel is older than Linux 5.11, or is built without userfaultfd.
    #[error(
        "the kernel has no userfaultfd with write protection: Linux 5.11 or later is needed, with CONFIG_USERFAULTFD"
    )]
    Unsupported,
    /// The kernel's pages are not of 4096 bytes, as on some processors of other kinds than x86.
    #[error("this kernel has pages of {bytes} bytes; regions and views need pages of 4096 bytes")]
    PageSize {
        /// The kernel's size of a page.
        bytes: usize,
    },
    /// A size or a range is not valid.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
    },
    /// The spill file could not be made, or has no room.
    #[error("a spill file of {bytes} bytes in {}: {cause}", dir.display())]
    Spill {
        /// The directory.
        dir: PathBuf,
        /// Its length.
        bytes: u64,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// Another system call failed.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The region belongs to the parent process: this process is a child made by fork.
    #[error("a region stays with the process that made it: after a fork the child has none")]
    Forked,
}

impl Error {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::System { what, cause: cause.into() }
    }
}

/// The device whose file permissions also grant a userfaultfd, since Linux 6.1. Opened by
/// `kernel/uffd.rs`.
pub(crate) const DEVICE: &str = "/dev/userfaultfd";

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_keeps_its_cause() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [
            Error::Forbidden { kernel: false, cause: denied() },
            Error::Spill { dir: PathBuf::from("/tmp"), bytes: 4096, cause: denied() },
            Error::System { what: "mmap", cause: denied() },
        ] {
            let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
            assert_eq!(cause, Some(io::ErrorKind::PermissionDenied), "{error}");
        }
        assert!(Error::Forked.source().is_none());
    }
}
