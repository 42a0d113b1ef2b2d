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

use foreread_policy::{Nanos, ReadPath, RequestId};

use crate::records::bounds::Bounds;
use crate::records::log::{VERSION, action_text, parse_event, parse_events_only, parse_head, parse_version};

/// How much a replay has compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Events told to policy.
    pub events: u64,
    /// Actions that policy answered with, each as recorded.
    pub actions: u64,
    /// Actions that policy answered with, where the log has no actions.
    pub unrecorded: u64,
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Reading the log failed.
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
    /// The log has the form of another version of foreread.
    #[error("a log of version {version}, where this foreread reads version {VERSION}")]
    Version {
        /// That of the log.
        version: u64,
    },
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
    /// Policy panicked: the log is of a panic, or of events that never happen together.
    #[error("line {line}: policy panics: {what}: {text:?}")]
    Panicked {
        /// Counted from 1.
        line: u64,
        /// What it said.
        what: String,
        /// The line.
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
    let malformed = |line, what, text: &str| ReplayError::Malformed { line, what, text: text.to_owned() };
    if let Some(version) = parse_version(&head).filter(|&version| version != VERSION) {
        return Err(ReplayError::Version { version });
    }
    let options = parse_head(&head).ok_or_else(|| malformed(1, "not the head of a log", &head))?;
    Bounds::head(&options).map_err(|what| malformed(1, what, &head))?;
    let mut bounds = Bounds::default();
    let events_only = parse_events_only(&head);
    let first = events_only.unwrap_or(RequestId(0));
    let mut policy = guarded(1, &head, || ReadPath::starting_at(options, first))?;
    let (mut replayed, mut last) = (Replayed::default(), Nanos(0));
    for (at, text) in lines.enumerate() {
        let (line, text) = (at as u64 + 2, text?);
        let next = guarded(line, &text, || policy.poll_action())?;
        if let Some(recorded) = text.strip_prefix("! ") {
            let action = next.map_or_else(|| "nothing".to_owned(), action_text);
            if action != recorded {
                return Err(ReplayError::Differs { line, recorded: recorded.to_owned(), replayed: action });
            }
            replayed.actions += 1;
            continue;
        }
        if let Some(action) = next {
            return Err(ReplayError::Differs { line, recorded: "nothing".to_owned(), replayed: action_text(action) });
        }
        let parsed = parse_event(&text);
        let (now, event) = parsed.ok_or_else(|| malformed(line, "neither an event nor an action", &text))?;
        if now < last {
            return Err(malformed(line, "an earlier time than that of the event before", &text));
        }
        last = now;
        bounds.event(now, event).map_err(|what| malformed(line, what, &text))?;
        guarded(line, &text, || policy.handle(now, event))?;
        replayed.events += 1;
        if events_only.is_some() {
            replayed.unrecorded += guarded(line, &text, || std::iter::from_fn(|| policy.poll_action()).count() as u64)?;
        }
    }
    Ok(replayed)
}

/// Runs `f` of policy at a line. A log may hold what no driver does, and policy relies on drivers.
fn guarded<T>(line: u64, text: &str, f: impl FnOnce() -> T) -> Result<T, ReplayError> {
    // Policy is not used after a panic.
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| ReplayError::Panicked {
        line,
        what: panic_text(&*panic),
        text: text.to_owned(),
    })
}

