//! The last events that policy was told, kept in memory for the case that it panics.
//!
//! ```text
//!   event ──> | 16,384 events, the oldest first | ── policy panics ──> a file, mode 0600
//!      what is dropped ──> Before: files, reserved bytes, reads that wait ─────^ comes first
//! ```
//!
//! The file has the form of a log without actions (`log.rs`). If no event had been dropped by
//! then, a replay of it panics in the same place. Otherwise it begins with what there was when the
//! oldest kept event came, as events: files with their lengths, and the reads that waited, which
//! are told again. So the kept events find the files and requests that they name. What was
//! resident, and what was known of streams, is not in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use foreread_policy::{Action, Cached, Event, Extent, FileId, Found, Nanos, Options, ReadId, ReadPath, RequestId};

use crate::records::log::{event_text, events_head_text};

/// The last events.
pub(crate) struct Last {
    before: Before,
    events: VecDeque<Kept>,
}

/// Something that happened, and the number of the next request at that time.
struct Kept {
    now: Nanos,
    next: RequestId,
    what: What,
}

enum What {
    /// Policy was told.
    Told(Event),
    /// Policy has forgotten a file.
    Forgotten(FileId),
    /// Policy has forgotten the parts of a file.
    PartsForgotten(FileId),
}

/// What there was when the oldest kept event came.
struct Before {
    options: Options,
    /// Lengths in pages, and whether they are open.
    files: BTreeMap<FileId, (u64, bool)>,
    /// Those that are likely to be read in parts.
    parts: BTreeSet<FileId>,
    /// What the tier has of them.
    cached: BTreeMap<FileId, Cached>,
    /// The chunks that they told of: where each lies, its group and its column.
    chunks: BTreeMap<FileId, Vec<(Extent, u32, u32)>>,
    /// The members of archives.
    members: BTreeMap<FileId, Vec<Extent>>,
    reserved: Option<u64>,
    tier: Option<u64>,
    waiting: BTreeMap<ReadId, Event>,
}

impl Before {
    /// `kept` is dropped.
    fn pass(&mut self, kept: &Kept) {
        let event = match kept.what {
            What::Told(event) => event,
            What::Forgotten(file) => Event::Forget { file },
            What::PartsForgotten(file) => {
                self.chunks.remove(&file);
                self.members.remove(&file);
                return;
            }
        };
        match event {
            Event::Open { file, pages } => _ = self.files.insert(file, (pages, true)),
            Event::Release { file } => {
                if let Some((_, is_open)) = self.files.get_mut(&file) {
                    *is_open = false;
                }
            }
            Event::Forget { file } => {
                self.files.remove(&file);
                self.parts.remove(&file);
                self.cached.remove(&file);
                self.chunks.remove(&file);
                self.members.remove(&file);
            }
            Event::Parts { file } if self.files.contains_key(&file) => _ = self.parts.insert(file),
            Event::Member { file, extent } if self.files.contains_key(&file) => {
                self.members.entry(file).or_default().push(extent);
            }
            Event::Chunk { file, extent, group, column } if self.files.contains_key(&file) => {
                self.chunks.entry(file).or_default().push((extent, group, column));
            }
            Event::Cached { file, extent } => self.cached.entry(file).or_default().insert(extent),
            Event::Uncached { file, extent } => self.cached.entry(file).or_default().remove(extent),
            Event::Read { read, file, extent, found: Found::Absent | Found::InFlight, .. } => {
                let waits = Event::Read { read, file, extent, found: Found::Absent, marked: false };
                self.waiting.insert(read, waits);
            }
            Event::Answered { read } => _ = self.waiting.remove(&read),
            Event::Capacity { bytes } => self.options.capacity_bytes = bytes,
            Event::Reserve { bytes } => self.reserved = Some(bytes),
            Event::Tier { bytes } => self.tier = Some(bytes),
            _ => {}
        }
    }

