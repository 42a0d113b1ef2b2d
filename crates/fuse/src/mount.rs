//! Mounting, waiting, unmounting.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use foreread_engine::Engine;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::Error;
use crate::filesystem::Mount;

/// How a mount looks and who may see it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct MountOptions {
    /// Shown as the source in `/proc/mounts`. No secrets: everybody can read it.
    pub source: String,
    /// Other users may read it. Without being root this needs `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Owner of everything in it; the caller by default.
    pub uid: Option<u32>,
    /// Group of everything in it; the caller's by default.
    pub gid: Option<u32>,
    /// Permission bits of files.
    pub file_mode: u16,
    /// Permission bits of directories.
    pub dir_mode: u16,
}

impl Default for MountOptions {
    fn default() -> Self {
        let source = "foreread".to_owned();
        Self { source, allow_other: false, uid: None, gid: None, file_mode: 0o444, dir_mode: 0o555 }
    }
}

impl MountOptions {
    /// With this source in `/proc/mounts`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// With or without other users.
    #[must_use]
    pub fn with_allow_other(mut self, allow_other: bool) -> Self {
        self.allow_other = allow_other;
        self
    }

    /// With this owner and this group.
    #[must_use]
    pub fn with_owner(mut self, uid: Option<u32>, gid: Option<u32>) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    /// With these permission bits of files and of directories.
    #[must_use]
    pub fn with_modes(mut self, file_mode: u16, dir_mode: u16) -> Self {
        (self.file_mode, self.dir_mode) = (file_mode, dir_mode);
        self
    }
}

/// A mount that works. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    /// Absent once somebody waits for its end.
    session: Option<BackgroundSession>,
}

/// Ends a mount from another thread.
#[derive(Debug, Clone)]
pub struct Unmounter {
    dir: Arc<Path>,
}

impl Unmounter {
    /// Unmounts. With `lazy` at once from the name space, even while files are open.
    pub fn unmount(&self, lazy: bool) -> Result<(), Error> {
        unmount(&self.dir, lazy)
    }
}

impl Mounted {
    /// Waits until the mount is unmounted, by whomever.
    pub fn wait(mut self) -> Result<(), Error> {
        self.session.take().map_or(Ok(()), BackgroundSession::join).map_err(Error::Session)
    }

    /// A handle that ends it.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { dir: self.dir.as_path().into() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.take().is_some() {
            let _ = unmount(&self.dir, true);
        }
    }
}

/// Mounts what lies below `prefix` (empty, or ending in `/`) on `dir`. Returns once the kernel has accepted it.
pub fn mount(engine: Engine, prefix: &str, dir: &Path, options: &MountOptions) -> Result<Mounted, Error> {
    let failed = |cause| Error::Mount { dir: dir.to_owned(), cause };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.replace(',', "\\,")),
        MountOption::Subtype("foreread".to_owned()),
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let filesystem = Mount::new(engine, prefix, options);
    let session = match mount_directly(dir, options).map_err(failed)? {
        Some(device) => Session::from_fd(filesystem, device, config.acl, config),
        None => Session::new(filesystem, dir, &config),
    };
    let spawned = session.and_then(Session::spawn);
    let session = spawned.map_err(|cause| {
        // A session made from a descriptor does not undo the mount by itself.
        let _ = unmount(dir, true);
        failed(cause)
    })?;
    Ok(Mounted { dir: dir.to_owned(), session: Some(session) })
}

/// Mounts by the system call, where this process may; `None` where it needs `fusermount3`.
///
/// `fuser` would do this too, but under the bare type `fuse`: tools could not tell whose mount it is.
fn mount_directly(dir: &Path, options: &MountOptions) -> io::Result<Option<OwnedFd>> {
    let device: OwnedFd = File::options().read(true).write(true).open("/dev/fuse")?.into();
    let mode = std::fs::metadata(dir)?.mode();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data =
        format!("fd={},rootmode={mode:o},user_id={uid},group_id={gid},default_permissions", device.as_raw_fd());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    let data = CString::new(data)?;
    match rustix::mount::mount(options.source.as_str(), dir, "fuse.foreread", flags, data.as_c_str()) {
        Ok(()) => Ok(Some(device)),
        Err(rustix::io::Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts `dir`: directly where allowed, else through `fusermount3`.
pub fn unmount(dir: &Path, lazy: bool) -> Result<(), Error> {
    let failed = |cause| Error::Unmount { dir: dir.to_owned(), cause };
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(failed(error.into())),
    }
    let mut command = Command::new("fusermount3");
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(dir);
    let output = command.output().map_err(|e| failed(io::Error::new(e.kind(), format!("fusermount3: {e}"))))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(failed(io::Error::new(kind, said)))
}

/// Threads that read requests. Each answers a hit by itself and hands everything else on, so a few more than cores do.
const THREADS: usize = 4;
