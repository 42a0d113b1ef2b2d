//! In which parts the window of a stream is read ahead, and which page of each is marked.
//!
//! ```text
//!   window  pos |===part===|===part===|===part===| . . . .| pos + ahead
//!                ^mark      ^mark      ^mark       no room for another part: none is planned
//!
//!   parts    4   of a stream recognised at its first read    each: the window divided by the
//!           12   where its reader has waited, on no disk;    parts, rounded up to a power of
//!                fewer where many streams share the link     two; shorter near the reader
//!            2   otherwise; of a disk short ones are rounded down
//! ```
//!
//! Where it can, a part ends with a folio. A strided part is one record, or several: those that
//! touch, and those whose gaps cost less than requests of their own do. Gaps are read through and
//! not kept. On a disk, one record that does not touch the next is read ahead. Parts are held back
//! where they are paced (`pace`).
//!
//! A disk that has no time to spare reads ahead no such record, and of a run only what its reader
//! will most likely come to: all of that delays what is asked for meanwhile.
//!
//! *Invariants:* a part is not empty and lies within the file. Its mark lies in it.
//!
//! The file does not decide how long the window is (`window`), and does not know which pages of a
//! part are resident. Source: docs/decisions/0005 (parts by distance), 0008 (where marks lie),
//! 0014 (disks), 0058 (long reads), 0061 (first parts), 0071 (gaps), 0072 (records on disks),
//! 0096 (busy disks).

use super::{Gaps, PART_PAGES_MAX, PART_PAGES_MIN, Pattern, Stream};
use crate::files::sparse::AMPLIFICATION_MAX;
use crate::units::{Extent, FOLIO_PAGES_MAX, Nanos, Records};

/// What to read ahead next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// The pages; some of them may be resident already.
    pub(crate) extent: Extent,
    /// The pages to keep of them, if not all.
    pub(crate) records: Option<Records>,
    /// The page to mark: the first of them that the reader will touch.
    pub(crate) mark: u64,
    /// Strided: its records; the next part begins so many further on.
    pub(crate) steps: u64,
}

impl Part {
    /// All of `extent`, the first page marked.
    pub(crate) fn plain(extent: Extent) -> Self {
        Self { extent, records: None, mark: extent.start, steps: 1 }
    }
}

/// How far a stream may go just now.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, in any combination")]
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
    /// Parts differ from each other.
    pub(crate) staggered: bool,
    /// The longest gap between records that costs less than a request does, in pages, by what the
    /// link is known to carry. Nothing if its gaps are not to be read through.
    pub(crate) gap_pages_max: u64,
    /// The link may carry more than is known.
    pub(crate) is_growing: bool,
    /// Moving between streams costs time in which the storage serves no request.
    pub(crate) rotational: bool,
    /// The longest requests that a disk sorts among those that are waited for, if any are.
    pub(crate) sorted_pages_max: u64,
    /// Records of a progression wanted ahead on a disk, where they do not touch.
    pub(crate) records_apart: u64,
}

