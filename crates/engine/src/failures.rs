//! The last failures, to be shown.
//!
//! ```text
//!   note ──> | lists b: throttled, 3 times | reads a: timed out |    the newest first,
//!              ^ the same again: counted                             the oldest falls out
//! ```
//!
//! It costs a lock a failure. The log has all of them.

use std::borrow::Cow;
use std::collections::VecDeque;

use foreread_backend::lock::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};

/// A failure, as often as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Failed {
    /// What it came to: `read`, a reader was told; `name`, a look-up or a listing failed; `again`,
    /// the storage was asked once more; `ahead`, no reader has seen it.
    pub what: Cow<'static, str>,
    /// What can be done about it, in a word or two.
    pub kind: Cow<'static, str>,
    /// The object or the prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The text of the last one. It has the key, and what the storage said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How often it came.
    pub count: u64,
    /// Since the last time.
    pub ago_ms: u64,
}

/// What a failure came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    Name,
    Again,
    Ahead,
}

/// The last failures.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<VecDeque<Noted>>);

#[derive(Debug)]
struct Noted {
    what: What,
    error: Error,
    count: u64,
    last: Instant,
}

impl Failures {
    /// `error` came to `what`.
    pub(crate) fn note(&self, what: What, error: &Error) {
        let mut known = self.0.lock();
        let is_same = |noted: &Noted| {
            noted.what == what && noted.error.kind() == error.kind() && noted.error.key() == error.key()
        };
        let before = known.iter().position(is_same).and_then(|at| known.remove(at));
        let count = before.map_or(0, |before| before.count) + 1;
        known.truncate(KNOWN_MAX - 1);
        known.push_front(Noted { what, error: error.clone(), count, last: Instant::now() });
    }

    /// All that are known, the newest first.
    pub(crate) fn last(&self) -> Vec<Failed> {
        self.0.lock().iter().map(Noted::told).collect()
    }
}

impl Noted {
    fn told(&self) -> Failed {
        let what = match self.what {
            What::Read => "read",
            What::Name => "name",
            What::Again => "again",
            What::Ahead => "ahead",
        };
        let kind = match self.error.kind() {
            ErrorKind::NotFound => "not found",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::Changed => "changed",
            ErrorKind::TimedOut => "timed out",
            ErrorKind::Throttled => "throttled",
            ErrorKind::Io => "failed",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Invalid => "invalid",
        };
        Failed {
            what: what.into(),
            kind: kind.into(),
            key: self.error.key().map(str::to_owned),
            text: Some(self.error.to_string().chars().take(LETTERS_MAX).collect()),
            count: self.count,
            ago_ms: self.last.elapsed().as_millis() as u64,
        }
    }
}

/// Failures that are kept. Lower: of an outage fewer files are seen. Higher: more memory, a key
/// and a text each. Source: a guess: what a page shows without being moved.
const KNOWN_MAX: usize = 32;

/// Letters of a text. Lower: it ends before the storage's words. Higher: a key of a thousand
/// letters fills the page. Source: a guess.
const LETTERS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_again_is_counted_and_the_oldest_falls_out() {
        let failures = Failures::default();
        let error = |key: &str| Error::new(ErrorKind::TimedOut, format!("read {key}: silence")).with_key(key);
        failures.note(What::Read, &error("a"));
        failures.note(What::Again, &error("a"));
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        failures.note(What::Read, &error("a"));
        let last = failures.last();
        let told = |nth: usize| (&*last[nth].what, &*last[nth].kind, last[nth].count, last[nth].ago_ms);
        assert_eq!((told(0), told(1)), (("read", "timed out", 2, 0), ("again", "timed out", 1, 1_500)));
        assert_eq!((last[0].key.as_deref(), last[0].text.as_deref()), (Some("a"), Some("read a: silence")));
        (0..100).for_each(|nth| failures.note(What::Read, &error(&"x".repeat(1_000 + nth))));
        let last = failures.last();
        assert_eq!((last.len(), last[0].text.as_ref().map(String::len)), (KNOWN_MAX, Some(LETTERS_MAX)));
    }
}
