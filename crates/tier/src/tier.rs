//! A cache that is open, and the registry of those of this process.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use foreread_local::lock::Mutex;
use foreread_local::{Frames, Submitter};
use foreread_policy::TierRoom;

use crate::error::Error;
use crate::folder::Folder;
use crate::object::ObjectId;
use crate::options::{Options, Stats};
use crate::queue::{Bytes, Offer};
use crate::reading::{self, Missing};
use crate::record::{BLOCK_PAGES, PAGE, block_number, page_bits};
use crate::shared::{Shared, Watch, count};
use crate::{watcher, writer};

/// What becomes of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It will be written.
    Taken,
    /// There is no room in the queue, or writing pauses: it may be offered again.
    Full,
    /// It is not worth keeping.
    Refused,
}

/// A cache of object content in a folder. Dropping it writes what was offered and seals the
/// segment that it wrote to.
pub struct Tier {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Tier {
    /// Opens the cache in `folder`, which is created with mode 0700 if it is not there. If this
    /// process has it open already, that one is returned, with its own options.
    ///
    /// Returns at once: what is there is loaded by a thread, the newest first.
    pub fn open(folder: &Path, options: Options) -> Result<Arc<Self>, Error> {
        let folder = Folder::create(folder, options.secret.as_ref())?;
        let key = (std::process::id(), folder.path().to_owned());
        let mut registry = REGISTRY.lock();
        let opened = registry.get_or_insert_default();
        if let Some(tier) = opened.get(&key).and_then(Weak::upgrade) {
            return Ok(tier);
        }
        opened.retain(|_, tier| tier.strong_count() > 0);
        let tier = Arc::new(Self::start(folder, options)?);
        opened.insert(key, Arc::downgrade(&tier));
        Ok(tier)
    }

    fn start(folder: Folder, options: Options) -> Result<Self, Error> {
        let path = folder.path().to_owned();
        let shared = Arc::new(Shared::new(folder, options));
        let tier = Self { shared: Arc::clone(&shared), threads: Mutex::new(Vec::new()) };
        let writes = writer::Writer::new(Arc::clone(&shared));
        let spawned = [
            thread::Builder::new().name("foreread-tier-w".into()).spawn(move || writes.run()),
            thread::Builder::new().name("foreread-tier-l".into()).spawn(move || watcher::run(&shared)),
        ];
        for thread in spawned {
            let thread = thread.map_err(|source| Error::Io { folder: path.clone(), source })?;
            tier.threads.lock().push(thread);
        }
        Ok(tier)
    }

    /// The identity of a version of an object in this folder.
    pub fn object(&self, store: &str, key: &str, version: &str) -> ObjectId {
        self.shared.folder.object(store, key, version)
    }

    /// The pages of an object that are known to be here, merged and ascending, at most 65,536
    /// ranges. A last page may be shorter than 4,096 bytes.
    ///
    /// What cold segments may have of it is read by a thread, and told to those that watch.
    pub fn kept(&self, object: ObjectId) -> Vec<Range<u64>> {
        let mut state = self.shared.state.lock();
        let kept = state.index.kept(object, KEPT_RANGES_MAX);
        let is_cold = !state.cold.of(object).is_empty();
        if is_cold && state.wanted.len() < WANTED_MAX && !state.wanted.contains(&object) {
            state.wanted.push_back(object);
            drop(state);
            // It may be about to wait.
            drop(self.shared.ends.lock());
            self.shared.ending.notify_all();
        }
        kept
    }

    /// Reads `pages` of an object: `len` bytes, the last page may be short. `done` gets all of the
    /// bytes, checked, or [`Missing`]: on this thread if nothing blocks, otherwise on another.
    pub fn read(
        self: &Arc<Self>,
        object: ObjectId,
        pages: Range<u64>,
        len: usize,
        done: Box<dyn FnOnce(Result<Frames, Missing>) + Send>,
    ) {
        reading::start(&self.shared, object, pages, len, done);
    }

    /// Offers bytes of an object that were read from the storage, from `first_page` on. Never
    /// blocks. An offer of several blocks of 128 KiB is admitted if most of its pages are. `told`
    /// is called once the pages can be read from here, on the thread that writes; it is dropped if
    /// they cannot.
    ///
    /// Only the end of an object may end within a page.
    pub fn offer(
        &self,
        object: ObjectId,
        first_page: u64,
        bytes: Box<dyn Bytes>,
        told: Box<dyn FnOnce(Range<u64>) + Send>,
    ) -> Answer {
        let shared = &self.shared;
        let len = (*bytes).as_ref().len();
        if len == 0 || first_page > PAGE_LAST || self.is_forked() {
            return Answer::Refused;
        }
        // What an offer takes besides its bytes is bounded with them.
        let cost = len.max(PAGE);
        let Some(queued) = shared.queue.room_for(cost) else {
            return Answer::Full;
        };
        if !self.admits(object, first_page, len, queued) {
            count(&shared.counters.refused_bytes, len as u64);
            return Answer::Refused;
        }
        shared.queue.push(Offer { object, first_page, bytes, told }, cost);
        Answer::Taken
    }

