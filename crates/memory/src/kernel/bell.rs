//! A bell: any thread rings it, and the thread that waits in `poll` or on a ring wakes up.
//!
//! ```text
//!   silent ── ring ──> rung: its descriptor can be read ── silence ──> silent
//! ```
//!
//! An eventfd(2). Rings before `silence` are one ring. So a thread silences the bell first and
//! looks for work second: work that is added in between rings again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

/// See the head of this file. Clones are the same bell.
#[derive(Debug, Clone)]
pub(crate) struct Bell {
    fd: Arc<OwnedFd>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    pub(crate) fn ring(&self) {
        // It fails only after 2^64 - 2 rings that were not silenced.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
