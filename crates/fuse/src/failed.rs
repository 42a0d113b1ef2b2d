//! What has just failed since the storage was silent, and what the kernel asks for once more.
//!
//! ```text
//!   READ of pages read ahead ── 30 s ──> EIO ── kernel: READ of the page that is waited for
//!   LOOKUP of a known name   ── 30 s ──> EIO ── kernel: forgets the name, LOOKUP
//!                                         └─ noted for HOLDS: the second one fails at once
//! ```
//!
//! Without this each program waits twice as long as is promised: its patience, and then that of
//! the kernel's second question, which it knows nothing of. A direct read is asked for once.
//!
//! *Invariant:* what failed sooner is not noted: to ask for it again costs as little.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fuser::Errno;
use parking_lot::Mutex;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Question {
    /// Bytes by an open file. Another open asks for itself.
    Read(u64, Range<u64>),
    /// A name in a directory.
    LookUp(u64, OsString),
}

/// The questions that have just failed.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    /// There are some.
    any: AtomicBool,
    latest: Mutex<VecDeque<(Question, Errno, Instant)>>,
}

impl Failed {
    /// A read of `bytes` by the open file `number`, of `since`, has failed with `errno`.
    pub(crate) fn read(&self, number: u64, bytes: Range<u64>, errno: Errno, since: Instant) {
        self.note(Question::Read(number, bytes), errno, since, Instant::now());
    }

    /// A look-up of `since` has failed with `errno`.
    pub(crate) fn look_up(&self, parent: u64, name: &OsStr, errno: Errno, since: Instant) {
        self.note(Question::LookUp(parent, name.to_owned()), errno, since, Instant::now());
    }

    /// The error of a read that had a byte of these and has just failed.
    pub(crate) fn of_read(&self, number: u64, bytes: &Range<u64>) -> Option<Errno> {
        self.find(Instant::now(), |question| match question {
            Question::Read(of, failed) => *of == number && failed.start < bytes.end && bytes.start < failed.end,
            Question::LookUp(..) => false,
        })
    }

    /// The error of a look-up of this name that has just failed.
    pub(crate) fn of_look_up(&self, parent: u64, name: &OsStr) -> Option<Errno> {
        self.find(Instant::now(), |question| match question {
            Question::LookUp(of, failed) => *of == parent && failed == name,
            Question::Read(..) => false,
        })
    }

    fn note(&self, question: Question, errno: Errno, since: Instant, now: Instant) {
        if now.saturating_duration_since(since) < WAITED_MIN {
            return;
        }
        let mut latest = self.latest.lock();
        if latest.len() >= QUESTIONS_MAX {
            latest.pop_front();
        }
        latest.push_back((question, errno, now));
        self.any.store(true, Relaxed);
    }

    fn find(&self, now: Instant, is_same: impl Fn(&Question) -> bool) -> Option<Errno> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let mut latest = self.latest.lock();
        while latest.front().is_some_and(|(.., at)| now.saturating_duration_since(*at) >= HOLDS) {
            latest.pop_front();
        }
        self.any.store(!latest.is_empty(), Relaxed);
        latest.iter().find(|(question, ..)| is_same(question)).map(|(_, errno, _)| *errno)
    }
}

/// How long a failure counts. Lower: on a loaded machine the kernel's second question comes later,
/// and waits for the storage once more. Higher: a program that asks again when the storage is back
/// is refused for longer. Source: the kernel asks within a millisecond; a guess for a loaded one.
const HOLDS: Duration = Duration::from_millis(500);

/// The least wait that a failure is noted for. Lower: a program that tries again after a refusal
/// does not reach the storage for [`HOLDS`]. Higher: a second wait of as much is not spared.
const WAITED_MIN: Duration = Duration::from_millis(500);

/// Failures that are kept. Lower: of an outage with many waiting reads, some wait twice. Higher:
/// more memory, some 100 bytes each, while storage is silent. Source: as many requests as the
/// kernel has in flight.
const QUESTIONS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_after_a_wait_fails_again_for_a_moment() {
        let (failed, began) = (Failed::default(), Instant::now());
        let gave_up = began + Duration::from_secs(30);
        failed.note(Question::Read(7, 0..16384), Errno::EIO, began, gave_up);
        failed.note(Question::LookUp(1, "a".into()), Errno::ETIMEDOUT, began, gave_up);
        failed.note(Question::Read(8, 0..4096), Errno::EIO, gave_up, gave_up + Duration::from_millis(1));
        let read = |number, bytes: Range<u64>, now| {
            let errno = failed.find(now, |question| {
                matches!(question, Question::Read(of, failed)
                if *of == number && failed.start < bytes.end && bytes.start < failed.end)
            });
            errno.map(Errno::code)
        };
        let soon = gave_up + Duration::from_millis(10);
        assert_eq!(read(7, 4096..8192, soon), Some(Errno::EIO.code()));
        assert_eq!(read(7, 16384..20480, soon), None, "bytes behind it");
        assert_eq!(read(8, 0..4096, soon), None, "it failed at once");
        let name = |now, wanted: &str| {
            let is_same = |question: &Question| *question == Question::LookUp(1, wanted.into());
            failed.find(now, is_same).map(Errno::code)
        };
        assert_eq!(name(soon, "a"), Some(Errno::ETIMEDOUT.code()));
        assert_eq!(name(soon, "b"), None);
        assert_eq!(read(7, 0..4096, gave_up + HOLDS), None);
        assert!(failed.latest.lock().is_empty() && !failed.any.load(Relaxed));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let (failed, began) = (Failed::default(), Instant::now());
        for page in 0..10_000 {
            failed.note(Question::Read(1, page..page + 1), Errno::EIO, began, began + WAITED_MIN);
        }
        assert_eq!(failed.latest.lock().len(), QUESTIONS_MAX);
    }
}
