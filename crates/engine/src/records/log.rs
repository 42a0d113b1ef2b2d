//! The form of a log: events and actions as text, and back.
//!
//! ```text
//!   foreread-log 17 capacity_bytes=268435456 readahead=true ..
//!   @1200345 read 5 1 0 32 absent -     an event: time in ns, name, read, file, pages, what was
//!                                       found, a mark touched or not
//!   ! submit 0 1 0 64 - demand storage 32 64 -   an action, after the event that caused it
//! ```
//!
//! One line each, fields separated by blanks.

use foreread_policy::{
    Action, Class, Ends, Event, Extent, FileId, Found, Nanos, Options, ReadId, Replacement, RequestId, Source, Touch,
};

/// How a log begins.
const MAGIC: &str = "foreread-log";

/// Counts changes of a log's form.
pub(crate) const VERSION: u64 = 19;

/// The first line of a log.
pub(crate) fn head_text(options: Options) -> String {
    let Options { capacity_bytes, readahead, replacement, rotational, fair_queue, tier, bypass } = options;
    let replacement = replacement.as_str();
    format!(
        "{MAGIC} {VERSION} capacity_bytes={capacity_bytes} readahead={readahead} replacement={replacement} \
         rotational={rotational} fair_queue={fair_queue} tier={tier} bypass={bypass}"
    )
}

/// The first line of a log without actions, of a policy whose requests are numbered from `first`
/// on.
pub(crate) fn events_head_text(options: Options, first: RequestId) -> String {
    format!("{} events_only={}", head_text(options), first.0)
}

/// The number of the first request, if the log has no actions.
pub(crate) fn parse_events_only(head: &str) -> Option<RequestId> {
    let (_, first) = head.split_once(" events_only=")?;
    first.parse().ok().map(RequestId)
}

/// The version of the form that a first line tells.
pub(crate) fn parse_version(head: &str) -> Option<u64> {
    let mut fields = head.split_ascii_whitespace();
    (fields.next()? == MAGIC).then_some(())?;
    fields.next()?.parse().ok()
}

/// The options of policy that a first line of this version tells.
pub(crate) fn parse_head(head: &str) -> Option<Options> {
    let mut fields = head.split_ascii_whitespace();
    (fields.next()? == MAGIC && fields.next()?.parse() == Ok(VERSION)).then_some(())?;
    let mut field = |name| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    Some(Options {
        capacity_bytes: field("capacity_bytes")?.parse().ok()?,
        readahead: field("readahead")?.parse().ok()?,
        replacement: field("replacement").and_then(|name| Replacement::ALL.into_iter().find(|r| r.as_str() == name))?,
        rotational: field("rotational")?.parse().ok()?,
        fair_queue: field("fair_queue")?.parse().ok()?,
        tier: field("tier")?.parse().ok()?,
        bypass: field("bypass")?.parse().ok()?,
    })
}

/// An event as a log has it.
pub(crate) fn event_text(event: Event) -> String {
    match event {
        Event::Open { file, pages } => format!("open {} {pages}", file.0),
        Event::Release { file } => format!("release {}", file.0),
        Event::Forget { file } => format!("forget {}", file.0),
        Event::Read { read, file, extent, found, marked } => {
            let (Extent { start, end }, found) = (extent, found_text(found));
            format!("read {} {} {start} {end} {found} {}", read.0, file.0, if marked { "marked" } else { "-" })
        }
        Event::Answered { read } => format!("answered {}", read.0),
        Event::Prefetch { file } => format!("prefetch {}", file.0),
        Event::PrefetchEnds { file, ends } => format!("prefetch-ends {} {} {}", file.0, ends.head, ends.tail),
        Event::Discard { file } => format!("discard {}", file.0),
        Event::Parts { file } => format!("parts {}", file.0),
        Event::Directory { file, bytes } => format!("directory {} {bytes}", file.0),
        Event::Member { file, extent } => format!("member {} {} {}", file.0, extent.start, extent.end),
        Event::Chunk { file, extent: Extent { start, end }, group, column } => {
            format!("chunk {} {start} {end} {group} {column}", file.0)
        }
        Event::Cached { file, extent } => format!("cached {} {} {}", file.0, extent.start, extent.end),
        Event::Uncached { file, extent } => format!("uncached {} {} {}", file.0, extent.start, extent.end),
        Event::Capacity { bytes } => format!("capacity {bytes}"),
        Event::Tier { bytes } => format!("tier {bytes}"),
        Event::Reserve { bytes } => format!("reserve {bytes}"),
        Event::Referenced { file, start, request, touch } => {
            let pages = if let Touch::Again { pages } = touch { format!(" {pages}") } else { String::new() };
            format!("referenced {} {start} {} {}{pages}", file.0, request.0, touch_text(touch))
        }
        Event::Completed { request, first_byte, silence, total } => {
            format!("completed {} {} {} {}", request.0, first_byte.0, silence.0, total.0)
        }
        Event::Wants { request } => format!("wants {}", request.0),
        Event::Late { request, silence } => format!("late {} {}", request.0, silence.0),
        Event::Failed { request } => format!("failed {}", request.0),
    }
}

