//! Mounting, waiting, unmounting.
//!
//! ```text
//!   mount ── the system call (root) ──> fuse.foreread ──> Mounted ── unmount ──> wait returns
//!     └─ not permitted: fusermount3 ──────────────────────^
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use foreread_engine::Engine;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::error::Error;
use crate::filesystem::Mount;
use crate::forgetting;
use crate::guarded::Guarded;
use crate::kernel_window::KernelWindow;
use crate::options::MountOptions;

/// A mount that works. Dropping it unmounts, unless something else has mounted it.
#[derive(Debug)]
pub struct Mounted {
    /// `None` for a descriptor that was passed: where it is mounted is not known here.
    dir: Option<PathBuf>,
    /// `None` once a thread waits for the end of the mount.
    session: Option<BackgroundSession>,
    /// The thread that asks the kernel to forget inodes. It ends with the session.
    forgetting: Option<JoinHandle<()>>,
}

/// Unmounts from another thread.
#[derive(Debug, Clone)]
pub struct Unmounter {
    dir: Option<Arc<Path>>,
}

impl Unmounter {
    /// Unmounts. `lazy`: the mount disappears from the name space at once, even while files are
    /// open. What something else has mounted stays as it is: [`Unmounter::is_here`].
    pub fn unmount(&self, lazy: bool) -> Result<(), Error> {
        self.dir.as_deref().map_or(Ok(()), |dir| unmount(dir, lazy))
    }

    /// Whether this process has mounted it.
    pub fn is_here(&self) -> bool {
        self.dir.is_some()
    }
}

impl Mounted {
    /// Waits until the mount is unmounted, from here or from outside.
    pub fn wait(mut self) -> Result<(), Error> {
        self.session.take().map_or(Ok(()), BackgroundSession::join).map_err(Error::Session)?;
        // The kernel has ended the mount: no call of that thread waits for it any more.
        let _ = self.forgetting.take().map(JoinHandle::join);
        Ok(())
    }

    /// A handle that unmounts.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter { dir: self.dir.as_deref().map(Arc::from) }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let (Some(_), Some(dir)) = (self.session.take(), &self.dir) {
            let _ = unmount(dir, true);
        }
    }
}

/// Mounts the objects below `prefix` (empty, or ending in `/`) on `dir`. Returns once the kernel
/// has accepted the mount.
pub fn mount(engine: Engine, prefix: &str, dir: &Path, options: &MountOptions) -> Result<Mounted, Error> {
    let failed = |cause| Error::Mount { dir: dir.to_owned(), cause };
    let device = mount_directly(dir, options).map_err(failed)?;
    let budget_bytes = engine.memory_bytes();
    let window = Arc::default();
    let (session, forgetting) = start(engine, prefix, device, Some(dir), options, &window).map_err(|cause| {
        // A session made from a descriptor does not unmount when it fails.
        let _ = unmount(dir, true);
        failed(cause)
    })?;
    window.begin(dir, budget_bytes);
    Ok(Mounted { dir: Some(dir.to_owned()), session: Some(session), forgetting: Some(forgetting) })
}

/// Serves the objects below `prefix` on `device`: a descriptor of `/dev/fuse` that a more
/// privileged process has opened, and has mounted or will. Returns once the kernel has accepted
/// the mount. Of `options`, those about the mount itself are that process's.
pub fn serve(engine: Engine, prefix: &str, device: OwnedFd, options: &MountOptions) -> Result<Mounted, Error> {
    // Each thread would have to open /dev/fuse, which this process may not have.
    let served = start(engine, prefix, Some(device), None, options, &Arc::default());
    let (session, forgetting) = served.map_err(Error::Session)?;
    Ok(Mounted { dir: None, session: Some(session), forgetting: Some(forgetting) })
}

/// Starts the threads that answer on `device`, or on one that `fusermount3` mounts on `dir`. With
/// a `dir`, each thread has a queue of its own.
fn start(
    engine: Engine,
    prefix: &str,
    device: Option<OwnedFd>,
    dir: Option<&Path>,
    options: &MountOptions,
    window: &Arc<KernelWindow>,
) -> io::Result<(BackgroundSession, JoinHandle<()>)> {
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
    config.mount_options.extend(options.no_exec.then_some(MountOption::NoExec));
    // Of a mount by another process, the kernel knows which users may read.
    config.acl = if options.allow_other || dir.is_none() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = dir.is_some();
    let filesystem = Mount::new(engine.clone(), prefix, options, Arc::clone(window));
    let ((inodes, prunes), accepted) = (filesystem.forgetting(), filesystem.accepted());
    let filesystem = Guarded::new(filesystem, engine.clone());
    let session = match device {
        Some(device) => Session::from_fd(filesystem, device, config.acl, config),
        None => Session::new(filesystem, dir.unwrap_or(Path::new("")), &config),
    }?;
    let device = session.as_fd().try_clone_to_owned()?;
    accepted(device.try_clone()?, session.notifier());
    let forgetting = forgetting::start(engine, inodes, device, session.notifier(), prunes.load(Relaxed))?;
    Ok((session.spawn()?, forgetting))
}

/// Mounts by the system call, where this process may; `None` where `fusermount3` is needed.
///
/// `fuser` could do this, but only with the type `fuse`, by which tools cannot recognise the
/// mount.
fn mount_directly(dir: &Path, options: &MountOptions) -> io::Result<Option<OwnedFd>> {
    let device: OwnedFd = File::options().read(true).write(true).open("/dev/fuse")?.into();
    let mode = std::fs::metadata(dir)?.mode();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data =
        format!("fd={},rootmode={mode:o},user_id={uid},group_id={gid},default_permissions", device.as_raw_fd());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    flags.set(MountFlags::NOEXEC, options.no_exec);
    let data = CString::new(data)?;
    match rustix::mount::mount(options.source.as_str(), dir, "fuse.foreread", flags, data.as_c_str()) {
        Ok(()) => Ok(Some(device)),
        Err(rustix::io::Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts `dir`: by the system call where allowed, otherwise through `fusermount3`.
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

/// Threads that read requests. A thread answers hits itself and hands everything else on. Lower:
/// hits wait for each other. Higher: more threads than cores, for nothing.
const THREADS: usize = 4;
