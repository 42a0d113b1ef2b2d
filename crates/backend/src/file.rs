//! A local directory: the files below it are the objects.
//!
//! A version is `{size, "dev-ino-mtime_ns-ctime_ns", mtime}`. There is no conditional read for files, so each piece is
//! read between two looks at the open file: a piece whose file changed before, during or until just after the read is
//! never delivered. (A writer that changes bytes within the granularity of the file system's clock goes unnoticed, as
//! it does for everyone.)
//!
//! Paths are resolved by the kernel below the root (`openat2` with `RESOLVE_BENEATH`): no `..`, symlink or rename leads
//! out of it. A symlink to somewhere below the root is the thing that it points to; others, sockets, pipes and devices
//! are not there. A name that is not UTF-8 has no key and is skipped with a warning.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, stream};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat};
use rustix::io::Errno;
use tokio::sync::Semaphore;

use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Entry, Key, ListPage, Object, Version};
use crate::{Backend, Body, Capabilities};

/// The piece that is read at once. Lower costs more system calls for each byte; higher delays the first bytes.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Threads that may wait for a disk at the same time; tokio's pool of blocking threads is larger and shared.
const THREADS_MAX: usize = 64;

/// Entries on a page of a listing.
const PAGE_ENTRIES: usize = 1000;

/// A directory as storage.
pub struct Directory {
    name: String,
    root: Arc<OwnedFd>,
    threads: Arc<Semaphore>,
    rotational: bool,
}

impl Directory {
    /// Opens the root; `path` is not looked up again.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failure(e, Operation::Configure, &name))?;
        // Tell now, and not at the first file, if the kernel (before 5.6) or a sandbox lacks what keeps paths inside.
        beneath(&root, ".", OFlags::PATH).map_err(|e| failure(e, Operation::Configure, &name))?;
        let device = rustix::fs::fstat(&root).map_err(|e| failure(e, Operation::Configure, &name))?.st_dev;
        let threads = Arc::new(Semaphore::new(THREADS_MAX));
        Ok(Self { name, root: Arc::new(root), threads, rotational: is_rotational(Path::new("/sys/dev/block"), device) })
    }
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
        Capabilities { conditional_read: true, list: true, range: true, rotational: self.rotational }
    }

    fn stat<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Object, Error>> {
        let (root, key) = (self.root.clone(), key.clone());
        let stat = blocking(self.threads.clone(), move || {
            let file = open_file(&root, &key, OFlags::PATH, Operation::Stat)?;
            let version = look(&file, &key, Operation::Stat)?;
            Ok(Object { key, version })
        });
        stat.boxed()
    }

    fn read<'a>(&'a self, key: &'a Key, version: &'a Version, range: Range<u64>) -> BoxFuture<'a, Result<Body, Error>> {
        async move {
            let (root, key, version) = (self.root.clone(), key.clone(), version.clone());
            let mut reading = Reading { file: None, key, version, range: range.clone(), position: range.start };
            reading = blocking(self.threads.clone(), move || {
                reading.file = Some(open_file(&root, &reading.key, OFlags::RDONLY, Operation::Read)?);
                reading.check().map_err(|e| e.with_extent(reading.range.clone()))?;
                Ok(reading)
            })
            .await?;
            let threads = self.threads.clone();
            let pieces = stream::try_unfold(reading, move |reading| {
                let threads = threads.clone();
                async move {
                    if reading.position == reading.range.end {
                        return Ok(None);
                    }
                    blocking(threads, move || reading.piece().map(Some)).await
                }
            });
            Ok(Box::pin(pieces) as Body)
        }
        .boxed()
    }

    fn list<'a>(&'a self, prefix: &'a str, continuation: Option<&'a str>) -> BoxFuture<'a, Result<ListPage, Error>> {
        let (root, prefix, from) = (self.root.clone(), prefix.to_owned(), continuation.map(str::to_owned));
        blocking(self.threads.clone(), move || page(&root, &prefix, from.as_deref())).boxed()
    }
}

/// A range of one version of an open file.
struct Reading {
    file: Option<OwnedFd>,
    key: Key,
    version: Version,
    range: Range<u64>,
    position: u64,
}

