//! An open object: one version, read at any offset.
//!
//! ```text
//!   read ── beyond the end ──> no bytes
//!     ├── all folios resident ──> answered on this thread ── one was marked ──> driver: an event
//!     └── otherwise: Waiting ──> driver ── later, from another thread ──> Answer
//! ```
//!
//! *Invariant:* a read never waits for storage. A hit takes no lock but the page table's, and
//! allocates nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use foreread_backend::Object;
use foreread_backend::lock::Mutex;
use foreread_policy::{Chunks, Extent, PAGE_BYTES, ReadId, may_begin_call};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::error::Error;
use crate::failures::What;
use crate::pages::opened::{Opened, READ_BYTES_MAX};
use crate::pages::pinned::Pages;
use crate::pages::table::Lookup;
use crate::pages::waiting::{Missed, Reader, Waiting};
use crate::planted::Panic;
use crate::requests::filling::shut_down;
use crate::requests::storage::Storage;
use crate::slow::Finished;
use crate::survival::failed_itself;

/// An open object, pinned to the version it had when it was opened.
///
/// Clones share everything. When the last one is dropped, requests in flight for it are given up.
pub struct File {
    driver: Arc<Driver>,
    opened: Arc<Opened>,
    /// What a recording calls the reader of this open.
    reader: u64,
}

impl Clone for File {
    fn clone(&self) -> Self {
        self.opened.handles.fetch_add(1, Ordering::Relaxed);
        Self { driver: Arc::clone(&self.driver), opened: Arc::clone(&self.opened), reader: self.reader }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.opened.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.driver.release(&self.opened);
        }
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("object", &self.opened.object).finish_non_exhaustive()
    }
}

impl File {
    /// Opens an object, pinned to the version that `object` says. No I/O.
    pub(crate) fn open(driver: &Arc<Driver>, object: &Object) -> Self {
        let opened = driver.open(object);
        Self { driver: Arc::clone(driver), opened, reader: driver.next_reader() }
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.opened.size()
    }

    /// The object and the version that is read.
    pub fn object(&self) -> &Object {
        &self.opened.object
    }

    /// The bytes of it that are in the folder of [`Options::cache`](crate::Options::cache),
    /// ascending; where it is kept in more than 65,536 pieces, the first of them.
    pub fn cached(&self) -> Vec<Range<u64>> {
        let Some(kept) = &self.opened.kept else { return Vec::new() };
        let bytes = |page: u64| (page * PAGE_BYTES).min(self.size());
        kept.tier.kept(kept.object).into_iter().map(|pages| bytes(pages.start)..bytes(pages.end)).collect()
    }

    /// What is known of its column chunks or members: what its directory says, once a read has
    /// brought that; for a file named like one that has some, what its name tells, or the latest
    /// footer of another one said.
    pub fn chunks(&self) -> Chunks {
        self.opened.chunks(*self.driver.latest_chunks.lock())
    }

    /// Whether its footer has been read, and says that it has column chunks that are read by one
    /// call.
    pub fn has_chunks(&self) -> bool {
        self.opened.has_chunks()
    }

    /// How many bytes a program reads whose kernel asks for the `len` at `offset` first, as far as
    /// that is known: `len`, or more. A front door that can give the kernel more reads as many.
    pub fn call_of(&self, offset: u64, len: usize) -> usize {
        let is_whole = offset.is_multiple_of(PAGE_BYTES) && (len as u64).is_multiple_of(PAGE_BYTES);
        if !is_whole || !may_begin_call(len as u64 / PAGE_BYTES) || !self.opened.has_chunks() {
            return len;
        }
        let window = Extent::of_bytes(offset, len as u64);
        let call = self.driver.enter(|shard| shard.call_of(self.opened.id, window));
        let bytes = (call.end * PAGE_BYTES).min(self.size()).saturating_sub(offset).min(READ_BYTES_MAX);
        len.max(bytes as usize)
    }

