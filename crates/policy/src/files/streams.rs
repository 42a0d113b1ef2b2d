//! The streams of one file: which of them a read belongs to, and when a run of reads becomes one.
//!
//! ```text
//!   read ──> expected by a stream? ────────────────────────> it advances
//!        ──> continues a run? ────── second adjacent read ─> recognised: forward
//!        ──> ends where one begins? ─ three in a row ──────> recognised: backward
//!        ──> starts a run ─┬─ completes a progression ─────> recognised: strided or backward
//!                          ├─ ends a chain of short jumps ─> recognised: sparse
//!                          ├─ at the start of the file ────> recognised: forward
//!                          ├─ enough read before it ───────> a guess: forward (context)
//!                          └─ else ────────────────────────> random: its own pages, nothing more
//! ```
//!
//! Streams are found by position, never by handle, so any number of readers and descriptors may
//! interleave. Several threads send the kernel's own readahead, so its reads overtake each other.
//! They leave runs that meet, and runs that meet are joined. Where pages of a stream are evicted
//! unread, later runs of the file must show more reads before they are recognised (distrust), and
//! a start of the file alone is not enough. In a file that is read in parts, little comes with it.
//!
//! *Invariants:* runs and streams take no more than their share of the memory. A read belongs
//! to one of them at most.
//!
//! A run that has not been read for a while, or is forgotten, has ended: `lengths` learns from it
//! how far others are likely to go. Where most end soon, more reads must show a stream; where they
//! are alike, one read does.
//!
//! The file does not decide how far a stream goes (`window`, `share`) or what is resident: the
//! caller says which pages before a read have been read. Source: the kernel's on-demand readahead
//! and its context readahead, with evidence against chance (docs/decisions/0010, 0012, 0014).

use alloc::boxed::Box;

use crate::files::forgotten::Forgotten;
use crate::files::lengths::Lengths;
use crate::files::outline::Streams;
use crate::files::sparse::{self, Chain, Sparse};
use crate::files::stride::Starts;
use crate::files::window::parts::{Limits, Part};
use crate::files::window::state::StreamState;
use crate::files::window::{Pattern, Read, Stream};
use crate::units::{Extent, FileId, Nanos, PAGE_BYTES};

/// What kind of stream a read has shown for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Forward,
    Strided,
    Sparse,
}

/// All streams of one file.
#[derive(Debug)]
pub(crate) struct FileReadahead {
    streams: Streams,
    starts: Starts,
    lengths: Lengths,
    /// Nothing as long as none was forgotten.
    forgotten: Option<Box<Forgotten>>,
    /// Streams and runs that were not read after this time have been taken for ended.
    ended: Option<Nanos>,
    /// When the last program closed the file.
    closed: Option<Nanos>,
    /// When a stream was last read on that a program had left.
    read_on: Option<Nanos>,
    next_id: u64,
    /// How many more reads than usual a run must show. Grows with waste, shrinks with reads that
    /// need not wait.
    distrust: u32,
    /// Whether some stream's next part may be held back.
    held_back: bool,
    /// Whether the file is likely to be read in parts.
    has_parts: bool,
}

impl FileReadahead {
    pub(crate) fn new() -> Self {
        Self {
            streams: Streams::default(),
            starts: Starts::default(),
            lengths: Lengths::default(),
            forgotten: None,
            ended: None,
            closed: None,
            read_on: None,
            next_id: 0,
            distrust: 0,
            held_back: false,
            has_parts: false,
        }
    }

    /// Nothing is known of its streams any more.
    pub(crate) fn anew(&self) -> Self {
        Self { has_parts: self.has_parts, ..Self::new() }
    }

    /// The file is likely to be read in parts, so one read of its start shows little.
    pub(crate) fn has_parts(&mut self) {
        self.has_parts = true;
    }

    /// No program has the file open any more: all readers have stopped until they are heard of
    /// again. What they have shown of other streams says nothing of the next program's. Returns
    /// whether programs have lately read on where one had closed it.
    pub(crate) fn close(&mut self, now: Nanos) -> bool {
        let (mut streams, next_id) = (core::mem::take(&mut self.streams), self.next_id);
        streams.keep_latest(LEFT_MAX);
        let read_on = self.read_on.filter(|&at| now.since(at) <= READ_ON);
        *self = Self { streams, next_id, read_on, closed: Some(now), ..self.anew() };
        read_on.is_some()
    }

