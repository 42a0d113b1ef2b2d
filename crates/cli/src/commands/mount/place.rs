//! Where a mount goes: a directory, on which this process mounts, or a descriptor of `/dev/fuse`
//! that a more privileged process has opened and mounts itself.
//!
//! ```text
//!   privileged: open /dev/fuse, mount(2) with fd=N ── passes N ──> foreread mount URL --fuse-fd N
//! ```
//!
//! So does a driver of a cluster's storage: the program that reads needs no privilege.

use std::fmt;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

use crate::commands::mount::directory::{self, MountPoint};
use crate::commands::mount::error::Error;

/// Where a mount goes.
pub(crate) enum Place {
    Directory(MountPoint),
    /// The descriptor, and its number.
    Descriptor(OwnedFd, RawFd),
}

impl Place {
    /// The descriptor if there is one, else the directory, checked.
    pub(crate) fn of(dir: Option<&Path>, descriptor: Option<RawFd>) -> Result<Self, Error> {
        match (descriptor, dir) {
            (Some(number), _) => taken(number).map(|descriptor| Self::Descriptor(descriptor, number)),
            (None, Some(dir)) => directory::check(dir).map(Self::Directory),
            (None, None) => Err(Error::NoPlace),
        }
    }

    /// What the user should know about it, one line each.
    pub(crate) fn notes(&self) -> &[String] {
        match self {
            Self::Directory(point) => &point.notes,
            Self::Descriptor(..) => &[],
        }
    }

    /// The directory, if this process mounts.
    pub(crate) fn dir(&self) -> Option<&PathBuf> {
        match self {
            Self::Directory(point) => Some(&point.dir),
            Self::Descriptor(..) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(point) => write!(f, "{}", point.dir.display()),
            Self::Descriptor(_, number) => write!(f, "descriptor {number}"),
        }
    }
}

/// A descriptor of this process by its number, duplicated.
fn taken(number: RawFd) -> Result<OwnedFd, Error> {
    let failed = |cause: rustix::io::Errno| Error::Descriptor { number, cause: cause.into() };
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(failed)?;
    let descriptor = pidfd_getfd(&this, number, PidfdGetfdFlags::empty()).map_err(failed)?;
    let found = rustix::fs::fstat(&descriptor).map_err(failed)?;
    if (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev)) != FUSE {
        return Err(Error::NoFuseDescriptor { number });
    }
    // Programs that this one starts must not keep the mount.
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).map_err(failed)?;
    Ok(descriptor)
}

/// The number of the device `/dev/fuse`. Source: Linux, Documentation/admin-guide/devices.txt.
const FUSE: (u32, u32) = (10, 229);