impl Stream {
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
        let is_limited = limits.sorted_pages_max > 0 && self.known_end.is_none();
        let ahead = if is_limited { ahead.min(self.likely_pages()) } else { ahead };
        let parts = match (self.waited_at.is_some(), self.reads) {
            (true, _) if !limits.rotational => (PARTS_WAITING / limits.streams).max(PARTS_QUIET),
            (false, 1) => PARTS_FIRST,
            _ => PARTS_QUIET,
        };
        let part = ahead / parts;
        // The next part of such a size is to be there before the disk is through with the last.
        let is_sorted = part <= limits.sorted_pages_max;
        let part = if is_sorted { 1 << part.max(1).ilog2() } else { part.next_power_of_two() };
        let part = part.min(limits.part_pages_max);
        match self.pattern {
            Pattern::Sparse if limits.gap_pages_max == 0 => None,
            Pattern::Forward | Pattern::Sparse => {
                let distance = (self.end as u64).saturating_sub(self.pos);
                if part == limits.part_pages_max && distance > ahead / 2 && limits.paced && self.pace.holds_back(now) {
                    return None;
                }
                // Data needed soon comes in small parts: otherwise the reader waits for a whole
                // large one.
                let near = if self.waited_at.is_some() && parts > PARTS_QUIET {
                    (distance / (parts - 1)).next_power_of_two()
                } else {
                    part
                };
                let least = if self.reads == 1 { PART_PAGES_MIN_FIRST } else { PART_PAGES_MIN };
                // A read is answered once all of it has come: smaller parts answer none earlier.
                let least = least.max(self.longest.next_power_of_two().min(PART_PAGES_MIN_LONG));
                let goes_to = self.known_end.map_or(limits.file_pages, |end| end.min(limits.file_pages));
                let part = part.min(near).clamp(least, PART_PAGES_MAX);
                let part = if limits.staggered { self.staggered(part) } else { part };
                let next = self.next_forward(ahead, part, goes_to);
                // A disk moves less often for a reader that waits.
                if next.is_none() && !limits.rotational {
                    self.mark_again(ahead, part, goes_to);
                }
                next
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
                let part = part.min(near);
                if self.reads_through(delta.unsigned_abs(), pages, limits) {
                    return self.next_through(ahead, limits, delta, pages);
                }
                // A disk serves them one after the other, each after a positioning of its own.
                let apart = limits.rotational && delta.unsigned_abs() > pages;
                let ahead = if apart { ahead.min(limits.records_apart * pages) } else { ahead };
                if ahead == 0 {
                    return None;
                }
                if self.has_rows() {
                    return self.next_in_rows(ahead, delta, limits.file_pages);
                }
                self.next_strided(ahead, part.min(PART_PAGES_STRIDED_MAX), delta, pages, limits.file_pages)
            }
        }
    }

    /// A part of up to three sixteenths less than `part`, or of one more, which differs from those
    /// beside it: by the stream, and where it begins.
    fn staggered(&self, part: u64) -> u64 {
        if part < STAGGERED_PAGES_MIN {
            return part;
        }
        let mixed = (self.id ^ (self.end as u64) << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let step = part / STAGGERED_OF;
        (part - 3 * step + mixed % 5 * step).min(PART_PAGES_MAX)
    }

    /// Pages ahead of the reader that its run reaches with odds of four to one, if runs end like
    /// most things that last: the longer one has been, the longer it goes on.
    fn likely_pages(&self) -> u64 {
        (self.seen / LIKELY_PART).max(2 * FOLIO_PAGES_MAX)
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
        let mark = if first { self.pos.min(end - 1) } else { mark(start, end, part, ahead) };
        Some(Part { extent: Extent::new(start, end), records: None, mark, steps: 1 })
    }

    /// The reader has touched its last mark, and there is no room for another part: the window has
    /// become smaller, or the part larger. It would not be heard of before it waits. So what is
    /// ahead of it is marked once more.
    fn mark_again(&mut self, ahead: u64, part: u64, last: u64) {
        let end = self.end.max(0) as u64;
        if self.mark < self.pos && self.pos < end && end < last {
            self.mark = mark(self.pos, end, part, ahead);
            self.marks_again = Some(self.mark);
        }
    }

    /// Whether the gaps of a progression are read through: if the link carries them in less time
    /// than requests of their own take. Where it is not known what the link carries, each stream
    /// tries it once.
    fn reads_through(&mut self, distance: u64, pages: u64, limits: Limits) -> bool {
        let gap = distance - pages;
        if gap == 0 || distance > self.pages_read(pages) * AMPLIFICATION_MAX {
            return false;
        }
        let is_cheap = gap <= limits.gap_pages_max;
        let tries = limits.is_growing && gap <= GAP_TRIED_PAGES_MAX && self.gaps != Gaps::Dear;
        self.gaps = match self.gaps {
            Gaps::Tried if !is_cheap && !tries => Gaps::Dear,
            Gaps::Unknown if !is_cheap && tries => Gaps::Tried,
            known => known,
        };
        is_cheap || tries
    }

    /// The next part of a progression of which the gaps are read through: as many records as a
    /// part holds with the gaps between them, a half of those wanted at most.
    fn next_through(&self, ahead: u64, limits: Limits, delta: i64, pages: u64) -> Option<Part> {
        let distance = delta.unsigned_abs();
        let wanted = self.certain((ahead / pages).max(2));
        let planned = ((self.end - self.pos as i64) / delta) as u64;
        let front = self.apart(self.end);
        let ahead_of = front.max(0) as u64;
        // The last of them begins within the file.
        let left = if delta > 0 {
            limits.file_pages.saturating_sub(ahead_of).div_ceil(distance)
        } else {
            ahead_of / distance + 1
        };
        let group = (limits.part_pages_max / distance).min(wanted / PARTS_QUIET).min(left).max(1);
        if front < 0 || ahead_of >= limits.file_pages || (planned > 0 && planned + group > wanted + 1) {
            return None;
        }
        let last = self.apart(self.end + delta * (group as i64 - 1)).max(0) as u64;
        let (low, high) = (ahead_of.min(last), ahead_of.max(last));
        // The places of records are rounded once more, each by itself.
        let pages = (pages + u64::from(self.fraction() > 0)).min(distance);
        let extent = Extent::new(low, (high + pages).min(limits.file_pages));
        let records = Records { start: low, pages, delta: distance, fraction: self.fraction() };
        let mark = (ahead_of + self.touched(pages)).min(extent.end - 1);
        Some(Part { extent, records: Some(records), mark, steps: group })
    }

    /// The next part of a progression that is read row by row.
    fn next_in_rows(&mut self, ahead: u64, delta: i64, file_pages: u64) -> Option<Part> {
        loop {
            let part = self.rows.as_ref()?.part(self.end.max(0) as u64)?;
            let planned = ((self.end - self.pos as i64) / delta) as u64;
            if planned > 0 && planned * part.pages() > ahead {
                return None;
            }
            let end = part.end.min(file_pages);
            if part.start < end {
                return Some(Part::plain(Extent::new(part.start, end)));
            }
            // The last record of a row lies behind the end of the file.
            self.end += delta;
        }
    }

    fn next_strided(&self, ahead: u64, part: u64, delta: i64, pages: u64, file_pages: u64) -> Option<Part> {
        let touching = delta.unsigned_abs() == pages;
        let wanted = self.certain((ahead / pages).max(1)) as i64;
        // Two groups fit in the window: one is read while the other is on its way.
        let group = if touching { (part / pages).min(wanted as u64 / 2).max(1) } else { 1 };
        let planned = (self.end - self.pos as i64) / delta;
        let first = planned == 0;
        if planned + group as i64 > wanted + 1 && !first {
            return None;
        }
        let (front, last) = (self.apart(self.end), self.apart(self.end + delta * (group as i64 - 1)));
        let start = front.min(last).max(0) as u64;
        let end = (front.max(last) + pages as i64).clamp(0, file_pages as i64) as u64;
        (start < end).then(|| {
            let mark = (front + self.touched(pages) as i64).clamp(start as i64, end as i64 - 1) as u64;
            Part { extent: Extent::new(start, end), records: None, mark, steps: group }
        })
    }

    /// All of `part` has been submitted or is resident.
    pub(crate) fn planned(&mut self, now: Nanos, part: Part) {
        self.pace.submitted(now, part.extent.pages());
        self.end = match self.pattern {
            Pattern::Forward | Pattern::Sparse => {
                self.mark = part.mark;
                part.extent.end as i64
            }
            Pattern::Strided { delta, .. } => self.end + delta * part.steps as i64,
        };
    }
}

