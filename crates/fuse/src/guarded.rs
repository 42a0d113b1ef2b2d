//! A panic of one call is that call's error: without this, it would end the thread that asks the
//! kernel for calls, and with it the mount.
//!
//! ```text
//!   kernel ── call ──> Guarded ──> file system ── panic ──> the reply is dropped: EIO
//!                                                    └────> counted in the engine's statistics
//! ```
//!
//! What a call does later, on the engine's runtime, ends in the same way ([`later`]).

use std::ffi::OsStr;
use std::io;

use foreread_engine::Engine;
use fuser::{
    FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyXattr,
    Request,
};

/// What a call is in errors.
const CALL: &str = "a call of the kernel, which fails with EIO,";

/// Does `what` a call has left to do, on the engine's runtime.
pub(crate) fn later(engine: &Engine, what: impl Future<Output = ()> + Send + 'static) {
    engine.survive_later(CALL, what);
}

/// A file system whose calls may panic, and the engine that counts it.
pub(crate) struct Guarded<F> {
    calls: F,
    engine: Engine,
}

impl<F> Guarded<F> {
    pub(crate) fn new(calls: F, engine: Engine) -> Self {
        Self { calls, engine }
    }

    /// Runs one call.
    fn survive(&self, call: impl FnOnce()) {
        // Locks are not poisoned, and what a call shares with others it changes in one step.
        self.engine.survive(CALL, call);
    }
}

impl<F: Filesystem> Filesystem for Guarded<F> {
    fn init(&mut self, req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.calls.init(req, config)
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.survive(|| self.calls.lookup(req, parent, name, reply));
    }

    fn forget(&self, req: &Request, ino: INodeNo, nlookup: u64) {
        self.survive(|| self.calls.forget(req, ino, nlookup));
    }

    fn getattr(&self, req: &Request, ino: INodeNo, fh: Option<FileHandle>, reply: ReplyAttr) {
        self.survive(|| self.calls.getattr(req, ino, fh, reply));
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.survive(|| self.calls.open(req, ino, flags, reply));
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.survive(|| self.calls.read(req, ino, fh, offset, size, flags, lock_owner, reply));
    }

    fn release(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        flush: bool,
        reply: ReplyEmpty,
    ) {
        self.survive(|| self.calls.release(req, ino, fh, flags, lock_owner, flush, reply));
    }

    fn opendir(&self, req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.survive(|| self.calls.opendir(req, ino, flags, reply));
    }

    fn readdir(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.survive(|| self.calls.readdir(req, ino, fh, offset, reply));
    }

    fn readdirplus(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        self.survive(|| self.calls.readdirplus(req, ino, fh, offset, reply));
    }

    fn releasedir(&self, req: &Request, ino: INodeNo, fh: FileHandle, flags: OpenFlags, reply: ReplyEmpty) {
        self.survive(|| self.calls.releasedir(req, ino, fh, flags, reply));
    }

    fn statfs(&self, req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.survive(|| self.calls.statfs(req, ino, reply));
    }

    fn ioctl(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.survive(|| self.calls.ioctl(req, ino, fh, flags, cmd, in_data, out_size, reply));
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.survive(|| self.calls.getxattr(req, ino, name, size, reply));
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.survive(|| self.calls.listxattr(req, ino, size, reply));
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        position: u32,
        reply: ReplyEmpty,
    ) {
        self.survive(|| self.calls.setxattr(req, ino, name, value, flags, position, reply));
    }

    fn flush(&self, req: &Request, ino: INodeNo, fh: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty) {
        self.survive(|| self.calls.flush(req, ino, fh, lock_owner, reply));
    }

    fn lseek(&self, req: &Request, ino: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: fuser::ReplyLseek) {
        self.survive(|| self.calls.lseek(req, ino, fh, offset, whence, reply));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use foreread_backend::{ConnectOptions, connect};
    use foreread_engine::Options;

    use super::*;

    fn engine() -> Engine {
        let backend = connect("/", &ConnectOptions::default()).expect("it is there").backend;
        Engine::new(backend, &Options::default()).expect("an engine")
    }

    #[test]
    fn what_a_call_does_later_may_panic_and_is_counted() {
        let engine = engine();
        let (reply, dropped) = channel::<()>();
        later(&engine, async move {
            let _reply = reply;
            panic!("before it has answered");
        });
        assert!(dropped.recv().is_err(), "the reply is dropped");
        while engine.stats().panics == 0 {
            std::thread::yield_now();
        }
        assert_eq!(engine.stats().panics, 1);
    }

    #[test]
    fn what_a_call_does_later_does_not_keep_the_engine() {
        let engine = engine();
        let (ended, task) = channel::<()>();
        later(&engine, async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        drop(engine);
        assert!(task.recv().is_err(), "the runtime ends with the engine, and its tasks with it");
    }

    /// The names of the calls that a source answers.
    fn calls(source: &str) -> Vec<&str> {
        let (_, calls) = source.split_once(" Filesystem for ").expect("an implementation");
        let (calls, _) = calls.split_once("\n}\n").expect("its end");
        calls.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next()).collect()
    }

    #[test]
    fn every_call_of_the_file_system_is_guarded() {
        let guarded = calls(include_str!("guarded.rs"));
        assert!(guarded.len() > 10, "{guarded:?}");
        assert_eq!(guarded, calls(include_str!("filesystem.rs")));
    }
}
