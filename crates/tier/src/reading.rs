//! One read: which records have its pages, the requests that bring them, and the checks.
//!
//! ```text
//!   pages      |-------- a --------|---- b ----|-- c --|
//!   segments   [..hdr|sum page|sum page..][hdr|sum page..]   one request: they lie side by side
//!   staging    aligned to pages of the file, read past the kernel's page cache
//!                  │ each page is copied to its place, and then checked there
//!                  v
//!   frames     |-------------------|-----------|-------|  all right: done, else Missing
//! ```
//!
//! *Invariant:* `done` gets bytes only if every page of them was found right.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use foreread_local::lock::Mutex;
use foreread_local::{Buffers, Filled, Frames};

use crate::files::Segment;
use crate::guard::Guard;
use crate::object::ObjectId;
use crate::record::{CHECK, PAGE, Record};
use crate::shared::{Shared, count};

/// The cache does not have all of the pages, or cannot read them now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing;

/// Called at the end of a read.
pub(crate) type ReadDone = Box<dyn FnOnce(Result<Frames, Missing>) + Send>;

/// Pages of one record that a read wants.
#[derive(Debug, Clone, Copy)]
struct Piece {
    segment: u64,
    record: Record,
    /// The first page, counted from the first of the record.
    at: u64,
    pages: u64,
    /// Where its bytes go.
    to: usize,
}

impl Piece {
    fn begin(&self) -> u64 {
        self.record.page_offset(self.at)
    }

    fn end(&self) -> u64 {
        let end = u64::from(self.record.offset) + self.record.file_bytes();
        self.record.page_offset(self.at + self.pages).min(end)
    }
}

/// A read in the course of its requests.
struct Gather {
    shared: Arc<Shared>,
    len: usize,
    progress: Mutex<Progress>,
}

struct Progress {
    frames: Frames,
    is_wrong: bool,
    left: usize,
    done: Option<ReadDone>,
}

/// Starts a read.
pub(crate) fn start(shared: &Arc<Shared>, object: ObjectId, pages: Range<u64>, len: usize, done: ReadDone) {
    let is_silent = shared.is_silent.load(Relaxed);
    let Some(pieces) = plan(shared, object, &pages, len).filter(|_| !is_silent) else {
        count(&shared.counters.misses, 1);
        return done(Err(Missing));
    };
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    for piece in pieces {
        match groups.last_mut() {
            Some(group) if joins(group, &piece) => group.push(piece),
            _ => groups.push(vec![piece]),
        }
    }
    let progress = Progress { frames: Frames::new(len), is_wrong: false, left: groups.len().max(1), done: Some(done) };
    let gather = Arc::new(Gather { shared: Arc::clone(shared), len, progress: Mutex::new(progress) });
    if groups.is_empty() {
        return gather.arrived(true);
    }
    for group in groups {
        match shared.files.get(group[0].segment, &shared.folder) {
            Ok(segment) => request(&gather, segment, group),
            Err(error) => gather.failed(&group, &error),
        }
    }
}

/// The records that have the pages. They count as hit.
fn plan(shared: &Shared, object: ObjectId, pages: &Range<u64>, len: usize) -> Option<Vec<Piece>> {
    let is_possible = pages.start <= pages.end && len.div_ceil(PAGE) as u64 == pages.end - pages.start;
    if !is_possible {
        return None;
    }
    let mut state = shared.state.lock();
    let (mut pieces, mut page) = (Vec::new(), pages.start);
    while page < pages.end {
        let to = (page - pages.start) as usize * PAGE;
        let (first, entry) = state.index.find(object, page, PAGE.min(len - to))?;
        let (segment, record) = (entry.segment(), entry.record(object, first));
        // A short last page serves only a read that ends in it.
        let mut last = (first + record.pages()).min(pages.end);
        let need = len.min((last - pages.start) as usize * PAGE) - to;
        if ((page - first) as usize * PAGE + need) as u64 > u64::from(record.bytes) {
            last -= 1;
        }
        pieces.push(Piece { segment, record, at: page - first, pages: last - page, to });
        page = last;
    }
    for piece in &pieces {
        if let Some((_, entry)) = state.index.find(object, piece.record.first_page, 1) {
            entry.hit();
        }
        state.policy.hit(piece.segment, piece.pages);
        state.reads += 1;
        let read = state.reads;
        if let Some(known) = state.segments.get_mut(&piece.segment) {
            known.read = read;
        }
    }
    Some(pieces)
}

/// Whether a piece lies right behind a group.
fn joins(group: &[Piece], next: &Piece) -> bool {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return false };
    last.segment == next.segment
        && next.begin().checked_sub(last.end()).is_some_and(|gap| gap <= PAGE as u64)
        && next.end() - first.begin() <= REQUEST_BYTES_MAX
}

fn request(gather: &Arc<Gather>, segment: Arc<Segment>, group: Vec<Piece>) {
    let page = PAGE as u64;
    let begin = group[0].begin() / page * page;
    let end = group[group.len() - 1].end().next_multiple_of(page);
    let mut left = (end - begin) as usize;
    let mut staging = Buffers::new();
    while left > 0 {
        let bytes = left.min(STAGE_BYTES);
        staging.push(Frames::new(bytes));
        left -= bytes;
    }
    let (then, file) = (Arc::clone(gather), Arc::clone(&segment.file));
    let reading = Reading::new(&gather.shared.reading);
    let done = Box::new(move |filled: Filled| {
        drop(reading);
        match then.shared.answered(filled.result) {
            Ok(bytes) => then.filled(&segment, &group, begin, &filled.buffers, bytes),
            Err(error) => then.failed(&group, &error),
        }
    });
    gather.shared.submitter.read(file, begin, staging, done);
}

