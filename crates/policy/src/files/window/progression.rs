//! The progressions of a stream: records at a constant distance, and where each lies.
//!
//! ```text
//!   pos, end, and what is counted      places: delta from one record to the next
//!        │ page, apart                      ^ place
//!        v                                  │
//!   pages of the file                  even      the same
//!                                      uneven    a page more or less apart (`uneven`)
//!                                      in rows   the next record of each column (`rows`)
//! ```
//!
//! *Invariant:* a progression has rows, or is uneven, or its places are its pages.
//!
//! The file does not find progressions (`stride`) or cut them into parts (`parts`). Source:
//! docs/decisions/0012, 0014, 0092, 0097, 0120.

use alloc::boxed::Box;

use super::{Pattern, Read, Stream, TRUST};
use crate::files::lengths::Lengths;
use crate::files::rows::Rows;
use crate::files::stride::Stride;
use crate::files::uneven::{SLACK, Uneven};
use crate::units::{Extent, Nanos, PAGE_PARTS};

impl Stream {
    /// Whether `read` lies in one of the next records of its progression, or goes on in the one
    /// before.
    pub(super) fn expects_record(&self, read: Extent, delta: i64, pages: u64) -> bool {
        let Some(place) = self.place(read.start) else { return false };
        if self.rows.as_ref().is_some_and(|rows| rows.are_of_one_row(place, self.pos)) {
            return true;
        }
        let away = place as i64 - self.pos as i64;
        let within = away.rem_euclid(delta.abs());
        let records = (away - within) / delta;
        let planned = (self.end - self.pos as i64) / delta;
        let goes_on = within == pages as i64 && read.start == self.last_end;
        let exists = within <= place as i64;
        exists && (self.has_rows() || within < pages as i64 || goes_on) && (-1..=planned.max(1) + 1).contains(&records)
            || self.slips(read).is_some()
    }

    /// The progression goes on with `read`. Returns whether more is to be learned from the read:
    /// it may be an earlier one of rows that come together, or show that the records have no end.
    pub(super) fn advance_record(
        &mut self,
        now: Nanos,
        read: Extent,
        absent: Option<u64>,
        (delta, pages): (i64, u64),
        lengths: &Lengths,
    ) -> bool {
        if let Some(further) = self.slips(read)
            && let Some(uneven) = Uneven::slipped((self.first, self.pos), delta, further, read.start)
            && !uneven.touch(pages)
        {
            self.lie(uneven);
        }
        let Pattern::Strided { delta, pages } = self.pattern else { return false };
        let Some(place) = self.place(read.start) else { return false };
        let within = (place as i64 - self.pos as i64).rem_euclid(delta.abs()) as u64;
        let Some(record) = place.checked_sub(within) else { return false };
        if let Some(uneven) = &mut self.uneven {
            uneven.read(read.start);
        }
        // Several rows come together: it may be the second of them.
        if self.has_rows() && record < self.pos {
            self.pace.progressed(now, self.seen);
            return false;
        }
        if record != self.pos {
            // Plain hits are not reported: the records between were read as well.
            self.seen += pages * (record.abs_diff(self.pos) / delta.unsigned_abs());
            self.pos = record;
        }
        if within + read.pages() > RECORD_GROWTH_MAX * self.record_pages && !self.has_rows() {
            self.become_forward(read.start - within, absent, read.end, lengths);
            return false;
        }
        if !self.has_rows() {
            let pages = pages.max(within + read.pages()).min(delta.unsigned_abs());
            self.pattern = Pattern::Strided { delta, pages };
        }
        let planned = (self.end - record as i64) / delta;
        if absent.is_some() || planned < 0 {
            self.end = record as i64;
        }
        true
    }

    /// How many records further on `read` lies, if that is a whole record which begins a page
    /// before or behind where the progression has it.
    fn slips(&self, read: Extent) -> Option<i64> {
        let Pattern::Strided { delta, pages } = self.pattern else { return None };
        // Each read is compared with many progressions: what costs least comes first.
        let is_whole = read.pages().abs_diff(pages) <= 1 && read.start != self.last_end;
        if !is_whole || self.uneven.is_some() || self.has_rows() {
            return None;
        }
        let away = read.start as i64 - self.pos as i64;
        let further = (away + away.signum()) / delta;
        let planned = (self.end - self.pos as i64) / delta;
        let is_slip = (away - further * delta).abs() == 1;
        (is_slip && (1..=planned.max(1) + 1).contains(&further)).then_some(further)
    }

    /// Its records lie where `uneven` has them.
    fn lie(&mut self, uneven: Uneven) {
        let Pattern::Strided { pages, .. } = self.pattern else { return };
        let Some(place) = uneven.place_of_last() else { return };
        // A page more at either end: where they begin is known to a page.
        let pages = pages + SLACK - 1;
        self.pattern = Pattern::Strided { delta: uneven.delta(), pages };
        (self.record_pages, self.pos, self.end) = (pages, place, place as i64);
        (self.rows, self.uneven) = (None, Some(Box::new(uneven)));
    }

    /// Strided: the pages between the record that is being read and the one before it.
    pub(crate) fn gap_behind(&self) -> Option<Extent> {
        let Pattern::Strided { delta, pages } = self.pattern else { return None };
        if self.has_rows() {
            return None;
        }
        let before = self.pos.checked_add_signed(-delta)?;
        let (low, high) = (self.page(before.min(self.pos)), self.page(before.max(self.pos)));
        // What was fetched for a record when less was known may lie a page beside it.
        let beside = u64::from(self.uneven.is_some());
        let from = low + pages + beside;
        Some(Extent::new(from, high.saturating_sub(beside).max(from)))
    }

