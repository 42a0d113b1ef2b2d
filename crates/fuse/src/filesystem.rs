//! The file system as fuser calls it. Each operation is answered here or handed to the engine's runtime with its reply.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use foreread_engine::{
    self as engine, Directory, Engine, Error, ErrorKind, File, Key, NAME_BYTES_MAX, Named, Object, Pages,
};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use parking_lot::Mutex;

use crate::errno;
use crate::inode::{Inode, Inodes, Node, ROOT};
use crate::killed::{killed, killed_while};
use crate::mount::MountOptions;
use crate::question::{self, Question};

/// A mounted prefix.
pub(crate) struct Mount {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    inodes: Inodes,
    look: Look,
    files: Mutex<HashMap<u64, File>>,
    directories: Mutex<HashMap<u64, Arc<Directory>>>,
    next_handle: AtomicU64,
}

/// What all files look like.
struct Look {
    uid: u32,
    gid: u32,
    file_mode: u16,
    dir_mode: u16,
    mounted: SystemTime,
}

impl Mount {
    pub(crate) fn new(engine: Engine, prefix: &str, options: &MountOptions) -> Self {
        let look = Look {
            uid: options.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            gid: options.gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
            file_mode: options.file_mode,
            dir_mode: options.dir_mode,
            mounted: SystemTime::now(),
        };
        let shared = Shared {
            engine,
            inodes: Inodes::new(prefix),
            look,
            files: Mutex::default(),
            directories: Mutex::default(),
            next_handle: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Runs `f` on the engine's runtime: the FUSE thread goes on.
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, f: impl FnOnce(Arc<Shared>) -> F) {
        self.shared.engine.runtime().spawn(f(Arc::clone(&self.shared)));
    }
}

impl Mount {
    /// Has files below a directory ready, in the order of their paths.
    fn expect(&self, ino: INodeNo, paths: &[u8], reply: ReplyIoctl) {
        let Some(inode) = self.shared.inodes.get(ino.0) else { return reply.error(Errno::ESTALE) };
        let Node::Directory(prefix) = &inode.node else { return reply.error(Errno::ENOTTY) };
        let keys: Vec<_> = question::paths(paths).map(|path| Key::new(format!("{prefix}{path}"))).collect();
        self.spawn(|shared| async move {
            match shared.engine.expect(keys).await {
                // Over what was asked, up to a zero.
                Ok(known) => reply.ioctl(0, format!("{known}\0").as_bytes()),
                Err(error) => {
                    tracing::warn!(%error, "listing failed");
                    reply.error(errno::of_name(&error));
                }
            }
        });
    }
}

impl Shared {
    fn attributes(&self, inode: &Inode) -> FileAttr {
        let (kind, perm, nlink, size, modified) = match &inode.node {
            Node::Directory(_) => (FileType::Directory, self.look.dir_mode, 2, 0, None),
            Node::File(object) => {
                let version = &object.version;
                (FileType::RegularFile, self.look.file_mode, 1, version.size, version.modified)
            }
        };
        let time = modified.unwrap_or(self.look.mounted);
        FileAttr {
            ino: INodeNo(inode.number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid: self.look.uid,
            gid: self.look.gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }

    /// The inode of what a name stands for, looked up once more.
    fn inode(&self, node: &engine::Node) -> Arc<Inode> {
        match node {
            engine::Node::Directory(prefix) => self.inodes.directory(prefix),
            engine::Node::File(object) => self.inodes.file(object),
        }
    }

    /// Opens the object of an inode if that is still its version.
    async fn open(&self, inode: &Inode, object: &Object) -> Result<File, Errno> {
        if inode.is_outdated() {
            return Err(Errno::ESTALE);
        }
        if !inode.take_confirmation() && !self.engine.is_current(object) {
            let now = self.engine.stat(&object.key).await.map_err(|e| errno::of_read(&e))?;
            if now.version != object.version {
                return Err(Errno::ESTALE);
            }
        }
        Ok(self.engine.open(object))
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Relaxed)
    }
}

impl Filesystem for Mount {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            // With each entry its inode, where the kernel sees that it is wanted: an inode takes more than a name does.
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HAS_IOCTL_DIR,
        ] {
            // An older kernel does without.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
        // Also the longest read: direct I/O sends up to this much in one request.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(parent) = self.shared.inodes.get(parent.0) else { return reply.error(Errno::ESTALE) };
        let (name, pid) = (name.to_owned(), req.pid());
        self.spawn(|shared| async move {
            let Node::Directory(prefix) = &parent.node else { return reply.error(Errno::ENOTDIR) };
            let Some(name) = name.to_str() else { return reply.error(Errno::ENOENT) };
            let asked = Instant::now();
            let named = tokio::select! {
                named = shared.engine.look_up(prefix, name) => named,
                () = killed(pid) => return reply.error(Errno::EINTR),
            };
            match named {
                Ok(Named { node, believed, .. }) => {
                    let inode = shared.inode(&node);
                    if matches!(node, engine::Node::File(_)) && believed.is_zero() {
                        inode.confirm(asked);
                    }
                    let attributes = shared.attributes(&inode);
                    reply.entry_with_ttls(&attribute_ttl(&inode), &believed, &attributes, Generation(0));
                }
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        tracing::warn!(%error, ?name, "look-up failed");
                    }
                    reply.error(errno::of_name(&error));
                }
            }
        });
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.shared.inodes.forget(ino.0, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.shared.inodes.get(ino.0) {
            Some(inode) => reply.attr(&attribute_ttl(&inode), &self.shared.attributes(&inode)),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(inode) = self.shared.inodes.get(ino.0) else { return reply.error(Errno::ESTALE) };
        if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let pid = req.pid();
        self.spawn(|shared| async move {
            let Node::File(object) = &inode.node else { return reply.error(Errno::EISDIR) };
            let opened = tokio::select! {
                opened = shared.open(&inode, object) => opened,
                () = killed(pid) => return reply.error(Errno::EINTR),
            };
            match opened {
                Ok(file) => {
                    let handle = shared.handle();
                    shared.files.lock().insert(handle, file);
                    // The inode is the version: what the kernel has cached of it stays right.
                    let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                    reply.opened(FileHandle(handle), flags);
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn read(
        &self,
        req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.shared.files.lock().get(&fh.0).cloned();
        let Some(file) = file else { return reply.error(Errno::EBADF) };
        // Whoever takes the reply answers: the read, or the end of who waits for it.
        let reply = Arc::new(Mutex::new(Some(reply)));
        let waiting = Arc::clone(&reply);
        file.read(offset, size as usize, move |result| {
            let reply = reply.lock().take();
            if let Some(reply) = reply {
                answer(result, reply);
            }
        });
        if waiting.lock().is_some() {
            let pid = req.pid();
            self.spawn(|_| async move {
                if killed_while(pid, || waiting.lock().is_some()).await
                    && let Some(reply) = waiting.lock().take()
                {
                    reply.error(Errno::EINTR);
                }
            });
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let file = self.shared.files.lock().remove(&fh.0);
        drop(file);
        reply.ok();
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let Some(inode) = self.shared.inodes.get(ino.0) else { return reply.error(Errno::ESTALE) };
        let Node::Directory(prefix) = &inode.node else { return reply.error(Errno::ENOTDIR) };
        let handle = self.shared.handle();
        let directory = Arc::new(self.shared.engine.open_directory(prefix));
        self.shared.directories.lock().insert(handle, directory);
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let directory = self.shared.directories.lock().get(&fh.0).map(Arc::clone);
        let Some(directory) = directory else { return reply.error(Errno::EBADF) };
        for (at, name) in (0..FIRST_CHILD).zip([".", ".."]).skip(offset as usize) {
            let _ = reply.add(ino, at + 1, FileType::Directory, name);
        }
        let pid = req.pid();
        self.spawn(|_| async move {
            let place = place(offset);
            if let Some(errno) = awaited(&directory, place, pid).await {
                return reply.error(errno);
            }
            directory.visit(place, |place, name, node, _| {
                let kind = match node {
                    engine::Node::Directory(_) => FileType::Directory,
                    engine::Node::File(_) => FileType::RegularFile,
                };
                // Not looked up: the number only has to be one.
                !reply.add(INodeNo(UNKNOWN_INODE), u64::from(place) + FIRST_CHILD + 1, kind, name)
            });
            reply.ok();
        });
    }

    fn readdirplus(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let directory = self.shared.directories.lock().get(&fh.0).map(Arc::clone);
        let Some(directory) = directory else { return reply.error(Errno::EBADF) };
        let Some(this) = self.shared.inodes.get(ino.0) else { return reply.error(Errno::ESTALE) };
        for (at, name) in (0..FIRST_CHILD).zip([".", ".."]).skip(offset as usize) {
            // The kernel takes these two as names only, never as look-ups.
            let _ = reply.add(ino, at + 1, name, &Duration::ZERO, &self.shared.attributes(&this), Generation(0));
        }
        let pid = req.pid();
        self.spawn(|shared| async move {
            let place = place(offset);
            if let Some(errno) = awaited(&directory, place, pid).await {
                return reply.error(errno);
            }
            directory.visit(place, |place, name, node, believed| {
                let inode = shared.inode(&node);
                inode.unconfirm();
                let (number, attributes) = (INodeNo(inode.number), shared.attributes(&inode));
                let next = u64::from(place) + FIRST_CHILD + 1;
                let full = reply.add(number, next, name, &believed, &attributes, Generation(0));
                if full {
                    shared.inodes.forget(inode.number, 1);
                }
                !full
            });
            reply.ok();
        });
    }

    fn releasedir(&self, _req: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.shared.directories.lock().remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX as u32, BLOCK_BYTES);
    }

    fn ioctl(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        let Some(question) = Question::of(cmd) else { return reply.error(Errno::ENOTTY) };
        if question == Question::Expect {
            return self.expect(ino, in_data, reply);
        }
        let engine = &self.shared.engine;
        let answer = match question {
            Question::Stats => serde_json::to_vec(&engine.stats()),
            Question::Record if !engine.start_recording() => return reply.error(Errno::EBUSY),
            Question::Record | Question::Expect => Ok(Vec::new()),
            Question::Recorded => serde_json::to_vec(&engine.recorded(out_size as usize, false)),
            Question::RecordedLast => serde_json::to_vec(&engine.recorded(out_size as usize, true)),
        };
        match answer {
            Ok(text) if text.len() <= out_size as usize => reply.ioctl(0, &text),
            _ => reply.error(Errno::EOVERFLOW),
        }
    }

    // Said once each: the kernel does not ask again.

    fn getxattr(&self, _req: &Request, _ino: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _req: &Request, _ino: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn setxattr(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _lock_owner: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _offset: i64,
        _whence: i32,
        reply: fuser::ReplyLseek,
    ) {
        // The kernel knows by itself where data and holes of a file without holes are.
        reply.error(Errno::ENOSYS);
    }
}

/// Sends what a read has come to.
fn answer(result: Result<Pages, Error>, reply: ReplyData) {
    let pages = match result {
        Ok(pages) => pages,
        Err(error) => {
            tracing::warn!(%error, "read failed");
            return reply.error(errno::of_read(&error));
        }
    };
    if let Some(bytes) = pages.as_slice() {
        return reply.data(bytes);
    }
    // The protocol's library takes one slice: what lies in several folios is gathered.
    GATHERED.with_borrow_mut(|gathered| {
        gathered.resize(pages.len(), 0);
        pages.copy_to(gathered);
        reply.data(gathered);
    });
}

thread_local! {
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Waits for what a directory has at `place`. What the reader is told in its place, if anything.
async fn awaited(directory: &Directory, place: u32, pid: u32) -> Option<Errno> {
    let there = tokio::select! {
        there = directory.wait(place) => there,
        () = killed(pid) => return Some(Errno::EINTR),
    };
    there.err().map(|error| {
        tracing::warn!(%error, "listing failed");
        errno::of_name(&error)
    })
}

/// The place of the entry that the kernel calls `offset`.
fn place(offset: u64) -> u32 {
    offset.saturating_sub(FIRST_CHILD).try_into().unwrap_or(u32::MAX)
}

/// An inode is one version: what a file's attributes are never changes. A directory's say nothing that could.
fn attribute_ttl(inode: &Inode) -> Duration {
    if inode.number == ROOT { ROOT_TTL } else { Duration::from_hours(1) }
}

/// How long the kernel may take the root for granted: it is there as long as the mount is.
const ROOT_TTL: Duration = Duration::from_secs(1);

/// The first offset that is neither `.` nor `..`.
const FIRST_CHILD: u64 = 2;

/// Told to programs as the size that reads best: one folio.
const BLOCK_BYTES: u32 = 128 << 10;

/// The longest request: 1 MiB, the kernel's own limit.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Requests that the kernel may have waiting. Its default of 12 holds sixteen readers down to a few hundred reads a second.
const BACKGROUND_MAX: u16 = 512;

/// What the protocol means by an inode that has no number.
const UNKNOWN_INODE: u64 = 0xffff_ffff;