/// The text of a panic, as far as it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_driver_does_is_an_error_with_its_line() {
        let head = "foreread-log 19 capacity_bytes=16777216 readahead=true replacement=s3-fifo rotational=false fair_queue=true tier=false bypass=false";
        let told = |rest: &str| replay(format!("{head}\n{rest}").as_bytes()).expect_err(rest).to_string();
        assert!(
            told("@2 open 0 1\n@1 release 0").starts_with("line 3: an earlier time"),
            "{}",
            told("@2 open 0 1\n@1 release 0")
        );
        assert!(told("@2 open 0 1\nrubbish").starts_with("line 3: neither an event"));
        let long = told("@2 open 0 18014398509481984\n@3 read 1 0 0 18014398509481984 absent -");
        assert!(long.starts_with("line 2: a file of more than 8 EiB"), "{long}");
        let long = told("@2 open 0 100000000\n@3 read 1 0 0 100000000 absent -");
        assert!(long.starts_with("line 3: a read of more than 8 MiB"), "{long}");
        let budget = format!("{}\n", head.replace("16777216", "18446744073709551615"));
        let budget = replay(budget.as_bytes()).expect_err("no machine has it").to_string();
        assert!(budget.starts_with("line 1: a budget of more than 16 TiB"), "{budget}");
    }

    #[test]
    fn a_log_of_another_version_is_told_from_what_is_no_log() {
        let told = |head: &str| replay(head.as_bytes()).expect_err(head).to_string();
        for version in ["18", "20"] {
            let told = told(&format!("foreread-log {version} capacity_bytes=16777216"));
            assert!(told.starts_with(&format!("a log of version {version}, where")), "{told}");
        }
        for head in ["", "foreread-log", "foreread-log 19", "foreread-log16 capacity_bytes=16777216", "rubbish 16"] {
            assert!(told(head).starts_with("line 1: not the head of a log"), "{}", told(head));
        }
    }

    /// A log of this policy, with every event and every action that takes no second process.
    fn log() -> Vec<u8> {
        let options = foreread_policy::Options {
            capacity_bytes: 16 << 20,
            readahead: true,
            replacement: foreread_policy::Replacement::default(),
            rotational: false,
            fair_queue: true,
            tier: false,
            bypass: true,
        };
        let mut policy = ReadPath::new(options);
        let mut lines = vec![crate::records::log::head_text(options)];
        for event in [
            "open 0 1000",
            "read 1 0 0 32 absent -",
            "completed 1 30000000 30000000 40000000",
            "referenced 0 0 0 first",
            "answered 1",
            "read 2 0 32 64 in-flight marked",
            "late 2 60000000",
            "wants 2",
            "failed 2",
            "reserve 1048576",
            "prefetch 0",
            "discard 0",
            "release 0",
            "forget 0",
        ]
        .into_iter()
        .zip(1..)
        .map(|(event, at)| format!("@{at}000000 {event}"))
        {
            let (now, parsed) = parse_event(&event).expect(&event);
            assert_eq!(format!("@{} {}", now.0, crate::records::log::event_text(parsed)), event);
            policy.handle(now, parsed);
            lines.push(event);
            while let Some(action) = policy.poll_action() {
                lines.push(format!("! {}", action_text(action)));
            }
        }
        lines.join("\n").into_bytes()
    }

    #[test]
    fn fuzz_replay_of_a_log() {
        let log = log();
        assert!(replay(&*log).is_ok_and(|replayed| replayed.events == 14));
        let words = [
            "\n@",
            "open ",
            "read ",
            "release ",
            "forget ",
            "completed ",
            "failed ",
            "late ",
            "wants ",
            "reserve ",
            "referenced ",
            "prefetch ",
            "discard ",
            "\n! ",
            "absent",
            "resident",
            "in-flight",
            "capacity_bytes=",
            "true",
            "again",
        ];
        foreread_fuzz::fuzz("replay of a log", &[&log], &words, |log| {
            let _ = replay(log);
        });
    }

    /// The same, without the actions: policy is asked for all of them.
    #[test]
    fn fuzz_events_of_a_log() {
        let log = log();
        let words = [
            "\n@9",
            "open 0 ",
            "open 1 5\n",
            "read 3 0 ",
            "answered 2",
            "release 0",
            "forget 0",
            "completed 1 ",
            "failed 3",
            "late 2 60000000",
            "wants 1",
            "reserve ",
            "referenced 0 ",
            "prefetch 1",
            "discard 1",
            "absent -",
            "resident -",
            "in-flight marked",
        ];
        foreread_fuzz::fuzz("events of a log", &[&log], &words, |log| {
            let Ok(text) = std::str::from_utf8(log) else { return };
            let mut lines = text.lines().filter(|line| !line.starts_with('!'));
            let head = format!("{} events_only=0", lines.next().unwrap_or_default());
            let events: Vec<_> = std::iter::once(&*head).chain(lines).collect();
            let _ = replay(events.join("\n").as_bytes());
        });
    }
}