    /// The pages that it has gone back through since this was asked for the last time, if it
    /// leaves some of them unread: of a record those in which it may have begun.
    pub(super) fn take_passed_backward(&mut self) -> Option<Extent> {
        let delta = self.uneven.as_ref()?.delta().unsigned_abs();
        let end = if self.passed == 0 { self.first + delta } else { self.passed };
        self.passed = (self.position() + delta).min(end);
        Some(Extent::new(self.passed, end))
    }

    /// The record that the stream leaves for the one that `read` lies in, unless records touch. A
    /// reader may come back and continue there: it may be one of several that began a
    /// constant distance apart (docs/decisions/0014).
    pub(crate) fn left_by(&self, read: Extent) -> Option<Extent> {
        let Pattern::Strided { delta, pages } = self.pattern else { return None };
        if self.has_rows() {
            return None;
        }
        if let Some(uneven) = &self.uneven {
            let leaves = !(uneven.last()..self.last_end).contains(&read.start);
            return (leaves && uneven.last() < self.last_end).then(|| Extent::new(uneven.last(), self.last_end));
        }
        let within = (read.start as i64 - self.pos as i64).rem_euclid(delta.abs()) as u64;
        let is_another = read.start.checked_sub(within) != Some(self.pos);
        let leaves = is_another && pages < delta.unsigned_abs() && self.last_end > self.pos;
        leaves.then(|| Extent::new(self.pos, self.last_end))
    }

    /// From now on the run is the last record that has shown a progression.
    pub(crate) fn recognise_stride(&mut self, stride: Stride) {
        let Stride { delta, pages, records, uneven } = stride;
        self.seen = pages * records;
        self.ahead = self.seen;
        self.pattern = Pattern::Strided { delta, pages };
        self.record_pages = pages;
        (self.pos, self.end) = (self.start, self.start as i64);
        self.first = (self.start as i64 - delta * (records as i64 - 1)).max(0) as u64;
        self.rows = u64::try_from(delta)
            .ok()
            .filter(|&delta| delta > pages)
            .map(|delta| Box::new(Rows::new(self.first, delta)));
        if let Some(uneven) = uneven {
            self.lie(uneven);
        }
    }

    /// Whether `read` is the second one of the next row of the progression. If so, it goes on
    /// there. If `read` goes on behind a record, the progression has no rows any more.
    pub(crate) fn begins_row(&mut self, read: Read) -> bool {
        let position = self.position();
        let (Pattern::Strided { pages, .. }, Some(rows)) = (self.pattern, &mut self.rows) else { return false };
        if rows.goes_on(read.extent, self.last_end) {
            rows.end();
            (self.pos, self.end) = (position, position as i64);
            return false;
        }
        if !rows.begins(read.extent, self.pos, pages, read.room_pages, read.others_wait) {
            return false;
        }
        self.pos = rows.first();
        self.end = self.pos as i64;
        true
    }

    /// From now on the run is one of a reader that goes backward, `pages` at a time.
    pub(crate) fn recognise_backward(&mut self, pages: u64, file_pages: u64) {
        self.from_end = self.pos == file_pages;
        let records = u64::from(self.prepended) + 1;
        self.recognise_stride(Stride::even(-(pages as i64), pages, records));
        if self.from_end {
            self.ahead = self.seen * TRUST;
        }
    }

    /// Whether it is a progression of which a second row was shown.
    pub(super) fn has_rows(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.are_shown())
    }

    /// Where `page` lies among the records of a progression.
    pub(super) fn place(&self, page: u64) -> Option<u64> {
        match (&self.rows, &self.uneven) {
            (Some(rows), _) => rows.place(page),
            (None, Some(uneven)) => uneven.place(page),
            (None, None) => Some(page),
        }
    }

    /// The page at `place`; where records are found to a page, the first one that may be of the
    /// record.
    pub(super) fn page(&self, place: u64) -> u64 {
        let of_row = self.rows.as_ref().and_then(|rows| rows.page(place));
        of_row.unwrap_or_else(|| self.apart(place as i64).max(0) as u64)
    }

    /// The page at `place` of a progression without rows, which may lie outside the file.
    pub(super) fn apart(&self, place: i64) -> i64 {
        self.uneven.as_ref().map_or(place, |uneven| uneven.page(place))
    }

    /// Of so many records ahead, those whose place is known to a page.
    pub(super) fn certain(&self, records: u64) -> u64 {
        self.uneven.as_ref().map_or(records, |uneven| records.min(uneven.certain() as u64))
    }

    /// Of the `pages` fetched for a record, the first one that its reader touches.
    pub(super) fn touched(&self, pages: u64) -> u64 {
        let may_begin = if self.uneven.is_some() { SLACK - 1 } else { 0 };
        may_begin.min((pages - 1) / 2)
    }

    /// Of the `pages` fetched for a record, those that its reader asks for.
    pub(super) fn pages_read(&self, pages: u64) -> u64 {
        if self.uneven.is_some() { pages.saturating_sub(SLACK - 1).max(1) } else { pages }
    }

    /// What the distance of its records is longer than whole pages.
    pub(super) fn fraction(&self) -> u32 {
        let distance = self.uneven.as_ref().map_or(0, |uneven| uneven.distance().unsigned_abs());
        (distance % PAGE_PARTS) as u32
    }
}

/// Factor by which a record may exceed its first length and still be a record. Lower: a record
/// that one read did not show whole ends its progression. Higher: streams that began at a constant
/// distance (five readers of five parts of a file) are read as records for longer before they are
/// forward streams. Source: a guess, not measured; `interleaved-5` is the case.
const RECORD_GROWTH_MAX: u64 = 2;
