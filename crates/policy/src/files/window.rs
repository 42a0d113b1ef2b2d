//! One stream of reads in one file: where it stands, how far ahead of it to read, in which parts.
//!
//! ```text
//!                          ahead (wanted)
//!                   |<------------------------->|
//!   read so far     pos                    end
//!   ################|===part===|===part===|. . . .      forward: parts follow one another
//!                   ^mark      ^mark                    the reader entering a part asks for the next one
//!
//!   . . [rec] . . . [rec] . . . [rec] . . .             strided: a part is one record, or several that touch
//!         pos <--delta--> next
//! ```
//!
//! **How far.** Evidence bounds trust: never further ahead than the stream has been read already (four times as far once that is
//! a megabyte, or where it began with the file; eight times at that beginning). Within that, a reader that has to wait quadruples its window, one that does not
//! lets it grow to half of what it has read, which only makes requests larger and fewer. Pages evicted unread halve it.
//!
//! **In which parts.** A reader that waits gets up to twelve parts in parallel, fewer where many streams share the link; one that
//! does not wait gets two, and so does each in front of a disk, which serves no two at a time. A part is a power of two of pages.
//!
//! Origin: the on-demand readahead window (start, size, mark) of 2007, with the maximum replaced by measurement.

use crate::files::pace::Pace;
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

/// Where the reads of a stream lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Each read begins where the last one ended.
    Forward,
    /// Records of `pages` pages, `delta` pages from one start to the next.
    Strided { delta: i64, pages: u64 },
}

/// What to read ahead next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The pages, some of which may be resident already.
    pub(crate) extent: Extent,
    /// The page to mark: the first of them that the reader will touch.
    pub(crate) mark: u64,
}

/// How far a stream may go just now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The file's length.
    pub(crate) file_pages: u64,
    /// The stream's share of the memory for speculation.
    pub(crate) ahead_pages_max: u64,
    /// The largest part.
    pub(crate) part_pages_max: u64,
    /// How many streams like this one share the link.
    pub(crate) streams: u64,
    /// Going from one stream to the next costs time in which the storage serves nobody.
    pub(crate) rotational: bool,
}

/// One stream; with `ahead` of 0 only a run of reads that may become one.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) pattern: Pattern,
    /// First page of the run.
    pub(crate) start: u64,
    /// Forward: the page after the last one read. Strided: first page of the record being read.
    pub(crate) pos: u64,
    /// Forward: the page after the last one planned. Strided: first page of the next record to plan; may leave the file.
    end: i64,
    /// Pages wanted ahead of the reader.
    pub(crate) ahead: u64,
    /// Pages read so far: the evidence.
    pub(crate) seen: u64,
    /// Reads of the run so far.
    pub(crate) reads: u32,
    /// Reads in a row that came just before its start.
    pub(crate) prepended: u32,
    /// Only what lies before it speaks for it.
    pub(crate) guess: bool,
    /// The reader has had to wait since the stream was recognised.
    waited: bool,
    /// It had to wait for its last read.
    stalled: bool,
    /// Strided: pages of a record when the progression was recognised.
    record_pages: u64,
    /// The page after the last read: where a record that is longer than thought goes on.
    last_end: u64,
    /// The last event of the stream.
    pub(crate) last: Nanos,
    pub(crate) pace: Pace,
    /// Pages seen when `round` began.
    round_from: u64,
    round: u64,
    /// Pages read in the round when it was last counted.
    pub(crate) standing: u64,
}

impl Stream {
    /// A run that begins with `read`.
    pub(crate) fn new(id: u64, now: Nanos, read: Extent) -> Self {
        Self {
            id,
            pattern: Pattern::Forward,
            start: read.start,
            pos: read.end,
            end: read.end as i64,
            ahead: 0,
            seen: read.pages(),
            reads: 1,
            prepended: 0,
            guess: false,
            waited: false,
            stalled: false,
            record_pages: 0,
            last_end: read.end,
            last: now,
            pace: Pace::new(now, read.pages()),
            round_from: 0,
            round: 0,
            standing: 0,
        }
    }

    /// Whether it is read ahead for.
    pub(crate) fn is_recognised(&self) -> bool {
        self.ahead > 0
    }

