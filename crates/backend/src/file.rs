//! A local directory: the files below it are the objects.
//!
//! ```text
//!  stat ── the kernel has the path in memory ──> at once          file.rs
//!            └─ it does not ──> a thread that waits
//!  list ──> a thread that waits                                   file/listing.rs
//!  read ──> pieces, one after the other ──┐                       file/pieces.rs
//!  positioned ──> one read, in place ─────┴─> foreread-local      file/positions.rs
//! ```
//!
//! A version is `{size, "dev-ino-mtime_ns-ctime_ns", mtime}` (`file/version.rs`). Files have no
//! conditional read, so the open file is checked before and after each piece is read: a piece is
//! not delivered if the file changed before, during, or until just after the read. (A writer that
//! changes bytes within the granularity of the file system's clock goes unnoticed, as it does in
//! every program.)
//!
//! The kernel resolves paths below the root (`openat2` with `RESOLVE_BENEATH`, `file/path.rs`): no
//! `..`, symlink or rename leads out of it. A symlink to a place below the root is the file or the
//! directory there, unless a path comes through it to a directory that it has come through:
//! so each walk ends. Other symlinks, sockets, pipes and devices do not exist here; a warning
//! names the first and counts them (`file/left_out.rs`). A name that is not UTF-8 has no key and
//! is skipped with a warning.

mod errno;
mod left_out;
mod listing;
mod path;
mod pieces;
mod positions;
mod version;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use foreread_local::{Mechanism, Submitter};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::fs::{Mode, OFlags};
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, ListPage, Object, Version};
use crate::{Backend, Body, Capabilities, Positioned};
use errno::failure;
use left_out::LeftOut;
use path::{beneath, open_file, remembered};
use pieces::Pieces;
use positions::{Descriptors, Positions};
use version::look;

/// Threads that may wait for a disk at the same time; tokio's pool of blocking threads is larger
/// and shared. Lower: fewer requests at the disk. Higher: other users of the pool may have to
/// wait.
const THREADS_MAX: usize = 64;

/// A directory as storage.
pub struct Directory {
    name: String,
    root: Arc<OwnedFd>,
    threads: Arc<Semaphore>,
    submitter: Arc<Submitter>,
    descriptors: Arc<Descriptors>,
    left_out: Arc<LeftOut>,
    rotational: bool,
    remote: bool,
}

impl Directory {
    /// Opens the root; `path` is not looked up again. Files are read by the `wanted` mechanism
    /// where the system allows it.
    pub fn open(path: &Path, wanted: Mechanism) -> Result<Self, Error> {
        let name = path.display().to_string();
        let fail = |e| failure(e, Operation::Configure, &name);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
        // Fails now, and not at the first file, if the kernel (before 5.6) or a sandbox lacks
        // `openat2`.
        beneath(&root, ".", OFlags::PATH).map_err(fail)?;
        let device = rustix::fs::fstat(&root).map_err(fail)?.st_dev;
        let remote = rustix::fs::fstatfs(&root).is_ok_and(|fs| is_remote(fs.f_type as u64));
        // A check of a file there may wait for a server, which the reaper that all reads share
        // must not.
        let submitter = Arc::new(Submitter::new(if remote { Mechanism::Threads } else { wanted }));
        tracing::debug!(root = name, mechanism = %submitter.mechanism(), "how local files are read");
        Ok(Self {
            root: Arc::new(root),
            threads: Arc::new(Semaphore::new(THREADS_MAX)),
            submitter,
            descriptors: Arc::default(),
            left_out: Arc::default(),
            rotational: is_rotational(Path::new("/sys/dev/block"), device),
            remote,
            name,
        })
    }
}

/// Whether a file system of this type asks a server, or a program, for a file's attributes.
fn is_remote(magic: u64) -> bool {
    // 9P, NFS, SMB (three of them), Ceph, AFS, FUSE: statfs(2).
    const REMOTE: [u64; 8] =
        [0x0102_1997, 0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x6573_5546];
    REMOTE.contains(&(magic & 0xffff_ffff))
}