    /// When the last program closed the file, if its streams have been kept since.
    pub(crate) fn closed(&self) -> Option<Nanos> {
        self.closed
    }

    /// No program came back in time.
    pub(crate) fn is_not_read_on(&mut self) {
        self.read_on = None;
    }

    /// Whether the reader of `stream` has not been heard of since the file was closed.
    fn was_closed_after(&self, stream: &Stream) -> bool {
        self.closed.is_some_and(|closed| stream.last < closed)
    }

    /// Whether any of its streams and runs could be read on, in a file of so many pages.
    pub(crate) fn may_go_on(&self, file_pages: u64) -> bool {
        self.streams.iter().any(|stream| !stream.outlook(1, file_pages).is_empty())
    }

    /// The memory that its streams and runs take.
    pub(crate) fn bytes(&self) -> u64 {
        self.streams.len() as u64 * STREAM_BYTES
            + self.lengths.bytes()
            + self.forgotten.as_ref().map_or(0, |ends| ends.bytes())
    }

    /// Takes note of `read`. Returns which stream to plan for, if any, and whether it is new.
    /// `waits` says whether a page is in flight.
    pub(crate) fn observe(&mut self, now: Nanos, read: Read, waits: impl Fn(u64) -> bool) -> (Option<u64>, Shown) {
        self.end_idle(now);
        if let Some(at) = self.streams.begins_row(read) {
            return self.continued(now, at, read);
        }
        let expecting = self.streams.expecting(read, self.closed);
        let run = expecting.map(|at| self.streams.get(at)).filter(|stream| !stream.is_recognised());
        if run.is_some() == expecting.is_some() {
            let is_old = run.is_some_and(|run| self.streams.has_runs_after(run.last, RUNS_MIN));
            let old = self.streams.runs().saturating_sub(RUNS_MIN);
            if let Some(forgotten) = &mut self.forgotten {
                forgotten.count(read.extent.start, read.extent.pages(), read.file_pages, old, is_old);
            }
            if let Some(at) = expecting.filter(|_| is_old)
                && let Some(stream) = self.goes_through_old_runs(now, at, read)
            {
                return (Some(stream), Shown::Strided);
            }
        }
        if let Some(at) = expecting {
            let stream = self.streams.get(at);
            let left = stream.left_by(read.extent);
            let read = Read { beside: stream.may_be_cut() && waits(stream.start), ..read };
            let shown = self.continued(now, at, read);
            if let Some(record) = left {
                let run = self.new_run(now, read, record);
                self.streams.push(run);
            }
            return shown;
        }
        // One of several threads that read for a program may be late: that shows no other stream.
        if read.absent.is_none() && self.streams.has_just_read(read.extent, now) {
            return (None, Shown::Nothing);
        }
        if let Some(at) = self.streams.run_behind(read.extent) {
            let by_chance = self.reads_by_chance(at, read);
            let stream = self.streams.get(at);
            let overlaps = waits(stream.start);
            let beside = stream.may_be_cut() && overlaps;
            self.streams.change(at, |stream| stream.prepend(now, read.extent, beside, overlaps));
            let &Stream { id, start, pos, seen, prepended, overtaken, .. } = self.streams.get(at);
            self.starts.grow(id, start, seen);
            let needed = match overtaken {
                true => BACKWARD_READS_OVERTAKEN,
                false if pos == read.file_pages => ADJACENT_READS + by_chance,
                false => BACKWARD_READS + by_chance,
            };
            if prepended + 1 < needed + self.distrust {
                return (None, Shown::Nothing);
            }
            let pages = read.extent.pages();
            self.streams.change(at, |stream| stream.recognise_backward(pages, read.file_pages));
            return (Some(id), Shown::Strided);
        }
        self.started(now, read, waits)
    }