    /// How far ahead it wants to be, one step of growth ahead of time where it grows: sixteen streams that start together would
    /// otherwise give all the room to those that grow first.
    pub(crate) fn wants(&self) -> u64 {
        let wants = if self.stalled { self.ahead.saturating_mul(GROWTH) } else { self.ahead };
        self.within_horizon(wants)
    }

    /// `ahead`, but no more pages than its reader comes to before long.
    pub(crate) fn within_horizon(&self, ahead: u64) -> u64 {
        self.pace.horizon().map_or(ahead, |horizon| ahead.min(horizon.max(2 * PART_PAGES_MIN)))
    }

    /// Counts the pages read since `round` began, or since the stream was begun anew in that round.
    pub(crate) fn count_in(&mut self, round: u64) -> u64 {
        if self.round != round || self.seen < self.round_from {
            (self.round, self.round_from) = (round, self.seen);
        }
        self.standing = self.seen - self.round_from;
        self.standing
    }

    /// Whether `read` is what the stream was expected to do next, or lies in what was planned for it. `skipped` pages before it
    /// are there and unread: a reader that jumps over what was fetched for it is not going forward.
    pub(crate) fn expects(&self, read: Extent, skipped: u64) -> bool {
        match self.pattern {
            Pattern::Forward => {
                let (from, to) = self.reach();
                let jumped = skipped.min(read.start.saturating_sub(self.pos)) > SKIPPED_PAGES_MAX;
                from <= read.start && read.start <= to && !jumped
            }
            Pattern::Strided { delta, pages } => {
                let away = read.start as i64 - self.pos as i64;
                let within = away.rem_euclid(delta.abs());
                let records = (away - within) / delta;
                let planned = (self.end - self.pos as i64) / delta;
                let goes_on = within == pages as i64 && read.start == self.last_end;
                let exists = within <= read.start as i64;
                exists && (within < pages as i64 || goes_on) && (-1..=planned.max(1) + 1).contains(&records)
            }
        }
    }

    /// The first and the last page at which a read may begin that it [expects](Stream::expects).
    pub(crate) fn reach(&self) -> (u64, u64) {
        match self.pattern {
            Pattern::Forward => {
                let from = self.pos.saturating_sub(OVERTAKEN_PAGES_MAX).max(self.start);
                (from, self.end.max(self.pos as i64) as u64)
            }
            Pattern::Strided { .. } => (0, u64::MAX),
        }
    }

    /// The record that the stream leaves for the one that `read` lies in, if they lie apart: its reader may come back to go on
    /// there, one of several whose streams began a constant distance apart.
    pub(crate) fn left_by(&self, read: Extent) -> Option<Extent> {
        let Pattern::Strided { delta, pages } = self.pattern else { return None };
        let within = (read.start as i64 - self.pos as i64).rem_euclid(delta.abs()) as u64;
        let leaves = read.start - within != self.pos && pages < delta.unsigned_abs() && self.last_end > self.pos;
        leaves.then(|| Extent::new(self.pos, self.last_end))
    }

    /// The stream has read `read`; `stalled` if it had to wait for it, `absent` is the first page of it that nobody had asked for.
    pub(crate) fn advance(&mut self, now: Nanos, read: Extent, stalled: bool, absent: Option<u64>) {
        self.last = now;
        self.guess = false;
        self.prepended = 0;
        self.last_end = read.end;
        self.reads = self.reads.saturating_add(1);
        match self.pattern {
            Pattern::Forward => {
                self.seen += read.end.saturating_sub(self.pos);
                self.pos = self.pos.max(read.end);
                if let Some(missing) = absent
                    && self.end >= read.start as i64
                {
                    self.end = missing as i64;
                } else {
                    self.end = self.end.max(self.pos as i64);
                }
            }
            Pattern::Strided { delta, pages } => {
                let within = (read.start as i64 - self.pos as i64).rem_euclid(delta.abs()) as u64;
                let record = read.start - within;
                if record != self.pos {
                    self.seen += pages;
                    self.pos = record;
                }
                if within + read.pages() > RECORD_GROWTH_MAX * self.record_pages {
                    self.become_forward(record, absent, read.end);
                    return;
                }
                let pages = pages.max(within + read.pages()).min(delta.unsigned_abs());
                self.pattern = Pattern::Strided { delta, pages };
                let planned = (self.end - record as i64) / delta;
                if absent.is_some() || planned < 0 {
                    self.end = record as i64;
                }
            }
        }
        if !self.is_recognised() {
            return;
        }
        self.pace.progressed(now, self.seen);
        let trusted = self.seen * if self.start == 0 || self.seen >= TRUSTED_PAGES { TRUST } else { 1 };
        self.stalled = stalled;
        if stalled {
            self.waited = true;
            self.ahead = (self.ahead * GROWTH).min(trusted).max(self.ahead);
        } else {
            self.ahead = self.ahead.max((self.seen / 2).min(QUIET_PAGES_MAX));
        }
    }

