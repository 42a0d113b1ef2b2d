//! Waits: the reads that wait, and what each of them waits for.
//!
//! ```text
//!                 linked with the requests that bring it
//!   told ──> lacking ──(a request of it has its turn)──> wanting ──(memory for all)──> ready
//!               ^                                           │                            │
//!               └──── what it stood on was evicted ─────────┘        answered ──> over <─┘
//! ```
//!
//! A read is *lacking* while a page of it has no memory: the page is absent, or in flight and not
//! granted. A lacking read holds nothing: its resident pages may be evicted. If it kept them,
//! reads that have some of their pages would wait for each other's memory for ever. A *wanting*
//! read is a lacking one with a request that could go on at once if it had memory; the oldest of
//! those is next. A *ready* read has memory for all its pages, and keeps them until it is
//! answered.
//!
//! *Invariants:* a lacking read is linked with at least one request that is not over, or is about
//! to be checked. A ready read is linked with none. A wanting read is lacking.
//!
//! The file does not know folios, requests or memory: `read::path::answer` does. Source:
//! docs/decisions/0043.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::units::{Extent, FileId, ReadId, RequestId};

/// A read that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) file: FileId,
    /// The pages that it is answered with.
    pub(crate) extent: Extent,
    /// It has memory for all of them.
    pub(crate) ready: bool,
}

/// A read, and the requests that it is linked with.
#[derive(Debug)]
struct Linked {
    wait: Wait,
    requests: Vec<RequestId>,
}

/// All reads that wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// In the order in which they were told.
    reads: BTreeMap<ReadId, Linked>,
    /// Each lacking read, with each request that brings pages for which it has no memory.
    links: BTreeSet<(RequestId, ReadId)>,
    wanting: BTreeSet<ReadId>,
    /// Each read with its file.
    of_file: BTreeSet<(FileId, ReadId)>,
}

impl Waits {
    /// A read waits from now on, for all its pages.
    pub(crate) fn insert(&mut self, read: ReadId, file: FileId, extent: Extent) {
        let linked = Linked { wait: Wait { file, extent, ready: false }, requests: Vec::new() };
        self.of_file.insert((file, read));
        let before = self.reads.insert(read, linked);
        debug_assert!(before.is_none(), "{read:?} waits already");
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.reads.len()
    }

    /// The read, if it waits and is not ready.
    pub(crate) fn lacking(&self, read: ReadId) -> Option<Wait> {
        self.reads.get(&read).map(|linked| linked.wait).filter(|wait| !wait.ready)
    }

    /// Cuts a lacking read to `extent`.
    pub(crate) fn cut(&mut self, read: ReadId, extent: Extent) {
        if let Some(linked) = self.reads.get_mut(&read) {
            linked.wait.extent = extent;
        }
    }

    /// `request` brings pages that `read` has no memory for. `false` if that was known.
    pub(crate) fn link(&mut self, read: ReadId, request: RequestId) -> bool {
        let Some(linked) = self.reads.get_mut(&read) else { return false };
        let is_new = self.links.insert((request, read));
        if is_new {
            linked.requests.push(request);
        }
        is_new
    }

    /// Whether lacking reads wait for `request`.
    pub(crate) fn has(&self, request: RequestId) -> bool {
        self.of(request).next().is_some()
    }

    /// The lacking reads that wait for `request`, the oldest first.
    pub(crate) fn of(&self, request: RequestId) -> impl Iterator<Item = ReadId> {
        self.links.range((request, ReadId(0))..=(request, ReadId(u64::MAX))).map(|&(_, read)| read)
    }

    /// `request` is over. Returns the lacking reads that waited for it.
    pub(crate) fn over(&mut self, request: RequestId) -> Vec<ReadId> {
        let reads: Vec<ReadId> = self.of(request).collect();
        for read in &reads {
            self.links.remove(&(request, *read));
            if let Some(linked) = self.reads.get_mut(read) {
                linked.requests.retain(|&other| other != request);
            }
        }
        reads
    }

    /// `read` could use memory at once.
    pub(crate) fn want(&mut self, read: ReadId) {
        if self.lacking(read).is_some() {
            self.wanting.insert(read);
        }
    }

    /// The lacking reads that wait for `request` could use memory at once.
    pub(crate) fn want_of(&mut self, request: RequestId) {
        let all = (request, ReadId(0))..=(request, ReadId(u64::MAX));
        self.wanting.extend(self.links.range(all).map(|&(_, read)| read));
    }

