//! A recording of reads, taken from a running engine.
//!
//! ```text
//!   start ──> on: reads are kept ── take ──> the oldest reads, and the files that they name
//!     ^                 └─ not taken for five seconds, or taken for the last time ──> off
//!     └───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Invariant:* memory is bounded; while no recording is under way, a read costs one load of a
//! flag.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use foreread_backend::lock::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A part of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    /// Files that are read for the first time.
    pub files: Vec<RecordedFile>,
    /// Reads, in the order in which they came.
    pub reads: Vec<RecordedRead>,
    /// Reads that came before these and were not kept.
    pub lost: u64,
    /// More reads are kept already.
    pub more: bool,
}

/// A file of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedFile {
    /// The number by which reads name it.
    pub file: u64,
    /// Bytes.
    pub size: u64,
    /// The object's key.
    pub name: String,
}

/// One read: time (ns), file, reader (a thread, or an open of it), offset, bytes. A tuple in this
/// order, since there are many.
pub type RecordedRead = (u64, u64, u64, u64, u64);

/// Keeps reads for the one that records.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the latest recording: its recorder is known by it.
    recording: u64,
    /// When a part was last taken; `None` while no recording is under way.
    asked: Option<Instant>,
    known: HashSet<u64>,
    files: VecDeque<RecordedFile>,
    reads: VecDeque<RecordedRead>,
    /// What the names in `files` take.
    names_bytes: usize,
    lost: u64,
}

impl Tap {
    /// Keeps `read`, if a recording is under way. `describe` is called for a file that is read for
    /// the first time.
    pub(crate) fn note(&self, read: impl FnOnce() -> RecordedRead, describe: impl FnOnce() -> (u64, String)) {
        if !self.on.load(Relaxed) {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
            self.on.store(false, Relaxed);
            kept.end();
            return;
        }
        if kept.reads.len() >= READS_MAX || kept.names_bytes >= NAMES_BYTES_MAX {
            kept.lost += 1;
            return;
        }
        let read = read();
        if kept.known.insert(read.1) {
            let (size, name) = describe();
            kept.names_bytes += name.len();
            kept.files.push_back(RecordedFile { file: read.1, size, name });
        }
        kept.reads.push_back(read);
    }

    /// Starts a recording and returns its number. `None` if another one is under way.
    pub(crate) fn start(&self) -> Option<u64> {
        let mut kept = self.kept.lock();
        if kept.asked.is_some_and(|asked| asked.elapsed() <= GIVEN_UP) {
            return None;
        }
        let recording = kept.recording + 1;
        *kept = Kept { recording, asked: Some(Instant::now()), ..Kept::default() };
        self.on.store(true, Relaxed);
        Some(recording)
    }

    /// Ends a recording that is under way. What another recorder keeps stays.
    pub(crate) fn end(&self, recording: u64) {
        let mut kept = self.kept.lock();
        if kept.recording == recording {
            self.on.store(false, Relaxed);
            kept.end();
        }
    }

    /// Takes the oldest reads of a recording, as many as fit into about `bytes` of JSON, and at
    /// least one file or read; `last` ends it. `None` if it has ended: what another recorder keeps
    /// is not for this one.
    pub(crate) fn take(&self, recording: u64, bytes: usize, last: bool) -> Option<Recorded> {
        let mut kept = self.kept.lock();
        if kept.recording != recording || kept.asked.is_none() {
            return None;
        }
        let mut taken = Recorded { lost: std::mem::take(&mut kept.lost), ..Recorded::default() };
        let mut left = bytes.saturating_sub(ENVELOPE_BYTES);
        // A file comes before its reads.
        while let Some(file) = kept.files.front_mut() {
            let needed = FILE_BYTES + escaped_bytes(&file.name);
            if needed > left && !taken.files.is_empty() {
                break;
            }
            let bytes = file.name.len();
            if needed > left {
                // Reads name a file by its number: they need not wait for a name that never fits.
                shorten(&mut file.name, left.saturating_sub(FILE_BYTES));
            }
            left = left.saturating_sub(needed);
            taken.files.extend(kept.files.pop_front());
            kept.names_bytes -= bytes;
        }
        let fits =
            |taken: &Recorded, left: usize| left >= READ_BYTES || (taken.files.is_empty() && taken.reads.is_empty());
        while kept.files.is_empty() && fits(&taken, left) && !kept.reads.is_empty() {
            left = left.saturating_sub(READ_BYTES);
            taken.reads.extend(kept.reads.pop_front());
        }
        taken.more = !kept.reads.is_empty();
        if last && !taken.more {
            self.on.store(false, Relaxed);
            kept.end();
        } else {
            kept.asked = Some(Instant::now());
        }
        Some(taken)
    }
}

impl Kept {
    /// The recording has ended, and nothing of it is kept.
    fn end(&mut self) {
        *self = Self { recording: self.recording, ..Self::default() };
    }
}

/// Reads that are kept, 4 MiB: one second of a mount's reads. Lower loses reads between two takes;
/// higher takes more memory that the budget does not count.
const READS_MAX: usize = 100_000;

/// Names of files that are kept, in bytes. Lower loses reads of many files between two takes;
/// higher takes more memory that the budget does not count.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// A recording that has not been taken from for this long has ended. Lower ends slow ones; higher
/// keeps reads that are not taken for longer.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// The most bytes that a read takes as JSON, five numbers of twenty digits; that a file takes,
/// without its name; and that the rest of a part takes.
const READ_BYTES: usize = 110;
const FILE_BYTES: usize = 90;
const ENVELOPE_BYTES: usize = 100;

/// What ends a name that was cut.
const CUT: char = '…';

