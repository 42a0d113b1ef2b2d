//! Where pages come from that the tier has: from there, or from the storage although it has them.
//!
//! ```text
//!   demand        the disk would take clearly longer than the storage ──> the storage
//!   speculation   the disk has as much as it is given at a time, or is late as well
//!                   └── the reader has waited, and the link is faster ──> the storage
//!                   └── else ──> its turn at the disk
//! ```
//!
//! A request of the storage costs more than one of a disk: money, the time of others, memory while
//! it is on its way. So the storage is asked only where a disk holds readers up. A stream for
//! which that is so is as far ahead as one of the storage; then the disk and the link each carry
//! what they can.
//!
//! *Invariant:* pages that the tier does not have come from the storage.
//!
//! The file does not measure (`queue::disk`, `queue::link`). Source: docs/decisions/0075, 0078.

use super::ReadPath;
use crate::queue::link::transfer_ns;
use crate::queue::requests::{GRANT_PAGES, grant_from};
use crate::residency::folio::Ahead;
use crate::units::{Extent, FileId, Nanos, Source};

impl ReadPath {
    /// The pages at the start of `hole` that come from one source by one request, and that.
    pub(super) fn first_part(&self, file: FileId, hole: Extent) -> (Extent, Source) {
        match self.files.get(&file).map_or((hole, Source::Storage), |known| known.cached.first_part(hole)) {
            (part, Source::Tier) => (grant_from(part, part.start), Source::Tier),
            (part, Source::Storage) => (part, Source::Storage),
        }
    }

    /// The same, of what a reader waits for.
    pub(super) fn demanded_part(&self, file: FileId, hole: Extent) -> (Extent, Source) {
        let (part, source) = self.first_part(file, hole);
        if source == Source::Tier && self.is_disk_late(part.pages()) {
            return (hole, Source::Storage);
        }
        (part, source)
    }

    /// Whether as many speculative requests are with the tier as its disk is given at a time.
    pub(super) fn is_tier_full(&self) -> bool {
        self.requests.is_tier_full(self.disk.depth())
    }

    /// Whether what is read `ahead` of `file` comes from the storage although the tier has it.
    pub(super) fn passes_tier(&self, file: FileId, ahead: Ahead) -> bool {
        let Ahead::Stream(stream) = ahead else { return false };
        self.is_held_up(file, stream) && (self.is_tier_full() || self.is_disk_late(GRANT_PAGES))
    }

    /// Whether a reader would have `pages` clearly sooner from the storage.
    fn is_disk_late(&self, pages: u64) -> bool {
        let is_late = || self.disk.delay_ns(self.now) > self.storage_ns(pages) / 2 * LATER;
        self.options.bypass && !self.queue.must_wait() && is_late()
    }

    /// Whether the reader of `stream` has waited lately, and requests as the disk has them take
    /// more of its time than they would of the link's.
    pub(super) fn is_held_up(&self, file: FileId, stream: u64) -> bool {
        let since = Nanos(self.now.0.saturating_sub(HELD_UP.0));
        let has_waited = || self.files.get(&file).is_some_and(|f| f.has_waited(stream, since));
        let is_slower = |(bytes, disk_ns)| disk_ns > self.storage_service_ns(bytes);
        self.options.bypass && self.disk.service().is_some_and(is_slower) && has_waited()
    }

    /// The time that the storage takes for `pages`.
    fn storage_ns(&self, pages: u64) -> u64 {
        if self.link.is_measured() { self.link.delay_ns(pages) } else { STORAGE_NS }
    }

    /// The time of the link that a request for `bytes` takes, or is thought to.
    fn storage_service_ns(&self, bytes: u64) -> u64 {
        let known = self.link.bytes_per_s();
        let rate = if known == 0 || self.link.is_growing() { known.max(STORAGE_BYTES_PER_S) } else { known };
        // As many small requests as are made in that time are under way at once.
        self.link.request_ns().max(transfer_ns(bytes, rate))
    }
}

/// How much longer than the storage a disk takes where readers are sent past it: half as long
/// again, in halves. Lower: what the disk has is fetched again for little, since the storage is
/// known by its least latency and takes longer mostly. Higher: readers wait for a busy disk; 64
/// random readers of one that spins took 4.2 s, and 5.1 s with four halves, where those of the
/// storage alone took 3.1. Source: `crates/sim/tests/tiers.rs`.
const LATER: u64 = 3;

/// How long a reader that has waited counts as held up: 1 s. Lower: a stream that the disk and the
/// link feed goes back to the disk alone between two waits. Higher: one that has waited for
/// another reason asks for more of the storage. Source: a guess, not measured.
const HELD_UP: Nanos = Nanos::from_millis(1_000);

/// The time that a storage takes of which nothing is known, in ns: 30 ms. Lower: the storage is
/// asked, once, on behalf of a disk that is not that busy. Higher: readers wait for a busy disk
/// until something else was fetched. Source: object stores, 15 to 200 ms.
const STORAGE_NS: u64 = 30_000_000;

/// What a storage carries of which nothing is known, in bytes a second: 256 MB/s. Lower: a disk of
/// the least rate that clouds sell holds readers up until something else was fetched. Higher: of a
/// faster disk's content, some is fetched to find out. Source: 125 MB/s of such disks, and 2
/// Gbit/s of the smallest machines.
const STORAGE_BYTES_PER_S: u64 = 256_000_000;