/// Pages of the next part of a window of `ahead` pages, of which `distance` are planned, for a
/// reader that waits and has its window at once: it comes in many parts, and the nearest are
/// short. Rounded down, since what begins together and is long ends together. A disk reads one
/// part after the other.
pub(crate) fn part_of(ahead: u64, distance: u64, limits: Limits) -> u64 {
    let (parts, most) = (PARTS_WAITING / limits.streams, limits.part_pages_max);
    if limits.rotational || parts <= PARTS_QUIET {
        return most;
    }
    let part = (ahead / parts).min(distance / (parts - 1)).max(1);
    (1 << part.ilog2()).max(PART_PAGES_MIN_LONG).min(most)
}

/// The page to mark of those from `start` to `end`: where there will be room for another `part`,
/// at the start of a folio. A driver notices marks folio by folio.
fn mark(start: u64, end: u64, part: u64, ahead: u64) -> u64 {
    let room_from = (end + part).saturating_sub(ahead).next_multiple_of(FOLIO_PAGES_MAX);
    let last_folio = ((end - 1) / FOLIO_PAGES_MAX * FOLIO_PAGES_MAX).max(start);
    room_from.clamp(start, last_folio)
}

/// Parts of a window once the reader has waited, divided by the streams that share the link.
/// Lower: a part's latency is not covered by the transfer of the others. Higher: more requests for
/// the same bytes. Source: a guess near the need that docs/decisions/0005 counts: fifteen requests
/// of 80 MB/s each on a link of 900 MB/s.
const PARTS_WAITING: u64 = 12;