    /// Treats the streams and runs that have not been read for a while as ended.
    fn end_idle(&mut self, now: Nanos) {
        let Some(until) = now.0.checked_sub(ENDED.0).map(Nanos) else { return };
        while let Some(stream) = self.streams.take_ended(until) {
            self.lengths.end(stream.length());
        }
        self.ended = Some(until);
    }

    /// `read` continues the old run at `at`. A reader that takes many streams in turn comes back
    /// to each: its reads are a progression again, of which the next ones need not wait. Returns
    /// that.
    fn goes_through_old_runs(&mut self, now: Nanos, at: u32, read: Read) -> Option<u64> {
        let Some(stride) = self.starts.push(self.next_id, read.extent.start, read.extent.pages()) else {
            self.next_id += 1;
            return None;
        };
        self.streams.remove(at);
        let mut stream = self.new_run(now, read, read.extent);
        stream.recognise_stride(stride);
        let id = stream.id;
        self.streams.push(stream);
        Some(id)
    }

    /// Whether that stream or run has been taken for ended.
    fn has_ended(&self, stream: &Stream) -> bool {
        self.ended.is_some_and(|ended| stream.last <= ended)
    }

    /// `read` continues the stream or run at `at`.
    fn continued(&mut self, now: Nanos, at: u32, read: Read) -> (Option<u64>, Shown) {
        let by_chance = self.reads_by_chance(at, read);
        if self.was_closed_after(self.streams.get(at)) {
            self.read_on = Some(now);
        }
        if self.has_ended(self.streams.get(at)) {
            self.lengths.revive(self.streams.get(at).length());
        }
        let lengths = &self.lengths;
        self.streams.change(at, |stream| stream.advance(now, read, lengths));
        let &Stream { id, pos, start, pattern, .. } = self.streams.get(at);
        if self.streams.get(at).is_recognised() {
            if !read.stalled {
                self.distrust = self.distrust.saturating_sub(1);
            }
            let pages = match pattern {
                Pattern::Forward => pos.saturating_sub(start),
                // What lies between its records has not been read.
                Pattern::Strided { pages, .. } => pages,
                Pattern::Sparse => read.extent.pages(),
            };
            self.starts.grow(id, start, pages);
            return (Some(id), Shown::Nothing);
        }
        if let Some(next) = self.streams.run_behind(Extent::new(start, pos)).filter(|next| *next != at) {
            let next = self.streams.remove(next);
            self.starts.forget(next.id);
            self.streams.change(at, |stream| stream.append(&next, read.beside));
        }
        let needed = ADJACENT_READS + self.distrust + by_chance;
        let &Stream { start, seen, reads, .. } = self.streams.get(at);
        self.starts.grow(id, start, seen);
        if reads < needed {
            return (None, Shown::Nothing);
        }
        let lengths = &self.lengths;
        self.streams.change(at, |stream| stream.recognise(read.absent, lengths));
        if self.streams.get(at).is_recognised() { (Some(id), Shown::Forward) } else { (None, Shown::Nothing) }
    }

    /// Whether readers come back to what they left long ago.
    fn come_back(&self) -> bool {
        self.forgotten.as_ref().is_some_and(|forgotten| forgotten.come_back())
    }

    /// How many reads more than usual must show the run at `at`, since a random read is likely to
    /// continue it, or one that was read later: in a small file with many runs
    /// (docs/decisions/0010), or beside many runs.
    fn reads_by_chance(&self, at: u32, read: Read) -> u32 {
        let last = self.streams.get(at).last;
        let few = (read.file_pages / (read.extent.pages() * CHANCE)) as usize;
        if self.streams.has_runs_after(last, RUNS_MIN) && !self.come_back() {
            CHANCE_READS
        } else {
            u32::from(self.streams.has_runs_after(last, few.min(RUNS_MIN)))
        }
    }

    /// A reader begins at the start of the file: it may be one that has come to the end. The last
    /// reads of a stream are seldom told, so it would seem to have a reader until that has been
    /// silent for long; each pass of an epoch would leave it one share of memory less.
    fn begins_anew(&mut self, file_pages: u64) {
        let ended = self.streams.iter_mut().filter(|stream| stream.has_planned_all(file_pages));
        ended.for_each(|stream| stream.through = true);
    }

