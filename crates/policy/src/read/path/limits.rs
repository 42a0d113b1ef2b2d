//! How far ahead a stream may go, in pages: the least of what memory, the link and its share
//! allow.
//!
//! ```text
//!   memory   | reserve | partly | unread | in flight ......... |   budget
//!                               |<---------- room -----------> .  and as much as is on its way
//!
//!   room ──> at most what the link makes use of ──> level of all streams ──> one stream's limit
//!            (a disk: two of the largest parts)     (max-min fair)           (corrected)
//!            (its arm stays here: two folios)
//! ```
//!
//! What all streams want is counted again every 10 ms at most, of thousands of files less often.
//! Among many streams each needs fewer parts in parallel, and smaller ones; parts on a disk keep
//! their size (docs/decisions/0014).
//!
//! *Invariant:* a limit is at least one page and at most what the stream wants.
//!
//! The file does not measure: `residency::budget` tells how much is on its way, `queue::link` what
//! the link makes use of, `files::share` the level. Source: docs/decisions/0006, 0008, 0014, 0018,
//! 0123.

use core::ops::RangeInclusive;

use super::ReadPath;
use crate::files::pace::INTERVAL as PACE_INTERVAL;
use crate::files::sparse::Sparse;
use crate::files::streams::Active;
use crate::files::window::parts::Limits;
use crate::files::window::{AHEAD_PAGES_NEAR, PART_PAGES_MAX, PART_PAGES_MIN};
use crate::queue::arm::Busy;
use crate::queue::coalesce::GROUP_PAGES_MAX;
use crate::queue::requests::GRANT_PAGES;
use crate::residency::budget::PER_MILLE;
use crate::residency::folio::connection;
use crate::units::{Extent, FOLIO_PAGES_MAX, FileId, Nanos, PAGE_BYTES};

impl ReadPath {
    /// How far `stream` may go now.
    pub(super) fn limits(&mut self, now: Nanos, file: FileId, stream: u64, file_pages: u64) -> Limits {
        let memory = self.room_pages();
        let room = memory;
        // Readers in the middle of their folios may leave no room at all.
        let arm = if self.options.rotational { self.arm.state() } else { Busy::Not };
        let is_awaited = matches!(arm, Busy::Stays | Busy::Returns);
        let most = match self.options.rotational {
            true if arm == Busy::Stays => room.min(AHEAD_PAGES_STAYS),
            true => room.min(AHEAD_PAGES_ROTATIONAL),
            false => room,
        };
        let most = most.max(1);
        let interval = SHARES_INTERVAL.0 * (1 + self.files.len() as u64 / SHARES_FILES);
        if self.shares_at.is_none_or(|at| now.since(at).0 >= interval) {
            let since = Nanos(now.0.saturating_sub(ACTIVE.0));
            let active = Active { since, now };
            let wanted = self.files.values().flat_map(|f| {
                f.readahead.wanted(active).chain(f.layout.iter().flat_map(move |layout| layout.wanted(active)))
            });
            self.shares.set(wanted.map(|want| want.min(most)));
            self.shares_at = Some(now);
            self.budget.measure(self.requests.held_up_pages() * PAGE_BYTES);
            let (level, round) = (self.shares.level(room), self.round.number);
            let contending = self.files.values_mut().flat_map(|f| f.readahead.contending(active, level, round));
            self.round.observe(contending);
        }
        let own = self.files.get(&file).map_or(0, |f| f.ahead(stream)).clamp(1, most);
        let own = if self.is_near(file, stream, own, file_pages) { own.min(AHEAD_PAGES_NEAR) } else { own };
        let streams = self.shares.like(own);
        let is_backward = self.files.get(&file).is_some_and(|f| f.readahead.is_backward(stream));
        let (part_pages_max, is_paced) = self.part_pages_max(streams, room, is_backward);
        self.part_pages = part_pages_max;
        let read = self.files.get(&file).map_or(0, |f| f.readahead.standing(stream));
        let ahead_pages_max = own.min(self.round.share(self.shares.level(room), read)).max(1);
        // What was read as well is no gap: hits between the records of a progression are not told.
        let gap = self.files.get(&file).and_then(|f| f.readahead.gap_behind(stream));
        let is_gap = |gap| self.budget.read_in(file, gap) <= gap.pages() / 2;
        let fills_gaps = !self.options.rotational && gap.is_some_and(is_gap);
        let gone = self.files.get(&file).and_then(|f| f.readahead.gone_through(stream, SPARSE_PAGES));
        let gap_pages_max = match gone {
            Some(gone) => self.sparse_gap_pages_max(file, gone, streams),
            None if fills_gaps => self.link.gap_pages_max(),
            None => 0,
        };
        Limits {
            file_pages,
            ahead_pages_max,
            part_pages_max,
            streams,
            paced: self.options.rotational || is_paced,
            staggered: self.staggers(part_pages_max, streams, room),
            gap_pages_max,
            is_growing: fills_gaps && self.link.may_carry_more(),
            rotational: self.options.rotational,
            sorted_pages_max: if is_awaited { GROUP_PAGES_MAX } else { 0 },
            records_apart: if arm == Busy::Not { DISK_RECORDS } else { 0 },
        }
    }