/// The least part that differs from those beside it, in pages: 512 KiB. Lower: folios are cut.
/// Higher: on links of slow connections, of which parts are short, all parts end together. Source:
/// docs/decisions/0123.
const STAGGERED_PAGES_MIN: u64 = 4 * FOLIO_PAGES_MAX;

/// A step of the length of such a part: a sixteenth, three down and one up. Lower: parts of which
/// the longest are hard to hold in memory, and the shortest many. Higher: parts that began
/// together end nearly together. Source: docs/decisions/0123.
const STAGGERED_OF: u64 = 16;

/// Parts of the first window. Lower: the reader waits longer for its first bytes. Higher: more
/// requests for each file that is opened. Source: derived, not measured: with a first request of
/// 128 KiB through a mount the window is 1 MiB, and its parts 256 KiB.
const PARTS_FIRST: u64 = 4;

/// Parts of a window while the reader has not waited, and the fewest for any window. Lower: the
/// next part is requested only when the last one is used up. Higher: more and smaller requests for
/// a reader that does not need them. Source: the kernel's two windows, one being read and one on
/// its way; docs/decisions/0014 for disks.
const PARTS_QUIET: u64 = 2;

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

/// The longest gap that is read through where it is not known what the link carries, in pages: 128
/// KiB. Lower: a reader of records that lie so far apart makes a request for each. Higher: a
/// progression on a slower link begins with bytes in vain. Source: what a link of 700 MB/s carries
/// while a request is made (`queue::link`).
const GAP_TRIED_PAGES_MAX: u64 = 32;

/// Pages of the largest part made of records that touch: 2 MiB. Lower: more requests for a
/// backward reader. Higher: a backward reader, which wants the end of a part first, waits for more
/// of what lies before it. Source: a guess, not measured.
const PART_PAGES_STRIDED_MAX: u64 = 512;