    /// `read` continues nothing: it starts a run, or a stream that can be recognised at once.
    fn started(&mut self, now: Nanos, read: Read, waits: impl Fn(u64) -> bool) -> (Option<u64>, Shown) {
        let chain = self.chain_before(read, waits);
        if read.extent.start == 0 {
            self.begins_anew(read.file_pages);
        }
        let mut stream = self.new_run(now, read, read.extent);
        stream.chain = chain.map_or(stream.chain, |chain| chain.and(read.extent.pages(), true));
        let id = stream.id;
        let mut shown = Shown::Nothing;
        if let Some(stride) = self.starts.push(id, read.extent.start, read.extent.pages()) {
            // The runs that showed the progression are its records now.
            stream.recognise_stride(stride);
            shown = Shown::Strided;
        } else if let Some(reader) = stream.chain.shows(read.extent.end) {
            stream.recognise_sparse(reader, read.absent);
            shown = Shown::Sparse;
        } else if (read.extent.start == 0 && self.distrust == 0) || self.lengths.know(stream.length()) {
            stream.recognise(read.absent, &self.lengths);
            if self.has_parts && read.extent.start == 0 {
                stream.doubt();
            }
        } else if read.before > read.extent.pages() * (CONTEXT_READS - 1 + u64::from(self.distrust)) {
            stream.start = read.extent.start - read.before;
            stream.seen += read.before;
            stream.guess = true;
            stream.recognise(read.absent, &self.lengths);
        }
        if stream.is_recognised() && shown == Shown::Nothing {
            shown = Shown::Forward;
        }
        self.streams.push(stream);
        if shown == Shown::Nothing { (None, shown) } else { (Some(id), shown) }
    }

    /// The chain of the runs before `read` that its reader may have gone through.
    fn chain_before(&self, read: Read, waits: impl Fn(u64) -> bool) -> Option<Chain> {
        let page = read.extent.start;
        let most = |later| sparse::gap_pages_max(read.extent.pages(), read.file_pages, later).min(read.gap_pages_max);
        let before = self.streams.before(page, most(0)).map(|at| self.streams.get(at));
        // Of several readers, each of which has a read on its way, none follows another.
        let follows = |run: &&Stream| {
            let later = self.streams.runs_after(run.last) as u64;
            page - run.pos <= most(later) && !waits(run.pos.saturating_sub(1))
        };
        before.filter(follows).map(|run| run.chain)
    }

    /// A new run that begins with `read`, for which there is a place.
    fn new_run(&mut self, now: Nanos, read: Read, extent: Extent) -> Stream {
        self.make_place(read);
        self.next_id += 1;
        Stream::new(self.next_id - 1, now, extent)
    }

    /// Makes a place: removes the run that was idle for longest, or the stream where there are too
    /// many of those.
    fn make_place(&mut self, read: Read) {
        // What the streams of other files leave.
        let room_bytes = (read.room_pages * PAGE_BYTES / STREAMS_SHARE).saturating_sub(read.others_bytes);
        let useful = if self.come_back() { (room_bytes / STREAM_BYTES) as usize } else { 0 };
        // Random reads would continue one of more runs than that too often.
        let few = (read.file_pages / (read.extent.pages() * CHANCE_KEPT)) as usize;
        let full = if self.streams.runs() >= RUNS_MIN.max(useful.min(few)) {
            false
        } else if self.streams.recognised() >= STREAMS_MIN.max(useful) {
            true
        } else {
            return;
        };
        if let Some(at) = self.streams.idle(full) {
            let gone = self.streams.remove(at);
            self.forgotten.get_or_insert_default().push(gone.pos);
            if !self.has_ended(&gone) {
                self.lengths.end(gone.length());
            }
        }
    }

    fn change<R>(&mut self, id: u64, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let at = self.streams.position(id)?;
        Some(self.streams.change(at, change))
    }

    /// What to read ahead next for stream `id`.
    pub(crate) fn next_part(&mut self, now: Nanos, id: u64, limits: Limits) -> Option<Part> {
        let (part, held_back) = self.change(id, |s| (s.next_part(now, limits), s.pace.is_held_back()))?;
        self.held_back |= held_back;
        part
    }