    /// What was taken for a record goes on and on: it was the start of a forward stream.
    fn become_forward(&mut self, start: u64, absent: Option<u64>, end: u64) {
        self.pattern = Pattern::Forward;
        self.start = start;
        self.pos = end;
        self.seen = end - start;
        self.recognise(absent);
    }

    /// Reads that came just before this run's start belong to it: they overtook each other on their way here.
    pub(crate) fn prepend(&mut self, now: Nanos, read: Extent) {
        self.last = now;
        self.seen += self.start.saturating_sub(read.start);
        self.start = self.start.min(read.start);
        self.prepended += 1;
        self.reads = self.reads.saturating_add(1);
    }

    /// The run `other` begins where this one has come to: they are one.
    pub(crate) fn append(&mut self, other: &Self) {
        self.seen += other.pos - other.start;
        self.pos = self.pos.max(other.pos);
        self.end = self.end.max(other.end);
        self.reads = self.reads.saturating_add(other.reads);
    }

    /// From now on the run is read ahead for. `absent` is the first page that nobody had asked for of the read that
    /// showed it.
    pub(crate) fn recognise(&mut self, absent: Option<u64>) {
        self.ahead = self.seen * if self.start == 0 { TRUST_AT_START } else { 1 };
        self.end = absent.unwrap_or(self.pos) as i64;
    }

    /// From now on the run is a record of a progression that `records` records have shown.
    pub(crate) fn recognise_stride(&mut self, delta: i64, pages: u64, records: u64) {
        self.pattern = Pattern::Strided { delta, pages };
        self.record_pages = pages;
        self.pos = self.start;
        self.end = self.start as i64;
        self.seen = pages * records;
        self.ahead = self.seen;
    }

    /// Pages read ahead for the stream were evicted before it came to them.
    pub(crate) fn thrashed(&mut self) {
        if self.is_recognised() {
            self.ahead = (self.ahead / 2).max(1);
        }
    }

    /// What to read ahead next, or `None` while enough is on its way. Call [`Stream::planned`] once it is.
    pub(crate) fn next_part(&mut self, now: Nanos, limits: Limits) -> Option<Part> {
        self.pace.release();
        if !self.is_recognised() {
            return None;
        }
        if self.ahead < limits.ahead_pages_max {
            self.pace.unsettle();
        }
        let ahead = self.ahead.min(limits.ahead_pages_max);
        let parts = match (self.waited, self.reads) {
            (true, _) if !limits.rotational => (PARTS_WAITING / limits.streams).max(PARTS_QUIET),
            (false, 1) => PARTS_FIRST,
            _ => PARTS_QUIET,
        };
        let part = (ahead / parts).next_power_of_two().min(limits.part_pages_max);
        match self.pattern {
            Pattern::Forward => {
                let distance = (self.end as u64).saturating_sub(self.pos);
                if part == limits.part_pages_max && distance > ahead / 2 && self.pace.holds_back(now) {
                    return None;
                }
                // What is needed soon comes in small parts, or the reader would wait for a whole large one.
                let near = if self.waited && parts > PARTS_QUIET {
                    (distance / (parts - 1)).next_power_of_two()
                } else {
                    part
                };
                let least = if self.reads == 1 { PART_PAGES_MIN_FIRST } else { PART_PAGES_MIN };
                self.next_forward(ahead, part.min(near).clamp(least, PART_PAGES_MAX), limits.file_pages)
            }
            Pattern::Strided { delta, pages } => {
                self.next_strided(ahead, part.min(PART_PAGES_STRIDED_MAX), delta, pages, limits.file_pages)
            }
        }
    }