/// A read that is at the disk, until it is answered or dropped.
struct Reading(Arc<AtomicUsize>);

impl Reading {
    fn new(reading: &Arc<AtomicUsize>) -> Self {
        reading.fetch_add(1, Relaxed);
        Self(Arc::clone(reading))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Gather {
    /// The bytes of a group are in `staging`: copies and checks its pages.
    fn filled(&self, segment: &Segment, group: &[Piece], begin: u64, staging: &Buffers, bytes: usize) {
        let mut progress = self.progress.lock();
        let wrong: Vec<&Piece> = group
            .iter()
            .filter(|piece| {
                let is_there = piece.end() - begin <= bytes as u64;
                !is_there || !self.copy(&segment.guard, piece, begin, staging, &mut progress.frames)
            })
            .collect();
        drop(progress);
        // A segment that left meanwhile is empty: its pages are not wrong but gone.
        let has_left = || rustix::fs::fstat(segment.file.cached()).is_ok_and(|stat| stat.st_size == 0);
        if !wrong.is_empty() {
            if !has_left() {
                count(&self.shared.counters.wrong, wrong.len() as u64);
            }
            self.remove(&wrong);
        }
        self.arrived(wrong.is_empty());
    }

    /// Copies the pages of a piece. Whether they are right.
    fn copy(&self, guard: &Guard, piece: &Piece, begin: u64, staging: &Buffers, frames: &mut Frames) -> bool {
        let (record, mut page) = (&piece.record, [0; PAGE]);
        (0..piece.pages).all(|more| {
            let (at, to) = (piece.at + more, piece.to + more as usize * PAGE);
            let (stored, wanted) = (PAGE.min(record.bytes as usize - at as usize * PAGE), PAGE.min(self.len - to));
            let (from, mut check) = ((record.page_offset(at) - begin) as usize, [0; CHECK]);
            copy_from(staging, from, &mut check);
            let target = if stored == wanted { &mut frames[to..to + wanted] } else { &mut page[..stored] };
            copy_from(staging, from + CHECK, target);
            let is_right = guard.open(record, at, check, target);
            if stored != wanted {
                frames[to..to + wanted].copy_from_slice(&page[..wanted]);
            }
            is_right
        })
    }

    /// A group cannot be read.
    fn failed(&self, group: &[Piece], error: &io::Error) {
        match error.kind() {
            _ if is_passing(error) => count(&self.shared.counters.read_errors, 1),
            // Too many reads are in flight.
            io::ErrorKind::ResourceBusy => {}
            io::ErrorKind::NotFound => self.remove(&group.iter().collect::<Vec<_>>()),
            _ => {
                count(&self.shared.counters.read_errors, 1);
                tracing::debug!(%error, segment = group[0].segment, "a segment of the cache cannot be read");
                self.remove(&group.iter().collect::<Vec<_>>());
            }
        }
        self.arrived(false);
    }

    fn remove(&self, pieces: &[&Piece]) {
        let mut state = self.shared.state.lock();
        let is_there = |piece: &&&Piece| state.index.remove(piece.segment, &piece.record).is_some();
        let left: Vec<_> = pieces.iter().filter(is_there).map(|piece| piece.record.piece()).collect();
        drop(state);
        self.shared.tell(&left, false);
    }

    fn arrived(&self, is_right: bool) {
        let mut progress = self.progress.lock();
        progress.is_wrong |= !is_right;
        progress.left -= 1;
        if progress.left > 0 {
            return;
        }
        let Some(done) = progress.done.take() else { return };
        let (frames, is_wrong) = (std::mem::take(&mut progress.frames), progress.is_wrong);
        drop(progress);
        let counters = &self.shared.counters;
        if is_wrong {
            count(&counters.misses, 1);
            return done(Err(Missing));
        }
        count(&counters.hits, 1);
        count(&counters.read_bytes, self.len as u64);
        done(Ok(frames));
    }
}

/// Whether the process lacks something for now, which says nothing of the segment.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| lacking.contains(&number))
}

/// Copies bytes of the staging memory, which is in pieces of [`STAGE_BYTES`].
fn copy_from(staging: &Buffers, mut from: usize, to: &mut [u8]) {
    let mut copied = 0;
    while copied < to.len() {
        let (piece, at) = (&staging[from / STAGE_BYTES], from % STAGE_BYTES);
        let bytes = (piece.len() - at).min(to.len() - copied);
        to[copied..copied + bytes].copy_from_slice(&piece[at..at + bytes]);
        copied += bytes;
        from += bytes;
    }
}

/// Bytes of a piece of staging memory: the longest that comes from the arena of `local`. Lower:
/// more pieces. Higher: each is taken from the kernel and given back. Source: 32 pages.
const STAGE_BYTES: usize = 32 * PAGE;

/// Bytes of one request. Lower: more requests for a long read. Higher: the checks of its first
/// pages wait for its last. Source: a guess, not measured.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