    /// Takes the page that is to be marked for stream `id`, if nothing new is planned for it.
    pub(crate) fn take_mark(&mut self, id: u64) -> Option<u64> {
        self.streams.find_mut(id)?.take_mark()
    }

    /// Whether stream `id` has been read only once.
    pub(crate) fn is_new(&self, id: u64) -> bool {
        self.streams.find(id).is_some_and(|s| s.reads == 1)
    }

    /// Whether stream `id` was guessed from context and has not been read on.
    pub(crate) fn is_guess(&self, id: u64) -> bool {
        self.streams.find(id).is_some_and(|s| s.guess)
    }

    /// The pages between the last two records of stream `id`, if it is a progression.
    pub(crate) fn gap_behind(&self, id: u64) -> Option<Extent> {
        self.streams.find(id)?.gap_behind()
    }

    /// The pages that stream `id` has gone through since this was asked for the last time, if it
    /// is sparse.
    pub(crate) fn take_passed(&mut self, id: u64) -> Option<Extent> {
        self.streams.find_mut(id)?.take_passed()
    }

    /// The last pages that stream `id` went through, at most `most` of them, if it is sparse.
    pub(crate) fn gone_through(&self, id: u64, most: u64) -> Option<(Extent, Sparse)> {
        self.streams.find(id)?.gone_through(most)
    }

    /// What its streams of `file` are doing, where each may be `share_pages` ahead.
    pub(crate) fn states(&self, file: FileId, share_pages: u64) -> impl Iterator<Item = StreamState> {
        self.streams.iter().filter_map(move |stream| stream.state(file, share_pages))
    }

    /// A stream that was held back and is due now.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<u64> {
        if !self.held_back {
            return None;
        }
        self.held_back = self.streams.iter().any(|s| s.pace.is_held_back());
        self.streams.iter().find(|s| s.pace.due(now)).map(|s| s.id)
    }

    /// `part` of stream `id` has been submitted or is resident.
    pub(crate) fn planned(&mut self, now: Nanos, id: u64, part: Part) {
        self.change(id, |stream| stream.planned(now, part));
    }

    /// The pages of `part` of stream `id` before page `until` have been submitted or are resident.
    pub(crate) fn planned_until(&mut self, now: Nanos, id: u64, part: Part, until: u64) {
        if until > part.extent.start {
            let part = Part { extent: Extent::new(part.extent.start, until), ..part };
            self.change(id, |stream| {
                if !matches!(stream.pattern, Pattern::Strided { .. }) {
                    stream.planned(now, part);
                }
            });
        }
    }

    /// Pages read ahead for stream `id` were evicted unread.
    pub(crate) fn wasted(&mut self, id: u64, thrashed: bool) {
        self.distrust = (self.distrust + 1).min(DISTRUST_MAX);
        if thrashed {
            self.change(id, Stream::thrashed);
        }
    }

    /// How far ahead stream `id` wants to be, in pages.
    pub(crate) fn ahead(&self, id: u64) -> u64 {
        self.streams.find(id).map_or(0, |s| s.within_horizon(s.ahead))
    }

    /// The pages that stream `id` would be `ahead` of its reader with.
    pub(crate) fn outlook(&self, id: u64, ahead: u64, file_pages: u64) -> Option<Extent> {
        self.streams.find(id).map(|s| s.outlook(ahead, file_pages))
    }

    /// Whether the reader of stream `id` has had to wait since then.
    pub(crate) fn has_waited(&self, id: u64, since: Nanos) -> bool {
        self.streams.find(id).is_some_and(|s| s.has_waited(since))
    }

    /// Stream `id` has all that it could read ahead in the tier, or not.
    pub(crate) fn set_near(&mut self, id: u64, near: bool) {
        if self.streams.find(id).is_some_and(|s| s.near != near) {
            self.change(id, |stream| stream.near = near);
        }
    }

    /// Whether the reader of stream `id` goes backward.
    pub(crate) fn is_backward(&self, id: u64) -> bool {
        self.streams.find(id).is_some_and(|s| matches!(s.pattern, Pattern::Strided { delta, .. } if delta < 0))
    }

    /// Whether the reader of stream `id` goes forward, and leaves gaps between its reads.
    pub(crate) fn has_gaps(&self, id: u64) -> bool {
        let goes = |pattern| !matches!(pattern, Pattern::Forward | Pattern::Strided { delta: ..=0, .. });
        self.streams.find(id).is_some_and(|s| s.ahead > 0 && goes(s.pattern))
    }

    /// Pages that stream `id` had read in its round when they were last counted.
    pub(crate) fn standing(&self, id: u64) -> u64 {
        self.streams.find(id).map_or(0, |s| s.standing)
    }

    /// Counts the pages read in `round` by each stream that is active and wants to be at least
    /// `level` pages ahead.
    pub(crate) fn contending(&mut self, active: Active, level: u64, round: u64) -> impl Iterator<Item = u64> {
        let active = Active { since: active.since.max(self.closed.unwrap_or_default()), ..active };
        let contends = move |s: &&mut Stream| active.has(s) && s.wants() >= level;
        self.streams.iter_mut().filter(contends).map(move |s| s.count_in(round))
    }

    /// How far ahead each stream that is active wants to be, in pages.
    pub(crate) fn wanted(&self, active: Active) -> impl Iterator<Item = u64> {
        let active = Active { since: active.since.max(self.closed.unwrap_or_default()), ..active };
        self.streams.iter().filter(move |s| active.has(s)).map(Stream::wants)
    }

    /// When the reader of stream `id` counts as stopped.
    pub(crate) fn stops_at(&self, id: u64) -> Option<Nanos> {
        let stream = self.streams.find(id)?;
        if self.was_closed_after(stream) {
            return self.closed;
        }
        if stream.through {
            return Some(stream.last);
        }
        Some(stream.stops_at().max(Nanos(stream.last.0 + self.patience(id)?.0)))
    }

    /// How long the reader of stream `id` may be silent beyond what is usual: not at all, unless
    /// readers of the file come back to what they left long ago.
    pub(crate) fn patience(&self, id: u64) -> Option<Nanos> {
        let stream = self.streams.find(id)?;
        Some(if self.come_back() { stream.patience() } else { Nanos(0) })
    }
}

