//! One stream of reads in one file: where it stands, how far ahead of it to read, in which parts.
//!
//! ```text
//!                          ahead (wanted)
//!                   |<------------------------->|
//!   read so far     pos                    end
//!   ################|===part===|===part===|. . . .      forward: parts follow one another
//!                   ^mark      ^mark                    a touch of a mark plans the next part
//!
//!   . . [rec] . . . [rec] . . . [rec] . . .             strided: a part is one record, or several
//!         pos <--delta--> next                          that touch
//!
//!   run ──(recognised: ahead > 0)──> stream        waits: window x 4, up to the trusted distance
//!                                                  does not wait: up to half of what it has read
//!                                                  evicted unread: window / 2
//! ```
//!
//! **How far.** When it is recognised, a stream is trusted as far ahead as it has been read, eight
//! times as far if it began with the file. Later the trusted distance is what it has read, or four
//! times that if it began with the file, or is a progression that has read 1 MiB. Where earlier
//! runs of the file have ended, a forward stream is trusted as far as enough of them came
//! (`lengths`), and at once if many did. A reader that waits quadruples its window within that
//! distance. A reader that does not wait lets it grow to half of what it has read, 16 MiB at most,
//! which only makes requests larger and fewer. Pages evicted unread halve it. The window that is
//! used is also limited by [`Limits`] and by ten seconds of reading (`pace`).
//!
//! **In which parts.** The first window of a stream recognised at its first read has four parts.
//! Once its reader has waited, a window has twelve, fewer where many streams share the link. On a
//! disk, and while the reader has not waited, it has two. The window divided by the parts, rounded
//! up to a power of two of pages, is limited; where it can, a part then ends with a folio.
//!
//! *Invariants:* a part is not empty and lies within the file. Its mark lies in it.
//!
//! The file does not choose the stream of a read or say when a run is recognised (`streams`), and
//! does not know which pages of a part are resident. Source: the on-demand
//! readahead window (start, size, mark) of Linux, 2007, with its maximum replaced by measurement;
//! the trusted distance, docs/decisions/0005 (parts by distance), 0008 (ten seconds, marks), 0014
//! (disks), 0052 (lengths), 0054 (which reads continue it).

use crate::files::lengths::Lengths;
use crate::files::pace::Pace;
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

/// One read, with what the caller knows of the pages around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) extent: Extent,
    /// Its first page that has not been requested.
    pub(crate) absent: Option<u64>,
    /// Whether it has to wait.
    pub(crate) stalled: bool,
    /// Pages directly before it that are there and have been read.
    pub(crate) before: u64,
    /// The length of the file.
    pub(crate) file_pages: u64,
    /// Pages not far before it that are there or in flight, and have not been read.
    pub(crate) skipped: u64,
    /// It comes while the first read of its run still waits: the two may be one read of a program,
    /// cut by the kernel, or several in flight at once.
    pub(crate) beside: bool,
}

#[cfg(test)]
impl Read {
    /// A read with nothing before it; it waits if a page is `absent`.
    pub(crate) fn alone(extent: Extent, absent: Option<u64>) -> Self {
        Self { extent, absent, stalled: absent.is_some(), before: 0, file_pages: u64::MAX, skipped: 0, beside: false }
    }
}

/// Where the reads of a stream lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Each read begins where the one before it ended.
    Forward,
    /// Records of `pages` pages, `delta` pages from one start to the next.
    Strided { delta: i64, pages: u64 },
}

/// What to read ahead next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The pages; some of them may be resident already.
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
    /// How many streams that want as much share the link.
    pub(crate) streams: u64,
    /// Requests wait for each other, or for memory: parts are spaced in time. Where they do not,
    /// the pace at which parts are made may be the limit that it measures.
    pub(crate) paced: bool,
    /// Moving between streams costs time in which the storage serves no request.
    pub(crate) rotational: bool,
}

