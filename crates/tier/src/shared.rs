//! The state that callers and the two threads share.
//!
//! ```text
//!   state (one lock): index, policy, known segments, room
//!   queue, files: each with a lock of its own, never taken with the state's
//! ```
//!
//! *Invariant:* no thread does I/O while it holds the lock of the state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use foreread_local::Submitter;
use foreread_local::lock::{Condvar, Mutex};
use foreread_policy::TierPath;

use crate::cold::Cold;
use crate::files::Files;
use crate::folder::Folder;
use crate::index::{Index, memory_of_records};
use crate::object::ObjectId;
use crate::options::{Options, Stats};
use crate::queue::Queue;
use crate::record::{PAGE, Record};

pub(crate) struct Shared {
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) segment_bytes: u64,
    pub(crate) state: Mutex<State>,
    pub(crate) queue: Queue,
    pub(crate) files: Files,
    pub(crate) submitter: Submitter,
    /// How many reads are at the disk.
    pub(crate) reading: Arc<AtomicUsize>,
    /// Reads are in flight that the disk does not answer.
    pub(crate) is_silent: AtomicBool,
    pub(crate) counters: Counters,
    pub(crate) watchers: Mutex<Vec<Arc<dyn Watch>>>,
    /// Whether what was there at first is in the index.
    pub(crate) loaded: Mutex<bool>,
    pub(crate) loading: Condvar,
    /// Whether the watcher is to end.
    pub(crate) ends: Mutex<bool>,
    pub(crate) ending: Condvar,
    /// The process with the threads: a child of a fork has none.
    pub(crate) process: u32,
}

/// Pages of an object.
pub(crate) type Piece = (ObjectId, Range<u64>);

/// Hears, on any thread, of what comes to a cache but for what is offered here, and of what leaves
/// it.
pub trait Watch: Send + Sync {
    /// These pages of objects can be read now, since other processes wrote them or they were
    /// written again; or they can be read no more.
    fn changed(&self, pieces: &[(ObjectId, Range<u64>)], are_kept: bool);

    /// It need not hear of more.
    fn is_over(&self) -> bool;
}

pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) policy: TierPath,
    /// Segments that are known: their records are in the index, or their objects in `cold`.
    pub(crate) segments: BTreeMap<u64, Known>,
    pub(crate) cold: Cold,
    /// Objects that are asked for, and that cold segments may have.
    pub(crate) wanted: VecDeque<ObjectId>,
    /// Reads so far, to know which segment was read last.
    pub(crate) reads: u64,
    /// Segments that the index has no memory for. They leave first.
    pub(crate) skipped: BTreeSet<u64>,
    /// Bytes that can be written before a segment has to leave.
    pub(crate) room: u64,
}

/// A known segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) is_sealed: bool,
    /// When it was last read, or came to the index.
    pub(crate) read: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) wrong: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) admitted_bytes: AtomicU64,
    pub(crate) refused_bytes: AtomicU64,
    pub(crate) dropped_bytes: AtomicU64,
    pub(crate) carried_bytes: AtomicU64,
    pub(crate) evicted_bytes: AtomicU64,
    pub(crate) write_errors: AtomicU64,
    pub(crate) read_errors: AtomicU64,
    pub(crate) silences: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

impl Shared {
    pub(crate) fn new(folder: Folder, options: Options) -> Self {
        let options = options.on(folder.total_bytes().unwrap_or(u64::MAX));
        let segment_bytes = options.segment_bytes();
        let pages = |bytes: u64| bytes / PAGE as u64;
        let state = State {
            index: Index::default(),
            policy: TierPath::new(pages(options.bytes), pages(segment_bytes)),
            segments: BTreeMap::new(),
            cold: Cold::default(),
            wanted: VecDeque::new(),
            reads: 0,
            skipped: BTreeSet::new(),
            room: 0,
        };
        let shared = Self {
            folder,
            segment_bytes,
            state: Mutex::new(state),
            queue: Queue::new(options.queue_bytes_max),
            files: Files::default(),
            reading: Arc::default(),
            submitter: Submitter::new(foreread_local::Mechanism::default()),
            is_silent: AtomicBool::new(false),
            counters: Counters::default(),
            watchers: Mutex::default(),
            loaded: Mutex::new(false),
            loading: Condvar::default(),
            ends: Mutex::new(false),
            ending: Condvar::default(),
            process: std::process::id(),
            options,
        };
        let used = shared.used_bytes().map_or(u64::MAX, |(used, _)| used);
        shared.state.lock().room = shared.whole_segments(shared.options.bytes.saturating_sub(used));
        shared
    }

    /// As many bytes as segments fit into.
    pub(crate) fn whole_segments(&self, bytes: u64) -> u64 {
        bytes / self.segment_bytes * self.segment_bytes
    }

    /// Bytes that the segment files take or may still come to take, and their numbers.
    pub(crate) fn used_bytes(&self) -> std::io::Result<(u64, Vec<u64>)> {
        let numbers = self.folder.segments()?;
        let lengths: Vec<_> = numbers
            .iter()
            .map(|&number| std::fs::metadata(self.folder.segment(number)).map_or(0, |metadata| metadata.len()))
            .collect();
        let state = self.state.lock();
        let used = numbers.iter().zip(lengths).map(|(number, length)| {
            let is_sealed = state.segments.get(number).is_some_and(|known| known.is_sealed);
            // A sealed one grows no more, but there should not be thousands of short ones.
            let least = if is_sealed { self.segment_bytes / 4 } else { self.segment_bytes };
            length.max(least)
        });
        Ok((used.sum(), numbers))
    }

