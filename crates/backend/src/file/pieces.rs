//! A range of one version of a file, read in pieces.
//!
//! ```text
//!   body ── next ──> read a piece ──> version still the same? ── yes ──> yield it, next
//!                                              └─ no ──> Changed
//! ```

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use foreread_local::{Frames, Submitter};
use futures::stream;
use tokio::sync::oneshot;

use super::positions::Descriptor;
use crate::Body;
use crate::error::{Error, ErrorKind, Operation};
use crate::object::{Key, Version};

/// The rest of a range.
pub(super) struct Pieces {
    descriptor: Arc<Descriptor>,
    key: Key,
    range: Range<u64>,
    position: u64,
    submitter: Arc<Submitter>,
}

impl Pieces {
    /// The range of an open file, if the file has that version.
    pub(super) fn new(
        file: OwnedFd,
        key: Key,
        version: &Version,
        range: Range<u64>,
        submitter: Arc<Submitter>,
    ) -> Result<Self, Error> {
        // Through the kernel's page cache: the kernel reads the next piece ahead while this one is
        // used.
        let descriptor = Descriptor::new(file, &key, version).map_err(|e| e.with_extent(range.clone()))?;
        Ok(Self { descriptor: Arc::new(descriptor), key, position: range.start, range, submitter })
    }

    pub(super) fn body(self) -> Body {
        Box::pin(stream::try_unfold(self, |pieces| async move {
            if pieces.position == pieces.range.end { Ok(None) } else { pieces.next().await.map(Some) }
        }))
    }

    async fn next(mut self) -> Result<(Bytes, Self), Error> {
        let length = (self.range.end - self.position).min(PIECE_BYTES_MAX);
        let (send, receive) = oneshot::channel();
        let (checks, range) = (Arc::clone(&self.descriptor), self.range.clone());
        let done = Box::new(move |filled| {
            // Checked at once, on the thread that completes the read.
            let _ = send.send(checks.checked(filled, range));
        });
        let buffers = [Frames::new(length as usize)];
        self.submitter.read(self.descriptor.file(), self.position, buffers, done);
        let stopped = |_| {
            let text = "the read was given up";
            Error::new(ErrorKind::Transient, Operation::Read, self.key.as_str(), text).with_extent(self.range.clone())
        };
        let piece = receive.await.map_err(stopped)??.pop().unwrap_or_default();
        self.position += length;
        Ok((Bytes::from_owner(piece), self))
    }
}

/// Bytes of a piece. Lower: more system calls a byte. Higher: the first bytes come later, and on a
/// disk small reads of others wait longer. Simulations use the same value.
const PIECE_BYTES_MAX: u64 = 512 << 10;
