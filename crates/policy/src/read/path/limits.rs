//! How far ahead a stream may go, by memory, by the link and by how many streams share them.

use super::ReadPath;
use crate::files::window::{Limits, PART_PAGES_MAX};
use crate::residency::budget::PER_MILLE;
use crate::units::{FileId, Nanos, PAGE_BYTES};

impl ReadPath {
    /// How far `stream` may go. Among many streams each needs fewer parts in parallel, and smaller ones, of which less is worth
    /// having.
    pub(super) fn limits(&mut self, now: Nanos, file: FileId, stream: u64, file_pages: u64) -> Limits {
        let room = self.room_pages().min(self.ahead_pages_max(PART_PAGES_MAX));
        let most = if self.options.rotational { room.min(AHEAD_PAGES_ROTATIONAL) } else { room };
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

    /// The most pages that are worth having ahead in requests of `part_pages`. No number is too large where each request keeps all others
    /// waiting: the larger they are, the fewer.
    fn ahead_pages_max(&self, part_pages: u64) -> u64 {
        if self.options.rotational { u64::MAX } else { self.link.ahead_pages_max(part_pages) }
    }

    /// How far ahead all streams together may be, in pages: what fits into memory, and what takes none because it is on its way.
    fn room_pages(&self) -> u64 {
        let bytes = self.resident.ahead_bytes_max().saturating_sub(self.resident.partly_bytes());
        bytes * PER_MILLE / (PER_MILLE - self.resident.on_the_way_per_mille()) / PAGE_BYTES
    }
}

/// The largest part where many streams share a link: 2 MiB, which takes about as long to come as its first byte.
const PART_PAGES_SHARED: u64 = 512;

/// The furthest that a stream is ahead on a disk: two of the largest parts. One of them takes fifteen times as long as going there,
/// and a disk serves no two at a time.
const AHEAD_PAGES_ROTATIONAL: u64 = 2 * PART_PAGES_MAX;

/// A stream counts among those that share memory until it has not been read for this long.
const ACTIVE: Nanos = Nanos::from_millis(5_000);

/// What all streams want is looked at anew at most this often.
const SHARES_INTERVAL: Nanos = Nanos::from_millis(10);