    fn next_forward(&self, ahead: u64, part: u64, file_pages: u64) -> Option<Part> {
        let start = self.end as u64;
        let goal = (self.pos + ahead).min(file_pages);
        let first = start < self.pos;
        let room = goal.saturating_sub(start);
        if room == 0 || (room < part && goal < file_pages && !first) {
            return None;
        }
        let mut end = (start + part).min(goal);
        if end < file_pages {
            // Requests that end with a folio keep every later folio whole.
            let aligned = end / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
            if aligned > start.max(self.pos) {
                end = aligned;
            }
        }
        // A tail too small for a request of its own joins the last one.
        if file_pages - end < part / 4 && goal == file_pages {
            end = file_pages;
        }
        // Where there will be room for another such part: at the start of a folio, for that is what a mark is noticed at.
        let room_from = (end + part).saturating_sub(ahead).next_multiple_of(FOLIO_PAGES_MAX);
        let last_folio = ((end - 1) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX).max(start);
        let mark = if first { self.pos.min(end - 1) } else { room_from.clamp(start, last_folio) };
        Some(Part { extent: Extent::new(start, end), mark })
    }

    fn next_strided(&self, ahead: u64, part: u64, delta: i64, pages: u64, file_pages: u64) -> Option<Part> {
        let touching = delta.unsigned_abs() == pages;
        let group = if touching { (part / pages).max(1) } else { 1 } as i64;
        let wanted = (ahead / pages).max(1) as i64;
        let planned = (self.end - self.pos as i64) / delta;
        let first = planned == 0;
        if planned + group > wanted + 1 && !first {
            return None;
        }
        let (low, high) = (self.end.min(self.end + delta * (group - 1)), self.end.max(self.end + delta * (group - 1)));
        let start = low.max(0) as u64;
        let end = (high + pages as i64).clamp(0, file_pages as i64) as u64;
        (start < end).then(|| Part {
            extent: Extent::new(start, end),
            mark: self.end.clamp(start as i64, end as i64 - 1) as u64,
        })
    }

    /// `part` has been submitted, or was resident.
    pub(crate) fn planned(&mut self, now: Nanos, part: Part) {
        self.pace.submitted(now, part.extent.pages());
        self.end = match self.pattern {
            Pattern::Forward => part.extent.end as i64,
            Pattern::Strided { delta, pages } => self.end + delta * part.extent.pages().div_ceil(pages) as i64,
        };
    }
}

/// How often further ahead than it has been read a trusted stream may be planned. Lower starts slower: each round trip
/// multiplies what is read by at most 1 + this. Higher wastes more where a reader stops early.
const TRUST: u64 = 4;

/// The same for the first read of a file from its start: a megabyte after the 128 KiB that a mount is asked for first, so that a
/// program's first read of a megabyte waits for one round trip and not for two.
const TRUST_AT_START: u64 = 8;

/// Pages after which a stream that did not begin with its file is trusted as much: 1 MiB.
const TRUSTED_PAGES: u64 = 256;

/// How much the window grows when the reader has to wait.
const GROWTH: u64 = 4;

/// How far behind the latest read of a stream one may come that was sent before it: 1 MiB. The kernel has up to eight requests of
/// its own readahead on their way, by several threads.
const OVERTAKEN_PAGES_MAX: u64 = 256;

/// How far ahead of those sent before it a read may come: two requests of the kernel's readahead. A strided reader jumps further.
const SKIPPED_PAGES_MAX: u64 = 64;

/// How much longer than at first a record may turn out to be. Progressions of streams that all began one after another (five
/// readers of five parts of a file) look like one of records; their "records" have no end.
const RECORD_GROWTH_MAX: u64 = 2;

/// The furthest that a stream grows whose reader never waits: 16 MiB, two of the largest parts.
const QUIET_PAGES_MAX: u64 = 2 * PART_PAGES_MAX;

/// Parts in parallel for a reader that waits: enough that the first one's latency overlaps the others' transfer.
const PARTS_WAITING: u64 = 12;

/// Parts of the first window: a quarter of a megabyte each, where the mount is asked for 128 KiB.
const PARTS_FIRST: u64 = 4;

/// Parts for a reader that never waits: one being read, one on its way.
const PARTS_QUIET: u64 = 2;

/// The largest part: 8 MiB, 128 requests per GiB. Larger saves little more and holds memory longer while it arrives.
pub(crate) const PART_PAGES_MAX: u64 = 2048;