fn found_text(found: Found) -> &'static str {
    match found {
        Found::Absent => "absent",
        Found::InFlight => "in-flight",
        Found::Resident => "resident",
    }
}

fn touch_text(touch: Touch) -> &'static str {
    match touch {
        Touch::First => "first",
        Touch::Finished => "finished",
        Touch::Again { .. } => "again",
    }
}

/// An action as a log has it.
pub(crate) fn action_text(action: Action) -> String {
    match action {
        Action::Submit { request, file, extent, records, class, source, mark, granted, late } => {
            let source = match source {
                Source::Storage => "storage",
                Source::Tier => "tier",
            };
            let class = match class {
                Class::Demand => "demand",
                Class::Speculative => "speculative",
            };
            let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let (mark, late) = (shown(mark), shown(late.map(|late| late.0)));
            let records = records.map_or_else(|| "-".to_owned(), |records| records.to_string());
            let Extent { start, end } = extent;
            format!("submit {} {} {start} {end} {records} {class} {source} {mark} {granted} {late}", request.0, file.0)
        }
        Action::Ready { read, end } => format!("ready {} {end}", read.0),
        Action::Hedge { request } => format!("hedge {}", request.0),
        Action::Grant { request, granted } => format!("grant {} {granted}", request.0),
        Action::Join { request, with } => format!("join {} {}", request.0, with.0),
        Action::Cancel { request } => format!("cancel {}", request.0),
        Action::Clear { file, start } => format!("clear {} {start}", file.0),
        Action::Mark { file, start } => format!("mark {} {start}", file.0),
        Action::Forget { file } => format!("forget {}", file.0),
        Action::ForgetParts { file } => format!("forget-parts {}", file.0),
        Action::Cache { file, folio } => format!("cache {} {} {}", file.0, folio.start, folio.end),
        Action::Drop { file, folio } => format!("drop {} {} {}", file.0, folio.start, folio.end),
    }
}

/// The event that a line tells, and when it happened.
pub(crate) fn parse_event(text: &str) -> Option<(Nanos, Event)> {
    let mut words = text.strip_prefix('@')?.split(' ');
    let now = Nanos(words.next()?.parse().ok()?);
    let name = words.next()?;
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
    let event = match (name, rest.len()) {
        ("open", 2) => Event::Open { file: FileId(number(0)?), pages: number(1)? },
        ("release", 1) => Event::Release { file: FileId(number(0)?) },
        ("forget", 1) => Event::Forget { file: FileId(number(0)?) },
        ("read", 6) => Event::Read {
            read: ReadId(number(0)?),
            file: FileId(number(1)?),
            extent: Extent::new(number(2)?, number(3)?),
            found: [Found::Absent, Found::InFlight, Found::Resident]
                .into_iter()
                .find(|&found| found_text(found) == rest[4])?,
            marked: rest[5] == "marked",
        },
        ("answered", 1) => Event::Answered { read: ReadId(number(0)?) },
        ("prefetch", 1) => Event::Prefetch { file: FileId(number(0)?) },
        ("prefetch-ends", 3) => Event::PrefetchEnds {
            file: FileId(number(0)?),
            ends: Ends { head: rest[1].parse().ok()?, tail: rest[2].parse().ok()? },
        },
        ("discard", 1) => Event::Discard { file: FileId(number(0)?) },
        ("parts", 1) => Event::Parts { file: FileId(number(0)?) },
        ("directory", 2) => Event::Directory { file: FileId(number(0)?), bytes: number(1)? },
        ("member", 3) => Event::Member { file: FileId(number(0)?), extent: Extent::new(number(1)?, number(2)?) },
        ("chunk", 5) => Event::Chunk {
            file: FileId(number(0)?),
            extent: Extent::new(number(1)?, number(2)?),
            group: rest[3].parse().ok()?,
            column: rest[4].parse().ok()?,
        },
        ("cached", 3) => Event::Cached { file: FileId(number(0)?), extent: Extent::new(number(1)?, number(2)?) },
        ("uncached", 3) => Event::Uncached { file: FileId(number(0)?), extent: Extent::new(number(1)?, number(2)?) },
        ("capacity", 1) => Event::Capacity { bytes: number(0)? },
        ("tier", 1) => Event::Tier { bytes: number(0)? },
        ("reserve", 1) => Event::Reserve { bytes: number(0)? },
        ("referenced", 4 | 5) => Event::Referenced {
            file: FileId(number(0)?),
            start: number(1)?,
            request: RequestId(number(2)?),
            touch: match (rest[3], rest.len()) {
                ("first", 4) => Touch::First,
                ("finished", 4) => Touch::Finished,
                ("again", 5) => Touch::Again { pages: number(4)? },
                _ => return None,
            },
        },
        ("completed", 4) => Event::Completed {
            request: RequestId(number(0)?),
            first_byte: Nanos(number(1)?),
            silence: Nanos(number(2)?),
            total: Nanos(number(3)?),
        },
        ("late", 2) => Event::Late { request: RequestId(number(0)?), silence: Nanos(number(1)?) },
        ("wants", 1) => Event::Wants { request: RequestId(number(0)?) },
        ("failed", 1) => Event::Failed { request: RequestId(number(0)?) },
        _ => return None,
    };
    Some((now, event))
}
