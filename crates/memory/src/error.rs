//! What can go wrong before a region is there, or with a call; what goes wrong with a page is a signal to whoever touches it.

use std::io;
use std::path::PathBuf;

/// Why a region is not made, or does not do what it was asked.
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
        /// Faults of the kernel were to be answered too.
        kernel: bool,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The kernel is older than Linux 5.11, or is built without userfaultfd.
    #[error(
        "the kernel has no userfaultfd with write protection: Linux 5.11 or later is needed, with CONFIG_USERFAULTFD"
    )]
    Unsupported,
    /// A size or a range makes no sense.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The spill file could not be made, or has no room.
    #[error("a spill file of {bytes} bytes in {}: {cause}", dir.display())]
    Spill {
        /// In which directory.
        dir: PathBuf,
        /// How long it was to be.
        bytes: u64,
        /// What the system said.
        cause: io::Error,
    },
    /// The system refused something else.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        cause: io::Error,
    },
    /// The region belongs to the process that made it; this one is a child of that.
    #[error("a region stays with the process that made it: after a fork the child has none")]
    Forked,
}

impl Error {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::System { what, cause: cause.into() }
    }
}

/// The device whose file permissions also grant a userfaultfd, since Linux 6.1. Opened in `kernel/uffd.rs`.
pub(crate) const DEVICE: &str = "/dev/userfaultfd";