    /// The longest gap of a sparse reader that is read through, where `streams` share the link.
    /// Nothing if it does not read enough of what it goes through any more.
    fn sparse_gap_pages_max(&self, file: FileId, gone: (Extent, Sparse), streams: u64) -> u64 {
        let (extent, reader) = gone;
        let most = self.link.first_byte_gap_pages() / streams;
        let is_dense = || reader.is_dense(extent.pages(), self.budget.folios_read_in(file, extent));
        if reader.gap_pages() <= most && is_dense() { most } else { 0 }
    }

    /// Takes note of whether the tier has all that `stream` would be `ahead` of its reader with.
    /// Such a stream needs little memory: its next pages are near. It needs as much as others as
    /// soon as pages come into its window that the storage has to be asked for, or the disk holds
    /// its reader up.
    fn is_near(&mut self, file: FileId, stream: u64, ahead: u64, file_pages: u64) -> bool {
        let is_held_up = self.is_held_up(file, stream);
        let Some(known) = self.files.get_mut(&file) else { return false };
        let Some(outlook) = known.readahead.outlook(stream, ahead, file_pages) else { return false };
        // At the end of the file nothing has changed.
        let is_near = !outlook.is_empty() && known.cached.covers(outlook) && !is_held_up;
        if !outlook.is_empty() {
            known.readahead.set_near(stream, is_near);
        }
        is_near
    }

