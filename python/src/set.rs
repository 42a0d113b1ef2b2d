//! Reads that are asked for together, and that are over when the last of them is.
//!
//! ```text
//!   ranges ──> pieces ── Engine::read_together: all in flight ──> each is copied as it comes, by
//!                                                                 the engine's thread
//!                                      last piece ──> finish ──> what waits: a thread, or a loop
//! ```
//!
//! No piece is pinned after it has come, so a set may be larger than the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use foreread::Error;
use foreread::backend::lock::Mutex;
use foreread::shared::{Shared, SharedFile, SharedPages};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::buffer::{Room, bytes};
use crate::completions::Completions;
use crate::errors::{raised, stopped};
use crate::reading::PIECE_BYTES_MAX;
use crate::wait::{wait, wait_helping};

/// What became of a range.
enum Failed {
    No,
    By(Error),
    /// The engine has ended.
    Stopped,
}

struct Set {
    left: AtomicUsize,
    failed: Mutex<Vec<Failed>>,
    /// The bytes being filled; here until the set is over.
    bytes: Mutex<Vec<Py<PyBytes>>>,
    finish: Mutex<Option<Finish>>,
    #[expect(dead_code, reason = "it does not end while it reads for a file that was given up")]
    engine: Option<Shared>,
}

type Finish = Box<dyn FnOnce(Arc<Set>) + Send>;

impl Set {
    fn over(self: &Arc<Self>, pieces: usize) {
        if self.left.fetch_sub(pieces, Ordering::AcqRel) == pieces {
            let finish = self.finish.lock().take();
            if let Some(finish) = finish {
                finish(Arc::clone(self));
            }
        }
    }

    /// A list of bytes. A range that failed has its exception there, or raises it.
    fn result<'py>(&self, py: Python<'py>, returns_errors: bool) -> PyResult<Bound<'py, PyList>> {
        let bytes = std::mem::take(&mut *self.bytes.lock());
        let failed = std::mem::take(&mut *self.failed.lock());
        let list = PyList::empty(py);
        for (bytes, failed) in bytes.into_iter().zip(failed) {
            let error = match failed {
                Failed::No => {
                    list.append(bytes)?;
                    continue;
                }
                Failed::By(error) => raised(&error),
                Failed::Stopped => stopped(),
            };
            if !returns_errors {
                return Err(error);
            }
            list.append(error.into_value(py))?;
        }
        Ok(list)
    }
}

/// A part of a range that is in flight.
struct Piece {
    set: Arc<Set>,
    range: usize,
    file: SharedFile,
    at: u64,
    room: Room,
    over: bool,
}

impl Piece {
    fn arrived(mut self, answer: Result<SharedPages, Error>) {
        match answer {
            Ok(pages) if !pages.is_empty() => {
                self.room = std::mem::replace(&mut self.room, Room::none()).fill(&pages);
                if self.room.len() > 0 {
                    let (file, at) = (self.file.clone(), self.at + pages.len() as u64);
                    drop(pages);
                    self.at = at;
                    let len = self.room.len();
                    // Boxed: the type would contain itself.
                    let arrived: Box<dyn FnOnce(Result<SharedPages, Error>) + Send> =
                        Box::new(|answer| self.arrived(answer));
                    return file.read(at, len, arrived);
                }
            }
            Ok(_) => self.fail(Failed::Stopped),
            Err(error) => self.fail(Failed::By(error)),
        }
        self.over = true;
        self.set.over(1);
    }

    fn fail(&self, failed: Failed) {
        self.set.failed.lock()[self.range] = failed;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.over {
            self.fail(Failed::Stopped);
            self.set.over(1);
        }
    }
}

/// A range of an open file: where it begins, and how long it is within the file, in bytes.
pub(crate) type Range = (SharedFile, u64, usize);

/// Reads ranges. Answers a list of bytes, in order; with `to`, a future of it. With
/// `returns_errors` the list has exceptions where ranges failed; otherwise the first one is
/// raised.
pub(crate) fn read_all(
    py: Python<'_>,
    engine: Option<&Shared>,
    ranges: Vec<Range>,
    returns_errors: bool,
    to: Option<&Bound<'_, Completions>>,
) -> PyResult<Py<PyAny>> {
    let convert = move |py: Python<'_>, set: &Set| Ok(set.result(py, returns_errors)?.into_any().unbind());
    start(py, engine, ranges, to, convert)
}

/// Reads one range for an event loop. Answers a future of its bytes.
pub(crate) fn read_one(engine: &Shared, range: Range, to: &Bound<'_, Completions>) -> PyResult<Py<PyAny>> {
    let convert = |py: Python<'_>, set: &Set| Ok(set.result(py, false)?.get_item(0)?.unbind());
    start(to.py(), Some(engine), vec![range], Some(to), convert)
}

fn start<C>(
    py: Python<'_>,
    engine: Option<&Shared>,
    ranges: Vec<Range>,
    to: Option<&Bound<'_, Completions>>,
    convert: C,
) -> PyResult<Py<PyAny>>
where
    C: FnOnce(Python<'_>, &Set) -> PyResult<Py<PyAny>> + Send + 'static,
{
    // A thread that waits here helps to take what comes from another process.
    let first = ranges.first().filter(|_| to.is_none()).map(|(file, ..)| file.clone());
    let helped = first.as_ref().map(SharedFile::helped);
    let (mut all, mut rooms, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for (range, (file, offset, len)) in ranges.into_iter().enumerate() {
        let (made, mut room) = bytes(py, len)?;
        let mut at = offset;
        while room.len() > 0 {
            let piece;
            let len = room.len().min(file.piece_bytes(PIECE_BYTES_MAX));
            (piece, room) = room.split(len);
            rooms.push((range, file.clone(), at, piece));
            at += len as u64;
        }
        all.push(made.unbind());
        failed.push(Failed::No);
    }
    let begin = |finish: Finish| {
        // One more than there are pieces, so that it is not over while it begins.
        let left = AtomicUsize::new(rooms.len() + 1);
        let set = Set {
            left,
            failed: Mutex::new(failed),
            bytes: Mutex::new(all),
            finish: Mutex::new(Some(finish)),
            engine: engine.cloned(),
        };
        let set = Arc::new(set);
        if let Some(engine) = engine {
            let reads = rooms.into_iter().map(|(range, file, at, room)| {
                let (again, len) = (file.clone(), room.len());
                let piece = Piece { set: Arc::clone(&set), range, file: again, at, room, over: false };
                (file, at, len, |answer| piece.arrived(answer))
            });
            match &helped {
                Some(helped) => helped.read_together(engine, reads),
                None => engine.read_together(reads),
            }
        }
        set.over(1);
    };
    if let Some(to) = to {
        let future = Completions::begin(to, |teller| {
            begin(Box::new(move |set| teller.tell(Box::new(move |py| convert(py, &set)))));
        })?;
        return Ok(future.unbind());
    }
    let (send, receive) = sync_channel(1);
    py.detach(|| begin(Box::new(move |set| _ = send.send(set))));
    let set = match &helped {
        Some(helped) => wait_helping(py, helped, receive)?,
        None => wait(py, receive)?,
    };
    convert(py, &set)
}