/// The bytes that `text` takes as JSON, without its quotes.
fn escaped_bytes(text: &str) -> usize {
    text.chars().map(escaped).sum()
}

/// The bytes that a character takes as JSON.
fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Cuts `name` so that it takes at most `bytes` as JSON. One that is cut ends in [`CUT`], if there
/// is room for that.
fn shorten(name: &mut String, bytes: usize) {
    let Some(room) = bytes.checked_sub(CUT.len_utf8()) else { return name.clear() };
    let mut taken = 0;
    let end = name.char_indices().find(|(_, character)| {
        taken += escaped(*character);
        taken > room
    });
    if let Some((end, _)) = end {
        name.truncate(end);
        name.push(CUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(tap: &Tap, at: u64, file: u64) {
        tap.note(|| (at, file, 1, 0, 4096), || (1 << 20, format!("file-{file}")));
    }

    #[test]
    fn nothing_is_kept_while_nothing_is_recorded() {
        let tap = Tap::default();
        note(&tap, 1, 1);
        let recording = tap.start().expect("the first");
        assert_eq!(tap.take(recording, 16_000, false), Some(Recorded::default()));
    }

    #[test]
    fn reads_are_taken_in_order_with_their_files_and_as_many_as_fit() {
        let tap = Tap::default();
        let recording = tap.start().expect("the first");
        assert_eq!(tap.start(), None, "one at a time");
        for at in 0..1_000 {
            note(&tap, at, at % 3);
        }
        let mut reads = Vec::new();
        let mut files = 0;
        loop {
            let taken = tap.take(recording, 16_000, false).expect("it is under way");
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
    fn a_name_of_any_length_is_recorded_and_the_reads_after_it_too() {
        // The longest name that a mount has, one that JSON makes six times as long, and one that
        // fits into no part.
        let names = ["n".repeat(1024), "\u{1}\"".repeat(1500), "ж".repeat(20_000), String::from("short")];
        let tap = Tap::default();
        let recording = tap.start().expect("the first");
        for (at, name) in (0..).zip(&names) {
            tap.note(|| (at, at, 1, 0, 4096), || (1, name.clone()));
        }
        let (mut files, mut reads) = (Vec::new(), 0);
        for _ in 0..names.len() + 2 {
            let taken = tap.take(recording, 16_000, false).expect("it is under way");
            let bytes = serde_json::to_vec(&taken).unwrap().len();
            assert!(bytes <= 16_000, "{bytes} bytes");
            files.extend(taken.files);
            reads += taken.reads.len();
        }
        assert_eq!((files.len(), reads), (names.len(), names.len()));
        for (file, name) in files.iter().zip(&names) {
            match file.name.strip_suffix(CUT) {
                Some(start) => assert!(name.starts_with(start) && start.len() > 15_000, "{} bytes", start.len()),
                None => assert_eq!(file.name, *name),
            }
        }
    }

    #[test]
    fn each_take_takes_something_however_little_fits() {
        let tap = Tap::default();
        let recording = tap.start().expect("the first");
        for at in 0..10 {
            note(&tap, at, at % 2);
        }
        let takes = (0..100).take_while(|_| tap.take(recording, 0, false).expect("it is under way").more).count();
        assert!(takes <= 12, "{takes}");
    }

    #[test]
    fn names_that_are_kept_have_a_bound() {
        let tap = Tap::default();
        let recording = tap.start().expect("the first");
        for at in 0..NAMES_BYTES_MAX as u64 / 1000 {
            tap.note(|| (at, at, 1, 0, 4096), || (1, "n".repeat(4000)));
        }
        assert!(tap.kept.lock().names_bytes <= NAMES_BYTES_MAX + 4000);
        assert!(tap.take(recording, 16_000, false).expect("it is under way").lost > 0);
    }

    #[test]
    fn reads_that_are_not_kept_are_counted() {
        let tap = Tap::default();
        let recording = tap.start().expect("the first");
        for at in 0..READS_MAX as u64 + 7 {
            note(&tap, at, 1);
        }
        assert_eq!(tap.take(recording, 1_000, false).expect("it is under way").lost, 7);
    }

    #[test]
    fn a_recording_that_has_ended_leaves_nothing() {
        let tap = Tap::default();
        let first = tap.start().expect("the first");
        note(&tap, 1, 1);
        assert_eq!(tap.take(first, 16_000, true).expect("it is under way").reads.len(), 1);
        note(&tap, 2, 1);
        let second = tap.start().expect("the next one may begin");
        assert_eq!(tap.take(second, 16_000, true), Some(Recorded::default()));
    }

    #[test]
    fn a_recording_that_is_ended_makes_room_for_another() {
        let tap = Tap::default();
        let first = tap.start().expect("the first");
        note(&tap, 1, 1);
        tap.end(first);
        let second = tap.start().expect("the first has ended");
        tap.end(first);
        note(&tap, 2, 1);
        assert_eq!(tap.take(first, 16_000, true), None);
        assert_eq!(tap.take(second, 16_000, true).expect("it is under way").reads.len(), 1);
    }

    #[test]
    fn a_recorder_that_came_too_late_takes_nothing_from_the_next_one() {
        let tap = Tap::default();
        let late = tap.start().expect("the first");
        tap.kept.lock().asked = Instant::now().checked_sub(GIVEN_UP + Duration::from_secs(1));
        let next = tap.start().expect("the first is silent");
        note(&tap, 1, 1);
        assert_eq!(tap.take(late, 16_000, false), None);
        assert_eq!(tap.take(next, 16_000, true).expect("it is under way").reads.len(), 1);
        assert_eq!(tap.take(next, 16_000, true), None, "it has ended");
    }
}