    /// The events that tell of it.
    fn events(&self) -> Vec<Event> {
        let opens = self.files.iter().map(|(&file, &(pages, _))| Event::Open { file, pages });
        let parts = self.parts.iter().map(|&file| Event::Parts { file });
        let ranges = self.cached.iter().flat_map(|(&file, cached)| cached.ranges().map(move |extent| (file, extent)));
        let cached = ranges.map(|(file, extent)| Event::Cached { file, extent });
        let chunks = self.chunks.iter().flat_map(|(&file, chunks)| chunks.iter().map(move |&chunk| (file, chunk)));
        let chunks = chunks.map(|(file, (extent, group, column))| Event::Chunk { file, extent, group, column });
        let members =
            self.members.iter().flat_map(|(&file, members)| members.iter().map(move |&extent| (file, extent)));
        let members = members.map(|(file, extent)| Event::Member { file, extent });
        let idle = self.files.iter().filter(|(_, (_, is_open))| !is_open);
        let releases = idle.map(|(&file, _)| Event::Release { file });
        let reserved = self.reserved.map(|bytes| Event::Reserve { bytes });
        let reserved = reserved.into_iter().chain(self.tier.map(|bytes| Event::Tier { bytes }));
        opens
            .chain(parts)
            .chain(cached)
            .chain(chunks)
            .chain(members)
            .chain(releases)
            .chain(reserved)
            .chain(self.waiting.values().copied())
            .collect()
    }

    /// The number from which on a policy that is told `events` counts its requests, so that the
    /// next one after them has the number `next`.
    fn first(&self, now: Nanos, next: RequestId, events: &[Event]) -> RequestId {
        let made = catch_unwind(AssertUnwindSafe(|| {
            let (mut policy, mut made) = (ReadPath::new(self.options), 0);
            for &event in events {
                policy.handle(now, event);
                while let Some(action) = policy.poll_action() {
                    made += u64::from(matches!(action, Action::Submit { .. }));
                }
            }
            made
        }));
        RequestId(next.0.saturating_sub(made.unwrap_or(0)))
    }
}

impl Last {
    /// No event yet, for a policy with `options`.
    pub(crate) fn new(options: Options) -> Self {
        let before = Before {
            options,
            files: BTreeMap::new(),
            parts: BTreeSet::new(),
            cached: BTreeMap::new(),
            chunks: BTreeMap::new(),
            members: BTreeMap::new(),
            reserved: None,
            tier: None,
            waiting: BTreeMap::new(),
        };
        Self { before, events: VecDeque::new() }
    }

    /// Policy is told of `event`, and its next request has the number `next`.
    pub(crate) fn note(&mut self, now: Nanos, next: RequestId, event: Event) {
        self.keep(Kept { now, next, what: What::Told(event) });
    }

    /// Policy has forgotten `file`.
    pub(crate) fn forgotten(&mut self, file: FileId) {
        self.keep_behind(What::Forgotten(file));
    }

    /// Policy has forgotten the parts of `file`.
    pub(crate) fn parts_forgotten(&mut self, file: FileId) {
        self.keep_behind(What::PartsForgotten(file));
    }

    /// Keeps `what` came of the last event.
    fn keep_behind(&mut self, what: What) {
        let Some(&Kept { now, next, .. }) = self.events.back() else { return };
        self.keep(Kept { now, next, what });
    }

    fn keep(&mut self, kept: Kept) {
        if self.events.len() >= EVENTS_MAX
            && let Some(gone) = self.events.pop_front()
        {
            self.before.pass(&gone);
        }
        self.events.push_back(kept);
    }

    /// Writes the events to a new file in `folder`. Returns its path.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        let (path, file) = new_file(folder)?;
        let mut out = BufWriter::new(file);
        let (began, next) = self.events.front().map_or((Nanos(0), RequestId(0)), |kept| (kept.now, kept.next));
        let before = self.before.events();
        writeln!(out, "{}", events_head_text(self.before.options, self.before.first(began, next, &before)))?;
        for event in before {
            writeln!(out, "@{} {}", began.0, event_text(event))?;
        }
        for kept in &self.events {
            if let What::Told(event) = kept.what {
                writeln!(out, "@{} {}", kept.now.0, event_text(event))?;
            }
        }
        out.flush()?;
        Ok(path)
    }
}

/// A file of the first number that is free: one of another engine, or of a process that had this
/// number before, stays as it is.
fn new_file(folder: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 1;
    loop {
        let path = folder.join(format!("foreread-{}-{number}.events", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NUMBERS_MAX => number += 1,
            opened => return opened.map(|file| (path, file)),
        }
    }
}

/// Names that are tried. Lower: events are lost where so many files are left. Higher: a panic
/// takes longer in a folder that is full of them.
const NUMBERS_MAX: u32 = 10_000;

/// Events that are kept, about a megabyte. Lower, and fewer panics can be replayed from the first
/// event on; higher costs memory.
const EVENTS_MAX: usize = 16_384;