/// What makes a stream active: it was read since `since`, and its reader has not stopped by `now`,
/// or come to the end and begun anew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Active {
    pub(crate) since: Nanos,
    pub(crate) now: Nanos,
}

impl Active {
    fn has(self, stream: &Stream) -> bool {
        let stops_at = stream.stops_at().max(Nanos(stream.last.0 + STOPPED.0));
        stream.is_recognised() && !stream.through && stream.last >= self.since && self.now < stops_at
    }
}

/// Time without a read after which a stream whose reader counts as stopped has no share: 2.5 s.
/// Lower: sixteen backward readers in 64 MiB have .81 of the link in place of .87, since one that
/// waits for long loses its share. Higher: readers that stopped keep shares from others. Source:
/// docs/decisions/0076.
const STOPPED: Nanos = Nanos::from_millis(2_500);

/// Streams of a closed file that are kept, and as many runs. Lower: of several readers, each of
/// which opens the file for each piece, some wait for each. Higher: a closed file takes more
/// memory. Source: chosen here; docs/decisions/0105.
const LEFT_MAX: usize = 8;

/// Time for which it counts that a stream was read on which a program had left: 2 s. Lower: where
/// many pieces come with one request, what is in flight at the next close is cancelled. Higher: so
/// it is not where programs have begun to read something else. Source: the time for which streams
/// are kept (`read::path::release`).
const READ_ON: Nanos = Nanos::from_millis(2_000);

/// Memory that a stream or a run takes, in bytes. Lower: more is held than is charged. Higher:
/// many streams have fewer pages. Source: the size of the type, and its outline.
const STREAM_BYTES: u64 = size_of::<Stream>() as u64 + 32;

/// Adjacent reads that make a forward stream, the first counted. Lower: every read starts
/// readahead. Higher: sequential readers in the middle of a file wait for more round trips.
/// Source: the kernel's on-demand readahead, which starts a window at the second sequential read.
const ADJACENT_READS: u32 = 2;