/// One stream; while `ahead` is 0, only a run of reads that may become one.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an observation of its own, in any combination")]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) pattern: Pattern,
    /// First page of the run.
    pub(crate) start: u64,
    /// Forward: the page after the last one read. Strided: first page of the record being read.
    pub(crate) pos: u64,
    /// Forward: the page after the last one planned. Strided: first page of the next record to
    /// plan, which may lie outside the file.
    end: i64,
    /// Pages wanted ahead of the reader.
    pub(crate) ahead: u64,
    /// Pages read so far: the evidence.
    pub(crate) seen: u64,
    /// Reads of the run so far.
    pub(crate) reads: u32,
    /// Pages of its longest read: reads overtake each other by multiples of it.
    longest: u64,
    /// Reads in a row, each of which ended at the start that the run had then.
    pub(crate) prepended: u32,
    /// One of them came while the start that the run had then was still on its way.
    pub(crate) overtaken: bool,
    /// Only the read pages before it make it a stream.
    pub(crate) guess: bool,
    /// The reader has had to wait since the stream was recognised.
    waited: bool,
    /// Its last read had to wait.
    stalled: bool,
    /// Strided: it goes backward from the end of its file.
    from_end: bool,
    /// Strided: pages of a record when the progression was recognised.
    record_pages: u64,
    /// The page after the last read: a record that is longer than expected continues there.
    last_end: u64,
    /// Forward: unread pages that reads jumped over, and that were not read since.
    jumped_pages: u64,
    /// Forward: where the latest of them lie. Requests on their way may still read them.
    gap: Extent,
    /// The last event of the stream.
    pub(crate) last: Nanos,
    pub(crate) pace: Pace,
    /// Where the runs of its file that came so far have ended, if enough have shown that.
    known_end: Option<u64>,
    /// Pages seen when `round` began.
    round_from: u64,
    /// The round of `share` that it was last counted in.
    round: u64,
    /// Pages read in the round when they were last counted.
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
            longest: read.pages(),
            prepended: 0,
            overtaken: false,
            guess: false,
            waited: false,
            stalled: false,
            from_end: false,
            record_pages: 0,
            last_end: read.end,
            jumped_pages: 0,
            gap: Extent::new(0, 0),
            last: now,
            pace: Pace::new(now, read.pages()),
            known_end: None,
            round_from: 0,
            round: 0,
            standing: 0,
        }
    }

    /// Whether it is read ahead for; if not, it is a run.
    pub(crate) fn is_recognised(&self) -> bool {
        self.ahead > 0
    }

    /// How far ahead it wants to be, one step of growth early if its last read waited. Without
    /// that, the first of sixteen streams that start together would take all the room.
    pub(crate) fn wants(&self) -> u64 {
        let wants = if self.stalled { self.ahead.saturating_mul(GROWTH) } else { self.ahead };
        self.within_horizon(wants)
    }

    /// `ahead`, limited to the pages that its reader reaches within [`Pace::horizon`].
    pub(crate) fn within_horizon(&self, ahead: u64) -> u64 {
        self.pace.horizon(self.seen).map_or(ahead, |horizon| ahead.min(horizon.max(2 * PART_PAGES_MIN)))
    }

    /// Counts the pages read since `round` began, or since the stream began anew in that round.
    pub(crate) fn count_in(&mut self, round: u64) -> u64 {
        if self.round != round || self.seen < self.round_from {
            (self.round, self.round_from) = (round, self.seen);
        }
        self.standing = self.seen - self.round_from;
        self.standing
    }

    /// Whether `read` is the stream's expected next read, or lies in its planned pages. The
    /// `skipped` pages before it are resident or in flight and unread: a reader that jumps over
    /// pages fetched for it does not read forward.
    pub(crate) fn expects(&self, read: Read) -> bool {
        let Read { extent: read, absent, skipped, .. } = read;
        match self.pattern {
            Pattern::Forward => {
                let (from, to) = self.reach();
                let is_near = from <= read.start && read.start <= to;
                // Behind the reader, only what it jumped over may still be on its way.
                let fills_gap = absent.is_none() && self.gap.start <= read.start && read.end <= self.gap.end;
                let is_new = read.end >= self.pos || fills_gap;
                let jumped = self.jumped_pages + self.jumps_over(read, skipped);
                is_near && is_new && jumped <= self.seen.max(self.skips())
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

    /// Whether its reads may be pieces of longer ones: the kernel cuts none that are shorter than
    /// a folio. A stream has shown more than one read.
    pub(crate) fn may_be_cut(&self) -> bool {
        !self.is_recognised() && self.longest >= FOLIO_PAGES_MAX
    }

    /// Pages that it may jump over.
    fn skips(&self) -> u64 {
        if self.longest > FOLIO_PAGES_MAX { SKIPPED_READS_MAX * self.longest } else { SKIPPED_PAGES_MAX }
    }

    /// Pages of so many of its reads, which the kernel's readahead may have cut from one window.
    fn reads_of(&self, reads: u64) -> u64 {
        reads * self.longest.max(FOLIO_PAGES_MAX)
    }

    /// Pages that `read` jumps over although they are there and unread, where `skipped` of those
    /// before it are.
    fn jumps_over(&self, read: Extent, skipped: u64) -> u64 {
        skipped.min(read.start.saturating_sub(self.pos))
    }

    /// The reader jumped over `jumped` pages before `read`, or `read` fills a part of the gap.
    fn leave_gap(&mut self, read: Extent, jumped: u64) {
        if jumped > 0 {
            let from = if self.gap.is_empty() { read.start - jumped } else { self.gap.start };
            self.gap = Extent::new(from.max(read.start.saturating_sub(self.skips())), read.start);
        } else if self.jumped_pages == 0 {
            self.gap = Extent::new(0, 0);
        } else if read.start <= self.gap.start {
            // One behind others that are still to come leaves theirs open.
            self.gap.start = self.gap.start.max(read.end).min(self.gap.end);
        }
    }

    /// The first and the last page at which a read that it [expects](Stream::expects) may begin.
    pub(crate) fn reach(&self) -> (u64, u64) {
        match self.pattern {
            Pattern::Forward => {
                let from = self.pos.saturating_sub(self.reads_of(OVERTAKEN_READS_MAX)).max(self.start);
                (from, self.end.max(self.pos as i64) as u64)
            }
            Pattern::Strided { .. } => (0, u64::MAX),
        }
    }

    /// The record that the stream leaves for the one that `read` lies in, unless records touch. A
    /// reader may come back and continue there: it may be one of several that began a
    /// constant distance apart (docs/decisions/0014).
    pub(crate) fn left_by(&self, read: Extent) -> Option<Extent> {
        let Pattern::Strided { delta, pages } = self.pattern else { return None };
        let within = (read.start as i64 - self.pos as i64).rem_euclid(delta.abs()) as u64;
        let leaves = read.start - within != self.pos && pages < delta.unsigned_abs() && self.last_end > self.pos;
        leaves.then(|| Extent::new(self.pos, self.last_end))
    }

    /// The stream goes on with `read`.
    pub(crate) fn advance(&mut self, now: Nanos, read: Read, lengths: &Lengths) {
        let Read { extent: read, stalled, absent, skipped, beside, .. } = read;
        self.last = now;
        self.guess = false;
        (self.prepended, self.overtaken) = (0, false);
        self.last_end = read.end;
        self.longest = self.longest.max(read.pages());
        // A page that was evicted and is read again shows no direction.
        let goes_on = self.pattern != Pattern::Forward || read.end != self.pos;
        self.reads = self.reads.saturating_add(u32::from(goes_on && !beside));
        match self.pattern {
            Pattern::Forward => {
                let jumped = self.jumps_over(read, skipped);
                let late = read.pages().min(self.pos.saturating_sub(read.start)).min(self.jumped_pages);
                self.jumped_pages = self.jumped_pages + jumped - late;
                self.seen += read.end.saturating_sub(self.pos) - jumped + late;
                self.leave_gap(read, jumped);
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
                    // Plain hits are not reported: the records between were read as well.
                    self.seen += pages * (record.abs_diff(self.pos) / delta.unsigned_abs());
                    self.pos = record;
                }
                if within + read.pages() > RECORD_GROWTH_MAX * self.record_pages {
                    self.become_forward(record, absent, read.end, lengths);
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
        let is_trusted = match self.pattern {
            Pattern::Forward => self.start == 0,
            Pattern::Strided { .. } => self.start == 0 || self.from_end || self.seen >= TRUSTED_PAGES,
        };
        let believed = self.seen * if is_trusted { TRUST } else { 1 };
        self.stalled = stalled;
        if stalled {
            self.waited = true;
            self.ahead = (self.ahead * GROWTH).min(believed).max(self.ahead);
        } else {
            self.ahead = self.ahead.max((self.seen / 2).min(QUIET_PAGES_MAX));
        }
        self.learn(believed, lengths);
    }

    /// Limits the window of a forward stream to how far it is likely to go on. Where enough runs
    /// have shown that, all of it is wanted at once.
    fn learn(&mut self, believed: u64, lengths: &Lengths) {
        if self.pattern != Pattern::Forward {
            return;
        }
        let length = self.length();
        let likely = lengths.further(length, believed.max(self.ahead));
        self.known_end = lengths.know(length).then_some(self.pos + likely);
        if self.known_end.is_some() {
            self.ahead = self.ahead.max(PART_PAGES_MAX);
        }
        self.ahead = self.ahead.min(likely).max(1);
    }

    /// Pages of the run so far; nothing for one that goes through the file in steps.
    pub(crate) fn length(&self) -> u64 {
        if self.pattern == Pattern::Forward { self.seen } else { 0 }
    }

    /// The record has no end: it was the start of a forward stream.
    fn become_forward(&mut self, start: u64, absent: Option<u64>, end: u64, lengths: &Lengths) {
        self.pattern = Pattern::Forward;
        self.start = start;
        self.pos = end;
        self.seen = end - start;
        self.recognise(absent, lengths);
    }

    /// `read` ended where this run starts and belongs to it: either requests overtook each other
    /// on their way to policy, or the reader goes backward. It `overlaps` the read before it if
    /// that is still on its way.
    pub(crate) fn prepend(&mut self, now: Nanos, read: Extent, beside: bool, overlaps: bool) {
        self.last = now;
        self.seen += self.start.saturating_sub(read.start);
        self.start = self.start.min(read.start);
        self.longest = self.longest.max(read.pages());
        self.prepended += u32::from(!beside);
        self.overtaken |= overlaps;
        self.reads = self.reads.saturating_add(u32::from(!beside));
    }

    /// The run `other` begins where this one has come to: the two become one.
    pub(crate) fn append(&mut self, other: &Self, beside: bool) {
        self.seen += other.pos - other.start;
        self.pos = self.pos.max(other.pos);
        self.end = self.end.max(other.end);
        self.longest = self.longest.max(other.longest);
        self.reads = if beside { self.reads.max(other.reads) } else { self.reads.saturating_add(other.reads) };
    }

    /// From now on the run is read ahead for, unless such runs seldom go on. `absent` is the first
    /// page not requested yet of the read that showed it.
    pub(crate) fn recognise(&mut self, absent: Option<u64>, lengths: &Lengths) {
        let believed = match self.start {
            0 => self.seen * TRUST_AT_START,
            _ if self.reads > 1 || self.guess => self.seen,
            _ => 0,
        };
        self.end = absent.unwrap_or(self.pos) as i64;
        self.ahead = 0;
        if lengths.further(self.length(), believed) > 0 {
            self.ahead = believed;
            self.learn(believed, lengths);
        }
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

    /// From now on the run is one of a reader that goes backward, `pages` at a time.
    pub(crate) fn recognise_backward(&mut self, pages: u64, file_pages: u64) {
        self.from_end = self.pos == file_pages;
        self.recognise_stride(-(pages as i64), pages, u64::from(self.prepended) + 1);
        if self.from_end {
            self.ahead = self.seen * TRUST;
        }
    }

    /// Pages read ahead for the stream were evicted before it reached them.
    pub(crate) fn thrashed(&mut self) {
        if self.is_recognised() {
            self.ahead = (self.ahead / 2).max(1);
        }
    }

    /// What to read ahead next, or `None` while enough is planned or the part is held back. Call
    /// [`Stream::planned`] once the part is submitted.
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
                if part == limits.part_pages_max && distance > ahead / 2 && limits.paced && self.pace.holds_back(now) {
                    return None;
                }
                // Data needed soon comes in small parts: otherwise the reader waits for a whole
                // large one.
                let near = if self.waited && parts > PARTS_QUIET {
                    (distance / (parts - 1)).next_power_of_two()
                } else {
                    part
                };
                let least = if self.reads == 1 { PART_PAGES_MIN_FIRST } else { PART_PAGES_MIN };
                // A read is answered once all of it has come: smaller parts answer none earlier.
                let least = least.max(self.longest.next_power_of_two().min(PART_PAGES_MIN_LONG));
                let goes_to = self.known_end.map_or(limits.file_pages, |end| end.min(limits.file_pages));
                self.next_forward(ahead, part.min(near).clamp(least, PART_PAGES_MAX), goes_to)
            }
            Pattern::Strided { delta, pages } => {
                // The same, before the reader has waited as well: of records that touch it wants
                // the last of a part first, and so waits for all of it.
                let parts = PARTS_WAITING / limits.streams;
                let distance = (self.end - self.pos as i64).unsigned_abs();
                let near = if parts > PARTS_QUIET && !limits.rotational {
                    (distance / (parts - 1)).next_power_of_two()
                } else {
                    part
                };
                self.next_strided(ahead, part.min(near).min(PART_PAGES_STRIDED_MAX), delta, pages, limits.file_pages)
            }
        }
    }

    /// The next part of a stream that ends before page `last`, as far as is known.
    fn next_forward(&self, ahead: u64, part: u64, last: u64) -> Option<Part> {
        let start = self.end as u64;
        let goal = (self.pos + ahead).min(last);
        let first = start < self.pos;
        let room = goal.saturating_sub(start);
        if room == 0 || (room < part && goal < last && !first) {
            return None;
        }
        let mut end = (start + part).min(goal);
        if end < last {
            // A request that ends with a folio keeps every later folio whole.
            let aligned = end / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX;
            if aligned > start.max(self.pos) {
                end = aligned;
            }
        }
        // A tail too small for a request of its own joins the last part.
        if last - end < part / 4 && goal == last {
            end = last;
        }
        // The mark lies where there will be room for another such part, at the start of a folio: a
        // driver notices marks folio by folio.
        let room_from = (end + part).saturating_sub(ahead).next_multiple_of(FOLIO_PAGES_MAX);
        let last_folio = ((end - 1) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX).max(start);
        let mark = if first { self.pos.min(end - 1) } else { room_from.clamp(start, last_folio) };
        Some(Part { extent: Extent::new(start, end), mark })
    }

    fn next_strided(&self, ahead: u64, part: u64, delta: i64, pages: u64, file_pages: u64) -> Option<Part> {
        let touching = delta.unsigned_abs() == pages;
        let wanted = (ahead / pages).max(1) as i64;
        // Two groups fit in the window: one is read while the other is on its way.
        let group = if touching { (part / pages).min(wanted as u64 / 2).max(1) } else { 1 } as i64;
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

    /// All of `part` has been submitted or is resident.
    pub(crate) fn planned(&mut self, now: Nanos, part: Part) {
        self.pace.submitted(now, part.extent.pages());
        self.end = match self.pattern {
            Pattern::Forward => part.extent.end as i64,
            Pattern::Strided { delta, pages } => self.end + delta * part.extent.pages().div_ceil(pages) as i64,
        };
    }
}

/// How many times as far ahead as it has been read a trusted stream may be planned (a ratio).
/// Lower: a stream starts slower; each round trip multiplies the pages read by at most 1 + this.
/// Higher: more is wasted where a reader stops early. Source: the kernel's `get_init_ra_size()`:
/// the first window is up to four times the read.
const TRUST: u64 = 4;

/// The same ratio when a stream is recognised at the start of its file. Lower: the first 1 MiB
/// read of a program waits for two round trips. Higher: more is wasted on files of which only the
/// start is read. Source: derived, not measured: the kernel's first request through a mount is 128
/// KiB, and eight times that is 1 MiB.
const TRUST_AT_START: u64 = 8;

/// Pages read after which a progression that did not begin with its file is trusted by [`TRUST`]:
/// 1 MiB. Lower: more is wasted on short progressions in the middle of a file. Higher: a backward
/// reader waits more often. Source: a guess, not measured. Forward streams in the middle of a file
/// are trusted as far as they have been read: with four times that, a recording of a virtual
/// machine's reads fetched 2.8 times its bytes, in place of 1.3 (docs/decisions/0052).
const TRUSTED_PAGES: u64 = 256;

/// Factor by which the window grows when the reader has to wait. Lower: more waits until the
/// window covers the latency. Higher: more is wasted where the reader stops. Source: the kernel's
/// `get_next_ra_size()`, which grows small windows by 4 and large ones by 2.
const GROWTH: u64 = 4;

/// How far a read may lie behind the latest one of its stream, in the longest of its reads: 1 MiB
/// for requests of 128 KiB. Lower: a read overtaken by later ones becomes a run of its own.
/// Higher: a reader that goes back to re-read counts as the same stream. Source: the kernel, which
/// has up to eight requests of its own readahead in flight, sent by several threads;
/// docs/decisions/0058 for longer requests.
const OVERTAKEN_READS_MAX: u64 = 8;

/// Unread pages, resident or in flight, that a forward stream may jump over: 256 KiB, two requests
/// of the kernel's readahead. Lower: requests that overtake each other are no longer one stream.
/// Higher: a strided reader with records that close counts as forward. Source: the kernel's
/// requests of 128 KiB through a mount; the number of two is a guess, not measured.
const SKIPPED_PAGES_MAX: u64 = 64;

/// The same where reads are longer, in the longest of them. Lower: of a window of four requests of
/// 1 MiB, one that comes last begins a stream of its own: 389 requests a GiB in place of 148.
/// Higher: as above. Source: docs/decisions/0058; each of the four threads of a mount has one.
pub(crate) const SKIPPED_READS_MAX: u64 = 4;

/// Factor by which a record may exceed its first length and still be a record. Lower: a record
/// that one read did not show whole ends its progression. Higher: streams that began at a constant
/// distance (five readers of five parts of a file) are read as records for longer before they are
/// forward streams. Source: a guess, not measured; `interleaved-5` is the case.
const RECORD_GROWTH_MAX: u64 = 2;

/// Pages of the largest window of a stream that never waits: 16 MiB, two of the largest
/// parts. Lower: such a stream never makes parts of the largest size. Higher: it holds memory
/// without making its requests larger. Source: derived from [`PARTS_QUIET`] and
/// [`PART_PAGES_MAX`].
const QUIET_PAGES_MAX: u64 = 2 * PART_PAGES_MAX;

/// Parts of a window once the reader has waited, divided by the streams that share the link.
/// Lower: a part's latency is not covered by the transfer of the others. Higher: more requests for
/// the same bytes. Source: a guess near the need that docs/decisions/0005 counts: fifteen requests
/// of 80 MB/s each on a link of 900 MB/s.
const PARTS_WAITING: u64 = 12;

/// Parts of the first window. Lower: the reader waits longer for its first bytes. Higher: more
/// requests for each file that is opened. Source: derived, not measured: with a first request of
/// 128 KiB through a mount the window is 1 MiB, and its parts 256 KiB.
const PARTS_FIRST: u64 = 4;

/// Parts of a window while the reader has not waited, and the fewest for any window. Lower: the
/// next part is requested only when the last one is used up. Higher: more and smaller requests for
/// a reader that does not need them. Source: the kernel's two windows, one being read and one on
/// its way; docs/decisions/0014 for disks.
const PARTS_QUIET: u64 = 2;

/// Pages of the largest part: 8 MiB, 128 requests per GiB. Lower: more requests; at 4 MiB, 256 per
/// GiB. Higher: few requests fewer, and more memory held while a part arrives. Source:
/// docs/decisions/0003, which wants at most 160 requests per GiB.
pub(crate) const PART_PAGES_MAX: u64 = 2048;

/// Pages of the smallest part of a forward stream: 128 KiB, one folio. Lower: parts split folios.
/// Higher: the reader waits longer for the part that it needs next. Source: the size of a folio.
pub(crate) const PART_PAGES_MIN: u64 = 32;

/// Pages of the smallest part of a stream that has been read once: 256 KiB. Lower: programs that
/// start together make twice as many requests, and wait for them. Higher: they wait for each
/// other's bytes. Source: measured with `slow-200`, before crowds were limited
/// (docs/decisions/0013): first bytes after 104 ms, 122 ms with parts of 128 KiB.
const PART_PAGES_MIN_FIRST: u64 = 64;

/// Pages of the smallest part of a stream with long reads, at most: 1 MiB. Lower: parts are cut
/// smaller than the requests of a kernel with large windows, which are answered only once all of
/// their parts have come. Higher: the parts of a longer read come less in parallel. Source: the
/// longest READ of a kernel; with two readers, 454 to 400 requests a GiB (docs/decisions/0058).
const PART_PAGES_MIN_LONG: u64 = 256;

/// Pages of the largest part made of records that touch: 2 MiB. Lower: more requests for a
/// backward reader. Higher: a backward reader, which wants the end of a part first, waits for more
/// of what lies before it. Source: a guess, not measured.
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
        paced: true,
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
        stream.recognise(Some(read.start), &Lengths::default());
        let parts = plan(&mut stream, LIMITS);
        assert_eq!(parts[0], Part { extent: Extent::new(0, 64), mark: 32 });
        assert_eq!(parts.last().unwrap().extent.end, 256, "the rest of the window is too small for a part");
    }

    #[test]
    fn waiting_grows_the_window_as_far_as_it_is_trusted_and_splits_it() {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        stream.recognise(Some(0), &Lengths::default());
        plan(&mut stream, LIMITS);
        for start in (32..256).step_by(32) {
            stream.advance(Nanos(1), Read::alone(Extent::new(start, start + 32), None), &Lengths::default());
        }
        stream.advance(Nanos(2), Read::alone(Extent::new(256, 288), Some(256)), &Lengths::default());
        assert_eq!(stream.ahead, GROWTH * 256);
        let parts = plan(&mut stream, LIMITS);
        let sizes: Vec<u64> = parts.iter().map(|p| p.extent.pages()).collect();
        assert_eq!((parts[0].extent.start, sizes[0]), (256, 32));
        assert_eq!(sizes.iter().max(), Some(&128), "{sizes:?}");
        assert!(sizes.is_sorted(), "the parts that are needed first are small: {sizes:?}");
    }

    #[test]
    fn the_last_part_ends_with_the_file() {
        let limits = Limits { file_pages: 100, ..LIMITS };
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        stream.recognise(Some(0), &Lengths::default());
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
        stream.advance(
            Nanos(1),
            Read { stalled: true, ..Read::alone(Extent::new(256, 288), None) },
            &Lengths::default(),
        );
        stream.advance(Nanos(1), Read { stalled: true, ..Read::alone(Extent::new(0, 32), None) }, &Lengths::default());
        let rest = plan(&mut stream, LIMITS);
        assert!(rest.iter().all(|p| p.extent.end <= 256), "{rest:?}");
    }

    #[test]
    fn a_strided_stream_plans_single_records() {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(768, 784));
        stream.recognise_stride(256, 16, 4);
        let starts: Vec<_> = plan(&mut stream, LIMITS).iter().map(|p| (p.extent.start, p.extent.pages())).collect();
        assert_eq!(starts, [(768, 16), (1024, 16), (1280, 16), (1536, 16), (1792, 16)]);
        assert!(stream.expects(Read::alone(Extent::new(1024, 1040), None)));
        assert!(!stream.expects(Read::alone(Extent::new(1100, 1116), None)));
        assert!(!stream.expects(Read::alone(Extent::new(40_960, 40_976), None)));
    }
}
