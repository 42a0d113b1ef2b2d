//! One stream of reads in one file: where it stands, and how far ahead of it to read.
//!
//! ```text
//!                          ahead (wanted)
//!                   |<------------------------->|
//!   read so far     pos                    end
//!   ################|===part===|===part===|. . . .      forward: parts follow one another
//!                   ^mark      ^mark                    a touch of a mark plans the next part
//!
//!   ##.#...#.###.. pos |===part===|===part===| . .      sparse: as forward, with gaps
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
//! used is also limited by `parts::Limits` and by ten seconds of reading (`pace`).
//!
//! *Invariant:* a recognised stream wants at least one page, until its pattern turns out to be
//! another one.
//!
//! The file does not choose the stream of a read or say when a run is recognised (`streams`), and
//! does not cut a window into parts (`parts`) or say where the records of a progression lie
//! (`progression`). Source: the on-demand readahead window
//! (start, size, mark) of Linux, 2007, with its maximum replaced by measurement; the trusted
//! distance, docs/decisions/0008 (ten seconds), 0052 (lengths), 0054 (which reads continue it),
//! 0061 (starts), 0087 (gaps).

use alloc::boxed::Box;

use crate::files::lengths::Lengths;
use crate::files::pace::{Pace, SECOND_NS};
use crate::files::rows::Rows;
use crate::files::sparse::{self, Chain, Sparse};
use crate::files::uneven::Uneven;
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos};

pub(crate) mod parts;
mod progression;
pub(crate) mod state;

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
    /// The longest gap that the link carries in less time than a first byte takes, in pages.
    pub(crate) gap_pages_max: u64,
    /// Pages that all streams together may be ahead. Nothing on a disk: there, many streams of
    /// their own make longer requests than rows of a progression do.
    pub(crate) room_pages: u64,
    /// Whether other reads of the file wait.
    pub(crate) others_wait: bool,
    /// The memory that runs and streams of other files take.
    pub(crate) others_bytes: u64,
}

#[cfg(test)]
impl Read {
    /// A read with nothing before it; it waits if a page is `absent`.
    pub(crate) fn alone(extent: Extent, absent: Option<u64>) -> Self {
        Self {
            extent,
            absent,
            stalled: absent.is_some(),
            before: 0,
            file_pages: u64::MAX,
            skipped: 0,
            beside: false,
            gap_pages_max: 0,
            room_pages: 0,
            others_wait: false,
            others_bytes: 0,
        }
    }
}

/// Where the reads of a stream lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each read begins where the one before it ended.
    Forward,
    /// Each read begins behind the one before it, with gaps of no common length.
    Sparse,
    /// Records of `pages` pages, `delta` pages from one start to the next.
    Strided {
        /// Negative for a reader that goes backward.
        delta: i64,
        /// Pages of a record.
        pages: u64,
    },
}

/// What is known of reading through the gaps of a progression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gaps {
    /// It was not tried.
    Unknown,
    /// It was tried while the link might carry more than was known.
    Tried,
    /// It was tried, and the link turned out to carry less than that takes.
    Dear,
}