    /// Pages of the largest part where `streams` share the link and may be `room` pages ahead, and
    /// whether such parts are paced: those that began together would end together, and the link
    /// would idle until the next ones have their first byte.
    ///
    /// A part whose bytes take as long as its first byte needs twice the connections that the
    /// bytes alone would. Longer parts need fewer connections and more memory. So a part may take
    /// up to four times as long as its first byte, if memory holds what is then on its way, and
    /// the link's bound of it. Where the bound is more than that, memory limits the throughput
    /// that the bound follows from: parts of that length would keep the throughput so low that
    /// they seem to fit. While a link is being filled, parts stay small: they use more
    /// connections, and a link of slow connections needs many.
    ///
    /// While it is not known what a connection carries, parts become twice as long with each round
    /// in which no less came. If longer ones carry less, there are too few of them, and that shows
    /// what each carries.
    ///
    /// Where the link is crowded, it is the link that limits the throughput, and parts that the
    /// pacer sees end within its interval may be longer.
    ///
    /// Longer parts are paced, and so are others where memory holds less than twice the bound,
    /// unless they are short: many short parts hold little more than their first bytes, and end at
    /// times of their own.
    ///
    /// A part that is read from its end on, `is_backward`, is held until all of it has come.
    fn part_pages_max(&self, streams: u64, room: u64, is_backward: bool) -> (u64, bool) {
        if self.options.rotational {
            return (PART_PAGES_MAX, true);
        }
        let Some(even) = self.link.first_byte_pages() else {
            return ((PART_PAGES_MAX / streams).max(PART_PAGES_UNKNOWN), false);
        };
        let is_known = self.link.is_bandwidth_known();
        let next = if is_known { PART_PAGES_MAX } else { self.link.carried_pages() * 2 };
        let even = if is_known { even } else { even.max(PART_PAGES_UNKNOWN.min(next)) };
        let even = even.clamp(PART_PAGES_MIN, PART_PAGES_MAX);
        let held = |part: u64| self.link.held_bytes(part, GRANT_PAGES, connection(Extent::new(0, part)), is_backward);
        let memory = self.budget.ahead_bytes_max();
        let most = match self.link.may_carry_more() {
            true if even < PART_PAGES_UNKNOWN => even,
            true => even.max(2 * PART_PAGES_UNKNOWN),
            false => (even * LONGER).min(PART_PAGES_MAX),
        };
        let most = most.min(next.max(even));
        let longer = || {
            let is_full = |part: u64| self.link.is_crowded() && self.link.delay_ns(part) <= PACE_INTERVAL.0;
            let fits = |part: u64| is_full(part) || self.link.bound_pages(part) <= room;
            powers(even, most).find(|&part| held(part) <= memory / 4 * 3 && fits(part))
        };
        let shorter = || powers(PART_PAGES_MIN, even).find(|&part| held(part) <= memory / 4 * 3);
        let least = || powers(PART_PAGES_MIN, even).min_by_key(|&part| held(part)).unwrap_or(PART_PAGES_MIN);
        let part = longer().or_else(shorter).unwrap_or_else(least);
        let part = (part / streams).max(part.min(even));
        let is_tight = part >= PACED_PAGES_MIN && self.link.bound_pages(part) > room / 2;
        (part, part > even || is_tight)
    }

    /// Whether parts of `part` pages, of `streams` that may be `room` pages ahead, differ from
    /// each other. Those of several readers that began together would end together, and the link
    /// would idle until the next ones have their first byte. It would seem to carry less than it
    /// does, and be given less.
    ///
    /// Not where memory is short: the longer ones of them would not fit. Nor where a part takes
    /// several times as long as its first byte: the link hardly idles.
    fn staggers(&self, part: u64, streams: u64, room: u64) -> bool {
        let idles = || self.link.first_byte_pages().is_some_and(|even| part <= even * STAGGERED_LONG);
        STAGGERED_STREAMS.contains(&streams)
            && !self.options.rotational
            && self.link.is_crowded()
            && self.link.bound_pages(part) <= room / 2
            && idles()
    }

    /// Whether as much is in flight as the link makes use of, or as many speculative requests as
    /// may be. What has arrived and is not read yet is no load for the link. A disk has no such
    /// limit: it serves one request at a time, so more pages mean larger requests and fewer of
    /// them.
    pub(super) fn is_speculation_full(&self) -> bool {
        let is_link_full = || self.requests.pages() >= self.link.ahead_pages_max(self.part_pages);
        self.requests.is_speculation_full(self.queue.limit()) || (!self.options.rotational && is_link_full())
    }

    /// Pages that all streams together may be ahead: what fits into memory, and what takes none
    /// yet because it is on its way.
    pub(super) fn room_pages(&self) -> u64 {
        let bytes = self.budget.ahead_bytes_max().saturating_sub(self.budget.partly_bytes());
        bytes * PER_MILLE / (PER_MILLE - self.budget.on_the_way_per_mille()) / PAGE_BYTES
    }
}

/// The powers of two from `most` down to `least`.
fn powers(least: u64, most: u64) -> impl Iterator<Item = u64> {
    (least.ilog2()..=most.ilog2()).rev().map(|power| 1 << power)
}

/// Pages behind a sparse reader that say how dense its reads are: 2 MiB. Lower: one long gap ends
/// its readahead. Higher: it goes on for longer where reads have become rare. Source: a guess, not
/// measured; sixteen folios.
const SPARSE_PAGES: u64 = 512;

