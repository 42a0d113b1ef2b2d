//! How far ahead a stream may go, in pages: the least of what memory, the link and its share
//! allow.
//!
//! ```text
//!   memory   | reserve | partly | unread | in flight ......... |   budget
//!                               |<---------- room -----------> .  and as much as is on its way
//!
//!   room ──> at most what the link makes use of ──> level of all streams ──> one stream's limit
//!            (a disk: two of the largest parts)     (max-min fair)           (corrected)
//! ```
//!
//! What all streams want is counted again every 10 ms at most. Among many streams each needs fewer
//! parts in parallel, and smaller ones; parts on a disk keep their size (docs/decisions/0014).
//!
//! *Invariant:* a limit is at least one page and at most what the stream wants.
//!
//! The file does not measure: `residency::budget` tells how much is on its way, `queue::link` what
//! the link makes use of, `files::share` the level. Source: docs/decisions/0006, 0008, 0014, 0018.

use super::ReadPath;
use crate::files::window::{Limits, PART_PAGES_MAX};
use crate::residency::budget::PER_MILLE;
use crate::units::{FileId, Nanos, PAGE_BYTES};

impl ReadPath {
    /// How far `stream` may go now.
    pub(super) fn limits(&mut self, now: Nanos, file: FileId, stream: u64, file_pages: u64) -> Limits {
        let room = self.room_pages().min(self.ahead_pages_max(PART_PAGES_MAX));
        // Readers in the middle of their folios may leave no room at all.
        let most = if self.options.rotational { room.min(AHEAD_PAGES_ROTATIONAL) } else { room }.max(1);
        if self.shares_at.is_none_or(|at| now.since(at) >= SHARES_INTERVAL) {
            let since = Nanos(now.0.saturating_sub(ACTIVE.0));
            self.shares.set(self.files.values().flat_map(|f| f.readahead.wanted(since)).map(|want| want.min(most)));
            self.shares_at = Some(now);
            self.resident.measure();
            let (level, round) = (self.shares.level(room), self.round.number);
            let contending = self.files.values_mut().flat_map(|f| f.readahead.contending(since, level, round));
            self.round.observe(contending);
        }
        let own = self.files.get(&file).map_or(0, |f| f.readahead.ahead(stream)).clamp(1, most);
        let streams = self.shares.like(own);
        let shared = if self.options.rotational { PART_PAGES_MAX } else { PART_PAGES_SHARED };
        let part_pages_max = (PART_PAGES_MAX / streams).max(shared);
        let room = room.min(self.ahead_pages_max(part_pages_max));
        let read = self.files.get(&file).map_or(0, |f| f.readahead.standing(stream));
        let ahead_pages_max = own.min(self.round.share(self.shares.level(room), read)).max(1);
        Limits { file_pages, ahead_pages_max, part_pages_max, streams, rotational: self.options.rotational }
    }

    /// Pages that are worth having ahead in requests of `part_pages`. A disk has no such limit: it
    /// serves one request at a time, so more pages ahead mean larger requests and fewer of them.
    fn ahead_pages_max(&self, part_pages: u64) -> u64 {
        if self.options.rotational { u64::MAX } else { self.link.ahead_pages_max(part_pages) }
    }

    /// Pages that all streams together may be ahead: what fits into memory, and what takes none
    /// yet because it is on its way.
    fn room_pages(&self) -> u64 {
        let bytes = self.resident.ahead_bytes_max().saturating_sub(self.resident.partly_bytes());
        bytes * PER_MILLE / (PER_MILLE - self.resident.on_the_way_per_mille()) / PAGE_BYTES
    }
}

/// Pages of the least limit that the number of streams sets to a part: 2 MiB. With more than four
/// streams parts are no larger. Not used on a disk. Lower: parts are cut so small that each waits
/// longer for its first byte than for its bytes. Higher: the parts of many streams hold more
/// memory while they arrive. Source: derived, not measured apart: at 80 MB/s and 30 ms (the
/// testbed) 2 MiB take about as long as their first byte.
const PART_PAGES_SHARED: u64 = 512;

/// Pages that a stream is ahead on a disk at most: two of the largest parts, 16 MiB. Lower:
/// requests are shorter, and more of the disk's time goes into positioning. Higher: a stream holds
/// memory that does not make its requests larger. Source: docs/decisions/0014: the disk serves one
/// long request at a time, and 8 MiB take 135 ms on hdd-w1, eighteen times a switch of 7.4 ms.
const AHEAD_PAGES_ROTATIONAL: u64 = 2 * PART_PAGES_MAX;

/// Time without a read after which a stream no longer counts among those that share memory: 5 s.
/// Lower: a slow reader loses its share between two reads. Higher: streams that have stopped keep
/// shares from the others. Source: a guess, not measured; a reader of 100 KB/s through a mount
/// reads every 1.3 s.
const ACTIVE: Nanos = Nanos::from_millis(5_000);

/// Time between two counts of what all streams want: 10 ms. Lower: more work for each read.
/// Higher: a new stream is given its share later, and `budget`, which measures at the same time,
/// averages over a longer time. Source: a guess, not measured.
const SHARES_INTERVAL: Nanos = Nanos::from_millis(10);
