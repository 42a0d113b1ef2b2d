//! File descriptors that a child of a fork does not keep.
//!
//! ```text
//!   fork ──> in the child: each descriptor of the table is closed; the generation is one higher
//! ```
//!
//! A child has its parent's descriptors. A lock would live on in it after the parent's death, and
//! a connection would look alive to its other end, so no successor would come. The handler that
//! runs in the child closes them: it allocates nothing and takes no lock. What the child inherits
//! of older generations closes nothing when it is dropped.
//!
//! A child that was made past the C library has the descriptors until it runs another program.
//! Then silence tells that the server is gone (`connection.rs`).

#![allow(unsafe_code, reason = "a handler of forks closes descriptors by number")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Descriptors that may be open at a time, 4096: a lock, a listener and two connections for each
/// of a thousand processes. Lower refuses clients; higher lengthens a fork.
const KEPT_MAX: usize = 4096;

static TABLE: [AtomicI32; KEPT_MAX] = [const { AtomicI32::new(NONE) }; KEPT_MAX];

/// Which process of a line of forks this is.
static GENERATION: AtomicU64 = AtomicU64::new(0);

const NONE: i32 = -1;

/// A descriptor that is closed in a child of a fork.
#[derive(Debug)]
pub(crate) struct Kept {
    /// There until it is dropped.
    fd: Option<OwnedFd>,
    place: usize,
    generation: u64,
}

impl Kept {
    /// Errors: too many are open.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        watch_forks();
        let generation = GENERATION.load(Ordering::Acquire);
        let raw = fd.as_raw_fd();
        let free =
            |place: &usize| TABLE[*place].compare_exchange(NONE, raw, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let place = (0..KEPT_MAX).find(free).ok_or_else(|| io::Error::from(io::ErrorKind::QuotaExceeded))?;
        Ok(Self { fd: Some(fd), place, generation })
    }
}

impl AsFd for Kept {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is there until it is dropped").as_fd()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        if self.generation == GENERATION.load(Ordering::Acquire) {
            TABLE[self.place].store(NONE, Ordering::Release);
        } else {
            // The handler has closed it: the number may be another file's by now.
            let _ = fd.into_raw_fd();
        }
    }
}

fn watch_forks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Ordering::AcqRel);
            for place in &TABLE {
                let fd = place.swap(NONE, Ordering::AcqRel);
                if fd != NONE {
                    // SAFETY: what owns the number is of an older generation, and never uses or
                    // closes it any more.
                    unsafe { libc::close(fd) };
                }
            }
        }
        // SAFETY: the handler swaps atomics and closes files, which is allowed in a child of any
        // fork.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