    /// Takes the records of a sealed segment into the index, or its objects into the cold ones.
    /// `false` if there is memory for neither.
    pub(crate) fn load(&self, number: u64, records: &[Record]) -> bool {
        let mut state = self.state.lock();
        if state.segments.contains_key(&number) {
            return true;
        }
        let is_hot = state.has_room(memory_of_records(records), &self.options);
        if !is_hot && state.memory_bytes() + Cold::memory_of(records) > self.options.index_bytes_max {
            return false;
        }
        state.policy.found(number, records.iter().map(Record::pages).sum());
        if is_hot {
            state.take(number, records);
            drop(state);
            self.tell(&records.iter().map(Record::piece).collect::<Vec<_>>(), true);
        } else {
            state.segments.insert(number, Known { is_sealed: true, read: 0 });
            state.cold.add(number, records);
            state.policy.forgotten(number);
        }
        true
    }

    /// Has the records of a cold segment in the index. `false` if there is no room.
    pub(crate) fn heat(&self, number: u64, records: &[Record]) -> bool {
        let mut state = self.state.lock();
        let is_cold = state.cold.has(number);
        if !is_cold || !state.has_room(memory_of_records(records), &self.options) {
            return !is_cold;
        }
        state.cold.remove(number, Some(records));
        state.policy.known_again(number);
        state.take(number, records);
        drop(state);
        self.tell(&records.iter().map(Record::piece).collect::<Vec<_>>(), true);
        true
    }

    /// Has the records of a segment no more in the index.
    pub(crate) fn cool(&self, number: u64, records: &[Record]) {
        let mut state = self.state.lock();
        if !state.segments.contains_key(&number) || state.cold.has(number) {
            return;
        }
        let is_there = |record: &&Record| state.index.remove(number, record).is_some();
        let left: Vec<_> = records.iter().filter(is_there).map(Record::piece).collect();
        state.policy.forgotten(number);
        state.cold.add(number, records);
        drop(state);
        self.tell(&left, false);
    }

    /// The disk has answered a read.
    pub(crate) fn answered<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        // Too many reads in flight is no answer of the disk.
        if !result.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy) {
            self.is_silent.store(false, Relaxed);
        }
        result
    }

    /// Tells those that watch. Without any lock: they may come to read here.
    pub(crate) fn tell(&self, pieces: &[Piece], are_kept: bool) {
        if pieces.is_empty() {
            return;
        }
        let watchers = {
            let mut watchers = self.watchers.lock();
            watchers.retain(|watcher| !watcher.is_over());
            watchers.clone()
        };
        for watcher in watchers {
            watcher.changed(pieces, are_kept);
        }
    }

    /// Forgets segments that are no longer there. `has_records`: some may be in the index.
    pub(crate) fn forget(&self, numbers: &BTreeSet<u64>, has_records: bool) {
        let mut state = self.state.lock();
        let left = if has_records { state.index.remove_segments(numbers) } else { Vec::new() };
        for &number in numbers {
            state.segments.remove(&number);
            state.cold.remove(number, None);
            state.skipped.remove(&number);
            state.policy.gone(number);
        }
        drop(state);
        self.tell(&left, false);
        for &number in numbers {
            self.files.close(number);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.lock();
        let (kept_bytes, entries, memory_bytes) =
            (state.index.kept_bytes() + state.cold.kept_bytes(), state.index.len() as u64, state.memory_bytes());
        let segments = state.segments.len() as u64;
        drop(state);
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let counters = &self.counters;
        Stats {
            kept_bytes,
            segments,
            entries,
            memory_bytes,
            hits: of(&counters.hits),
            read_bytes: of(&counters.read_bytes),
            misses: of(&counters.misses),
            wrong: of(&counters.wrong),
            written_bytes: of(&counters.written_bytes),
            admitted_bytes: of(&counters.admitted_bytes),
            refused_bytes: of(&counters.refused_bytes),
            dropped_bytes: of(&counters.dropped_bytes),
            carried_bytes: of(&counters.carried_bytes),
            evicted_bytes: of(&counters.evicted_bytes),
            write_errors: of(&counters.write_errors),
            read_errors: of(&counters.read_errors),
            silences: of(&counters.silences),
        }
    }
}

impl State {
    /// Memory of what is known, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.cold.memory_bytes()
    }

    /// Whether the records in the index, and others that take `more` bytes, are within what they
    /// may take.
    pub(crate) fn has_room(&self, more: u64, options: &Options) -> bool {
        let bytes = self.index.memory_bytes() + more;
        bytes <= options.index_bytes_max / HOT_OF * HOT && bytes + self.cold.memory_bytes() <= options.index_bytes_max
    }

    /// Takes the records of a sealed segment into the index.
    fn take(&mut self, number: u64, records: &[Record]) {
        for record in records {
            self.index.insert(number, record);
        }
        self.segments.insert(number, Known { is_sealed: true, read: self.reads });
    }

    /// The segment in the index that was read longest ago.
    pub(crate) fn coolest(&self, but: &[u64]) -> Option<u64> {
        let may =
            |&(number, known): &(&u64, &Known)| known.is_sealed && !self.cold.has(*number) && !but.contains(number);
        self.segments.iter().filter(may).min_by_key(|(number, known)| (known.read, **number)).map(|(&number, _)| number)
    }
}

/// The numerator of the part of the memory that records may take. Lower: fewer are found without a
/// look at the disk. Higher: the objects of fewer cold segments are known. Source: a guess; of
/// large files a hundredth would do for the cold.
const HOT: u64 = 3;

/// The denominator of that part. Lower: a larger part. Higher: a smaller one. Source: see [`HOT`].
const HOT_OF: u64 = 4;
