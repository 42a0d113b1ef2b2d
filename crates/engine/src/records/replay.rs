//! Replays a log through policy: the same events must give the same actions.
//!
//! ```text
//!   log ── event ──> policy ── its actions ──┐
//!    └──── actions ──────────────────────────┴─> the same, one by one, or the log differs
//! ```
//!
//! Policy is pure, so a difference means that the log is of another policy. A log without actions,
//! such as an engine writes when policy panics, is told to policy and compared with nothing.

use std::any::Any;
use std::io::{self, BufRead};
use std::panic::{AssertUnwindSafe, catch_unwind};

use foreread_policy::{ReadPath, RequestId};

use crate::records::log::{action_text, parse_event, parse_events_only, parse_head};

/// How much a replay has compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Events told to policy.
    pub events: u64,
    /// Actions that policy answered with, each as recorded.
    pub actions: u64,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Reading the log failed.
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
    /// A line is not of a log's form.
    #[error("line {line}: {what}: {text:?}")]
    Malformed {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// Policy panics when it is told an event of the log.
    #[error("line {line}: policy panics: {text}")]
    Panicked {
        /// Counted from 1.
        line: u64,
        /// The text of the panic.
        text: String,
    },
    /// Policy answered with another action than the recorded one.
    #[error("line {line}: recorded {recorded:?}, but policy now does {replayed:?}")]
    Differs {
        /// Counted from 1.
        line: u64,
        /// The action in the log.
        recorded: String,
        /// The action of this policy.
        replayed: String,
    },
}

/// Runs policy on the events of a log and compares its actions with the log's. Streams: memory
/// does not grow with the log.
pub fn replay(log: impl BufRead) -> Result<Replayed, ReplayError> {
    let mut lines = log.lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    let options = parse_head(&head);
    let no_head = || ReplayError::Malformed { line: 1, what: "not the head of a log", text: head.clone() };
    let options = options.ok_or_else(no_head)?;
    let events_only = parse_events_only(&head);
    let mut policy = ReadPath::starting_at(options, events_only.unwrap_or(RequestId(0)));
    let mut replayed = Replayed::default();
    for (at, text) in lines.enumerate() {
        let (line, text) = (at as u64 + 2, text?);
        if let Some(recorded) = text.strip_prefix("! ") {
            let action = policy.poll_action().map_or_else(|| "nothing".to_owned(), action_text);
            if action != recorded {
                return Err(ReplayError::Differs { line, recorded: recorded.to_owned(), replayed: action });
            }
            replayed.actions += 1;
            continue;
        }
        if let Some(action) = policy.poll_action() {
            return Err(ReplayError::Differs { line, recorded: "nothing".to_owned(), replayed: action_text(action) });
        }
        let malformed = || ReplayError::Malformed { line, what: "neither an event nor an action", text: text.clone() };
        let (now, event) = parse_event(&text).ok_or_else(malformed)?;
        catch_unwind(AssertUnwindSafe(|| policy.handle(now, event)))
            .map_err(|panic| ReplayError::Panicked { line, text: panic_text(&*panic) })?;
        replayed.events += 1;
        while events_only.is_some() && policy.poll_action().is_some() {}
    }
    Ok(replayed)
}

/// The text of a panic, as far as it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}