    /// Whether all of these bytes are in memory.
    pub fn is_resident(&self, offset: u64, len: usize) -> bool {
        matches!(self.opened.table.look_up(offset, len), Lookup::Present(pages) if pages.is_resident())
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// Reads up to `len` bytes at `offset` and calls `done` with them: at once on this thread if
    /// they are resident, else later from another. Never waits for storage. Fewer bytes come at
    /// the end of the object, none beyond it, and fewer where a read is longer than an eighth of
    /// the memory budget.
    ///
    /// Errors: [`ErrorKind::Changed`](crate::ErrorKind::Changed) when the object is no longer the
    /// version that was opened; others as the storage has them, after retries within
    /// [`crate::Patience`]. `len` is at most 8 MiB; longer reads are cut (see [`File::read_at`]).
    pub fn read(&self, offset: u64, len: usize, done: impl FnOnce(Result<Pages, Error>) + Send + 'static) {
        self.read_by(self.reader, offset, len, done);
    }

    /// As [`File::read`]. A recording calls the reader `reader`, less than 2^32: a thread, which
    /// has one read after the other, in one file or in several. [`File::read`] takes each open for
    /// a reader.
    pub fn read_by<D>(&self, reader: u64, offset: u64, len: usize, done: D)
    where
        D: FnOnce(Result<Pages, Error>) + Send + 'static,
    {
        self.driver.storage.planted.pass(Panic::Read);
        if let Err((len, done)) = self.read_resident(reader, offset, len, done) {
            self.driver.read_missing([self.clone().missed(offset, len, done)]);
        }
    }

    /// What a recording calls the reader of this open.
    pub(crate) fn reader(&self) -> u64 {
        self.reader
    }

    /// Completes a read whose pages are resident. Of another one returns `done`, and how many
    /// bytes are to be fetched.
    pub(crate) fn read_resident<D>(&self, reader: u64, offset: u64, len: usize, done: D) -> Result<(), (usize, D)>
    where
        D: FnOnce(Result<Pages, Error>),
    {
        let len = (self.size().saturating_sub(offset)).min(len as u64).min(READ_BYTES_MAX) as usize;
        if len == 0 {
            done(Ok(Pages::empty()));
            return Ok(());
        }
        self.driver.tap.note(
            || (self.driver.now().0, self.opened.id.0, reader, offset, len as u64),
            || (self.size(), self.object().key.as_str().to_owned()),
        );
        self.opened.asked(reader, offset, len);
        if let Lookup::Present(pages) = self.opened.table.look_up(offset, len)
            && pages.is_resident()
        {
            let marked = pages.take_marks();
            self.driver.reference(&self.opened, &pages);
            self.driver.storage.stats.hit(len);
            self.opened.uses.read(len);
            if self.opened.may_tell(offset, len) {
                self.driver.look_at_layout(self, &pages);
            }
            done(Ok(pages));
            if marked {
                self.driver.marked(&self.opened, Extent::of_bytes(offset, len as u64));
            }
            return Ok(());
        }
        Err((len, done))
    }

    /// The bytes from `offset` to `end`, for the engine itself: a recording does not have the
    /// read.
    pub(crate) async fn read_unseen(&self, offset: u64, end: u64) -> Result<Vec<u8>, Error> {
        let (send, receive) = oneshot::channel();
        let len = (end - offset) as usize;
        let pages = match self.opened.table.look_up(offset, len) {
            Lookup::Present(pages) if pages.is_resident() => pages,
            Lookup::Present(_) | Lookup::Absent => {
                // It is not awaited any more if the runtime ends.
                let done = move |result| _ = send.send(result);
                self.driver.read_missing([self.clone().missed(offset, len, done)]);
                receive.await.map_err(|_| failed_itself())??
            }
        };
        let mut bytes = vec![0; pages.len()];
        pages.copy_to(&mut bytes);
        Ok(bytes)
    }

    /// A read that did not find all its pages resident, for the driver.
    pub(crate) fn missed<D>(self, offset: u64, len: usize, done: D) -> Arc<dyn Missed>
    where
        D: FnOnce(Result<Pages, Error>) + Send + 'static,
    {
        let (since, done) = (Instant::now(), Mutex::new(Some(done)));
        let answer = Answer { file: self, offset, len, since, is_anew: false, done };
        Waiting::new(answer, offset, len)
    }

    /// Reads up to `len` bytes at `offset`; fewer only at the end of the object. Errors as
    /// [`File::read`].
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let len = self.size().saturating_sub(offset).min(len as u64) as usize;
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let (send, receive) = oneshot::channel();
            self.read(offset + bytes.len() as u64, len - bytes.len(), move |result| {
                // The reader may have gone away meanwhile.
                let _ = send.send(result);
            });
            let pages = receive.await.map_err(|_| shut_down())??;
            for piece in pages.slices() {
                bytes.extend_from_slice(piece);
            }
        }
        Ok(bytes.into())
    }
}

/// The answer to a read that waits.
struct Answer<D> {
    file: File,
    offset: u64,
    len: usize,
    since: Instant,
    /// It has been made anew.
    is_anew: bool,
    done: Mutex<Option<D>>,
}

impl<D: FnOnce(Result<Pages, Error>) + Send + 'static> Reader for Answer<D> {
    fn opened(&self) -> &Opened {
        &self.file.opened
    }

    fn begins_anew(&self, offset: u64, len: usize, read: Option<ReadId>) -> bool {
        let driver = &self.file.driver;
        // One attempt of the older request may have been under way when storage came back. A read
        // that has waited for longer ends with it: reads of a storage that stays away end, too.
        if self.is_anew || self.since.elapsed() > driver.storage.patience.first_byte {
            return false;
        }
        let begun = driver.storage.stats.survive("a read that is made anew", || {
            driver.answered(&self.file.opened, None, read);
            let done = self.done.lock().take();
            let (file, since, done) = (self.file.clone(), self.since, Mutex::new(done));
            let anew = Self { file, offset, len, since, is_anew: true, done };
            driver.read_missing([Waiting::new(anew, offset, len) as Arc<dyn Missed>]);
        });
        begun.is_some()
    }

    fn finish(&self, result: Result<Pages, Error>, read: Option<ReadId>) {
        let (driver, opened) = (&self.file.driver, &self.file.opened);
        let Storage { stats, planted, slow, failures, .. } = &driver.storage;
        // The thread has other reads to answer, whatever becomes of this one.
        stats.survive("what policy is told of an answer", || driver.answered(opened, result.as_ref().ok(), read));
        let Some(done) = self.done.lock().take() else { return };
        let result = match stats.survive("an answer", || planted.pass(Panic::Answer)) {
            Some(()) => result,
            None => Err(failed_itself()),
        };
        stats.waited(result.as_ref().ok().map(Pages::len), self.since.elapsed());
        opened.uses.late();
        match &result {
            Ok(pages) => opened.uses.read(pages.len()),
            Err(error) => failures.note(What::Read, error),
        }
        if let Ok(pages) = &result
            && opened.may_tell_of_new(self.offset, pages.len())
        {
            driver.look_at_layout(&self.file, pages);
        }
        let key = opened.object.key.as_str();
        let read = Finished { key, offset: self.offset, len: self.len, since: self.since, result: result.as_ref() };
        if slow.tell(&read) {
            stats.slow_reads.fetch_add(1, Relaxed);
        }
        stats.survive("the reader that was answered", || done(result));
    }
}
