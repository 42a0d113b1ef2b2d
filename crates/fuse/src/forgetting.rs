//! The thread that asks the kernel to forget inodes that take too much memory.
//!
//! ```text
//!   Inodes::to_forget ──> a batch ── Linux 6.18 ──> FUSE_NOTIFY_PRUNE: the unused, by number
//!         ^                   └───── before ──────> FUSE_NOTIFY_INVAL_ENTRY: each, by name
//!         └── FORGET <── kernel <───────────────────────────────────┘
//! ```
//!
//! The kernel prunes only what nothing uses. An invalidated name goes in any case: the kernel
//! keeps the inode of an open file or of a program's directory, but knows no path to it until the
//! name is looked up again.
//!
//! A panic leaves out one batch: names that are not forgotten would take more and more memory.
//!
//! *Invariant:* no thread that answers requests does this. The kernel invalidates a name under the
//! lock of its directory, which a look-up in the directory has until it is answered; and it
//! forgets a file once its pages have come.
//!
//! Which inodes go is policy's rule. The messages are those of `include/uapi/linux/fuse.h`, 7.45.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foreread_engine::Engine;
use fuser::{INodeNo, Notifier};

use crate::inode::{Forgettable, Inodes};

/// Starts the thread, which ends when the mount ends. `device` is that of the mount, and
/// `prunes` says whether its kernel knows `FUSE_NOTIFY_PRUNE`.
pub(crate) fn start(
    engine: Engine,
    inodes: Arc<Inodes>,
    device: OwnedFd,
    notifier: Notifier,
    prunes: bool,
) -> io::Result<JoinHandle<()>> {
    let ask = move || {
        let mut prunes = prunes;
        let mut batch = Vec::new();
        each(&engine, || {
            if !inodes.to_forget(&mut batch, BATCH) {
                return false;
            }
            let asked = if prunes { prune(&device, &batch) } else { invalidate(&notifier, &inodes, &batch) };
            if let Err(error) = asked {
                tracing::debug!(%error, prunes, "the kernel does not forget names");
                // A kernel that says 7.45 and does not know the message refuses all of it.
                prunes &= error.raw_os_error() != Some(libc::EINVAL);
            }
            true
        });
    };
    thread::Builder::new().name("foreread-forget".to_owned()).spawn(ask)
}

/// Asks until there is nothing more to ask for. A batch that panics is left out.
fn each(engine: &Engine, mut ask: impl FnMut() -> bool) {
    while engine.survive("what asks the kernel to forget names", &mut ask).unwrap_or_else(|| {
        // What panics at once, each time, must not take a processor.
        thread::sleep(PAUSE);
        true
    }) {}
}

fn prune(device: &OwnedFd, batch: &[Forgettable]) -> io::Result<()> {
    let message = prune_message(batch.iter().map(|inode| inode.number));
    rustix::io::write(device, &message)?;
    Ok(())
}

/// `fuse_notify_prune_out`, and the numbers.
fn prune_message(numbers: impl ExactSizeIterator<Item = u64>) -> Vec<u8> {
    let count = numbers.len() as u32;
    let mut body = count.to_ne_bytes().to_vec();
    body.resize(PRUNE_BYTES, 0);
    body.extend(numbers.flat_map(u64::to_ne_bytes));
    message(FUSE_NOTIFY_PRUNE, &body)
}

/// `fuse_out_header` and a body. No request has number 0: this is not an answer.
fn message(code: i32, body: &[u8]) -> Vec<u8> {
    let len = (HEADER_BYTES + body.len()) as u32;
    [&len.to_ne_bytes()[..], &code.to_ne_bytes(), &0_u64.to_ne_bytes(), body].concat()
}

/// Has the kernel ask for each name again that it knows, whatever time it was told. Linux 6.16;
/// kernels before refuse it.
pub(crate) fn forget_what_names_are(device: &OwnedFd) -> io::Result<()> {
    rustix::io::write(device, &message(FUSE_NOTIFY_INC_EPOCH, &[]))?;
    Ok(())
}

fn invalidate(notifier: &Notifier, inodes: &Inodes, batch: &[Forgettable]) -> io::Result<()> {
    for inode in batch.iter().filter(|inode| !inode.name.is_empty()) {
        // This would wait for that call, and all later ones in the directory for this.
        if inodes.waits_in(inode.parent) {
            continue;
        }
        match notifier.inval_entry(INodeNo(inode.parent), OsStr::new(&inode.name)) {
            // The mount has ended.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Err(error),
            Err(error) => tracing::debug!(%error, inode.name, "the kernel does not forget a name"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// `struct fuse_out_header`: length, code and the number of the request.
const HEADER_BYTES: usize = 16;

/// `struct fuse_notify_prune_out`: a count and what is not used yet.
const PRUNE_BYTES: usize = 16;

const FUSE_NOTIFY_PRUNE: i32 = 9;
const FUSE_NOTIFY_INC_EPOCH: i32 = 8;

/// Inodes asked for at a time, as many as the kernel takes in one step. Lower: more calls. Higher:
/// they are chosen earlier than they are asked for.
const BATCH: usize = 512;

/// How long nothing is asked for after a panic. Lower: a panic that repeats takes more of a
/// processor. Higher: names take memory for longer.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use foreread_backend::{ConnectOptions, connect};
    use foreread_engine::Options;

    use super::*;

    #[test]
    fn a_batch_that_panics_is_left_out_and_counted() {
        let backend = connect("/", &ConnectOptions::default()).expect("it is there").backend;
        let engine = Engine::new(backend, &Options::default()).expect("an engine");
        let mut asked = 0;
        each(&engine, || {
            asked += 1;
            assert!(asked != 2, "the second batch");
            asked < 4
        });
        assert_eq!((asked, engine.stats().panics), (4, 1));
    }

    #[test]
    fn a_message_is_as_the_kernel_has_it() {
        let message = prune_message([0x42, 0x1_0000_0007].into_iter());
        let words: Vec<u32> =
            message.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes"))).collect();
        let body = if cfg!(target_endian = "little") { [0x42, 0, 7, 1] } else { [0, 0x42, 1, 7] };
        assert_eq!(words, [[48, 9, 0, 0, 2, 0, 0, 0].as_slice(), &body].concat());
        assert_eq!(super::message(FUSE_NOTIFY_INC_EPOCH, &[]).len(), HEADER_BYTES);
    }
}
