//! The file system that fuser calls: each operation is answered here, or handed to the engine's
//! runtime with its reply.
//!
//! ```text
//!   answered on the FUSE thread     getattr, forget, release, ioctl, a read that hits, an opendir
//!                                   of the root, or of a directory whose listing is known
//!   on the engine's runtime         lookup, open, opendir, readdir, readdirplus: they may ask the
//!                                   storage
//!   by the read's last byte         a read that misses
//! ```
//!
//! Each wait for storage ends early if the program is killed (`killed.rs`). Reading ahead, caching
//! and retries are the engine's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use foreread_engine::{
    self as engine, Directory, Engine, Error, ErrorKind, File, Key, NAME_BYTES_MAX, Named, Object, Pages, Wanted,
};
use fuser::{
    Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyXattr, Request, Version,
};
use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;

use crate::attributes::{BLOCK_BYTES, Look, attribute_ttl};
use crate::calls::{Call, Calls};
use crate::errno;
use crate::failed::Failed;
use crate::forgetting;
use crate::guarded::later;
use crate::inode::{Handle, Inodes, Opened, ROOT};
use crate::kernel_window::KernelWindow;
use crate::killed::{is_gone, killed, killed_while};
use crate::options::MountOptions;
use crate::question::{self, Asked, Question};
use crate::record::{Inode, Node};
use crate::setting::Setting;

/// A prefix as a file system.
pub(crate) struct Mount {
    shared: Arc<Shared>,
    /// Whether the kernel takes a notification of names that it is to prune.
    prunes: Arc<AtomicBool>,
}

struct Shared {
    engine: Engine,
    inodes: Arc<Inodes>,
    look: Look,
    /// One change of an option at a time: all is told of the same one last.
    setting: Mutex<()>,
    log_level: Option<fn(LevelFilter) -> bool>,
    /// The kernel's side of the mount, once it has accepted it.
    device: OnceLock<OwnedFd>,
    window: Arc<KernelWindow>,
    files: Mutex<HashMap<u64, (Opened, File)>>,
    calls: Arc<Calls>,
    failed: Arc<Failed>,
    directories: Mutex<HashMap<u64, (Opened, Arc<Directory>)>>,
    next_handle: AtomicU64,
    /// The thread that started a recording last, and the recording.
    recorder: Mutex<Option<(u32, u64)>>,
}

impl Mount {
    pub(crate) fn new(engine: Engine, prefix: &str, options: &MountOptions, window: Arc<KernelWindow>) -> Self {
        let inodes = Arc::new(Inodes::new(prefix, engine.memory_bytes(), engine.reserve()));
        let shared = Shared {
            engine,
            inodes,
            look: Look::new(options),
            setting: Mutex::default(),
            log_level: options.log_level,
            device: OnceLock::new(),
            window,
            files: Mutex::default(),
            calls: Arc::default(),
            failed: Arc::default(),
            recorder: Mutex::default(),
            directories: Mutex::default(),
            next_handle: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared), prunes: Arc::new(AtomicBool::new(options.prunes)) }
    }

    /// What the thread needs that asks the kernel to forget inodes. Whether it may prune is known
    /// once the kernel has accepted the mount.
    pub(crate) fn forgetting(&self) -> (Arc<Inodes>, Arc<AtomicBool>) {
        (Arc::clone(&self.shared.inodes), Arc::clone(&self.prunes))
    }

    /// What takes the kernel's side of the mount, once the kernel has accepted it.
    pub(crate) fn accepted(&self) -> impl FnOnce(OwnedFd, Notifier) + use<> {
        let shared = Arc::clone(&self.shared);
        move |device, notifier| {
            let _ = shared.device.set(device);
            shared.calls.accepted(notifier);
        }
    }

    /// Reads all that the program of `call` does, and finishes with the window of it that the
    /// kernel has asked for.
    fn read_call(
        &self,
        call: Call,
        file: &File,
        (reader, offset, window): (u64, u64, usize),
        finish: impl FnOnce(Result<Pages, Error>) + Send + 'static,
    ) {
        // A read that waits does not keep the mount.
        let (shared, since, again) = (Arc::downgrade(&self.shared), Instant::now(), file.clone());
        file.read_by(reader, offset, call.len(), move |result| match (result, shared.upgrade()) {
            (Ok(pages), Some(shared)) => call.answer(&shared.engine, &pages, |window| finish(Ok(window))),
            (Ok(pages), None) => finish(Ok(pages.part(0, window))),
            // What has failed may lie behind the window.
            (Err(_), _) if since.elapsed() < AGAIN_WITHIN || again.is_resident(offset, window) => {
                drop(call);
                again.read_by(reader, offset, window, finish);
            }
            (Err(error), _) => finish(Err(error)),
        });
    }

    /// Runs `f` on the engine's runtime, so that the FUSE thread goes on.
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, f: impl FnOnce(Arc<Shared>) -> F) {
        later(&self.shared.engine, f(Arc::clone(&self.shared)));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.shared.inodes.end();
    }
}