    /// Has `watcher` hear of what comes and leaves without an offer of its own.
    pub fn watch(&self, watcher: Arc<dyn Watch>) {
        self.shared.watchers.lock().push(watcher);
    }

    /// A read has had no answer for too long: until one has, reads find nothing here.
    pub fn fell_silent(&self) {
        if !self.shared.is_silent.swap(true, Relaxed) {
            count(&self.shared.counters.silences, 1);
            let folder = self.shared.folder.path().display();
            tracing::warn!(%folder, "the disk of the cache does not answer; reads go to the storage until it does");
        }
    }

    /// Takes note of bytes that found the queue full and were not offered again.
    pub fn dropped(&self, bytes: u64) {
        count(&self.shared.counters.dropped_bytes, bytes);
    }

    /// Whether most of the pages are kept already or admitted.
    fn admits(&self, object: ObjectId, first_page: u64, len: usize, queued: usize) -> bool {
        let end = first_page + len.div_ceil(PAGE) as u64;
        let mut state = self.shared.state.lock();
        let room = if state.room < (queued + len) as u64 {
            TierRoom::Disk
        } else if state.cold.has_some_of(object) {
            // What is on the disk and not in memory would be written again, and more be forgotten.
            TierRoom::Memory
        } else {
            TierRoom::Free
        };
        let (mut admitted, mut page) = (0, first_page);
        while page < end {
            let next = ((page / BLOCK_PAGES + 1) * BLOCK_PAGES).min(end);
            let is_kept = (page..next).all(|page| {
                let need = PAGE.min(len - (page - first_page) as usize * PAGE);
                state.index.find(object, page, need).is_some()
            });
            let bits = page_bits(page, next - page);
            if is_kept || state.policy.offered(block_number(object, page), bits, room) {
                admitted += next - page;
            }
            page = next;
        }
        admitted * 2 > end - first_page
    }

    /// Waits until all that was offered before is written, or will not be. Not for use in `told`.
    pub fn flush(&self) {
        self.flush_within(Duration::MAX);
    }

    /// The same, but no longer than this. Returns whether it is written.
    pub fn flush_within(&self, longest: Duration) -> bool {
        self.is_forked() || self.shared.queue.flush(longest)
    }

    /// Waits until what the folder held at first is known, but no longer than this. Returns
    /// whether it is.
    pub fn wait_loaded(&self, longest: Duration) -> bool {
        let mut loaded = self.shared.loaded.lock();
        if !*loaded && !self.is_forked() {
            self.shared.loading.wait_for(&mut loaded, longest);
        }
        *loaded
    }

    /// Memory that it takes, in bytes: its index, and what waits to be written.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.state.lock().memory_bytes() + self.shared.queue.bytes()
    }

    /// What it holds and has done.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// What carries out the reads, to [`plug`](Submitter::plug) it.
    pub fn submitter(&self) -> &Submitter {
        &self.shared.submitter
    }

    /// In a child of a fork, there are no threads.
    fn is_forked(&self) -> bool {
        self.shared.process != std::process::id()
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if self.is_forked() {
            return std::mem::forget(threads);
        }
        self.shared.queue.end();
        *self.shared.ends.lock() = true;
        self.shared.ending.notify_all();
        for thread in threads {
            // `told` may drop the last one, on the thread that writes.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                tracing::error!("a thread of the cache panicked");
            }
        }
    }
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("folder", &self.shared.folder.path()).finish_non_exhaustive()
    }
}

/// Those that are open, by process and canonical path.
static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// A child of a fork has another process number: the threads of its parent are not there.
type Registry = HashMap<(u32, PathBuf), Weak<Tier>>;

/// Ranges that are told of one object. Lower: an object that is kept in pieces is not known in
/// full. Higher: a caller takes more than a mebibyte for it. Source: a guess, not measured.
const KEPT_RANGES_MAX: usize = 65_536;

/// Objects that wait for the records of cold segments. Lower: when many are opened, some are not
/// found. Higher: records are read for objects that were closed meanwhile. Source: a guess.
const WANTED_MAX: usize = 64;

/// The last page that an offer may begin at. Lower: the ends of objects of 2^63 bytes are not
/// kept. Higher: arithmetic on pages overflows. Source: arithmetic.
const PAGE_LAST: u64 = 1 << 51;
