//! A local directory: the files below it are the objects.
//!
//! ```text
//!  stat ── what the kernel remembers of the path ──> at once         file.rs
//!           └─ it would have to look ──> a thread that waits
//!  list ──> a thread that waits                                      file/listing.rs
//!  read ──> pieces, one after the other ──┐                          file/pieces.rs
//!  positioned ──> one read, in place ─────┴─> foreread-local         file/positions.rs
//! ```
//!
//! A version is `{size, "dev-ino-mtime_ns-ctime_ns", mtime}`. There is no conditional read for files, so each piece is
//! read between two looks at the open file: a piece whose file changed before, during or until just after the read is
//! never delivered. (A writer that changes bytes within the granularity of the file system's clock goes unnoticed, as
//! it does for everyone.)
//!
//! Paths are resolved by the kernel below the root (`openat2` with `RESOLVE_BENEATH`): no `..`, symlink or rename leads
//! out of it. A symlink to somewhere below the root is the thing that it points to; others, sockets, pipes and devices
//! are not there. A name that is not UTF-8 has no key and is skipped with a warning.

mod listing;
mod pieces;
mod positions;

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use foreread_local::{Mechanism, Submitter};
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, ListPage, Object, Version};
use crate::{Backend, Body, Capabilities, Positioned};
use pieces::Pieces;
use positions::{Descriptors, Positions};

/// Threads that may wait for a disk at the same time; tokio's pool of blocking threads is larger and shared.
const THREADS_MAX: usize = 64;

/// A directory as storage.
pub struct Directory {
    name: String,
    root: Arc<OwnedFd>,
    threads: Arc<Semaphore>,
    submitter: Arc<Submitter>,
    descriptors: Arc<Descriptors>,
    rotational: bool,
    remote: bool,
}

impl Directory {
    /// Opens the root; `path` is not looked up again. Files are read by what is `wanted`, where that is to be had.
    pub fn open(path: &Path, wanted: Mechanism) -> Result<Self, Error> {
        let name = path.display().to_string();
        let fail = |e| failure(e, Operation::Configure, &name);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
        // Tell now, and not at the first file, if the kernel (before 5.6) or a sandbox lacks what keeps paths inside.
        beneath(&root, ".", OFlags::PATH).map_err(fail)?;
        let device = rustix::fs::fstat(&root).map_err(fail)?.st_dev;
        let remote = rustix::fs::fstatfs(&root).is_ok_and(|fs| is_remote(fs.f_type as u64));
        // A look at a file may wait for a server there: not on the thread that takes everybody's completions.
        let submitter = Arc::new(Submitter::new(if remote { Mechanism::Threads } else { wanted }));
        tracing::debug!(root = name, mechanism = %submitter.mechanism(), "how local files are read");
        Ok(Self {
            root: Arc::new(root),
            threads: Arc::new(Semaphore::new(THREADS_MAX)),
            submitter,
            descriptors: Arc::default(),
            rotational: is_rotational(Path::new("/sys/dev/block"), device),
            remote,
            name,
        })
    }
}

/// Whether a file system of that type asks a server, or a program, for the attributes of a file.
fn is_remote(magic: u64) -> bool {
    // 9P, NFS, SMB (three of them), Ceph, AFS, FUSE: statfs(2).
    const REMOTE: [u64; 8] =
        [0x0102_1997, 0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x5346_414f, 0x6573_5546];
    REMOTE.contains(&(magic & 0xffff_ffff))
}

/// Whether the kernel says that `device` is a disk that turns; `devices` is where it keeps them by number. A file system without a
/// device of its own (of a network, of several disks) is taken not to be: what is in front of many disks serves many at a time.
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
        Capabilities { conditional_read: true, list: true, list_after: false, range: true, rotational: self.rotational }
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
        let (root, prefix, from) = (self.root.clone(), prefix.to_owned(), continuation.map(str::to_owned));
        blocking(&self.threads, Operation::List, prefix.clone(), move || listing::page(&root, &prefix, from.as_deref()))
            .boxed()
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

/// Runs a task that may wait for the disk, once fewer than [`THREADS_MAX`] others do.
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
        // Who runs the threads is going away.
        Err(ended) => Err(Error::new(ErrorKind::Transient, operation, &object, ended.to_string()).with_source(ended)),
    })
}

/// Opens a path below the root.
fn beneath(root: impl AsFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        // Opening a pipe must not wait for its writer.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    loop {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
            // A rename somewhere raced with the look-up of `..` in a symlink.
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Opens the object of a key if all that takes is in the kernel's memory, and on the root's own file system.
fn remembered(root: &OwnedFd, key: &Key, flags: OFlags) -> Result<OwnedFd, Errno> {
    if !is_literal(key) {
        return Err(Errno::NOENT);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC;
    let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK | OFlags::NOCTTY };
    rustix::fs::openat2(root, key.as_str(), flags, Mode::empty(), resolve)
}

/// Whether the kernel takes a key for its exact text.
fn is_literal(key: &Key) -> bool {
    !key.as_str().split('/').any(|name| matches!(name, "" | "." | ".."))
}

/// Opens the object of a key. Paths that name it in another way than its key do not: `a//b`, `./a`, `a/`.
fn open_file(root: &OwnedFd, key: &Key, flags: OFlags, operation: Operation) -> Result<OwnedFd, Error> {
    if !is_literal(key) {
        return Err(failure(Errno::NOENT, operation, key.as_str()));
    }
    beneath(root, key.as_str(), flags).map_err(|e| failure(e, operation, key.as_str()))
}

/// The version of an open file.
fn look(file: &OwnedFd, key: &Key, operation: Operation) -> Result<Version, Error> {
    let stat = rustix::fs::fstat(file).map_err(|e| failure(e, operation, key.as_str()))?;
    version(&stat).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, operation, key.as_str(), "this is a directory or a special file, not an object")
    })
}

/// The version of a regular file.
fn version(stat: &Stat) -> Option<Version> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let (seconds, nanos) = (stat.st_mtime, stat.st_mtime_nsec);
    let mtime = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let ctime = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    let tag = format!("{:x}-{:x}-{mtime:x}-{ctime:x}", stat.st_dev, stat.st_ino);
    let since = |seconds: i64| Duration::new(seconds.unsigned_abs(), 0);
    let modified = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(since(seconds))
    } else {
        SystemTime::UNIX_EPOCH.checked_add(since(seconds))
    };
    let modified = modified.and_then(|time| time.checked_add(Duration::from_nanos(nanos)));
    Some(Version { size: stat.st_size as u64, tag: Some(tag.into()), modified })
}

/// Sorts a system call's error.
fn failure(errno: Errno, operation: Operation, object: &str) -> Error {
    let (kind, message) = match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => (ErrorKind::NotFound, "no such file".to_owned()),
        Errno::XDEV => (ErrorKind::NotFound, "the symlink leads out of the directory".to_owned()),
        Errno::LOOP => (ErrorKind::NotFound, "too many symlinks".to_owned()),
        Errno::ACCESS | Errno::PERM => (ErrorKind::PermissionDenied, errno.to_string()),
        Errno::NOSYS => (ErrorKind::Unsupported, "the kernel has no openat2 (Linux 5.6)".to_owned()),
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO | Errno::STALE => {
            (ErrorKind::Transient, errno.to_string())
        }
        _ => (ErrorKind::Invalid, errno.to_string()),
    };
    Error::new(kind, operation, object, message).with_source(std::io::Error::from(errno))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_partition_turns_with_its_disk() {
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