    /// None of the requests of `read` could use memory now.
    pub(crate) fn unwant(&mut self, read: ReadId) {
        self.wanting.remove(&read);
    }

    /// The oldest read that could use memory at once.
    pub(crate) fn first_wanting(&self) -> Option<ReadId> {
        self.wanting.first().copied()
    }

    /// There is memory for all of `read`. Returns it, and the requests that it was linked with.
    pub(crate) fn ready(&mut self, read: ReadId) -> Option<(Wait, Vec<RequestId>)> {
        let linked = self.reads.get_mut(&read).filter(|linked| !linked.wait.ready)?;
        linked.wait.ready = true;
        let (wait, requests) = (linked.wait, core::mem::take(&mut linked.requests));
        self.lacks_no_more(read, &requests);
        Some((wait, requests))
    }

    /// `read` waits no longer. Returns it, and the requests that it was linked with.
    pub(crate) fn remove(&mut self, read: ReadId) -> Option<(Wait, Vec<RequestId>)> {
        let Linked { wait, requests } = self.reads.remove(&read)?;
        self.of_file.remove(&(wait.file, read));
        if !wait.ready {
            self.lacks_no_more(read, &requests);
        }
        Some((wait, requests))
    }

    fn lacks_no_more(&mut self, read: ReadId, requests: &[RequestId]) {
        self.wanting.remove(&read);
        for &request in requests {
            self.links.remove(&(request, read));
        }
    }

    /// Whether a read of `file` waits.
    pub(crate) fn has_file(&self, file: FileId) -> bool {
        self.of_file.range((file, ReadId(0))..=(file, ReadId(u64::MAX))).next().is_some()
    }

    /// The reads of `file` that wait for some of `extent`.
    pub(crate) fn within(&self, file: FileId, extent: Extent) -> Vec<(ReadId, Wait)> {
        self.overlapping(file, extent).collect()
    }

    /// Whether there are any.
    pub(crate) fn has_within(&self, file: FileId, extent: Extent) -> bool {
        self.overlapping(file, extent).next().is_some()
    }

    fn overlapping(&self, file: FileId, extent: Extent) -> impl Iterator<Item = (ReadId, Wait)> {
        let of_file = self.of_file.range((file, ReadId(0))..=(file, ReadId(u64::MAX)));
        let waits = of_file.filter_map(|&(_, read)| Some((read, self.reads.get(&read)?.wait)));
        waits.filter(move |(_, wait)| wait.extent.overlaps(extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);

    fn waits(reads: u64) -> Waits {
        let mut waits = Waits::default();
        (0..reads).for_each(|read| waits.insert(ReadId(read), FILE, Extent::new(read * 8, read * 8 + 8)));
        waits
    }

    #[test]
    fn the_oldest_read_that_could_use_memory_is_first() {
        let mut waits = waits(3);
        assert_eq!(waits.first_wanting(), None);
        waits.want(ReadId(2));
        waits.want(ReadId(1));
        assert_eq!(waits.first_wanting(), Some(ReadId(1)));
        waits.ready(ReadId(1));
        assert_eq!(waits.first_wanting(), Some(ReadId(2)));
        waits.want(ReadId(1));
        assert_eq!(waits.first_wanting(), Some(ReadId(2)), "a ready read wants nothing");
        waits.remove(ReadId(2));
        assert_eq!(waits.first_wanting(), None);
    }

    #[test]
    fn a_read_is_linked_until_it_is_ready_or_the_request_is_over() {
        let mut waits = waits(3);
        for (read, request) in [(0, 7), (0, 8), (1, 7), (2, 7), (0, 7)] {
            waits.link(ReadId(read), RequestId(request));
        }
        waits.ready(ReadId(1));
        assert_eq!(waits.over(RequestId(7)), [ReadId(0), ReadId(2)]);
        assert!(!waits.has(RequestId(7)) && waits.has(RequestId(8)));
        waits.remove(ReadId(0));
        assert!(!waits.has(RequestId(8)));
    }

    #[test]
    fn the_reads_of_a_part_of_a_file_are_found() {
        let waits = waits(4);
        let found = waits.within(FILE, Extent::new(9, 17)).into_iter().map(|(read, _)| read.0);
        assert_eq!(found.collect::<Vec<_>>(), [1, 2]);
        assert!(waits.within(FileId(2), Extent::new(0, 100)).is_empty());
    }
}
