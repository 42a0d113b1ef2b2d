//! The log of every event and action, and its replay.
//!
//! ```text
//!   foreread-log 7 capacity_bytes=268435456 readahead=true replacement=s3-fifo rotational=false fair_queue=true
//!   @1200345 read 1 0 32 absent -           an event: time in ns, name, file, pages, what was found, mark touched or not
//!   ! submit 0 1 0 64 demand 32 64 -        an action, after the event that caused it
//! ```
//!
//! One line each, fields separated by blanks. Policy is pure: replaying the events gives the same actions, or the log is not of
//! this policy.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;

use foreread_policy::{
    Action, Class, Event, Extent, FileId, Found, Nanos, Options, ReadPath, Replacement, RequestId, Touch,
};

/// Writes a log. A failure to write ends the log, not the reading: it is told once.
pub(crate) struct Recorder {
    out: Option<BufWriter<File>>,
}

impl Recorder {
    /// Starts a log at `path`, replacing what is there.
    pub(crate) fn create(path: &Path, options: Options) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        let Options { capacity_bytes, readahead, replacement, rotational, fair_queue } = options;
        let replacement = replacement.as_str();
        writeln!(
            out,
            "{MAGIC} capacity_bytes={capacity_bytes} readahead={readahead} replacement={replacement} \
             rotational={rotational} fair_queue={fair_queue}"
        )?;
        Ok(Self { out: Some(out) })
    }

    pub(crate) fn event(&mut self, now: Nanos, event: Event) {
        self.line(&format!("@{} {}", now.0, event_text(event)));
    }

    pub(crate) fn action(&mut self, action: Action) {
        self.line(&format!("! {}", action_text(action)));
    }

    pub(crate) fn flush(&mut self) {
        if let Some(out) = &mut self.out
            && let Err(error) = out.flush()
        {
            tracing::warn!(%error, "the record is incomplete");
        }
    }

    fn line(&mut self, text: &str) {
        if let Some(out) = &mut self.out
            && let Err(error) = writeln!(out, "{text}")
        {
            tracing::warn!(%error, "the record is incomplete: it ends here");
            self.out = None;
        }
    }
}

/// What a replay has gone through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// Events told to policy.
    pub events: u64,
    /// Actions that it answered, each as recorded.
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
    /// Policy did something else than what was recorded.
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

/// Runs policy on the events of a log and compares what it does with the log's actions. Streams: memory does not grow with the log.
pub fn replay(log: impl BufRead) -> Result<Replayed, ReplayError> {
    let mut lines = log.lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    let mut policy = ReadPath::new(parse_head(&head)?);
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
        policy.handle(now, event);
        replayed.events += 1;
    }
    Ok(replayed)
}

const MAGIC: &str = "foreread-log 7";

fn parse_head(head: &str) -> Result<Options, ReplayError> {
    let parse = || {
        let rest = head.strip_prefix(MAGIC)?;
        let mut fields = rest.split_ascii_whitespace();
        let mut field = |name| fields.next()?.strip_prefix(name)?.strip_prefix('=');
        Some(Options {
            capacity_bytes: field("capacity_bytes")?.parse().ok()?,
            readahead: field("readahead")?.parse().ok()?,
            replacement: field("replacement")
                .and_then(|name| Replacement::ALL.into_iter().find(|r| r.as_str() == name))?,
            rotational: field("rotational")?.parse().ok()?,
            fair_queue: field("fair_queue")?.parse().ok()?,
        })
    };
    parse().ok_or_else(|| ReplayError::Malformed { line: 1, what: "not the head of a log", text: head.to_owned() })
}

fn event_text(event: Event) -> String {
    match event {
        Event::Open { file, pages } => format!("open {} {pages}", file.0),
        Event::Release { file } => format!("release {}", file.0),
        Event::Forget { file } => format!("forget {}", file.0),
        Event::Read { file, extent, found, marked } => {
            let found = match found {
                Found::Absent => "absent",
                Found::InFlight => "in-flight",
                Found::Resident => "resident",
            };
            format!("read {} {} {} {found} {}", file.0, extent.start, extent.end, if marked { "marked" } else { "-" })
        }
        Event::Prefetch { file } => format!("prefetch {}", file.0),
        Event::Discard { file } => format!("discard {}", file.0),
        Event::Reserve { bytes } => format!("reserve {bytes}"),
        Event::Referenced { file, start, touch } => {
            let touch = match touch {
                Touch::First => "first",
                Touch::Finished => "finished",
                Touch::Again => "again",
            };
            format!("referenced {} {start} {touch}", file.0)
        }
        Event::Completed { request, first_byte, total } => {
            format!("completed {} {} {}", request.0, first_byte.0, total.0)
        }
        Event::Wants { request } => format!("wants {}", request.0),
        Event::Late { request } => format!("late {}", request.0),
        Event::Failed { request } => format!("failed {}", request.0),
    }
}

fn action_text(action: Action) -> String {
    match action {
        Action::Submit { request, file, extent, class, mark, granted, late } => {
            let class = match class {
                Class::Demand => "demand",
                Class::Speculative => "speculative",
            };
            let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let (mark, late) = (shown(mark), shown(late.map(|late| late.0)));
            format!("submit {} {} {} {} {class} {mark} {granted} {late}", request.0, file.0, extent.start, extent.end)
        }
        Action::Hedge { request } => format!("hedge {}", request.0),
        Action::Grant { request, granted } => format!("grant {} {granted}", request.0),
        Action::Join { request, with } => format!("join {} {}", request.0, with.0),
        Action::Cancel { request } => format!("cancel {}", request.0),
        Action::Clear { file, start } => format!("clear {} {start}", file.0),
        Action::Drop { file, folio } => format!("drop {} {} {}", file.0, folio.start, folio.end),
    }
}

fn parse_event(text: &str) -> Option<(Nanos, Event)> {
    let mut words = text.strip_prefix('@')?.split(' ');
    let now = Nanos(words.next()?.parse().ok()?);
    let name = words.next()?;
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
    let event = match (name, rest.len()) {
        ("open", 2) => Event::Open { file: FileId(number(0)?), pages: number(1)? },
        ("release", 1) => Event::Release { file: FileId(number(0)?) },
        ("forget", 1) => Event::Forget { file: FileId(number(0)?) },
        ("read", 5) => Event::Read {
            file: FileId(number(0)?),
            extent: Extent::new(number(1)?, number(2)?),
            found: match rest[3] {
                "absent" => Found::Absent,
                "in-flight" => Found::InFlight,
                "resident" => Found::Resident,
                _ => return None,
            },
            marked: rest[4] == "marked",
        },
        ("prefetch", 1) => Event::Prefetch { file: FileId(number(0)?) },
        ("discard", 1) => Event::Discard { file: FileId(number(0)?) },
        ("reserve", 1) => Event::Reserve { bytes: number(0)? },
        ("referenced", 3) => Event::Referenced {
            file: FileId(number(0)?),
            start: number(1)?,
            touch: match rest[2] {
                "first" => Touch::First,
                "finished" => Touch::Finished,
                "again" => Touch::Again,
                _ => return None,
            },
        },
        ("completed", 3) => {
            Event::Completed { request: RequestId(number(0)?), first_byte: Nanos(number(1)?), total: Nanos(number(2)?) }
        }
        ("late", 1) => Event::Late { request: RequestId(number(0)?) },
        ("wants", 1) => Event::Wants { request: RequestId(number(0)?) },
        ("failed", 1) => Event::Failed { request: RequestId(number(0)?) },
        _ => return None,
    };
    Some((now, event))
}