/// Read pages directly before a read that make it a guess, in reads of its own length. Lower:
/// random readers are guessed to be streams; where 44 % of a file has been read, two reads lie
/// before each fifth read by chance, eight before one in seven hundred. Higher: an interleaved
/// stream is found later once its run was forgotten. Source: docs/decisions/0010; the kernel's
/// `try_context_readahead()` wants more than one.
const CONTEXT_READS: u64 = 8;

/// Reads that make a backward stream, the first counted. Each ends where the one before it began,
/// and came once that one was there. One that begins at the end of its file needs as many as a
/// forward one. Lower: random reads that lie so by chance are read ahead for; with two
/// `sysbench-fileio` fetched .5 % more. Higher: a backward reader waits for more reads of its own.
/// Source: docs/decisions/0061.
const BACKWARD_READS: u32 = 3;

/// The same, if one of them came while the one before it was still on its way. Lower: requests
/// that overtook each other are taken for a backward reader; four come in that order one time in
/// twenty-four. Higher: as above. Source: docs/decisions/0012.
const BACKWARD_READS_OVERTAKEN: u32 = 4;

/// The chance, as one in so many, from which on a run needs one read more: random reads would
/// continue it more often than that. Lower: runs that are continued by chance become streams in
/// small files. Higher: sequential readers of larger files need one read more, too. Source:
/// docs/decisions/0010.
const CHANCE: u64 = 256;

/// The chance, as one in so many, from which on no more runs are remembered: random reads would
/// continue one of them that often. Lower: random reads of small files are taken for streams.
/// Higher: of a thousand streams in a file of a few GiB most are forgotten. Source: with
/// [`CHANCE_READS`] more, one random read in 2^18 shows a stream.
const CHANCE_KEPT: u64 = 64;

/// Reads that a run must show beyond the usual where it is one of more than [`RUNS_MIN`], unless
/// reads continue runs more often than by chance. Lower: random reads beside many runs are read
/// ahead for; with one, sixteen random readers of 128 KiB fetched 1.010 times their bytes in place
/// of 1.004. Higher: many streams among random reads are found later. Source: measured with
/// `random-128k-16`; docs/decisions/0093.
const CHANCE_READS: u32 = 2;

/// Reads that waste can add to those that a run must show. Lower: a pattern that wastes is read
/// ahead for again sooner. Higher: a sequential reader that follows a wasteful one waits longer.
/// Source: a guess; at 6 adjacent reads a sequential run loses nothing worth measuring.
const DISTRUST_MAX: u32 = 4;

/// Time without a read after which a stream or run is taken for ended: 12 s. Lower: pauses of slow
/// readers count as ends; one that is ten seconds ahead is not heard of for as long. Higher: where
/// runs end is learned later. Source: as long as what was read ahead for a stream is kept for it
/// (`residency::unread`).
const ENDED: Nanos = Nanos::from_millis(12_000);

/// Runs of a file that may become streams, in whatever memory. Lower: interleaved readers lose
/// their runs; of fifty in turn, each comes back after forty-nine others. Higher: more of a small
/// budget is taken from pages. Source: docs/decisions/0012. `stride` remembers the starts of
/// fewer; a run can only continue forward once its start is forgotten.
const RUNS_MIN: usize = 128;

/// Streams of a file, in whatever memory. Lower: interleaved readers lose their streams sooner.
/// Higher: more of a small budget is taken from pages. Source: a guess, not measured. A reader is
/// found again, once its stream was forgotten, by context or by its next adjacent reads.
const STREAMS_MIN: usize = 256;