/// Whether the kernel says that `device` is a rotating disk; `devices` is the directory of devices
/// by number. A file system without a device of its own (a network's, or several disks') counts as
/// not rotating: storage in front of many disks serves many requests at a time.
fn is_rotational(devices: &Path, device: u64) -> bool {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A partition has no queue; its disk is the folder above.
    ["queue", "../queue"].iter().any(|queue| {
        let path = devices.join(format!("{major}:{minor}")).join(queue).join("rotational");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    })
}

impl Backend for Directory {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conditional_read: true,
            list: true,
            list_after: false,
            directories: true,
            range: true,
            rotational: self.rotational,
            read_current: false,
        }
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        async move {
            if !self.remote
                && let Ok(file) = remembered(&self.root, key, OFlags::PATH)
            {
                return Ok(Object { key: key.clone(), version: look(&file, key, Operation::Stat)? });
            }
            let (root, key) = (self.root.clone(), key.clone());
            blocking(&self.threads, Operation::Stat, key.as_str().to_owned(), move || {
                let file = open_file(&root, &key, OFlags::PATH, Operation::Stat)?;
                let version = look(&file, &key, Operation::Stat)?;
                Ok(Object { key, version })
            })
            .await
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            let (root, key, version) = (self.root.clone(), key.clone(), version.clone());
            let submitter = Arc::clone(&self.submitter);
            let name = key.as_str().to_owned();
            let pieces = blocking(&self.threads, Operation::Read, name, move || {
                let file = open_file(&root, &key, OFlags::RDONLY, Operation::Read)?;
                Pieces::new(file, key, &version, range, submitter)
            });
            Ok(pieces.await?.body())
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let (root, object, from) = (self.root.clone(), prefix.to_owned(), continuation.map(str::to_owned));
        let (left_out, prefix) = (Arc::clone(&self.left_out), object.clone());
        let page = move || listing::page(&root, &left_out, &prefix, from.as_deref());
        blocking(&self.threads, Operation::List, object, page).boxed()
    }

    fn positioned(&self, object: &Object) -> Option<Arc<dyn Positioned>> {
        if self.remote {
            return None;
        }
        let (root, submitter) = (Arc::clone(&self.root), Arc::clone(&self.submitter));
        Some(Positions::new(root, submitter, Arc::clone(&self.descriptors), object.clone()))
    }

    fn submission(&self) -> Option<&Submitter> {
        Some(&self.submitter)
    }
}

/// Runs a task that may wait for the disk, once fewer than [`THREADS_MAX`] others run.
async fn blocking<T: Send + 'static>(
    threads: &Arc<Semaphore>,
    operation: Operation,
    object: String,
    task: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let permit = Arc::clone(threads).acquire_owned().await.expect("the semaphore is never closed");
    let task = move || {
        let result = task();
        drop(permit);
        result
    };
    tokio::task::spawn_blocking(task).await.unwrap_or_else(|ended| match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is shutting down.
        Err(ended) => Err(Error::new(ErrorKind::Transient, operation, &object, ended.to_string()).with_source(ended)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_partition_is_rotational_if_its_disk_is() {
        let sys = tempfile::tempdir().expect("a folder");
        let (devices, disk) = (sys.path().join("dev"), sys.path().join("sda"));
        fs::create_dir_all(disk.join("queue")).and_then(|()| fs::create_dir(disk.join("sda1"))).expect("a disk");
        fs::create_dir(&devices).expect("its numbers");
        symlink(&disk, devices.join("8:0"))
            .and_then(|()| symlink(disk.join("sda1"), devices.join("8:1")))
            .expect("links");
        for (says, turns) in [("1\n", true), ("0\n", false)] {
            fs::write(disk.join("queue/rotational"), says).expect("what the kernel says");
            for minor in [0, 1] {
                assert_eq!(is_rotational(&devices, rustix::fs::makedev(8, minor)), turns, "8:{minor}");
            }
        }
        assert!(!is_rotational(&devices, rustix::fs::makedev(0, 42)), "a file system without a device");
    }
}