impl Mount {
    /// Announces files below a directory, in the order in which they will be read.
    fn expect(&self, ino: INodeNo, paths: &[u8], reply: ReplyIoctl) {
        let Some(node) = self.shared.inodes.node(ino.0) else { return reply.error(Errno::ESTALE) };
        let Node::Directory(prefix) = node else { return reply.error(Errno::ENOTTY) };
        let keys: Vec<_> = question::paths(paths).map(|path| Key::new(format!("{prefix}{path}"))).collect();
        self.spawn(|shared| async move {
            match shared.engine.expect(keys).await {
                // The answer overwrites the question, and ends with a zero byte.
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
    /// The inode that a name in `parent` stands for, with one look-up more.
    fn inode(&self, parent: INodeNo, node: &engine::Node) -> Inode {
        match node {
            engine::Node::Directory(prefix) => self.inodes.directory(parent.0, prefix),
            engine::Node::File(object) => self.inodes.file(parent.0, object),
        }
    }

    /// What is read just now of the files that are `asked` for, of what is `wanted`: as much as
    /// `bytes` have room for, with a zero byte at its end. `None` for a path of which nothing is
    /// known.
    fn watched(&self, asked: Asked<'_>, wanted: Wanted<'_>, bytes: usize) -> Option<Vec<u8>> {
        let node = match asked {
            Asked::All => None,
            Asked::Number(number) => match self.inodes.node(number) {
                // There is no such file any more: nothing of it is read.
                None => return Some(b"\0".to_vec()),
                node => node,
            },
            Asked::Path(path) => Some(self.inodes.below_root(path)?),
        };
        let wanted = match &node {
            Some(Node::File(object)) => wanted.with_key(object.key.as_str()),
            Some(Node::Directory(_)) | None => wanted,
        };
        let mut watched = self.engine.watch(&wanted.with_most(bytes / STREAM_BYTES_MIN));
        loop {
            let mut text = serde_json::to_vec(&watched).unwrap_or_default();
            text.push(0);
            let shown = watched.streams.len();
            if text.len() <= bytes || shown == 0 {
                return Some(text);
            }
            // As many as there is room for, if all take as much; one less at least.
            let fits = (shown * bytes / text.len()).min(shown - 1);
            watched.streams.truncate(fits);
            watched.more_streams += shown - fits;
        }
    }

    /// Starts a recording for the thread `pid`. That of a thread which is gone ends.
    fn record(&self, pid: u32) -> Option<u64> {
        let mut recorder = self.recorder.lock();
        if let Some((_, recording)) = recorder.take_if(|(before, _)| is_gone(*before)) {
            self.engine.end_recording(recording);
        }
        let recording = self.engine.start_recording()?;
        *recorder = Some((pid, recording));
        Some(recording)
    }

    /// Changes an option. Where names are believed for a shorter time, the kernel asks for each
    /// again.
    fn change(&self, setting: Setting) -> Result<(), Errno> {
        let _one = self.setting.lock();
        match setting {
            Setting::MemoryBytes(bytes) => {
                self.engine.set_memory_bytes(bytes).map_err(|_| Errno::EINVAL)?;
                self.inodes.set_budget(bytes);
            }
            Setting::MetadataTtl(ttl) => {
                self.engine.set_metadata_ttl(ttl);
                if let Some(Err(error)) = self.device.get().map(forgetting::forget_what_names_are) {
                    tracing::debug!(%error, "the kernel believes names as long as it was told before");
                }
            }
            Setting::Slow(slow) => self.engine.set_slow(slow),
            Setting::LogLevel(level) => {
                if !self.log_level.is_some_and(|set| set(level)) {
                    return Err(Errno::ENOENT);
                }
            }
        }
        tracing::info!(%setting, "an option was changed");
        Ok(())
    }

    /// Opens the object of an inode, if it still has that version.
    async fn open(&self, number: u64, object: &Object) -> Result<File, Errno> {
        if self.inodes.is_outdated(number) {
            return Err(Errno::ESTALE);
        }
        if !self.inodes.take_confirmation(number) && !self.engine.is_current(object) {
            let now = self.engine.stat(&object.key).await.map_err(|e| errno::of_read(&e))?;
            if now.version != object.version {
                return Err(Errno::ESTALE);
            }
        }
        Ok(self.engine.open(object))
    }

    /// Hands an open directory to the kernel.
    fn opened(&self, ino: INodeNo, directory: Arc<Directory>, reply: ReplyOpen) {
        let handle = self.handle();
        let opened = self.inodes.opened(ino.0, Handle::Directory);
        self.directories.lock().insert(handle, (opened, directory));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    /// The names that each directory has.
    fn own_names(&self, ino: INodeNo) -> [(u64, &'static str); 2] {
        [(ino.0, "."), (self.inodes.parent(ino.0), "..")]
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Relaxed)
    }
}

impl Filesystem for Mount {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if config.kernel_abi() < PRUNE_SINCE {
            self.prunes.store(false, Relaxed);
        }
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            // An entry with its inode where the kernel finds that useful: inodes take more memory
            // than names.
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_HAS_IOCTL_DIR,
        ] {
            // An older kernel works without it.
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_congestion_threshold(BACKGROUND_MAX / 4 * 3);
        // This is the longest read as well: direct I/O sends up to this much in one request.
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(node) = self.shared.inodes.node(parent.0) else { return reply.error(Errno::ESTALE) };
        if let Some(errno) = self.shared.failed.of_look_up(parent.0, name) {
            return reply.error(errno);
        }
        let (name, pid, since) = (name.to_owned(), req.pid(), Instant::now());
        self.spawn(move |shared| async move {
            let Node::Directory(prefix) = &node else { return reply.error(Errno::ENOTDIR) };
            let Some(name) = name.to_str() else { return reply.error(Errno::ENOENT) };
            let named = tokio::select! {
                named = shared.engine.look_up(prefix, name) => named,
                () = killed(pid) => return reply.error(Errno::EINTR),
                never = waits(&shared.inodes, parent) => match never {},
            };
            match named {
                Ok(Named { node, believed, .. }) => {
                    let inode = shared.inode(parent, &node);
                    if !inode.is_directory && believed.is_zero() {
                        // From the answer on: the open that this look-up belongs to comes next.
                        shared.inodes.confirm(inode.number, Instant::now());
                    }
                    let attributes = shared.look.attributes(&inode);
                    reply.entry_with_ttls(&attribute_ttl(&inode), &believed, &attributes, Generation(0));
                    shared.inodes.reserve();
                }
                Err(error) => {
                    if error.kind() != ErrorKind::NotFound {
                        tracing::warn!(%error, ?name, "look-up failed");
                        let errno = errno::of_name(&error);
                        shared.failed.look_up(parent.0, OsStr::new(name), errno, since);
                    }
                    reply.error(errno::of_name(&error));
                }
            }
        });
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.shared.inodes.forget(ino.0, nlookup);
        self.shared.inodes.reserve();
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.shared.inodes.get(ino.0) {
            Some(inode) => reply.attr(&attribute_ttl(&inode), &self.shared.look.attributes(&inode)),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(node) = self.shared.inodes.node(ino.0) else { return reply.error(Errno::ESTALE) };
        if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let pid = req.pid();
        self.spawn(|shared| async move {
            let Node::File(object) = &node else { return reply.error(Errno::EISDIR) };
            let opened = tokio::select! {
                opened = shared.open(ino.0, object) => opened,
                () = killed(pid) => return reply.error(Errno::EINTR),
            };
            match opened {
                Ok(file) => {
                    let (handle, chunks) = (shared.handle(), file.chunks());
                    let opened = shared.inodes.opened(ino.0, Handle::File);
                    shared.files.lock().insert(handle, (opened, file));
                    // The inode is the version, so the kernel's cached pages of it stay right.
                    let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
                    let budget_bytes = || shared.engine.memory_bytes();
                    shared.window.open(chunks, budget_bytes, || reply.opened(FileHandle(handle), flags));
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.shared.files.lock().get(&fh.0).map(|(_, file)| file.clone());
        let Some(file) = file else { return reply.error(Errno::EBADF) };
        let bytes = offset..offset.saturating_add(size.into());
        if let Some(errno) = self.shared.failed.of_read(fh.0, &bytes) {
            return reply.error(errno);
        }
        // The code that takes the reply answers: the read, or the end of the program that waits.
        let reply = Arc::new(Mutex::new(Some(reply)));
        let waiting = Arc::clone(&reply);
        let (is_cached, since) = (flags.0 & libc::O_DIRECT == 0, Instant::now());
        let failed = is_cached.then(|| Arc::clone(&self.shared.failed));
        let begun = (is_cached && file.has_chunks()).then(|| self.shared.calls.read(ino.0, bytes.clone()));
        let finish = move |result: Result<Pages, Error>| {
            let _begun = begun;
            if let (Some(failed), Err(error)) = (failed, &result) {
                // Before the kernel hears of it, and asks again.
                failed.read(fh.0, bytes, errno::of_read(error), since);
            }
            let reply = reply.lock().take();
            if let Some(reply) = reply {
                answer(result, reply);
            }
        };
        let (reader, window) = (u64::from(req.pid()), size as usize);
        match is_cached.then(|| self.shared.calls.begin(ino.0, &file, offset, window)).flatten() {
            None => file.read_by(reader, offset, window, finish),
            Some(call) => self.read_call(call, &file, (reader, offset, window), finish),
        }
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
        if let Some((opened, file)) = file {
            self.shared.inodes.closed(opened, Handle::File);
            drop(file);
        }
        reply.ok();
    }

    fn opendir(&self, req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let Some(node) = self.shared.inodes.node(ino.0) else { return reply.error(Errno::ESTALE) };
        let Node::Directory(prefix) = &node else { return reply.error(Errno::ENOTDIR) };
        let directory = Arc::new(self.shared.engine.open_directory(prefix));
        // The root is opened for questions about the mount, which wait for no storage.
        if ino.0 == ROOT || directory.has_begun() {
            return self.shared.opened(ino, directory, reply);
        }
        let pid = req.pid();
        self.spawn(move |shared| async move {
            // A program that opens what it takes for a file learns here that it may not.
            match awaited(&shared.inodes, ino, directory.begun(), pid).await {
                Ok(()) => shared.opened(ino, directory, reply),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdir(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let directory = self.shared.directories.lock().get(&fh.0).map(|(_, directory)| Arc::clone(directory));
        let Some(directory) = directory else { return reply.error(Errno::EBADF) };
        for (at, (number, name)) in (0..FIRST_CHILD).zip(self.shared.own_names(ino)).skip(offset as usize) {
            let _ = reply.add(INodeNo(number), at + 1, FileType::Directory, name);
        }
        let pid = req.pid();
        self.spawn(|shared| async move {
            let place = place(offset);
            let mut add = |place, name: &str, node, _| {
                let kind = match node {
                    engine::Node::Directory(_) => FileType::Directory,
                    engine::Node::File(_) => FileType::RegularFile,
                };
                // Not a look-up: any number but 0 will do.
                !reply.add(INodeNo(UNKNOWN_INODE), u64::from(place) + FIRST_CHILD + 1, kind, name)
            };
            match given(&shared.inodes, ino, &directory, place, pid, &mut add).await {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdirplus(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let directory = self.shared.directories.lock().get(&fh.0).map(|(_, directory)| Arc::clone(directory));
        let Some(directory) = directory else { return reply.error(Errno::EBADF) };
        let Some(this) = self.shared.inodes.get(ino.0) else { return reply.error(Errno::ESTALE) };
        for (at, (number, name)) in (0..FIRST_CHILD).zip(self.shared.own_names(ino)).skip(offset as usize) {
            // The kernel takes these two as names, never as look-ups.
            let attributes = self.shared.look.attributes(&Inode { number, ..this });
            let _ = reply.add(INodeNo(number), at + 1, name, &Duration::ZERO, &attributes, Generation(0));
        }
        let pid = req.pid();
        self.spawn(|shared| async move {
            let place = place(offset);
            let mut add = |place, name: &str, node, believed: Duration| {
                let inode = shared.inode(ino, &node);
                shared.inodes.unconfirm(inode.number);
                let (number, attributes) = (INodeNo(inode.number), shared.look.attributes(&inode));
                let next = u64::from(place) + FIRST_CHILD + 1;
                let full = reply.add(number, next, name, &believed, &attributes, Generation(0));
                if full {
                    shared.inodes.forget(inode.number, 1);
                }
                !full
            };
            match given(&shared.inodes, ino, &directory, place, pid, &mut add).await {
                Ok(()) => reply.ok(),
                Err(errno) => reply.error(errno),
            }
            shared.inodes.reserve();
        });
    }

    fn releasedir(&self, _req: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        let directory = self.shared.directories.lock().remove(&fh.0);
        if let Some((opened, _)) = directory {
            self.shared.inodes.closed(opened, Handle::Directory);
        }
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX as u32, BLOCK_BYTES);
    }

    fn ioctl(
        &self,
        req: &Request,
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
            Question::Stats => {
                self.shared.inodes.reserve_now();
                serde_json::to_vec(&engine.stats())
            }
            Question::Record => match self.shared.record(req.pid()) {
                Some(recording) => Ok(format!("{recording}\0").into_bytes()),
                None => return reply.error(Errno::EBUSY),
            },
            Question::Recorded | Question::RecordedLast => {
                let last = question == Question::RecordedLast;
                let recording = question::number_in(in_data);
                let bytes = (out_size as usize).saturating_sub(1);
                match recording.and_then(|recording| engine.recorded(recording, bytes, last)) {
                    // It overwrites the question, and ends with a zero byte.
                    Some(recorded) => serde_json::to_vec(&recorded).map(|text| [text, vec![0]].concat()),
                    None => return reply.error(Errno::ESTALE),
                }
            }
            Question::Change => {
                let user = req.uid();
                if user != 0 && user != rustix::process::geteuid().as_raw() {
                    return reply.error(Errno::EPERM);
                }
                let Some(setting) = Setting::parse(in_data) else { return reply.error(Errno::EINVAL) };
                match self.shared.change(setting) {
                    Ok(()) => Ok(format!("{setting}\0").into_bytes()),
                    Err(error) => return reply.error(error),
                }
            }
            Question::Watch => {
                let (asked, wanted) = question::wanted(in_data);
                match self.shared.watched(asked, wanted, out_size as usize) {
                    Some(text) => Ok(text),
                    None => return reply.error(Errno::ENOENT),
                }
            }
            Question::Expect => Ok(Vec::new()),
        };
        match answer {
            Ok(text) if text.len() <= out_size as usize => reply.ioctl(0, &text),
            _ => reply.error(Errno::EOVERFLOW),
        }
    }

    // One answer is enough for each of these: the kernel does not ask again.

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
        // The file has no holes, and the kernel can compute this without asking.
        reply.error(Errno::ENOSYS);
    }
}

/// The fewest bytes that the text of a stream takes.
const STREAM_BYTES_MIN: usize = 200;

/// Answers a read.
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
    // fuser takes one slice: bytes in several folios are copied together.
    GATHERED.with_borrow_mut(|gathered| {
        gathered.resize(pages.len(), 0);
        pages.copy_to(gathered);
        reply.data(gathered);
    });
}

thread_local! {
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Counts a call that the kernel makes under the lock of a directory, once it has lasted for a
/// while and as long as this is polled.
async fn waits(inodes: &Inodes, directory: INodeNo) -> Infallible {
    tokio::time::sleep(WAITS_LONG).await;
    let _waits = inodes.wait_in(directory.0);
    std::future::pending().await
}

/// Waits until a directory has an entry at `place`, and gives it and those behind it to `add`,
/// until that returns `false`. Returns the error for the program, if any.
async fn given(
    inodes: &Inodes,
    ino: INodeNo,
    directory: &Directory,
    place: u32,
    pid: u32,
    add: &mut (impl FnMut(u32, &str, engine::Node, Duration) -> bool + Send),
) -> Result<(), Errno> {
    loop {
        awaited(inodes, ino, directory.wait(place), pid).await?;
        // Memory may be so short that the entry is gone again.
        if directory.visit(place, &mut *add) {
            return Ok(());
        }
    }
}

/// Waits for an entry of a directory. Returns the error for the program, if any.
async fn awaited(
    inodes: &Inodes,
    ino: INodeNo,
    entry: impl Future<Output = Result<bool, Error>>,
    pid: u32,
) -> Result<(), Errno> {
    let there = tokio::select! {
        there = entry => there,
        () = killed(pid) => return Err(Errno::EINTR),
        never = waits(inodes, ino) => match never {},
    };
    there.map(drop).map_err(|error| {
        tracing::warn!(%error, "listing failed");
        errno::of_name(&error)
    })
}

/// The place of the entry that the kernel calls `offset`.
fn place(offset: u64) -> u32 {
    offset.saturating_sub(FIRST_CHILD).try_into().unwrap_or(u32::MAX)
}

/// The first offset behind `.` and `..`.
const FIRST_CHILD: u64 = 2;

/// How soon a longer read must have failed for its first window to be asked for again, where that
/// is not in memory. Lower: an error behind the window is more often one of the window. Higher: a
/// program waits twice for a storage that is silent. Source: chosen here.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// The longest request in bytes: the kernel's own limit.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// Requests that the kernel may have in flight in the background. Lower: the kernel's default of
/// 12 limits sixteen readers to a few hundred reads a second. Higher: more memory of the kernel.
const BACKGROUND_MAX: u16 = 512;

/// Time after which the kernel is not asked to forget names in a directory where a call waits.
/// Lower: fewer names are forgotten in a directory where calls are slow. Higher: a call that is
/// stuck at the storage may delay others in the directory.
const WAITS_LONG: Duration = Duration::from_millis(200);

/// The first protocol with `FUSE_NOTIFY_PRUNE`: Linux 6.18.
const PRUNE_SINCE: Version = Version(7, 45);

/// The protocol's number for an entry without an inode. The number that a look-up would tell is
/// not told: programs go through a long directory (`find`, `du`) in the order of what is told, and
/// would look its names up in no order. Source: docs/decisions/0119.
const UNKNOWN_INODE: u64 = 0xffff_ffff;