/// Divisor of the memory for speculation: the runs, and the streams, of a file may take one part
/// in this many of it, less what those of other files take.
/// Lower: of a thousand streams in a large budget most are forgotten before they come again.
/// Higher: random reads, each of which leaves a run, take memory from pages. Source: chosen here;
/// 1,500 of each in 64 MiB, 6,000 in 256 MiB. docs/decisions/0093.
const STREAMS_SHARE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads, each before the last one, until a backward stream is shown, in a file of 65,536
    /// pages. A read that `waits` is still on its way when the next one comes.
    fn backward_reads(last: u64, pages: u64, waits: bool) -> u64 {
        let mut file = FileReadahead::new();
        let shown = (0..8).position(|nth| {
            let read = Extent::new(last - (nth + 1) * pages, last - nth * pages);
            let read = Read { file_pages: 65_536, ..Read::alone(read, Some(read.start)) };
            file.observe(Nanos(nth), read, |_| waits).1 == Shown::Strided
        });
        shown.map_or(u64::MAX, |at| at as u64 + 1)
    }

    #[test]
    fn a_backward_reader_is_recognised_by_whole_reads_sooner_than_by_those_that_may_have_overtaken_each_other() {
        assert_eq!(backward_reads(65_536, 16, false), 2, "from the end, as a forward one from the middle");
        assert_eq!(backward_reads(9_000, 16, false), 3);
        assert_eq!(backward_reads(65_536, 16, true), 4);
        assert_eq!(backward_reads(9_000, 16, true), 4);
    }

    #[test]
    fn a_backward_reader_of_a_small_file_shows_one_read_more() {
        assert_eq!(backward_reads(65_536, 512, false), 3, "one random read in 128 lies so");
        assert_eq!(backward_reads(40_000, 512, false), 4);
    }

    #[test]
    fn with_the_start_of_a_file_that_is_read_in_parts_little_comes() {
        let ahead = |has_parts| {
            let mut file = FileReadahead::new();
            if has_parts {
                file.has_parts();
                file.close(Nanos(0));
            }
            let read = Read { file_pages: 65_536, ..Read::alone(Extent::new(0, 32), Some(0)) };
            let stream = file.observe(Nanos(1), read, |_| false).0.expect("a stream");
            file.ahead(stream)
        };
        assert_eq!([false, true].map(ahead), [256, 32]);
    }

    /// Pieces of 128 KiB of a kernel's window, all of them resident, of which one is told after
    /// the six that follow it: no other stream. A reader that comes there later is one.
    #[test]
    fn a_piece_that_is_late_shows_no_other_stream() {
        let piece = |nth: u64| Read { before: 32 * nth, ..Read::alone(Extent::new(nth * 32, (nth + 1) * 32), None) };
        let mut file = FileReadahead::new();
        for nth in 0..27 {
            file.observe(Nanos(nth), piece(nth), |_| false);
        }
        assert_eq!(file.observe(Nanos(27), piece(20), |_| false), (None, Shown::Nothing));
        assert_eq!(file.streams.iter().filter(|stream| stream.is_recognised()).count(), 1);
        let later = Nanos::from_millis(100);
        assert_eq!(file.observe(later, piece(20), |_| false).1, Shown::Forward);
    }

    #[test]
    fn a_progression_may_slip_to_the_first_page_of_its_file() {
        let mut file = FileReadahead::new();
        let mut observe = |start: u64| {
            let read = Extent::new(start, start + 16);
            let read = Read { file_pages: 1 << 20, ..Read::alone(read, Some(start)) };
            file.observe(Nanos(0), read, |_| false).1
        };
        assert_eq!([977, 733, 489, 245].map(&mut observe)[3], Shown::Strided);
        assert_eq!(observe(0), Shown::Nothing, "its next record, a page nearer than it should be");
    }

    #[test]
    fn what_lies_between_the_records_of_a_progression_is_no_record_of_another() {
        let mut file = FileReadahead::new();
        // Readers that began at a constant distance: each row is a progression, and so are the
        // starts of the rows.
        for start in (0..9).flat_map(|row| (0..5).map(move |nth| 1_000 + row * 5_000 + nth * 690)) {
            let read = Extent::new(start, start + 9);
            let read = Read { file_pages: 1 << 20, ..Read::alone(read, Some(start)) };
            file.observe(Nanos(0), read, |_| true);
        }
        let records = |stream: &Stream| match stream.pattern {
            Pattern::Strided { pages, .. } => pages,
            Pattern::Forward | Pattern::Sparse => 0,
        };
        assert!(file.streams.iter().any(|stream| records(stream) > 0));
        assert_eq!(file.streams.iter().map(records).max(), Some(9));
    }
}