/// The part of what was read of a run that is read ahead of it on a disk that others wait for.
/// Lower: more is read in vain where it ends, while others wait. Higher: fewer pages come along
/// with each positioning. Source: of runs whose lengths follow a power law with exponent one, four
/// in five that came to `n` pages come to `5 / 4 n`; docs/decisions/0096.
const LIKELY_PART: u64 = 4;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::files::lengths::Lengths;
    use crate::files::stride::Stride;
    use crate::files::window::{GROWTH, Read};

    const LIMITS: Limits = Limits {
        file_pages: 1 << 20,
        ahead_pages_max: 1 << 14,
        part_pages_max: PART_PAGES_MAX,
        streams: 1,
        paced: true,
        staggered: false,
        gap_pages_max: 0,
        is_growing: false,
        rotational: false,
        sorted_pages_max: 0,
        records_apart: 1,
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
    fn parts_of_streams_that_are_staggered_differ() {
        let limits = Limits { part_pages_max: 1_024, ahead_pages_max: 1 << 20, staggered: true, ..LIMITS };
        let lengths: Vec<u64> = (0..100u64)
            .map(|id| {
                let mut stream = Stream::new(id, Nanos(0), Extent::new(0, 32));
                stream.recognise(Some(0), &Lengths::default());
                stream.ahead = 1 << 16;
                stream.next_part(Nanos(0), limits).expect("a part").extent.pages()
            })
            .collect();
        let mean = lengths.iter().sum::<u64>() / 100;
        assert!((930..=990).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| (832..=1_088).contains(length)), "{lengths:?}");
        let mut different = lengths.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 5);
    }

    #[test]
    fn a_stream_from_the_start_of_a_file_plans_the_read_and_eight_times_as_much() {
        let read = Extent::new(0, 32);
        let mut stream = Stream::new(0, Nanos(0), read);
        stream.recognise(Some(read.start), &Lengths::default());
        let parts = plan(&mut stream, LIMITS);
        assert_eq!(parts[0], Part { extent: Extent::new(0, 64), records: None, mark: 32, steps: 1 });
        assert_eq!(parts.last().unwrap().extent.end, 256, "the rest of the window is too small for a part");
    }

    /// Otherwise the reader comes to the end of what is ahead of it, and waits there.
    #[test]
    fn what_is_ahead_is_marked_again_if_there_is_no_room_where_it_was_marked() {
        let lengths = Lengths::default();
        let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
        stream.recognise(Some(0), &lengths);
        let mark = plan(&mut stream, LIMITS).last().expect("a part").mark;
        for start in (32..=mark).step_by(32) {
            stream.advance(Nanos(0), Read::alone(Extent::new(start, start + 32), None), &lengths);
        }
        let pos = mark / 32 * 32 + 32;
        let narrow = Limits { ahead_pages_max: 256 - pos, part_pages_max: 32, ..LIMITS };
        assert!(pos < 256 && stream.take_mark().is_none());
        assert_eq!(stream.next_part(Nanos(0), narrow), None);
        let again = stream.take_mark().expect("a mark");
        assert!((pos..256).contains(&again) && again.is_multiple_of(FOLIO_PAGES_MAX), "{again} of {pos}..256");
        assert_eq!((stream.next_part(Nanos(0), narrow), stream.take_mark()), (None, None), "once");
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
        stream.recognise_stride(Stride::even(-256, 256, 3));
        let parts = plan(&mut stream, LIMITS);
        assert_eq!(parts[0], Part::plain(Extent::new(1024, 1280)));
        assert_eq!(parts[1], Part::plain(Extent::new(768, 1024)));
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
    fn on_a_disk_one_record_is_read_ahead_and_no_more() {
        let limits = Limits { rotational: true, ..LIMITS };
        let starts = |parts: Vec<Part>| parts.iter().map(|p| p.extent.start).collect::<Vec<_>>();
        let mut stream = Stream::new(0, Nanos(0), Extent::new(768, 784));
        stream.recognise_stride(Stride::even(256, 16, 4));
        assert_eq!(starts(plan(&mut stream, limits)), [768, 1024]);
        stream.advance(Nanos(1), Read::alone(Extent::new(1024, 1040), None), &Lengths::default());
        assert_eq!(starts(plan(&mut stream, limits)), [1280]);
        let mut touching = Stream::new(0, Nanos(0), Extent::new(1024, 1056));
        touching.recognise_stride(Stride::even(-32, 32, 8));
        assert!(plan(&mut touching, limits).len() > 2, "records that touch are one transfer");
    }

    #[test]
    fn a_disk_without_time_reads_no_record_ahead_and_a_quarter_of_what_was_read() {
        let busy = Limits { rotational: true, sorted_pages_max: 128, records_apart: 0, ..LIMITS };
        let mut strided = Stream::new(0, Nanos(0), Extent::new(768, 784));
        strided.recognise_stride(Stride::even(256, 16, 4));
        assert_eq!(plan(&mut strided, busy), [], "what is read is asked for by the read itself");
        let read = |pages: u64| {
            let mut stream = Stream::new(0, Nanos(0), Extent::new(0, 32));
            stream.recognise(Some(0), &Lengths::default());
            for start in (32..pages).step_by(32) {
                let read = Read { stalled: true, ..Read::alone(Extent::new(start, start + 32), Some(start)) };
                stream.advance(Nanos(1), read, &Lengths::default());
            }
            stream
        };
        assert_eq!(plan(&mut read(32), busy).last().unwrap().extent.end, 64, "two folios at least");
        let ahead = plan(&mut read(960), busy).last().unwrap().extent.end - 960;
        assert!((240 - 64..=240).contains(&ahead), "{ahead}: a quarter, but for a part that has no room");
        assert!(plan(&mut read(960), Limits { sorted_pages_max: 0, ..busy }).last().unwrap().extent.end > 2 * 960);
        let largest = |limits| plan(&mut read(960), limits).iter().map(|part| part.extent.pages()).max();
        let most = Limits { ahead_pages_max: 100, ..busy };
        assert_eq!(largest(most), Some(32), "two of them fit");
        assert_eq!(largest(Limits { sorted_pages_max: 0, ..most }), Some(64));
    }

    #[test]
    fn a_strided_stream_plans_single_records() {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(768, 784));
        stream.recognise_stride(Stride::even(256, 16, 4));
        let starts: Vec<_> = plan(&mut stream, LIMITS).iter().map(|p| (p.extent.start, p.extent.pages())).collect();
        assert_eq!(starts, [(768, 16), (1024, 16), (1280, 16), (1536, 16), (1792, 16)]);
        assert!(stream.expects(Read::alone(Extent::new(1024, 1040), None)));
        assert!(!stream.expects(Read::alone(Extent::new(1100, 1116), None)));
        assert!(!stream.expects(Read::alone(Extent::new(40_960, 40_976), None)));
    }

    /// A progression of single pages, 16 from one to the next, with a window of 64 pages.
    fn sparse(delta: i64, start: u64) -> Stream {
        let mut stream = Stream::new(0, Nanos(0), Extent::new(start, start + 1));
        stream.recognise_stride(Stride::even(delta, 1, 4));
        stream.ahead = 64;
        stream
    }

    #[test]
    fn gaps_are_read_through_where_they_are_cheap() {
        let cheap = Limits { gap_pages_max: 15, part_pages_max: 512, ..LIMITS };
        let parts = plan(&mut sparse(16, 32), cheap);
        let records = |start| Some(Records { start, pages: 1, delta: 16, fraction: 0 });
        assert_eq!(
            parts[0],
            Part { extent: Extent::new(32, 32 + 31 * 16 + 1), records: records(32), mark: 32, steps: 32 }
        );
        let next = 32 + 32 * 16;
        assert_eq!(
            parts[1],
            Part { extent: Extent::new(next, next + 31 * 16 + 1), records: records(next), mark: next, steps: 32 }
        );
        assert_eq!(parts.len(), 2);
        let backward = plan(&mut sparse(-16, 640), cheap);
        assert_eq!(backward[0], Part { extent: Extent::new(144, 641), records: records(144), mark: 640, steps: 32 });
        assert_eq!(backward[1], Part { extent: Extent::new(0, 129), records: records(0), mark: 128, steps: 9 });
        assert_eq!(backward.len(), 2, "the file begins here");
        let short = plan(&mut sparse(16, 32), Limits { file_pages: 70, ..cheap });
        assert_eq!(short, [Part { extent: Extent::new(32, 65), records: records(32), mark: 32, steps: 3 }]);
        let dear = plan(&mut sparse(16, 32), Limits { gap_pages_max: 14, ..cheap });
        assert!(dear.iter().all(|part| part.records.is_none() && part.extent.pages() == 1), "{dear:?}");
        let sparser = plan(&mut sparse(17, 34), Limits { gap_pages_max: 100, ..cheap });
        assert!(sparser.iter().all(|part| part.records.is_none()), "sixteen times what is read, at most");
    }

    #[test]
    fn the_gap_behind_lies_between_the_last_two_records() {
        assert_eq!(sparse(16, 32).gap_behind(), Some(Extent::new(17, 32)));
        assert_eq!(sparse(-16, 32).gap_behind(), Some(Extent::new(33, 48)));
        assert_eq!(sparse(16, 8).gap_behind(), None, "the first record of the file");
    }

    #[test]
    fn a_link_that_is_not_known_is_tried_once() {
        let growing = Limits { is_growing: true, part_pages_max: 512, ..LIMITS };
        let mut stream = sparse(16, 32);
        let through = |stream: &mut Stream, limits| stream.next_part(Nanos(0), limits).unwrap().records.is_some();
        assert!(through(&mut stream, growing));
        assert!(!through(&mut stream, Limits { is_growing: false, ..growing }), "too slow, as it turns out");
        assert!(!through(&mut stream, growing));
        assert!(through(&mut stream, Limits { gap_pages_max: 15, ..growing }), "quick enough after all");
    }
}