/// One stream; while `ahead` is 0, only a run of reads that may become one.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an observation of its own, in any combination")]
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) pattern: Pattern,
    /// First page of the run.
    pub(crate) start: u64,
    /// The page after the last one read. Strided: first page of the record being read.
    pub(crate) pos: u64,
    /// The page after the last one planned. Strided: first page of the next record to
    /// plan, which may lie outside the file.
    end: i64,
    /// The page that was marked last.
    mark: u64,
    /// A page that is to be marked, beside those of new parts.
    marks_again: Option<u64>,
    /// Pages wanted ahead of the reader.
    pub(crate) ahead: u64,
    /// Pages read so far: the evidence. Sparse: pages gone through.
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
    /// All that it could read ahead is in the tier.
    pub(crate) near: bool,
    /// Reads that had to wait since the stream was recognised.
    pub(crate) late: u32,
    /// When the last of them was.
    waited_at: Option<Nanos>,
    /// Its last read had to wait.
    stalled: bool,
    /// All of its file is planned, and a reader has begun anew since it was last heard of.
    pub(crate) through: bool,
    /// Strided: it goes backward from the end of its file.
    from_end: bool,
    /// Strided: whether the pages between records were fetched as well.
    gaps: Gaps,
    /// Strided: where its first record began.
    first: u64,
    /// Strided: pages of a record when the progression was recognised.
    record_pages: u64,
    /// Strided, forward and not touching: its rows. `pos` and `end` are places in them.
    rows: Option<Box<Rows>>,
    /// Strided, at a distance of no whole number of pages: `pos` and `end` are places in it.
    uneven: Option<Box<Uneven>>,
    /// Sparse: the reader that its chain has shown.
    sparse: Option<Sparse>,
    /// Up to where it has gone through the file, if it leaves pages unread.
    passed: u64,
    /// The reads that led to it, and its own.
    pub(crate) chain: Chain,
    /// The page after the last read: a record that is longer than expected continues there.
    last_end: u64,
    /// Forward: unread pages that reads jumped over, and that were not read since.
    jumped_pages: u64,
    /// Forward: where the latest of them lie. Requests on their way may still read them.
    gap: Extent,
    /// The last event of the stream.
    pub(crate) last: Nanos,
    /// The longest time between two events lately.
    pause: Nanos,
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
            near: false,
            late: 0,
            waited_at: None,
            stalled: false,
            through: false,
            from_end: false,
            gaps: Gaps::Unknown,
            first: 0,
            record_pages: 0,
            rows: None,
            uneven: None,
            mark: 0,
            marks_again: None,
            sparse: None,
            passed: 0,
            chain: Chain::new(read),
            last_end: read.end,
            jumped_pages: 0,
            gap: Extent::new(0, 0),
            last: now,
            pause: Nanos(0),
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
        let wants = if self.near { wants.min(AHEAD_PAGES_NEAR) } else { wants };
        self.within_horizon(wants)
    }

    /// Whether its reader has had to wait since then.
    pub(crate) fn has_waited(&self, since: Nanos) -> bool {
        self.waited_at.is_some_and(|at| at >= since)
    }

    /// The pages that it would be `ahead` of its reader with.
    pub(crate) fn outlook(&self, ahead: u64, file_pages: u64) -> Extent {
        match self.pattern {
            Pattern::Strided { delta, .. } if delta < 0 => {
                Extent::new(self.position().saturating_sub(ahead), self.position())
            }
            _ => Extent::new(self.position(), (self.position() + ahead).min(file_pages)),
        }
    }

    /// Whether nothing of the file is left to plan for it.
    pub(crate) fn has_planned_all(&self, file_pages: u64) -> bool {
        self.is_recognised() && self.pattern == Pattern::Forward && self.planned_to() >= file_pages
    }

    /// `ahead`, limited to the pages that its reader reaches within [`Pace::horizon`].
    pub(crate) fn within_horizon(&self, ahead: u64) -> u64 {
        self.pace.horizon(self.seen).map_or(ahead, |horizon| ahead.min(horizon.max(2 * PART_PAGES_MIN)))
    }

    /// When its reader counts as stopped, if nothing more is heard of it: when it has been silent
    /// for twice as long as it ever was lately, and twice as long as it takes to read what is
    /// planned, within which it touches something that is told.
    pub(crate) fn stops_at(&self) -> Nanos {
        let Some(rate) = self.pace.rate().filter(|&rate| rate > 0) else { return Nanos(self.last.0 + STOPPED_MAX.0) };
        let planned = match self.pattern {
            Pattern::Forward | Pattern::Sparse => (self.end - self.pos as i64).unsigned_abs(),
            Pattern::Strided { delta, pages } => {
                (self.end - self.pos as i64).unsigned_abs() / delta.unsigned_abs() * pages
            }
        };
        let reading = planned.saturating_mul(SECOND_NS) / rate;
        Nanos(self.last.0 + (2 * self.pause.0.max(reading)).clamp(STOPPED_MIN.0, STOPPED_MAX.0))
    }

    /// How long its reader may be silent, by how long it was lately.
    pub(crate) fn patience(&self) -> Nanos {
        Nanos((PATIENCE * self.pause.0).min(PATIENCE_MAX.0))
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
            Pattern::Sparse => {
                let (from, to) = self.reach();
                from <= read.start && read.start <= to
            }
            Pattern::Strided { delta, pages } => self.expects_record(read, delta, pages),
        }
    }

    /// Whether `read`, which it expects, goes on where the last one ended, or behind pages that
    /// were read since and not told, and does not jump further into what is planned.
    pub(crate) fn is_read_on_by(&self, read: Read) -> bool {
        let gap = match self.pattern {
            Pattern::Forward => 0,
            Pattern::Sparse => self.sparse.map_or(0, Sparse::gap_pages),
            Pattern::Strided { .. } => return true,
        };
        read.extent.start.saturating_sub(read.before) <= self.pos + gap
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
            Pattern::Sparse => {
                let from = self.pos.saturating_sub(FOLIO_PAGES_MAX).max(self.start);
                (
                    from,
                    self.end.max(self.pos as i64) as u64
                        + self.sparse.map_or(0, |reader| sparse::longest_gap(reader.record_pages)),
                )
            }
            Pattern::Strided { .. } => (0, u64::MAX),
        }
    }

    /// The stream goes on with `read`.
    pub(crate) fn advance(&mut self, now: Nanos, read: Read, lengths: &Lengths) {
        let Read { extent: read, stalled, absent, skipped, beside, .. } = read;
        let silent = now.since(self.last);
        self.pause = silent.max(Nanos(self.pause.0.saturating_sub(silent.0 / PAUSE_KEPT)));
        self.last = now;
        (self.guess, self.through) = (false, false);
        (self.prepended, self.overtaken) = (0, false);
        self.last_end = read.end;
        self.longest = self.longest.max(read.pages());
        // A page that was evicted and is read again shows no direction.
        let goes_on = self.pattern != Pattern::Forward || read.end != self.pos;
        self.reads = self.reads.saturating_add(u32::from(goes_on && !beside));
        match self.pattern {
            Pattern::Forward => {
                let new_pages = read.end.saturating_sub(read.start.max(self.pos));
                self.chain = self.chain.and(new_pages, read.start > self.pos);
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
            Pattern::Sparse => {
                self.pos = self.pos.max(read.end);
                self.seen = self.pos - self.start;
                self.end = absent.map_or(self.end, |missing| missing as i64).max(read.start as i64);
            }
            Pattern::Strided { delta, pages } => {
                if !self.advance_record(now, read, absent, (delta, pages), lengths) {
                    return;
                }
            }
        }
        if !self.is_recognised() {
            return;
        }
        self.pace.progressed(now, self.seen);
        let is_trusted = match self.pattern {
            Pattern::Forward | Pattern::Sparse => self.start == 0,
            Pattern::Strided { .. } => self.start == 0 || self.from_end || self.seen >= TRUSTED_PAGES,
        };
        let believed = self.seen * if is_trusted { TRUST } else { 1 };
        self.stalled = stalled;
        if stalled {
            self.late = self.late.saturating_add(1);
            self.waited_at = Some(now);
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
        (self.rows, self.uneven) = (None, None);
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

    /// Its first read shows less than usual: no more is planned than has been read.
    pub(crate) fn doubt(&mut self) {
        self.ahead = self.ahead.min(self.seen);
    }

    /// Takes the page that is to be marked though it is no part of anything new.
    pub(crate) fn take_mark(&mut self) -> Option<u64> {
        self.marks_again.take()
    }

    /// The page that its reader has come to.
    pub(crate) fn position(&self) -> u64 {
        self.page(self.pos)
    }

    /// The page that has been planned up to.
    pub(crate) fn planned_to(&self) -> u64 {
        self.page(self.end.max(0) as u64)
    }

    /// From now on the run is the end of a chain that has shown `reader`.
    pub(crate) fn recognise_sparse(&mut self, reader: Sparse, absent: Option<u64>) {
        self.pattern = Pattern::Sparse;
        (self.start, self.passed, self.sparse) = (reader.from, reader.from, Some(reader));
        self.seen = self.pos - self.start;
        self.end = absent.unwrap_or(self.pos) as i64;
        self.ahead = self.seen;
    }

    /// The pages that it has gone through since this was asked for the last time, if it leaves
    /// some of them unread. The last ones may still be read.
    pub(crate) fn take_passed(&mut self) -> Option<Extent> {
        if let Pattern::Strided { delta: ..0, .. } = self.pattern {
            return self.take_passed_backward();
        }
        let last = match self.pattern {
            Pattern::Sparse => FOLIO_PAGES_MAX,
            Pattern::Forward if self.jumped_pages > 0 => self.reads_of(OVERTAKEN_READS_MAX),
            Pattern::Strided { delta, .. } if delta > 0 && self.uneven.is_some() => delta.unsigned_abs(),
            Pattern::Forward | Pattern::Strided { .. } => return None,
        };
        let from = self.passed.max(self.start.min(self.position()));
        self.passed = self.position().saturating_sub(last).max(from);
        Some(Extent::new(from, self.passed))
    }

    /// Sparse: the last pages that it went through, at most `most` of them.
    pub(crate) fn gone_through(&self, most: u64) -> Option<(Extent, Sparse)> {
        let extent = Extent::new(self.pos.saturating_sub(most).max(self.start), self.pos);
        self.sparse.map(|reader| (extent, reader))
    }

    /// Pages read ahead for the stream were evicted before it reached them.
    pub(crate) fn thrashed(&mut self) {
        if self.is_recognised() {
            self.ahead = (self.ahead / 2).max(1);
        }
    }
}

/// How many times as far ahead as it has been read a trusted stream may be planned (a ratio).
/// Lower: a stream starts slower; each round trip multiplies the pages read by at most 1 + this.
/// Higher: more is wasted where a reader stops early. Source: the kernel's `get_init_ra_size()`:
/// the first window is up to four times the read.
pub(crate) const TRUST: u64 = 4;

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

/// For how many times as long as it took a pause is remembered. Lower: a reader that pauses counts
/// as stopped at its next pause. Higher: one that paused once keeps memory for longer when it
/// stops. Source: a guess; sixteen batches of a loader.
const PAUSE_KEPT: u64 = 16;

/// How many times as long as lately a reader must be silent to count as stopped where readers come
/// back. Lower: of a thousand streams that are taken in no order, whose pauses vary, many count as
/// stopped while their readers are elsewhere; in 256 MiB a merge of them was 5 % slower with 2,
/// and as fast with 8. Higher: a reader that stopped keeps memory for longer. Source:
/// docs/decisions/0093.
const PATIENCE: u64 = 4;

/// The longest silence of a reader that may still come: 2 min. Lower: streams that are taken in no
/// order lose what is ahead of them before their readers come back; a thousand of them, 30 ms
/// each, come back after 30 s. Higher: what is ahead of one that paused for an hour once keeps its
/// memory for hours after it stopped. Source: docs/decisions/0093.
const PATIENCE_MAX: Nanos = Nanos::from_millis(120_000);

/// The least time after which a reader counts as stopped: 1 s. Lower: one that pauses loses what
/// was read ahead for it, if others need the memory. Higher: one that jumped has little memory at
/// its next place for longer. Source: docs/decisions/0076.
const STOPPED_MIN: Nanos = Nanos::from_millis(1_000);

/// The longest time after which a reader counts as stopped where none comes back later, and that
/// of one whose rate is not known: 12 s. Lower: what is ahead of a slow reader goes. Higher:
/// readers that stopped keep memory. Source: streams are ten seconds ahead at most
/// (docs/decisions/0008), and a request of theirs takes up to two.
const STOPPED_MAX: Nanos = Nanos::from_millis(12_000);

/// Factor by which the window grows when the reader has to wait. Lower: more waits until the
/// window covers the latency. Higher: more is wasted where the reader stops. Source: the kernel's
/// `get_next_ra_size()`, which grows small windows by 4 and large ones by 2.
pub(crate) const GROWTH: u64 = 4;

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

/// Pages of the largest window of a stream that never waits: 16 MiB, two of the largest
/// parts. Lower: such a stream never makes parts of the largest size. Higher: it holds memory
/// without making its requests larger. Source: derived from [`PART_PAGES_MAX`]
/// and the two parts of a window that does not wait (`parts`).
const QUIET_PAGES_MAX: u64 = 2 * PART_PAGES_MAX;

/// Pages of the largest part: 8 MiB, 128 requests per GiB. Lower: more requests; at 4 MiB, 256 per
/// GiB. Higher: few requests fewer, and more memory held while a part arrives. Source:
/// docs/decisions/0003, which wants at most 160 requests per GiB.
pub(crate) const PART_PAGES_MAX: u64 = 2048;

/// Pages of the longest request: a largest part, and a tail that is too small for a request of its
/// own. Lower: a tail costs a request. Higher: a reader of its last pages waits for all before
/// them, and memory is held by what is far from being read. Source: derived: the largest part, and
/// the quarter of one that joins it (`parts`).
pub const REQUEST_PAGES_MAX: u64 = PART_PAGES_MAX / 4 * 5;

/// Pages that a stream is ahead at most where the tier has them all, 4 MiB. Lower: a fast disk
/// idles between two of its requests. Higher: such streams take memory from others, which need it.
/// Source: derived: twice what a disk of 3 GB/s sends in .1 ms and in the time of eight requests.
pub(crate) const AHEAD_PAGES_NEAR: u64 = 1024;

/// Pages of the smallest part of a forward stream: 128 KiB, one folio. Lower: parts split folios.
/// Higher: the reader waits longer for the part that it needs next. Source: the size of a folio.
pub(crate) const PART_PAGES_MIN: u64 = 32;
