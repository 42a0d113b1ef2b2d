//! An open object: one version, read at any offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use foreread_backend::{Object, Positioned};
use foreread_policy::{Extent, FileId, Found};
use tokio::sync::oneshot;

use crate::engine::Inner;
use crate::error::{Error, ErrorKind};
use crate::pages::table::{Lookup, PageTable, Pages};
use crate::pages::waiting::Waiting;

/// One version of one object and what is resident of it. Shared by all who have it open, and kept for a while after.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: FileId,
    pub(crate) object: Object,
    pub(crate) table: PageTable,
    /// How it is read in place, where it is.
    pub(crate) positioned: Option<Arc<dyn Positioned>>,
    /// How many [`File`]s there are.
    pub(crate) handles: AtomicUsize,
}

/// An open object, pinned to the version it had when it was opened.
///
/// Clones share everything. When the last one is dropped, what is in flight for it is given up.
pub struct File {
    pub(crate) engine: Arc<Inner>,
    pub(crate) opened: Arc<Opened>,
    /// Which open it is, for a recording.
    pub(crate) reader: u64,
}

impl Clone for File {
    fn clone(&self) -> Self {
        self.opened.handles.fetch_add(1, Ordering::Relaxed);
        Self { engine: Arc::clone(&self.engine), opened: Arc::clone(&self.opened), reader: self.reader }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.opened.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.engine.release(&self.opened);
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("object", &self.opened.object).finish_non_exhaustive()
    }
}

impl File {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.opened.object.version.size
    }

    /// The object and the version that is read.
    pub fn object(&self) -> &Object {
        &self.opened.object
    }

    /// How much of its contents is there.
    pub(crate) fn found(&self) -> Found {
        match self.opened.table.look_up(0, self.size().min(READ_BYTES_MAX) as usize) {
            Lookup::Present(pages) if pages.folios().iter().all(|folio| folio.is_resident()) => Found::Resident,
            Lookup::Present(_) => Found::InFlight,
            Lookup::Absent => Found::Absent,
        }
    }

    /// Reads up to `len` bytes at `offset` and calls `done` with them: at once on this thread if they are resident, else later
    /// from another. Fewer bytes come only at the end of the object, none beyond it. Never waits for storage.
    ///
    /// Errors: [`ErrorKind::Changed`] when the object is no longer the version that was opened; others as the storage has them,
    /// after retries within [`crate::Patience`]. `len` is at most 8 MiB; longer reads are cut (see [`File::read_at`]).
    pub fn read(&self, offset: u64, len: usize, done: impl FnOnce(Result<Pages, Error>) + Send + 'static) {
        if let Err((len, done)) = self.read_resident(offset, len, done) {
            self.engine.read_missing([Waiting::new(self.clone(), offset, len, done)]);
        }
    }

    /// Completes a read whose pages are resident. Of others gives back whom to tell, and how many bytes are to be fetched.
    pub(crate) fn read_resident<D>(&self, offset: u64, len: usize, done: D) -> Result<(), (usize, D)>
    where
        D: FnOnce(Result<Pages, Error>),
    {
        let len = (self.size().saturating_sub(offset)).min(len as u64).min(READ_BYTES_MAX) as usize;
        if len == 0 {
            done(Ok(Pages::empty()));
            return Ok(());
        }
        self.engine.tap.note(
            || (self.engine.now().0, self.opened.id.0, self.reader, offset, len as u64),
            || (self.size(), self.object().key.as_str().to_owned()),
        );
        let stats = &self.engine.stats;
        if let Lookup::Present(pages) = self.opened.table.look_up(offset, len)
            && pages.folios().iter().all(|f| f.is_resident())
        {
            let marked = pages.take_marks();
            self.engine.reference(&self.opened, &pages);
            stats.hit(len);
            done(Ok(pages));
            if marked {
                self.engine.touched(&self.opened, Extent::of_bytes(offset, len as u64), Found::Resident, true);
            }
            return Ok(());
        }
        Err(((len as u64).min(self.engine.read_bytes_max) as usize, done))
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the object. Errors as [`File::read`].
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let len = self.size().saturating_sub(offset).min(len as u64) as usize;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let (send, receive) = oneshot::channel();
            self.read(offset + bytes.len() as u64, len - bytes.len(), move |result| {
                // The reader may have gone away meanwhile.
                let _ = send.send(result);
            });
            let stopped = || Error::new(ErrorKind::Io, "the engine has been shut down");
            let pages = receive.await.map_err(|_| stopped())??;
            for piece in pages.slices() {
                bytes.extend_from_slice(piece);
            }
        }
        Ok(bytes.into())
    }
}

/// The longest single read: 8 MiB, one of the largest requests.
const READ_BYTES_MAX: u64 = 8 << 20;
