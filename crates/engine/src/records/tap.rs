//! What is read, for one who records it: kept until it is asked for, in bounded memory, and nothing is kept while nobody asks.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// A part of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// Files that come up for the first time.
    pub files: Vec<RecordedFile>,
    /// Reads, in the order in which they came.
    pub reads: Vec<RecordedRead>,
    /// Reads that came before these and were not kept.
    pub lost: u64,
    /// There is more already.
    pub more: bool,
}

/// A file of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedFile {
    /// What its reads call it.
    pub file: u64,
    /// Bytes.
    pub size: u64,
    /// The object's key.
    pub name: String,
}

/// One read: when (ns), in which file, by which open of it, where, how many bytes. In this order, since there are many.
pub type RecordedRead = (u64, u64, u64, u64, u64);

/// Keeps reads for who asks for them.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// When it was last asked.
    asked: Option<Instant>,
    known: HashSet<u64>,
    files: VecDeque<RecordedFile>,
    reads: VecDeque<RecordedRead>,
    lost: u64,
}

impl Tap {
    /// Keeps `read`, if anybody asks. `describe` is called for a file that comes up for the first time.
    pub(crate) fn note(&self, read: impl FnOnce() -> RecordedRead, describe: impl FnOnce() -> (u64, String)) {
        if !self.on.load(Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
            self.on.store(false, Relaxed);
            *kept = Kept::default();
            return;
        }
        if kept.reads.len() >= READS_MAX {
            kept.lost += 1;
            return;
        }
        let read = read();
        if kept.known.insert(read.1) {
            let (size, name) = describe();
            kept.files.push_back(RecordedFile { file: read.1, size, name });
        }
        kept.reads.push_back(read);
    }

    /// Starts a new recording. `false` if somebody else is at one.
    pub(crate) fn start(&self) -> bool {
        let mut kept = self.kept.lock();
        if kept.asked.is_some_and(|asked| asked.elapsed() <= GIVEN_UP) {
            return false;
        }
        *kept = Kept { asked: Some(Instant::now()), ..Kept::default() };
        self.on.store(true, Relaxed);
        true
    }

    /// What has come since it was last asked, as much as fits into about `bytes` of JSON; `last` ends the recording.
    pub(crate) fn take(&self, bytes: usize, last: bool) -> Recorded {
        let mut kept = self.kept.lock();
        let mut taken = Recorded { lost: std::mem::take(&mut kept.lost), ..Recorded::default() };
        let mut left = bytes.saturating_sub(ENVELOPE_BYTES);
        // A file comes before its reads.
        while let Some(file) = kept.files.front() {
            let needed = FILE_BYTES + file.name.len() * ESCAPED_BYTES;
            if needed > left {
                break;
            }
            left -= needed;
            taken.files.extend(kept.files.pop_front());
        }
        while kept.files.is_empty() && left >= READ_BYTES && !kept.reads.is_empty() {
            left -= READ_BYTES;
            taken.reads.extend(kept.reads.pop_front());
        }
        taken.more = !kept.reads.is_empty();
        if last && !taken.more {
            self.on.store(false, Relaxed);
            *kept = Kept::default();
        } else if kept.asked.is_some() {
            kept.asked = Some(Instant::now());
        }
        taken
    }
}

/// Reads that are kept: a second of as many as a mount carries, in 4 MiB.
const READS_MAX: usize = 100_000;

/// Who has not asked for this long has gone.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// The most that each takes as JSON: five numbers of twenty digits; the name besides, each of its bytes escaped.
const READ_BYTES: usize = 110;
const FILE_BYTES: usize = 90;
const ESCAPED_BYTES: usize = 6;
const ENVELOPE_BYTES: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn note(tap: &Tap, at: u64, file: u64) {
        tap.note(|| (at, file, 1, 0, 4096), || (1 << 20, format!("file-{file}")));
    }

    #[test]
    fn nothing_is_kept_while_nobody_asks() {
        let tap = Tap::default();
        note(&tap, 1, 1);
        assert!(tap.start());
        assert_eq!(tap.take(16_000, false), Recorded::default());
    }

    #[test]
    fn reads_come_in_order_with_their_files_and_no_more_than_fit() {
        let tap = Tap::default();
        assert!(tap.start());
        assert!(!tap.start(), "one at a time");
        for at in 0..1_000 {
            note(&tap, at, at % 3);
        }
        let mut reads = Vec::new();
        let mut files = 0;
        loop {
            let taken = tap.take(16_000, false);
            assert!(serde_json::to_vec(&taken).unwrap().len() <= 16_000);
            files += taken.files.len();
            reads.extend(taken.reads);
            if !taken.more {
                break;
            }
        }
        assert_eq!(files, 3);
        assert!(reads.iter().map(|read| read.0).eq(0..1_000));
    }

    #[test]
    fn what_comes_too_fast_is_counted() {
        let tap = Tap::default();
        assert!(tap.start());
        for at in 0..READS_MAX as u64 + 7 {
            note(&tap, at, 1);
        }
        assert_eq!(tap.take(1_000, false).lost, 7);
    }

    #[test]
    fn a_recording_that_has_ended_leaves_nothing() {
        let tap = Tap::default();
        assert!(tap.start());
        note(&tap, 1, 1);
        assert_eq!(tap.take(16_000, true).reads.len(), 1);
        note(&tap, 2, 1);
        assert!(tap.start(), "the next one may begin");
        assert_eq!(tap.take(16_000, true), Recorded::default());
    }
}