/// The smallest part of a forward stream: 128 KiB, one folio.
const PART_PAGES_MIN: u64 = 32;

/// The smallest part of the first window: 256 KiB. Two hundred programs that start at once are kept waiting by twice as many
/// requests, not by the bytes behind their first ones.
const PART_PAGES_MIN_FIRST: u64 = 64;

/// The largest part of touching records: 2 MiB. A backward reader wants the end of a part first, so what comes before delays it.
const PART_PAGES_STRIDED_MAX: u64 = 512;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const LIMITS: Limits = Limits {
        file_pages: 1 << 20,
        ahead_pages_max: 1 << 14,
        part_pages_max: PART_PAGES_MAX,
        streams: 1,
        rotational: false,
    };

    fn plan(stream: &mut Stream, limits: Limits) -> Vec<Part> {
        let mut parts = Vec::new();
        while let Some(part) = stream.next_part(Nanos(0), limits) {
            stream.planned(Nanos(0), part);
            parts.push(part);
            assert!(parts.len() < 1000, "planning ends");
        }
        parts
    }

    #[test]
    fn a_stream_from_the_start_of_a_file_plans_the_read_and_eight_times_as_much() {
        let read = Extent::new(0, 32);
        let mut stream = Stream::new(0, Nanos(0), read);
        stream.recognise(Some(read.start));
        let parts = plan(&mut stream, LIMITS);
        assert_eq!(parts[0], Part { extent: Extent::new(0, 64), mark: 32 });
        assert_eq!(parts.last().unwrap().extent.end, 256, "what is left of the window is too small for a part");
    }

    #[test]
    fn waiting_grows_the_window_as_far_as_it_is_trusted_and_splits_it() {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        stream.recognise(Some(0));
        plan(&mut stream, LIMITS);
        for start in (32..256).step_by(32) {
            stream.advance(Nanos(1), Extent::new(start, start + 32), false, None);
        }
        stream.advance(Nanos(2), Extent::new(256, 288), true, Some(256));
        assert_eq!(stream.ahead, GROWTH * 256);
        let parts = plan(&mut stream, LIMITS);
        let sizes: Vec<u64> = parts.iter().map(|p| p.extent.pages()).collect();
        assert_eq!((parts[0].extent.start, sizes[0]), (256, 32));
        assert_eq!(sizes.iter().max(), Some(&128), "{sizes:?}");
        assert!(sizes.is_sorted(), "what is needed first comes in small parts: {sizes:?}");
    }

    #[test]
    fn the_last_part_ends_with_the_file() {
        let limits = Limits { file_pages: 100, ..LIMITS };
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        stream.recognise(Some(0));
        assert_eq!(plan(&mut stream, limits).last().unwrap().extent.end, 100);
    }

    #[test]
    fn a_backward_stream_plans_downward_and_stops_at_the_start_of_the_file() {
        let read = Extent::new(1024, 1056);
        let mut stream = Stream::new(0, Nanos(0), read);
        stream.recognise_stride(-256, 256, 3);
        let parts = plan(&mut stream, LIMITS);
        assert_eq!(parts[0], Part { extent: Extent::new(1024, 1280), mark: 1024 });
        assert_eq!(parts[1], Part { extent: Extent::new(768, 1024), mark: 768 });
        stream.advance(Nanos(1), Extent::new(256, 288), true, None);
        stream.advance(Nanos(1), Extent::new(0, 32), true, None);
        let rest = plan(&mut stream, LIMITS);
        assert!(rest.iter().all(|p| p.extent.end <= 256), "{rest:?}");
    }

    #[test]
    fn a_strided_stream_plans_single_records() {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(768, 784));
        stream.recognise_stride(256, 16, 4);
        let starts: Vec<_> = plan(&mut stream, LIMITS).iter().map(|p| (p.extent.start, p.extent.pages())).collect();
        assert_eq!(starts, [(768, 16), (1024, 16), (1280, 16), (1536, 16), (1792, 16)]);
        assert!(stream.expects(Extent::new(1024, 1040), 0));
        assert!(!stream.expects(Extent::new(1100, 1116), 0));
        assert!(!stream.expects(Extent::new(40_960, 40_976), 0));
    }
}