impl Reading {
    fn file(&self) -> &OwnedFd {
        self.file.as_ref().expect("opened before the first piece")
    }

    /// Makes sure that the file is still the version that was asked for.
    fn check(&self) -> Result<(), Error> {
        if look(self.file(), &self.key, Operation::Read)? == self.version {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Changed, Operation::Read, self.key.as_str(), "the file was changed or replaced"))
    }

    /// Reads the next piece, and looks at the file again before giving it away.
    fn piece(mut self) -> Result<(Bytes, Self), Error> {
        let length = (self.range.end - self.position).min(PIECE_BYTES_MAX);
        let extent = self.range.clone();
        let mut piece = Vec::with_capacity(length as usize);
        while (piece.len() as u64) < length {
            let at = self.position + piece.len() as u64;
            match rustix::io::pread(self.file(), rustix::buffer::spare_capacity(&mut piece), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(failure(e, Operation::Read, self.key.as_str()).with_extent(extent)),
            }
        }
        self.check().map_err(|e| e.with_extent(extent.clone()))?;
        piece.truncate(length as usize);
        if (piece.len() as u64) < length {
            let error = Error::new(ErrorKind::Transient, Operation::Read, self.key.as_str(), "the file ended early");
            return Err(error.with_extent(extent));
        }
        self.position += length;
        Ok((Bytes::from(piece), self))
    }
}

/// Runs a task that may wait for the disk, once fewer than [`THREADS_MAX`] others do.
async fn blocking<T: Send + 'static>(
    threads: Arc<Semaphore>,
    task: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let permit = threads.acquire_owned().await.expect("the semaphore is never closed");
    let task = move || {
        let result = task();
        drop(permit);
        result
    };
    tokio::task::spawn_blocking(task).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
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

/// Opens the object of a key. Paths that name it in another way than its key do not: `a//b`, `./a`, `a/`.
fn open_file(root: &OwnedFd, key: &Key, flags: OFlags, operation: Operation) -> Result<OwnedFd, Error> {
    if key.as_str().split('/').any(|name| matches!(name, "" | "." | "..")) {
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

/// One page of a directory. The continuation is the file system's own cookie of the next entry.
fn page(root: &OwnedFd, prefix: &str, from: Option<&str>) -> Result<ListPage, Error> {
    let fail = |e| failure(e, Operation::List, prefix);
    let path = match prefix.strip_suffix('/') {
        None if prefix.is_empty() => ".",
        Some(path) if !path.split('/').any(|name| matches!(name, "" | "." | "..")) => path,
        _ => return Ok(ListPage::default()),
    };
    let directory = match beneath(root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(ListPage::default()),
        result => result.map_err(fail)?,
    };
    if let Some(cookie) = from {
        let cookie = cookie.parse().map_err(|_| {
            Error::new(ErrorKind::Invalid, Operation::List, prefix, "this continuation is not from a listing")
        })?;
        rustix::fs::seek(&directory, SeekFrom::Start(cookie)).map_err(fail)?;
    }
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let (mut page, mut entries) = (ListPage::default(), RawDir::new(&directory, &mut buffer));
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fail)?;
        let cookie = entry.next_entry_cookie();
        match entry.file_name().to_str() {
            Ok("." | "..") => continue,
            Ok(name) => page.entries.extend(child(root, &directory, prefix, name)),
            Err(_) => tracing::warn!(prefix, name = ?entry.file_name(), "skipped: the name is not UTF-8"),
        }
        if page.entries.len() == PAGE_ENTRIES {
            page.continuation = Some(cookie.to_string());
            break;
        }
    }
    Ok(page)
}

/// What a name in a directory is; `None` for what is neither a file nor a directory below the root, or is gone already.
fn child(root: &OwnedFd, directory: &OwnedFd, prefix: &str, name: &str) -> Option<Entry> {
    let key = format!("{prefix}{name}");
    let mut stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        stat = rustix::fs::fstat(beneath(root, &key, OFlags::PATH).ok()?).ok()?;
    }
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Some(Entry::Prefix(key + "/"));
    }
    Some(Entry::Object(Object { version: version(&stat)?, key: Key::new(key) }))
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
    Error::new(kind, operation, object, message)
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