/// Pages of the largest part of many streams while the link is not known: 2 MiB. Lower: parts are
/// cut so small that each waits longer for its first byte than for its bytes. Higher: the parts of
/// many streams hold more memory while they arrive. Source: at 80 MB/s and 30 ms (the testbed) 2
/// MiB take about as long as their first byte.
const PART_PAGES_UNKNOWN: u64 = 512;

/// How many streams have parts that differ. Lower, from: two readers are out of step by
/// themselves, and make more requests, 437 a GiB and not 306 behind a kernel whose windows have 4
/// MiB. Higher, to: each has one part in flight at a time, and they are spread already; 128 had
/// .91 of a link, and not all of it. Source: docs/decisions/0123.
const STAGGERED_STREAMS: RangeInclusive<u64> = 3..=96;

/// How many times as long as its first byte the bytes of a part may take. Lower: more requests for
/// the same bytes. Higher: more memory and more connections, for few requests less. Source: at 80
/// MB/s and 30 ms the largest part, which 0003 wants for a long stream.
const LONGER: u64 = 4;

/// How many times as long as its first byte a part may take that differs from those beside it.
/// Lower: readers stay in step where the link idles for a part of the time. Higher: a link that is
/// near, and does not idle, seems less crowded, and is asked for more and shorter parts: at 1 ms
/// and 80 MB/s sixteen readers make 22,256 requests, not 8,743. Source: docs/decisions/0123.
const STAGGERED_LONG: u64 = 8;

/// The least part that is paced where memory is tight, in pages: 2 MiB. Lower: of hundreds of
/// short parts only those go out in time for which an event of the file comes, and a reader at 5
/// MB/s a connection has half of its rate. Higher: parts that memory holds once, and not twice,
/// arrive together, and the link idles in between. Source: docs/decisions/0066.
const PACED_PAGES_MIN: u64 = 512;

/// Pages that a stream is ahead on a disk at most: two of the largest parts, 16 MiB. Lower:
/// requests are shorter, and more of the disk's time goes into positioning. Higher: a stream holds
/// memory that does not make its requests larger. Source: docs/decisions/0014: the disk serves one
/// long request at a time, and 8 MiB take 135 ms on hdd-w1, eighteen times a switch of 7.4 ms.
const AHEAD_PAGES_ROTATIONAL: u64 = 2 * PART_PAGES_MAX;

/// Pages that a stream is ahead on a disk whose arm stays with it and has no time to spare: 256
/// KiB. Lower: nothing is on its way while a folio is read. Higher: where the reader jumps, more
/// has been read in vain, and it waits for that. Source: docs/decisions/0096: two folios.
const AHEAD_PAGES_STAYS: u64 = 2 * FOLIO_PAGES_MAX;

/// Records of a progression wanted ahead on a disk, where they do not touch. Lower: none would be
/// on its way while one is read. Higher: what is demanded meanwhile waits for more positionings,
/// and more is read in vain where the progression ends; nothing comes sooner. Source:
/// docs/decisions/0072.
const DISK_RECORDS: u64 = 1;

/// Time without a read after which a stream no longer counts among those that share memory: 5 s.
/// Lower: a slow reader loses its share between two reads. Higher: streams that have stopped keep
/// shares from the others. Source: a guess, not measured; a reader of 100 KB/s through a mount
/// reads every 1.3 s.
const ACTIVE: Nanos = Nanos::from_millis(5_000);

/// Time between two counts of what all streams want: 10 ms. Lower: more work for each read.
/// Higher: a new stream is given its share later, and `budget`, which measures at the same time,
/// averages over a longer time. Source: a guess, not measured.
const SHARES_INTERVAL: Nanos = Nanos::from_millis(10);

/// Files that are counted in that time; more take as many times as long. Lower: shares of many
/// files are older. Higher: of 16,384 files each reference costs three times what one of sixteen
/// does, since all are counted again and again. Source: `examples/reference_cost.rs`.
const SHARES_FILES: u64 = 1_024;
