//! What a worker does now, and what it has counted: a file that the worker writes and the parent
//! reads.
//!
//! ```text
//!   word 0          the parent's: not 0 ends the worker before its next call
//!   words 1..       the worker's: the state below, written before and after each call
//! ```
//!
//! A file, so that it outlives a worker that a signal ends and can be read while the worker is
//! held by the kernel. Times are those of `CLOCK_MONOTONIC`, which all processes share.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::verify::finding::Operation;
use crate::verify::pattern::Pattern;

const PATTERNS: usize = Pattern::ALL.len();
const TALLY_WORDS: usize = 4;
const WORDS: usize = 13 + PATTERNS * TALLY_WORDS;
const BYTES: usize = WORDS * 8;

/// What a worker has done in one pattern.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// The bytes of reads that begin where the read before ended, in the same file.
    pub(crate) sequential_bytes: u64,
    pub(crate) longest_ns: u64,
}

/// The state of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The task that it is at.
    pub(crate) task: u64,
    pub(crate) pattern: usize,
    pub(crate) operation: Operation,
    /// The index of the file, or of the listing.
    pub(crate) place: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// When the call began.
    pub(crate) since_ns: u64,
    pub(crate) wrong: u64,
    pub(crate) errors: u64,
    pub(crate) slow: u64,
    /// Calls that failed because the object was replaced, where that is expected.
    pub(crate) stale: u64,
    /// Findings that it has written down.
    pub(crate) told: u64,
    /// Has ended by itself.
    pub(crate) done: bool,
    pub(crate) tallies: [Tally; PATTERNS],
}

impl State {
    pub(crate) fn reads(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.reads).sum()
    }

    fn words(&self) -> [u64; WORDS] {
        let operation = Operation::ALL.iter().position(|known| *known == self.operation).unwrap_or_default();
        let head = [
            self.task,
            self.pattern as u64,
            operation as u64,
            self.place as u64,
            self.offset,
            self.len,
            self.since_ns,
            self.wrong,
            self.errors,
            self.slow,
            self.stale,
            self.told,
            u64::from(self.done),
        ];
        let tallies =
            self.tallies.iter().flat_map(|tally| [tally.reads, tally.bytes, tally.sequential_bytes, tally.longest_ns]);
        let mut words = [0; WORDS];
        words.iter_mut().zip(head.into_iter().chain(tallies)).for_each(|(word, value)| *word = value);
        words
    }

    fn of(words: &[u64; WORDS]) -> Self {
        let [
            task,
            pattern,
            operation,
            place,
            offset,
            len,
            since_ns,
            wrong,
            errors,
            slow,
            replaced,
            told,
            done,
            tallies @ ..,
        ] = words;
        let mut state = Self {
            task: *task,
            pattern: (*pattern as usize).min(PATTERNS - 1),
            operation: Operation::ALL.get(*operation as usize).copied().unwrap_or_default(),
            place: *place as usize,
            offset: *offset,
            len: *len,
            since_ns: *since_ns,
            wrong: *wrong,
            errors: *errors,
            slow: *slow,
            stale: *replaced,
            told: *told,
            done: *done != 0,
            ..Self::default()
        };
        for (tally, words) in state.tallies.iter_mut().zip(tallies.chunks_exact(TALLY_WORDS)) {
            if let &[reads, bytes, sequential_bytes, longest_ns] = words {
                *tally = Tally { reads, bytes, sequential_bytes, longest_ns };
            }
        }
        state
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct Board(File);

impl Board {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() == 0 {
            file.set_len(8 + BYTES as u64)?;
        }
        Ok(Self(file))
    }

    pub(crate) fn stop(&self) -> io::Result<()> {
        self.0.write_all_at(&1_u64.to_le_bytes(), 0)
    }

    pub(crate) fn is_stopped(&self) -> io::Result<bool> {
        let mut word = [0; 8];
        self.0.read_exact_at(&mut word, 0)?;
        Ok(u64::from_le_bytes(word) != 0)
    }

    pub(crate) fn write(&self, state: &State) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes.chunks_exact_mut(8).zip(state.words()).for_each(|(out, word)| out.copy_from_slice(&word.to_le_bytes()));
        self.0.write_all_at(&bytes, 8)
    }

    pub(crate) fn read(&self) -> io::Result<State> {
        let mut bytes = [0; BYTES];
        self.0.read_exact_at(&mut bytes, 8)?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(State::of(&words))
    }
}

/// `CLOCK_MONOTONIC`, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time since `since_ns`.
pub(crate) fn elapsed(since_ns: u64) -> Duration {
    Duration::from_nanos(now_ns().saturating_sub(since_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("board");
        let (worker, parent) = (Board::open(&path).expect("it opens"), Board::open(&path).expect("it opens"));
        assert_eq!(parent.read().expect("a new board"), State::default());
        let mut state = State { task: 3, operation: Operation::Map, offset: 1 << 40, done: true, ..State::default() };
        state.tallies[11] = Tally { reads: 1, bytes: 2, sequential_bytes: 3, longest_ns: 4 };
        worker.write(&state).expect("it is written");
        assert_eq!(parent.read().expect("a board"), state);
        assert!(!worker.is_stopped().expect("a board"));
        parent.stop().expect("it is written");
        assert!(worker.is_stopped().expect("a board"));
        assert_eq!(worker.read().expect("a board"), state, "the parent's word is its own");
    }
}
